/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Attaches the entry and return programs to many sites of one file. Hides the differences between
 * the three mechanisms. Runs in cudatrace-links (links.h), because it may block.
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

/* Where: offsets in the file at path, each with its cookie. */
struct probe_req {
	const char *path;
	const uint64_t *offs, *cookies;
	unsigned cnt;
	pid_t pid;	 /* only in this process; 0: in all */
	bool entry_only; /* only the entry program (a session program skips the return by itself) */
};

/* Attached links; probes__detach() closes them. */
struct probes {
	struct {
		int fd;
		bool is_return;
	} * links;
	unsigned cnt;
};

/*
 * Attaches to every site. Sets refused[i] for sites whose instruction the kernel cannot probe
 * (detected only while the file is mapped somewhere: see links_run.c). Returns how many are
 * attached, or -errno if the mechanism itself failed (-EPERM, -ENOENT, ...); then nothing is
 * attached. p begins as zeros; a second call adds to it.
 */
int probes__attach(struct probes *p, enum mechanism mech, const struct probe_progs *progs,
		   const struct probe_req *req, bool *refused);
/* Closes one link: on kernel 6.18 a perf event takes 0.1 s, and concurrent closing does not help
 * (it does for the other mechanisms: links_close.c). Returns false if there was none. */
bool probes__detach_one(struct probes *p);
/* Moves at most max links of one kind to fds, for the caller to close: entries before returns.
 * Otherwise a call that begins meanwhile would seem never to return. Returns their number. */
unsigned probes__take(struct probes *p, bool returns, int *fds, unsigned max);
void probes__detach(struct probes *p);

/* Attach types for bpf_program__set_expected_attach_type(); kernel ABI. */
int probes_attach_type(enum mechanism mech);

#endif /* ATTACH_PROBE_PROBES_H */
