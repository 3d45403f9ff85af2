/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "track_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/event_table.h"

int track_state__init(struct track_state *b)
{
	b->flows = flows__new();
	b->procs = chrome_procs__new();
	b->gpus = gpu_counters__new();
	b->allocator = allocator_counters__new();
	return b->flows && b->procs && b->gpus && b->allocator ? 0 : -ENOMEM;
}

void track_state__free(struct track_state *b)
{
	flows__free(b->flows);
	chrome_procs__free(b->procs);
	gpu_counters__free(b->gpus);
	allocator_counters__free(b->allocator);
	free(b->arrows);
	free(b->counters);
}

/* Grows an array by one element if needed; NULL: no memory, the element is omitted. */
static void *more(void *array, unsigned cnt, unsigned *cap, size_t size)
{
	unsigned wanted = *cap ? 2 * *cap : 16;
	void *grown = array;

	if (cnt == *cap) {
		grown = realloc(array, wanted * size);
		if (grown)
			*cap = wanted;
	}
	return grown;
}

static void add_arrow(void *ctx, const struct flow_launch *from, const struct trace_event *to)
{
	struct track_state *b = ctx;
	struct flow_launch *grown;

	if (from->seq <= b->seq_files)
		return;
	grown = more(b->arrows, b->arrow_cnt, &b->arrow_cap, sizeof(*grown));
	if (!grown)
		return;
	b->arrows = grown;
	b->arrows[b->arrow_cnt++] = *from;
}

static void add_counter(void *ctx, uint32_t pid, const struct chrome_counter *counter,
			uint64_t ts_ns, uint64_t value)
{
	struct track_state *b = ctx;
	struct track_counter *grown;

	grown = more(b->counters, b->counter_cnt, &b->counter_cap, sizeof(*grown));
	if (!grown)
		return;
	b->counters = grown;
	b->counters[b->counter_cnt++] = (struct track_counter){pid, counter, ts_ns, value};
}

static void set_name(char name[TRACK_NAME_SZ], const char *from)
{
	strncpy(name, from ?: "", TRACK_NAME_SZ - 1);
}

/* Other events come from an unrelated thread, so its name does not apply. */
static bool has_names(const struct trace_event *ev)
{
	return ev->pid && !event_is(ev, NO_THREAD);
}

static void find_names(struct track_state *b, const struct trace_event *ev)
{
	struct chrome_names n;

	b->new_process = false;
	b->process[0] = b->thread[0] = '\0';
	if (!has_names(ev) || !chrome_procs__names(b->procs, ev, &n))
		return;
	b->new_process = n.new_process;
	b->index = n.index;
	set_name(b->process, n.process);
	set_name(b->thread, n.thread);
}

void track_state__event(struct track_state *b, const struct trace_event *ev)
{
	b->arrow_cnt = b->counter_cnt = 0;
	b->seq_before = flows__seq(b->flows);
	find_names(b, ev);
	flows__event(b->flows, ev, add_arrow, b);
	chrome_procs__counters(b->procs, ev, add_counter, b);
	if (ev->kind == EVENT_GPU_STATS || ev->kind == EVENT_GPU_METRICS ||
	    ev->kind == EVENT_NETWORK)
		gpu_counters__event(b->gpus, ev, add_counter, b);
	else if (ev->kind == EVENT_ALLOCATOR)
		allocator_counters__event(b->allocator, ev, add_counter, b);
}

void track_state__next_file(struct track_state *b)
{
	b->seq_files = b->seq_before;
	chrome_procs__name_anew(b->procs);
}

/* A process that has exited is already dropped, and its names have to be written again. */
void track_state__again(struct track_state *b, const struct trace_event *ev)
{
	bool has_exited = ev->kind == EVENT_PROCESS && !strcmp(ev->name, "exit");

	b->arrow_cnt = 0;
	if (!has_exited) {
		find_names(b, ev);
		return;
	}
	b->new_process = false;
	set_name(b->process, ev->comm);
	set_name(b->thread, ev->comm);
}

void track_state__rest(struct track_state *b)
{
	if (b->ended)
		return;
	b->ended = true;
	b->counter_cnt = 0;
	chrome_procs__flush(b->procs, add_counter, b);
}

uint64_t track_state__forgotten(const struct track_state *b)
{
	return flows__forgotten(b->flows) + chrome_procs__forgotten(b->procs);
}
