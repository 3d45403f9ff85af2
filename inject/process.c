/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The process and its tracer: connecting, at the beginning and after a fork, and parting.
 */
#include "inject.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#define ANSWER_MAX_S 5
/* src/inject/shm.c: whole pages. */
#define SHM_SZ	     ((sizeof(struct ct_shm) + page_size() - 1) & -page_size())
#define ASK_EVERY_NS 1000000000ull
/* A collector of our own is there by then, or never will be. */
#define START_MAX_NS 2000000000ull

static struct process nobody;
struct process *inject_process = &nobody;

static struct sockaddr_un addr;
static socklen_t addr_len;
/* Its file, if it has one: another tracer's, that came after ours, has the same path. */
static struct {
	uint64_t dev, ino;
} tracer;
static const char *collector; /* without a tracer: the name of the one that we start; or NULL */
static bool forked;
static int first_pid; /* of whom functions were hooked in */
static uint32_t generation;
static uint32_t how_loaded;
uint32_t process_missed;

bool process_is_forked(void)
{
	return forked;
}

bool process_is_new_child(void)
{
	return first_pid && !inject_process->alive && sys(SYS_getpid) != first_pid;
}

/* Where the library's file lies; a daemon listens there if there is a socket. */
static bool find_beside(const struct object *o, void *arg)
{
	const char *slash;
	char *path = arg;
	size_t len;

	if (!object_has(o, inject_thunks, false, false))
		return false;
	slash = strrchr(o->path, '/');
	len = slash ? slash + 1 - o->path : 0;
	if (len && len + sizeof(CT_SHM_SOCKET) <= sizeof(addr.sun_path)) {
		memcpy(path, o->path, len);
		strcpy(path + len, CT_SHM_SOCKET);
	}
	return true;
}

static const char *socket_beside(void)
{
	static char path[sizeof(addr.sun_path)];

	objects_each(find_beside, path);
	return path[0] && !sys(SYS_faccessat, AT_FDCWD, path, F_OK) ? path : NULL;
}

bool process_setup(void)
{
	const char *name = env_get(CT_ENV_SOCKET);
	size_t len;

	inject_verbose = env_get("CUDATRACE_VERBOSE");
	if (!name || !*name)
		name = socket_beside();
	if (!name)
		name = collector_name();
	if (!name)
		return false;
	len = strlen(name);
	if (collector_is_name(name))
		collector = name;
	if (len >= sizeof(addr.sun_path)) {
		say(CT_ENV_SOCKET " is too long: not traced", 0);
		return false;
	}
	addr.sun_family = AF_UNIX;
	memcpy(addr.sun_path, name, len);
	addr_len = offsetof(struct sockaddr_un, sun_path) + len + 1;
	if (name[0] == '@') {
		addr.sun_path[0] = 0;
		addr_len--;
	}
	return true;
}

/* --- the connection --- */

/* A socket, or -errno. */
static int dial(int flags)
{
	struct timeval max = {.tv_sec = ANSWER_MAX_S};
	int fd = sys(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0), err;

	if (fd < 0)
		return fd;
	sys(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &max, sizeof(max));
	sys(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &max, sizeof(max));
	err = sys(SYS_connect, fd, &addr, addr_len);
	if (!err)
		return fd;
	sys(SYS_close, fd);
	return err;
}

/* Has the socket become another's since we connected? first: it is looked at for that. */
static bool is_replaced(bool first)
{
	struct stat st = {0};

	if (!addr.sun_path[0] || sys(SYS_newfstatat, AT_FDCWD, addr.sun_path, &st, 0))
		return false;
	if (first) {
		tracer.dev = st.st_dev;
		tracer.ino = st.st_ino;
	}
	return tracer.dev != st.st_dev || tracer.ino != st.st_ino;
}

