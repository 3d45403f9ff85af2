/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by attach*.c only. */
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
	enum ct_hide hide;
	unsigned spec_cnt; /* functions whose spec the kernel has */
	int *ring_fds;	   /* one for each processor */
	unsigned ring_cnt;
	size_t ring_sz; /* of each */
	struct lib_entry **libs;
	unsigned lib_cnt;
};

/* attach.c: says why the kernel did not take the programs or the maps. */
void attach__load_error(int ret);
/* attach_rings.c. rings__make() reports its errors. total: bytes of all together. */
int rings__make(struct attach *a, uint64_t total);
int rings__use(const struct attach *a);
void rings__close(struct attach *a);

/* levels.c: sizes of the tables of counts. Before loading. */
void levels__prepare(struct cudatrace_bpf *skel, struct ct_cfg *cfg, const struct attach_opts *o);
/* levels.c: specs of the functions that the kernel does not have yet. */
int levels__fill(struct attach *a);
/* What the kernel was told to read of a function. */
int levels__spec(struct attach *a, uint32_t id, struct ct_spec *spec);

#endif /* ATTACH_PRIV_H */
