/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The listener: accepts processes, identifies them, sends them their memory, and receives which
 * functions they hooked. */
#include "inject_priv.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/safe_close.h"
#include "util/time_budget.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* Idle connections are closed after this timeout. */
#define CONN_MAX_NS 10000000000ull
/* After this time, an unfinished connection may be closed in favour of others of the same user. */
#define CONN_LONG_NS 100000000ull
/* Minimum interval of hellos from one process, after an initial burst. A process has a libcuda and
 * a libnccl, and may run another program. */
#define HELLO_NS      100000000ull
#define HELLO_AT_ONCE 4
/* Backlog; further connect() calls wait. */
#define WAITING_MAX 1024
/* Generations between a process and the tracer. */
#define ANCESTORS_MAX 64

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif

/* "@name" is abstract: it can be found from any mount namespace and leaves no file behind. */
static socklen_t address(const struct inject *in, struct sockaddr_un *sa)
{
	size_t len = strlen(in->socket_name);

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(sa->sun_path, in->socket_name, len);
	if (in->o.folder)
		len++;
	else
		sa->sun_path[0] = 0;
	return offsetof(struct sockaddr_un, sun_path) + len;
}

/* Stops accepting while there is no space; processes wait. */
static int open_or_shut(struct inject *in)
{
	struct epoll_event ev = {.events = EPOLLIN};
	bool wanted = in->conn_cnt < CONNS_MAX && !in->stopped;
	int ret, how = wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;

	if (wanted == in->is_open)
		return 0;
	in->is_open = wanted;
	ret = epoll_ctl(in->epoll_fd, how, in->listen_fd, &ev) ? -errno : 0;
	for (unsigned i = 0; !ret && i < in->net_cnt; i++)
		ret = epoll_ctl(in->epoll_fd, how, in->nets[i].fd, &ev) ? -errno : 0;
	return ret;
}

int listener__open(struct inject *in)
{
	struct sockaddr_un sa;
	uint64_t secret;
	socklen_t len;

	if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret) ||
	    getrandom(in->token, sizeof(in->token), 0) != sizeof(in->token))
		return -EIO;
	in->token[0] |= 1; /* 0 is none */
	/* A random name cannot be guessed, and is not in use. */
	if (in->o.folder)
		snprintf(in->socket_name, sizeof(in->socket_name), "%s/" CT_SHM_SOCKET,
			 in->o.folder);
	else if (in->o.name)
		snprintf(in->socket_name, sizeof(in->socket_name), "%s", in->o.name);
	else
		snprintf(in->socket_name, sizeof(in->socket_name), "@cudatrace-%d-%016llx",
			 getpid(), (unsigned long long)secret);
	len = address(in, &sa);
	in->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	safe_recv__refuse_fds(in->listen_fd);
	/* A previous tracer has ended without removing the socket. */
	if (in->o.folder)
		unlink(in->socket_name);
	if (in->listen_fd < 0 || bind(in->listen_fd, (void *)&sa, len) ||
	    (in->o.folder && chmod(in->socket_name, 0666)) || listen(in->listen_fd, WAITING_MAX))
		return -errno;
	return open_or_shut(in);
}

bool listener__is_in(const struct inject *in, uint64_t net)
{
	for (unsigned i = 0; i < in->net_cnt; i++)
		if (in->nets[i].ino == net)
			return true;
	return false;
}

int listener__take_net(struct inject *in, int fd, uint64_t ino)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (in->net_cnt == NETS_MAX) {
		safe_close(in->nets[0].fd);
		memmove(in->nets, in->nets + 1, --in->net_cnt * sizeof(in->nets[0]));
	}
	if (in->is_open && epoll_ctl(in->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
		close(fd);
		return -errno;
	}
	in->nets[in->net_cnt].fd = fd;
	in->nets[in->net_cnt++].ino = ino;
	return 0;
}

static void drop(struct inject *in, unsigned i)
{
	const struct conn *c = &in->conns[i];

	/* Connections without a hello only checked whether the tracer exists. */
	if (in->o.probes && c->greeted && !c->over && (!c->client || !c->client->hooked))
		in->o.probes->on_lost(in->o.ctx, c->pid);
	/* It had no memory, or no time. A child of fork reports that by itself. */
	if (!in->o.probes && !in->stopped && c->client && c->client->pidfd >= 0 &&
	    !c->client->hooked && !c->more && c->hello.how != CT_SHM_CHILD &&
	    !clients__has_ended(c->client))
		in->refused_cnt++;
	safe_close(c->fd);
	if (c->pidfd >= 0)
		close(c->pidfd);
	in->conns[i] = in->conns[--in->conn_cnt];
}