/* Has a collector started, and waits until it listens. */
static int dial_collector(void)
{
	struct timespec pause = {.tv_nsec = 2000000};
	uint64_t begin = inject_now();
	int fd = collector_start(collector);

	if (fd)
		return fd;
	do {
		sys(SYS_nanosleep, &pause, NULL);
		fd = dial(0);
	} while (fd == -ECONNREFUSED && inject_now() - begin < START_MAX_NS);
	return fd;
}

static int send_all(int fd, const void *data, size_t size)
{
	long n = sys(SYS_sendto, fd, data, size, MSG_NOSIGNAL, NULL, 0);

	return n == (long)size ? 0 : n < 0 ? (int)n : -EIO;
}

/* Without links, as /proc/self/maps has it; "" if it is too long. */
static void real_path(const char *path, char *to, size_t size)
{
	char link[40] = "/proc/self/fd/";
	int fd = sys(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC);
	long len;

	if (fd < 0)
		return;
	put_number(link + strlen(link), fd, 10);
	len = sys(SYS_readlinkat, AT_FDCWD, link, to, size);
	if (len < 0 || (size_t)len == size)
		len = 0;
	to[len] = 0;
	sys(SYS_close, fd);
}

static int hello(int fd, uint32_t how, const char *lib_path)
{
	struct ct_shm_hello h = {.magic = CT_SHM_MAGIC, .version = CT_SHM_VERSION, .how = how};

	h.pid = inject_process->pid;
	sys(SYS_prctl, PR_GET_NAME, h.comm);
	real_path(lib_path, h.lib_path, sizeof(h.lib_path));
	return send_all(fd, &h, sizeof(h));
}

/* The answer, and two descriptors. */
static int welcome(int fd, struct ct_shm_welcome *w, int fds[2])
{
	struct iovec iov = {w, sizeof(*w)};
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	long n;

	do
		n = sys(SYS_recvmsg, fd, &msg, MSG_CMSG_CLOEXEC);
	while (n == -EINTR);
	if (n < 0)
		return n;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
		memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
	if (n != sizeof(*w) || w->magic != CT_SHM_MAGIC || w->version != CT_SHM_VERSION)
		return -EPROTO;
	return w->status;
}

/* Of a memory of at least that size, the first bytes. A child of fork does not have them. */
static void *map(int fd, size_t has, size_t size, int prot)
{
	long end = sys(SYS_lseek, fd, 0, SEEK_END), at;

	if (end < 0 || (size_t)end < has)
		return NULL;
	at = sys(SYS_mmap, 0, size, prot, MAP_SHARED, fd, 0);
	if (is_sys_error(at))
		return NULL;
	sys(SYS_madvise, at, size, MADV_DONTFORK);
	sys(SYS_madvise, at, size, MADV_DONTDUMP); /* no part of the program */
	return (void *)at;
}

static bool is_valid(const struct ct_shm *m, uint64_t size)
{
	return m->magic == CT_SHM_MAGIC && m->version == CT_SHM_VERSION && m->slot_cnt &&
	       m->slots_off >= sizeof(*m) && m->slots_off < size && m->stride &&
	       (size - m->slots_off) / m->stride >= m->slot_cnt &&
	       m->ring_sz >= 2 * CT_SHM_REC_MAX && !(m->ring_sz & (m->ring_sz - 1)) &&
	       m->ring_off >= sizeof(struct ct_shm_slot) && m->ring_off <= m->stride &&
	       m->ring_sz <= m->stride - m->ring_off && m->counts_off <= m->stride &&
	       sizeof(struct ct_count) * CT_MAX_FUNCS <= m->stride - m->counts_off &&
	       !((m->slots_off | m->stride | m->ring_off | m->ring_sz | m->counts_off) &
		 (page_size() - 1));
}

static int map_whole(struct process *p, const struct ct_shm_welcome *w, int fd)
{
	struct ct_shm *shm = map(fd, w->shm_sz, w->shm_sz, PROT_READ | PROT_WRITE);

	if (!shm)
		return -ENOMEM;
	sys(SYS_munmap, p->shm, SHM_SZ);
	p->shm = shm;
	p->whole = true;
	return 0;
}

