/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps a process's device to a GPU of the machine. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "ct_record.h"
#include "factory.h"
#include "model/devices.h"
#include "model/gpu_busy.h"
#include "model/annotate.h"

static struct devices ds;

static int clear(void **state)
{
	devices__free(&ds);
	return 0;
}

/* A call of the process on its device 0, which writes size bytes. */
static void call(uint32_t pid, const char *symbol, uint64_t word1, const void *out, int size)
{
	struct factory f = factory(pid);
	struct trace_event ev = factory_call(&f, symbol, 0, 100);
	static uint64_t words[CT_MAX_WORDS];
	struct annotations m;

	annotate__init(&m, ev.fn);
	words[0] = 0x7ffc0000;
	words[1] = word1;
	words[2] = 0;
	ev.words = words;
	ev.word_cnt = 3;
	ev.cap_cnt = 1;
	ev.caps[0] = (struct pointee){out, size};
	devices__call(&ds, &m, &ev);
}

static void attribute(uint32_t pid, uint32_t number, int32_t value)
{
	call(pid, "cuDeviceGetAttribute", number, &value, sizeof(value));
}

static void uuid(uint32_t pid, const char *symbol, uint8_t first)
{
	uint8_t bytes[16] = {first, 0xfc, 0xa5, 0x5d, 0x0f, 0xf4, 0x9b, 0xd1,
			     0x92,  0x2b, 0xb5, 0x2d, 0x37, 0xfb, 0xdd, 0xac};

	call(pid, symbol, 0, bytes, sizeof(bytes));
}

/* The device in the next event; no further event follows. */
static const struct device *only_new(void)
{
	const struct device *d = devices__take_new(&ds);

	assert_non_null(d);
	assert_null(devices__take_new(&ds));
	return d;
}

static void test_calls(void **state)
{
	const struct device *d;

	uuid(7, "cuDeviceGetUuid_v2", 0x10);
	attribute(7, 16, 132);
	attribute(7, 13, 1980000);
	attribute(7, 36, 2619000);
	attribute(7, 37, 5120);
	attribute(7, 76, 0);
	call(7, "cuDeviceGetPCIBusId", 32, "0000:1A:00.0", 13);
	call(7, "cuDeviceGetName", 64, "NVIDIA H100 80GB HBM3", 22);
	d = only_new();
	assert_string_equal(d->uuid, "GPU-10fca55d-0ff4-9bd1-922b-b52d37fbddac");
	assert_string_equal(d->pci, "0000:1A:00.0");
	assert_string_equal(d->model, "NVIDIA H100 80GB HBM3");
	assert_int_equal(d->sm_cnt, 132);
	assert_int_equal(d->clock_khz, 1980000);
	assert_int_equal(d->memory_khz, 2619000);
	assert_int_equal(d->bus_bits, 5120);
	/* 9.0, once both parts are known: 0 may be half of 8.0. */
	assert_int_equal(d->capability, 0);
	attribute(7, 75, 9);
	assert_int_equal(only_new()->capability, 90);
	/* The same value again makes no event. */
	attribute(7, 75, 9);
	uuid(7, "cuDeviceGetUuid_v2", 0x10);
	assert_null(devices__take_new(&ds));
	assert_null(devices__find(&ds, 8, 0));
	assert_null(devices__find(&ds, 7, 1));
}

static void test_place(void **state)
{
	attribute(7, 33, 0x1a);
	attribute(7, 34, 2);
	assert_null(devices__take_new(&ds));
	attribute(7, 50, 1);
	assert_string_equal(only_new()->pci, "0001:1a:02.0");
}

