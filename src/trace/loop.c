/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The main loop: records, signals, timers, and the end of the trace. */
#include "deadman.h"
#include "session.h"

#include "attach/find/target.h"

#include "text/numbers.h"
#include "util/clock.h"
#include "util/heartbeat.h"
#include "util/log.h"
#include "util/out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Records between checks of signals and timers. */
#define DRAIN_BATCH 16384
/* The kernel side wakes the tracer when enough records wait; the tick drains the rest, more slowly
 * while idle. */
#define TICK_BUSY_MS 50
#define TICK_IDLE_MS 1000
#define FLUSH_NS     500000000ull
/* Exits of processes come as records; this check finds those whose record was lost. */
#define TARGETS_NS 200000000ull
/* The process that started the collector connects within this time, or never. */
#define COME_MAX_NS 5000000000ull
/* Number of processes named in one line. */
#define LEFT_NAMED 8
/* Processes that outlive the command and whose mappings are read; further ones count as users of
 * CUDA. */
#define LEFT_MAX 256

void session__stop(struct session *s, const char *reason)
{
	if (!s->end.reason)
		s->end.reason = reason;
	s->stopping = true;
}

/* Returns whether processes may still connect: the first process exists and may start others; or it
 * has exited (a daemon's), and the process that started us has not connected yet. */
static bool is_collecting(const struct session *s)
{
	return !kill(s->o->collect_for, 0) ||
	       (!s->lib_cnt && now_ns() - s->t.info.base_ns < COME_MAX_NS);
}

static void name_of(pid_t pid, char comm[16])
{
	char path[32];
	int fd, n = 0;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, comm, 15);
		close(fd);
	}
	comm[n > 0 ? n : 0] = '\0';
	comm[strcspn(comm, "\n")] = '\0';
}

static int is_driver(void *ctx, const struct map_line *m)
{
	return m->api == api_at(API_CUDA);
}

/* Counts processes that may call CUDA: those with libcuda, or with unreadable mappings. */
static unsigned users_of_cuda(const pid_t *pids, unsigned cnt)
{
	unsigned users = cnt > LEFT_MAX ? cnt - LEFT_MAX : 0;

	for (unsigned i = 0; i < cnt && i < LEFT_MAX; i++)
		users += target_each_mapped(pids[i], is_driver, NULL) != 0;
	return users;
}

/* Reports processes that continue untraced. */
static void report_left(const pid_t *pids, unsigned cnt, const char *name)
{
	char list[LEFT_NAMED * 64] = "", comm[16];
	size_t len = 0;

	for (unsigned i = 0; i < cnt && i < LEFT_NAMED; i++) {
		name_of(pids[i], comm);
		len += snprintf(list + len, sizeof(list) - len, "%s%s (%d)", len ? ", " : "", comm,
				pids[i]);
	}
	info("%s has exited; %u process%s that it started continue%s untraced: %s%s", name, cnt,
	     plural_es(cnt), cnt == 1 ? "s" : "", list, cnt > LEFT_NAMED ? ", ..." : "");
}

/* The command has ended, but processes that it started have not. Returns whether to wait for
 * them. */
static bool waits_for(struct session *s, unsigned live)
{
	uint64_t now = now_ns(), wait_ns = s->o->wait_ns;
	char limit[64] = "";

	if (!s->o->follow || s->end.reason || !wait_ns)
		return false;
	if (s->children_ns)
		return now < s->children_ns;
	s->children_ns = wait_ns > UINT64_MAX - now ? UINT64_MAX : now + wait_ns;
	if (s->children_ns != UINT64_MAX)
		snprintf(limit, sizeof(limit), ", as does a timeout of %.4g s", wait_ns / 1e9);
	info("the command has exited; %u process%s that it started still run%s: Ctrl-C ends the trace%s",
	     live, plural_es(live), live == 1 ? "s" : "", limit);
	return true;
}

/* Ends the trace when all processes traced by id have ended. */
static void look_at_targets(struct session *s)
{
	pid_t pids[LEFT_MAX];
	unsigned live;

	if (s->cmd.pid && !command__ended(&s->cmd))
		return;
	if (!s->cmd.pid && !s->o->pid_cnt && !s->o->collect)
		return;
	if (s->o->collect && is_collecting(s))
		return;
	live = sources__live(&s->t.sources, pids, LEFT_MAX);
	if (!s->cmd.pid && !live)
		session__stop(s, "traced processes exited");
	if (!s->cmd.pid || (live && waits_for(s, live)))
		return;
	if (live && s->o->follow)
		s->end.continued_cnt = users_of_cuda(pids, live);
	if (live && s->o->follow)
		report_left(pids, live, s->o->argv[0]);
	session__stop(s, "command exited");
}

static bool all_sinks_failed(const struct session *s)
{
	for (unsigned i = 0; i < s->sink_cnt; i++)
		if (!sink__failed(s->sinks[i]))
			return false;
	return s->sink_cnt > 0;
}

