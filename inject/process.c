/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The process and its tracer: connecting at the start and after a fork, and disconnecting. */
#include "inject.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
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
#define CHECK_EVERY_NS 1000000000ull
/* Maximum wait for a collector of our own to start. */
#define START_MAX_NS 2000000000ull

static struct process nobody;
struct process *inject_process = &nobody;

static struct sockaddr_un addr;
static socklen_t addr_len;
/* Identity of its socket file, if any: a later tracer's has the same path. */
static struct {
	uint64_t dev, ino;
} tracer;
static const char *collector; /* without a tracer: name of the collector that we start; or NULL */
static bool forked;
static bool refused;	  /* by the tracer, which counts it */
static uint64_t token[2]; /* of a tracer that has loaded the library; 0: none */
static int first_pid;	  /* process whose functions were hooked */
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

/* Directory of the library's file; if it has a socket, a daemon listens there. In a directory such
 * as /tmp, it may be another user's (is_trusted()). */
static bool find_beside(const struct object *o, void *arg)
{
	struct stat own, st;
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
		if (sys(SYS_newfstatat, AT_FDCWD, o->path, &own, 0) ||
		    sys(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) ||
		    st.st_uid != own.st_uid)
			path[0] = 0;
	}
	return true;
}

static const char *socket_beside(void)
{
	static char path[sizeof(addr.sun_path)];

	objects_each(find_beside, path);
	return path[0] ? path : NULL;
}

static bool set_address(const char *name)
{
	size_t len = strlen(name);

	if (len >= sizeof(addr.sun_path))
		return false;
	memset(&addr, 0, sizeof(addr));
	addr.sun_family = AF_UNIX;
	memcpy(addr.sun_path, name, len);
	addr_len = offsetof(struct sockaddr_un, sun_path) + len + 1;
	if (name[0] == '@') {
		addr.sun_path[0] = 0;
		addr_len--;
	}
	return true;
}

bool process_setup(void)
{
	const char *name = env_get(CT_ENV_SOCKET), *never = env_get(CT_ENV_NO_INJECT);

	inject_verbose = env_get("CUDATRACE_VERBOSE");
	if (never && *never && strcmp(never, "0") != 0)
		return false;
	if (!name || !*name)
		name = socket_beside();
	if (!name)
		name = collector_name();
	if (!name)
		return false;
	if (collector_is_name(name))
		collector = name;
	if (set_address(name))
		return true;
	log_debug(CT_ENV_SOCKET " is too long: not traced", 0);
	return false;
}

/* --- the connection --- */

/*
 * When a tracer has ended, any user can listen at its name in the abstract namespace, and a tracer
 * decides what the library maps, reads and loads. So only root or our own user may be our tracer.
 * find_beside() has checked the owner of a socket in a directory. That owner may have no id in our
 * user namespace. Nor may a tracer that has loaded the library: welcome() checks its token.
 */
static bool is_trusted(int fd)
{
	struct ucred who;
	uid_t real, effective, saved;
	socklen_t len = sizeof(who);

	if (addr.sun_path[0] || token[0])
		return true;
	if (sys(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &who, &len) ||
	    sys(SYS_getresuid, &real, &effective, &saved))
		return false;
	return !who.uid || (who.uid == real && who.uid == effective && who.uid == saved);
}

/* Returns a socket, or -errno. */
static int dial(int flags)
{
	struct timeval max = {.tv_sec = wait_max_ms() / 1000,
			      .tv_usec = wait_max_ms() % 1000 * 1000};
	struct wait w = wait_begin();
	int fd = sys(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0), err;

	if (fd < 0)
		return fd;
	sys(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &max, sizeof(max));
	sys(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &max, sizeof(max));
	do
		err = sys(SYS_connect, fd, &addr, addr_len);
	while (err < 0 && !flags && wait_goes_on(&w, err));
	if (!err && is_trusted(fd))
		return fd;
	sys(SYS_close, fd);
	return err ? err : -ECONNREFUSED;
}

