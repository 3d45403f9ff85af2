/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Continuous profiles: which calls are sampled, and what becomes of a finished interval.
 *
 * Two limits hold for any program. In the programs, a processor takes no sample for
 * CT_SAMPLE_PAUSE times as long as its last one took (bpf/call.bpf.h). In the daemon, all work has
 * a budget (util/profile_budget.h): without time, no call is sampled, samples that are on their way
 * are only counted, and the interval is longer.
 */
#include "daemon_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile.h"
#include "report/page/pprof.h"
#include "spool.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/privs.h"
#include "util/profile_budget.h"

/* Wanted samples, of all functions together and at least of each. */
#define SAMPLES_PER_S 100
#define SAMPLES_OF_FN 2
/* Adding a call that is not a sample, which is not timed. */
#define EVENT_NS   50
#define CONTROL_NS (10 * SEC_NS)
/* A smaller change of a probability is not worth an update. */
#define CHANGE_PART 4

struct fn_rate {
	uint64_t calls, ns, bytes; /* since the last control */
	uint32_t below;
	bool ends; /* its calls end iterations */
};

struct daemon_profile {
	struct dprofile *now;
	uint64_t begun_ns, control_ns;
	int64_t begun_wall_ns;
	uint64_t samples, errors, full;
	bool paused;	   /* no call is sampled now */
	bool starting;	   /* a program may leave a stage soon */
	bool marks;	   /* there are functions that end iterations */
	uint32_t interval; /* number of the current one */
	struct out *ready; /* the last complete profile; NULL: none */
	struct fn_rate fns[CT_MAX_FUNCS];
};

void daemon__profile_opts(const struct config *c, struct attach_opts *o)
{
	bool on = c->profiles.interval_ns;

	o->profile = on;
	o->python = on && c->trace.redact == CT_REDACT_NOTHING;
	o->stacks = on && c->profiles.native;
}

void daemon__set_profile_markers(struct daemon *d)
{
	const char *glob = d->cfg->profiles.iterations;
	struct daemon_profile *p = d->profile;

	if (!p || !*glob)
		return;
	for (unsigned id = 0; id < fnset__cnt(d->t.fns); id++)
		p->marks |= p->fns[id].ends = !fnmatch(glob, fnset__fn(d->t.fns, id)->symbol, 0);
	if (!p->marks)
		warn("profiles.iterations: there is no function '%s'; cudatrace list prints all of "
		     "them",
		     glob);
}

struct daemon_profile *daemon__new_profile(void)
{
	struct daemon_profile *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->now = dprofile__new();
	p->begun_ns = p->control_ns = now_ns();
	p->begun_wall_ns = clock_ns(CLOCK_REALTIME);
	p->paused = true;
	profile_budget__start();
	if (p->now)
		return p;
	free(p);
	return NULL;
}

void daemon_profile__free(struct daemon_profile *p)
{
	if (!p)
		return;
	dprofile__free(p->now);
	if (p->ready)
		out__close(p->ready);
	free(p);
}

bool daemon__profile_needs(const struct daemon *d, unsigned func_id)
{
	const struct api_fn *fn = fnset__fn(d->t.fns, func_id);

	return d->profile && fn && fn->api == API_CUDA &&
	       (fn->op == OP_INIT ||
		(fn->class == CLASS_CONTEXT && (fn->op == OP_RETAIN || fn->op == OP_CREATE)) ||
		d->profile->fns[func_id].ends);
}

void daemon__profile_counted(void *ctx, struct dproc *proc, uint32_t func_id,
			     const struct ct_count *delta)
{
	struct daemon *d = ctx;
	const struct api_fn *fn = fnset__fn(d->t.fns, func_id);
	struct fn_rate *r = &d->profile->fns[func_id];

	profile_budget__begin();
	r->calls += ct_count_calls(delta) + delta->entered;
	r->ns += delta->total_ns;
	r->bytes += delta->bytes;
	live_stage__counted(&proc->live, fn, d->procs.read_ns, d->profile->marks);
	d->profile->starting |= live_stage__is_starting(&proc->live);
	dprofile__counted(d->profile->now, proc, fn, delta);
	profile_budget__end();
}

