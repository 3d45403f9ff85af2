/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --kernel: the driver's system calls, recorded as by bpf/nv.bpf.h and bpf/nv_sys.bpf.h. These
 * functions replace libc's (nv_hook.c) and call them.
 *
 * A record is assembled in the thread's slot, where the tracer finds it if the call does not
 * return, and copied to the ring at the end.
 */
#include "inject.h"

#include "ct_nv_copy.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* --- functions for ct_nv_copy.h --- */

long nv_read(void *to, __u32 len, __u64 addr)
{
	const struct thread *t = inject_me.t;

	return memory_read(t, t->busy_sp, to, addr, len);
}

const struct ct_nv_plan *nv_plan_at(const struct ct_nv_key *key)
{
	const struct ct_shm_nv *nv = &inject_process->set->nv;

	for (uint32_t i = 0; i < nv->plan_cnt && i < CT_NV_PLANS_MAX; i++)
		if (nv->plans[i].key.nr == key->nr && nv->plans[i].key.dev == key->dev)
			return &nv->plans[i].plan;
	return NULL;
}

const __u32 *nv_params_at(const __u32 *control)
{
	const struct ct_shm_nv *nv = &inject_process->set->nv;

	for (uint32_t i = 0; i < nv->params_cnt && i < CT_NV_PARAMS_MAX; i++)
		if (nv->params[i].control == *control)
			return &nv->params[i].len;
	return NULL;
}

/* --- devices --- */

static int dev_by_name(int fd, uint16_t *minor)
{
	char link[32] = "/proc/self/fd/", path[4096], name[16] = "", digits[12], *slash;
	size_t at = strlen(link), n = 0;
	long len;

	do
		digits[n++] = '0' + fd % 10;
	while (fd /= 10);
	while (n)
		link[at++] = digits[--n];
	len = sys(SYS_readlinkat, AT_FDCWD, link, path, sizeof(path) - 1);
	if (len < 0)
		return CT_NV_NONE;
	path[len] = 0;
	slash = strrchr(path, '/');
	for (n = 0; slash && n < sizeof(name) - 1 && slash[n + 1]; n++)
		name[n] = slash[n + 1];
	return nv_dev_by_name(name, minor);
}

static int dev_of(const struct process *p, int fd, uint16_t *minor)
{
	int dev = CT_NV_NONE;
	struct stat st;

	*minor = 0;
	if (p->set->nv.devs.by_name) {
		dev = dev_by_name(fd, minor);
	} else if (!sys(SYS_fstat, fd, &st) && S_ISCHR(st.st_mode)) {
		*minor = minor(st.st_rdev);
		dev = nv_dev_by_number(&p->set->nv.devs, major(st.st_rdev), *minor);
	}
	return dev;
}

/* --- records --- */

static void send(struct thread *t, uint16_t flags)
{
	struct ct_nv_thread *st = &t->slot->nv;
	struct ct_nv *rec = (struct ct_nv *)st->out;
	void *to = ring_room(t, st->off);

	rec->rec.size = st->off;
	rec->rec.flags = flags;
	if (to)
		memcpy(to, rec, st->off);
	else
		bump(&t->slot->drops[CT_DROP_NV]);
	__atomic_store_n(&st->active, 0, __ATOMIC_RELEASE);
	t->nv_sp = 0;
	if (to)
		ring_send(t, rec->rec.size);
}

cold void nv_unfinished(struct thread *t, uint64_t now)
{
	struct ct_nv_thread *st = &t->slot->nv;

	if (!st->active)
		return;
	((struct ct_nv *)st->out)->end_ns = now;
	send(t, CT_CALL_F_UNFINISHED);
}

/* Returns the frame of the call that the thread is in; NULL: none. */
static struct ct_frame *frame_of(struct ct_shm_slot *s)
{
	uint32_t depth = ct_shm_depth(s);

	return depth && depth <= CT_MAX_DEPTH ? &s->frames[depth - 1] : NULL;
}

