/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --gpu-ctxsw: when each process had a GPU, from the driver's log. */
#include "source.h"
#include "tracer.h"

#include "attach/nv_devs.h"
#include "gpu/ctxsw.h"
#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* The driver collects the GPUs' logs every 33 ms. */
#define LOOK_NS 30000000ull
/* Inode of the initial pid namespace, on every Linux. */
#define PIDNS_INIT_INO 0xeffffffcu
#define NAMES	       64

struct name {
	uint32_t pid;
	uint64_t read_ns;
	char comm[16];
};

struct source_ctxsw {
	struct source s;
	struct ctxsw log;
	int fd; /* -1: none */
	uint64_t looked_ns;
	uint64_t reported_cnt;	  /* of missing records */
	bool has_names;		  /* process ids are valid in our namespace */
	struct name names[NAMES]; /* last known names of processes */
	struct ct_ctxsw next;	  /* the next record, unless there is none */
};

/* Reads the name of a process that may be otherwise unknown; a process that has ended keeps its
 * last name. */
static const char *name_of(struct source_ctxsw *c, uint32_t pid)
{
	struct name *n = &c->names[pid % NAMES];
	char path[32];
	ssize_t len;
	int fd;

	if (!c->has_names || (n->pid == pid && c->looked_ns - n->read_ns < SEC_NS))
		return n->comm;
	if (n->pid != pid)
		*n = (struct name){.pid = pid};
	n->read_ns = c->looked_ns;
	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return n->comm;
	len = read(fd, n->comm, sizeof(n->comm));
	close(fd);
	if (len > 0)
		memset(n->comm + len - 1, 0, sizeof(n->comm) - (len - 1));
	return n->comm;
}

static void make_record(struct source_ctxsw *c, const struct gpu_log *l,
			const struct fecs_slice *slice, uint16_t flags)
{
	bool is_kernel = slice->pid == FECS_PID_KERNEL;
	uint32_t pid = is_kernel ? 0 : slice->pid;

	if (slice->before)
		flags |= CT_CTXSW_F_BEFORE;
	if (is_kernel)
		flags |= CT_CTXSW_F_KERNEL;
	c->next = (struct ct_ctxsw){
		.rec =
			{
				.size = sizeof(c->next),
				.kind = CT_REC_CTXSW,
				.flags = flags,
				.ts_ns = slice->start,
				.pid = pid,
				.tid = pid,
			},
		.end_ns = slice->end,
		.missed = slice->missed,
		.minor = l->minor,
		.context = slice->context,
	};
	memcpy(c->next.gpu, l->bus, sizeof(c->next.gpu));
	if (pid)
		memcpy(c->next.comm, name_of(c, pid), sizeof(c->next.comm));
}

/* As with the kernel log, the time of reading is the time of sending. The log began before the
 * trace. */
static void read_next(struct source_ctxsw *c)
{
	const struct tracer *t = c->s.ctx;
	struct fecs_slice slice;

	c->s.next_ns = SOURCE_NONE;
	for (unsigned i = 0; i < c->log.cnt; i++) {
		while (gpu_log__next(&c->log.logs[i], &slice)) {
			if (slice.end < t->info.base_ns)
				continue;
			make_record(c, &c->log.logs[i], &slice, 0);
			c->s.next_ns = c->looked_ns;
			return;
		}
	}
}

static bool is_init_pidns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) || st.st_ino == PIDNS_INIT_INO;
}

static int make_timer(void)
{
	const struct itimerspec every = {{0, LOOK_NS}, {0, LOOK_NS}};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	if (fd >= 0 && !timerfd_settime(fd, 0, &every, NULL))
		return fd;
	err("cannot create a timer: raise the limit of open files (ulimit -n)");
	return -1;
}

