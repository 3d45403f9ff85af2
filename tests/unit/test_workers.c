/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lines that several threads format equal those of one thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "factory.h"
#include "full_disk.h"
#include "sink/delivery/workers.h"
#include "sink/delivery/pending.h"
#include "sink/sink.h"
#include "util/out.h"

#define EVENT_CNT 20000
#define THREADS	  3

static char path[64];
static const struct trace_info plain = {.version = "1.2.3", .base_ns = FACTORY_BASE_NS};

/* All data that an event points to: reused for the next, like the ring's and the model's. */
static struct {
	uint64_t words[CT_MAX_WORDS];
	uint8_t cap[512];
	char comm[16], kernel[9000], mangled[600];
	struct stack stack;
} shared;

static void fill(char *s, size_t size, int i)
{
	size_t len = i % 97 ? (size_t)(i * 7) % 200 : size;

	if (len > size - 1)
		len = size - 1;
	memset(s, 'a' + i % 26, len);
	s[len] = 0;
}

static struct trace_event call(const char *symbol, enum event_type type, int i)
{
	const struct api_fn *fn = api_fn_by_symbol(symbol);
	struct trace_event ev = {.kind = EVENT_CALL,
				 .type = type,
				 .fn = fn,
				 .pid = 100,
				 .tid = 101 + i % 5,
				 .comm = shared.comm,
				 .id = i + 1,
				 .start_ns = FACTORY_BASE_NS + i * 1000,
				 .end_ns = FACTORY_BASE_NS + i * 1000 + 123,
				 .words = shared.words,
				 .lib_id = 1};

	assert_non_null(fn);
	ev.op = api_op_name(fn->op);
	ev.name = fn->name;
	ev.word_cnt = fn->arg_cnt;
	for (unsigned w = 0; w < CT_MAX_WORDS; w++)
		shared.words[w] = i * 31 + w;
	fill(shared.comm, sizeof(shared.comm), i);
	return ev;
}

/* Longer than any batch. */
static struct trace_event make_stack(int i)
{
	static struct {
		struct stack stack;
		struct stack_frame frames[100];
	} big;

	fill(shared.kernel, sizeof(shared.kernel), 0);
	big.stack = (struct stack){.id = i, .frame_cnt = 100};
	for (int f = 0; f < 100; f++)
		big.frames[f] = (struct stack_frame){.symbol = shared.kernel};
	return (struct trace_event){.kind = EVENT_STACK,
				    .type = TYPE_STACK,
				    .op = "stack",
				    .name = "stack",
				    .stack = &big.stack};
}

static struct trace_event make(int i)
{
	struct trace_event ev;

	if (i % 9000 == 8999)
		return make_stack(i);
	switch (i % 7) {
	case 0:
	case 1:
		ev = call("cuLaunchKernel", TYPE_KERNEL, i);
		ev.has = HAS_LAUNCH | HAS_STREAM;
		fill(shared.kernel, sizeof(shared.kernel), i);
		fill(shared.mangled, sizeof(shared.mangled), i + 3);
		ev.launch = (struct launch_info){.kernel = shared.kernel,
						 .kernel_mangled = shared.mangled};
		shared.stack.id = i;
		ev.stack = i % 3 ? &shared.stack : NULL;
		return ev;
	case 2:
		ev = call("cuMemAlloc_v2", TYPE_MEMORY, i);
		memset(shared.cap, i, sizeof(shared.cap));
		ev.caps[0] = (struct pointee){shared.cap, 8};
		ev.cap_cnt = 1;
		return ev;
	case 3:
		return call("cuStreamSynchronize", TYPE_SYNC, i);
	case 4:
		/* Rare members, at different positions. */
		ev = call("ncclAllReduce", TYPE_COLLECTIVE, i);
		ev.has = HAS_COUNT | (i % 2 ? HAS_IOCTLS : HAS_OFF_CPU);
		ev.coll = (struct collective_info){.count = i, .seq = i % 5, .grouped = i % 3};
		ev.coll.group = i % 4;
		ev.ioctl_cnt = i % 4;
		ev.off_cpu_ns = i;
		return ev;
	case 5:
		ev = call("cublasSgemm_v2", TYPE_BLAS, i);
		ev.has = HAS_GEMM;
		ev.gemm = (struct gemm_info){.m = 1, .batch = i % 3, .flops = i % 2 ? i : 0};
		ev.range_id = ev.operator_id = 1;
		ev.range_text = ev.operator= i % 2 ? shared.comm : NULL;
		return ev;
	default:
		fill(shared.comm, sizeof(shared.comm), i);
		return (struct trace_event){.kind = EVENT_PROCESS,
					    .type = TYPE_PROCESS,
					    .op = i % 2 ? "fork" : "exec",
					    .name = i % 2 ? "fork" : "exec",
					    .comm = shared.comm,
					    .process.parent_pid = i};
	}
}

