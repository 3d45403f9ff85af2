/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The cudatrace-links process. It does one job at a time: it attaches new links before it closes
 * old ones. It may hang whenever a link is created or closed. */
#include "links_priv.h"

#include "changed_code.h"
#include "mmap_lock.h"

#include "util/child.h"
#include "util/clock.h"
#include "util/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The tracer attaches its first libraries soon after measuring the overhead: closing the probe for
 * that takes 0.1 s. */
#define SOON_MS 500
/* How long a scan of the machine's threads stays valid. */
#define LOOK_NS 500000000ull
/* Interval between scans to compare. */
#define LOOK_WAIT_NS 20000000ull

#define NAME "cudatrace-links"

struct owner {
	struct owner *next;
	unsigned id;
	enum mechanism mech;
	struct probes probes;
	int file_fd;
	bool closing; /* close at once */
	bool soon;
};

/* A request to attach. */
struct job {
	struct job *next;
	struct links_message m;
	int fds[LINKS_FDS];
	unsigned fd_cnt;
};

static struct {
	int sock;
	struct links_shared *shared;
	struct owner *owners;
	struct job *jobs; /* oldest first */
	bool closing_all, disconnected, sandboxed;
	pid_t holder;			  /* process that blocked this attempt; 0: none */
	struct mmap_waiters mmap_waiters; /* as of looked_ns */
	uint64_t looked_ns;
} self;

static void look(void)
{
	mmap_waiters__look(&self.mmap_waiters);
	self.looked_ns = now_ns();
}

/* Returns whether the kernel would have to wait for a process. The result is cached briefly. */
static bool is_held(int file_fd)
{
	struct timespec wait = {0};
	uint64_t since;
	pid_t holder;

	if (now_ns() - self.looked_ns > LOOK_NS)
		look();
	since = now_ns() - self.looked_ns;
	if (since < LOOK_WAIT_NS)
		wait.tv_nsec = LOOK_WAIT_NS - since;
	if (self.mmap_waiters.cnt)
		nanosleep(&wait, NULL);
	mmap_waiters__look_again(&self.mmap_waiters);
	holder = mmap_waiters__holder(&self.mmap_waiters, file_fd);
	if (holder)
		self.holder = holder;
	return holder;
}

static void answer(const struct links_answer *a)
{
	send(self.sock, a, sizeof(*a), MSG_NOSIGNAL);
}

static struct owner *get_owner(unsigned id, int file_fd)
{
	struct owner *o;

	for (o = self.owners; o; o = o->next)
		if (o->id == id)
			return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->id = id;
	o->file_fd = fcntl(file_fd, F_DUPFD_CLOEXEC, 3);
	o->next = self.owners;
	self.owners = o;
	return o;
}

/* Maximum single links: closing each takes 30 ms, and the file's author controls their number. */
#define ALONE_MAX 8

/* req: the group's sites. The kernel refuses a link as a whole, so each suspect site gets a link of
 * its own. */
static int attach_group(struct owner *o, enum links_group g, const struct probe_progs *progs,
			struct probe_req *req, bool *refused)
{
	bool is_suspect = g == LINKS_RETURN_SUSPECT || g == LINKS_ENTRY_SUSPECT;
	unsigned left = req->cnt, sum = 0;

	if (is_suspect && req->cnt <= ALONE_MAX)
		req->cnt = 1;
	req->entry_only = g == LINKS_ENTRY || g == LINKS_ENTRY_SUSPECT;
	for (; left; left -= req->cnt) {
		int ret = probes__attach(&o->probes, o->mech, progs, req, refused);

		if (ret < 0)
			return ret;
		sum += ret;
		req->offs += req->cnt;
		req->cookies += req->cnt;
		refused += req->cnt;
	}
	return sum;
}

