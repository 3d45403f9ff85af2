/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by attach.c, attach_*.c and levels.c only. */
#ifndef ATTACH_PRIV_H
#define ATTACH_PRIV_H

#include "attach.h"
#include "layer.h"
#include "probes.h"

#include "util/quota.h"

#include <bpf/libbpf.h>

#include "cudatrace.skel.h"

struct lib_entry {
	struct attach_lib lib;
	struct probes probes;
	struct layer_file file;
	int ret;			/* what attaching said */
	uid_t uid;			/* of who mapped it first; root for those of the machine */
	uint8_t held[CT_MAX_FUNCS / 8]; /* ids of functions that the table has not */
};

struct attach {
	struct cudatrace_bpf *skel;
	struct probe_progs progs;
	enum mechanism mech;
	enum kernel_probe kernel_probe;
	struct fnset *fns;
	pid_t only_pid;
	enum attach_hide hide;
	unsigned spec_cnt; /* functions whose spec the kernel has */
	struct lib_entry **libs;
	unsigned lib_cnt, newest_lib;
	struct quotas *quotas;
};

/* attach_libs.c. NULL: none, no room. */
struct lib_entry *attach_lib__find(const struct attach *a, const struct ct_lib_key *key);
struct lib_entry *attach_lib__add(struct attach *a, const struct target_lib *t);
struct elf_lib;
void attach_lib__take_ids(struct attach *a, struct lib_entry *e, const struct elf_lib *elf);
void attach_lib__free(struct lib_entry *e);

/* levels.c: specs of the functions that the kernel does not have yet. */
int levels__fill(struct attach *a);
/* Of one that was another's. */
int levels__refill(struct attach *a, unsigned func_id);

#endif /* ATTACH_PRIV_H */