static char *slurp(size_t *len)
{
	int fd = open(path, O_RDONLY);
	char *s;

	assert_true(fd >= 0);
	*len = lseek(fd, 0, SEEK_END);
	s = malloc(*len + 1);
	assert_int_equal(pread(fd, s, *len, 0), *len);
	s[*len] = 0;
	close(fd);
	return s;
}

static struct sink *begin(unsigned threads, bool wait)
{
	struct sink *s = sink__open(SINK_JSONL, path, &plain);

	assert_non_null(s);
	sink__start_workers(s, threads, wait);
	assert_int_equal(s->workers != NULL, threads > 0 || wait);
	assert_int_equal(s->waits, wait);
	return s;
}

static char *written_by(unsigned threads, bool wait, size_t *len)
{
	struct sink *s = begin(threads, wait);

	for (int i = 0; i < EVENT_CNT; i++) {
		struct trace_event ev = make(i);

		sink__event(s, &ev);
		/* Now and then all lines must be complete, between batches and within them. */
		if (i % 7001 == 7000) {
			sink__flush(s);
			assert_int_equal(s->out->mark, 0);
		}
	}
	assert_int_equal(sink__close(s, NULL), 0);
	return slurp(len);
}

static void test_same(void **state)
{
	size_t want_len, len;
	char *want = written_by(0, false, &want_len), *got;

	for (unsigned how = 1; how < 2 * (THREADS + 1); how++) {
		got = written_by(how / 2, how % 2, &len);
		assert_int_equal(len, want_len);
		assert_memory_equal(got, want, len);
		free(got);
	}
	free(want);
}

static struct trace_event execution(uint64_t call_id, uint64_t start_ns)
{
	return (struct trace_event){.kind = EVENT_GPU,
				    .type = TYPE_GPU,
				    .op = "kernel",
				    .name = "kernel",
				    .comm = "",
				    .start_ns = start_ns,
				    .end_ns = start_ns + 3000,
				    .gpu.call_id = call_id,
				    .gpu.queue_ns = 1000};
}

/* Finds the line of that call. */
static void line_of(const char *text, uint64_t id, char line[1024])
{
	char key[32];
	const char *at;

	snprintf(key, sizeof(key), ",\"id\":%lu,", id);
	at = strstr(text, key);
	assert_non_null(at);
	while (at[-1] != '\n')
		at--;
	snprintf(line, 1024, "%.*s", (int)strcspn(at, "\n"), at);
}