/* Returns whether another tracer has taken the socket's path since we connected. first: stores its
 * identity. */
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

/* Starts a collector, and waits until it listens. */
static int dial_collector(void)
{
	struct timespec pause = {.tv_nsec = 2000000};
	uint64_t begin = inject_now();
	int pid, fd = collector_start(collector, &pid);
	struct pollfd end = {.events = POLLIN};
	bool has_ended;

	if (fd)
		return fd;
	/* Before Linux 5.3 it only pauses. */
	end.fd = sys(SYS_pidfd_open, pid, 0);
	do {
		has_ended =
			end.fd == -ESRCH || sys(SYS_ppoll, &end, end.fd >= 0, &pause, NULL, 0) == 1;
		pause.tv_nsec = 2000000;
		fd = dial(0);
	} while (fd == -ECONNREFUSED && !has_ended && inject_now() - begin < START_MAX_NS);
	if (end.fd >= 0)
		sys(SYS_close, end.fd);
	if (fd < 0)
		collector_failed(collector);
	return fd;
}

static int send_all(int fd, const void *data, size_t size)
{
	struct wait w = wait_begin();
	long n;

	do
		n = sys(SYS_sendto, fd, data, size, MSG_NOSIGNAL, NULL, 0);
	while (n < 0 && wait_goes_on(&w, n));
	return n == (long)size ? 0 : n < 0 ? (int)n : -EIO;
}

/* The path without symbolic links, as in /proc/self/maps; "" if it is too long. */
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

static long receive(int fd, struct msghdr *msg)
{
	struct wait w = wait_begin();
	long n;

	do
		n = sys(SYS_recvmsg, fd, msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && wait_goes_on(&w, n));
	return n;
}

