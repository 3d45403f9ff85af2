/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Answers about the kernel driver, and about the processes that have the GPU. */
#include "answers_priv.h"

#include <string.h>

#include "report/gpu/switches.h"
#include "report/iter/iter.h"
#include "report/layers/driver_calls.h"

void answer_ioctls(const struct report *r, struct answer *a)
{
	struct driver_result d;
	struct cells c = {0};

	driver_result(r, &d);
	if (!d.traced) {
		answer_print(a, "Not traced: --kernel shows the ioctls.");
		return;
	}
	answer_number(a, "ioctls", d.ioctl_cnt);
	answer_number(a, "total_ns", d.total_ns);
	answer_number(a, "errors", d.error_cnt);
	answer_number(a, "outside", d.outside_cnt);
	answer_print(a, "%s ioctl%s of %u kind%s in %s, %s of them outside CUDA calls",
		     answer_count(&c, d.ioctl_cnt), plural(d.ioctl_cnt), d.command_cnt,
		     plural(d.command_cnt), answer_time(&c, d.total_ns),
		     answer_count(&c, d.outside_cnt));
	for (unsigned i = 0; i < d.call_cnt; i++)
		answer_print(a, "%s%s %s", i ? ", " : "; from ", d.calls[i].name,
			     answer_count(&c, d.calls[i].cnt));
	for (unsigned i = 0; i < d.top_cnt; i++)
		answer_print(a, "%s%s %s", i ? ", " : "; most time in ", d.commands[i].name,
			     answer_time(&c, d.commands[i].total_ns));
	answer_print(a, ".");
}

/* Summarizes the driver's log of context switches for one GPU. */
static void print_resident(struct answer *a, const struct resident_gpu *g)
{
	uint64_t span = resident_span_ns(g);
	struct cells c = {0};
	char name[64];

	answer_print(a, " GPU %u switched contexts %s time%s in %s", g->minor,
		     answer_count(&c, g->switch_cnt), plural(g->switch_cnt), answer_time(&c, span));
	if (span)
		answer_print(a, " (%.1f/s), which took %.1f %% of the time",
			     g->switch_cnt * 1e9 / span, 100 * ratio_of(g->between_ns, span));
	for (unsigned i = 0; i < g->proc_cnt && i < 4; i++) {
		resident_name(&g->procs[i], name, sizeof(name));
		answer_print(a, "%s%s used it for %.1f %% of the time, in slices of %s",
			     i ? ", " : "; ", name, 100 * ratio_of(g->procs[i].ns, span),
			     answer_time(&c, ratio_of(g->procs[i].ns, g->procs[i].cnt)));
	}
	answer_print(a, ".");
}

static void print_switches(const struct report *r, struct answer *a)
{
	const struct residency *res = switches_result(r);
	uint64_t cnt = 0, between = 0;

	for (unsigned i = 0; res && i < res->cnt; i++) {
		cnt += res->gpus[i]->switch_cnt;
		between += res->gpus[i]->between_ns;
	}
	if (res && res->cnt) {
		answer_number(a, "switches", cnt);
		answer_number(a, "switching_ns", between);
	}
	for (unsigned i = 0; res && i < res->cnt && i < 2; i++)
		print_resident(a, res->gpus[i]);
	if (res && res->cnt)
		return;
	if (!r->info->gpu_ctxsw)
		answer_print(
			a,
			" No ioctl shows when the GPU switches contexts; --gpu-ctxsw records it.");
	else if (!strcmp(r->info->gpu_ctxsw, "on"))
		answer_print(a, " No context switch was recorded: no other process used a GPU.");
	else
		answer_print(a, " Context switches were not recorded: %s.", r->info->gpu_ctxsw);
}

void answer_sched(const struct report *r, struct answer *a)
{
	struct driver_result d;
	struct iter_result it;
	struct cells c = {0};

	driver_result(r, &d);
	iter_result(r, &it);
	answer_number(a, "events", d.sched_total);
	answer_number(a, "xids", d.xid_cnt);
	if (!d.traced) {
		answer_print(a, "Not traced: --kernel records requests to the driver.");
		print_switches(r, a);
		return;
	}
	answer_print(a, "%s time%s, as far as the kernel driver is involved",
		     answer_count(&c, d.sched_total), plural(d.sched_total));
	for (unsigned i = 0; i < d.sched_cnt; i++)
		answer_print(a, "%s%s %s", i ? ", " : ": ", d.sched[i].name,
			     answer_count(&c, d.sched[i].cnt));
	if (d.sched_total) {
		uint64_t last = d.sched_last_ns > r->base_ns ? d.sched_last_ns - r->base_ns : 0;

		answer_number(a, "last_ts", last / 1e6);
		answer_print(a, "; the last %s after the start",
			     answer_time(&c, report_since_begin(r, d.sched_last_ns)));
		if (it.count && d.sched_last_ns < it.steady_ns)
			answer_print(a, ", none in iterations after the warm-up");
	}
	answer_print(a, ". A launch makes no ioctl.");
	print_switches(r, a);
}
