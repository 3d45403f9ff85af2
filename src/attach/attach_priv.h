/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by attach.c, attach_*.c and levels.c only. */
#ifndef ATTACH_PRIV_H
#define ATTACH_PRIV_H

#include "attach.h"
#include "attach/find/layer.h"
#include "attach/probe/links.h"
#include "attach/find/watch.h"

#include "util/quota.h"

#include <bpf/libbpf.h>
#include <pthread.h>

#include "cudatrace.skel.h"

/* What of a library is to be probed: parallel arrays. */
struct probe_sites {
	uint64_t *offs, *cookies;
	const char **names;
	unsigned cnt, group_cnt[LINKS_GROUP_CNT];
	const char **bad; /* names: not even tried, the kernel refuses their instruction */
	unsigned bad_cnt;
	struct elf_lib *elf; /* whose the names are */
};

struct lib_entry {
	struct attach_lib lib;
	struct probe_sites *sites; /* until the kernel has said what came of them */
	struct layer_file file;
	struct file_watch watch;
	unsigned owner;			  /* of its links */
	unsigned rest_owner;		  /* not 0: of those that stay: attach__detach_covered() */
	uint64_t rest[CT_MAX_FUNCS / 64]; /* functions that have one of those */
	bool covered_off;		  /* there are no others */
	bool said_refused;
	bool off;     /* somebody writes to it: no probes, attached anew from due_ns on */
	bool late;    /* we were told afterwards */
	bool closing; /* off, but its probes still go: who wants to write waits */
	unsigned writes;
	uint64_t written_ns, seen_ns, due_ns;
	int ret;			/* what attaching said */
	uint8_t held[CT_MAX_FUNCS / 8]; /* ids of functions that the table has not */
};

/* A second device and inode of a library. */
struct lib_key {
	struct ct_lib_key key;
	unsigned lib_id;
	uid_t uid; /* of who mapped it by that */
};

/* --python: a file whose function that frees code objects has a probe. It stays, as processes with
 * another one may come. */
struct python_file {
	uint64_t dev, ino, off;
	unsigned owner; /* of its link */
	struct file_watch watch;
};

struct attach {
	struct cudatrace_bpf *skel;
	struct links links; /* owners are libraries' ids */
	bool said_late, detached;
	struct probe_progs progs;
	bool has_stubs; /* probes on functions of our own, until the cost is measured */
	/* Of a call of those: emulated, single-stepped; of one that a program's work is around, by
	 * level of the caches. */
	double bare_ns[2], bare_away_ns[CT_COST_LEVELS];
	double bare_syscall_ns;
	uint64_t drops[CT_DROP_CNT]; /* of the last attach__totals() */
	enum mechanism mech;
	enum nv_probe kernel_probe;
	struct fnset *fns;
	pid_t only_pid;
	enum ct_redact redact;
	unsigned spec_cnt; /* functions whose spec the kernel has */
	int *ring_fds;	   /* one for each processor */
	unsigned ring_cnt;
	size_t ring_sz; /* of each */
	int rings_fd;	/* the table of them */
	pthread_t rings_maker;
	bool has_rings_maker;
	int rings_ret;
	struct lib_entry **libs;
	unsigned lib_cnt, newest_lib, off_cnt;
	unsigned newest_owner;
	struct lib_key *keys; /* oldest first */
	unsigned key_cnt;
	struct watch_fds watch;
	struct torch_file *torch_files; /* --torch: of each libtorch_cpu that was there */
	unsigned torch_file_cnt;
	struct python_file python_files[ATTACH_PYTHON_FILES_MAX];
	unsigned python_file_cnt;
	bool force;
	bool inproc; /* nearly all calls are seen by libraries in the processes */
	struct quotas *quotas;
};

struct elf_lib;
/* attach_torch.c: what a libtorch_cpu has, for the programs and for attach__torch(). */
void attach_torch__take(struct attach *a, const struct lib_entry *e, struct elf_lib *elf);
void attach_torch__free(struct attach *a);
/* attach_python.c: takes its probe off a file that somebody is about to write. */
void attach_python__follow_writes(struct attach *a);
void attach_python__free(struct attach *a);
/* attach_sites.c. Takes elf over; functions in excluded (NULL: none) have no places. NULL: no
 * memory. */
