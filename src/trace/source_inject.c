/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records that the library in traced processes sends through shared memory. */
#include "forked.h"
#include "source.h"
#include "tracer.h"

#include "attach/nv_devs.h"
#include "inject/inject.h"
#include "inject/late.h"
#include "inject/late_server.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A thread's ring is this part of --buffer-size. With 8 MB and 80 bytes per call, it holds 10 ms of
 * calls of 0.8 us each. */
#define RING_PARTS  8
#define RING_SZ_MIN (64 << 10)

struct source_inject {
	struct source s;
	struct inject *in;
};

static struct inject *of(const struct source *s)
{
	return ((const struct source_inject *)s)->in;
}

static void on_record(void *ctx, const void *rec, size_t size)
{
	source__give(ctx, rec, size);
}

static bool on_lib(void *ctx, const struct inject_lib *lib)
{
	struct source *s = ctx;
	struct tracer *t = s->ctx;

	return libs__on_inject(&t->libs, lib);
}

static void on_missed(void *ctx, const struct inject_lib *lib, int why)
{
	struct tracer *t = ((struct source *)ctx)->ctx;

	libs__on_missed(&t->libs, lib, why);
}

static unsigned lib_id_of(void *ctx, const struct target_lib *t)
{
	const struct tracer *to = ((struct source *)ctx)->ctx;
	const struct attach_lib *lib = NULL;

	attach__lib(to->att, t, &lib);
	return lib ? lib->id : 0;
}

static void process_of(void *ctx, pid_t pid, ct_generation *generation, enum ct_proc_level *level)
{
	const struct tracer *t = ((struct source *)ctx)->ctx;

	attach__process(t->att, pid, generation, level);
}

static void on_lost(void *ctx, pid_t pid)
{
	const struct tracer *t = ((struct source *)ctx)->ctx;

	if (t->arbiter)
		arbiter__lost(t->arbiter, pid);
}

static void on_gpu(void *ctx, pid_t pid, const char *comm, const struct ct_shm_gpu *gpu)
{
	tracer__gpu_state(((struct source *)ctx)->ctx, pid, comm, gpu);
}

static void on_stalls(void *ctx, pid_t pid, const char *comm, const struct ct_shm_stalls *st,
		      const struct ct_shm_gpu *cupti)
{
	tracer__stalls_state(((struct source *)ctx)->ctx, pid, comm, st, cupti);
}

static const struct inject_probes probes = {
	.lib_id = lib_id_of, .process = process_of, .on_lost = on_lost};

static bool read_frames(void *ctx, const char *library)
{
	const struct tracer *t = ((struct source *)ctx)->ctx;
	int fd = open(library, O_RDONLY | O_CLOEXEC);
	int ret = fd < 0 ? -errno : attach__sampled(t->att, fd);

	if (fd >= 0)
		close(fd);
	if (ret && t->o.attach.profile)
		warn("calls recorded in-process have no Python frames: cannot probe %s: %s",
		     library, strerror(-ret));
	else if (ret)
		warn("calls with Python frames or PyTorch operators are recorded by uprobes: cannot "
		     "probe %s: %s",
		     library, strerror(-ret));
	return !ret;
}

/* Returns whether the library records calls that have Python frames or PyTorch operators. In a
 * running program of another namespace it is another file, without a probe; calls that are too
 * short for a record give their numbers to others. */
static bool wants_frames(const struct tracer *t)
{
	if (!t->att)
		return false;
	if (t->o.attach.profile)
		return t->o.attach.python;
	return t->arbiter && !t->o.late && !t->o.attach.min_duration_ns &&
	       (t->o.attach.python || fnset__wants_api(t->fns, api_at(API_TORCH)));
}

