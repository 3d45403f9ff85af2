/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The BPF side as one object: load it, say which processes and which library files it watches,
 * read its counters, take it off.
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
	enum mechanism mech; /* MECH_AUTO: the best that this kernel has */
	struct fnset *fns;   /* what is wanted; symbols that no row has are added to it */
	uint64_t ring_sz;    /* see rings__share() */
	uint64_t min_duration_ns;
	bool filter_pids; /* only attach__add_pid()'s processes (and children with follow) */
	bool follow;
	bool filter_uid; /* only processes of the user uid */
	uid_t uid;
	bool kernel; /* --kernel */
	bool sched;  /* --sched */
	enum ct_inproc_of
		inproc; /* libraries in processes record calls, too: attach__set_inproc() */
	bool stacks;	/* functions marked FNSET_STACK have stacks */
	bool python;	/* those marked FNSET_PYTHON have Python frames: attach__set_python() */
	enum nv_probe kernel_probe;
	const struct nv_abi *abi; /* with kernel: the driver's version */
	enum ct_redact redact;
	uint32_t counts_max;   /* a process and a function that are counted: rows; 0: 65536 */
	uint32_t errors_max;   /* with an error code; 0: codes of counted calls are not kept */
	uint32_t inproc_max;   /* processes in which libraries do; 0: as tasks_max */
	uint32_t tasks_max;    /* processes, threads, and threads in the driver; 0: 65536 */
	struct quotas *quotas; /* of libraries and their functions; NULL: no bounds */
	bool force;   /* also files that others may write to where we would hear of it too late */
	bool sandbox; /* the process that attaches gives up what it does not need */
	/* Not 0: probes exist in this process alone, others pay nothing (but with uprobe.multi). */
	pid_t only_pid;
};

/* Loads the BPF programs. NULL on error, which it reports with what to do. A trace without the BPF
 * side has NULL, too: what asks or ends something below takes it for one that has nothing. */
struct attach *attach__open(const struct attach_opts *opts);
/* Detaches and frees. */
void attach__free(struct attach *a);

enum mechanism attach__mechanism(const struct attach *a);
/* What --kernel uses; NV_PROBE_AUTO: nothing, the driver is not loaded. */
enum nv_probe attach__kernel_probe(const struct attach *a);
/* Xids come as records; else they must be had from the kernel log. */
bool attach__has_xid(const struct attach *a);
/* How large one of cnt rings is. total: a power of two, bytes of all of them together; but one has
 * 1 MiB at least, or total when that is less, as long as all of them have 64 MiB at most. */
size_t rings__share(uint64_t total, unsigned cnt);
/* The rings, one for each processor, of *size bytes each. */
const int *attach__ring_fds(const struct attach *a, unsigned *cnt, size_t *size);

/* flags: CT_PID_F_*. */
int attach__add_pid(struct attach *a, pid_t pid, uint32_t flags);
/* How many of the processes that are traced by id (added, and their children) still run; the first
 * max of them are in pids. */
unsigned attach__live_pids(struct attach *a, pid_t *pids, unsigned max);

/* Which life of the process runs (ct_count.h), and its level; 0: it is not followed, or has run no
 * program yet. */
void attach__process(struct attach *a, pid_t pid, ct_generation *generation,
		     enum ct_proc_level *level);
/* What a library in the process records no program here does, as long as the word at the process's
 * address alive is not 0, or until another program runs there. in NULL: nothing any more. false:
 * there is no room. */
bool attach__set_inproc(struct attach *a, pid_t pid, const struct ct_inproc *in);
/* A process that calls it begins to use the driver: it works before all others, and takes long.
 * Where libraries are in some of the processes (CT_INPROC_SOME), its beginning is told: ct_enter.
 */
#define ATTACH_BEGINS "cuInit"

/* Where the process's Python keeps its frames. Forgotten with its program; children have it, too.
 */
void attach__set_python(struct attach *a, pid_t pid, const struct ct_python *py);
/* Before that: at off in its file is the function that frees code objects, which tells one from
 * another in its place. 0 also when it is known; -ENOSPC: too many files, -errno: no probe. */
#define ATTACH_PYTHON_FILES_MAX 64
int attach__python_file(struct attach *a, int fd, uint64_t off);
/* struct python_check (model/python.h); ctx: struct attach **. */
bool attach__is_code(void *ctx, uint32_t pid, uint64_t code, uint32_t id);

/* --torch: what that libtorch_cpu calls its operators; NULL: it is none. Lives as long as a. */
const struct torch_lib *attach__torch(const struct attach *a, unsigned lib_id);

struct attach_lib {
	unsigned id; /* lib_id of records */
	const struct api *api;
	struct ct_lib_key key;
	char *path;
	char build_id[41];
	unsigned wanted_cnt, attached_cnt;
	char **refused; /* symbols that the kernel cannot probe */
	unsigned refused_cnt;
	char ifuncs[256];     /* why some functions have no probe: elf_lib.ifuncs; or "" */
	unsigned shifted_cnt; /* probes behind the first instruction: see elf_probe_shift() */
	uint64_t attach_ns;   /* how long attaching took */
	bool ignored;	      /* a stub: nothing attached */
	bool idle;	      /* nobody used it at the last look */
	uid_t uid;	      /* of who mapped it first; root for those of the machine */
};

