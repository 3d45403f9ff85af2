/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The skeleton's life, its maps, and the library files that are attached. */
#include "attach_priv.h"

#include "elf.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/reader.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* libbpf explains a failed load at length: that is for -v, the one line that counts is ours. */
static int libbpf_print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (log_level() >= LOG_DEBUG && level != LIBBPF_DEBUG)
		vfprintf(stderr, fmt, ap);
	return 0;
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
	a->hide = o->hide;
	a->quotas = o->quotas;
	a->force = o->force;
	if (a->quotas)
		a->quotas->of[QUOTA_FUNCTIONS].max = ATTACH_STUB_FUNC - fnset__cnt(a->fns);
	a->watch = (struct watch){-1, -1, -1};
	if (watch__open(&a->watch))
		warn("files that are written to while they are probed will not be noticed: %s: "
		     "raise the limits of open files and of inotify",
		     strerror(errno));
	if (rings__make(a, o->ring_sz) || attach__load(a, o) || levels__fill(a)) {
		attach__free(a);
		return NULL;
	}
	return a;
}

enum mechanism attach__mechanism(const struct attach *a)
{
	return a->mech;
}

enum kernel_probe attach__kernel_probe(const struct attach *a)
{
	return a->kernel_probe;
}

bool attach__has_xid(const struct attach *a)
{
	return bpf_program__autoload(a->skel->progs.ct_xid);
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
	int ret = room__set_process(a, pid, set_flags, flags);

	if (ret)
		err("cannot trace process %d: %s", pid, strerror(-ret));
	return ret;
}

/* What of a library is to be probed: parallel arrays. */
struct places {
	uint64_t *offs, *cookies;
	const char **names;
	bool *refused;
	unsigned cnt;
	/* How many of them, in this order: with a return that is looked at, or without; each that
	 * may well be refused behind the others. */
	unsigned group_cnt[4];
	const char **bad; /* names: not even tried, the kernel refuses their instruction */
	unsigned bad_cnt;
};

static void places__free(struct places *p)
{
	free(p->offs);
	free(p->cookies);
	free(p->names);
	free(p->refused);
	free(p->bad);
}

static void places__add(struct places *p, struct attach *a, const struct elf_lib *elf,
			struct attach_lib *lib, bool no_return, bool suspect)
{
	unsigned before = p->cnt;

	for (unsigned i = 0; i < elf->sym_cnt; i++) {
		int id = fnset__find(a->fns, elf->syms[i].name);

		if (id < 0 || id == ATTACH_STUB_FUNC || !fnset__wanted(a->fns, id) ||
		    fnset__is_marked(a->fns, FNSET_NO_RETURN, id) != no_return)
			continue;
		if (elf->syms[i].suspect != suspect)
			continue;
		if (elf->syms[i].bad_insn) {
			/* One among 500 made attaching take 0.95 s: see attach_range(). */
			p->bad[p->bad_cnt++] = elf->syms[i].name;
			continue;
		}
		p->offs[p->cnt] = elf->syms[i].off;
		p->cookies[p->cnt] = CT_COOKIE(id, lib->id) |
				     (elf->syms[i].stepped ? CT_COOKIE_F_STEPPED : 0) |
				     (no_return ? CT_COOKIE_F_ENTRY : 0);
		p->names[p->cnt] = elf->syms[i].name;
		p->cnt++;
		lib->shifted_cnt += elf->syms[i].shift != 0;
	}
	p->group_cnt[2 * no_return + suspect] = p->cnt - before;
}

static int places__fill(struct places *p, struct attach *a, const struct elf_lib *elf,
			struct attach_lib *lib)
{
	unsigned n = elf->sym_cnt ? elf->sym_cnt : 1;

	memset(p, 0, sizeof(*p));
	p->offs = calloc(n, sizeof(*p->offs));
	p->cookies = calloc(n, sizeof(*p->cookies));
	p->names = calloc(n, sizeof(*p->names));
	p->refused = calloc(n, sizeof(*p->refused));
	p->bad = calloc(n, sizeof(*p->bad));
	if (!p->offs || !p->cookies || !p->names || !p->refused || !p->bad)
		return -ENOMEM;
	for (int g = 0; g < 4; g++)
		places__add(p, a, elf, lib, g / 2, g % 2);
	lib->wanted_cnt = p->cnt + p->bad_cnt;
	return levels__fill(a);
}

static int add_refused(struct attach_lib *lib, const char *name)
{
	lib->refused[lib->refused_cnt] = strdup(name);
	if (!lib->refused[lib->refused_cnt])
		return -ENOMEM;
	warn("the kernel cannot probe the first instruction of %s in %s: its calls are not traced",
	     name, lib->path);
	lib->refused_cnt++;
	return 0;
}

static int note_refused(struct attach_lib *lib, const struct places *p)
{
	int ret = 0;

	lib->refused = calloc(p->cnt + p->bad_cnt + 1, sizeof(*lib->refused));
	if (!lib->refused)
		return -ENOMEM;
	for (unsigned i = 0; i < p->bad_cnt && !ret; i++)
		ret = add_refused(lib, p->bad[i]);
	for (unsigned i = 0; i < p->cnt && !ret; i++)
		if (p->refused[i])
			ret = add_refused(lib, p->names[i]);
	return ret;
}

