/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ctl.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "listener.h"
#include "util/log.h"
#include "util/out.h"
#include "util/privs.h"
#include "util/safe_close.h"

#define LINE_MAX_SZ 4096
/* Timeout for a request, and again for reading its answer. */
#define TIMEOUT_S 10
/* All members of the group share half of the connections, so that root can always connect. */
#define MAX_CLIENTS 32
#define MAX_MEMBERS (MAX_CLIENTS / 2)
/* A member has half of those, so that the others can always connect. */
#define MAX_OF_ONE (MAX_MEMBERS / 2)
/* Limit of all unread answers; when it is reached no more are made. */
#define ANSWERS_SZ (8 << 20)
#define MAX_GROUPS 256

struct client;

struct ctl {
	struct ctl_ops ops;
	struct event_base *base;
	struct listener *listener;
	char *path;
	int lock_fd;
	bool has_group, bound;
	gid_t gid;
	struct client *all[MAX_CLIENTS];
	unsigned clients, members;
	size_t waiting; /* bytes of answers */
};

struct client {
	struct ctl *ctl;
	int fd;
	struct event *ev, *timer; /* ev: reading, then writing */
	struct evbuffer *answer;
	size_t answer_sz, len;
	bool root;
	uid_t uid;
	char in[LINE_MAX_SZ];
};

static void client__free(struct client *c)
{
	struct ctl *ctl = c->ctl;
	unsigned i = 0;

	while (ctl->all[i] != c)
		i++;
	ctl->all[i] = ctl->all[--ctl->clients];
	ctl->members -= !c->root;
	ctl->waiting -= c->answer_sz;
	if (c->timer)
		event_free(c->timer);
	if (c->ev)
		event_free(c->ev);
	if (c->answer)
		evbuffer_free(c->answer);
	safe_close(c->fd);
	free(c);
}

static void on_timeout(evutil_socket_t fd, short what, void *ctx)
{
	client__free(ctx);
}

/* Closes the connection after the whole answer. */
static void on_writable(evutil_socket_t fd, short what, void *ctx)
{
	struct client *c = ctx;
	int n = evbuffer_write(c->answer, fd);

	if (n < 0 ? errno != EAGAIN && errno != EINTR : !evbuffer_get_length(c->answer))
		client__free(c);
}

/* Sends the answer, then closes the connection. */
static void answer(struct client *c, const char *text, size_t len)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_S};

	c->answer_sz = len;
	c->ctl->waiting += len;
	event_free(c->ev);
	c->ev = event_new(c->ctl->base, c->fd, EV_WRITE | EV_PERSIST, on_writable, c);
	c->answer = evbuffer_new();
	if (!c->ev || !c->answer || evbuffer_add(c->answer, text, len) || event_add(c->ev, NULL) ||
	    event_add(c->timer, &timeout))
		client__free(c);
}

static void refuse(struct client *c, const char *why)
{
	char text[256];

	answer(c, text, snprintf(text, sizeof(text), "{\"error\":\"%s\"}\n", why));
}

/* line: a whole request, without its newline. */
static void on_request(struct client *c, char *line)
{
	char *argv[CTL_MAX_WORDS + 1], *word;
	struct out *o;
	int argc = 0;

	if (c->ctl->waiting > ANSWERS_SZ) {
		refuse(c, "other clients do not read their answers: try again in 10 seconds");
		return;
	}
	while (argc < CTL_MAX_WORDS && (word = strsep(&line, "\t")))
		argv[argc++] = word;
	argv[argc] = NULL;
	o = out__memory();
	if (!o) {
		refuse(c, "out of memory: try again later");
		return;
	}
	c->ctl->ops.command(c->ctl->ops.ctx, argc, argv, c->root, o);
	answer(c, o->buf, o->len);
	out__close(o);
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct client *c = ctx;
	ssize_t n = safe_recv(fd, c->in + c->len, sizeof(c->in) - c->len);
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client__free(c);
		return;
	}
	c->len += n;
	end = memchr(c->in, '\n', c->len);
	if (end) {
		*end = '\0';
		on_request(c, c->in);
	} else if (c->len == sizeof(c->in)) {
		refuse(c, "the request is too long");
	}
}