static void set_below(struct daemon *d, unsigned id, uint32_t below)
{
	uint32_t *was = &d->profile->fns[id].below;
	uint32_t change = below > *was ? below - *was : *was - below;

	if (!change || (below && change < *was / CHANGE_PART))
		return;
	if (!sources__set_sampled(&d->t.sources, id, below))
		*was = below;
}

static bool may_be_sampled(const struct daemon *d, unsigned id)
{
	const struct api_fn *fn = fnset__fn(d->t.fns, id);

	/* Numbers of collectives rely on all records of a communicator. */
	return fn && fn->api == API_CUDA && fnset__wanted(d->t.fns, id);
}

static void pause_all(struct daemon *d)
{
	profile_budget__begin();
	d->profile->paused = true;
	for (unsigned id = 0; id < fnset__cnt(d->t.fns); id++)
		set_below(d, id, 0);
	profile_budget__end();
}

void daemon__profile_event(struct daemon *d, struct dproc *proc, const struct trace_event *ev)
{
	struct daemon_profile *p = d->profile;
	bool sampled = ev->kind == EVENT_CALL && ev->sampled && profile_budget__has_time();
	int id = ev->kind == EVENT_CALL ? fnset__id_of(d->t.fns, ev->fn) : -1;

	if (sampled)
		profile_budget__begin();
	if (id >= 0) {
		p->fns[id].calls++;
		p->fns[id].ns += event_duration_ns(ev);
		p->fns[id].bytes += ev->has & HAS_SIZE ? ev->size : 0;
	}
	if (id >= 0)
		live_stage__begin(&proc->live, ev, p->marks);
	dprofile__event(p->now, proc, ev, sampled);
	if (id >= 0) {
		live_stage__end(&proc->live, ev, p->fns[id].ends, p->interval);
		p->starting |= live_stage__is_starting(&proc->live);
	}
	if (sampled)
		profile_budget__end();
	p->samples += sampled;
	profile_budget__spend(ev->kind == EVENT_CALL && ev->sampled ? PROFILE_RECORD_NS : EVENT_NS);
	if (sampled && !p->paused && !profile_budget__has_time())
		pause_all(d);
}

/* Functions share the samples by their parts of the time and of the bytes. */
static void set_rates(struct daemon *d, uint64_t elapsed_ns)
{
	struct daemon_profile *p = d->profile;
	double ns = 1, bytes = 1, s = elapsed_ns / 1e9;

	p->paused = false;
	for (unsigned id = 0; id < fnset__cnt(d->t.fns); id++) {
		ns += p->fns[id].ns;
		bytes += p->fns[id].bytes;
	}
	for (unsigned id = 0; id < fnset__cnt(d->t.fns); id++) {
		struct fn_rate *r = &p->fns[id];
		double part = (r->ns / ns + r->bytes / bytes) / 2;
		double want = (SAMPLES_OF_FN + SAMPLES_PER_S * part) * s;

		if (may_be_sampled(d, id))
			set_below(d, id,
				  want < r->calls ? want / r->calls * UINT32_MAX : UINT32_MAX);
		r->calls = r->ns = r->bytes = 0;
	}
}

static void control(struct daemon *d, uint64_t now)
{
	struct daemon_profile *p = d->profile;

	profile_budget__begin();
	if (!p->paused && !profile_budget__has_time()) {
		pause_all(d);
	} else if (p->paused ? profile_budget__has_much() : now - p->control_ns >= CONTROL_NS) {
		set_rates(d, now - p->control_ns);
		p->control_ns = now;
	}
	profile_budget__end();
}

/* Records come first, as in daemon__read_counts(). Reading them is no work for profiles. */
static void read_counts(struct daemon *d)
{
	tracer__drain_for(&d->t, DRAIN_TURN_NS);
	profile_budget__begin();
	dprocs__read_counts(&d->procs);
	profile_budget__end();
}

