/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu_share.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/numbers.h"
#include "util/memlimit.h"

static void on_sample(struct gpu_share *g, const struct trace_event *ev)
{
	const struct event_gpu_stats *x = &ev->gpu_stats;
	struct gpu_users *u = &g->next_users;

	if (!strcmp(ev->op, "process") && u->cnt < GPU_USERS_MAX) {
		struct gpu_user *user = &u->of[u->cnt++];

		*user = (struct gpu_user){
			.pid = ev->pid, .bytes = x->memory_used.v, .busy = x->sm_util};
		snprintf(user->comm, sizeof(user->comm), "%s", ev->comm ?: "");
	}
	if (strcmp(ev->op, "sample") != 0)
		return;
	g->users = *u;
	g->busy = x->util;
	g->sample_ns = ev->start_ns;
	u->cnt = 0;
	if (!x->memory_used.known || !x->memory_free.known)
		return;
	if (x->gpu.known && x->gpu.v)
		g->memory_total = UINT64_MAX;
	if (g->memory_total == UINT64_MAX)
		return;
	g->memory_used = x->memory_used.v;
	g->memory_total = x->memory_used.v + x->memory_free.v;
}

static void on_slice(struct gpu_share *g, const struct trace_event *ev)
{
	struct gpu_slice *s;

	if (!g->slices)
		g->slices = memlimit_new(MEMLIMIT_INFLIGHT, SLICES_MAX * sizeof(*g->slices));
	if (!g->slices || (ev->ctxsw.owner && !strcmp(ev->ctxsw.owner, "kernel")))
		return;
	s = &g->slices[g->slice_cnt++ % SLICES_MAX];
	*s = (struct gpu_slice){
		.start_ns = ev->start_ns,
		.end_ns = ev->end_ns,
		.pid = ev->pid,
		.minor = ev->ctxsw.minor,
	};
	snprintf(s->comm, sizeof(s->comm), "%s", ev->comm ?: "");
}

void gpu_share__event(struct gpu_share *g, const struct trace_event *ev)
{
	if (ev->kind == EVENT_GPU_STATS)
		on_sample(g, ev);
	else if (ev->kind == EVENT_CTXSW)
		on_slice(g, ev);
}

void gpu_share__free(struct gpu_share *g)
{
	memlimit_free(g->slices);
	g->slices = NULL;
}

struct gpu_load gpu_share_load(const struct gpu_share *g, uint32_t pid, uint64_t since_ns)
{
	struct gpu_load load = {.all = g->busy};

	if (g->memory_total == UINT64_MAX || g->sample_ns < since_ns)
		return (struct gpu_load){0};
	for (unsigned i = 0; i < g->users.cnt; i++)
		if (g->users.of[i].pid == pid)
			load.own = g->users.of[i].busy;
	return load;
}

/* The GPU that the process had; -1: several, or unknown. */
static int gpu_of(const struct gpu_share *g, unsigned cnt, uint32_t pid)
{
	int own = -2, any = -2;

	for (unsigned i = 0; i < cnt; i++) {
		int minor = (int)g->slices[i].minor;

		any = any == -2 || any == minor ? minor : -1;
		if (g->slices[i].pid == pid)
			own = own == -2 || own == minor ? minor : -1;
	}
	return own != -2 ? own : any != -2 ? any : -1;
}

static void add_other(struct gpu_residents *r, const struct gpu_slice *s, uint64_t ns)
{
	unsigned i = 0;

	r->others_ns += ns;
	while (i < r->cnt && r->of[i].pid != s->pid)
		i++;
	if (i == GPU_RESIDENTS_MAX)
		return;
	r->cnt += i == r->cnt;
	r->of[i].pid = s->pid;
	if (*s->comm)
		memcpy(r->of[i].comm, s->comm, sizeof(s->comm));
	r->of[i].ns += ns;
	if (r->of[i].ns > r->of[r->most].ns)
		r->most = i;
}

void gpu_share_residents(const struct gpu_share *g, uint32_t pid, uint64_t from_ns, uint64_t end_ns,
			 struct gpu_residents *r)
{
	unsigned cnt = g->slice_cnt < SLICES_MAX ? g->slice_cnt : SLICES_MAX;
	int gpu = gpu_of(g, cnt, pid);

	*r = (struct gpu_residents){0};
	if (!cnt || gpu < 0)
		return;
	/* Older slices were forgotten. */
	if (g->slice_cnt > SLICES_MAX && g->slices[g->slice_cnt % SLICES_MAX].start_ns > from_ns)
		from_ns = g->slices[g->slice_cnt % SLICES_MAX].start_ns;
	for (unsigned i = 0; i < cnt; i++) {
		const struct gpu_slice *s = &g->slices[i];
		uint64_t start = s->start_ns > from_ns ? s->start_ns : from_ns;
		uint64_t end = s->end_ns < end_ns ? s->end_ns : end_ns;

		if ((int)s->minor != gpu || end <= start)
			continue;
		if (s->pid == pid)
			r->own_ns += end - start;
		else
			add_other(r, s, end - start);
	}
	r->of_ns = end_ns > from_ns && (r->own_ns || r->others_ns) ? end_ns - from_ns : 0;
}

struct share_text {
	char *buf;
	size_t size, len;
};

static void __attribute__((format(printf, 2, 3))) say(struct share_text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	t->len += n > 0 ? n : 0;
	if (t->len >= t->size)
		t->len = t->size - 1;
}

static void say_load(struct share_text *t, const struct gpu_load *x)
{
	if (!x->all.known)
		return;
	if (!x->all.v) {
		say(t, ". In NVML's last sample no kernel ran on the GPU");
		return;
	}
	say(t, ". In NVML's last sample kernels ran for %.0f %% of the time", x->all.v / 1e3);
	if (x->own.known)
		say(t, ", kernels of this process for %.0f %%", x->own.v / 1e3);
}

static void say_residents(struct share_text *t, const struct gpu_residents *r)
{
	if (!r->of_ns)
		return;
	say(t,
	    ". By the log of context switches, this process had the GPU for %.0f %% of the last %s",
	    100.0 * r->own_ns / r->of_ns, HUMAN_TIME(r->of_ns));
	if (!r->others_ns)
		return;
	say(t, ", others for %.0f %%", 100.0 * r->others_ns / r->of_ns);
	if (!r->of[r->most].pid)
		return;
	say(t, ", most of it process %u", r->of[r->most].pid);
	if (*r->of[r->most].comm)
		say(t, " (%s)", r->of[r->most].comm);
}

void gpu_share_text(const struct gpu_load *x, const struct gpu_residents *r, char *buf, size_t size)
{
	struct share_text t = {buf, size, 0};

	buf[0] = 0;
	say_load(&t, x);
	say_residents(&t, r);
}
