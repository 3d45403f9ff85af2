/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Puts the entry and return programs on many places of one file, by one of three mechanisms.
 * Nobody else knows how they differ. Runs in cudatrace-links (links.h), for it may hang.
 */
#ifndef ATTACH_PROBE_PROBES_H
#define ATTACH_PROBE_PROBES_H

#include "mechanism.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Descriptors. */
struct probe_progs {
	int session;	/* MECH_SESSION */
	int entry, ret; /* the others */
};

/* Where: offsets in the file that path names, each with its cookie. */
struct probe_req {
	const char *path;
	const uint64_t *offs, *cookies;
	unsigned cnt;
	pid_t pid;	 /* only in this process; 0: in all */
	bool entry_only; /* only the entry program (a session's asks for no return by itself) */
};

/* What is attached: descriptors; probes__detach() takes it off. */
struct probes {
	int *fds;
	unsigned fd_cnt;
};

/*
 * Attaches to every place; refused[i] is set for those whose instruction the kernel cannot probe
 * (it says so only while the file is mapped somewhere: see links_run.c). Returns how many are
 * attached, or -errno when the mechanism itself failed (-EPERM, -ENOENT, ...): nothing is attached
 * then. p begins as zeros; a second call adds to it.
 */
int probes__attach(struct probes *p, enum mechanism mech, const struct probe_progs *progs,
		   const struct probe_req *req, bool *refused);
/* One of them: on kernel 6.18 a perf event takes 0.1 s, one after another whoever closes them.
 * false: there was none. */
bool probes__detach_one(struct probes *p);
void probes__detach(struct probes *p);

/* Attach types for bpf_program__set_expected_attach_type(); kernel ABI. */
int probes_attach_type(enum mechanism mech);

#endif /* ATTACH_PROBE_PROBES_H */
