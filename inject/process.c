/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The process and its tracer: connecting, at the beginning and after a fork, and parting.
 *
 * System calls are made without libc's functions where those are points at which a thread may be
 * cancelled: the driver's functions are none.
 */
#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#define ANSWER_MAX_S 5
#define FAR	     (1ul << 40)
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
static bool verbose;
static const char *collector; /* without a tracer: the name of the one that we start; or NULL */
/* A child has no mapping of its parent's memories, and finds its struct process wiped. */
static bool wiped;
static bool forked;
static int first_pid; /* of whom functions were hooked in */
static uint32_t generation;
static uint32_t how_loaded;

void say(const char *what, int err)
{
	char text[200] = "cudatrace: ", number[12];
	size_t n = strlen(text), i = sizeof(number);

	if (!verbose)
		return;
	for (; *what && n < sizeof(text) - 20; what++)
		text[n++] = *what;
	if (err) {
		for (; err; err /= 10)
			number[--i] = '0' + err % 10;
		memcpy(text + n, " (errno ", 8);
		n += 8;
		memcpy(text + n, number + i, sizeof(number) - i);
		n += sizeof(number) - i;
		text[n++] = ')';
	}
	text[n++] = '\n';
	syscall(SYS_write, 2l, text, n);
}

bool process_is_forked(void)
{
	return forked;
}

bool process_is_new_child(void)
{
	return first_pid && !inject_process->alive && getpid() != first_pid;
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
	return path[0] && !syscall(SYS_faccessat, (long)AT_FDCWD, path, (long)F_OK) ? path : NULL;
}

bool process_setup(void)
{
	const char *name = getenv(CT_ENV_SOCKET);
	size_t len;

	verbose = getenv("CUDATRACE_VERBOSE");
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
	int fd = syscall(SYS_socket, (long)AF_UNIX, (long)(SOCK_SEQPACKET | SOCK_CLOEXEC | flags),
			 0l);
	int err;

	if (fd < 0)
		return -errno;
	syscall(SYS_setsockopt, (long)fd, (long)SOL_SOCKET, (long)SO_RCVTIMEO, &max, sizeof(max));
	syscall(SYS_setsockopt, (long)fd, (long)SOL_SOCKET, (long)SO_SNDTIMEO, &max, sizeof(max));
	if (!syscall(SYS_connect, (long)fd, &addr, (long)addr_len))
		return fd;
	err = errno;
	syscall(SYS_close, (long)fd);
	return -err;
}

/* Has the socket become another's since we connected? first: it is looked at for that. */
static bool is_replaced(bool first)
{
	struct stat st = {0};

	if (!addr.sun_path[0] || syscall(SYS_newfstatat, (long)AT_FDCWD, addr.sun_path, &st, 0l))
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
		syscall(SYS_nanosleep, &pause, NULL);
		fd = dial(0);
	} while (fd == -ECONNREFUSED && inject_now() - begin < START_MAX_NS);
	return fd;
}

static int send_all(int fd, const void *data, size_t size)
{
	long n = syscall(SYS_sendto, (long)fd, data, size, (long)MSG_NOSIGNAL, NULL, 0l);

	return n == (long)size ? 0 : n < 0 ? -errno : -EIO;
}

