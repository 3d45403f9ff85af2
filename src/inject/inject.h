/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tracer's side of the library in traced processes (inject/, include/ct_shm.h): listens for
 * them, gives each its memory, and reads what they write. No privilege is needed for it, and the
 * processes are believed nothing: each is who the kernel says, and has room of its own.
 */
#ifndef INJECT_INJECT_H
#define INJECT_INJECT_H

#include "attach/levels.h"
#include "decode/nv/nv_decode.h"
#include "record/check.h"

#include "ct_shm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inject;

/* Of a name in the abstract namespace of sockets. */
#define INJECT_NAME_MAX 100
/* Of the folder: a socket in it must have a name of at most 107 bytes. */
#define INJECT_FOLDER_MAX 96

/* With a folder: processes at a time. */
#define INJECT_OPEN_MAX 512

/* Gets a record; it is valid during the call only, and its sizes are not checked yet. */
typedef void (*inject_fn)(void *ctx, const void *rec, size_t size);

/* A library of a process is traced from now on. */
struct inject_lib {
	unsigned id; /* lib_id of records */
	const struct api *api;
	const char *path, *build_id;
	pid_t pid;
	char comm[17];
	const char *ifuncs;  /* as in struct attach_lib */
	unsigned hooked_cnt; /* functions that were got hold of, */
	unsigned wanted_cnt; /* and those that are to be */
	uint64_t since_ns;
	ct_generation generation;
	struct ct_inproc inproc; /* for the BPF side */
};

/* Where functions have probes, too: the BPF side says what happens to processes, and knows the
 * libraries. */
struct inject_probes {
	/* lib_id of a process's library; 0: it has none. */
	unsigned (*lib_id)(void *ctx, const struct target_lib *t);
	/* Which life of it runs, and its level. */
	void (*process)(void *ctx, pid_t pid, ct_generation *generation, enum ct_proc_level *level);
	/* It has connected, and then gone away. */
	void (*on_lost)(void *ctx, pid_t pid);
};

struct inject_opts {
	struct fnset *fns; /* symbols that no row has are added to it */
	enum ct_redact redact;
	const struct nv_abi *kernel; /* --kernel: the driver's version; NULL: not so */
	uint64_t min_duration_ns;
	uint64_t ring_sz; /* bytes of one thread's ring: a power of two */
	const char *name; /* "@NAME" that they find us by; NULL: one that nobody can guess */
	uid_t uid;	  /* processes of no other user */
	/* Not NULL: the library and a socket beside it are put there, name and uid mean nothing:
	 * whoever loads that library, of any user, finds us. */
	const char *folder;
	/* For all together then: threads, and functions that threads count. */
	unsigned slots_max, counts_max;
	inject_fn fn;
	/* false: it is not to record calls, for probes do. */
	bool (*on_lib)(void *ctx, const struct inject_lib *lib);
	/* Not NULL without probes: the library of a process is not traced. why: -EACCES: the
	 * process may not be looked into; another -errno. */
	void (*on_missed)(void *ctx, const struct inject_lib *lib, int why);
	const struct inject_probes *probes; /* NULL: functions have none */
	/* --gpu-time. only_gpu: functions have probes, and nothing else is wanted of the library;
	 * cupti: path, or NULL */
	enum ct_gpu_time gpu_time;
	bool only_gpu;
	const char *cupti;
	/* What became of it in a process, once it is known. */
	void (*on_gpu)(void *ctx, pid_t pid, const char *comm, const struct ct_shm_gpu *gpu);
	void *ctx;
};

/* NULL after reporting why. */
struct inject *inject__open(const struct inject_opts *o);
/* Puts into the environment what makes a program that is started from here load the library, in
 * this process: for a child that is about to become that program, found by that name. */
void inject__set_env(const struct inject *in, const char *program);
/* Readable when it is to be looked at. */
int inject__fd(const struct inject *in);
/* As source_ops has them (trace/source.h). */
bool inject__look(struct inject *in, uint64_t now);
uint64_t inject__next_ns(const struct inject *in);
size_t inject__take(struct inject *in, size_t max, uint64_t until);
bool inject__was_full(struct inject *in);
void inject__totals(struct inject *in, struct ct_totals *sum);
/* Times that the memory of a process made no sense. */
uint64_t inject__bad_records(const struct inject *in);
/* --gpu-time: adds up what all processes say of it. */
void inject__gpu_totals(const struct inject *in, struct ct_shm_gpu *sum);
/* With a folder: the most memory that it takes here for processes with so many threads in all. */
uint64_t inject__most(unsigned slots_max);
/* How many processes are traced and still run; the first max of them are in pids. */
unsigned inject__live(const struct inject *in, pid_t *pids, unsigned max);
/* With probes: programs that the process ran before that life have ended. Gives calls that were in
 * flight. */
void inject__left(struct inject *in, pid_t pid, ct_generation generation, uint64_t now);
/* Calls of a thread that had begun by that time and not returned. */
struct inject_enclosing {
	unsigned cnt, of_api[API_CNT];
	uint64_t id, start_ns; /* of the innermost; its id without a producer's number */
};
void inject__enclosing(struct inject *in, pid_t pid, uint32_t tid, uint64_t at_ns,
		       struct inject_enclosing *out);
/* Gives the processes that have lost something since this was last asked. */
void inject__drop_owners(struct inject *in, void (*fn)(void *ctx, uint32_t pid), void *ctx);
/* No calls from here on: those in flight stay unfinished. */
void inject__stop(struct inject *in);
/* After it: does nothing come any more? What was sent may still have to be taken. */
bool inject__is_over(struct inject *in);
/* After it: makes a record of each call in flight. */
void inject__unfinished(struct inject *in);
/* attach/levels.h has the same of the BPF side. */
int inject__set_level(struct inject *in, unsigned func_id, const struct fn_level *l);
int inject__set_always(struct inject *in, unsigned func_id, bool always);
int inject__set_proc(struct inject *in, pid_t pid, enum ct_proc_level level);
void inject__set_default(struct inject *in, enum ct_proc_level level);
void inject__read_counts(struct inject *in, levels_fn fn, levels_error_fn error_fn, void *ctx);
/* pid, life: of that program alone; life 0: of all that had this process id. */
void inject__take_counts(struct inject *in, pid_t pid, ct_generation generation, levels_fn fn,
			 levels_error_fn error_fn, void *ctx);
/* Of programs that ended some time ago, and of which nobody has taken them. */
void inject__take_left_counts(struct inject *in, levels_fn fn, levels_error_fn error_fn, void *ctx);
void inject__unfinished_counts(struct inject *in, levels_fn fn, void *ctx);
/* Gives each thread that has a ring. */
void inject__each_thread(struct inject *in, thread_fn fn, void *ctx);
void inject__free(struct inject *in);

#endif /* INJECT_INJECT_H */
