/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary of --kernel and --sched. */
#include "summary_check.h"

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
	struct trace_event ev = {.kind = EVENT_DRIVER, .type = TYPE_KERNEL, .op = op, .name = name};

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
	struct trace_event ev = {.kind = kind, .op = op, .name = op};

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
	struct trace_event ev;
	char name[16];
	int i;

	r->info.kernel_probe = "fentry";
	put_driver(r, "open", "open", 5000, "cuInit", false);
	put_driver(r, "open", "open", 5000, NULL, true);
	for (i = 1; i <= 20; i++)
		put_driver(r, "ioctl", "NV_ESC_RM_ALLOC", 1000000 * i, "cuInit", i == 20);
	for (i = 0; i < 20; i++) {
		/* like unknown ones: in a buffer that the next one reuses */
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
	ev.off_cpu_ns = 2000000; /* at most the duration of the call */
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
		"2 x Xid 79",
		"pid=1?[2J, name=python3",
		"Into the NVIDIA driver: 40 ioctls of 3 kinds in 210 ms; 2 opens; 1 mmap; 1 close\n",
		"     20   210 ms  10.5 ms  20.0 ms       1  NV_ESC_RM_ALLOC\n",
		"      2      23   210 ms      11.5         105 ms  cuInit\n",
		"             20  20.0 µs                           (outside CUDA calls)\n",
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
			       "  1 ioctl on objects whose allocation was not recorded: no class\n"
			       "  2,000 objects not stored: the table of handles was full\n"));
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
		"python3 tests/helpers/says.py - '"
		"(lambda d: d[\"ioctls\"]==40 and d[\"opens\"]==2 and d[\"objects_unknown\"]==0 and d[\"failed_ioctls\"]==1 and "
		"d[\"commands\"][0][\"first_error\"]==\"NV_ERR_NOT_SUPPORTED\" and "
		"sum(c[\"count\"] for c in d[\"commands\"])==40 and "
		"d[\"functions\"]==[{\"name\":\"cuInit\",\"calls\":2,\"ioctls\":23,"
		"\"ms\":210.011}] and d[\"outside\"][\"ioctls\"]==20 and "
		"d[\"slowest\"][0][\"us\"]==20000 and d[\"slowest\"][0][\"call\"]==\"cuInit\" and "
		"d[\"scheduler\"][0]=={\"op\":\"token\",\"count\":2} and "
		"d[\"xids\"][0][\"xid\"]==79 and d[\"interrupts\"]==1)(d[\"driver\"])'";
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

/* --kernel without any record: the summary mentions it. */
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

/* The driver is still in it: no time, and no verdict. */
static void ioctl_unfinished(void **state)
{
	struct run *r = *state;
	struct trace_event ev = {.kind = EVENT_DRIVER, .op = "ioctl", .name = "UVM_MIGRATE"};

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
	const struct CMUnitTest tests[] = {
		WITH_RUN(driver_counts), WITH_RUN(driver_text),		 WITH_RUN(driver_json),
		WITH_RUN(driver_silent), WITH_RUN(commands_are_bounded), WITH_RUN(ioctl_unfinished),
	};

	return cmocka_run_group_tests_name("summary_driver", tests, NULL, NULL);
}