static int inject_open(struct source *s, struct tracer *t)
{
	uint64_t ring_sz = t->o.attach.ring_sz / RING_PARTS;
	bool only_gpu = t->o.probe == PROBE_UPROBE;
	struct inject_opts o = {
		.fns = t->fns,
		.redact = t->o.attach.redact,
		/* The BPF side, where it is loaded, records system calls of all processes. */
		.kernel = !t->att && tracer__sees_driver(t) ? &t->abi : NULL,
		.kernel_args = t->o.kernel_args,
		.min_duration_ns = t->o.attach.min_duration_ns,
		.profile = t->o.attach.profile,
		.read_frames = wants_frames(t) ? read_frames : NULL,
		.no_stacks = t->o.attach.profile && !t->o.attach.stacks,
		.ring_sz = ring_sz > RING_SZ_MIN ? ring_sz : RING_SZ_MIN,
		.uid = t->o.inject_uid,
		.name = t->o.inject_name,
		.folder = t->o.inject_folder,
		.slots_max = t->o.inject_slots_max,
		.counts_max = t->o.inject_counts_max,
		.fn = on_record,
		.on_lib = on_lib,
		.on_missed = on_missed,
		.probes = t->arbiter || only_gpu ? &probes : NULL,
		.late = t->o.late,
		.gpu_time = t->o.gpu_time,
		.gpu_burst = t->o.gpu_burst,
		.only_gpu = only_gpu,
		.cupti = t->o.cupti,
		.on_gpu = on_gpu,
		.stalls = t->o.stalls,
		.on_stalls = on_stalls,
		.ctx = s,
	};

	if (only_gpu && !t->o.gpu_time && !t->o.stalls)
		return SOURCE_UNUSED;
	if (!t->att && t->o.attach.kernel && !o.kernel)
		nv_devs__warn_none();
	((struct source_inject *)s)->in = inject__open(&o);
	return of(s) ? 0 : -EIO;
}

static int inject_fd(const struct source *s)
{
	return inject__fd(of(s));
}

static bool inject_look(struct source *s, uint64_t now)
{
	bool whole = inject__look(of(s), now);

	s->next_ns = inject__next_ns(of(s));
	return whole;
}

static size_t inject_take(struct source *s, size_t max, uint64_t until)
{
	size_t cnt = inject__take(of(s), max, until);

	s->next_ns = inject__next_ns(of(s));
	return cnt;
}

static bool inject_was_full(struct source *s)
{
	return inject__was_full(of(s));
}

static uint64_t inject_bad_records(const struct source *s)
{
	return inject__bad_records(of(s));
}

static void inject_totals(struct source *s, struct ct_totals *sum)
{
	inject__totals(of(s), sum);
}

static void inject_fill_end(const struct source *s, struct trace_end *end)
{
	struct ct_shm_stalls stalls;
	struct ct_shm_gpu sum;

	inject__gpu_totals(of(s), &sum);
	end->gpu.records = sum.records;
	end->gpu.dropped = sum.dropped;
	end->gpu.untimed = sum.untimed;
	end->gpu.lost = sum.lost;
	end->gpu.discarded = sum.discarded;
	end->gpu.clock_error_ns = sum.clock_error_ns;
	end->gpu.clock_steps = sum.clock_steps;
	inject__stalls_totals(of(s), &stalls);
	end->stalls.samples = stalls.samples;
	end->stalls.dropped = stalls.dropped;
	end->stalls.unattributed = stalls.unattributed;
	end->stalls.refused = stalls.refused;
	end->stalls.lost = stalls.lost;
	end->stalls.contexts = stalls.contexts;
	end->stalls.no_code = stalls.no_code;
	end->stalls.stopped = !!(stalls.flags & CT_STALLS_F_FULL);
	end->stalls.shared = !!(stalls.flags & (CT_STALLS_F_SHARED | CT_STALLS_F_ERROR));
}

static void inject_unfinished(struct source *s)
{
	inject__unfinished(of(s));
}

static int inject_set_level(struct source *s, unsigned func_id, const struct fn_level *l)
{
	return inject__set_level(of(s), func_id, l);
}

static int inject_set_always(struct source *s, unsigned func_id, bool always)
{
	return inject__set_always(of(s), func_id, always);
}

static int inject_set_sampled(struct source *s, unsigned func_id, uint32_t below)
{
	return inject__set_sampled(of(s), func_id, below);
}

static int inject_set_proc(struct source *s, pid_t pid, enum ct_proc_level level)
{
	return inject__set_proc(of(s), pid, level);
}

static void inject_set_default(struct source *s, enum ct_proc_level level)
{
	inject__set_default(of(s), level);
}

static void inject_read_counts(struct source *s, const struct count_reader *r)
{
	struct source_reading to = {r, s->number};

	inject__read_counts(of(s), r->count ? source__on_count : NULL,
			    r->error ? source__on_error : NULL, &to);
}

static void inject_take_counts(struct source *s, pid_t pid, ct_generation generation,
			       const struct count_reader *r)
{
	struct source_reading to = {r, s->number};

	inject__take_counts(of(s), pid, generation, r->count ? source__on_count : NULL,
			    r->error ? source__on_error : NULL, &to);
}

static void inject_take_left_counts(struct source *s, const struct count_reader *r)
{
	struct source_reading to = {r, s->number};

	inject__take_left_counts(of(s), r->count ? source__on_count : NULL,
				 r->error ? source__on_error : NULL, &to);
}

