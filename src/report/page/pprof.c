/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The pprof profile of a report. */
#include "pprof.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "text/losses_text.h"
#include "util/log.h"

static void put_labels(struct pprof *p, const struct report *r, const struct profile_row *row,
		       const char *process)
{
	char text[32];

	pprof__label(p, "process", NULL, row->at.pid);
	if (process)
		pprof__label(p, "process_name", process, 0);
	pprof__label(p, "thread", NULL, row->at.tid);
	if (row->comm)
		pprof__label(p, "thread_name", row->comm, 0);
	/* As texts: readers drop a number that is 0. */
	if (row->device) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)row->device - 1);
		pprof__label(p, "device", text, 0);
	}
	if (row->at.stream) {
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)row->at.stream - 1);
		pprof__label(p, "stream", text, 0);
	}
	if (!r->args_redacted)
		pprof__label(p, "stage", stage_name(row->stage), 0);
	if (row->iteration)
		pprof__label(p, "iteration", NULL, row->iteration);
}

static void put_stack_frame(struct pprof *p, const struct stack_frame *f)
{
	char buf[PROFILE_FRAME_SZ];

	pprof__frame(p, profile_frame_name(f, buf, sizeof(buf)), f->module, f->line);
}

static void put_row(struct pprof *p, const struct report *r, const struct profile_row *row,
		    const char *process)
{
	pprof__begin(p);
	if (row->leaf)
		pprof__frame(p, row->leaf, NULL, 0);
	pprof__frame(p, row->at.function, NULL, 0);
	if (row->at.operator)
		pprof__frame(p, row->at.operator, NULL, 0);
	for (unsigned i = 0; row->at.stack && i < row->at.stack->frame_cnt; i++)
		put_stack_frame(p, &row->at.stack->frames[i]);
	pprof__values(p, row->v);
	put_labels(p, r, row, process);
	pprof__end(p);
}

static void put_rest(struct pprof *p, const uint64_t rest[PROFILE_VALUE_CNT])
{
	uint64_t any = 0;

	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
		any |= rest[i];
	if (!any)
		return;
	pprof__begin(p);
	pprof__frame(p, PROFILE_LIMITED, NULL, 0);
	pprof__values(p, rest);
	pprof__end(p);
}

static int put_samples(struct pprof *p, const struct report *r, bool *has_gpu)
{
	uint64_t rest[PROFILE_VALUE_CNT];
	unsigned cnt;
	const struct profile_row *row = profile__rows(r->profile, r, &cnt, rest);
	const char *process = NULL;
	uint32_t pid = 0;

	if (!row)
		return -ENOMEM;
	*has_gpu = rest[PROFILE_GPU_NS];
	for (unsigned i = 0; i < cnt && !pprof__error(p); i++, row++) {
		/* A process has the name of its first thread with calls. */
		if (!i || row->at.pid != pid)
			process = row->comm;
		pid = row->at.pid;
		put_row(p, r, row, process);
		*has_gpu |= row->v[PROFILE_GPU_NS] != 0;
	}
	put_rest(p, rest);
	return pprof__error(p);
}

static void put_comments(struct pprof *p, const struct report *r)
{
	char text[1024];

	if (losses_line(&r->lost, text, sizeof(text)))
		pprof__comment(p, "incomplete: the trace lacks ", text);
	if (losses_chosen_line(&r->lost, text, sizeof(text)))
		pprof__comment(p, "excluded by options: ", text);
	if (!report_has_times(r))
		pprof__comment(p, "not recorded: ", "times of calls (--entry-only)");
	if (r->args_redacted || r->info->redacted)
		pprof__comment(p, "redacted: ", r->args_redacted ? "arguments" : r->info->redacted);
}

int pprof_write(const struct report *r, struct out *o)
{
	uint64_t begin = r->begin_ns > r->base_ns ? r->begin_ns - r->base_ns : 0;
	struct profile_span s = {
		.wall_ns = r->info->wall_ns ? r->info->wall_ns + begin : 0,
		.duration_ns = report_wall_ns(r),
		.no_times = !report_has_times(r),
	};
	struct pprof *p = r->profile ? pprof__new(o) : NULL;
	int ret = p ? 0 : -ENOMEM;

	if (p) {
		ret = put_samples(p, r, &s.has_gpu);
		put_comments(p, r);
		ret = ret ?: pprof__finish(p, &s);
	}
	pprof__free(p);
	if (ret)
		err("cannot write the profile: %s", strerror(-ret));
	return ret;
}