void listener__forget(struct inject *in, const struct client *p)
{
	for (unsigned i = 0; i < in->conn_cnt; i++) {
		if (in->conns[i].client != p)
			continue;
		in->conns[i].client = NULL;
		in->conns[i].over = true;
	}
}

/* Returns a pidfd of the process that connected, even if its id is reused. */
static int pidfd_of(int fd, pid_t pid)
{
	socklen_t len = sizeof(int);
	int pidfd;

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len))
		return pidfd;
	return errno == ENOPROTOOPT ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

/* greeted: whether one of them sent a hello. */
static unsigned conns_of(const struct inject *in, pid_t pid, bool *greeted)
{
	unsigned cnt = 0;

	*greeted = false;
	for (unsigned i = 0; i < in->conn_cnt; i++) {
		cnt += in->conns[i].pid == pid;
		*greeted |= in->conns[i].pid == pid && in->conns[i].greeted;
	}
	return cnt;
}

/* When all users may connect, each gets at most half of the connections. Otherwise others' programs
 * would wait in cuInit(). */
static bool has_place(struct inject *in, uid_t uid)
{
	unsigned cnt = 0, oldest = 0;

	for (unsigned i = 0; in->o.folder && i < in->conn_cnt; i++) {
		if (in->conns[i].uid != uid)
			continue;
		if (!cnt++ || in->conns[i].since_ns < in->conns[oldest].since_ns)
			oldest = i;
	}
	if (cnt < CONNS_MAX / 2)
		return true;
	if (now_ns() - in->conns[oldest].since_ns < CONN_LONG_NS)
		return false;
	drop(in, oldest);
	return true;
}

/* Returns whether it descends from the tracer. A process that left its parent does not. */
static bool is_descendant(pid_t pid)
{
	unsigned long long start;

	for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++)
		if (pid == getpid())
			return true;
		else if (!target_stat(pid, &pid, &start))
			return false;
	return false;
}

/* A process of another user, whose calls the library will not record. Probes do, unless its
 * parent's library is connected. Without probes they are missing, if it belongs to the command:
 * anyone can connect, and must not make the trace incomplete. */
static void turn_away(struct inject *in, pid_t pid)
{
	if (!in->o.probes)
		in->refused_cnt += is_descendant(pid);
	else if (!clients__living(in, pid))
		in->o.probes->on_lost(in->o.ctx, pid);
}

/* Returns false if the connection is rejected. */
static bool admit(struct inject *in, int fd)
{
	/* Data that is not read yet is handled by the timer. */
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	struct conn c = {.fd = fd, .since_ns = now_ns()};
	struct ucred who;
	socklen_t len = sizeof(who);
	bool greeted;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.pid <= 0)
		return false;
	if (!in->o.folder && who.uid != in->o.uid) {
		turn_away(in, who.pid);
		return false;
	}
	/* Our library sends a hello at once: a process that only connects has no calls to lose. */
	if (conns_of(in, who.pid, &greeted) >= CONNS_OF_ONE_MAX) {
		in->refused_cnt += greeted;
		return false;
	}
	if (!has_place(in, who.uid)) {
		in->refused_cnt++;
		return false;
	}
	c.pid = who.pid;
	c.uid = who.uid;
	c.pidfd = pidfd_of(fd, who.pid);
	if (c.pidfd < 0 || epoll_ctl(in->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
		if (c.pidfd >= 0)
			close(c.pidfd);
		in->refused_cnt++;
		return false;
	}
	in->conns[in->conn_cnt++] = c;
	return true;
}

static void accept_conn(struct inject *in, int listen_fd)
{
	/* At most CONNS_MAX at a time, so that other events are handled in between. */
	for (unsigned i = 0; i < CONNS_MAX && in->conn_cnt < CONNS_MAX; i++) {
		int fd = safe_close__is_busy()
				 ? -1
				 : accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		lost__turn(in);
		if (!admit(in, fd))
			safe_close(fd);
	}
}

/* With a folder, processes of all users connect. */
static void put_token(const struct inject *in, const struct conn *c, __u64 token[2])
{
	if (!in->o.folder)
		memcpy(token, in->token, sizeof(in->token));
	for (unsigned i = 0; i < in->late_token_cnt; i++)
		if (in->late_tokens[i].uid == c->uid)
			memcpy(token, in->late_tokens[i].token, sizeof(in->token));
}