static void show_progress(struct session *s, uint64_t now)
{
	struct summary_totals t;

	if (!s->progress)
		return;
	summary__totals(s->summary, &t);
	t.no_bytes = s->o->redact == CT_REDACT_ARGS;
	progress__update(s->progress, now, &t, sources__lost(&s->t.sources));
}

/* Periodic work. */
static void on_tick(struct session *s, uint64_t now, bool drained)
{
	static uint64_t flushed_ns, looked_ns, shown_ns;

	if (s->deadline_ns && now >= s->deadline_ns)
		session__stop(s, "duration");
	session__report_signals(s, now);
	if (s->budget)
		budget__tick(s->budget, now);
	waits__look(s->waits, now);
	if (s->unreached)
		unreached__look(s->unreached, now);
	late__look(&s->late);
	if (now - flushed_ns >= FLUSH_NS) {
		for (unsigned i = 0; i < s->sink_cnt; i++)
			sink__tick(s->sinks[i]);
		flushed_ns = now;
		session__report_lost(s, now, false);
		tracer__look_at_ranks(&s->t, now);
		if (all_sinks_failed(s))
			session__stop(s, NO_OUTPUT);
	}
	if (now - looked_ns >= TARGETS_NS) {
		look_at_targets(s);
		looked_ns = now;
	}
	if (now - shown_ns >= FLUSH_NS / 2) {
		show_progress(s, now);
		shown_ns = now;
	}
	if (s->o->view)
		s->view_ns = s->o->view->tick(s->o->view, now);
	if (!libs__tick(&s->t.libs, now, drained))
		session__stop(s, "probes gone");
	if (libs__is_waiting(&s->t.libs))
		libs__follow_writes(&s->t.libs);
}

/* The timeout, shortened to the due time if there is one. */
static int until(uint64_t due_ns, uint64_t now, int ms)
{
	uint64_t left = due_ns > now ? (due_ns - now) / 1000000 + 1 : 0;

	return due_ns && left < (uint64_t)ms ? (int)left : ms;
}

static int timeout_ms(const struct session *s, bool busy, uint64_t now)
{
	int ms = busy || libs__is_waiting(&s->t.libs) || s->children_ns ? TICK_BUSY_MS
									: TICK_IDLE_MS;

	ms = until(s->deadline_ns, now, ms);
	ms = until(unreached__next_ns(s->unreached), now, ms);
	ms = until(waits__next_ns(s->waits), now, ms);
	return until(s->view_ns, now, ms);
}

/* Polled descriptors; outputs are those with slow readers. */
enum {
	FD_SIGNAL,
	FD_COMMAND,
	FD_WATCH,
	FD_VIEW,
	FD_OUTPUTS,
	FD_SOURCES = FD_OUTPUTS + SESSION_MAX_SINKS
};

void session__loop(struct session *s)
{
	struct pollfd fds[FD_SOURCES + RAW_PRODUCER_MAX] = {
		[FD_SIGNAL] = {.fd = s->signals.fd, .events = POLLIN},
		[FD_COMMAND] = {.fd = s->cmd.pid ? s->cmd.pidfd : -1, .events = POLLIN},
		[FD_WATCH] = {.fd = attach__watch_fd(s->t.att), .events = POLLIN},
		[FD_VIEW] = {.fd = s->o->view ? s->o->view->fd : -1, .events = POLLIN},
		[FD_OUTPUTS... FD_SOURCES - 1] = {.fd = -1, .events = POLLOUT},
	};
	unsigned out_cnt = s->sink_cnt, source_cnt = s->t.sources.cnt;
	bool busy = true;

	for (unsigned i = 0; i < source_cnt; i++)
		fds[FD_SOURCES + i] =
			(struct pollfd){.fd = source__fd(s->t.sources.of[i]), .events = POLLIN};
	while (!s->stopping) {
		size_t cnt = sources__drain(&s->t.sources, DRAIN_BATCH);
		uint64_t now = now_ns();
		int timeout;

		heartbeat__beat();
		deadman__beat();
		on_tick(s, now, cnt < DRAIN_BATCH);
		if (s->stopping)
			break;
		if (cnt)
			busy = true;
		for (unsigned i = 0; i < out_cnt; i++)
			fds[FD_OUTPUTS + i].fd =
				s->sinks[i]->out->stuck ? s->sinks[i]->out->fd : -1;
		timeout = cnt == DRAIN_BATCH ? 0 : timeout_ms(s, busy, now);
		if (poll(fds, FD_SOURCES + source_cnt, timeout) == 0)
			busy = cnt > 0;
		for (unsigned i = 0; i < out_cnt; i++)
			if (fds[FD_OUTPUTS + i].revents)
				sink__tick(s->sinks[i]);
		session__take_signals(s);
		if (fds[FD_WATCH].revents)
			libs__follow_writes(&s->t.libs);
		if (fds[FD_COMMAND].revents) {
			look_at_targets(s);
			fds[FD_COMMAND].fd = -1;
		}
	}
}
