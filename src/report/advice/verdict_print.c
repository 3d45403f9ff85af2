/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "verdict_priv.h"

#include <stdio.h>

#include "report/collect.h"
#include "text/losses_text.h"

void verdict_phase(const struct verdict *v, enum phase phase, char *text, size_t size)
{
	static const char *const names[PHASE_CNT] = {
		[PHASE_BEFORE] = "before the first CUDA call",
		[PHASE_INIT] = "from the first call to the first context",
		[PHASE_LOAD] = "loading",
		[PHASE_WARMUP] = "warm-up",
		[PHASE_AFTER] = "after the last iteration",
		[PHASE_END] = "after the last work",
	};
	char cnt[CELL_SZ];

	if (phase != PHASE_RUN) {
		snprintf(text, size, "%s", names[phase]);
		return;
	}
	human_count(cnt, v->it.count - v->it.warmup);
	if (v->it.count)
		snprintf(text, size, "%s iteration%s", cnt, plural(v->it.count - v->it.warmup));
	else
		snprintf(text, size, "no iterations were found");
}

static const char *group_of(const struct verdict *v, enum phase p)
{
	if (p < PHASE_RUN)
		return "start-up";
	return p > PHASE_RUN ? "end" : v->it.count ? "steady state" : "run";
}

static void say_host(const struct verdict *v, const struct term *term)
{
	static const char *const names[PART_CNT] = {
		[PART_LAUNCH] = "in launches",	    [PART_TRANSFER] = "in copies",
		[PART_SYNC] = "in waits",	    [PART_MEMORY] = "in memory calls",
		[PART_MODULE] = "loading code",	    [PART_OTHER] = "in other calls",
		[PART_OUTSIDE] = "in no CUDA call",
	};
	char text[512], share[CELL_SZ];
	size_t n = 0;

	for (unsigned i = 0; i < PART_CNT && n < sizeof(text); i++) {
		/* time outside calls first */
		enum stage_part p = (i + PART_OUTSIDE) % PART_CNT;

		if (v->stages.steady.ns[p] * 1000 < v->run_ns)
			continue;
		human_share(share, v->stages.steady.ns[p], v->run_ns);
		n += snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? ", " : "", share,
			      names[p]);
	}
	if (n)
		term_para(term, "Host in %s: %s", verdict_scope(v->r), text);
}

static void say_gpu(const struct verdict *v, const struct term *term)
{
	const struct {
		uint64_t ns;
		const char *what;
	} parts[] = {{v->gpu.idle_ns, "idle"},
		     {v->gpu.compute_ns, "computing"},
		     {v->gpu.copy_alone_ns, "only copying"},
		     {v->gpu.comm_alone_ns, "only communicating"}};
	char text[256], share[CELL_SZ];
	size_t n = 0;

	human_share(share, v->idle.ns, v->idle.of_ns);
	if (v->idle.known && !v->idle.measured)
		term_para(term,
			  "GPU in %s: idle at least %s (a lower bound from the host's calls; "
			  "--gpu-time measures it)",
			  verdict_scope(v->r), share);
	if (!v->gpu.whole_ns)
		return;
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (i && parts[i].ns * 1000 < v->gpu.whole_ns)
			continue;
		human_share(share, parts[i].ns, v->gpu.whole_ns);
		n += snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? ", " : "", share,
			      parts[i].what);
	}
	term_para(term, "GPU in %s, measured: %s", verdict_scope(v->r), text);
}

void verdict_print_time(const struct report *r, const struct term *term)
{
	const struct verdict *v = r->an[AN_VERDICT];
	char names[PHASE_CNT][160], what[128], whole[CELL_SZ];
	struct table_row *row;
	struct table t;

	if (!v->whole_ns || r->args_redacted)
		return;
	human_time(whole, v->whole_ns);
	term_section(term, "Time", "%s, by part of the run", whole);
	table__init(&t, term->is_partial ? "time|share*|in calls|median|part"
					 : "time|share|in calls|median|part");
	for (enum phase p = PHASE_BEFORE; p < PHASE_CNT; p++) {
		if (!v->stages.phase_ns[p])
			continue;
		verdict_phase(v, p, what, sizeof(what));
		snprintf(names[p], sizeof(names[p]), "%s: %s", group_of(v, p), what);
		row = table__row(&t, names[p]);
		human_time(row->cell[0], v->stages.phase_ns[p]);
		human_share(row->cell[1], v->stages.phase_ns[p], v->whole_ns);
		if (v->stages.phase_call_ns[p])
			human_time(row->cell[2], v->stages.phase_call_ns[p]);
		if (p == PHASE_RUN && v->it.count)
			human_time(row->cell[3], v->it.dist[ITS_TIME].median);
	}
	table__print(&t, term);
	if (!v->run_ns)
		return;
	say_host(v, term);
	say_gpu(v, term);
}

void verdict_print_sentence(const struct report *r, const struct term *term)
{
	const struct verdict *v = r->an[AN_VERDICT];

	term_section(term, "Verdict", "%s%s", v->sentence,
		     report_is_incomplete(r) && !term->is_partial ? LOSSES_MARK : "");
}

void verdict_print(const void *a, const struct term *term)
{
	const struct verdict *v = a;

	verdict_print_sentence(v->r, term);
	verdict_print_time(v->r, term);
}

static void put_time(const struct verdict *v, struct json *j)
{
	char what[128];

	json_open_array(j, "time");
	for (enum phase p = PHASE_BEFORE; p < PHASE_CNT; p++) {
		if (!v->stages.phase_ns[p])
			continue;
		verdict_phase(v, p, what, sizeof(what));
		json_open(j, NULL);
		json_sym(j, "part", group_of(v, p));
		json_str(j, "what", what);
		json_u64(j, "ns", v->stages.phase_ns[p]);
		json_u64(j, "call_ns", v->stages.phase_call_ns[p]);
		json_close(j);
	}
	json_close_array(j);
}

void verdict_json(const void *a, struct json *j)
{
	const struct verdict *v = a;

	json_open(j, "verdict");
	json_sym(j, "limit", verdict_limit_name(v->limit));
	json_str(j, "sentence", v->sentence);
	json_sym(j, "basis", v->basis);
	json_sym(j, "scope", verdict_scope(v->r));
	json_u64(j, "ns", v->ns);
	json_u64(j, "of_ns", v->of_ns);
	json_f64(j, "share", ratio_of(v->ns, v->of_ns));
	json_u64(j, "at_most_ns", v->at_most_ns);
	json_u64(j, "startup_ns", v->startup_ns);
	json_u64(j, "run_ns", v->run_ns);
	json_u64(j, "run_bytes", v->stages.run_bytes);
	if (v->idle.known) {
		json_open(j, "gpu_idle");
		json_sym(j, "basis", v->idle.measured ? "measured" : "lower bound");
		json_u64(j, "ns", v->idle.ns);
		json_u64(j, "of_ns", v->idle.of_ns);
		json_close(j);
	}
	if (!v->r->args_redacted)
		put_time(v, j);
	json_bool(j, "incomplete", report_is_incomplete(v->r));
	json_close(j);
}
