/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The BPF side as one object: load it, select processes and library files, read its counters,
 * detach it.
 */
#ifndef ATTACH_ATTACH_H
#define ATTACH_ATTACH_H

#include "ct_bpf.h"
#include "attach/probe/mechanism.h"
#include "attach/find/target.h"

#include "decode/fnset.h"
#include "decode/nv/nv_decode.h"

struct attach;
struct torch_lib;

struct attach_opts {
	enum mechanism mech; /* MECH_AUTO: the best available in this kernel */
	struct fnset *fns;   /* functions to trace; unknown symbols are added to it */
	uint64_t ring_sz;    /* see rings__share() */
	uint64_t min_duration_ns;
	bool filter_pids; /* only attach__add_pid()'s processes (and children with follow) */
	bool follow;
	bool filter_uid; /* only processes of the user uid */
	uid_t uid;
	bool kernel;		  /* --kernel */
	bool sched;		  /* --sched */
	enum ct_inproc_of inproc; /* in-process libraries record calls, too: attach__set_inproc() */
	bool stacks;		  /* calls of functions marked FNSET_STACK have stacks */
	bool python;  /* those marked FNSET_PYTHON have Python frames: attach__set_python() */
	bool profile; /* only calls sampled by levels__set_sampled() have stacks and Python frames
		       */
	enum nv_probe kernel_probe;
	const struct nv_abi *abi; /* with kernel: the driver's version */
	enum ct_redact redact;
	uint32_t counts_max;   /* rows of counts, per process and function; 0: 65536 */
	uint32_t errors_max;   /* rows of error codes; 0: no error codes of counted calls */
	uint32_t inproc_max;   /* processes with a library; 0: as tasks_max */
	uint32_t tasks_max;    /* processes, threads, and threads in the driver; 0: 65536 */
	struct quotas *quotas; /* of libraries and their functions; NULL: no limits */
	bool force;   /* also attach to files that others may write to, where the write would be
			 noticed too late */
	bool sandbox; /* the attaching process drops its privileges */
	bool filters; /* attach__filter() */
	bool hold;    /* a command is stopped until its library's probes are attached */
	/* If not 0, only this process has probes; others have no overhead (except with
	 * uprobe.multi). */
	pid_t only_pid;
};

/* Loads the BPF programs. Returns NULL after reporting the error and its remedy. A trace without
 * the BPF side has NULL, too: query and release functions below accept it as empty. */
struct attach *attach__open(const struct attach_opts *opts);
/* Detaches and frees. */
void attach__free(struct attach *a);

enum mechanism attach__mechanism(const struct attach *a);
/* Returns the mechanism of --kernel; NV_PROBE_AUTO: none, the driver is not loaded. */
enum nv_probe attach__kernel_probe(const struct attach *a);
/* Returns whether Xids arrive as records; otherwise they must be read from the kernel log. */
bool attach__has_xid(const struct attach *a);
/* Returns the size of each of cnt rings. total: bytes of all rings together, a power of two. Each
 * ring gets at least 1 MiB (or total if smaller), as long as all have at most 64 MiB. */
size_t rings__share(uint64_t total, unsigned cnt);
/* Returns the rings, one for each processor, of *size bytes each. */
const int *attach__ring_fds(const struct attach *a, unsigned *cnt, size_t *size);

/* flags: CT_PID_F_*. */
int attach__add_pid(struct attach *a, pid_t pid, uint32_t flags);
/* Returns how many processes traced by id (added ones and their children) still run. The first max
 * of them are in pids. */
unsigned attach__live_pids(struct attach *a, pid_t *pids, unsigned max);

/* Returns the process's present generation (ct_count.h) and level; 0: it is not traced, or has run
 * no program yet. */
void attach__process(struct attach *a, pid_t pid, ct_generation *generation,
		     enum ct_proc_level *level);
/* Calls that the in-process library records are not recorded by the programs. This holds while the
 * word at address `alive` in the process is not 0, until another program runs there. in NULL: ends
 * it. Returns false if there is no space. */
bool attach__set_inproc(struct attach *a, pid_t pid, const struct ct_inproc *in);
/* A process that calls this function begins to use the driver: others fail before it, and it is
 * slow. With libraries in some of the processes (CT_INPROC_SOME), a ct_enter is sent at its start.
 */
