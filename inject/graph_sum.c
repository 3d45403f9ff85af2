/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CUPTI has no usable records of graph launches in a program that runs already, only of their
 * nodes. Their sum is the same record: from the start of the first node to the end of the last.
 * Nodes of one launch have the number of its call, and may arrive in any order.
 */
#include "cupti.h"
#include "inject.h"

#include "ct_record.h"

#include <string.h>

/* Launches whose nodes may still arrive, by the low bits of their numbers. */
#define LOG 13
/* CUPTI is flushed every 100 ms. */
#define COMPLETE_NS 350000000ull

static struct sum {
	struct cupti_record r;
	uint64_t seen_ns; /* 0: unused */
} * sums;
static uint32_t used;

bool graph_sum_begin(void)
{
	if (!sums)
		sums = sys_map(sizeof(*sums) << LOG, 0);
	else
		memset(sums, 0, sizeof(*sums) << LOG);
	used = 0;
	return sums;
}

static void end(struct sum *s, graph_sum_fn *send, void *arg)
{
	s->seen_ns = 0;
	used--;
	send(arg, &s->r);
}

void graph_sum_add(const struct cupti_record *r, uint64_t now_ns, graph_sum_fn *send, void *arg)
{
	struct sum *s = &sums[r->correlation & ((1u << LOG) - 1)];

	if (s->seen_ns && s->r.correlation != r->correlation)
		end(s, send, arg);
	if (!s->seen_ns) {
		used++;
		s->r = (struct cupti_record){
			.what = CT_RUN_GRAPH,
			.correlation = r->correlation,
			.device = r->device,
			.context = r->context,
			.stream = r->stream,
			.start = r->start,
			.end = r->end,
		};
	}
	s->seen_ns = now_ns;
	if (r->start < s->r.start) {
		s->r.start = r->start;
		s->r.stream = r->stream;
	}
	if (r->end > s->r.end)
		s->r.end = r->end;
}

void graph_sum_send(uint64_t now_ns, graph_sum_fn *send, void *arg)
{
	for (uint32_t i = 0; used && i < 1u << LOG; i++)
		if (sums[i].seen_ns &&
		    (now_ns == UINT64_MAX || now_ns - sums[i].seen_ns >= COMPLETE_NS))
			end(&sums[i], send, arg);
}
