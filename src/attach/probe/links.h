/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process of ours, cudatrace-links, creates and closes links (probes in a file). For both, the
 * kernel waits uninterruptibly for the memory lock of every process that maps the file, and such a
 * process may never release it. Also, closing a thousand perf events takes a minute. A request
 * waits one second without progress (TIMEOUT_MS). After that it continues in the background, and
 * its answer is fetched later. A second such process would not help: all probes of the machine wait
 * for one lock (dup_mmap_sem), and so does every fork(). So the process first checks whether the
 * kernel would have to wait (mmap_lock.h), and does other work meanwhile.
 *
 * The process holds the links. When the tracer ends in any way, it closes them and exits. So
 * nothing stays behind, but it may outlive the tracer. It closes all other inherited descriptors.
 */
#ifndef ATTACH_PROBE_LINKS_H
#define ATTACH_PROBE_LINKS_H

#include "mmap_lock.h"
#include "mechanism.h"
#include "probes.h"

#include "ct_spec.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct links_shared;
struct late_answer;

struct links {
	pid_t pid; /* 0: none */
	int sock;
	unsigned late_cnt;	  /* answers that did not arrive in time */
	struct late_answer *late; /* those that have arrived since */
	struct waiter self;	  /* at the last check */
	bool perf;		  /* the last request was for perf events */
	bool patient;		  /* a command is stopped, and nothing is traced yet */
	bool closing, closed;
	struct links_shared *shared;
};

/* Order of the sites: with return probe, then without; in each, those that the kernel may refuse
 * come last (elf.h: suspect). */
enum links_group {
	LINKS_RETURN,
	LINKS_RETURN_SUSPECT,
	LINKS_ENTRY,
	LINKS_ENTRY_SUSPECT,
	LINKS_GROUP_CNT
};

struct links_req {
	unsigned owner; /* owner of the links; a number */
	enum mechanism mech;
	struct probe_progs progs;
	int file_fd;
	const uint64_t *offs, *cookies;
	unsigned cnt, group_cnt[LINKS_GROUP_CNT];
	pid_t pid; /* 0: all */
};

struct links_answer {
	unsigned owner;
	int ret; /* number of probed sites, or -errno: none */
	uint64_t took_ns;
	bool refused[CT_MAX_FUNCS]; /* refused by the kernel, in the order of the request */
	bool changed[CT_MAX_FUNCS]; /* not probed: a process has changed the code */
	pid_t changed_by;
};

/* sandbox: it drops privileges that it does not need, once they are known. Returns 0 or -errno. */
int links__start(struct links *l, bool sandbox);
/* No other mechanism will be used. */
void links__settle(struct links *l, enum mechanism mech);
/* Ends the process and its links. Waits for it only if the links are already closed. */
void links__end(struct links *l);

/* Returns 0: *answer is set; -EINPROGRESS: links__next() will return it; -EPIPE: the process was
 * killed; -errno. */
int links__attach(struct links *l, const struct links_req *r, struct links_answer *answer);
/* Fetches a late answer. Returns false if there is none. */
bool links__next(struct links *l, struct links_answer *answer);
/* Returns whether the process ended without a request to close all. */
bool links__is_gone(const struct links *l);
/* Returns the process that is waited for: the holder of a lock, or a suspected one. 0: unknown. */
pid_t links__holder(const struct links *l);

/* Closes an owner's links. Returns 0; -EINPROGRESS: continues in the background; -errno. */
int links__close(struct links *l, unsigned owner);
/* Closes them later, when the process is idle. */
void links__close_soon(struct links *l, unsigned owner);
/* Closes all links; nothing can be attached after that. Returns false if it continues in the
 * background. */
bool links__close_all(struct links *l, enum mechanism mech);

#endif /* ATTACH_PROBE_LINKS_H */