#define ATTACH_BEGINS "cuInit"

/* Sets where the process's Python keeps its frames. Forgotten with its program; inherited by
 * children. */
void attach__set_python(struct attach *a, pid_t pid, const struct ct_python *py);
/* Call it before attach__set_python(). Puts a probe on the function that frees code objects, at off
 * in the file, to detect reuse of an address. Returns 0, also if it exists already; -ENOSPC: too
 * many files; -errno: no probe. */
#define ATTACH_PYTHON_FILES_MAX 64
int attach__python_file(struct attach *a, int fd, uint64_t off);
/* Puts a probe on that function of the in-process library: it calls it when a call begins that it
 * samples. Their Python frames are sent before the call (CT_REC_SAMPLE). 0 or -errno. */
#define ATTACH_SAMPLED "cudatrace_sampled"
int attach__sampled(struct attach *a, int fd);
/* struct python_check (model/python.h); ctx: struct attach **. */
bool attach__is_code(void *ctx, uint32_t pid, uint64_t code, uint32_t id);

/* --torch: returns the operators of that libtorch_cpu; NULL: it has none. Lives as long as a. */
const struct torch_lib *attach__torch(const struct attach *a, unsigned lib_id);

struct attach_lib {
	unsigned id; /* lib_id of records */
	const struct api *api;
	struct ct_lib_key key;
	char *path;
	char build_id[41];
	unsigned wanted_cnt, attached_cnt;
	/* Symbols without a probe: the kernel cannot probe the instruction; from changed_at on, a
	 * process has changed the code. */
	char **refused;
	unsigned refused_cnt, changed_at;
	pid_t changed_by;     /* 0: no process has changed code */
	char ifuncs[256];     /* why some functions have no probe: elf_lib.ifuncs; or "" */
	unsigned shifted_cnt; /* probes after the first instruction: see elf_probe_shift() */
	uint64_t attach_ns;   /* how long attaching took */
	int error;	      /* -errno: it has no probes, as attach__lib() returned or later */
	bool ignored;	      /* a stub: nothing attached */
	bool idle;	      /* unused at the last check */
	uid_t uid;	      /* user of its first process; root for those of the machine */
};

/*
 * Attaches to a library once; a second call for the same file returns the first result. Returns 0
 * and *out, or -errno after reporting the error. -ENOENT (the file vanished before it was opened)
 * is not reported: a later call may find it. -ENOSPC: too many libraries, in total or of the
 * process's user. A process's file that cannot be opened is tried again by a later call. -ETXTBSY:
 * a process has it open for writing; it is attached after that is closed.
 * -EINPROGRESS: the kernel is waiting for another process (links.h); attach__late() reports the
 * end.
 */
int attach__lib(struct attach *a, const struct target_lib *t, const struct attach_lib **out);
/* A traced process has mapped the library since since_ns (CLOCK_MONOTONIC). If its probes were not
 * attached then, or some never will be because of changed code, attach__missed() reports that,
 * once. */
void attach__mapped(struct attach *a, const struct ct_lib_key *key, uint64_t since_ns);
/* Calls fn for each library with a new period without probes. */
void attach__missed(struct attach *a, void (*fn)(void *ctx, const struct attach_lib *lib),
		    void *ctx);
/* Calls fn for each library whose probes are complete only now. Returns false if the process that
 * holds the probes was killed, and the probes are gone. */
bool attach__late(struct attach *a, void (*fn)(void *ctx, const struct attach_lib *lib), void *ctx);
/* Probes functions that were left out because a process had changed their code: once it has ended,
 * looked for each second; all: in any case. Calls fn for each library that is complete now. */
void attach__look_again(struct attach *a, uint64_t now, bool all,
			void (*fn)(void *ctx, const struct attach_lib *lib), void *ctx);
/* Returns whether a library is still pending for attach__late(). */
bool attach__is_late(const struct attach *a);
/* Adds a second device and inode of a library, where maps shows others (overlayfs). Processes that
 * map it are then not stopped for it. Forgotten with the library, or for newer ones. */