/* A trace without them is better than none. The header has the reason. */
static int ctxsw_source_open(struct source *s, struct tracer *t)
{
	const struct ctxsw_opts o = {
		.force = t->o.gpu_ctxsw == GPU_CTXSW_FORCE,
		.any_file = nv_devs__by_name(),
	};
	struct source_ctxsw *c = (void *)s;
	char why[CTXSW_WHY_SZ];

	c->fd = -1;
	if (!t->o.gpu_ctxsw)
		return SOURCE_UNUSED;
	if (ctxsw__open(&c->log, &o, why)) {
		warn("--gpu-ctxsw: no context switches: %s", why);
		snprintf(t->gpu_ctxsw, sizeof(t->gpu_ctxsw), "%s", why);
		return SOURCE_UNUSED;
	}
	c->fd = make_timer();
	if (c->fd < 0)
		return -EMFILE;
	c->has_names = is_init_pidns();
	if (!c->has_names)
		warn("--gpu-ctxsw: context switches have process ids of the host, not of "
		     "this container: set hostPID: true");
	snprintf(t->gpu_ctxsw, sizeof(t->gpu_ctxsw), "on");
	return 0;
}

static int ctxsw_source_fd(const struct source *s)
{
	return ((const struct source_ctxsw *)s)->fd;
}

static bool ctxsw_source_look(struct source *s, uint64_t now)
{
	struct source_ctxsw *c = (void *)s;
	uint64_t times;

	while (read(c->fd, &times, sizeof(times)) > 0)
		;
	c->looked_ns = now;
	for (unsigned i = 0; i < c->log.cnt; i++)
		gpu_log__tick(&c->log.logs[i], now);
	if (s->next_ns == SOURCE_NONE)
		read_next(c);
	return true;
}

static size_t ctxsw_source_take(struct source *s, size_t max, uint64_t until)
{
	struct source_ctxsw *c = (void *)s;
	size_t cnt = 0;

	for (; cnt < max && s->next_ns <= until; cnt++) {
		source__give(s, &c->next, sizeof(c->next));
		read_next(c);
	}
	return cnt;
}

static uint64_t missed(const struct source_ctxsw *c)
{
	uint64_t cnt = 0;

	for (unsigned i = 0; i < c->log.cnt; i++)
		cnt += gpu_log__missed(&c->log.logs[i]);
	return cnt;
}

static bool ctxsw_source_was_full(struct source *s)
{
	struct source_ctxsw *c = (void *)s;
	bool was = missed(c) != c->reported_cnt;

	c->reported_cnt = missed(c);
	return was;
}

static void ctxsw_source_totals(struct source *s, struct ct_totals *sum)
{
	sum->drops[CT_DROP_CTXSW] = missed((struct source_ctxsw *)s);
}

/* Delivers the processes on a GPU now, after the whole log has been read. */
static void ctxsw_source_unfinished(struct source *s)
{
	struct source_ctxsw *c = (void *)s;
	struct fecs_slice slice;

	for (unsigned i = 0; i < c->log.cnt; i++)
		gpu_log__flush(&c->log.logs[i]);
	c->looked_ns = now_ns();
	if (s->next_ns == SOURCE_NONE)
		read_next(c);
	while (s->next_ns != SOURCE_NONE) {
		source__give(s, &c->next, sizeof(c->next));
		read_next(c);
	}
	for (unsigned i = 0; i < c->log.cnt; i++) {
		if (!gpu_log__rest(&c->log.logs[i], c->looked_ns, &slice))
			continue;
		make_record(c, &c->log.logs[i], &slice, CT_CTXSW_F_UNFINISHED);
		source__give(s, &c->next, sizeof(c->next));
	}
}

static void ctxsw_source_close(struct source *s)
{
	struct source_ctxsw *c = (void *)s;

	if (c->fd >= 0)
		close(c->fd);
	if (c->log.cnt)
		ctxsw__close(&c->log);
}

const struct source_ops ctxsw_source_ops = {
	.size = sizeof(struct source_ctxsw),
	.name = "context switches",
	.why = "records of the driver's log are missing",
	.open = ctxsw_source_open,
	.fd = ctxsw_source_fd,
	.look = ctxsw_source_look,
	.take = ctxsw_source_take,
	.was_full = ctxsw_source_was_full,
	.totals = ctxsw_source_totals,
	.unfinished = ctxsw_source_unfinished,
	.close = ctxsw_source_close,
};