/* More calls than the limit wait for executions: the oldest are released. */
static void test_waiting(void **state)
{
	struct trace_end end = {.end_ns = FACTORY_BASE_NS, .reason = "test", .gpu.on = true};
	struct sink *s = begin(*(unsigned *)*state, true);
	uint64_t cnt = 0, id;
	struct trace_event ev;
	char line[1024], *text;
	size_t len;

	while (cnt < 200000) {
		ev = call("cuLaunchKernel", TYPE_KERNEL, cnt++);
		ev.has = HAS_LAUNCH | HAS_OFF_CPU;
		ev.off_cpu_ns = 5000;
		sink__event(s, &ev);
	}
	/* The first one's is late. Of the last one's two, the first comes second. */
	for (unsigned i = 0; i < 3; i++) {
		ev = execution(i ? cnt : 1, FACTORY_BASE_NS + 9000000 - i * 1000);
		sink__event(s, &ev);
	}
	/* Of a call that has no line. */
	ev = execution(0, FACTORY_BASE_NS);
	sink__event(s, &ev);
	assert_int_equal(s->late_cnt, 1);
	assert_int_equal(sink__close(s, &end), 0);
	text = slurp(&len);
	line_of(text, cnt, line);
	assert_non_null(strstr(
		line,
		",\"off_cpu_us\":5,\"gpu_start\":8.998000,\"gpu_us\":6.000,\"gpu_queue_us\":1,"));
	for (id = 1; id < cnt; id += 20000) {
		line_of(text, id, line);
		assert_null(strstr(line, "gpu_"));
	}
	assert_non_null(strstr(text, ",\"gpu_unmatched\":1,"));
	free(text);
}

/* Ids in one hash chain, which a program may choose: the search is limited. */
static void test_same_ids(void **state)
{
	struct pending_calls *c = pending__new();
	struct pending_call *h = calloc(1000, sizeof(*h));
	struct trace_event ev = execution(7, FACTORY_BASE_NS);

	for (unsigned i = 0; i < 1000; i++)
		pending__add(c, &h[i], i < 500 ? 7 : 8);
	assert_true(pending__executed(c, &ev));
	assert_int_equal(h[0].times.cnt, 1);
	for (unsigned i = 0; i < 1000; i++) {
		pending__release(c, &h[i].times);
		assert_int_equal(pending__executed(c, &ev), i < 499);
	}
	pending__add(c, &h[0], 7);
	assert_true(pending__executed(c, &ev));
	pending__free(c);
	free(h);
}

static void test_nothing(void **state)
{
	struct sink *s = begin(THREADS, false);
	size_t len;
	char *text;

	assert_int_equal(sink__close(s, NULL), 0);
	text = slurp(&len);
	assert_ptr_equal(strchr(text, '\n'), text + len - 1);
	free(text);
}

/* A full disk: each line is in the file or counted. */
static void test_full(void **state)
{
	struct trace_end end = {.end_ns = FACTORY_BASE_NS, .reason = "test"};
	struct full_disk disk;
	unsigned lines = 0, lost;
	struct sink *s;
	int ret;
	size_t len;
	char *text;

	s = begin(THREADS, false);
	disk = full_disk_begin(2500000);
	for (int i = 0; i < EVENT_CNT; i++) {
		struct trace_event ev = make(i);

		sink__event(s, &ev);
	}
	sink__flush(s);
	assert_true(sink__failed(s));
	ret = sink__close(s, &end);
	full_disk_end(&disk);
	assert_int_equal(ret, -EFBIG);
	text = slurp(&len);
	assert_int_equal(sscanf(strstr(text, "\"lines_lost\""), "\"lines_lost\":%u}", &lost), 1);
	for (char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	assert_true(lines > 1000 && lost > 1000);
	assert_int_equal(lines - 2 + lost, EVENT_CNT);
	free(text);
}

static void test_size(void **state)
{
	assert_int_equal(workers__size(1), 0);
	assert_int_equal(workers__size(7), 0);
	assert_int_equal(workers__size(8), 1);
	assert_int_equal(workers__size(16), 3);
	assert_int_equal(workers__size(256), 3);
}

int main(void)
{
	static unsigned none, some = THREADS;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
		{"waiting, without threads", test_waiting, .initial_state = &none},
		{"waiting, with threads", test_waiting, .initial_state = &some},
		cmocka_unit_test(test_same_ids),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_size),
	};
	int fd, ret;

	snprintf(path, sizeof(path), "/tmp/cudatrace-test-workers.XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return ret;
}