struct probe_sites *probe_sites__new(struct attach *a, struct elf_lib *elf, struct attach_lib *lib,
				     unsigned turn, const uint64_t *excluded);
void probe_sites__free(struct probe_sites *p);
/* The places of e; 0, or -errno after reporting. -EINPROGRESS: attach__late() will say. */
int attach_sites(struct attach *a, struct lib_entry *e, int fd);

/* attach_load.c. Both say what is wrong. */
int attach__load(struct attach *a, const struct attach_opts *o);
/* Why the kernel did not take the programs or the maps. */
void attach__load_error(int ret);
/*
 * attach_rings.c. They are made, and put into their table, by a thread, for the kernel waits in
 * between, and there are programs to be verified meanwhile: between these two the table alone may
 * be used. total: bytes of all together. The first reports its errors.
 */
int rings__begin(struct attach *a, uint64_t total);
int rings__end(struct attach *a);
void rings__close(struct attach *a);

/* levels.c: which results have a name, and which files are looked for. Before loading. */
void levels__prepare(struct ct_cfg *cfg, const struct fnset *fns);
/* memlimit.c: sizes of the tables that programs fill. Before loading. */
void memlimit__prepare(struct cudatrace_bpf *skel, struct ct_cfg *cfg, const struct attach_opts *o);
/* A row that was its user's has gone. */
void memlimit__uncharge(struct attach *a, enum ct_table table, uid_t uid);
/* The process's row is made if need be, and set. -ENOSPC: there is no room, or none for its user.
 */
int memlimit__set_process(struct attach *a, uint32_t pid,
			  void (*set)(struct ct_pid *p, uint32_t value), uint32_t value);
void memlimit__drop_process(struct attach *a, uint32_t pid);
/* attach_libs.c. NULL: none, no room. */
struct lib_entry *attach_lib__find(const struct attach *a, const struct ct_lib_key *key);
struct lib_entry *attach_lib__add(struct attach *a, const struct target_lib *t);
void attach_lib__take_ids(struct attach *a, struct lib_entry *e, const struct elf_lib *elf);
void attach_lib__give_ids(struct attach *a, struct lib_entry *e);
void attach_lib__free(struct attach *a, struct lib_entry *e);
/* Tells the kernel side that the file is known, or that it is not, by none of its keys. */
void attach_lib__tell(struct attach *a, const struct ct_lib_key *key, unsigned lib_id);
void attach_lib__forget_keys(struct attach *a, const struct lib_entry *e);
/* attach.c: reads what e->watch has open and puts the probes on. */
int attach_lib__put_on(struct attach *a, struct lib_entry *e);
/* attach_written.c: the same, when nobody writes to it; fd: the first time, else -1. */
int attach_lib__hold(struct attach *a, struct lib_entry *e, int fd);
/* attach_inproc.c: its links go, all of them; what links__close() says, or soon. */
int attach_lib__take_off(struct attach *a, struct lib_entry *e);
void attach_lib__take_off_soon(struct attach *a, struct lib_entry *e);
/* Once: which functions without a probe nobody else sees. inside: as in struct ct_inproc; NULL:
 * they see none. */
void attach_lib__say_refused(struct attach *a, struct lib_entry *e, const uint64_t *inproc);
/* Its probes have gone: who wants to write may. */
void attach_lib__closed(struct attach *a, struct lib_entry *e);

/* attach_cost.c: probes on functions of our own: proof that the mechanism works. 0 also when the
 * functions are not found. */
int stubs__attach(struct attach *a, bool entry_only);
/* What a system call takes, in nanoseconds, for attach.bare_syscall_ns before its tracepoints are
 * on. */
double syscall__time(void);

/* levels.c: specs of the functions that the kernel does not have yet. */
int levels__fill(struct attach *a);
/* Of one that was another's. */
int levels__refill(struct attach *a, unsigned func_id);
/* Programs do nothing any more: calls in flight stay so. */
void levels__end(struct attach *a);
/* What the kernel was told to read of a function. */
int levels__spec(struct attach *a, uint32_t id, struct ct_spec *spec);

#endif /* ATTACH_PRIV_H */
