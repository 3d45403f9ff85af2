/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by attach.c, attach_*.c and levels.c only. */
#ifndef ATTACH_PRIV_H
#define ATTACH_PRIV_H

#include "attach.h"
#include "attach/find/layer.h"
#include "attach/probe/links.h"
#include "attach/find/watch.h"

#include "util/limits.h"

#include <bpf/libbpf.h>
#include <pthread.h>

#include "cudatrace.skel.h"

/* Probe sites of a library: parallel arrays. */
struct probe_sites {
	uint64_t *offs, *cookies;
	const char **names;
	unsigned cnt, group_cnt[LINKS_GROUP_CNT];
	const char *
		*bad; /* names that are not tried, because the kernel refuses their instruction */
	unsigned bad_cnt;
	struct elf_lib *elf; /* owner of the names */
};

struct lib_entry {
	struct attach_lib lib;
	struct probe_sites *sites; /* kept until the kernel has replied */
	struct layer_file file;
	struct file_watch watch;
	unsigned owner; /* owner of its links */
	unsigned
		rest_owner; /* not 0: owner of the links that stay after attach__detach_covered() */
	uint64_t rest[CT_MAX_FUNCS / 64]; /* functions that have one of those */
	bool covered_off;		  /* only those are left */
	bool warned_refused;
	uint64_t again_ns, again_wait_ns; /* attach__look_again(): not before; doubles */
	uint64_t late_ns; /* when late probes were attached; 0: they were not late */
	/* State of a period in which the library was in use without probes: attach__missed()
	 * reports it once. */
	enum { MISSED_NONE, MISSED_NEW, MISSED_REPORTED } missed;
	bool off;     /* being written: no probes; attach again from due_ns on */
	bool late;    /* noticed after the write */
	bool closing; /* off, but its probes are still being removed: the writer waits */
	unsigned writes;
	uint64_t written_ns, seen_ns, due_ns;
	uint8_t held[CT_MAX_FUNCS / 8]; /* ids of functions that are not in the table */
};

/* A second device and inode of a library. */
struct lib_key {
	struct ct_lib_key key;
	unsigned lib_id;
	uid_t uid; /* user of the process that mapped it so */
};

/* --python: a file with a probe on the function that frees code objects. It stays, because further
 * processes may use it. */
struct python_file {
	uint64_t dev, ino, off;
	unsigned owner; /* owner of its link */
	struct file_watch watch;
};

struct attach {
	struct cudatrace_bpf *skel;
	struct links links; /* owners are library ids */
	bool warned_late, detached;
	struct probe_progs progs;
	bool has_stubs; /* probes on functions of our own, until the overhead is measured */
	/* Times of a call of those without probes: emulated, single-stepped; with work between
	 * calls, by cache level. */
	double bare_ns[2], bare_away_ns[CT_COST_LEVELS];
	double bare_syscall_ns;
	uint64_t drops[CT_DROP_CNT]; /* as of the last attach__totals() */
	enum mechanism mech;
	enum nv_probe kernel_probe;
	struct fnset *fns;
	pid_t only_pid;
	enum ct_redact redact;
	unsigned spec_cnt; /* functions whose spec is in the kernel */
	int *ring_fds;	   /* one for each processor */
	unsigned ring_cnt;
	size_t ring_sz; /* of each */
	int rings_fd;	/* map of the rings */
	pthread_t rings_maker;
	bool has_rings_maker;
	int rings_ret;
	struct lib_entry **libs;
	unsigned lib_cnt, newest_lib, off_cnt;
	uint64_t look_again_ns;
	unsigned newest_owner;
	struct lib_key *keys; /* oldest first */
	unsigned key_cnt;
	struct watch_fds watch;
	struct torch_file *torch_files; /* --torch: one for each libtorch_cpu so far */
	unsigned torch_file_cnt;
	struct python_file python_files[ATTACH_PYTHON_FILES_MAX];
	unsigned python_file_cnt;
	bool force;
	bool inproc; /* in-process libraries see nearly all calls */
	struct quotas *quotas;
};

struct elf_lib;
/* attach_torch.c: stores a libtorch_cpu's data for the programs and for attach__torch(). */
void attach_torch__take(struct attach *a, const struct lib_entry *e, struct elf_lib *elf);
void attach_torch__free(struct attach *a);
/* attach_python.c: removes its probe from a file that is about to be written. */
void attach_python__follow_writes(struct attach *a);
void attach_python__free(struct attach *a);
/* attach_sites.c. Takes ownership of elf. Functions in excluded (NULL: none) get no sites. Returns
 * NULL if out of memory. */
