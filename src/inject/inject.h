/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tracer's side of the in-process library (inject/, include/ct_shm.h): accepts connections,
 * provides memory to each process, and reads what it writes. It needs no privilege. It relies on no
 * process: the kernel identifies each one, and each has a limit of its own.
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

/* Maximum length of a name in the abstract socket namespace. */
#define INJECT_NAME_MAX 100
/* Maximum length of the directory's path: a socket in it must have a path of at most 107 bytes. */
#define INJECT_FOLDER_MAX 96

/* Maximum processes at a time with a directory. */
#define INJECT_OPEN_MAX 512

/* Receives a record. It is valid during the call only; its sizes are not checked yet. */
typedef void (*inject_fn)(void *ctx, const void *rec, size_t size);

/* A library of a process that is traced from now on. */
struct inject_lib {
	unsigned id; /* lib_id of records */
	const struct api *api;
	const char *path, *build_id;
	pid_t pid;
	char comm[17];
	const char *ifuncs;  /* as in struct attach_lib */
	unsigned hooked_cnt; /* functions that are hooked, */
	unsigned wanted_cnt; /* and those that should be */
	uint64_t since_ns;
	ct_generation generation;
	struct ct_inproc inproc; /* for the BPF side */
};

/* For use with probes: the BPF side follows processes and identifies the libraries. */
struct inject_probes {
	/* Returns lib_id of a process's library; 0: it has none. */
	unsigned (*lib_id)(void *ctx, const struct target_lib *t);
	/* Returns the process's present generation and its level. */
	void (*process)(void *ctx, pid_t pid, ct_generation *generation, enum ct_proc_level *level);
	/* The process has connected, and then closed the connection. */
	void (*on_lost)(void *ctx, pid_t pid);
};

struct inject_opts {
	struct fnset *fns; /* unknown symbols are added to it */
	enum ct_redact redact;
	const struct nv_abi *kernel; /* --kernel: the driver's version; NULL: off */
	bool kernel_args;	     /* --kernel-args */
	bool profile;		     /* inject__set_sampled() is used */
	bool no_stacks;		     /* sampled calls have no stack */
	/* Puts a probe on cudatrace_sampled() of this file, which reads Python frames and
	 * operators. Returns whether it did. NULL: none are requested. */
	bool (*read_frames)(void *ctx, const char *library);
	bool reads_frames; /* set by inject__open() */
	uint64_t min_duration_ns;
	uint64_t ring_sz; /* bytes of one thread's ring: a power of two */
	const char *name; /* "@NAME" that processes connect to; NULL: a random one */
	uid_t uid;	  /* only processes of this user */
	/* If not NULL, the library and its socket are put into this directory, and name and uid are
	 * ignored. Processes of any user that load this library connect. */
	const char *folder;
	/* Limits over all processes then: threads, and counted functions of threads. */
	unsigned slots_max, counts_max;
	inject_fn fn;
	/* Returns false if the library must not record calls, because probes do. */
	bool (*on_lib)(void *ctx, const struct inject_lib *lib);
	/* The library of a process is not traced. Required without probes. why: -EACCES: access to
	 * the process is denied; or another -errno. */
	void (*on_missed)(void *ctx, const struct inject_lib *lib, int why);
	const struct inject_probes *probes; /* NULL: functions have no probes */
	/* The library enters running programs: it hooks all functions of the driver, also those
	 * that are not traced, so that a later tracer of the process may trace others, and CUPTI
	 * can be started while no thread is in one. */
	bool late;
	/* --gpu-time. only_gpu: functions have probes, and the library supplies GPU times only;
	 * cupti: path, or NULL */
	enum ct_gpu_time gpu_time;
	enum ct_gpu_time gpu_burst; /* inject__set_gpu() may be called; OFF: it is not */
	bool only_gpu;
	const char *cupti;
	/* Receives the state of CUPTI in a process, once it is known. */
	void (*on_gpu)(void *ctx, pid_t pid, const char *comm, const struct ct_shm_gpu *gpu);
	/* --stalls: a sample each 2^stalls cycles; 0: off. on_stalls receives the state in a
	 * process, and again when a flag is added. */
	unsigned stalls;
	void (*on_stalls)(void *ctx, pid_t pid, const char *comm, const struct ct_shm_stalls *st,
			  const struct ct_shm_gpu *cupti);
	void *ctx;
};

/* Returns NULL after reporting the error. */
struct inject *inject__open(const struct inject_opts *o);
/* Sets the environment of this process so that a program started from it loads the library. For a
 * child about to exec `program`. */