/* A part of a GPU has its own UUID, which the second form of the call returns. */
static void test_parts(void **state)
{
	uuid(1, "cuDeviceGetUuid", 0x10);
	assert_string_equal(only_new()->uuid, "GPU-10fca55d-0ff4-9bd1-922b-b52d37fbddac");
	uuid(1, "cuDeviceGetUuid_v2", 0x20);
	assert_string_equal(only_new()->uuid, "MIG-20fca55d-0ff4-9bd1-922b-b52d37fbddac");
	/* The name shows it, too; then the UUID of the whole GPU is not used for the part. */
	call(2, "cuDeviceGetName", 64, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 34);
	uuid(2, "cuDeviceGetUuid", 0x10);
	assert_false(only_new()->is_known);
	uuid(2, "cuDeviceGetUuid_v2", 0x20);
	assert_string_equal(only_new()->uuid, "MIG-20fca55d-0ff4-9bd1-922b-b52d37fbddac");
	assert_true(device_is(devices__find(&ds, 1, 0), devices__find(&ds, 2, 0)));
}

static void gpu_device(struct trace_event *ev, uint32_t pid, uint32_t number, const char *text)
{
	*ev = (struct trace_event){.kind = EVENT_GPU_DEVICE, .op = "device", .pid = pid};
	ev->gpu_device.device = number;
	ev->gpu_device.uuid = text;
	devices__event(&ds, ev);
}

#define UUID_A "GPU-10fca55d-0ff4-9bd1-922b-b52d37fbddac"
#define UUID_B "GPU-20fca55d-0ff4-9bd1-922b-b52d37fbddac"

/* From a file: malformed UUIDs are ignored, and a new program has other devices. */
static void test_saved(void **state)
{
	static const char *const bad[] = {"",
					  "GPU-",
					  "GPU-10fca55d-0ff4-9bd1-922b-b52d37fbdda",
					  "GPU-10fca55d-0ff4-9bd1-922b-b52d37fbddag",
					  "GPU-10fca55d-0ff4-9bd1-922b-b52d37fbddac0",
					  "CPU-10fca55d-0ff4-9bd1-922b-b52d37fbddac",
					  "GPU-------------------------------------"};
	struct trace_event ev;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		gpu_device(&ev, 1, 0, bad[i]);
		assert_false(devices__find(&ds, 1, 0)->is_known);
	}
	gpu_device(&ev, 1, 0, UUID_A);
	gpu_device(&ev, 2, 3, "GPU-10FCA55D-0FF4-9BD1-922B-B52D37FBDDAC");
	assert_true(device_is(devices__find(&ds, 1, 0), devices__find(&ds, 2, 3)));
	gpu_device(&ev, 3, 0, UUID_B);
	assert_false(device_is(devices__find(&ds, 1, 0), devices__find(&ds, 3, 0)));
	ev = (struct trace_event){.kind = EVENT_PROCESS, .op = "exit", .pid = 1};
	devices__event(&ds, &ev);
	assert_non_null(devices__find(&ds, 1, 0));
	ev.op = "exec";
	devices__event(&ds, &ev);
	assert_null(devices__find(&ds, 1, 0));
	assert_non_null(devices__find(&ds, 2, 3));
	gpu_device(&ev, 1, 4000000000u, UUID_A);
	assert_null(devices__find(&ds, 1, 4000000000u));
}

/* nvidia-smi's number, whether NVML or the process came first. */
static void test_label(void **state)
{
	struct trace_event ev, nvml = {.kind = EVENT_GPU_STATS, .op = "device"};
	char label[DEVICE_LABEL_SZ];

	device_label(label, devices__find(&ds, 1, 0), 0);
	assert_string_equal(label, "GPU 0");
	gpu_device(&ev, 1, 0, UUID_A);
	device_label(label, devices__find(&ds, 1, 0), 0);
	assert_string_equal(label, "GPU 0 10fca55d");
	nvml.gpu_stats.uuid = UUID_A;
	nvml.gpu_stats.gpu = (struct opt_u64){5, true};
	devices__event(&ds, &nvml);
	device_label(label, devices__find(&ds, 1, 0), 0);
	assert_string_equal(label, "GPU 5 10fca55d");
	gpu_device(&ev, 2, 1, UUID_A);
	device_label(label, devices__find(&ds, 2, 1), 1);
	assert_string_equal(label, "GPU 5 10fca55d");
}