static void inject_drop_owners(struct source *s, void (*fn)(void *ctx, uint32_t pid), void *ctx)
{
	inject__drop_owners(of(s), fn, ctx);
}

static void inject_unfinished_counts(struct source *s, const struct count_reader *r)
{
	struct source_reading to = {r, s->number};

	if (r->count)
		inject__unfinished_counts(of(s), source__on_count, &to);
}

static void inject_prepare_child(const struct source *s, const char *program)
{
	inject__set_env(of(s), program);
}

static unsigned inject_live(struct source *s, pid_t *pids, unsigned max)
{
	const struct tracer *t = s->ctx;
	unsigned cnt;

	/* The BPF side follows the same processes. */
	if (t->att)
		return 0;
	cnt = inject__live(of(s), pids, max);
	return cnt ?: forked__find(inject__socket(of(s)), pids, max);
}

static void inject_each_thread(struct source *s, thread_fn fn, void *ctx)
{
	inject__each_thread(of(s), fn, ctx);
}

static void inject_left(struct source *s, pid_t pid, ct_generation generation, uint64_t now)
{
	inject__left(of(s), pid, generation, now);
}

static void inject_enclosing(struct source *s, pid_t pid, uint32_t tid, uint64_t at_ns,
			     struct inject_enclosing *out)
{
	inject__enclosing(of(s), pid, tid, at_ns, out);
	if (out->id)
		out->id |= (uint64_t)s->number << RAW_ID_BITS;
}

static void inject_stop(struct source *s)
{
	inject__stop(of(s));
}

static bool inject_is_over(struct source *s)
{
	return inject__is_over(of(s));
}

static void inject_close(struct source *s)
{
	inject__free(of(s));
}

const struct source_ops inject_source_ops = {
	.size = sizeof(struct source_inject),
	.name = "process",
	.why = "records arrived faster than they were read; use a larger --buffer-size or fewer functions (-e)",
	.open = inject_open,
	.fd = inject_fd,
	.look = inject_look,
	.take = inject_take,
	.was_full = inject_was_full,
	.bad_records = inject_bad_records,
	.totals = inject_totals,
	.fill_end = inject_fill_end,
	.unfinished = inject_unfinished,
	.set_level = inject_set_level,
	.set_always = inject_set_always,
	.set_sampled = inject_set_sampled,
	.set_proc = inject_set_proc,
	.set_default = inject_set_default,
	.read_counts = inject_read_counts,
	.take_counts = inject_take_counts,
	.take_left_counts = inject_take_left_counts,
	.drop_owners = inject_drop_owners,
	.unfinished_counts = inject_unfinished_counts,
	.prepare_child = inject_prepare_child,
	.live = inject_live,
	.each_thread = inject_each_thread,
	.left = inject_left,
	.enclosing = inject_enclosing,
	.stop = inject_stop,
	.is_over = inject_is_over,
	.close = inject_close,
};

static const struct source *find(const struct sources *ss)
{
	for (unsigned i = 0; i < ss->cnt; i++)
		if (ss->of[i]->ops == &inject_source_ops)
			return ss->of[i];
	return NULL;
}

int source_inject__start_late(const struct sources *ss, struct late *l, const pid_t *pids,
			      unsigned cnt, bool sandbox)
{
	const struct source *s = find(ss);
	const struct tracer *t = s ? s->ctx : NULL;

	return s ? late__start(l, of(s), t->att, pids, cnt, sandbox) : -EINVAL;
}

int source_inject__serve_late(const struct sources *ss, bool sandbox,
			      void (*fn)(void *ctx, pid_t pid, const char *why), void *ctx)
{
	const struct source *s = find(ss);
	const struct tracer *t = s ? s->ctx : NULL;

	return s ? late_server__start(of(s), t->att, sandbox, fn, ctx) : -EINVAL;
}

const char *source_inject__request_late(const struct sources *ss, pid_t pid, bool gently)
{
	const struct source *s = find(ss);

	return s ? late_server__request(of(s), pid, gently) : "trace.inject is off";
}

const char *source_inject__set_gpu(const struct sources *ss, pid_t pid, enum ct_gpu_time mode)
{
	const struct source *s = find(ss);

	return s ? inject__set_gpu(of(s), pid, mode) : "trace.inject is off";
}

bool source_inject__gpu_state(const struct sources *ss, pid_t pid, struct ct_shm_gpu *gpu)
{
	const struct source *s = find(ss);

	return s && inject__gpu_state(of(s), pid, gpu);
}