static int attach(struct owner *o, const struct job *j, struct links_answer *a)
{
	static uint64_t all[CT_MAX_FUNCS], offs[CT_MAX_FUNCS], cookies[CT_MAX_FUNCS];
	static unsigned number[CT_MAX_FUNCS];
	static bool refused[CT_MAX_FUNCS];
	const struct probe_progs progs = {j->fds[1], j->fds[1], j->fds[j->fd_cnt - 1]};
	const struct links_message *m = &j->m;
	char path[64];
	unsigned at = 0, sum = 0;

	for (unsigned i = 0; i < m->cnt; i++)
		all[i] = m->sites[i].off;
	a->changed_by = changed_code__find(o->file_fd, m->pid, all, m->cnt, a->changed);
	/* By descriptor: attach to the file that was checked, even if the path changes. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", o->file_fd);
	for (enum links_group g = 0; g < LINKS_GROUP_CNT; at += m->group_cnt[g++]) {
		struct probe_req req = {
			.path = path, .offs = offs, .cookies = cookies, .pid = m->pid};
		unsigned cnt = 0;
		int ret;

		for (unsigned i = at; i < at + m->group_cnt[g]; i++) {
			if (a->changed[i])
				continue;
			offs[cnt] = m->sites[i].off;
			cookies[cnt] = m->sites[i].cookie;
			number[cnt++] = i;
		}
		req.cnt = cnt;
		ret = attach_group(o, g, &progs, &req, refused);
		if (ret < 0)
			return ret;
		sum += ret;
		for (unsigned i = 0; i < cnt; i++)
			a->refused[number[i]] = refused[i];
	}
	return sum;
}

/*
 * A file that no process maps accepts any probe. The kernel checks instructions when a process maps
 * it, and silently drops sites that it cannot probe. So map it here while attaching.
 */
static void attach_mapped(const struct job *j, struct links_answer *a)
{
	struct owner *o = get_owner(j->m.owner, j->fds[0]);
	uint64_t start = now_ns();
	void *map = MAP_FAILED;
	struct stat st;

	if (!o || o->file_fd < 0) {
		a->ret = -ENOMEM;
		return;
	}
	o->mech = j->m.mech;
	if (o->mech == MECH_PERF)
		prctl(PR_SET_NAME, LINKS_NAME_PERF);
	if (!fstat(o->file_fd, &st))
		map = mmap(NULL, st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, o->file_fd, 0);
	a->ret = attach(o, j, a);
	if (map != MAP_FAILED)
		munmap(map, st.st_size);
	if (o->mech == MECH_PERF)
		prctl(PR_SET_NAME, NAME);
	a->took_ns = now_ns() - start;
}

static void free_job(struct job *j)
{
	for (unsigned i = 0; i < j->fd_cnt; i++)
		close(j->fds[i]);
	free(j);
}

/* Runs the oldest job that is not blocked. Returns false if there is none. */
static bool do_job(void)
{
	static struct links_answer a;
	struct job **at = &self.jobs, *j;

	while (*at && is_held((*at)->fds[0]))
		at = &(*at)->next;
	j = *at;
	if (!j)
		return false;
	memset(&a, 0, sizeof(a));
	a.owner = j->m.owner;
	attach_mapped(j, &a);
	answer(&a);
	*at = j->next;
	free_job(j);
	return true;
}

static void forget_owner(struct owner *o)
{
	struct owner **at = &self.owners;

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	close(o->file_fd);
	probes__detach(&o->probes);
	free(o);
}

/* Returns the owner behind o; NULL: the first. */
static struct owner *next_to_close(struct owner *o)
{
	o = o ? o->next : self.owners;
	while (o && !o->closing && !self.closing_all)
		o = o->next;
	return o;
}

static void finish_owners(void)
{
	struct owner *o = next_to_close(NULL), *next;

	for (; o; o = next) {
		next = next_to_close(o);
		if (o->probes.cnt)
			continue;
		if (!o->soon && !self.closing_all)
			answer(&(struct links_answer){.owner = o->id});
		forget_owner(o);
	}
}

static unsigned take_links(bool returns, int fds[LINKS_CLOSE_MAX])
{
	struct owner *o = NULL;
	unsigned cnt = 0;

	while ((o = next_to_close(o)))
		if (!is_held(o->file_fd))
			cnt += probes__take(&o->probes, returns, fds + cnt, LINKS_CLOSE_MAX - cnt);
	return cnt;
}

/* Closes some links, entries first, or one perf event. Returns false if there are none at present.
 */
static bool close_some(void)
{
	struct owner *o = next_to_close(NULL);
	int fds[LINKS_CLOSE_MAX];

	while (o && is_held(o->file_fd))
		o = next_to_close(o);
	if (!o || (o->mech == MECH_PERF && links_yield()))
		return false;
	if (o->mech == MECH_PERF)
		probes__detach_one(&o->probes);
	else
		links_close(fds, take_links(false, fds) ?: take_links(true, fds), self.shared);
	finish_owners();
	return true;
}

/* The tracer has ended, or attaches nothing more. */
static void close_all(void)
{
	while (self.jobs) {
		struct job *j = self.jobs;

		self.jobs = j->next;
		free_job(j);
	}
	self.closing_all = true;
}

static void take_fds(struct msghdr *msg, struct job *j)
{
	struct cmsghdr *head = CMSG_FIRSTHDR(msg);

	if (!head || head->cmsg_type != SCM_RIGHTS)
		return;
	j->fd_cnt = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(j->fds, CMSG_DATA(head), j->fd_cnt * sizeof(int));
}

static void give_up_privs(enum mechanism mech)
{
	if (!self.sandboxed)
		sandbox__enter(&(struct sandbox_needs){
			.links = true,
			.perf_probes = mech == MECH_PERF,
		});
	self.sandboxed = true;
}

static void take_job(struct job *j)
{
	struct job **end = &self.jobs;

	while (*end)
		end = &(*end)->next;
	*end = j;
}

/* Drops pending jobs of a closed owner: a rewritten file has other code at these offsets. */
static void drop_jobs(unsigned owner)
{
	struct job **at = &self.jobs, *j;

	while ((j = *at)) {
		if (j->m.owner != owner) {
			at = &j->next;
			continue;
		}
		answer(&(struct links_answer){.owner = owner, .ret = -ECANCELED});
		*at = j->next;
		free_job(j);
	}
}

static void take_close(const struct links_message *m)
{
	struct owner *o = self.owners;

	drop_jobs(m->owner);
	while (o && o->id != m->owner)
		o = o->next;
	if (!o && m->op == LINKS_CLOSE)
		answer(&(struct links_answer){.owner = m->owner});
	if (!o)
		return;
	o->closing |= m->op == LINKS_CLOSE;
	o->soon |= m->op == LINKS_CLOSE_SOON;
}

static bool is_sound(const struct job *j)
{
	uint64_t cnt = 0;

	for (int g = 0; g < LINKS_GROUP_CNT; g++)
		cnt += j->m.group_cnt[g];
	return j->fd_cnt >= 2 && j->m.cnt <= CT_MAX_FUNCS && cnt == j->m.cnt;
}

/* Receives one message. */
static void take(void)
{
	struct job *j = calloc(1, sizeof(*j));
	struct iovec iov = {j ? &j->m : NULL, sizeof(j->m)};
	union links_room room = {0};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = room.bytes,
			     .msg_controllen = sizeof(room.bytes)};

	if (!j)
		_exit(1);
	if (recvmsg(self.sock, &msg, MSG_CMSG_CLOEXEC) < (ssize_t)LINKS_MESSAGE_SZ(0)) {
		self.disconnected = true;
		close_all();
		free(j);
		return;
	}
	take_fds(&msg, j);
	if (j->m.op == LINKS_ATTACH && is_sound(j)) {
		take_job(j);
		return;
	}
	if (j->m.op == LINKS_SETTLE)
		give_up_privs(j->m.mech);
	else if (j->m.op == LINKS_CLOSE_ALL)
		close_all();
	else
		take_close(&j->m);
	free_job(j);
}

