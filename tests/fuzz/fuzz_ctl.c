/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests to the daemon's socket: a byte selects root or a member of the group as the client, and
 * the length of the first piece. Requests are executed by a daemon without a kernel side.
 */
#include "fuzz.h"

#include <assert.h>
#include <stdio.h>

#include "../unit/json_check.h"
#include "daemon/ctl.c" /* its clients connect to a listener; here they are passed directly */
#include "daemon/daemon_priv.h"
#include "daemon/spool.h"
#include "sockets.h"

/* The command line of the only process, which is visible to root alone. */
#define SECRET "password=4711"
#define GROUP  4

static struct daemon d;
static struct ctl *c;

/* Replaces the kernel side, and the daemon's other files. */

unsigned attach__lib_cnt(const struct attach *a)
{
	return 1;
}
const struct attach_lib *attach__lib_at(const struct attach *a, unsigned i)
{
	static const struct attach_lib lib = {.path = "/lib/libcuda.so.1"};

	return &lib;
}
enum mechanism attach__mechanism(const struct attach *a)
{
	return MECH_SESSION;
}
const char *mechanism_name(enum mechanism m)
{
	return "fuzz";
}
bool attach__covered_off(const struct attach *a, unsigned lib_id)
{
	return false;
}
bool arbiter__is_inproc(const struct arbiter *b, pid_t pid)
{
	return false;
}
void tracer__drain_for(struct tracer *t, uint64_t max_ns)
{
}
const char *dossier__request(struct daemon *d, struct dproc *p, bool core, const char **why)
{
	*why = "fuzz";
	return NULL;
}
const char *daemon__inject(struct daemon *d, struct dproc *p, bool gently)
{
	return "fuzz";
}
const char *daemon__gpu_burst(struct daemon *d, struct dproc *p, uint64_t ns)
{
	return "fuzz";
}
const char *daemon__gpu_status(const struct daemon *d, uint32_t pid)
{
	return NULL;
}
uint64_t now_ns(void)
{
	return 1000000000000;
}
int64_t epoch_ns(void)
{
	return 1769860800000000000;
}
void daemon__read_counts(struct daemon *daemon)
{
}
bool daemon__has_just_reloaded(const struct daemon *d)
{
	return false;
}
bool daemon__reload(struct daemon *daemon, char *why, size_t size)
{
	snprintf(why, size, "not now");
	return false;
}
/* Returns the path of the dump. */
int daemon__dump(struct daemon *daemon, const char *name, const char *why, char **path)
{
	assert(!name || *name == '/' || !strchr(name, '/'));
	assert(!name || *name == '/' || spool_dump_name_len(name) > 0);
	*path = strdup(name ?: "made");
	return 0;
}

static void open_daemon(void)
{
	const struct ctl_ops ops = {daemon__command, &d};
	struct dproc *p;

	d.cfg = config__new();
	d.base = event_base_new();
	d.rotate = rotate__new(&(struct rotate_opts){.dir = "/nonexistent/fuzz", .total = 1});
	d.recorder = recorder__new(1, 1 << 20);
	d.formatter = formatter__new(&(struct formatter_opts){.info = &d.t.info});
	d.procs = (struct dprocs){
		.cfg = d.cfg,
		.root = "",
		.metrics = metrics__new(100),
		.sources = &d.t.sources, /* none */
	};
	p = dproc_table__new(&d.procs.by_pid, &(uint32_t){7});
	c = calloc(1, sizeof(*c));
	assert(d.cfg && d.base && d.rotate && d.recorder && d.formatter && d.procs.metrics && p &&
	       c);
	strcpy(p->comm, "python3");
	p->command = strdup("/bin/py " SECRET);
	*c = (struct ctl){
		.ops = ops, .base = d.base, .lock_fd = -1, .has_group = true, .gid = GROUP};
}

/* asked: the request. Its answer may contain text that the member sent. */
static void check_answer(int fd, bool root, const struct input *asked)
{
	const char *buf;
	size_t n;

	buf = sock_take(fd, &n);
	if (!n) /* it was not a complete line */
		return;
	assert(n > 1 && n <= SOCK_KEPT && buf[n - 1] == '\n' && buf[0] == '{' &&
	       json_valid(buf, n - 1));
	assert(root || !memmem(buf, n, SECRET, strlen(SECRET)) ||
	       memmem(asked->p, asked->left, SECRET, strlen(SECRET)));
}

static void turn(void)
{
	event_base_loop(d.base, EVLOOP_NONBLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t how = take8(&in);
	size_t first = how >> 1;
	bool root = how & 1;
	int fd = sock_new();

	if (!c)
		open_daemon();
	sock_peer = (struct ucred){.uid = root ? 0 : 1000, .gid = root ? 0 : GROUP};
	on_connection(c, fd, NULL);
	assert(c->clients == 1 && c->members == !root);
	first = first < in.left ? first : in.left;
	sock_put(fd, in.p, first);
	turn();
	sock_put(fd, in.p + first, in.left - first);
	turn();
	check_answer(fd, root, &in);
	sock_hang_up(fd);
	for (int i = 0; i < 4 && c->clients; i++)
		turn();
	assert(!c->clients && !c->members && !c->waiting);
	assert(d.cfg->rule_cnt <= 256);
	return 0;
}
