/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lines that wait as text: of several files, and of the daemon. */
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
#include "sink/delivery/pending_lines.h"
#include "sink/sink.h"
#include "util/opener.h"
#include "util/out.h"
#include "util/segment.h"

#define MIB (1 << 20)
#define SEC 1000000000ull

/* The released lines. */
static struct out *gone;
static unsigned gone_cnt;

static void go(void *ctx, const struct line *l)
{
	assert_ptr_equal(ctx, &gone);
	gone_cnt++;
	out_bytes(gone, l->text, l->len);
}

static struct pending_lines *begin(size_t max)
{
	struct pending_lines *q = pending_lines__new(max, FACTORY_BASE_NS, go, &gone);

	assert_non_null(q);
	gone->len = gone->mark = 0;
	gone_cnt = 0;
	return q;
}

static bool add(struct pending_lines *q, const char *text, uint64_t id, size_t gpu_at, uint64_t ns)
{
	const struct line l = {.text = text, .len = strlen(text)};

	return pending_lines__add(q, &l, id, gpu_at, ns);
}

static bool executed(struct pending_lines *q, uint64_t id, uint64_t start_ns)
{
	const struct trace_event ev = {.kind = EVENT_GPU,
				       .start_ns = FACTORY_BASE_NS + start_ns,
				       .end_ns = FACTORY_BASE_NS + start_ns + 3000,
				       .gpu.call_id = id,
				       .gpu.queue_ns = 1000};

	return pending_lines__executed(q, &ev);
}

static void assert_gone(const char *want)
{
	assert_int_equal(gone->len, strlen(want));
	assert_memory_equal(gone->buf, want, gone->len);
}

static void test_order(void **state)
{
	struct pending_lines *q = begin(MIB);

	assert_true(add(q, "{a,args}\n", 7, 2, SEC));
	assert_true(add(q, "other\n", 0, 0, SEC));
	assert_true(add(q, "", 0, 0, SEC));
	assert_true(add(q, "{b}\n", 8, 2, SEC + 1));
	/* The earliest start, and the sum. */
	assert_true(executed(q, 7, 2000000));
	assert_true(executed(q, 7, 1000000));
	assert_false(executed(q, 9, 0));
	pending_lines__tick(q, 2 * SEC - 1);
	assert_int_equal(gone_cnt, 0);
	pending_lines__tick(q, 2 * SEC);
	assert_int_equal(gone_cnt, 3);
	assert_gone("{a,\"gpu_start\":1.000000,\"gpu_us\":6.000,\"gpu_queue_us\":1,args}\nother\n");
	assert_false(executed(q, 7, 0));
	gone->len = 0;
	pending_lines__release(q);
	assert_gone("{b}\n");
	assert_false(executed(q, 8, 0));
	pending_lines__free(q);
}

/* The oldest are released to make room, and dropped from the table. */
static void test_memlimit(void **state)
{
	struct pending_lines *q = begin(MIB);
	unsigned cnt = 0;
	char text[1024];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	while (cnt < 10000)
		assert_true(add(q, text, ++cnt, 1, SEC));
	assert_true(cnt - gone_cnt < MIB / sizeof(text));
	assert_true(cnt - gone_cnt > MIB / sizeof(text) / 2);
	assert_false(executed(q, gone_cnt, 0));
	assert_true(executed(q, gone_cnt + 1, 0));
	pending_lines__free(q);
}

static void test_long(void **state)
{
	struct pending_lines *q = begin(MIB);
	char *text = malloc(MIB + 1);

	memset(text, 'x', MIB);
	text[MIB / 2] = 0;
	assert_true(add(q, "a\n", 1, 1, SEC));
	assert_true(add(q, text, 2, 1, SEC));
	assert_int_equal(gone_cnt, 0);
	assert_true(executed(q, 2, 0));
	text[MIB / 2] = 'x';
	text[MIB] = 0;
	assert_false(add(q, text, 3, 1, SEC));
	assert_int_equal(gone_cnt, 2);
	assert_true(add(q, "b\n", 4, 1, SEC));
	pending_lines__free(q);
	free(text);
}

#define FRAMES 20

/* Every second call has a new stack: more stacks than may wait. */
static void give_call(struct sink *s, struct factory *f, uint64_t id)
{
	static struct {
		struct stack stack;
		struct stack_frame frames[FRAMES];
	} of;
	struct trace_event ev = factory_call(f, "cuLaunchKernel", 1000, 100), stack;

	of.stack = (struct stack){.id = id / 2 + 1, .frame_cnt = FRAMES};
	for (unsigned i = 0; i < FRAMES; i++)
		of.frames[i] =
			(struct stack_frame){.ip = i, .symbol = "a_function_with_a_long_name"};
	ev.stack = &of.stack;
	stack = (struct trace_event){.kind = EVENT_STACK,
				     .type = TYPE_STACK,
				     .op = "stack",
				     .name = "stack",
				     .comm = "",
				     .stack = &of.stack};
	if (id % 2 == 0)
		sink__event(s, &stack);
	sink__event(s, &ev);
}