static int map_all(struct process *p, const struct ct_shm_welcome *w, const int fds[2])
{
	struct ct_shm_set *set;
	struct ct_shm *shm;

	if (fds[0] < 0 || w->set_sz < sizeof(*set) || w->shm_sz < sizeof(*shm))
		return -EPROTO;
	set = map(fds[0], w->set_sz, w->set_sz, PROT_READ);
	/* The rest of it when it is needed: slots.c. */
	shm = map(fds[1], w->shm_sz, SHM_SZ, PROT_READ | PROT_WRITE);
	if (set && shm && set->magic == CT_SHM_MAGIC && set->version == CT_SHM_VERSION &&
	    shm->slots_off == SHM_SZ && is_valid(shm, w->shm_sz)) {
		p->set = set;
		p->shm = shm;
		clock_set_offset(shm->clock_offset_ns);
		return slot_at(p, 0) ? 0 : map_whole(p, w, fds[1]);
	}
	if (set)
		sys(SYS_munmap, set, w->set_sz);
	if (shm)
		sys(SYS_munmap, shm, SHM_SZ);
	return set && shm ? -EPROTO : -ENOMEM;
}

static int hooked(int fd, const struct hooked_cnt *cnt)
{
	struct ct_shm_hooked h = {.magic = CT_SHM_MAGIC,
				  .version = CT_SHM_VERSION,
				  .slot_cnt = cnt->slots,
				  .pointer_cnt = cnt->pointers,
				  .nv_cnt = cnt->nv,
				  .hooked_ns = inject_now(),
				  .alive = (uintptr_t)&inject_process->alive};

	memcpy(h.is_hooked, inject_is_hooked, sizeof(h.is_hooked));
	return send_all(fd, &h, sizeof(h));
}

/* Whoever has probes on the functions has been told who sees what from here on. */
static int await_go(int fd)
{
	struct ct_shm_go go = {0};
	long n;

	do
		n = sys(SYS_recvfrom, fd, &go, sizeof(go), 0, NULL, NULL);
	while (n == -EINTR);
	return n < 0 ? (int)n : n == sizeof(go) && go.magic == CT_SHM_MAGIC ? 0 : -EPROTO;
}

int process_more(const char *path, int (*hook)(struct hooked_cnt *cnt))
{
	struct ct_shm_welcome w = {0};
	struct hooked_cnt cnt = {0};
	int none[2] = {-1, -1}, fd = dial(0), err;

	if (fd < 0)
		return fd;
	err = hello(fd, CT_SHM_MORE, path);
	if (!err)
		err = welcome(fd, &w, none);
	if (!err)
		err = hook(&cnt);
	if (!err)
		err = hooked(fd, &cnt);
	sys(SYS_close, fd);
	return err;
}

static int connect_and_hook(struct process *p, uint32_t how, bool first)
{
	static struct hooked_cnt cnt;
	struct ct_shm_welcome w = {0};
	int fds[2] = {-1, -1}, fd = dial(0), err;

	if (fd == -ECONNREFUSED && collector && first)
		fd = dial_collector();
	if (fd < 0)
		return fd;
	is_replaced(true);
	p->pid = sys(SYS_getpid);
	err = hello(fd, how, inject_lib.path);
	if (!err)
		err = welcome(fd, &w, fds);
	if (!err)
		err = map_all(p, &w, fds);
	if (!err && !first && !hooks_match(p->set))
		err = -ESTALE;
	if (!err) {
		names_forget();
		clock_setup(p);
		/* A child's calls are left to it from the first one on. */
		p->muted = first && p->set->probed;
		/* The driver is in cuInit(), which nobody else sees. */
		process_missed = first && how == CT_SHM_INJECTION && (!p->set->probed || w.again);
		if (!p->set->probed)
			__atomic_store_n(&p->alive, ++generation, __ATOMIC_RELEASE);
		if (first)
			hook_all(p->set, how == CT_SHM_PRELOAD && !p->set->probed, &cnt);
		if (first)
			nvtx_hook(p->set);
		if (p->set->nv.wanted)
			cnt.nv = nv_hook();
		err = hooked(fd, &cnt);
	}
	if (!err && p->set->probed)
		err = await_go(fd);
	if (!err && p->set->probed)
		__atomic_store_n(&p->alive, ++generation, __ATOMIC_RELEASE);
	p->muted = 0;
	for (unsigned i = 0; i < 2; i++)
		if (fds[i] >= 0)
			sys(SYS_close, fds[i]);
	sys(SYS_close, fd);
	if (!err && first)
		nccl_look(p);
	else if (!err)
		nccl_forked();
	return err;
}

