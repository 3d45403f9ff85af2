/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stacks of saved traces: the stack of each call, and modified lines. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/callers.h"
#include "saved/reader.h"

#define HEADER "{\"ts\":0,\"type\":\"header\",\"name\":\"cudatrace\",\"schema\":2}\n"
#define STACK(id, frames)                                                                          \
	"{\"ts\":1,\"type\":\"stack\",\"op\":\"stack\",\"name\":\"stack\",\"pid\":1,\"tid\":1,"    \
	"\"comm\":\"x\",\"id\":" #id ",\"frames\":" frames "}\n"
/* Each is later than those above: calls come in the order of their ends. */
#define CALL(stack)	   CALL_AT(__COUNTER__, stack)
#define CALL_AT(ts, stack) CALL_AT_TS(ts, stack)
#define CALL_AT_TS(ts, stack)                                                                      \
	"{\"ts\":1" #ts ",\"type\":\"sync\",\"op\":\"sync\",\"name\":\"cuCtxSynchronize\","        \
	"\"symbol\":\"cuCtxSynchronize\",\"pid\":1,\"tid\":1,\"comm\":\"x\",\"id\":7,"             \
	"\"duration_us\":1.0,\"result\":0,\"stack\":" #stack ",\"args\":{}}\n"
#define INNER "{\"ip\":\"0x1010\",\"module\":\"/a\",\"offset\":\"0x10\",\"symbol\":\"inner+0x4\"}"
#define MAIN  "{\"ip\":\"0x1020\",\"module\":\"/a\",\"offset\":\"0x20\",\"symbol\":\"main+0x8\"}"
/* The same address in another process. */
#define MAIN2 "{\"ip\":\"0x9020\",\"module\":\"/a\",\"offset\":\"0x20\",\"symbol\":\"main+0x8\"}"

static const struct stack *seen[16];
static unsigned seen_cnt;

static void on_event(void *ctx, const struct trace_event *ev)
{
	assert_int_equal(ev->kind, EVENT_CALL);
	seen[seen_cnt++] = ev->stack;
}

/* Reads all of it; the caller frees the reader. */
static struct reader *read_text(const char *text, struct saved_file *f)
{
	static const struct reader_ops ops = {.event = on_event};
	char path[] = "/tmp/cudatrace-stack.XXXXXX";
	int fd = mkstemp(path);
	struct reader *r = reader__new(&ops, NULL);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	seen_cnt = 0;
	assert_int_equal(reader__file(r, path, f), 0);
	unlink(path);
	return r;
}

static void calls_have_their_stacks(void **state)
{
	struct saved_file f;
	char line[64], cut[16];
	struct reader *r = read_text(HEADER STACK(1, "[" INNER "," MAIN "]") CALL(1)
					     STACK(2, "[" MAIN "]") CALL(2) CALL(1) CALL(3),
				     &f);

	assert_int_equal(f.bad_lines, 0);
	assert_int_equal(seen_cnt, 4);
	assert_int_equal(f.events, 4);
	assert_int_equal(seen[0]->frame_cnt, 2);
	assert_string_equal(seen[0]->frames[0].symbol, "inner+0x4");
	assert_string_equal(seen[0]->frames[1].module, "/a");
	assert_int_equal(seen[0]->frames[1].offset, 0x20);
	assert_int_equal(seen[1]->frame_cnt, 1);
	assert_ptr_equal(seen[2], seen[0]);
	assert_null(seen[3]);
	stack_line(seen[0], line, sizeof(line));
	assert_string_equal(line, "inner < main");
	stack_line(seen[0], cut, 9);
	assert_string_equal(cut, "inner...");
	reader__free(r);
}

static void the_same_frames_are_one_stack(void **state)
{
	struct saved_file f;
	struct reader *r = read_text(HEADER STACK(1, "[" MAIN "]") CALL(1) STACK(2, "[" MAIN "]")
					     CALL(2) STACK(3, "[" MAIN2 "]") CALL(3),
				     &f);

	assert_int_equal(seen_cnt, 3);
	assert_ptr_equal(seen[1], seen[0]);
	assert_ptr_equal(seen[2], seen[0]);
	reader__free(r);
}

static void ids_end_with_their_trace(void **state)
{
	struct saved_file f;
	struct reader *r = read_text(HEADER STACK(1, "[" MAIN "]") CALL(1) HEADER CALL(1), &f);

	assert_int_equal(seen_cnt, 2);
	assert_non_null(seen[0]);
	assert_null(seen[1]);
	reader__free(r);
	/* No header: the first stack is not lost. */
	r = read_text(STACK(1, "[" MAIN "]") CALL(1), &f);
	assert_non_null(seen[0]);
	reader__free(r);
}

static void bad_stacks_do_no_harm(void **state)
{
	struct saved_file f;
	struct reader *r =
		read_text(HEADER STACK(1, "[]") CALL(1) STACK(1, "[]") CALL(1)
				  STACK(2, "[3,null,[],\"x\",{},{\"module\":3}]") CALL(2)
					  STACK("x", "[" MAIN "]") CALL("x") STACK(4, "7"),
			  &f);

	assert_int_equal(seen_cnt, 4);
	assert_int_equal(f.bad_lines, 1);
	assert_int_equal(seen[0]->frame_cnt, 0);
	assert_int_equal(seen[2]->frame_cnt, 2);
	assert_null(seen[2]->frames[1].module);
	reader__free(r);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_have_their_stacks),
		cmocka_unit_test(the_same_frames_are_one_stack),
		cmocka_unit_test(ids_end_with_their_trace),
		cmocka_unit_test(bad_stacks_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
