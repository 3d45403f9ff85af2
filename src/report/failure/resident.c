/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which process had the GPU during a hang, by the log of context switches (--gpu-ctxsw). */
#include "failure_priv.h"

#include <string.h>

#include "util/memlimit.h"

void resident_event(struct failure *f, const struct trace_event *ev)
{
	if (!f->slices)
		f->slices = memlimit_new(MEMLIMIT_INFLIGHT, SLICES_MAX * sizeof(*f->slices));
	if (!f->slices || (ev->ctxsw.owner && !strcmp(ev->ctxsw.owner, "kernel")))
		return;
	f->slices[f->slice_cnt++ % SLICES_MAX] = (struct gpu_slice){
		.start_ns = ev->start_ns,
		.end_ns = ev->end_ns,
		.pid = ev->pid,
		.minor = ev->ctxsw.minor,
		.comm = ev->comm && *ev->comm ? ev->comm : NULL,
	};
}

/* The GPU that the process had; -1: several, or unknown. */
static int gpu_of(const struct failure *f, unsigned cnt, uint32_t pid)
{
	int own = -2, any = -2;

	for (unsigned i = 0; i < cnt; i++) {
		int minor = (int)f->slices[i].minor;

		any = any == -2 || any == minor ? minor : -1;
		if (f->slices[i].pid == pid)
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
	r->of[i].comm = s->comm ?: r->of[i].comm;
	r->of[i].ns += ns;
	if (r->of[i].ns > r->of[r->most].ns)
		r->most = i;
}

void resident_find(const struct failure *f, struct fail_case *c)
{
	unsigned cnt = f->slice_cnt < SLICES_MAX ? f->slice_cnt : SLICES_MAX;
	uint64_t end_ns = c->at_ns + c->waited_ns, from_ns = c->at_ns;
	struct gpu_residents *r = &c->residents;
	int gpu = gpu_of(f, cnt, c->pid);

	*r = (struct gpu_residents){0};
	if (!cnt || gpu < 0)
		return;
	/* Older slices were forgotten. */
	if (f->slice_cnt > SLICES_MAX && f->slices[f->slice_cnt % SLICES_MAX].start_ns > from_ns)
		from_ns = f->slices[f->slice_cnt % SLICES_MAX].start_ns;
	for (unsigned i = 0; i < cnt; i++) {
		const struct gpu_slice *s = &f->slices[i];
		uint64_t start = s->start_ns > from_ns ? s->start_ns : from_ns;
		uint64_t end = s->end_ns < end_ns ? s->end_ns : end_ns;

		if ((int)s->minor != gpu || end <= start)
			continue;
		if (s->pid == c->pid)
			r->own_ns += end - start;
		else
			add_other(r, s, end - start);
	}
	r->of_ns = end_ns > from_ns && (r->own_ns || r->others_ns) ? end_ns - from_ns : 0;
}