static bool in_group(const struct ctl *ctl, int fd, gid_t gid)
{
	gid_t groups[MAX_GROUPS];
	socklen_t len = sizeof(groups);

	if (!ctl->has_group)
		return false;
	if (gid == ctl->gid)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len))
		return false;
	for (unsigned i = 0; i < len / sizeof(groups[0]); i++) {
		if (groups[i] == ctl->gid)
			return true;
	}
	return false;
}

static bool has_place(const struct ctl *ctl, uid_t uid)
{
	unsigned own = 0;

	for (unsigned i = 0; i < ctl->clients; i++)
		own += ctl->all[i]->uid == uid;
	return ctl->clients < MAX_CLIENTS &&
	       (!uid || (ctl->members < MAX_MEMBERS && own < MAX_OF_ONE));
}

/* NULL: out of memory. Takes fd. */
static struct client *client__new(struct ctl *ctl, int fd, uid_t uid)
{
	const int on = 1; /* see safe_recv() */
	struct client *c = calloc(1, sizeof(*c));

	if (!c) {
		safe_close(fd);
		return NULL;
	}
	setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
	c->ctl = ctl;
	c->fd = fd;
	c->root = !uid;
	c->uid = uid;
	ctl->all[ctl->clients++] = c;
	ctl->members += uid != 0;
	c->ev = event_new(ctl->base, fd, EV_READ | EV_PERSIST, on_readable, c);
	c->timer = event_new(ctl->base, -1, 0, on_timeout, c);
	if (c->ev && c->timer)
		return c;
	client__free(c);
	return NULL;
}

static void on_connection(void *ctx, int fd, const struct sockaddr_storage *from)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_S};
	struct ctl *ctl = ctx;
	struct ucred cred = {.uid = -1};
	socklen_t len = sizeof(cred);
	struct client *c = NULL;
	bool known;

	known = !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	if (!known)
		cred.uid = -1;
	if (!has_place(ctl, cred.uid)) {
		safe_close(fd);
		return;
	}
	c = client__new(ctl, fd, cred.uid);
	if (!c)
		return;
	event_add(c->timer, &timeout);
	if (!known || (cred.uid && !in_group(ctl, fd, cred.gid)))
		refuse(c, "only root and members of ctl.group may use this socket");
	else
		event_add(c->ev, NULL);
}

static bool set_address(struct sockaddr_un *a, const char *path)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(a->sun_path)) {
		err("ctl.socket: %s is longer than %zu characters: choose a shorter path", path,
		    sizeof(a->sun_path) - 1);
		return false;
	}
	strcpy(a->sun_path, path);
	return true;
}

static void make_folder(const char *path)
{
	char *copy = strdup(path);

	if (copy && mkdir(dirname(copy), 0755) && errno != EEXIST)
		dbg("cannot create the directory of %s: %s", path, strerror(errno));
	free(copy);
}

static bool lock(struct ctl *c)
{
	char name[256];

	snprintf(name, sizeof(name), "%s.lock", c->path);
	c->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (c->lock_fd < 0) {
		err("ctl.socket: cannot create %s: %s: choose another path", name, strerror(errno));
		return false;
	}
	if (!flock(c->lock_fd, LOCK_EX | LOCK_NB))
		return true;
	err("another cudatrace daemon listens on %s: stop it, or choose another "
	    "ctl.socket",
	    c->path);
	return false;
}