static void fill(const struct process *p, struct thread *t, const struct nv_what *w, int dev,
		 uint16_t minor)
{
	struct ct_shm_slot *s = t->slot;
	struct ct_nv *rec = (struct ct_nv *)s->nv.out;
	const struct ct_frame *f = frame_of(s);

	t->nv_call = f ? f->call_id : 0;
	nv_begin(&s->nv, w, dev, minor, p->set->redact, f);
	rec->rec.kind = CT_REC_NV;
	rec->rec.tid = t->tid;
}

/* Preserves errno. Returns NULL if there will be no record. */
static struct thread *enter(const struct nv_what *w, int dev, uint16_t minor, uint64_t sp,
			    uint64_t began)
{
	struct process *p = inject_process;
	struct thread *t = inject_me.t;
	uint64_t now;

	if (!t || inject_me.gen != p->alive)
		t = thread_begin(sp);
	if (!t)
		return NULL;
	if (is_within(t, sp, t->busy_sp) || is_within(t, sp, t->nv_sp)) {
		bump(&t->slot->drops[CT_DROP_NV]);
		return NULL;
	}
	busy_set(t, sp);
	if (unlikely(p->set->ended)) {
		busy_clear(t);
		return NULL;
	}
	/* A signal handler has left the call by longjmp(). */
	nv_unfinished(t, thread_now(p, t));
	fill(p, t, w, dev, minor);
	now = ((struct ct_nv *)t->slot->nv.out)->rec.ts_ns = thread_now(p, t);
	t->nv_took = now > began ? now - began : 0;
	t->nv_sp = sp;
	__atomic_store_n(&t->slot->nv.active, 1, __ATOMIC_RELEASE);
	busy_clear(t);
	if (unlikely((int64_t)(now - p->set->beat_ns) > (int64_t)CT_SHM_STALE_NS))
		process_check_tracer(p, now);
	return t;
}

/* A child of fork is not recorded before it makes a CUDA call. */
static bool is_wanted(const struct process *p)
{
	return p->alive && !p->set->ended && !is_quiet();
}

static struct thread *enter_file(const struct nv_what *w, uint64_t sp)
{
	const struct process *p = inject_process;
	uint64_t began;
	uint16_t minor;
	int dev;

	if (w->fd < 0 || !is_wanted(p))
		return NULL;
	began = inject_now();
	dev = dev_of(p, w->fd, &minor);
	return dev ? enter(w, dev, minor, sp, began) : NULL;
}

static struct thread *enter_open(const char *path, uint64_t sp)
{
	const struct nv_what w = {.op = CT_NV_OPEN, .fd = -1};
	char begin[sizeof(CT_NV_PATH)] = "";
	struct thread *t;
	uint64_t began;

	if (!is_wanted(inject_process))
		return NULL;
	began = inject_now();
	t = inject_me.t && inject_me.gen == inject_process->alive ? inject_me.t : thread_begin(sp);
	if (!t || memory_read(t, sp, begin, (uintptr_t)path, sizeof(begin) - 1) ||
	    strcmp(begin, CT_NV_PATH))
		return NULL;
	return enter(&w, CT_NV_NONE, 0, sp, began);
}

static void leave(struct thread *t, int64_t ret)
{
	struct process *p = inject_process;
	struct ct_shm_slot *s = t->slot;
	struct ct_nv *rec = (struct ct_nv *)s->nv.out;
	struct ct_frame *f = frame_of(s);
	uint64_t ended, done;

	rec->end_ns = thread_now(p, t);
	rec->ret = nv_result(p->set->redact, rec->op, ret);
	nv_end(&s->nv, p->set->redact);
	if (f)
		nv_count(rec, f);
	ended = rec->end_ns;
	send(t, 0);
	done = thread_now(p, t);
	cost_add_nv(t, t->nv_took + done - ended, done);
}

/* If the call succeeded, the file exists now. Returns false if it is not a device. */
static bool is_opened(const struct process *p, struct ct_nv *rec, int fd)
{
	rec->dev = fd < 0 ? CT_NV_OTHER : dev_of(p, fd, &rec->minor);
	if (fd >= 0 && p->set->redact != CT_REDACT_ARGS)
		rec->fd = fd;
	return rec->dev;
}