/* A user who invents processes gets at most the limit. */
static void test_bound(void **state)
{
	struct ct_device rec = {.rec.pid = 1, .sm_cnt = 1};

	for (rec.rec.pid = 1; rec.rec.pid <= 10000; rec.rec.pid++)
		devices__add_record(&ds, &rec);
	assert_null(devices__find(&ds, 1, 0));
	assert_non_null(devices__find(&ds, 10000, 0));
	assert_int_equal(ds.new_cnt, 4096);
	while (devices__take_new(&ds))
		;
	assert_int_equal(ds.new_cnt, 0);
}

static void run(struct gpu_devices *gpus, uint32_t pid, uint32_t number, uint64_t ns)
{
	struct trace_event ev = {.kind = EVENT_GPU, .op = "kernel", .pid = pid};

	ev.start_ns = ns;
	ev.end_ns = ns + 100;
	ev.gpu.device = number;
	ev.device = devices__find(&ds, pid, number);
	assert_true(gpu_devices__event(gpus, &ev));
}

/* Two processes call two GPUs 0; a third calls one of them 1. */
static void test_rows(void **state)
{
	struct gpu_devices gpus = {0};
	struct trace_event ev;

	gpu_device(&ev, 1, 0, UUID_A);
	gpu_device(&ev, 2, 0, UUID_B);
	gpu_device(&ev, 3, 1, UUID_B);
	run(&gpus, 1, 0, 1000);
	run(&gpus, 2, 0, 1000);
	run(&gpus, 3, 1, 1050);
	gpu_devices__finish(&gpus);
	assert_int_equal(gpus.cnt, 2);
	assert_int_equal(gpus.of[0]->busy.parts[GPU_ANY].total, 100);
	assert_int_equal(gpus.of[1]->busy.parts[GPU_ANY].total, 150);
	assert_true(gpu_device__is_alone(gpus.of[0]));
	assert_false(gpu_device__is_alone(gpus.of[1]));
	assert_true(gpu_device__is_of(gpus.of[1], 3));
	assert_false(gpu_device__is_of(gpus.of[0], 3));
	assert_false(gpus.of[0]->is_shared || gpus.of[1]->is_shared);
	gpu_devices__free(&gpus);
}

/* An unknown GPU may be any GPU with the same name. */
static void test_unknown(void **state)
{
	struct gpu_devices gpus = {0};
	struct trace_event ev;

	gpu_device(&ev, 1, 0, UUID_A);
	gpu_device(&ev, 2, 1, UUID_B);
	run(&gpus, 1, 0, 1000);
	run(&gpus, 2, 1, 1000);
	run(&gpus, 3, 0, 1000);
	gpu_devices__finish(&gpus);
	assert_int_equal(gpus.cnt, 3);
	assert_true(gpus.of[0]->is_shared && gpus.of[2]->is_shared);
	assert_false(gpus.of[1]->is_shared);
	gpu_devices__free(&gpus);
	/* Two unknown GPUs are one row. */
	gpus = (struct gpu_devices){0};
	run(&gpus, 3, 0, 1000);
	run(&gpus, 4, 0, 1000);
	gpu_devices__finish(&gpus);
	assert_int_equal(gpus.cnt, 1);
	assert_true(gpus.of[0]->is_shared);
	gpu_devices__free(&gpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_calls, clear),
		cmocka_unit_test_teardown(test_place, clear),
		cmocka_unit_test_teardown(test_parts, clear),
		cmocka_unit_test_teardown(test_saved, clear),
		cmocka_unit_test_teardown(test_label, clear),
		cmocka_unit_test_teardown(test_bound, clear),
		cmocka_unit_test_teardown(test_rows, clear),
		cmocka_unit_test_teardown(test_unknown, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