void attach__know(struct attach *a, const struct ct_lib_key *key, unsigned lib_id, pid_t pid);
const struct attach_lib *attach__lib_by_key(const struct attach *a, const struct ct_lib_key *key);
unsigned attach__lib_cnt(const struct attach *a);
/* Returns whether the library with that id still exists. */
bool attach__has_lib(const struct attach *a, unsigned lib_id);
/* Returns the newest id: ids increase. */
unsigned attach__newest_lib(const struct attach *a);
/* Drops files, and their probes, for which is_used returned false twice in a row. A file that is
 * used later is attached as a new one. Returns how many were dropped. */
unsigned attach__drop_idle(struct attach *a,
			   bool (*is_used)(void *ctx, const struct attach_lib *lib), void *ctx);
const struct attach_lib *attach__lib_at(const struct attach *a, unsigned i);

/*
 * Detaches the probes of the functions in inproc (a bit for each id) and keeps the others.
 * Processes that map the file later are stopped (CT_PID_F_STOP_ON_LIB). prepare: only enable that.
 * Returns false if this mechanism cannot do it, or not now.
 */
bool attach__detach_covered(struct attach *a, unsigned lib_id, const uint64_t *inproc,
			    bool prepare);
bool attach__covered_off(const struct attach *a, unsigned lib_id);
/* A process depends on probes for all of its calls: reports the functions without one. */
void attach__uprobes_alone(struct attach *a, unsigned lib_id);
/* Reattaches them. */
void attach__reattach(struct attach *a, unsigned lib_id);

/* Files that are written in place: the code at our probes' offsets would change. */
/* When readable, call attach__follow_writes() at once, because a writer is waiting. */
int attach__watch_fd(const struct attach *a);
/* Returns the number of files that are waited for; if not 0, call attach__follow_writes()
 * periodically. */
unsigned attach__off_cnt(const struct attach *a);
/* Detaches probes (on false) before the file changes, and attaches to the new contents. */
void attach__follow_writes(struct attach *a,
			   void (*fn)(void *ctx, const struct attach_lib *lib, bool on), void *ctx);
/* Returns whether a file, which a process maps now, was written to unnoticed. */
bool attach__is_written(const struct attach *a, const struct attach_lib *lib);

/* Overhead of one call in a thread that makes only such calls, in nanoseconds. 0: unknown. */
struct attach_cost {
	double record;	     /* entry, return and a record of six words */
	double count;	     /* entry and return, counted */
	double entry_record; /* a record made at the entry; the return is not probed */
	double entry_count;  /* counted at the entry */
};
/*
 * Measures the overhead on functions of our own, with the mechanism in use. entries: also the last
 * two, which may take 0.1 s. Call it before attaching to anything else, and drain the ring
 * afterwards.
 *
 * From then on the programs time themselves (struct ct_cost): attach__totals() returns the actual
 * overhead, attach__fn_cost() that of one function.
 */
void attach__measure_cost(struct attach *a, bool entries, struct attach_cost *cost);
/* Sums up the timed calls of a function on all processors. */
void attach__fn_cost(struct attach *a, uint32_t func_id, struct ct_fn_cost *sum);
/* func_id of records made by the measurement: not events. */
#define ATTACH_STUB_FUNC (CT_MAX_FUNCS - 1)

/* Calls cb for each thread with a state on the BPF side. */
void attach__each_thread(struct attach *a, void (*cb)(uint32_t tid, struct ct_thread *t, void *ctx),
			 void *ctx);

/* Reads the registers of up to CT_REGS_MAX threads. Takes 0.2 µs for each thread of the machine.
 * Returns false if none can be read. */
bool attach__thread_regs(struct attach *a, struct ct_regs *regs, unsigned cnt);

/* Reads a system call filter: f->pid, f->tid, f->nth. Returns false if the kernel allows no such
 * request. */
bool attach__filter(struct attach *a, struct ct_filter *f);
/* The descriptors that it needs; -1: none. */
void attach__filter_fds(const struct attach *a, int fds[2]);

/* Ends recording: calls in flight stay unfinished. Detaching takes about 0.1 s for a libcuda. After
 * 1.5 s it continues in the background, even after attach__free(). */
void attach__detach(struct attach *a);
/* After attach__detach(): makes a record of each call in flight (CT_CALL_F_UNFINISHED). */
void attach__unfinished(struct attach *a, void (*cb)(void *ctx, const void *rec, size_t size),
			void *ctx);
/* Sums up the counters of all threads, running and ended. */
void attach__totals(struct attach *a, struct ct_totals *sum);

#endif /* ATTACH_ATTACH_H */