/* Returns how long to wait for a message before working. */
static int timeout(bool moves)
{
	const struct owner *o;

	if (self.jobs || next_to_close(NULL))
		return moves ? 0 : LINKS_RETRY_MS;
	for (o = self.owners; o && !o->soon;)
		o = o->next;
	return o ? SOON_MS : -1;
}

static void close_soon_ones(void)
{
	for (struct owner *o = self.owners; o; o = o->next)
		o->closing |= o->soon;
}

static void loop(void)
{
	bool moves = true;

	while (!self.closing_all || self.owners) {
		struct pollfd p = {.fd = self.disconnected ? -1 : self.sock, .events = POLLIN};

		if (poll(&p, 1, timeout(moves)) > 0) {
			take();
			moves = true;
			continue;
		}
		if (!self.jobs && !next_to_close(NULL))
			close_soon_ones();
		self.holder = 0;
		moves = do_job() || close_some();
		self.shared->holder = self.holder;
	}
	answer(&(struct links_answer){.owner = LINKS_NOBODY});
}

/* Signals from the terminal, or when a service is stopped, are handled by the tracer. */
void links_run(int sock, struct links_shared *shared, bool sandbox)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	child_begin(sock, NAME);
	(void)!chdir("/");
	self.sock = CHILD_SOCK;
	self.shared = shared;
	self.sandboxed = !sandbox;
	/* Scan while the tracer loads its programs. */
	look();
	loop();
	_exit(0);
}
