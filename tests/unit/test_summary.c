/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The summary: what it counts, what it prints. The expected texts are tests/golden/summary-*.txt;
 * UPDATE_GOLDEN=1 writes them anew. Runs in the top folder.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "decode/nv/nv_decode.h"
#include "factory.h"
#include "sink/summary.h"
#include "sink/summary_priv.h"
#include "util/out.h"

#define ADD_KERNEL                                                                                 \
	"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "   \
	"std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"

struct run {
	struct factory f;
	struct summary *s;
	struct trace_info info;
	struct trace_end end;
	uint64_t cnt;
};

static void put(struct run *r, struct event ev)
{
	summary__event(r->s, &ev);
	r->cnt++;
}

static void put_error(struct run *r, const char *symbol, int code)
{
	struct event ev = factory_call(&r->f, symbol, 100, 50000);

	ev.result = code;
	ev.is_error = true;
	put(r, ev);
}

static void put_tokens(struct run *r)
{
	static const char gemm[] = "ampere_sgemm_128x64_tn", add[] = ADD_KERNEL;
	struct event ev;
	int i;

	for (i = 0; i < 4400; i++) {
		put(r, factory_launch(&r->f, i % 3 ? add : gemm, 0x10 * (i % 2)));
		if (i % 200 != 199)
			continue;
		put(r, factory_sync(&r->f, 0));
		put(r, factory_copy(&r->f, "cuMemcpyDtoH_v2", COPY_DIR_DTOH, 4096, 30000));
	}
	ev = factory_launch(&r->f, add, 0x10);
	ev.capturing = true;
	put(r, ev);
	put(r, factory_launch(&r->f, NULL, 0x10));
	put(r, factory_on_stream(&r->f, "cuGraphLaunch", 1, 9000));
}

static void put_memory(struct run *r)
{
	struct event ev;
	uint64_t i;

	for (i = 1; i <= 100; i++) {
		put(r, factory_alloc(&r->f, 20 << 20, i * (20 << 20)));
		put(r, factory_copy(&r->f, "cuMemcpyHtoDAsync_v2", COPY_DIR_HTOD, 20 << 20, 9000));
		put(r, factory_copy(&r->f, "cuMemcpyHtoD_v2", COPY_DIR_HTOD, 20 << 20, 1700000));
	}
	ev = factory_call(&r->f, "cuMemAllocManaged", 100, 5000);
	ev.has = HAS_SIZE;
	ev.size = 1000;
	ev.has_mem = true;
	ev.mem = (struct mem_totals){{100 * (20 << 20), 0, 1000}};
	put(r, ev);
	/* cuMemFree frees managed memory too */
	ev = factory_free(&r->f, 100 * (20 << 20));
	put(r, ev);
	put(r, factory_free(&r->f, 99 * (20 << 20)));
	put(r, factory_call(&r->f, "cuMemsetD8_v2", 10, 3000));
}

/* An inference run with some of everything. */
static int make_run(void **state)
{
	static const char *const more[] = {"cuStreamCreate", "cuEventCreate", "cuModuleLoadData",
					   "cuCtxSetCurrent"};
	struct run *r = calloc(1, sizeof(*r));
	struct event ev;
	size_t i;

	r->f = factory(100);
	r->s = summary__new();
	r->info = factory_info();
	put(r, factory_call(&r->f, "cuInit", 100, 80000000));
	put(r, factory_call(&r->f, "cuDevicePrimaryCtxRetain", 100, 180000000));
	for (i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		put(r, factory_call(&r->f, more[i], 100, 7000));
	put_memory(r);
	put_tokens(r);
	put_error(r, "cuMemAlloc_v2", 2);
	put_error(r, "cuModuleGetFunction", 500);
	put_error(r, "cuModuleGetFunction", 500);
	put_error(r, "cuModuleGetFunction", 99999);
	ev = factory_sync(&r->f, 0);
	ev.unfinished = true;
	put(r, ev);
	ev.abandoned = true;
	put(r, ev);
	r->end = factory_end(&r->f, r->cnt);
	put(r, factory_process(&r->f, "exit"));
	*state = r;
	return 0;
}

static int free_run(void **state)
{
	struct run *r = *state;

	summary__free(r->s);
	free(r);
	return 0;
}

/* The summary's text, to be freed. */
static char *print(struct run *r, int width, bool color)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	summary__print(r->s, f, &r->info, &r->end, width, color);
	fclose(f);
	return text;
}