/* --- the process --- */

/* NULL: a child of fork would take its parent's for its own (before Linux 4.14). */
static struct process *pages(void)
{
	struct process *p = inject_process, *none = &nobody;

	if (p != &nobody)
		return p;
	p = sys_map(sizeof(*p), 0);
	if (!p)
		return NULL;
	if (!sys(SYS_madvise, p, sizeof(*p), MADV_WIPEONFORK) &&
	    __atomic_compare_exchange_n(&inject_process, &none, p, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return p;
	sys(SYS_munmap, p, sizeof(*p));
	return none == &nobody ? NULL : none;
}

static void unhook(void)
{
	unhook_all();
	nv_unhook();
	nccl_unhook();
}

static void start(struct process *p, uint32_t how, const struct object *lib)
{
	bool first = !inject_lib.dyn;
	int err;

	if (sandbox_has_come())
		return;
	/* A child whose parent was not traced has nothing hooked. */
	if (first && !lib) {
		p->given_up = 1;
		return;
	}
	if (first) {
		inject_lib = *lib;
		first_pid = sys(SYS_getpid);
		how_loaded = how;
	} else {
		forked = true;
	}
	err = connect_and_hook(p, how_loaded, first);
	if (!err)
		return;
	say("not traced: no answer of the tracer", -err);
	p->alive = 0;
	p->given_up = 1;
	unhook();
}

static bool is_starter(struct process *p, uint32_t tid)
{
	uint32_t none = 0;

	return __atomic_compare_exchange_n(&p->starting, &none, tid, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

bool process_begin(uint32_t how, const struct object *lib)
{
	struct process *p;
	uint32_t tid;

	if (is_quiet())
		return inject_process->alive;
	p = pages();
	tid = sys(SYS_gettid);
	while (p && !p->alive && !p->given_up && !is_quiet()) {
		if (is_starter(p, tid)) {
			if (!p->alive && !p->given_up)
				start(p, how, lib);
			__atomic_store_n(&p->starting, 0, __ATOMIC_RELEASE);
			break;
		}
		/* Hooking needs the loader's lock, which this thread may have. A signal handler
		 * waits for nothing. */
		if (lib || p->starting == tid)
			return false;
		nap();
	}
	return p && p->alive;
}

cold void process_end(void)
{
	struct process *p = inject_process;
	uint32_t alive = p->alive;

	p->given_up = 1;
	if (alive && __atomic_compare_exchange_n(&p->alive, &alive, 0, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
		unhook();
}

cold void process_ask(struct process *p, uint64_t now)
{
	uint64_t asked = p->asked_ns;
	int fd;

	if (is_quiet() || now - asked < ASK_EVERY_NS ||
	    !__atomic_compare_exchange_n(&p->asked_ns, &asked, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	fd = dial(SOCK_NONBLOCK);
	if (fd >= 0)
		sys(SYS_close, fd);
	if (fd >= 0 ? is_replaced(false) : fd == -ECONNREFUSED || fd == -ENOENT)
		process_end();
}