static int listen_on(struct ctl *c)
{
	struct sockaddr_un a;
	int fd;

	if (!set_address(&a, c->path))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(c->path);
	safe_recv__refuse_fds(fd);
	/* The mode is set last, so that no other user can connect before. */
	if (fd < 0 || fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&a, sizeof(a)) ||
	    listen(fd, 8)) {
		err("ctl.socket: cannot listen on %s: %s: choose another path", c->path,
		    strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	c->bound = true;
	return fd;
}

/* Uses a descriptor, because another user may have replaced the path by a link. */
static bool set_owner(const struct ctl *c, mode_t mode)
{
	int fd = open(c->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char self[64];
	struct stat st;
	bool ok;

	if (fd < 0)
		return false;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	errno = ENOTSOCK;
	ok = !fstat(fd, &st) && S_ISSOCK(st.st_mode) &&
	     !fchownat(fd, "", 0, c->gid, AT_EMPTY_PATH) && !chmod(self, mode);
	close(fd);
	return ok;
}

int ctl__set_group(struct ctl *c, const char *group)
{
	const struct group *gr = *group ? getgrnam(group) : NULL;

	if (*group && !gr) {
		err("ctl.group: there is no group %s: create it, or choose another", group);
		return -ENOENT;
	}
	c->has_group = gr != NULL;
	c->gid = gr ? gr->gr_gid : 0;
	if (!set_owner(c, gr ? 0660 : 0600))
		warn("ctl.socket: cannot give %s to group %s: %s", c->path, group, strerror(errno));
	return 0;
}

struct ctl *ctl__new(struct event_base *base, const char *path, const char *group,
		     const struct ctl_ops *ops)
{
	struct ctl *c = calloc(1, sizeof(*c));
	int fd;

	if (!c)
		return NULL;
	c->lock_fd = -1;
	c->ops = *ops;
	c->base = base;
	c->path = strdup(path);
	make_folder(path);
	if (!c->path || !lock(c))
		goto fail;
	if (!safe_close__start()) {
		err("cannot start a thread: raise the limit of processes (ulimit -u)");
		goto fail;
	}
	fd = listen_on(c);
	if (fd < 0)
		goto fail;
	c->listener = listener__new(base, fd, on_connection, c);
	if (c->listener && !ctl__set_group(c, group))
		return c;
fail:
	ctl__free(c);
	return NULL;
}

void ctl__free(struct ctl *c)
{
	if (!c)
		return;
	listener__free(c->listener);
	while (c->clients)
		client__free(c->all[0]);
	privs_lower();
	if (c->bound)
		unlink(c->path);
	privs_raise();
	if (c->lock_fd >= 0)
		close(c->lock_fd);
	free(c->path);
	free(c);
}

/* Client */

static int connect_to(const char *path)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_S};
	struct sockaddr_un a;
	int fd;

	if (!set_address(&a, path))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
		return fd;
	}
	if (errno == ENOENT || errno == ECONNREFUSED)
		err("no cudatrace daemon listens on %s: start it, or name its socket with --set "
		    "ctl.socket=PATH",
		    path);
	else if (errno == EACCES)
		err("only root and members of ctl.group may use %s: use sudo", path);
	else
		err("cannot connect to the daemon on %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

char *ctl_request(const char *path, int argc, const char *const *argv)
{
	char request[LINE_MAX_SZ] = "", *text = NULL;
	int fd = connect_to(path);
	size_t len = 0, size = 0;
	ssize_t n = 0;

	if (fd < 0)
		return NULL;
	for (int i = 0; i < argc; i++)
		len += snprintf(request + len, len < sizeof(request) ? sizeof(request) - len : 0,
				"%s%c", argv[i], i + 1 < argc ? '\t' : '\n');
	if (len >= sizeof(request)) {
		err("cannot send the request: it is longer than %d bytes: shorten it", LINE_MAX_SZ);
		close(fd);
		return NULL;
	}
	/* The daemon may have refused the connection already: then the answer has the reason. */
	(void)!send(fd, request, len, MSG_NOSIGNAL);
	len = 0;
	do {
		if (size - len < 4096)
			text = realloc(text, size += 65536);
		n = text ? read(fd, text + len, size - len - 1) : -1;
		len += n > 0 ? n : 0;
	} while (n > 0);
	close(fd);
	if (!text || !len) {
		err("the daemon did not reply: see its log");
		free(text);
		return NULL;
	}
	text[len] = '\0';
	return text;
}