/* Each link that is closed takes 30 ms, and what a file has is up to who wrote it. */
#define ALONE_MAX 8

/* The kernel refuses a link as a whole: who may well be refused has one alone. */
static int attach_groups(struct attach *a, struct lib_entry *e, const struct places *p,
			 struct probe_req *req)
{
	unsigned at = 0, sum = 0;

	for (int g = 0; g < 4; g++) {
		unsigned end = at + p->group_cnt[g];
		bool is_alone = g % 2 && p->group_cnt[g] <= ALONE_MAX;

		req->no_return = g / 2;
		for (; at < end; at += req->cnt) {
			int ret;

			req->offs = p->offs + at;
			req->cookies = p->cookies + at;
			req->cnt = is_alone ? 1 : end - at;
			ret = probes__attach(&e->probes, a->mech, &a->progs, req, p->refused + at);
			if (ret < 0)
				return ret;
			sum += ret;
		}
	}
	return sum;
}

/*
 * A file that nobody maps takes any probe: the kernel looks at the instructions when a process maps
 * it, and drops what it cannot probe without a word. So map it here while attaching.
 */
static int attach_places(struct attach *a, struct lib_entry *e, int fd, struct places *p)
{
	struct probe_req req = {
		/* To uprobe.multi of kernels before 6.10 it is a thread. The program asks for the
		 * process anyway. */
		.pid = a->mech == MECH_MULTI ? 0 : a->only_pid,
	};
	uint64_t start = now_ns();
	char path[64];
	struct stat st;
	void *map = MAP_FAILED;
	int ret;

	/* By descriptor: what was checked is what is attached, whatever happens to the path. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	req.path = path;
	if (!fstat(fd, &st))
		map = mmap(NULL, st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	ret = attach_groups(a, e, p, &req);
	if (map != MAP_FAILED)
		munmap(map, st.st_size);
	e->lib.attach_ns = now_ns() - start;
	if (ret < 0) {
		err("cannot attach to %s: %s: run `cudatrace check`", e->lib.path, strerror(-ret));
		return ret;
	}
	e->lib.attached_cnt = ret;
	return note_refused(&e->lib, p);
}

int attach_lib__put_on(struct attach *a, struct lib_entry *e)
{
	int fd = e->watch.fd;
	struct places places = {0};
	struct elf_lib *elf;
	char why[256];
	int ret;

	elf = elf_lib__read(fd, e->lib.api, why, sizeof(why));
	if (!elf) {
		err("%s: %s", e->lib.path, why);
		return -ENOEXEC;
	}
	snprintf(e->lib.build_id, sizeof(e->lib.build_id), "%s", elf->build_id);
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
		ret = places__fill(&places, a, elf, &e->lib);
		if (!ret)
			ret = attach_places(a, e, fd, &places);
	}
	places__free(&places);
	elf_lib__free(elf);
	return ret;
}

static int open_lib(struct attach *a, const struct target_lib *t, struct lib_entry **e)
{
	int fd = target_lib__open(t), ret = fd < 0 ? fd : 0;
	struct layer_file file = {0};

	/* The process closed it meanwhile, and may map it, or the number is a folder's by now: not
	 * to be remembered as a failure. Nor that something hangs at the moment. */
	if (ret == -EISDIR)
		ret = -ENOENT;
	if (ret == -ENOENT || ret == -ETIMEDOUT || ret == -EBUSY)
		return ret;
	layer_file__read(&file, fd);
	for (unsigned i = 0; i < a->lib_cnt && !*e; i++)
		*e = layer_file__same(&a->libs[i]->file, &file) ? a->libs[i] : NULL;
	if (!*e && (*e = attach_lib__add(a, t))) {
		if (ret)
			err("cannot open %s: %s", t->open_path, strerror(-ret));
		(*e)->file = file;
		(*e)->ret = ret ?: attach_lib__hold(a, *e, fd);
	}
	if (fd >= 0)
		close(fd);
	/* Also when it failed: a process that maps it must not be stopped for it. */
	if (*e && !(*e)->off)
		attach_lib__tell(a, &t->key, (*e)->lib.id);
	return *e ? 0 : -ENOSPC;
}

int attach__lib(struct attach *a, const struct target_lib *t, const struct attach_lib **out)
{
	struct lib_entry *e = attach_lib__find(a, &t->key);
	int ret = e ? 0 : open_lib(a, t, &e);

	if (e && e->off && (e->ret = attach_lib__hold(a, e, -1)) != -ETXTBSY)
		attach_lib__tell(a, &t->key, e->lib.id);
	if (ret)
		return ret;
	*out = &e->lib;
	return e->ret;
}

void attach__detach(struct attach *a)
{
	if (!a->skel)
		return;
	probes__detach(&a->stubs);
	for (unsigned i = 0; i < a->lib_cnt; i++) {
		probes__detach(&a->libs[i]->probes);
		file_watch__close(&a->libs[i]->watch, &a->watch);
	}
	cudatrace_bpf__detach(a->skel);
}

void attach__free(struct attach *a)
{
	if (!a)
		return;
	attach__detach(a);
	for (unsigned i = 0; i < a->lib_cnt; i++)
		attach_lib__free(a, a->libs[i]);
	free(a->libs);
	free(a->keys);
	cudatrace_bpf__destroy(a->skel);
	rings__close(a);
	watch__close(&a->watch);
	free(a);
}