/*
 * Attaches to a library, once: a second call with the same file answers with what the first
 * one did. Returns 0 and *out, or -errno after reporting the error (-ENOENT, when the file went
 * before it could be opened, is not reported: a later call may find it). -ENOSPC: there are too
 * many, in all or of the user whose process it is. -ETXTBSY: somebody has it open for writing; it
 * is attached when he has closed it. -EINPROGRESS: the kernel waits for somebody (links.h);
 * attach__late() tells when it is done.
 */
int attach__lib(struct attach *a, const struct target_lib *t, const struct attach_lib **out);
/* Calls fn for each library that has its probes only now. false: the process that holds the probes
 * has been ended by somebody, and there are none any more. */
bool attach__late(struct attach *a, void (*fn)(void *ctx, const struct attach_lib *lib), void *ctx);
/* Is there a library of which that is to come? */
bool attach__is_late(const struct attach *a);
/* A library that a process maps has another device and inode than maps shows (overlayfs): processes
 * that map it are not stopped for it any more. Forgotten with the library, or for newer ones. */
void attach__know(struct attach *a, const struct ct_lib_key *key, unsigned lib_id, pid_t pid);
const struct attach_lib *attach__lib_by_key(const struct attach *a, const struct ct_lib_key *key);
unsigned attach__lib_cnt(const struct attach *a);
/* Is there still one of that id? */
bool attach__has_lib(const struct attach *a, unsigned lib_id);
/* The id of the newest: ids go up. */
unsigned attach__newest_lib(const struct attach *a);
/* Forgets files, and takes their probes off, that is_used says no of twice in a row. Should
 * somebody use one later: it is a new one then. Returns how many went. */
unsigned attach__drop_idle(struct attach *a,
			   bool (*is_used)(void *ctx, const struct attach_lib *lib), void *ctx);
const struct attach_lib *attach__lib_at(const struct attach *a, unsigned i);

/*
 * Probes on the functions of a library that are in inside (a bit for each id) are taken off, and
 * stay on the others. Processes that map the file are not known from then on: they are stopped
 * (CT_PID_F_STOP_ON_LIB). prepare: nothing but that. false: not with this mechanism, or it cannot
 * be done now.
 */
bool attach__detach_covered(struct attach *a, unsigned lib_id, const uint64_t *inproc,
			    bool prepare);
bool attach__covered_off(const struct attach *a, unsigned lib_id);
/* There is a process of which all calls are seen by probes: says which are not. */
void attach__uprobes_alone(struct attach *a, unsigned lib_id);
/* Puts them on again. */
void attach__reattach(struct attach *a, unsigned lib_id);

/* Files that are written to in place: what lies at the places of our probes will be something else.
 */
/* Readable: attach__follow_writes() is to be called at once, for somebody waits. */
int attach__watch_fd(const struct attach *a);
/* How many are waited for: it is to be called every now and then. */
unsigned attach__off_cnt(const struct attach *a);
/* Takes probes off (on false) before the file changes, and puts them on the new contents. */
void attach__follow_writes(struct attach *a,
			   void (*fn)(void *ctx, const struct attach_lib *lib, bool on), void *ctx);
/* A process maps the file: the same, if we were not told of a write. */
bool attach__is_written(const struct attach *a, const struct attach_lib *lib);

/* What one call costs its thread while nothing but such calls is made, in nanoseconds. 0 when it
 * cannot be told. */
struct attach_cost {
	double record;	     /* entry, return and a record of six words */
	double count;	     /* entry and return, counted */
	double entry_record; /* a record made at the entry, the return is not looked at */
	double entry_count;  /* counted at the entry */
};
/*
 * Measured on functions of our own with the mechanism in use; entries: also the last two, which may
 * take a tenth of a second. Call it before any other attaching and drain the ring afterwards.
 *
 * From then on the programs take their own time (struct ct_cost): attach__totals() has what calls
 * did cost, attach__fn_cost() whose.
 */
void attach__measure_cost(struct attach *a, bool entries, struct attach_cost *cost);
/* Of the calls of a function that were timed, on all processors. */
void attach__fn_cost(struct attach *a, uint32_t func_id, struct ct_fn_cost *sum);
/* func_id of the records that measuring makes: no events. */
#define ATTACH_STUB_FUNC (CT_MAX_FUNCS - 1)

/* Calls cb for every thread that the BPF side knows. */
void attach__each_thread(struct attach *a, void (*cb)(uint32_t tid, struct ct_thread *t, void *ctx),
			 void *ctx);

/* Where these threads are in their programs; up to CT_REGS_MAX. Takes 0.2 µs for each thread of the
 * machine. false: it cannot be told of any. */
bool attach__thread_regs(struct attach *a, struct ct_regs *regs, unsigned cnt);

/* No calls from here on: those in flight stay unfinished. Taking the probes off takes about 0.1 s
 * for a libcuda; when it takes longer than 1.5 s it goes on by itself, also after attach__free().
 */
void attach__detach(struct attach *a);
/* After attach__detach(): makes a record of each call in flight (CT_CALL_F_UNFINISHED). */
void attach__unfinished(struct attach *a, void (*cb)(void *ctx, const void *rec, size_t size),
			void *ctx);
/* Counters of all threads, living and gone. */
void attach__totals(struct attach *a, struct ct_totals *sum);

#endif /* ATTACH_ATTACH_H */