/* mem: its memory, or NULL. */
static void answer(struct inject *in, struct conn *c, int status, const struct shm *mem)
{
	struct ct_shm_welcome w = {
		.magic = CT_SHM_MAGIC,
		.version = CT_SHM_VERSION,
		.status = status,
		.again = c->client && c->client->again,
	};
	int fds[3] = {in->settings.fd, mem ? mem->fd : -1, mem ? mem->owner->lost_fd : -1};
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(sizeof(fds))];
	} control = {0};
	struct iovec iov = {&w, sizeof(w)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	put_token(in, c, w.token);
	if (mem) {
		w.set_sz = in->settings.size;
		w.shm_sz = mem->size;
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(fds));
		memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	(void)!sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Reports that its library was not found or not readable. With probes, those record the calls. */
static void report_missed(struct inject *in, enum api_id api, const struct conn *c,
			  const struct ct_shm_hello *h, int why)
{
	struct inject_lib lib = {.api = api_at(api), .path = h->lib_path, .pid = c->pid};

	if (!why || in->o.probes)
		return;
	in->refused_cnt++;
	lib.since_ns = c->since_ns;
	memcpy(lib.comm, h->comm, sizeof(h->comm));
	in->o.on_missed(in->o.ctx, &lib, why);
}

/* Returns the family by the file's name. */
static enum api_id api_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strncmp(slash ? slash + 1 : path, "libcuda.so", 10) ? API_NCCL : API_CUDA;
}

/* Handles a process that also has a libnccl, or another libcuda. */
static bool on_more(struct inject *in, struct conn *c, const struct ct_shm_hello *h)
{
	struct client *p = clients__living(in, c->pid);
	const struct lib_file *lib;
	int why;

	if (!p) {
		answer(in, c, -EPROTO, NULL);
		return false;
	}
	lib = files__of(in, api_of(h->lib_path), c->pid, h->lib_path, &why);
	report_missed(in, api_of(h->lib_path), c, h, why);
	if (lib) {
		c->client = p;
		c->lib_id = lib->id;
		c->more = true;
	}
	if (lib && lib->api->id == API_NCCL) {
		p->nccl_id = lib->id;
		p->shm.mem->comm_layout = lib->comm_layout;
	}
	answer(in, c, lib ? 0 : -ENOEXEC, NULL);
	return lib;
}

/* Checking a process's program and mappings is expensive. Limits it by the process's rate of hellos
 * and by its user's time budget. */
static bool is_due(struct inject *in, struct conn *c)
{
	struct hello_time *t = &in->hellos[c->pid % HELLOS];
	uint64_t now = now_ns();

	if (t->pid != c->pid)
		*t = (struct hello_time){.pid = c->pid};
	if (t->next_ns > now + HELLO_AT_ONCE * HELLO_NS ||
	    (c->refused && !time_budget__may(c->uid)))
		return false;
	t->next_ns = (t->next_ns > now ? t->next_ns : now) + HELLO_NS;
	return true;
}

static const struct lib_file *join(struct inject *in, struct conn *c)
{
	const struct lib_file *lib;
	int why;

	lib = files__of(in, API_CUDA, c->pid, c->hello.lib_path, &why);
	report_missed(in, API_CUDA, c, &c->hello, why);
	c->client = lib ? clients__add(in, c, &c->hello) : NULL;
	if (c->client)
		c->lib_id = c->client->lib_id = lib->id;
	return lib;
}

/* Returns false if no more messages are expected. */
static bool on_hello(struct inject *in, struct conn *c)
{
	bool more = c->hello.how == CT_SHM_MORE, stays = false;
	const struct lib_file *lib;
	struct work w;

	if (!more && !clients__may_join(in, c)) {
		in->refused_cnt++;
		answer(in, c, -ENOSPC, NULL);
		return false;
	}
	c->waits = !is_due(in, c);
	if (c->waits)
		return true;
	if (time_budget__begin(&w, c->uid, WORK_HELLOS)) {
		c->waits = c->refused = true;
		return true;
	}
	if (more) {
		stays = on_more(in, c, &c->hello);
	} else {
		lib = join(in, c);
		answer(in, c,
		       !lib	    ? -ENOEXEC
		       : !c->client ? -ENOSPC
				    : 0,
		       c->client ? &c->client->shm : NULL);
		stays = c->client;
	}
	time_budget__end(&w);
	return stays;
}

static bool is_hello(struct ct_shm_hello *h, ssize_t size)
{
	if (size != sizeof(*h) || h->magic != CT_SHM_MAGIC || h->version != CT_SHM_VERSION)
		return false;
	h->lib_path[sizeof(h->lib_path) - 1] = 0;
	return true;
}