static void write_file(struct daemon *d)
{
	const struct out *o = d->profile->ready;
	char stamp[ROTATE_STAMP_SZ], *path = NULL;
	int fd = -1, ret = rotate__make_room(d->rotate, o->len, d->now);

	rotate__next_stamp(d->rotate, stamp);
	if (!ret && asprintf(&path, "%s/" SPOOL_PROFILE "%s" SPOOL_PROFILE_END,
			     d->cfg->files.directory, stamp) < 0)
		ret = -ENOMEM;
	privs_lower();
	if (!ret)
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	privs_raise();
	if (!ret && fd < 0)
		ret = -errno;
	if (!ret && write(fd, o->buf, o->len) != (ssize_t)o->len)
		ret = errno ? -errno : -ENOSPC;
	if (fd >= 0 && close(fd) && !ret)
		ret = -errno;
	if (ret) {
		d->profile->errors++;
		log_seldom(LOG_WARN, "cannot write a profile to %s: %s",
			   path ?: d->cfg->files.directory, strerror(-ret));
		if (fd >= 0)
			unlink(path);
	}
	free(path);
}

static void send_otlp(struct daemon *d, const struct profile_span *span)
{
	struct out *o;

	if (!dprofile__sums(d->profile->now)->calls)
		return;
	o = out__memory();
	if (o && !dprofile__write_otlp(d->profile->now, span, o))
		otlp__profile(d->otlp, o);
	else if (o)
		out__close(o);
}

static void end_interval(struct daemon *d)
{
	struct daemon_profile *p = d->profile;
	struct dprofile *next = dprofile__new();
	struct out *o = out__memory();
	uint64_t now = now_ns();
	struct profile_span span = {
		.wall_ns = p->begun_wall_ns,
		.duration_ns = now - p->begun_ns,
		.has_gpu = dprofile__sums(p->now)->gpu_ns,
	};

	profile_budget__begin();
	p->begun_ns = now;
	p->begun_wall_ns = clock_ns(CLOCK_REALTIME);
	p->full += dprofile__sums(p->now)->full;
	p->interval++;
	if (next && o && !dprofile__write(p->now, &span, d->t.info.redacted, o)) {
		if (p->ready)
			out__close(p->ready);
		out__fit(o);
		p->ready = o;
		o = NULL;
		if (d->otlp && d->cfg->otlp.profiles)
			send_otlp(d, &span);
		if (d->cfg->profiles.files && dprofile__sums(p->now)->calls)
			write_file(d);
	}
	if (o)
		out__close(o);
	if (next) {
		dprofile__free(p->now);
		p->now = next;
	}
	profile_budget__end();
}

void daemon__profile_tick(struct daemon *d)
{
	struct daemon_profile *p = d->profile;

	if (!p)
		return;
	control(d, d->now);
	/* Counted calls have the stage in which they are read. */
	if (p->starting && profile_budget__has_time()) {
		p->starting = false;
		read_counts(d);
	}
	if (d->now - p->begun_ns < d->cfg->profiles.interval_ns || !profile_budget__has_time())
		return;
	read_counts(d);
	end_interval(d);
}

void daemon__profile_end(struct daemon *d)
{
	if (!d->profile)
		return;
	dprocs__read_counts(&d->procs);
	end_interval(d);
}

void daemon__put_profile(void *ctx, struct out *o)
{
	const struct daemon *d = ctx;

	profile_budget__begin();
	if (d->profile && d->profile->ready)
		out_bytes(o, d->profile->ready->buf, d->profile->ready->len);
	profile_budget__end();
}

void daemon__fill_profile(const struct daemon *d, struct metrics_self *self)
{
	const struct daemon_profile *p = d->profile;

	if (!p)
		return;
	self->profile_samples = p->samples;
	self->profile_errors = p->errors;
	self->profile_full = p->full + dprofile__sums(p->now)->full;
	self->profile_cpu_seconds = profile_budget__spent_ns() / 1e9;
}