static char *read_all(const char *path)
{
	char *text = calloc(1, 65536);
	FILE *f = fopen(path, "r");

	if (f) {
		if (!fread(text, 1, 65535, f))
			text[0] = '\0';
		fclose(f);
	}
	return text;
}

static void golden(struct run *r, int width)
{
	char path[64], *text = print(r, width, false), *want;
	FILE *f;

	snprintf(path, sizeof(path), "tests/golden/summary-%d.txt", width);
	if (getenv("UPDATE_GOLDEN")) {
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
	want = read_all(path);
	assert_string_equal(text, want);
	free(want);
	free(text);
}

static void golden_80(void **state)
{
	golden(*state, 80);
}

static void golden_120(void **state)
{
	golden(*state, 120);
}

static int widest(const char *text)
{
	int col = 0, most = 0;

	for (; *text; text++) {
		if (*text == '\n')
			col = 0;
		else if ((*text & 0xc0) != 0x80)
			col++;
		if (col > most)
			most = col;
	}
	return most;
}

static void fits_its_width(void **state)
{
	static const int widths[] = {72, 80, 99, 100, 120, 200};
	struct run *r = *state;
	size_t i;
	char *text;

	r->end.left_out = "query (61 functions), and a list that somebody gave with -e that is so "
			  "long that no terminal that I know of would show it on a single line";
	for (i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		text = print(r, widths[i], false);
		assert_true(widest(text) <= widths[i]);
		free(text);
	}
	/* absurd widths must only not crash */
	for (i = 0; i < 40; i++)
		free(print(r, (int)i - 10, true));
}

static void colours_only_when_asked(void **state)
{
	char *text = print(*state, 80, false);

	assert_null(strchr(text, '\033'));
	free(text);
	text = print(*state, 80, true);
	assert_non_null(strstr(text, "\033[1m"));
	assert_non_null(strstr(text, "\033[31m"));
	free(text);
}

static void losses_are_loud(void **state)
{
	struct run *r = *state;
	char *text = print(r, 80, false);

	assert_null(strstr(text, "LOST"));
	free(text);
	r->end.drops[CT_DROP_CALL] = 12345;
	r->end.bad_record_cnt = 1;
	text = print(r, 80, true);
	assert_non_null(strstr(text, "\033[1;31m"));
	assert_non_null(strstr(text, "LOST: 12,346 events are not in this trace"));
	assert_non_null(strstr(text, "12,345 calls, 1 malformed"));
	free(text);
}

/* A level saves more than any one function, or is not spoken of. */
static void advice_names_what_saves_most(void **state)
{
	struct run *r = *state;
	char *text;

	r->end.cost_ns = 100000000;
	r->end.dear[0] = (struct trace_fn_cost){cuda_fn_by_symbol("cuEventRecord"), 40000000};
	r->end.dear_cnt = 1;
	r->end.low_saves_ns = 40000000;
	text = print(r, 80, false);
	assert_non_null(strstr(text, "saved by -e '!NAME'\n"));
	assert_null(strstr(text, "--detail"));
	free(text);
	r->end.low_saves_ns = 70000000;
	text = print(r, 80, false);
	assert_non_null(strstr(text, "saved by --detail=low, or by -e '!NAME'\n"));
	assert_non_null(strstr(text, "70.0 ms  70.0 %  --detail=low\n"));
	assert_non_null(strstr(text, "40.0 ms  40.0 %  cuEventRecord\n"));
	free(text);
	/* None of many does much alone. */
	r->end.dear_cnt = 0;
	text = print(r, 80, false);
	assert_non_null(strstr(text, "70.0 ms  70.0 %  --detail=low\n"));
	free(text);
}

/* Kernel names come from the target: a terminal must not obey them. */
static void hostile_kernel_name(void **state)
{
	struct run *r = *state;
	char *text;
	int i;

	for (i = 0; i < 9000; i++)
		put(r, factory_launch(&r->f, "\033]0;owned\a\xff\n\r", 1));
	text = print(r, 80, false);
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\r'));
	assert_non_null(strstr(text, "?]0;owned????"));
	free(text);
}

static void counts(void **state)
{
	struct run *r = *state;
	struct summary_totals t;
	struct summary *s = r->s;

	summary__totals(s, &t);
	assert_int_equal(t.call_cnt, r->cnt - 1);
	assert_int_equal(t.event_cnt, r->cnt);
	assert_int_equal(t.launch_cnt, 4401);
	assert_int_equal(t.graph_launch_cnt, 1);
	assert_int_equal(t.error_cnt, 4);
	assert_int_equal(t.device_bytes, 0); /* it has ended */
	assert_int_equal(t.device_peak, 100 * (20 << 20));
	assert_int_equal(s->launch_node_cnt, 1);
	assert_int_equal(s->launch_unnamed_cnt, 1);
	assert_int_equal(s->stream_cnt, 2);
	assert_int_equal(s->mem[MEM_DEVICE].alloc_cnt, 100);
	assert_int_equal(s->mem[MEM_DEVICE].free_cnt, 1);
	assert_int_equal(s->mem[MEM_DEVICE].kept, 99 * (20 << 20));
	assert_int_equal(s->mem[MEM_MANAGED].alloc_cnt, 1);
	assert_int_equal(s->mem[MEM_MANAGED].free_cnt, 1);
	assert_int_equal(s->transfers[COPY_DIR_HTOD].cnt, 200);
	assert_int_equal(s->transfers[COPY_DIR_HTOD].sync_cnt, 100);
	assert_int_equal(s->transfers[COPY_DIR_DTOH].bytes, 22 * 4096);
	assert_int_equal(s->transfers[TRANSFER_MEMSET].cnt, 1);
	assert_int_equal(s->wait_cnt, 100 + 22 + 22);
	assert_int_equal(s->unfinished_cnt, 1);
	assert_int_equal(s->abandoned_cnt, 1);
	assert_int_equal(s->proc_cnt, 1);
}

/* A nested call is a call, but its time is in its parent's already. */
static void nested_time_counts_once(void **state)
{
	struct run *r = *state;
	uint64_t before = r->s->call_ns, classes = 0;
	struct event ev = factory_call(&r->f, "cuCtxGetCurrent", 10, 100);
	int i;

	ev.depth = ev.api_depth = 1;
	put(r, ev);
	assert_int_equal(r->s->call_ns, before);
	for (i = 0; i < CLASS_CNT; i++)
		classes += r->s->classes[i].total_ns;
	assert_int_equal(classes, r->s->call_ns);
}

/* Same name from two addresses: one kernel. More names than are kept: one row for the rest. */
static void kernels_are_bounded(void **state)
{
	struct run *r = *state;
	static char names[70000][16];
	char copy[] = ADD_KERNEL;
	const struct kernel_stat **list;
	size_t cnt;
	int i;

	put(r, factory_launch(&r->f, copy, 1));
	list = summary_kernels(r->s, &cnt);
	assert_int_equal(cnt, 3);
	assert_string_equal(list[0]->name, ADD_KERNEL);
	assert_int_equal(list[0]->cnt, 2933 + 1);
	free(list);
	/* Another name where the last one was. */
	strcpy(copy, "other");
	put(r, factory_launch(&r->f, copy, 1));
	put(r, factory_launch(&r->f, copy, 1));
	list = summary_kernels(r->s, &cnt);
	assert_int_equal(cnt, 4);
	assert_int_equal(list[0]->cnt, 2933 + 1);
	free(list);
	for (i = 0; i < 70000; i++) {
		snprintf(names[i], sizeof(names[i]), "k%d", i);
		put(r, factory_launch(&r->f, names[i], 1));
		put(r, factory_launch(&r->f, names[i], 1));
	}
	list = summary_kernels(r->s, &cnt);
	assert_int_equal(cnt, SUMMARY_KERNELS_MAX + 1);
	assert_string_equal(list[0]->name, "(others)");
	assert_int_equal(list[0]->cnt, 2 * (70000 + 4 - SUMMARY_KERNELS_MAX));
	free(list);
}

/* All versions of a function are one row. */
static void versions_are_one(void **state)
{
	struct run *r = *state;
	struct fn_row *rows;
	size_t cnt, i, seen = 0;

	put(r, factory_call(&r->f, "cuMemAlloc", 1, 1));
	rows = summary_fns(r->s, &cnt);
	for (i = 0; i < cnt; i++) {
		if (strcmp(rows[i].name, "cuMemAlloc"))
			continue;
		seen++;
		assert_int_equal(rows[i].st.cnt, 102);
		assert_int_equal(rows[i].st.error_cnt, 1);
		assert_int_equal(rows[i].st.max_ns, 90000);
	}
	assert_int_equal(seen, 1);
	free(rows);
}

static void empty(void **state)
{
	struct run r = {.s = summary__new(), .f = factory(1), .info = factory_info()};
	char *text;

	r.end = factory_end(&r.f, 0);
	text = print(&r, 80, false);
	assert_non_null(strstr(text, "Summary: 0 CUDA calls in 0 ns by 0 processes"));
	assert_null(strstr(text, "Kernels"));
	assert_null(strstr(text, "nan"));
	free(text);
	summary__free(r.s);
}

static void json_is_json(void **state)
{
	static const char check[] =
		"python3 -c 'import json,sys;d=json.load(sys.stdin);"
		"sys.exit(not (d[\"launches\"][\"total\"]==4401 and d[\"failed\"]==4 and "
		"d[\"memory\"][0][\"at_end\"]==99*(20<<20) and "
		"sum(c[\"calls\"] for c in d[\"classes\"])==d[\"calls\"] and "
		"sum(f[\"calls\"] for f in d[\"functions\"])==d[\"calls\"] and "
		"d[\"errors\"][1][\"error\"]==\"CUDA_ERROR_NOT_FOUND\" and "
		"d[\"errors\"][2][\"error\"] is None))'";
	struct run *r = *state;
	struct out *o = out__memory();
	FILE *p;

	summary__json(r->s, o, &r->info, &r->end);
	assert_int_equal(memchr(o->buf, '\n', o->len) - (void *)o->buf, o->len - 1);
	p = popen(check, "w");
	assert_non_null(p);
	assert_int_equal(fwrite(o->buf, 1, o->len, p), o->len);
	assert_int_equal(pclose(p), 0);
	out__close(o);
}

/* --kernel and --sched */

static const struct driver_info *driver_info(const char *call, int64_t ret)
{
	static const struct nv_class class = {.name = "HOPPER_CHANNEL_GPFIFO_A"};
	static const struct nv_ioctl io = {.class = &class, .status_name = "NV_ERR_NOT_SUPPORTED"};
	static struct driver_info drv;

	drv = (struct driver_info){.device = "nvidiactl", .io = &io, .call = call, .ret = ret};
	drv.call_id = call != NULL;
	return &drv;
}

static void put_driver(struct run *r, const char *op, const char *name, uint64_t ns,
		       const char *call, bool failed)
{
	struct event ev = {.kind = EVENT_DRIVER, .type = TYPE_KERNEL, .op = op, .name = name};

	ev.pid = r->f.pid;
	ev.tid = r->f.tid;
	ev.start_ns = r->f.now_ns;
	ev.end_ns = r->f.now_ns += ns;
	ev.is_error = failed;
	ev.drv = driver_info(call, strcmp(op, "ioctl") && failed ? -2 : 0);
	put(r, ev);
}

static void put_other(struct run *r, enum event_kind kind, const char *op, uint32_t number)
{
	struct event ev = {.kind = kind, .op = op, .name = op};

	ev.start_ns = ev.end_ns = r->f.now_ns;
	ev.size = kind == EVENT_UVM ? 65536 : 0;
	if (kind == EVENT_XID)
		ev.xid = (struct event_xid){.xid = number,
					    .gpu = "0000:18:00.0",
					    .message = "pid=1\033[2J, name=python3, Ch 00000008"};
	if (kind == EVENT_IRQ)
		ev.irq.irq = number;
	put(r, ev);
}

static void put_kernel_trace(struct run *r)
{
	struct event ev;
	char name[16];
	int i;

	r->info.kernel_probe = "fentry";
	put_driver(r, "open", "open", 5000, "cuInit", false);
	put_driver(r, "open", "open", 5000, NULL, true);
	for (i = 1; i <= 20; i++)
		put_driver(r, "ioctl", "NV_ESC_RM_ALLOC", 1000000 * i, "cuInit", i == 20);
	for (i = 0; i < 20; i++) {
		/* as unknown ones are named: in a buffer that the next one takes */
		snprintf(name, sizeof(name), "ioctl 0x%x", i % 2);
		put_driver(r, "ioctl", name, 1000, NULL, false);
	}
	put_driver(r, "mmap", "mmap", 3000, "cuInit", false);
	put_driver(r, "close", "close", 3000, "cuInit", false);
	ev = factory_call(&r->f, "cuInit", 10, 300000000);
	ev.has = HAS_IOCTLS | HAS_OFF_CPU;
	ev.ioctl_cnt = 23;
	ev.ioctl_ns = 210011000;
	put(r, ev);
	ev = factory_sync(&r->f, 0x10);
	ev.has |= HAS_OFF_CPU | HAS_IOCTLS;
	ev.off_cpu_ns = 45000;
	put(r, ev);
	ev = factory_call(&r->f, "cuCtxSynchronize", 10, 1000000);
	ev.has |= HAS_OFF_CPU | HAS_IOCTLS;
	ev.off_cpu_ns = 900000;
	put(r, ev);
	ev.off_cpu_ns = 2000000; /* never more than the call took */
	put(r, ev);
	put_other(r, EVENT_SCHED, "token", 0);
	put_other(r, EVENT_SCHED, "timeslice", 0);
	put_other(r, EVENT_SCHED, "token", 0);
	put_other(r, EVENT_XID, "xid", 79);
	put_other(r, EVENT_XID, "xid", 79);
	put_other(r, EVENT_UVM, "migration", 0);
	put_other(r, EVENT_IRQ, "interrupt", 130);
}

static void driver_counts(void **state)
{
	struct run *r = *state;
	struct driver_stat *d = &r->s->driver;
	const struct cmd_stat **list;
	size_t cnt;

	put_kernel_trace(r);
	assert_int_equal(d->op_cnt[DRV_IOCTL], 40);
	assert_int_equal(d->op_cnt[DRV_OPEN], 2);
	assert_int_equal(d->op_errors[DRV_OPEN], 1);
	assert_int_equal(d->op_errors[DRV_IOCTL], 1);
	assert_int_equal(d->ioctl_ns, 210000000 + 20000);
	assert_int_equal(d->outside_cnt, 20);
	assert_int_equal(d->outside_ns, 20000);
	assert_int_equal(d->sched_kinds, 2);
	assert_int_equal(d->sched[0].cnt, 2);
	assert_int_equal(d->xid_cnt, 2);
	assert_int_equal(d->xid_kinds, 1);
	assert_int_equal(d->irq_cnt, 1);
	assert_int_equal(d->slow_cnt, SUMMARY_SLOWEST);
	assert_int_equal(d->slowest[0].ns, 20000000);
	assert_int_equal(d->slowest[4].ns, 16000000);
	list = summary_cmds(r->s, &cnt);
	assert_int_equal(cnt, 3);
	assert_string_equal(list[0]->name, "NV_ESC_RM_ALLOC");
	assert_int_equal(list[0]->max_ns, 20000000);
	assert_int_equal(list[0]->error_cnt, 1);
	assert_string_equal(list[1]->name, "ioctl 0x0");
	assert_int_equal(list[1]->cnt, 10);
	free(list);
}

static void driver_text(void **state)
{
	static const char *const want[] = {
		"XID: the driver reported 2 errors of the GPU",
		"2 x Xid 79 (",
		"pid=1?[2J, name=python3",
		"Into the NVIDIA driver: 40 ioctls of 3 kinds in 210 ms; 2 opens; 1 mmap; 1 close\n",
		"     20   210 ms  10.5 ms  20.0 ms       1  NV_ESC_RM_ALLOC\n",
		"      2      23   210 ms      11.5         105 ms  cuInit\n",
		"             20  20.0 µs                           (in no CUDA call)\n",
		"  20.0 ms  NV_ESC_RM_ALLOC HOPPER_CHANNEL_GPFIFO_A in cuInit\n",
		"NV_ESC_RM_ALLOC, first NV_ERR_NOT_SUPPORTED\n",
		"GPU scheduler: 2 token, 1 timeslice\n",
		"Managed memory: 1 migration of 64.0 KiB\n",
		"GPU interrupts: 1 (",
		"95.0 %  sleeps  cuCtxSynchronize\n",
		"spins  cuStreamSynchronize\n",
	};
	struct run *r = *state;
	char *text;
	size_t i;

	put_kernel_trace(r);
	r->end.end_ns = r->f.now_ns;
	text = print(r, 80, false);
	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (!strstr(text, want[i]))
			fail_msg("no \"%s\" in: %s", want[i], strstr(text, "Into the NVIDIA"));
	assert_null(strchr(text, '\033'));
	assert_null(strstr(text, " objects"));
	assert_true(widest(text) <= 80);
	free(text);
	r->end.object_unknown_cnt = 1;
	r->end.object_refused_cnt = 2000;
	text = print(r, 80, false);
	assert_non_null(strstr(text,
			       "  1 ioctl on objects whose allocation was not seen: no class\n"
			       "  2,000 objects not remembered: the table of handles was full\n"));
	free(text);
	text = print(r, 80, true);
	assert_non_null(strstr(text, "\033[1;31m\nXID: "));
	free(text);
	for (i = 0; i < 40; i++)
		free(print(r, (int)i * 5, true));
}

static void driver_json(void **state)
{
	static const char check[] =
		"python3 -c 'import json,sys;d=json.load(sys.stdin)[\"driver\"];"
		"sys.exit(not (d[\"ioctls\"]==40 and d[\"opens\"]==2 and d[\"objects_unknown\"]==0 and d[\"failed_ioctls\"]==1 and "
		"d[\"commands\"][0][\"first_error\"]==\"NV_ERR_NOT_SUPPORTED\" and "
		"sum(c[\"count\"] for c in d[\"commands\"])==40 and "
		"d[\"functions\"]==[{\"name\":\"cuInit\",\"calls\":2,\"ioctls\":23,"
		"\"ms\":210.011}] and d[\"outside\"][\"ioctls\"]==20 and "
		"d[\"slowest\"][0][\"us\"]==20000 and d[\"slowest\"][0][\"call\"]==\"cuInit\" and "
		"d[\"scheduler\"][0]=={\"op\":\"token\",\"count\":2} and "
		"d[\"xids\"][0][\"xid\"]==79 and d[\"interrupts\"]==1))'";
	struct run *r = *state;
	struct out *o = out__memory();
	FILE *p;

	put_kernel_trace(r);
	summary__json(r->s, o, &r->info, &r->end);
	p = popen(check, "w");
	assert_non_null(p);
	assert_int_equal(fwrite(o->buf, 1, o->len, p), o->len);
	assert_int_equal(pclose(p), 0);
	out__close(o);
}

/* --kernel, but nothing came: that is said. */
static void driver_silent(void **state)
{
	struct run *r = *state;
	char *text;

	r->info.kernel_probe = "kprobe";
	text = print(r, 80, false);
	assert_non_null(strstr(text, "Into the NVIDIA driver: 0 ioctls of 0 kinds in 0 ns\n"));
	assert_null(strstr(text, "XID"));
	assert_null(strstr(text, "nan"));
	free(text);
}

static void commands_are_bounded(void **state)
{
	struct run *r = *state;
	const struct cmd_stat **list;
	char name[32];
	size_t cnt;
	int i;

	for (i = 0; i < SUMMARY_CMDS_MAX + 100; i++) {
		snprintf(name, sizeof(name), "0x%08x", i);
		put_driver(r, "ioctl", name, 1000, NULL, false);
	}
	list = summary_cmds(r->s, &cnt);
	assert_int_equal(cnt, SUMMARY_CMDS_MAX + 1);
	assert_string_equal(list[0]->name, "(others)");
	assert_int_equal(list[0]->cnt, 100);
	free(list);
	for (i = 0; i < 100; i++)
		put_other(r, EVENT_XID, "xid", 1000 + i);
	assert_int_equal(r->s->driver.xid_cnt, 100);
	assert_int_equal(r->s->driver.xid_kinds, SUMMARY_XIDS_MAX);
	free(print(r, 80, false));
}

/* The driver is in it still: no time, and no verdict. */
static void ioctl_unfinished(void **state)
{
	struct run *r = *state;
	struct event ev = {.kind = EVENT_DRIVER, .op = "ioctl", .name = "UVM_MIGRATE"};

	ev.unfinished = ev.is_error = true;
	ev.end_ns = 1000;
	ev.drv = driver_info(NULL, -4);
	put(r, ev);
	assert_int_equal(r->s->driver.op_errors[DRV_IOCTL], 0);
	assert_int_equal(r->s->driver.ioctl_ns, 0);
	assert_int_equal(r->s->driver.unfinished_cnt, 1);
	assert_int_equal(r->s->driver.slow_cnt, 0);
}

int main(void)
{
#define WITH_RUN(fn) cmocka_unit_test_setup_teardown(fn, make_run, free_run)
	const struct CMUnitTest tests[] = {
		WITH_RUN(golden_80),
		WITH_RUN(golden_120),
		WITH_RUN(fits_its_width),
		WITH_RUN(colours_only_when_asked),
		WITH_RUN(losses_are_loud),
		WITH_RUN(advice_names_what_saves_most),
		WITH_RUN(hostile_kernel_name),
		WITH_RUN(counts),
		WITH_RUN(nested_time_counts_once),
		WITH_RUN(kernels_are_bounded),
		WITH_RUN(versions_are_one),
		WITH_RUN(json_is_json),
		WITH_RUN(driver_counts),
		WITH_RUN(driver_text),
		WITH_RUN(driver_json),
		WITH_RUN(driver_silent),
		WITH_RUN(commands_are_bounded),
		WITH_RUN(ioctl_unfinished),
		cmocka_unit_test(empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