void inject__set_env(const struct inject *in, const char *program);
/* Returns a descriptor that is readable when inject__look() should be called. */
int inject__fd(const struct inject *in);
/* As in source_ops (trace/source.h). */
bool inject__look(struct inject *in, uint64_t now);
uint64_t inject__next_ns(const struct inject *in);
size_t inject__take(struct inject *in, size_t max, uint64_t until);
bool inject__was_full(struct inject *in);
void inject__totals(struct inject *in, struct ct_totals *sum);
/* Returns how often the memory of a process was invalid. */
uint64_t inject__bad_records(const struct inject *in);
/* --gpu-time: adds up the counters of all processes. */
void inject__gpu_totals(const struct inject *in, struct ct_shm_gpu *sum);
/* --stalls: the same. */
void inject__stalls_totals(const struct inject *in, struct ct_shm_stalls *sum);
/* With gpu_burst: starts CUPTI in this running process, which has the library, or stops it (OFF).
 * Returns NULL, or why not: a static text. */
const char *inject__set_gpu(struct inject *in, pid_t pid, enum ct_gpu_time mode);
/* Its answer: state CT_CUPTI_NONE if it has not answered yet, or has stopped CUPTI. Returns false
 * if the process is gone. */
bool inject__gpu_state(const struct inject *in, pid_t pid, struct ct_shm_gpu *gpu);
/* With a folder: returns the maximum memory here for processes with slots_max threads in all. */
uint64_t inject__max_bytes(unsigned slots_max);
/* Returns how many traced processes still run; the first max of them are in pids. */
unsigned inject__live(const struct inject *in, pid_t *pids, unsigned max);
/* Number of the process's system call filters (seccomp). */
unsigned inject__filters(pid_t pid);
/* The name of the memory by which processes report losses to this tracer, in their
 * /proc/PID/maps: that of a process that is or was connected, and of its children of fork. */
#define INJECT_LOST_NAME_SZ 32
void inject__lost_name(char name[INJECT_LOST_NAME_SZ]);
/* As in the environment of the programs. */
const char *inject__socket(const struct inject *in);
/* With probes: programs that the process ran before this generation have ended. Emits records of
 * calls in flight. */
void inject__left(struct inject *in, pid_t pid, ct_generation generation, uint64_t now);
/* Calls of a thread that had begun by a given time and not returned. */
struct inject_enclosing {
	unsigned cnt, of_api[API_CNT];
	uint64_t id, start_ns; /* of the innermost; its id without a producer's number */
};
void inject__enclosing(struct inject *in, pid_t pid, uint32_t tid, uint64_t at_ns,
		       struct inject_enclosing *out);
/* Reports each process that has dropped something since the previous call. */
void inject__drop_owners(struct inject *in, void (*fn)(void *ctx, uint32_t pid), void *ctx);
/* No calls are recorded from here on: those in flight stay unfinished. */
void inject__stop(struct inject *in);
/* After inject__stop(): returns whether nothing more will arrive. Records already sent may still be
 * pending. */
bool inject__is_over(struct inject *in);
/* After inject__stop(): makes a record of each call in flight. */
void inject__unfinished(struct inject *in);
/* attach/levels.h has the same functions for the BPF side. */
int inject__set_level(struct inject *in, unsigned func_id, const struct fn_level *l);
int inject__set_always(struct inject *in, unsigned func_id, bool always);
int inject__set_sampled(struct inject *in, unsigned func_id, uint32_t below);
int inject__set_proc(struct inject *in, pid_t pid, enum ct_proc_level level);
void inject__set_default(struct inject *in, enum ct_proc_level level);
void inject__read_counts(struct inject *in, levels_fn fn, levels_error_fn error_fn, void *ctx);
/* pid, generation: of that program only; generation 0: of all programs with this process id. */
void inject__take_counts(struct inject *in, pid_t pid, ct_generation generation, levels_fn fn,
			 levels_error_fn error_fn, void *ctx);
/* Counts of programs that ended some time ago and were not taken yet. */
void inject__take_left_counts(struct inject *in, levels_fn fn, levels_error_fn error_fn, void *ctx);
void inject__unfinished_counts(struct inject *in, levels_fn fn, void *ctx);
/* Calls fn for each thread that has a ring. */
void inject__each_thread(struct inject *in, thread_fn fn, void *ctx);
void inject__free(struct inject *in);

#endif /* INJECT_INJECT_H */
