/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a tracer writes into a running process so that it loads the in-process library. It
 * writes constant code and data (struct late_data) behind the text of a library, and variables
 * (struct late_state) behind the data of a library. See src/inject/late.h.
 */
#ifndef CT_LATE_H
#define CT_LATE_H

#include <stdint.h>

#define LATE_MAGIC     "cudatrace-late4"
#define LATE_SLOTS     12
#define LATE_ENTRY_SZ  16
#define LATE_PATH_SZ   120
#define LATE_SOCKET_SZ 108
/* Name of the thread while it loads the library, which then does not set up itself. */
#define LATE_THREAD_NAME "cudatrace-late"

/* Behind the code, and as constant as it: a thread may come at any time. */
struct late_data {
	char magic[16];
	uint64_t state; /* address of struct late_state */
	/* addresses of glibc's functions */
	uint64_t pthread_create, attr_init, attr_stack, attr_detach, errno_location,
		register_atfork, dlopen, dlsym;
	/* dispatch pointers of the driver, and their values */
	struct {
		uint64_t at, real;
	} slots[LATE_SLOTS];
	/* The library's file. If the process's mount namespace lacks it: the name of a memfd,
	 * without a slash, which the tracer fills. */
	char path[LATE_PATH_SZ];
};

/* Where an attach has failed: result is its error. */
enum late_step {
	LATE_THREAD = 1, /* pthread_create() */
	LATE_FILE,	 /* memfd_create(); the tracer did not fill it */
	LATE_OPEN,	 /* dlopen(), dlsym() */
	LATE_CONNECT,	 /* cudatrace_attach(), or nothing */
	LATE_GO,	 /* the tracer has not let the thread go on */
};

/* All 0 at first, except for the magic. Each word has one writer. */
struct late_state {
	char magic[16];
	/* The tracer's. A thread takes part if ticket is taken + 1; 0: none may. */
	uint32_t ticket;
	uint32_t go; /* the ticket whose thread may go on; its complement: it must not */
	char socket[LATE_SOCKET_SZ];
	uint64_t token[2]; /* as in struct ct_shm_welcome */
	/* The process's. taken: the last ticket, by one thread; done: the same, when it has ended
	 * with this result. pid: as the process sees it; a child of fork has its parent's. */
	uint32_t taken, done, pid, step;
	/* The thread that has taken the ticket waits for go, until it has lost patience. waiting:
	 * the ticket. */
	uint32_t tid, waiting;
	int32_t result;
	uint32_t has_fork_rule;
	uint32_t file;	 /* the memfd's descriptor + 1, while it waits to be filled and sealed */
	uint64_t attach; /* address of cudatrace_attach(); 0: not loaded yet */
	uint64_t owner;	 /* of the lock that fork() and dlopen() take; 0: free */
	uint64_t stack;	 /* of the thread that waits */
};

#endif /* CT_LATE_H */