/* Preserves errno. ret: result of the system call. */
static void end(struct thread *t, uint64_t sp, int64_t ret)
{
	const struct process *p = inject_process;
	struct ct_nv *rec;
	int err = errno;

	/* The tracer has ended meanwhile, or a longjmp() has removed the call. */
	if (!t || inject_me.t != t || inject_me.gen != p->alive || t->nv_sp != sp)
		return;
	rec = (struct ct_nv *)t->slot->nv.out;
	busy_set(t, sp);
	if (unlikely(p->set->ended)) {
		/* For the tracer the call is in flight. */
		t->nv_sp = 0;
	} else if (rec->op != CT_NV_OPEN || is_opened(p, rec, ret)) {
		leave(t, ret);
	} else {
		t->slot->nv.active = 0;
		t->nv_sp = 0;
	}
	busy_clear(t);
	errno = err;
}

/* --- replacements of libc's functions --- */

#define REAL(i, type) ((type)nv_funcs[i].real)

enum { IOCTL, CLOSE, MMAP, MMAP64, OPEN, OPEN64, OPENAT, OPENAT64 };

static int on_ioctl(int fd, unsigned long cmd, void *arg)
{
	const struct nv_what w = {.arg = (uintptr_t)arg, .cmd = cmd, .fd = fd, .op = CT_NV_IOCTL};
	struct thread *t = enter_file(&w, PLACE);
	int ret = REAL(IOCTL, int (*)(int, unsigned long, ...))(fd, cmd, arg);

	end(t, PLACE, ret < 0 ? -errno : ret);
	return ret;
}

static int on_close(int fd)
{
	/* Copies of a descriptor are not tracked. */
	const struct nv_what w = {.fd = fd, .op = CT_NV_CLOSE, .is_release = 1};
	struct thread *t = enter_file(&w, PLACE);
	int ret = REAL(CLOSE, int (*)(int))(fd);

	end(t, PLACE, ret < 0 ? -errno : ret);
	return ret;
}

#define ON_MMAP(name, NAME)                                                                        \
	static void *on_##name(void *addr, size_t len, int prot, int flags, int fd, off_t off)     \
	{                                                                                          \
		const struct nv_what w = {.arg = len, .fd = fd, .op = CT_NV_MMAP};                 \
		struct thread *t = enter_file(&w, PLACE);                                          \
		void *p = REAL(NAME, void *(*)(void *, size_t, int, int, int, off_t))(             \
			addr, len, prot, flags, fd, off);                                          \
                                                                                                   \
		end(t, PLACE, p == MAP_FAILED ? -errno : (intptr_t)p);                             \
		return p;                                                                          \
	}

/* Without O_CREAT, mode is undefined. */
#define ON_OPEN(name, NAME)                                                                        \
	static int on_##name(const char *path, int flags, unsigned mode)                           \
	{                                                                                          \
		struct thread *t = enter_open(path, PLACE);                                        \
		int fd = REAL(NAME, int (*)(const char *, int, ...))(path, flags, mode);           \
                                                                                                   \
		end(t, PLACE, fd < 0 ? -errno : fd);                                               \
		return fd;                                                                         \
	}

#define ON_OPENAT(name, NAME)                                                                      \
	static int on_##name(int at, const char *path, int flags, unsigned mode)                   \
	{                                                                                          \
		struct thread *t = enter_open(path, PLACE);                                        \
		int fd = REAL(NAME, int (*)(int, const char *, int, ...))(at, path, flags, mode);  \
                                                                                                   \
		end(t, PLACE, fd < 0 ? -errno : fd);                                               \
		return fd;                                                                         \
	}

ON_MMAP(mmap, MMAP)
ON_MMAP(mmap64, MMAP64)
ON_OPEN(open, OPEN)
ON_OPEN(open64, OPEN64)
ON_OPENAT(openat, OPENAT)
ON_OPENAT(openat64, OPENAT64)

#define FUNC(NAME, func) [NAME] = {.name = #func, .hook = on_##func}

struct nv_func nv_funcs[NV_FUNC_CNT] = {
	FUNC(IOCTL, ioctl), FUNC(CLOSE, close),	  FUNC(MMAP, mmap),	FUNC(MMAP64, mmap64),
	FUNC(OPEN, open),   FUNC(OPEN64, open64), FUNC(OPENAT, openat), FUNC(OPENAT64, openat64),
};