struct probe_sites *probe_sites__new(struct attach *a, struct elf_lib *elf, struct attach_lib *lib,
				     unsigned turn, const uint64_t *excluded);
void probe_sites__free(struct probe_sites *p);
/* Attaches e's sites. Returns 0, or -errno after reporting. -EINPROGRESS: attach__late() will
 * report it. */
int attach_sites(struct attach *a, struct lib_entry *e, int fd);

/* attach_load.c. Both report their errors. */
int attach__load(struct attach *a, const struct attach_opts *o);
/* Reports why the kernel rejected the programs or maps. */
void attach__load_error(int ret);
/*
 * attach_rings.c. A thread creates the rings and fills their map, because the kernel waits in
 * between; meanwhile the programs are verified. Between these two calls only the map may be used.
 * total: bytes of all rings together. rings__begin() reports its errors.
 */
int rings__begin(struct attach *a, uint64_t total);
int rings__end(struct attach *a);
void rings__close(struct attach *a);

/* levels.c: sets which results have a name, and which files to look for. Call before loading. */
void levels__prepare(struct ct_cfg *cfg, const struct fnset *fns);
/* memlimit.c: sets the sizes of the tables that programs fill. Call before loading. */
void memlimit__prepare(struct cudatrace_bpf *skel, struct ct_cfg *cfg, const struct attach_opts *o);
/* Uncharges a row of that user. */
void memlimit__uncharge(struct attach *a, enum ct_table table, uid_t uid);
/* Adds the process's row if needed, and sets it. Returns -ENOSPC if the table is full or the user
 * over its share. */
int memlimit__set_process(struct attach *a, uint32_t pid,
			  void (*set)(struct ct_pid *p, uint32_t value), uint32_t value);
void memlimit__drop_process(struct attach *a, uint32_t pid);
/* attach_libs.c. Both return NULL: not found; no space. */
struct lib_entry *attach_lib__find(const struct attach *a, const struct ct_lib_key *key);
struct lib_entry *attach_lib__add(struct attach *a, const struct target_lib *t);
void attach_lib__take_ids(struct attach *a, struct lib_entry *e, const struct elf_lib *elf);
void attach_lib__give_ids(struct attach *a, struct lib_entry *e);
void attach_lib__free(struct attach *a, struct lib_entry *e);
/* Updates the kernel side: the file is known, or not known by any of its keys. */
void attach_lib__announce(struct attach *a, const struct ct_lib_key *key, unsigned lib_id);
void attach_lib__forget_keys(struct attach *a, const struct lib_entry *e);
/* attach.c: reads the file open in e->watch and attaches. */
int attach_lib__put_on(struct attach *a, struct lib_entry *e);
/* attach_written.c: the same, once the file is not being written. fd: the first time, else -1. */
int attach_lib__hold(struct attach *a, struct lib_entry *e, int fd);
/* attach_inproc.c: closes all of its links. The first returns links__close()'s result; the second
 * does not wait. */
int attach_lib__take_off(struct attach *a, struct lib_entry *e);
void attach_lib__take_off_soon(struct attach *a, struct lib_entry *e);
/* Warns once about functions without a probe that no library records. inproc: as in struct
 * ct_inproc; NULL: no library. */
void attach_lib__report_refused(struct attach *a, struct lib_entry *e, const uint64_t *inproc);
/* Its probes are gone: lets the writer continue. */
void attach_lib__closed(struct attach *a, struct lib_entry *e);

/* attach_cost.c: attaches to functions of our own, which proves that the mechanism works. Returns 0
 * also if the functions are not found. */
int stubs__attach(struct attach *a, bool entry_only);
/* Returns the time of a system call in nanoseconds, for attach.bare_syscall_ns, before its
 * tracepoints are attached. */
double syscall__time(void);

/* levels.c: stores the specs of functions that the kernel does not have yet. */
int levels__fill(struct attach *a);
/* Stores the spec of a function id that is reused. */
int levels__refill(struct attach *a, unsigned func_id);
/* Turns the programs off: calls in flight stay as they are. */
void levels__end(struct attach *a);
/* Reads a function's spec back from the kernel. */
int levels__spec(struct attach *a, uint32_t id, struct ct_spec *spec);

#endif /* ATTACH_PRIV_H */
