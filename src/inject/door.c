/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The socket: who comes is asked who it is, is given its memory, and says what it has got hold of.
 */
#include "inject_priv.h"

#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Who says nothing for so long has gone astray. */
#define CONN_MAX_NS 5000000000ull

/* "@name": abstract, so that it is found in any mount namespace, and leaves nothing behind. */
static socklen_t address(const struct inject *in, struct sockaddr_un *sa)
{
	size_t len = strlen(in->socket_name);

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(sa->sun_path, in->socket_name, len);
	sa->sun_path[0] = 0;
	return offsetof(struct sockaddr_un, sun_path) + len;
}

int door__open(struct inject *in)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct sockaddr_un sa;
	uint64_t secret;
	socklen_t len;

	if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
		return -EIO;
	/* Nobody who is not told the name finds it by guessing, or has it already. */
	if (in->o.name)
		snprintf(in->socket_name, sizeof(in->socket_name), "%s", in->o.name);
	else
		snprintf(in->socket_name, sizeof(in->socket_name), "@cudatrace-%d-%016llx",
			 getpid(), (unsigned long long)secret);
	len = address(in, &sa);
	in->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (in->listen_fd < 0 || bind(in->listen_fd, (void *)&sa, len) ||
	    listen(in->listen_fd, CONNS_MAX))
		return -errno;
	return epoll_ctl(in->epoll_fd, EPOLL_CTL_ADD, in->listen_fd, &ev) ? -errno : 0;
}

static void drop(struct inject *in, unsigned i)
{
	const struct conn *c = &in->conns[i];

	/* Others have only asked whether we are there. */
	if (in->o.probes && c->greeted && (!c->peer || !c->peer->hooked))
		in->o.probes->on_lost(in->o.ctx, c->pid);
	close(in->conns[i].fd);
	in->conns[i] = in->conns[--in->conn_cnt];
}

static void come_in(struct inject *in)
{
	struct epoll_event ev = {.events = EPOLLIN};

	for (;;) {
		int fd = accept4(in->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct ucred who;
		socklen_t len = sizeof(who);

		if (fd < 0)
			return;
		if (in->conn_cnt == CONNS_MAX || in->stopped ||
		    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.pid <= 0 ||
		    who.uid != in->o.uid || epoll_ctl(in->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
			in->refused_cnt++;
			close(fd);
			continue;
		}
		in->conns[in->conn_cnt++] =
			(struct conn){.fd = fd, .pid = who.pid, .since_ns = now_ns()};
	}
}

static void answer(struct inject *in, struct conn *c, int status)
{
	struct ct_shm_welcome w = {
		.magic = CT_SHM_MAGIC, .version = CT_SHM_VERSION, .status = status};
	int fds[2] = {in->settings.fd, c->peer ? c->peer->shm.fd : -1};
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(sizeof(fds))];
	} control = {0};
	struct iovec iov = {&w, sizeof(w)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (!status) {
		w.set_sz = in->settings.size;
		w.shm_sz = c->peer->shm.size;
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(fds));
		memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	(void)!sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* false: it has nothing more to say. */
static bool on_hello(struct inject *in, struct conn *c, struct ct_shm_hello *h, ssize_t size)
{
	struct lib_file *lib;

	if (size != sizeof(*h) || h->magic != CT_SHM_MAGIC || h->version != CT_SHM_VERSION) {
		answer(in, c, -EPROTO);
		return false;
	}
	h->lib_path[sizeof(h->lib_path) - 1] = 0;
	lib = files__of(in, c->pid, h->lib_path);
	c->peer = lib ? peers__add(in, c->pid, h) : NULL;
	if (c->peer)
		c->peer->lib_id = lib->id;
	answer(in, c, !lib ? -ENOEXEC : !c->peer ? -ENOSPC : 0);
	return c->peer;
}

static void say_go(const struct conn *c)
{
	const struct ct_shm_go go = {.magic = CT_SHM_MAGIC, .version = CT_SHM_VERSION};

	(void)!send(c->fd, &go, sizeof(go), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void on_hooked(struct inject *in, const struct conn *c, const struct ct_shm_hooked *h,
		      ssize_t size)
{
	const struct lib_file *lib = NULL;
	struct inject_lib to = {.pid = c->pid};

	if (size != sizeof(*h) || h->magic != CT_SHM_MAGIC)
		return;
	for (unsigned i = 0; i < in->file_cnt; i++)
		if (in->files[i].id == c->peer->lib_id)
			lib = &in->files[i];
	to.id = lib->id;
	to.path = lib->path;
	to.build_id = lib->build_id;
	to.hooked_cnt = h->slot_cnt + h->pointer_cnt;
	to.wanted_cnt = lib->wanted_cnt;
	to.since_ns = c->since_ns;
	to.life = c->peer->life;
	to.inside.alive = h->alive;
	memcpy(to.inside.is_inside, h->is_hooked, sizeof(to.inside.is_inside));
	memcpy(to.comm, c->peer->comm, sizeof(c->peer->comm));
	dbg("process %d: %u functions of %s by their dispatch pointers, %u by pointers that are asked "
	    "for, of %u; %u pointers to libc's",
	    c->pid, h->slot_cnt, to.path, h->pointer_cnt, to.wanted_cnt, h->nv_cnt);
	if (in->o.kernel && !h->nv_cnt && !in->said_no_nv) {
		in->said_no_nv = true;
		warn("--kernel: process %d: %s does not call libc as it is known to: its system calls are "
		     "not seen",
		     c->pid, to.path);
	}
	c->peer->hooked = true;
	in->o.on_lib(in->o.ctx, &to);
	if (in->o.probes)
		say_go(c);
}

/* false: it is done. */
static bool on_message(struct inject *in, struct conn *c)
{
	union {
		struct ct_shm_hello hello;
		struct ct_shm_hooked hooked;
	} msg;
	ssize_t size = recv(c->fd, &msg, sizeof(msg), MSG_DONTWAIT);

	if (size < 0)
		return errno == EAGAIN || errno == EINTR;
	if (!size)
		return false;
	c->greeted = true;
	if (!c->peer)
		return on_hello(in, c, &msg.hello, size);
	on_hooked(in, c, &msg.hooked, size);
	return false;
}

void door__look(struct inject *in)
{
	uint64_t now;

	come_in(in);
	now = now_ns();
	for (unsigned i = in->conn_cnt; i-- > 0;)
		if (!on_message(in, &in->conns[i]) || now - in->conns[i].since_ns > CONN_MAX_NS)
			drop(in, i);
}

void door__close(struct inject *in)
{
	while (in->conn_cnt)
		drop(in, in->conn_cnt - 1);
	if (in->listen_fd >= 0)
		close(in->listen_fd);
	in->listen_fd = -1;
}
