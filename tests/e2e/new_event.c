/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * new_event JSONL CHROME: records of the kind that docs/HOWTO_ADD_EVENT.md makes up go the way of
 * all records into both files. Then prints what a reader finds in the first. test_new_event.py
 * builds it in a tree that has that kind.
 */
#include <stdio.h>
#include <string.h>

#include "decode/fnset.h"
#include "record/check.h"
#include "model/model.h"
#include "saved/reader.h"
#include "sink/sink.h"

static struct sink *sinks[2];

static void on_event(void *ctx, const struct trace_event *ev)
{
	struct trace_end *end = ctx;

	end->event_cnt++;
	end->type_cnt[ev->type]++;
	end->end_ns = ev->end_ns;
	for (int i = 0; i < 2; i++)
		sink__event(sinks[i], ev);
}

static void on_read(void *ctx, const struct trace_event *ev)
{
	const struct event_throttle *t = &ev->throttle;

	printf("%s %s %u %llu %d %d\n", ev->op, t->board, t->clock_mhz,
	       (unsigned long long)t->lasted_ns, t->hot,
	       ev->kind == EVENT_THROTTLE && ev->type == TYPE_THROTTLE);
}

static void send(struct model *m, const struct ct_throttle *rec, struct trace_end *end)
{
	struct raw raw;

	if (raw_check(rec, sizeof(*rec), 0, &raw))
		end->bad_record_cnt++;
	else
		model__record(m, &raw);
}

int main(int argc, char **argv)
{
	static const struct trace_info info = {.version = "1",
					       .base_ns = 1000,
					       .hostname = "h",
					       .kernel = "k",
					       .machine = "m",
					       .traced = "",
					       .not_traced = "",
					       .mechanism = "uprobe"};
	static const struct reader_ops ops = {.event = on_read};
	struct ct_throttle rec = {
		.rec = {.size = sizeof(rec),
			.kind = CT_REC_THROTTLE,
			.ts_ns = 2000,
			.pid = 7,
			.tid = 8},
		.clock_mhz = 345,
		.hot = 1,
		.board = "0000:18:00.0\"\n",
	};
	struct trace_end end = {.reason = "done", .not_traced = ""};
	struct model_opts opts = {
		.fn = on_event, .ctx = &end, .fns = fnset__new(), .stub_func_id = CT_MAX_FUNCS - 1};
	struct model *m = model__new(&opts);
	struct reader *r = reader__new(&ops, NULL);
	struct saved_file f;

	sinks[0] = sink__open(SINK_JSONL, argv[1], &info);
	sinks[1] = sink__open(SINK_CHROME, argv[2], &info);
	if (argc != 3 || !m || !r || !sinks[0] || !sinks[1])
		return 2;
	send(m, &rec, &end);
	rec.rec.ts_ns += 1500000;
	rec.lasted_ns = 1500000;
	rec.clock_mhz = 1980;
	send(m, &rec, &end);
	/* Smaller than in its row. */
	rec.rec.size -= 8;
	send(m, &rec, &end);
	if (sink__close(sinks[0], &end) || sink__close(sinks[1], &end) ||
	    reader__file(r, argv[1], &f))
		return 1;
	reader__free(r);
	return 0;
}
