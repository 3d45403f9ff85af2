/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lifetime of the skeleton, its maps, and the attached library files. */
#include "attach_priv.h"

#include "attach/find/elf.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/reader.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libbpf explains a failed load at length: show that with -v only. Our own message is one line. */
static int libbpf_print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char text[4096];
	int n = 0;

	if (log_level() >= LOG_DEBUG && level != LIBBPF_DEBUG)
		n = vsnprintf(text, sizeof(text), fmt, ap);
	if (n > 0)
		log_write(text, strnlen(text, sizeof(text)));
	return 0;
}

/* Call early: fork is cheaper while little memory is in use. */
static int start_links(struct attach *a, const struct attach_opts *o)
{
	int ret = links__start(&a->links, o->sandbox);

	if (ret)
		err("cannot start cudatrace-links: %s: raise the limits of processes and open files "
		    "(ulimit -u, -n)",
		    strerror(-ret));
	a->links.patient = o->hold;
	return ret;
}

struct attach *attach__open(const struct attach_opts *o)
{
	struct attach *a = calloc(1, sizeof(*a));

	if (!a) {
		err("out of memory");
		return NULL;
	}
	libbpf_set_print(libbpf_print);
	a->fns = o->fns;
	a->only_pid = o->only_pid;
	a->redact = o->redact;
	a->quotas = o->quotas;
	a->force = o->force;
	a->inproc = o->inproc == CT_INPROC_ALL;
	if (a->quotas)
		a->quotas->of[QUOTA_FUNCTIONS].max = ATTACH_STUB_FUNC - fnset__cnt(a->fns);
	a->watch = (struct watch_fds){-1, -1, -1};
	a->rings_fd = -1;
	if (watch__open(&a->watch))
		warn("cannot watch probed files for writes: %s: raise the limits of open files "
		     "and of inotify",
		     strerror(errno));
	if (start_links(a, o) || rings__begin(a, o->ring_sz) || attach__load(a, o) ||
	    levels__fill(a)) {
		attach__free(a);
		return NULL;
	}
	return a;
}

enum mechanism attach__mechanism(const struct attach *a)
{
	return a->mech;
}

enum nv_probe attach__kernel_probe(const struct attach *a)
{
	return a ? a->kernel_probe : NV_PROBE_AUTO;
}

bool attach__has_xid(const struct attach *a)
{
	return a && bpf_program__autoload(a->skel->progs.ct_xid);
}

const int *attach__ring_fds(const struct attach *a, unsigned *cnt, size_t *size)
{
	*cnt = a->ring_cnt;
	*size = a->ring_sz;
	return a->ring_fds;
}

static void set_flags(struct ct_pid *p, uint32_t flags)
{
	*p = (struct ct_pid){.flags = flags, .uid = p->uid};
}

int attach__add_pid(struct attach *a, pid_t pid, uint32_t flags)
{
	int ret = memlimit__set_process(a, pid, set_flags, flags);

	if (ret)
		err("cannot trace process %d: %s", pid, strerror(-ret));
	return ret;
}

/* Sends the layout of a libnccl's communicators. Without it, collectives have only the
 * communicator's address. */
static void send_comm_layout(struct attach *a, const struct lib_entry *e, const struct elf_lib *elf)
{
	uint32_t id = e->lib.id;

	if (e->lib.api->id != API_NCCL)
		return;
	if (!elf->comm.off)
		info("%s: cannot find the ranks in its communicators: collectives of different "
		     "processes are not joined",
		     e->lib.path);
	else if (bpf_map__update_elem(a->skel->maps.comm_layouts, &id, sizeof(id), &elf->comm,
				      sizeof(elf->comm), BPF_ANY))
		info("%s: too many NCCL libraries: its communicators are not read", e->lib.path);
	else
		dbg("%s: NCCL %u, hash of communicators at 0x%x, counts at 0x%x", e->lib.path,
		    elf->comm.version, elf->comm.off, elf->comm.counts_off);
}

