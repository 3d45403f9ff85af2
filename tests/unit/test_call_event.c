/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A call's event: it has no data of the previous event, and its copy hints are correct. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "sink/sink.h"
#include "test_model.h"
#include "util/out.h"

static struct rig r;
static unsigned plain_cnt;
static struct sink *sinks[2];

static int setup(void **state)
{
	rig_open(&r, false, 0);
	plain_cnt = 0;
	return 0;
}

static int teardown(void **state)
{
	rig_close(&r);
	return 0;
}

static bool is_empty(const struct trace_event *ev)
{
	const char *p = (const char *)ev;

	for (size_t i = offsetof(struct trace_event, coll); i < offsetof(struct trace_event, caps);
	     i++)
		if (p[i])
			return false;
	return true;
}

static void check_plain(const struct trace_event *ev)
{
	if (ev->kind != EVENT_CALL || !ev->plain)
		return;
	plain_cnt++;
	if (!is_empty(ev))
		fail_msg("%s is not plain", ev->fn->symbol);
}

/* With system calls, and part of the time off the processor. */
static void in_driver(void)
{
	struct ct_call c = {.rec = {.size = CT_CALL_FIXED_SZ,
				    .kind = CT_REC_CALL,
				    .ts_ns = r.now_ns,
				    .pid = RIG_PID,
				    .tid = RIG_PID},
			    .end_ns = r.now_ns + 5000,
			    .call_id = r.next_id++,
			    .func_id = fnset__id(r.fns, "cuLaunchKernel"),
			    .ioctl_cnt = 2,
			    .ioctl_ns = 300,
			    .off_cpu_ns = 400};

	rig_record(&r, &c, CT_CALL_FIXED_SZ);
	assert_false(r.ev.plain);
	assert_int_equal(r.ev.ioctl_cnt, 2);
	assert_int_equal(r.ev.ioctl_ns, 300);
	assert_int_equal(r.ev.off_cpu_ns, 400);
}

/* Arguments other than 0, and pointees of the requested length. */
static void call_anyhow(const struct api_fn *fn)
{
	static uint8_t ones[CT_CAP_SZ_MAX];
	struct rig_layout l;
	struct ct_spec spec;

	memset(ones, 1, sizeof(ones));
	memset(&l, 1, sizeof(l));
	api_fn_spec(fn, &spec);
	for (unsigned i = 0; i < CT_MAX_CAPS; i++) {
		l.data[i] = ones;
		l.len[i] = i < spec.cap_cnt && spec.caps[i].size < CT_CAP_SZ_MAX ? spec.caps[i].size
										 : 8;
	}
	rig_send(&r, fn->symbol, &l);
}

/* Each function, followed by a launch, which has no data of that function. */
static void test_plain(void **state)
{
	unsigned fn_cnt;
	const struct api_fn *fns = api_fns(&fn_cnt);

	r.peek = check_plain;
	for (unsigned i = 0; i < fn_cnt; i++) {
		call_anyhow(&fns[i]);
		CALL(&r, "cuLaunchKernel", {"f", 0xf});
		assert_true(r.ev.plain && is_empty(&r.ev));
		assert_string_equal(r.ev.fn->symbol, "cuLaunchKernel");
		in_driver();
		CALL(&r, "cuLaunchKernel", {"f", 0xf});
		assert_true(r.ev.plain && is_empty(&r.ev));
	}
	assert_true(fn_cnt > 500);
	/* Other events than these launches occur, too. */
	assert_true(plain_cnt > 2 * fn_cnt + 50);
}

static void to_sinks(const struct trace_event *ev)
{
	for (int i = 0; i < 2; i++)
		sink__event(sinks[i], ev);
}

static char *close_sink(struct sink *s, const char *path, size_t *len)
{
	FILE *f = fopen(path, "re");
	char *text;

	assert_int_equal(sink__close(s, NULL), 0);
	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	*len = ftell(f);
	rewind(f);
	text = malloc(*len + 1);
	assert_non_null(text);
	assert_int_equal(fread(text, 1, *len, f), *len);
	fclose(f);
	unlink(path);
	return text;
}

/* Names change at the same address: threads are renamed, and memory of unloaded modules' kernels is
 * reused. */
static void rename_all(unsigned i)
{
	char comm[17], name[64];

	snprintf(comm, sizeof(comm), "t%u", i / 7);
	snprintf(name, sizeof(name), "_Z%ukernel_%06uv", 13, i / 5);
	if (i % 7 == 0)
		rig_task(&r, CT_REC_THREAD, 0, 0, comm);
	if (i % 5 == 0)
		CALL(&r, "cuModuleUnload", {"hmod", 1});
	if (i % 5 == 0)
		CALL(&r, "cuModuleGetFunction", {"hfunc", 0x10}, {"name", .str = name});
	if (i % 5 == 0)
		CALL(&r, "cuModuleGetFunction", {"hfunc", 0x20}, {"name", .str = name + 3});
	if (i % 1000 == 0)
		rig_task(&r, CT_REC_EXEC, 0, 0, "new");
	CALL(&r, "cuLaunchKernel", {"f", i % 2 ? 0x10 : 0x20});
}

/* A worker pool's copies of names equal those that a sink without a pool gets. */
static void test_names(void **state)
{
	static const struct trace_info info = {.version = "1"};
	char paths[2][64], *text[2];
	size_t len[2];

	for (int i = 0; i < 2; i++) {
		int fd;

		snprintf(paths[i], sizeof(paths[i]), "/tmp/cudatrace-test-names.XXXXXX");
		fd = mkstemp(paths[i]);
		assert_true(fd >= 0);
		close(fd);
		sinks[i] = sink__open(SINK_JSONL, paths[i], &info);
		assert_non_null(sinks[i]);
	}
	sink__start_workers(sinks[1], 2, false);
	assert_non_null(sinks[1]->workers);
	r.peek = to_sinks;
	for (unsigned i = 0; i < 20000; i++)
		rename_all(i);
	for (int i = 0; i < 2; i++)
		text[i] = close_sink(sinks[i], paths[i], &len[i]);
	assert_int_equal(len[0], len[1]);
	assert_memory_equal(text[0], text[1], len[0]);
	assert_non_null(strstr(text[0], "kernel_003999()"));
	free(text[0]);
	free(text[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_plain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_names, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
