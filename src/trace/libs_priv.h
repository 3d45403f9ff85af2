/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by libs.c, which follows mappings, and libs_start.c. */
#ifndef TRACE_LIBS_PRIV_H
#define TRACE_LIBS_PRIV_H

#include "libs.h"

#include "attach/find/target.h"

/* Result of inspecting files. */
struct lib_state {
	bool missing; /* there is no such file at that path any more */
	bool late;    /* libs__tick() reports the result */
	bool hangs;   /* its filesystem or its process does not respond */
	int error;    /* -errno of any other failure; -ENOSPC: a limit rejected it; -ETXTBSY: it is
			 open for writing */
};

/* A library event about a mapping, or a file (lib), or both. */
void libs_event(struct libs *l, const char *op, const struct ct_lib_map *rec,
		const struct attach_lib *lib, const char *note);
/* NULL: it is not traced; f has the reason, added to earlier ones. */
const struct attach_lib *libs_attach_one(struct libs *l, const struct target_lib *t,
					 struct lib_state *f);
/* libs__tick() tries again. */
void libs_put_off(struct libs *l, const struct ct_lib_map *rec);
/* Inspects processes for which there was no time when the daemon started. */
void libs_look_at_later(struct libs *l, uint64_t now);

#endif /* TRACE_LIBS_PRIV_H */