int attach_lib__put_on(struct attach *a, struct lib_entry *e)
{
	int fd = e->watch.fd;
	struct elf_lib *elf;
	char why[256];
	int ret;

	elf = elf_lib__read(fd, e->lib.api, why, sizeof(why));
	if (!elf) {
		err("%s: %s", e->lib.path, why);
		return -ENOEXEC;
	}
	snprintf(e->lib.build_id, sizeof(e->lib.build_id), "%s", elf->build_id);
	if (elf_lib_ifuncs(elf, a->fns, e->lib.ifuncs, sizeof(e->lib.ifuncs)))
		warn("%s: %s: these calls are not traced", e->lib.path, e->lib.ifuncs);
	if (!elf->sym_cnt) {
		err("%s: not a %s: it exports no function %s...", e->lib.path,
		    api_lib_name(e->lib.api), e->lib.api->prefix);
		ret = -ENOEXEC;
	} else if (elf->is_stub) {
		info("%s is a stub for linking, not a driver: ignored", e->lib.path);
		e->lib.ignored = true;
		ret = 0;
	} else {
		attach_lib__take_ids(a, e, elf);
		send_comm_layout(a, e, elf);
		attach_torch__take(a, e, elf);
		e->owner = ++a->newest_owner;
		e->sites = probe_sites__new(a, elf, &e->lib, e->owner, NULL);
		ret = e->sites ? levels__fill(a) : -ENOMEM;
		if (e->sites)
			return ret ?: attach_sites(a, e, fd);
	}
	elf_lib__free(elf);
	return ret;
}

static int open_lib(struct attach *a, const struct target_lib *t, struct lib_entry **e)
{
	int fd = target_lib__open(t), ret = fd < 0 ? fd : 0;
	struct layer_file file = {0};

	/* The process may end, or close the file and still map it; something may hang at the
	 * moment. The next process may succeed: this is not remembered. */
	if (ret && (t->pid || ret == -ENOENT))
		return ret;
	layer_file__read(&file, fd);
	for (unsigned i = 0; i < a->lib_cnt && !*e; i++)
		*e = layer_file__same(&a->libs[i]->file, &file) ? a->libs[i] : NULL;
	if (!*e && (*e = attach_lib__add(a, t))) {
		if (ret)
			err("cannot open %s: %s", t->open_path, strerror(-ret));
		(*e)->file = file;
		(*e)->lib.error = ret ?: attach_lib__hold(a, *e, fd);
	}
	if (fd >= 0)
		close(fd);
	/* Announced also after a failure: a process that maps it must not be stopped for it. */
	if (*e && !(*e)->off)
		attach_lib__announce(a, &t->key, (*e)->lib.id);
	return *e ? 0 : -ENOSPC;
}

int attach__lib(struct attach *a, const struct target_lib *t, const struct attach_lib **out)
{
	struct lib_entry *e = attach_lib__find(a, &t->key);
	int ret = e ? 0 : open_lib(a, t, &e);

	if (e && e->off && (e->lib.error = attach_lib__hold(a, e, -1)) != -ETXTBSY)
		attach_lib__announce(a, &t->key, e->lib.id);
	if (ret)
		return ret;
	*out = &e->lib;
	return e->lib.error;
}

/* Waits until running BPF programs have ended. */
static void await_programs(void)
{
	const struct timespec wait = {.tv_nsec = 20000000};

	/* They are RCU readers, and this waits for all of them. */
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		nanosleep(&wait, NULL);
}

static void report_lingering(const struct attach *a)
{
	pid_t holder = a->mech == MECH_PERF ? 0 : links__holder(&a->links);

	if (holder)
		warn("the probes stay attached, without effect, until a memory lock is "
		     "released, perhaps of process %d, which is blocked, too: cudatrace-links, process %d, then "
		     "removes them and exits",
		     (int)holder, (int)a->links.pid);
	else
		info("cudatrace-links, process %d, removes the probes, which no longer have an effect, and then exits",
		     (int)a->links.pid);
}

void attach__detach(struct attach *a)
{
	if (!a || !a->skel || a->detached)
		return;
	a->detached = true;
	levels__end(a);
	if (!links__close_all(&a->links, a->mech)) {
		await_programs();
		report_lingering(a);
	}
	for (unsigned i = 0; i < a->lib_cnt; i++)
		file_watch__close(&a->libs[i]->watch, &a->watch);
	attach_python__free(a);
	cudatrace_bpf__detach(a->skel);
}

void attach__free(struct attach *a)
{
	if (!a)
		return;
	attach__detach(a);
	links__end(&a->links);
	for (unsigned i = 0; i < a->lib_cnt; i++)
		attach_lib__free(a, a->libs[i]);
	attach_torch__free(a);
	free(a->libs);
	free(a->keys);
	cudatrace_bpf__destroy(a->skel);
	rings__close(a);
	watch__close(&a->watch);
	free(a);
}
