/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Measures the events per second that one core writes as JSON lines, as a Chrome trace or in
 * Perfetto's format: launches with eleven arguments, and a copy and an allocation for every fifty
 * of them. Writes into memory, or into FILE to include the disk.
 *
 *   writer [jsonl|chrome|perfetto [EVENTS [FILE [THREADS]]]]
 *                              THREADS: additional threads, as --format-threads
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sink/sink.h"
#include "util/out.h"

#define BASE_NS	  1000000000000ULL
#define FLUSH_LEN (900 << 10)

#define SINK(id, name, help) extern const struct sink_ops name##_sink_ops;
#include "sink/sinks.def"
#undef SINK

static double now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static const struct api_fn *fn(const char *symbol)
{
	const struct api_fn *f = api_fn_by_symbol(symbol);

	if (f)
		return f;
	fprintf(stderr, "no row for %s\n", symbol);
	exit(1);
}

static struct trace_event call(const char *symbol, enum event_type type, const uint64_t *words)
{
	const struct api_fn *f = fn(symbol);

	return (struct trace_event){.kind = EVENT_CALL,
				    .type = type,
				    .op = api_op_name(f->op),
				    .name = f->name,
				    .pid = 41234,
				    .tid = 41250,
				    .comm = "python3",
				    .fn = f,
				    .lib_id = 1,
				    .words = words,
				    .word_cnt = f->arg_cnt};
}

static struct trace_event make_launch(void)
{
	static const uint64_t words[] = {
		0x55d0c1a2b3f0, 128, 16, 1, 256, 1, 1, 49152, 0x55d0c0ffee10, 0x7ffd12345678, 0};
	struct trace_event ev = call("cuLaunchKernel", TYPE_KERNEL, words);

	ev.has = HAS_LAUNCH | HAS_STREAM;
	ev.stream = words[8];
	ev.launch = (struct launch_info){
		.grid = {128, 16, 1},
		.block = {256, 1, 1},
		.shared_mem_sz = 49152,
		.has_config = true,
		.func = words[0],
		.kernel = "void at::native::vectorized_elementwise_kernel<4, at::native::"
			  "FillFunctor<float>, std::array<char*, 1ul> >(int, "
			  "at::native::FillFunctor<float>, std::array<char*, 1ul>)",
		.kernel_mangled = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
				  "11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
	};
	return ev;
}

static struct trace_event make_copy(void)
{
	static const uint64_t words[] = {0x7f1234560000, 0x55d0aabbcc00, 4194304, 0x55d0c0ffee10};
	struct trace_event ev = call("cuMemcpyHtoDAsync_v2", TYPE_TRANSFER, words);

	ev.has = HAS_SIZE | HAS_PTR | HAS_STREAM | HAS_DIR;
	ev.size = words[2];
	ev.ptr = words[0];
	ev.stream = words[3];
	ev.dir = COPY_DIR_HTOD;
	return ev;
}

static struct trace_event make_alloc(void)
{
	static const uint64_t words[] = {0x7ffd00001000, 2097152};
	static const uint64_t ptr = 0x7f1234560000;
	struct trace_event ev = call("cuMemAlloc_v2", TYPE_MEMORY, words);

	ev.has = HAS_SIZE | HAS_PTR;
	ev.size = words[1];
	ev.ptr = ptr;
	ev.caps[0] = (struct pointee){(const uint8_t *)&ptr, sizeof(ptr)};
	ev.cap_cnt = 1;
	return ev;
}

/* Returns the number of bytes written. */
static uint64_t write_events(struct sink *s, struct trace_event evs[3], uint64_t cnt)
{
	uint64_t bytes = 0, ns = BASE_NS;

	for (uint64_t i = 0; i < cnt; i++) {
		struct trace_event *ev = &evs[i % 50 ? 0 : 1 + i / 50 % 2];

		ns += 2000 + i % 977;
		ev->start_ns = ns;
		ev->end_ns = ns + 3000 + i % 1777;
		ev->id = i + 1;
		sink__event(s, ev);
		if (s->out->fd >= 0 || s->out->len < FLUSH_LEN)
			continue;
		bytes += s->out->len;
		s->out->len = s->out->mark = 0;
	}
	sink__flush(s);
	return bytes + s->out->len + s->out->written;
}

static const struct sink_ops *ops_called(const char *wanted)
{
#define SINK(id, name, help)                                                                       \
	if (!strcmp(wanted, #name))                                                                \
		return &name##_sink_ops;
#include "sink/sinks.def"
#undef SINK
	fprintf(stderr, "no output is called %s\n", wanted);
	exit(1);
}

int main(int argc, char **argv)
{
	const struct sink_ops *ops = ops_called(argc > 1 ? argv[1] : "jsonl");
	uint64_t cnt = argc > 2 ? strtoull(argv[2], NULL, 0) : 2000000, bytes;
	struct trace_event evs[3] = {make_launch(), make_copy(), make_alloc()};
	struct trace_info info = {.version = "bench",
				  .base_ns = BASE_NS,
				  .hostname = "h",
				  .kernel = "k",
				  .machine = "m",
				  .driver_version = "",
				  .traced = "",
				  .not_traced = "",
				  .mechanism = "none"};
	struct sink *s = calloc(1, ops->size);
	double wall, cpu;

	if (!s)
		return 1;
	s->ops = ops;
	s->base_ns = BASE_NS;
	s->out = argc > 3 ? out__open(argv[3]) : out__memory();
	if (!s->out || s->ops->open(s, &info))
		return 1;
	sink__start_workers(s, argc > 4 ? strtoul(argv[4], NULL, 0) : 0, false);
	wall = now(CLOCK_MONOTONIC);
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	bytes = write_events(s, evs, cnt);
	wall = now(CLOCK_MONOTONIC) - wall;
	cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("writer: %.0f events/s of one core (%.0f ns each, %.0f bytes a line, %.0f MB/s), "
	       "%.0f events/s by the clock\n",
	       cnt / cpu, cpu / cnt * 1e9, (double)bytes / cnt, bytes / cpu / 1e6, cnt / wall);
	return out__close(s->out) ? 1 : 0;
}
