/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Library files that were rejected because a limit was reached: they are not tried again for a
 * while. */
#ifndef TRACE_REFUSED_LIBS_H
#define TRACE_REFUSED_LIBS_H

#include "ct_bpf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define REFUSED_LIBS_MAX 256

/* Begins as zeros. */
struct refused_libs {
	struct refused_lib {
		struct ct_lib_key key;
		uid_t uid;
		uint64_t until_ns;
	} libs[REFUSED_LIBS_MAX];
};

/* Replaces a user's oldest entry once the user has an eighth of them. When all entries are in use
 * nothing is stored. */
void refused_libs__add(struct refused_libs *r, const struct ct_lib_key *key, uid_t uid,
		       uint64_t now);
bool refused_libs__has(const struct refused_libs *r, const struct ct_lib_key *key, uint64_t now);

#endif /* TRACE_REFUSED_LIBS_H */
