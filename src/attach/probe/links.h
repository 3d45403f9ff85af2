/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Links (probes in a file) are made and closed by a process of ours, cudatrace-links: the kernel
 * waits in both for the memory lock of every process that maps the file, uninterruptibly, and one
 * that holds it may never let go. Closing a thousand perf events takes a minute, too. Who asks
 * waits a second; what takes longer goes on by itself, and its answer is had later. There is one
 * such process and not a second in its place: all probes of the machine wait for the same lock
 * (dup_mmap_sem), so another would wait behind the first. And so does every fork(): it looks first
 * whether the kernel would have to wait (mmap_lock.h), and then does something else meanwhile.
 *
 * It holds the links. When the tracer is gone, however it ended, it closes them and ends; so
 * nothing stays behind, but it may take longer than the tracer. It lets go of whatever else it got.
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
	unsigned late_cnt;	  /* answers that did not come in time */
	struct late_answer *late; /* those that have come since */
	struct waiter self;	  /* at the last look */
	bool perf;		  /* the last request was for perf events */
	bool closing, closed;
	struct links_shared *shared;
};

/* Places come in this order: whose return is looked at, and whose is not; each with those behind
 * that the kernel may well refuse (elf.h: suspect). */
enum links_group {
	LINKS_RETURN,
	LINKS_RETURN_SUSPECT,
	LINKS_ENTRY,
	LINKS_ENTRY_SUSPECT,
	LINKS_GROUP_CNT
};

struct links_req {
	unsigned owner; /* whose the links are; a number */
	enum mechanism mech;
	struct probe_progs progs;
	int file_fd;
	const uint64_t *offs, *cookies;
	unsigned cnt, group_cnt[LINKS_GROUP_CNT];
	pid_t pid; /* 0: all */
};

struct links_answer {
	unsigned owner;
	int ret; /* how many places have a probe, or -errno: none has */
	uint64_t took_ns;
	bool refused[CT_MAX_FUNCS]; /* by the kernel, in the order of the request */
};

/* sandbox: it gives up what it does not need, when that is known. 0 or -errno. */
int links__start(struct links *l, bool sandbox);
/* No other mechanism will be asked for. */
void links__settle(struct links *l, enum mechanism mech);
/* Its links go. Waits for it only when they are gone already. */
void links__end(struct links *l);

/* 0: *answer is there; -EINPROGRESS: links__next() will have it; -EPIPE: somebody has ended the
 * process; -errno. */
int links__attach(struct links *l, const struct links_req *r, struct links_answer *answer);
/* An answer that was late; false: none has come. */
bool links__next(struct links *l, struct links_answer *answer);
/* Without having been told to close all. */
bool links__is_gone(const struct links *l);
/* The process that is waited for: the one that holds a lock, or is suspected to. 0: unknown. */
pid_t links__holder(const struct links *l);

/* Takes an owner's off. 0, -EINPROGRESS: it goes on; -errno. */
int links__close(struct links *l, unsigned owner);
/* The same when there is nothing else to do. */
void links__close_soon(struct links *l, unsigned owner);
/* Takes all off; nothing can be attached after that. false: not done in time; it goes on. */
bool links__close_all(struct links *l, enum mechanism mech);

#endif /* ATTACH_PROBE_LINKS_H */