static bool has_gone(const struct conn *c)
{
	char byte;

	return !recv(c->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
}

/* Returns false if the process has closed the connection. It confirms by closing; a process that
 * timed out leaves the message unread. */
static bool send_go(const struct conn *c)
{
	const struct ct_shm_go go = {.magic = CT_SHM_MAGIC, .version = CT_SHM_VERSION};

	return send(c->fd, &go, sizeof(go), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(go);
}

/* Returns false if no more messages are expected. */
static bool on_hooked(struct inject *in, struct conn *c, const struct ct_shm_hooked *h,
		      ssize_t size)
{
	const struct lib_file *lib = files__by_id(in, c->lib_id);
	struct inject_lib to = {.pid = c->pid};

	/* pidfd: it has connected again since. */
	if (size != sizeof(*h) || h->magic != CT_SHM_MAGIC || c->client->pidfd < 0 || c->go_sent ||
	    !lib)
		return false;
	/* For NCCL's calls the two need no handshake: see inject/bypass.c. */
	if (in->o.probes && lib->api->id != API_CUDA)
		return false;
	to.id = lib->id;
	to.api = lib->api;
	to.path = lib->path;
	to.build_id = lib->build_id;
	to.ifuncs = lib->ifuncs;
	to.hooked_cnt = h->slot_cnt + h->pointer_cnt;
	to.wanted_cnt = lib->wanted_cnt;
	to.since_ns = c->since_ns;
	to.generation = c->client->generation;
	to.inproc.alive = h->alive;
	memcpy(to.inproc.is_inproc, h->is_hooked, sizeof(to.inproc.is_inproc));
	memcpy(to.comm, c->client->comm, sizeof(c->client->comm));
	dbg("process %d: hooked %u functions of %s by dispatch pointers, %u by returned pointers, of "
	    "%u; %u pointers to libc",
	    c->pid, h->slot_cnt, to.path, h->pointer_cnt, to.wanted_cnt, h->nv_cnt);
	if (in->o.kernel && lib->api->id == API_CUDA && !h->nv_cnt && !in->warned_no_nv) {
		in->warned_no_nv = true;
		warn("--kernel: process %d: %s calls libc in an unknown way: its system calls are "
		     "not traced",
		     c->pid, to.path);
	}
	c->client->hooked = true;
	if (in->o.only_gpu || !in->o.on_lib(in->o.ctx, &to) || !in->o.probes || c->more)
		return false;
	c->go_sent = send_go(c);
	c->client->hooked = !c->go_sent;
	if (!c->go_sent)
		in->o.probes->on_lost(in->o.ctx, c->pid);
	return c->go_sent;
}

static void has_received(const struct conn *c)
{
	if (c->go_sent && c->client)
		c->client->hooked = true;
}

/* Returns false when the connection is finished. */
static bool on_message(struct inject *in, struct conn *c)
{
	union {
		struct ct_shm_hello hello;
		struct ct_shm_hooked hooked;
	} msg;
	ssize_t size;

	if (c->waits)
		return !has_gone(c) && on_hello(in, c);
	size = safe_recv(c->fd, &msg, sizeof(msg));
	if (size < 0)
		return errno == EAGAIN || errno == EINTR;
	if (!size) {
		has_received(c);
		return false;
	}
	c->greeted = true;
	if (!c->client && !is_hello(&msg.hello, size)) {
		answer(in, c, -EPROTO, NULL);
		return false;
	}
	if (!c->client) {
		c->hello = msg.hello;
		return on_hello(in, c);
	}
	return on_hooked(in, c, &msg.hooked, size);
}

void listener__recv(struct inject *in, const struct client *p)
{
	for (unsigned i = in->conn_cnt; i-- > 0;)
		if (in->conns[i].client == p && !on_message(in, &in->conns[i]))
			drop(in, i);
}

void listener__poll(struct inject *in)
{
	uint64_t now;

	accept_conn(in, in->listen_fd);
	for (unsigned i = 0; i < in->net_cnt; i++)
		accept_conn(in, in->nets[i].fd);
	now = now_ns();
	for (unsigned i = in->conn_cnt; i-- > 0;) {
		struct conn *c = &in->conns[i];
		bool late = now - c->since_ns > CONN_MAX_NS;

		lost__turn(in);
		if (!c->over && on_message(in, c) && !late)
			continue;
		/* The process continued; a child may also hold the socket. */
		if (late)
			has_received(c);
		drop(in, i);
	}
	open_or_shut(in);
}

void listener__close(struct inject *in)
{
	while (in->conn_cnt)
		drop(in, in->conn_cnt - 1);
	if (in->listen_fd < 0)
		return;
	epoll_ctl(in->epoll_fd, EPOLL_CTL_DEL, in->listen_fd, NULL);
	safe_close(in->listen_fd);
	in->listen_fd = -1;
	for (unsigned i = 0; i < in->net_cnt; i++) {
		epoll_ctl(in->epoll_fd, EPOLL_CTL_DEL, in->nets[i].fd, NULL);
		safe_close(in->nets[i].fd);
	}
	in->net_cnt = 0;
	if (in->o.folder)
		unlink(in->socket_name);
}