static int hello(int fd, uint32_t how, const char *lib_path)
{
	struct ct_shm_hello h = {.magic = CT_SHM_MAGIC, .version = CT_SHM_VERSION, .how = how};
	char path[PATH_MAX];

	h.pid = inject_process->pid;
	prctl(PR_GET_NAME, h.comm);
	if (!realpath(lib_path, path))
		path[0] = 0;
	if (strlen(path) < sizeof(h.lib_path))
		strcpy(h.lib_path, path);
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
		n = syscall(SYS_recvmsg, (long)fd, &msg, (long)MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
		memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
	if (n != sizeof(*w) || w->magic != CT_SHM_MAGIC || w->version != CT_SHM_VERSION)
		return -EPROTO;
	return w->status;
}

/*
 * Where the rings go, which are gigabytes of addresses: far from code. Libraries that are loaded
 * later go below what is mapped, and branches over more than 2 GB are guessed wrong more often
 * (Intel's optimization manual on Golden Cove, "Misprediction for Branches >2GB"; GPT-2 took 1.07
 * times as long). A hint: where that is not free, or not an address, the kernel takes another.
 */
static void *far_from_code(void)
{
	uintptr_t here = (uintptr_t)inject_thunks & -65536ul;

	return here > 2 * FAR ? (void *)(here - FAR) : NULL;
}

static void *map(int fd, void *hint, size_t size, int prot)
{
	off_t have = lseek(fd, 0, SEEK_END);
	void *p;

	if (have < 0 || (size_t)have < size)
		return NULL;
	p = mmap(hint, size, prot, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (wiped)
		madvise(p, size, MADV_DONTFORK);
	madvise(p, size, MADV_DONTDUMP); /* it is large, and no part of the program */
	return p;
}

static bool is_valid(const struct ct_shm *m, uint64_t size)
{
	return m->magic == CT_SHM_MAGIC && m->version == CT_SHM_VERSION && m->slot_cnt &&
	       m->slots_off < size && m->stride && !((m->slots_off | m->stride) & 63) &&
	       (size - m->slots_off) / m->stride >= m->slot_cnt &&
	       m->ring_sz >= 2 * CT_SHM_REC_MAX && !(m->ring_sz & (m->ring_sz - 1)) &&
	       m->ring_off >= sizeof(struct ct_shm_slot) && m->ring_off <= m->stride &&
	       m->ring_sz <= m->stride - m->ring_off && m->counts_off <= m->stride &&
	       sizeof(struct ct_count) * CT_MAX_FUNCS <= m->stride - m->counts_off &&
	       !((m->ring_off | m->counts_off) & 7);
}

static int map_all(struct process *p, const struct ct_shm_welcome *w, const int fds[2])
{
	struct ct_shm_set *set;
	struct ct_shm *shm;

	if (fds[0] < 0 || w->set_sz < sizeof(*set) || w->shm_sz < sizeof(*shm))
		return -EPROTO;
	set = map(fds[0], NULL, w->set_sz, PROT_READ);
	shm = map(fds[1], far_from_code(), w->shm_sz, PROT_READ | PROT_WRITE);
	if (set && shm && set->magic == CT_SHM_MAGIC && set->version == CT_SHM_VERSION &&
	    is_valid(shm, w->shm_sz)) {
		p->set = set;
		p->shm = shm;
		clock_set_offset(shm->clock_offset_ns);
		return 0;
	}
	if (set)
		munmap(set, w->set_sz);
	if (shm)
		munmap(shm, w->shm_sz);
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
		n = syscall(SYS_recvfrom, (long)fd, &go, sizeof(go), 0l, NULL, NULL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n == sizeof(go) && go.magic == CT_SHM_MAGIC ? 0 : -EPROTO;
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
	syscall(SYS_close, (long)fd);
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
	p->pid = getpid();
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
			syscall(SYS_close, (long)fds[i]);
	syscall(SYS_close, (long)fd);
	if (!err && first)
		nccl_look(p);
	else if (!err)
		nccl_forked();
	return err;
}

/* --- the process --- */

/* Where no page can be wiped: a fork of libc's says so. */
static void forget(void)
{
	memset(inject_process, 0, sizeof(*inject_process));
}

static struct process *pages(void)
{
	struct process *p = inject_process, *none = &nobody;

	if (p != &nobody)
		return p;
	p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	wiped = !madvise(p, sizeof(*p), MADV_WIPEONFORK);
	if (!__atomic_compare_exchange_n(&inject_process, &none, p, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE)) {
		munmap(p, sizeof(*p));
		return none;
	}
	if (!wiped)
		pthread_atfork(NULL, NULL, forget);
	return p;
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

	/* A child whose parent was not traced has nothing hooked. */
	if (first && !lib) {
		p->given_up = 1;
		return;
	}
	if (first) {
		inject_lib = *lib;
		first_pid = getpid();
		how_loaded = how;
		thread_setup();
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
	struct process *p = pages();
	struct timespec pause = {.tv_nsec = 100000};
	uint32_t tid = syscall(SYS_gettid);

	while (p && !p->alive && !p->given_up) {
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
		syscall(SYS_nanosleep, &pause, NULL);
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
	int err = errno, fd;

	if (now - asked < ASK_EVERY_NS ||
	    !__atomic_compare_exchange_n(&p->asked_ns, &asked, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	fd = dial(SOCK_NONBLOCK);
	if (fd >= 0)
		syscall(SYS_close, (long)fd);
	if (fd >= 0 ? is_replaced(false) : fd == -ECONNREFUSED || fd == -ENOENT)
		process_end();
	errno = err;
}