/* Counts lines; *lost: the number in its end line. */
static unsigned count_lines(const char *path, unsigned *lost)
{
	FILE *f = fopen(path, "r");
	unsigned lines = 0;
	size_t room = 0;
	char *line = NULL, *at;

	assert_non_null(f);
	for (; getline(&line, &room, f) > 0; lines++)
		if ((at = strstr(line, "\"lines_lost\"")))
			assert_int_equal(sscanf(at, "\"lines_lost\":%u", lost), 1);
	free(line);
	fclose(f);
	return lines;
}

/* Counts calls of a file; each must have its stack in the file. */
static unsigned read_file(const char *path)
{
	unsigned calls = 0, last = 0, id;
	size_t room = 0;
	char *line = NULL, *at;
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	while (getline(&line, &room, f) > 0) {
		if (strstr(line, "\"type\":\"stack\"")) {
			at = strstr(line, ",\"id\":");
			assert_int_equal(sscanf(at, ",\"id\":%u", &last), 1);
		} else if (strstr(line, "\"symbol\"")) {
			at = strstr(line, ",\"stack\":");
			assert_non_null(at);
			assert_int_equal(sscanf(at, ",\"stack\":%u", &id), 1);
			assert_int_equal(id, last);
			calls++;
		}
	}
	free(line);
	fclose(f);
	return calls;
}

/* A full disk: each line is in the file or counted, whether lines wait or not. */
static void test_full(void **state)
{
	const struct trace_info info = {.version = "1.2.3", .base_ns = FACTORY_BASE_NS};
	const struct trace_end end = {.end_ns = FACTORY_BASE_NS, .reason = "test"};
	char path[] = "/tmp/cudatrace-held-XXXXXX";
	unsigned calls = 20000, lost = 0, lines;
	struct factory f = factory(100);
	struct full_disk disk;
	struct trace_event ev;
	struct sink *s;
	int ret;

	close(mkstemp(path));
	s = sink__open(SINK_JSONL, path, &info);
	assert_int_equal(sink__segment(s, path, 64 * MIB, &info), 0);
	sink__start_workers(s, 0, *(bool *)*state);
	disk = full_disk_begin(2500000);
	for (unsigned i = 0; i < calls; i++) {
		ev = factory_call(&f, "cuLaunchKernel", 1000, 100);
		sink__event(s, &ev);
	}
	ret = sink__close(s, &end);
	full_disk_end(&disk);
	assert_int_equal(ret, -EFBIG);
	lines = count_lines(path, &lost);
	assert_true(lines > 1000 && lost > 1000);
	assert_int_equal(lines - 2 + lost, calls);
	opener__end();
	unlink(path);
}

static void test_stacks(void **state)
{
	const struct trace_info info = {.version = "1.2.3", .base_ns = FACTORY_BASE_NS};
	const struct trace_end end = {.end_ns = FACTORY_BASE_NS, .reason = "test"};
	char folder[] = "/tmp/cudatrace-held-XXXXXX", first[64], path[128], command[64];
	unsigned cnt = 60000, calls, files;
	struct factory f = factory(100);
	struct sink *s;

	assert_non_null(mkdtemp(folder));
	snprintf(first, sizeof(first), "%s/a.jsonl", folder);
	s = sink__open(SINK_JSONL, first, &info);
	assert_non_null(s);
	assert_int_equal(sink__segment(s, first, 8 * MIB, &info), 0);
	sink__start_workers(s, 2, true);
	assert_true(s->waits);
	for (unsigned i = 0; i < cnt; i++)
		give_call(s, &f, i);
	assert_int_equal(sink__close(s, &end), 0);
	calls = read_file(first);
	for (files = 1; !segment_path(path, sizeof(path), first, files) && !access(path, F_OK);
	     files++)
		calls += read_file(path);
	assert_int_equal(calls, cnt);
	assert_true(files > 4);
	opener__end();
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	static bool no = false, yes = true;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_memlimit),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_stacks),
		{"a full disk", test_full, .initial_state = &no},
		{"a full disk, and lines wait", test_full, .initial_state = &yes},
	};
	int ret;

	gone = out__memory();
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	out__close(gone);
	return ret;
}
