/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes a Chrome trace of a made-up inference run, and on stdout what must be found in it:
 *   make_trace FILE   ->   {"slices":N,"arrows":N,"counters":N,...}
 * counters are samples, as viewers count them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sink/sink.h"
#include "unit/factory.h"
#include "util/out.h"

static const char *const kernels[] = {
	FACTORY_KERNELS,
};

struct made {
	struct sink *sink;
	unsigned slices, nested, arrows, instants;
};

static void put(struct made *m, const struct trace_event *ev)
{
	sink__event(m->sink, ev);
	if (ev->kind == EVENT_CALL)
		m->slices++;
	else
		m->instants++;
}

static void put_load(struct made *m, struct factory *f)
{
	static const char *const calls[] = {"cuInit", "cuDevicePrimaryCtxRetain",
					    "cuModuleLoadData", "cuStreamCreate"};
	uint64_t live = 0;
	struct trace_event ev;
	unsigned i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		ev = factory_call(f, calls[i], 20000, 400000);
		put(m, &ev);
	}
	for (i = 0; i < 12; i++) {
		live += 8 << 20;
		ev = factory_alloc(f, 8 << 20, live);
		put(m, &ev);
		ev = factory_copy(f, "cuMemcpyHtoD_v2", COPY_DIR_HTOD, 8 << 20, 700000);
		put(m, &ev);
	}
}

/* A sync with a call inside it, as libcuda makes them: nesting. */
static void put_nested_sync(struct made *m, struct factory *f, uint64_t stream)
{
	struct trace_event outer = factory_sync(f, stream), inner;
	uint64_t end = f->now_ns;

	f->now_ns = outer.start_ns;
	inner = factory_call(f, "cuCtxGetCurrent", 1, outer.end_ns - outer.start_ns - 2);
	inner.depth = 1;
	inner.parent_id = outer.id;
	f->now_ns = end;
	put(m, &inner);
	put(m, &outer);
	m->nested++;
	m->arrows++;
}

static void put_token(struct made *m, struct factory *f, unsigned token)
{
	struct trace_event ev;
	unsigned i;

	for (i = 0; i < 24; i++) {
		ev = factory_launch(f, kernels[i % 4], 0x1000 * (1 + i % 2));
		put(m, &ev);
	}
	if (token == 3) {
		ev = factory_call(f, "cuMemAlloc_v2", 1000, 30000);
		ev.result = 2;
		ev.is_error = true;
		put(m, &ev);
	}
	put_nested_sync(m, f, 0x1000);
	ev = factory_on_stream(f, "cuMemcpyDtoH_v2", 0x2000, 30000);
	ev.dir = COPY_DIR_DTOH;
	ev.has |= HAS_DIR | HAS_SIZE;
	ev.size = 4096;
	put(m, &ev);
	m->arrows++;
}

int main(int argc, char **argv)
{
	struct trace_info info = factory_info();
	struct factory f = factory(4711), worker;
	struct made m = {};
	struct trace_end end;
	struct trace_event ev;
	unsigned i;

	if (argc != 2)
		return 2;
	m.sink = sink__open(SINK_CHROME, argv[1], &info);
	if (!m.sink)
		return 1;
	put_load(&m, &f);
	for (i = 0; i < 10; i++)
		put_token(&m, &f, i);
	worker = f;
	worker.tid = 4712;
	worker.comm = "loader \"\xff\n";
	ev = factory_alloc(&worker, 1 << 20, 97 << 20);
	put(&m, &ev);
	ev = factory_process(&worker, "exit");
	put(&m, &ev);
	end = factory_end(&worker, m.slices);
	end.drops[CT_DROP_CALL] = 3;
	if (sink__close(m.sink, &end))
		return 1;
	/* 12 allocations, each further apart than the counters' gap, the worker's, and the exit */
	printf("{\"slices\":%u,\"nested\":%u,\"arrows\":%u,\"counters\":%u,\"processes\":1,\"threads\":2,"
	       "\"global_instants\":3,\"process_instants\":%u}\n",
	       m.slices, m.nested, m.arrows, 12 + 1 + 1, m.instants);
	return 0;
}
