/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by attach.c, attach_cost.c and attach_threads.c only. */
#ifndef ATTACH_PRIV_H
#define ATTACH_PRIV_H

#include "attach.h"
#include "layer.h"
#include "probes.h"

#include <bpf/libbpf.h>

#include "cudatrace.skel.h"

struct lib_entry {
	struct attach_lib lib;
	struct probes probes;
	struct layer_file file;
	int ret; /* what attaching said */
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
	unsigned lib_cnt;
};

/* levels.c: sizes of the tables of counts. Before loading. */
void levels__prepare(struct cudatrace_bpf *skel, struct ct_cfg *cfg, const struct attach_opts *o);
/* levels.c: specs of the functions that the kernel does not have yet. */
int levels__fill(struct attach *a);

#endif /* ATTACH_PRIV_H */