/* The answer, and its descriptors. */
static int welcome(int fd, struct ct_shm_welcome *w, int fds[FD_CNT])
{
	struct iovec iov = {w, sizeof(*w)};
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(FD_CNT * sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	long n;

	n = receive(fd, &msg);
	if (n < 0)
		return n;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(FD_CNT * sizeof(int)))
		memcpy(fds, CMSG_DATA(c), FD_CNT * sizeof(int));
	if (n != sizeof(*w) || w->magic != CT_SHM_MAGIC || w->version != CT_SHM_VERSION)
		return -EPROTO;
	if (token[0] && memcmp(w->token, token, sizeof(token)) != 0)
		return -ECONNREFUSED;
	refused = w->status;
	return w->status;
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

/* From here on, a producer with probes on the functions leaves our calls to us. */
static int await_go(int fd)
{
	struct ct_shm_go go = {0};
	struct iovec iov = {&go, sizeof(go)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	long n = receive(fd, &msg);

	return n < 0 ? (int)n : n == sizeof(go) && go.magic == CT_SHM_MAGIC ? 0 : -EPROTO;
}

int process_more(const char *path, int (*hook)(struct hooked_cnt *cnt))
{
	struct ct_shm_welcome w = {0};
	struct hooked_cnt cnt = {0};
	int none[FD_CNT] = {-1, -1, -1}, fd = dial(0), err;

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
	int fds[FD_CNT] = {-1, -1, -1}, fd = dial(0), err;

	if (fd == -ECONNREFUSED && collector && first)
		fd = dial_collector();
	if (fd < 0)
		return fd;
	is_replaced(true);
	if (first) {
		cnt = (struct hooked_cnt){0};
		hooks_forget();
	}
	p->pid = sys(SYS_getpid);
	err = hello(fd, first ? how : CT_SHM_CHILD, inject_lib.path);
	if (!err)
		err = welcome(fd, &w, fds);
	if (!err)
		err = shares_map(p, &w, fds);
	if (!err)
		err = lost_map(fds[FD_CNT - 1]);
	if (!err && (!first || how == CT_SHM_LATE) && !hooks_match(p->set))
		err = -ESTALE;
	if (!err) {
		names_forget();
		clock_setup(p);
		/* From its first call on, a child handles its own calls. */
		p->muted = first && p->set->probed;
		/* The driver is in cuInit(), which no other producer records. */
		process_missed = first && how == CT_SHM_INJECTION && (!p->set->probed || w.again);
		if (!p->set->probed)
			__atomic_store_n(&p->alive, ++generation, __ATOMIC_RELEASE);
		p->hooks_all = first && how == CT_SHM_LATE;
		if (first && how == CT_SHM_LATE && p->shm->gpu_request)
			gate_arm(p);
		if (first)
			hook_all(p->set, how == CT_SHM_PRELOAD && !p->set->probed, &cnt);
		if (first)
			nvtx_hook(p->set);
		if (first && how == CT_SHM_LATE)
			nvtx_tables_hook(p->set);
		if (p->set->nv.wanted)
			cnt.nv = nv_hook();
		err = hooked(fd, &cnt);
	}
	if (!err && p->set->probed)
		err = await_go(fd);
	if (!err && p->set->probed)
		__atomic_store_n(&p->alive, ++generation, __ATOMIC_RELEASE);
	p->muted = 0;
	for (unsigned i = 0; i < FD_CNT; i++)
		if (fds[i] >= 0)
			sys(SYS_close, fds[i]);
	sys(SYS_close, fd);
	if (!err && how == CT_SHM_LATE)
		nccl_again();
	if (!err && first)
		nccl_look(p);
	else if (!err)
		nccl_forked();
	return err;
}

/* --- the process --- */

/* NULL: a child of fork would use its parent's state (before Linux 4.14). */
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

void process_unhook(void)
{
	unhook_all();
	nvtx_tables_unhook();
	nv_unhook();
	nccl_unhook();
}

/* A new child of fork cannot connect without a system call. */
static void lose_child(const struct process *p)
{
	if (first_pid && !p->alive && !p->starting)
		process_lose(CT_SHM_LOST_FILTER, 0);
}

static void start(struct process *p, uint32_t how, const struct object *lib)
{
	bool first = !inject_lib.dyn || how == CT_SHM_LATE;
	int err;

	if (sandbox_has_come()) {
		if (!first)
			process_lose(CT_SHM_LOST_FILTER, 0);
		return;
	}
	if (clock_is_off()) {
		log_warn(
			"not traced in the process, which has disabled the time stamp counter; as root, "
			"--probe=uprobe traces it",
			0);
		process_lose(CT_SHM_LOST_CLOCK, 0);
		process_unhook();
		return;
	}
	/* A child whose parent was not traced has no hooks. */
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
	log_debug("not traced: the tracer did not respond", -err);
	/* It may have listened before it found that it cannot write. */
	if (first && collector && !refused && err != -EAGAIN && err != -EINTR)
		collector_failed(collector);
	p->alive = 0;
	if (refused)
		p->given_up = 1;
	else
		process_lose(CT_SHM_LOST_ANSWER,
			     err == -EAGAIN || err == -EINTR ? -ETIMEDOUT : err);
	process_unhook();
}

/* A thread that waits for another to connect checks again after this time. */
#define WAKE_MAX_NS 100000000

static bool is_starter(struct process *p, uint32_t tid)
{
	uint32_t none = 0;

	return __atomic_compare_exchange_n(&p->starting, &none, tid, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static void end_start(struct process *p)
{
	__atomic_store_n(&p->starting, 0, __ATOMIC_RELEASE);
	if (!is_quiet())
		sys(SYS_futex, &p->starting, FUTEX_WAKE_PRIVATE, INT_MAX);
}

/* Hundreds of threads may wait: naps of so many would take the processors from the tracer. */
static void await_start(struct process *p, uint32_t starter)
{
	const struct timespec max = {.tv_nsec = WAKE_MAX_NS};

	if (is_quiet())
		nap();
	else
		sys(SYS_futex, &p->starting, FUTEX_WAIT_PRIVATE, starter, &max);
}

bool process_begin(uint32_t how, const struct object *lib)
{
	struct process *p;
	uint32_t tid, starter;

	if (is_quiet()) {
		sandbox_report();
		lose_child(inject_process);
		return inject_process->alive;
	}
	p = pages();
	tid = sys(SYS_gettid);
	while (p && !p->alive && !p->given_up && !is_quiet()) {
		if (is_starter(p, tid)) {
			if (!p->alive && !p->given_up)
				start(p, how, lib);
			end_start(p);
			break;
		}
		starter = __atomic_load_n(&p->starting, __ATOMIC_RELAXED);
		/* Hooking needs the loader's lock, which this thread may hold. A signal handler
		 * must not wait. */
		if (lib || starter == tid)
			return false;
		if (starter)
			await_start(p, starter);
	}
	return p && p->alive;
}

/* Returns whether the connected tracer still records this process. */
static bool has_tracer(const struct process *p)
{
	int fd;

	if (!p->alive)
		return p->starting;
	if (p->set->ended)
		return false;
	fd = dial(0);
	if (fd >= 0)
		sys(SYS_close, fd);
	return fd >= 0 ? !is_replaced(false) : fd != -ECONNREFUSED && fd != -ENOENT;
}

/* Frees memory of a tracer that has ended. A thread that is in a call since then may still use it,
 * and finds zeros. */
static void forget(const void *at, size_t size, int prot)
{
	sys(SYS_mmap, at, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
	    0);
}

static void forget_tracer(const struct process *p)
{
	for (unsigned i = 0; i < CT_SHM_SLOTS && p->slots[i] && !p->whole; i++)
		forget(p->slots[i], p->shm->ring_off + p->shm->ring_sz, PROT_READ | PROT_WRITE);
	forget(p->set, p->set_sz, PROT_READ);
}

int process_attach(const char *name, const uint64_t its_token[2], const struct object *lib)
{
	struct process *p = inject_process, *next;

	if (is_quiet())
		return -EPERM;
	if (has_tracer(p))
		return -EBUSY;
	process_end();
	if (!gpu_await_end())
		return -EBUSY;
	/* Hooks of functions that have probes differ from others. */
	if (p->set && !p->set->probed)
		return -ESTALE;
	next = sys_map(sizeof(*next), 0);
	if (!next)
		return -ENOMEM;
	if (sys(SYS_madvise, next, sizeof(*next), MADV_WIPEONFORK))
		return -ENOSYS;
	if (!set_address(name))
		return -ENAMETOOLONG;
	memcpy(token, its_token, sizeof(token));
	collector = NULL;
	refused = false;
	if (p->set)
		forget_tracer(p);
	/* The previous state stays: threads in calls have pointers to it. */
	__atomic_store_n(&inject_process, next, __ATOMIC_RELEASE);
	if (process_begin(CT_SHM_LATE, lib))
		return 0;
	return refused ? -ECONNABORTED : -ECONNREFUSED;
}

cold void process_end(void)
{
	struct process *p = inject_process;
	uint32_t alive = p->alive;

	p->given_up = 1;
	if (alive &&
	    __atomic_compare_exchange_n(&p->alive, &alive, 0, false, __ATOMIC_SEQ_CST,
					__ATOMIC_RELAXED) &&
	    !gpu_keeps_hooks(p))
		process_unhook();
}

cold void process_check_tracer(struct process *p, uint64_t now)
{
	uint64_t checked = p->checked_ns;
	int fd;

	if (is_quiet() || now - checked < CHECK_EVERY_NS ||
	    !__atomic_compare_exchange_n(&p->checked_ns, &checked, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	fd = dial(SOCK_NONBLOCK);
	if (fd >= 0)
		sys(SYS_close, fd);
	if (fd >= 0 ? !is_replaced(false) : fd != -ECONNREFUSED && fd != -ENOENT)
		return;
	/* A tracer that is alive cannot be reached from another network namespace or root. */
	if (fd < 0)
		process_lose(CT_SHM_LOST_ANSWER, fd);
	process_end();
}
