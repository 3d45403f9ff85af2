/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What late.c has to know of a process, by reading only. */
#ifndef INJECT_LATE_TARGET_H
#define INJECT_LATE_TARGET_H

#include "late_code.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct late_map {
	uint64_t start, end, off, ino;
	unsigned dev_major, dev_minor;
	char perms[5];
	const char *path; /* "": none */
};

struct late_thread {
	pid_t inner, outer;
};

struct late_target {
	pid_t pid;
	pid_t inner_pid;	  /* as the process sees it */
	unsigned long long start; /* in ticks since boot */
	char comm[16];
	int mem; /* /proc/PID/mem */
	char *maps_text;
	struct late_map *maps;
	unsigned map_cnt;
	uint64_t code; /* where the code is or will be, */
	bool has_code; /* and whether it is there */
	struct late_data data;
	unsigned filters; /* system call filters of the thread that has fewest */
	/* Threads, if the process is in another PID namespace. */
	struct late_thread *threads;
	unsigned thread_cnt;
};

/* This answer may change: the library of a tracer that has ended restores the pointers at its next
 * call. */
extern const char late_hooked[];

/* Fills t. Returns NULL, or why the process cannot be entered and what to do: a static text.
 * library: path of the library, for us. filters: system call filters that were checked. The caller
 * closes t in any case. */
const char *late_target__look(struct late_target *t, pid_t pid, const char *library,
			      unsigned filters);
void late_target__close(struct late_target *t);
bool late_target__read(const struct late_target *t, uint64_t addr, void *to, size_t size);
/* Also where the process may not write: the page becomes its own. */
bool late_target__write(const struct late_target *t, uint64_t addr, const void *from, size_t size);
/* Whether this is the path of the library's memfd, which the process has created. */
bool late_target__is_memfd(const struct late_target *t, const char *path);
/* Whether this thread, by its id in the process, has no system call filters but those that
 * late_target__look() permitted. */
bool late_target__may_go(const struct late_target *t, pid_t inner_tid);
/* Whether the thread with this stack pointer is in a signal handler, which may have interrupted
 * malloc(). */
bool late_target__in_handler(const struct late_target *t, uint64_t stack);
bool late_target__is_out_of_files(const struct late_target *t);
/* Address of the entry of that slot. */
uint64_t late_target__entry(const struct late_target *t, unsigned slot);

#endif /* INJECT_LATE_TARGET_H */
