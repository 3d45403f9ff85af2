/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What calls mean: sizes, pointers, directions, launches, names, captures, live memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/meaning_priv.h"
#include "test_model.h"

static struct rig r;

static int setup(void **state)
{
	(void)state;
	rig_open(&r, false, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(&r);
	return 0;
}

static void check_mem(const struct event *ev, uint64_t device, uint64_t host, uint64_t managed)
{
	assert_true(ev->has_mem);
	assert_int_equal(ev->mem.device_bytes, device);
	assert_int_equal(ev->mem.host_bytes, host);
	assert_int_equal(ev->mem.managed_bytes, managed);
}

static void check_size_ptr(const struct event *ev, uint64_t size, uint64_t ptr)
{
	assert_int_equal(ev->has & (HAS_SIZE | HAS_PTR), HAS_SIZE | HAS_PTR);
	assert_int_equal(ev->size, size);
	assert_int_equal(ev->ptr, ptr);
}

/* --- memory --- */

static void test_alloc(void **state)
{
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuMemAlloc_v2", {"dptr", 0x7f0000000000}, {"bytesize", 1ull << 33});
	assert_int_equal(ev->has, HAS_SIZE | HAS_PTR);
	check_size_ptr(ev, 1ull << 33, 0x7f0000000000);
	check_mem(ev, 1ull << 33, 0, 0);
	/* 32-bit forms: what is above in the word and in the capture is none of theirs. */
	ev = CALL(&r, "cuMemAlloc", {"dptr", 0x1000}, {"bytesize", 0xdead00000040});
	check_size_ptr(ev, 0x40, 0x1000);
	check_mem(ev, (1ull << 33) + 0x40, 0, 0);
	ev = CALL(&r, "cuMemFree", {"dptr", 0xdead00001000});
	check_size_ptr(ev, 0x40, 0x1000);
	ev = CALL(&r, "cuMemFree_v2", {"dptr", 0x7f0000000000});
	check_size_ptr(ev, 1ull << 33, 0x7f0000000000);
	check_mem(ev, 0, 0, 0);
	/* Not known: no size, and nothing changes. */
	ev = CALL(&r, "cuMemFree_v2", {"dptr", 0x7f0000000000});
	assert_int_equal(ev->has, HAS_PTR);
	assert_false(ev->has_mem);
	/* Failed: there is no pointer. */
	r.result = 2;
	ev = CALL(&r, "cuMemAlloc_v2", {"dptr", 0x1000}, {"bytesize", 64});
	assert_int_equal(ev->has, HAS_SIZE);
	assert_int_equal(ev->size, 64);
	assert_false(ev->has_mem);
	/* The pointer could not be read. */
	ev = CALL(&r, "cuMemAlloc_v2", {"dptr", .len = -EFAULT}, {"bytesize", 64});
	assert_int_equal(ev->has, HAS_SIZE);
	ev = CALL(&r, "cuMemAlloc_v2", {"dptr", .data = "1234567", .len = 7}, {"bytesize", 64});
	assert_int_equal(ev->has, HAS_SIZE);
	assert_false(ev->has_mem);
}

static void test_alloc_kinds(void **state)
{
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuMemAllocManaged", {"dptr", 0x10000}, {"bytesize", 1});
	assert_string_equal(ev->op, "alloc_managed");
	check_mem(ev, 0, 0, 1);
	ev = CALL(&r, "cuMemAllocHost_v2", {"pp", 0x20000}, {"bytesize", 2});
	assert_string_equal(ev->op, "alloc_host");
	check_mem(ev, 0, 2, 1);
	ev = CALL(&r, "cuMemHostAlloc", {"pp", 0x30000}, {"bytesize", 4}, {"Flags", 1});
	check_size_ptr(ev, 4, 0x30000);
	check_mem(ev, 0, 6, 1);
	ev = CALL(&r, "cuMemHostRegister_v2", {"p", 0x40000}, {"bytesize", 8}, {"Flags", 0});
	assert_string_equal(ev->op, "register");
	check_size_ptr(ev, 8, 0x40000);
	check_mem(ev, 0, 14, 1);
	ev = CALL(&r, "cuMemAllocAsync", {"dptr", 0x50000}, {"bytesize", 16}, {"hStream", 0x77});
	assert_int_equal(ev->has, HAS_SIZE | HAS_PTR | HAS_STREAM);
	assert_int_equal(ev->stream, 0x77);
	check_mem(ev, 16, 14, 1);
	ev = CALL(&r, "cuMemAllocFromPoolAsync", {"dptr", 0x60000}, {"bytesize", 32},
		  {"pool", 0x99}, {"hStream", 0x78});
	assert_int_equal(ev->stream, 0x78);
	check_mem(ev, 48, 14, 1);
	check_mem(CALL(&r, "cuMemFreeAsync", {"dptr", 0x50000}), 32, 14, 1);
	check_mem(CALL(&r, "cuMemFreeAsync_ptsz", {"dptr", 0x60000}), 0, 14, 1);
	check_mem(CALL(&r, "cuMemHostUnregister", {"p", 0x40000}), 0, 6, 1);
	ev = CALL(&r, "cuMemFreeHost", {"p", 0x30000});
	check_size_ptr(ev, 4, 0x30000);
	check_mem(CALL(&r, "cuMemFreeHost", {"p", 0x20000}), 0, 0, 1);
	check_mem(CALL(&r, "cuMemFree_v2", {"dptr", 0x10000}), 0, 0, 0);
}

static void test_pitch(void **state)
{
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuMemAllocPitch_v2", {"dptr", 0x1000}, {"pPitch", 512},
		  {"WidthInBytes", 400}, {"Height", 10}, {"ElementSizeBytes", 4});
	assert_string_equal(ev->op, "alloc");
	check_size_ptr(ev, 5120, 0x1000);
	check_mem(ev, 5120, 0, 0);
	ev = CALL(&r, "cuMemAllocPitch", {"dptr", 0x9000}, {"pPitch", 256}, {"Height", 2});
	check_size_ptr(ev, 512, 0x9000);
	check_mem(CALL(&r, "cuMemFree_v2", {"dptr", 0x1000}), 512, 0, 0);
	r.result = 2;
	ev = CALL(&r, "cuMemAllocPitch_v2", {"dptr", 0x1000}, {"pPitch", 512}, {"Height", 10});
	assert_int_equal(ev->has, 0);
}

struct array_desc {
	uint64_t w, h;
	uint32_t format, channels;
};
struct array3d_desc {
	uint64_t w, h, d;
	uint32_t format, channels, flags, pad;
};

/* Arrays are known by handles, which may be near each other: they cover nothing. */
static void test_arrays(void **state)
{
	static const struct array_desc d2 = {1024, 1024, 0x20, 4}, d1 = {100, 0, 0x10, 1};
	static const struct array3d_desc d3 = {64, 32, 16, 0x01, 2, 0, 0},
					 bc = {64, 64, 0, 0x91, 4, 0, 0};
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuArrayCreate_v2", {"pHandle", 0x5000},
		  {"pAllocateArray", .data = &d2, .len = sizeof(d2)});
	assert_string_equal(ev->op, "alloc_array");
	check_size_ptr(ev, 16 << 20, 0x5000);
	check_mem(ev, 16 << 20, 0, 0);
	ev = CALL(&r, "cuArrayCreate_v2", {"pHandle", 0x5100},
		  {"pAllocateArray", .data = &d1, .len = sizeof(d1)});
	check_size_ptr(ev, 200, 0x5100);
	check_mem(ev, (16 << 20) + 200, 0, 0);
	ev = CALL(&r, "cuArray3DCreate_v2", {"pHandle", 0x5200},
		  {"pAllocateArray", .data = &d3, .len = sizeof(d3)});
	check_size_ptr(ev, 64 * 32 * 16 * 2, 0x5200);
	/* Compressed: how much is not known. */
	ev = CALL(&r, "cuArray3DCreate_v2", {"pHandle", 0x5300},
		  {"pAllocateArray", .data = &bc, .len = sizeof(bc)});
	assert_int_equal(ev->has, HAS_PTR);
	assert_false(ev->has_mem);
	/* The descriptor was not read, or not all of it. */
	ev = CALL(&r, "cuArray3DCreate_v2", {"pHandle", 0x5400});
	assert_int_equal(ev->has, HAS_PTR);
	ev = CALL(&r, "cuArray3DCreate_v2", {"pHandle", 0x5400},
		  {"pAllocateArray", .data = &d3, .len = 28});
	assert_int_equal(ev->has, HAS_PTR);
	/* Host memory where the handles are is no business of theirs. */
	CALL(&r, "cuMemHostRegister_v2", {"p", 0x5000}, {"bytesize", 0x1000});
	ev = CALL(&r, "cuArrayDestroy", {"hArray", 0x5000});
	assert_string_equal(ev->op, "free_array");
	check_size_ptr(ev, 16 << 20, 0x5000);
	check_mem(ev, 200 + 64 * 32 * 16 * 2, 0x1000, 0);
	ev = CALL(&r, "cuMipmappedArrayCreate", {"pHandle", 0x6000},
		  {"pMipmappedArrayDesc", .data = &d3, .len = sizeof(d3)}, {"numMipmapLevels", 3});
	check_size_ptr(ev, 64 * 32 * 16 * 2, 0x6000);
	CALL(&r, "cuMipmappedArrayDestroy", {"hMipmappedArray", 0x6000});
	CALL(&r, "cuArrayDestroy", {"hArray", 0x5100});
	check_mem(CALL(&r, "cuArrayDestroy", {"hArray", 0x5200}), 0, 0x1000, 0);
}

static void test_vmm(void **state)
{
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuMemCreate", {"handle", 0x100}, {"size", 2 << 20});
	assert_int_equal(ev->type, TYPE_MEMORY);
	assert_string_equal(ev->op, "create");
	check_size_ptr(ev, 2 << 20, 0x100);
	check_mem(ev, 2 << 20, 0, 0);
	CALL(&r, "cuMemCreate", {"handle", 0x101}, {"size", 4 << 20});
	/* Addresses without memory behind them. */
	ev = CALL(&r, "cuMemAddressReserve", {"ptr", 0x700000}, {"size", 64 << 20});
	assert_string_equal(ev->op, "reserve");
	check_size_ptr(ev, 64 << 20, 0x700000);
	assert_false(ev->has_mem);
	ev = CALL(&r, "cuMemMap", {"ptr", 0x700000}, {"size", 2 << 20}, {"handle", 0x100});
	assert_string_equal(ev->op, "map");
	check_size_ptr(ev, 2 << 20, 0x700000);
	assert_false(ev->has_mem);
	ev = CALL(&r, "cuMemSetAccess", {"ptr", 0x700000}, {"size", 2 << 20}, {"count", 0});
	check_size_ptr(ev, 2 << 20, 0x700000);
	ev = CALL(&r, "cuMemUnmap", {"ptr", 0x700000}, {"size", 2 << 20});
	assert_string_equal(ev->op, "unmap");
	ev = CALL(&r, "cuMemAddressFree", {"ptr", 0x700000}, {"size", 64 << 20});
	assert_string_equal(ev->op, "unreserve");
	check_size_ptr(ev, 64 << 20, 0x700000);
	ev = CALL(&r, "cuMemRelease", {"handle", 0x100});
	assert_string_equal(ev->op, "release");
	check_size_ptr(ev, 2 << 20, 0x100);
	check_mem(ev, 4 << 20, 0, 0);
	/* An address is no handle. */
	ev = CALL(&r, "cuMemFree_v2", {"dptr", 0x101});
	assert_false(ev->has_mem);
	check_mem(CALL(&r, "cuMemRelease", {"handle", 0x101}), 0, 0, 0);
	ev = CALL(&r, "cuMemAdvise_v2", {"devPtr", 0x10}, {"count", 20}, {"advice", 1});
	check_size_ptr(ev, 20, 0x10);
	assert_string_equal(ev->op, "advise");
}

/* What a hostile target may say. */
static void test_hostile_sizes(void **state)
{
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuMemAlloc_v2", {"dptr", UINT64_MAX - 3}, {"bytesize", UINT64_MAX});
	check_size_ptr(ev, UINT64_MAX, UINT64_MAX - 3);
	CALL(&r, "cuMemAlloc_v2", {"dptr", UINT64_MAX - 4}, {"bytesize", UINT64_MAX});
	CALL(&r, "cuMemAlloc_v2", {"dptr", 1}, {"bytesize", UINT64_MAX});
	CALL(&r, "cuMemAlloc_v2", {"dptr", UINT64_MAX}, {"bytesize", 0});
	CALL(&r, "cuMemAllocPitch_v2", {"dptr", 5}, {"pPitch", UINT64_MAX}, {"Height", UINT64_MAX});
	CALL(&r, "cuMemFree_v2", {"dptr", 1});
	CALL(&r, "cuMemFree_v2", {"dptr", UINT64_MAX});
	ev = CALL(&r, "cuMemFree_v2", {"dptr", 5});
	check_mem(ev, 0, 0, 0);
}

/* --- transfers --- */

#define COPY(ev, d, sz)                                                                            \
	do {                                                                                       \
		assert_int_equal((ev)->type, TYPE_TRANSFER);                                       \
		assert_string_equal((ev)->op, "copy");                                             \
		assert_int_equal((ev)->dir, d);                                                    \
		assert_int_equal(!!((ev)->has & HAS_DIR), (d) != COPY_NONE);                       \
		assert_true((ev)->has &HAS_SIZE);                                                  \
		assert_int_equal((ev)->size, sz);                                                  \
	} while (0)

static void test_copies(void **state)
{
	/* Each in its forms; the first argument is where to. */
	static const struct {
		const char *names[6];
		const char *dst, *src;
		enum copy_dir dir;
	} copies[] = {
		{{"cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoDAsync_v2",
		  "cuMemcpyHtoDAsync_v2_ptsz"},
		 "dstDevice",
		 "srcHost",
		 COPY_DIR_HTOD},
		{{"cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoHAsync_v2",
		  "cuMemcpyDtoHAsync_v2_ptsz"},
		 "dstHost",
		 "srcDevice",
		 COPY_DIR_DTOH},
		{{"cuMemcpyDtoD_v2", "cuMemcpyDtoD_v2_ptds", "cuMemcpyDtoDAsync_v2",
		  "cuMemcpyDtoDAsync_v2_ptsz"},
		 "dstDevice",
		 "srcDevice",
		 COPY_DIR_DTOD},
		{{"cuMemcpyHtoA_v2", "cuMemcpyHtoAAsync_v2"}, "dstArray", "srcHost", COPY_DIR_HTOD},
		{{"cuMemcpyAtoH_v2", "cuMemcpyAtoHAsync_v2"}, "dstHost", "srcArray", COPY_DIR_DTOH},
		{{"cuMemcpyDtoA_v2"}, "dstArray", "srcDevice", COPY_DIR_DTOD},
		{{"cuMemcpyAtoD_v2"}, "dstDevice", "srcArray", COPY_DIR_DTOD},
		{{"cuMemcpyAtoA_v2"}, "dstArray", "srcArray", COPY_DIR_DTOD},
		{{"cuMemcpyPeer", "cuMemcpyPeer_ptds", "cuMemcpyPeerAsync"},
		 "dstDevice",
		 "srcDevice",
		 COPY_DIR_PEER},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		for (unsigned k = 0; k < 6 && copies[i].names[k]; k++) {
			const char *name = copies[i].names[k];
			bool async = strstr(name, "Async");
			const struct event *ev;

			r.dur_ns = 500;
			ev = async ? CALL(&r, name, {copies[i].dst, 0x1000},
					  {copies[i].src, 0x9000}, {"ByteCount", 4096},
					  {"hStream", 0x5})
				   : CALL(&r, name, {copies[i].dst, 0x1000},
					  {copies[i].src, 0x9000}, {"ByteCount", 4096});
			COPY(ev, copies[i].dir, 4096);
			check_size_ptr(ev, 4096, 0x1000);
			assert_int_equal(!!(ev->has & HAS_STREAM), async);
			assert_int_equal(ev->stream, async ? 5 : 0);
			/* Only what the host waits for: not copies that stay on devices. */
			assert_int_equal(!!(ev->has & HAS_BANDWIDTH),
					 !async && copies[i].dir < COPY_DIR_DTOD);
			if (ev->has & HAS_BANDWIDTH)
				assert_true(ev->bandwidth_gbps > 8.191 &&
					    ev->bandwidth_gbps < 8.193);
		}
}

static void test_bandwidth(void **state)
{
	const struct event *ev;

	(void)state;
	r.dur_ns = 0;
	ev = CALL(&r, "cuMemcpyHtoD_v2", {"ByteCount", 4096});
	assert_false(ev->has & HAS_BANDWIDTH);
	r.result = 1;
	ev = CALL(&r, "cuMemcpyHtoD_v2", {"ByteCount", 4096});
	assert_false(ev->has & HAS_BANDWIDTH);
	COPY(ev, COPY_DIR_HTOD, 4096);
	ev = CALL(&r, "cuMemcpyHtoD_v2", {"ByteCount", 0});
	COPY(ev, COPY_DIR_HTOD, 0);
	/* Where to, is not known: nor whether it waits. */
	ev = CALL(&r, "cuMemcpy", {"dst", 1}, {"src", 2}, {"ByteCount", 4096});
	COPY(ev, COPY_NONE, 4096);
	assert_false(ev->has & HAS_BANDWIDTH);
}

/* cuMemcpy(): what the addresses are is known from their allocations. */
static void test_unified(void **state)
{
	enum { D = 0x10000, M = 0x20000, H = 0x30000, U = 0x90000 };
	static const struct {
		uint64_t dst, src;
		enum copy_dir dir;
	} rows[] = {
		{D, D + 64, COPY_DIR_DTOD},
		{D, M, COPY_DIR_DTOD},
		{M, D, COPY_DIR_DTOD},
		{D, H, COPY_DIR_HTOD},
		{D, U, COPY_DIR_HTOD},
		{M + 4095, U, COPY_DIR_HTOD},
		{H, D, COPY_DIR_DTOH},
		{U, D, COPY_DIR_DTOH},
		{U, M, COPY_DIR_DTOH},
		{H, H + 64, COPY_DIR_HTOH},
		{U, U, COPY_NONE},
		{U, D + 4096, COPY_NONE},
		/* Pinned memory and what may be device memory from before the trace. */
		{H, U, COPY_NONE},
		{U, H, COPY_NONE},
	};

	(void)state;
	CALL(&r, "cuMemAlloc_v2", {"dptr", D}, {"bytesize", 4096});
	CALL(&r, "cuMemAllocManaged", {"dptr", M}, {"bytesize", 4096});
	CALL(&r, "cuMemHostAlloc", {"pp", H}, {"bytesize", 4096});
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct event *ev = CALL(&r, "cuMemcpy", {"dst", rows[i].dst},
					      {"src", rows[i].src}, {"ByteCount", 8});

		COPY(ev, rows[i].dir, 8);
		assert_int_equal(ev->ptr, rows[i].dst);
		assert_int_equal(!!(ev->has & HAS_BANDWIDTH),
				 rows[i].dir != COPY_NONE && rows[i].dir != COPY_DIR_DTOD);
		ev = CALL(&r, "cuMemcpyAsync", {"dst", rows[i].dst}, {"src", rows[i].src},
			  {"ByteCount", 8}, {"hStream", 7});
		COPY(ev, rows[i].dir, 8);
		assert_int_equal(ev->stream, 7);
	}
	/* Another process has other memory. */
	r.pid = RIG_PID + 1;
	COPY(CALL(&r, "cuMemcpy", {"dst", D}, {"src", H}, {"ByteCount", 8}), COPY_NONE, 8);
	CALL(&r, "cuMemFree_v2", {"dptr", D});
	COPY(CALL(&r, "cuMemcpy", {"dst", D}, {"src", U}, {"ByteCount", 8}), COPY_NONE, 8);
}

struct memcpy2d {
	uint64_t sx, sy;
	uint32_t s_type, pad1;
	uint64_t s_host, s_dev, s_array, s_pitch, dx, dy;
	uint32_t d_type, pad2;
	uint64_t d_host, d_dev, d_array, d_pitch, width, height;
};
_Static_assert(sizeof(struct memcpy2d) == 128, "CUDA_MEMCPY2D");

struct memcpy3d {
	uint64_t sx, sy, sz, s_lod;
	uint32_t s_type, pad1;
	uint64_t s_host, s_dev, s_array, s_context, s_pitch, s_height, dx, dy, dz, d_lod;
	uint32_t d_type, pad2;
	uint64_t d_host, d_dev, d_array, d_context, d_pitch, d_height, width, height, depth;
};
_Static_assert(sizeof(struct memcpy3d) == 200, "CUDA_MEMCPY3D");

/* As CUDA before 3.2 had it: offsets of WidthInBytes and Height, 32 bits each. */
struct memcpy2d_v1 {
	uint32_t words[24];
};

static const struct {
	uint32_t src, dst; /* CUmemorytype: host 1, device 2, array 3, unified 4 */
	enum copy_dir dir;
} memory_types[] = {
	{1, 2, COPY_DIR_HTOD}, {1, 3, COPY_DIR_HTOD}, {2, 1, COPY_DIR_DTOH}, {3, 1, COPY_DIR_DTOH},
	{2, 2, COPY_DIR_DTOD}, {2, 3, COPY_DIR_DTOD}, {3, 2, COPY_DIR_DTOD}, {3, 3, COPY_DIR_DTOD},
	{1, 1, COPY_DIR_HTOH}, {4, 1, COPY_NONE},     {2, 4, COPY_NONE},
};

static void test_2d(void **state)
{
	static const char *const names[] = {
		"cuMemcpy2D_v2",	  "cuMemcpy2D_v2_ptds",
		"cuMemcpy2DUnaligned_v2", "cuMemcpy2DUnaligned_v2_ptds",
		"cuMemcpy2DAsync_v2",	  "cuMemcpy2DAsync_v2_ptsz",
	};
	struct memcpy2d_v1 old = {{0}};
	const struct event *ev;

	(void)state;
	for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++)
		for (unsigned i = 0; i < sizeof(memory_types) / sizeof(memory_types[0]); i++) {
			struct memcpy2d c = {.s_type = memory_types[i].src,
					     .d_type = memory_types[i].dst,
					     .width = 300,
					     .height = 7};

			ev = CALL(&r, names[n], {"pCopy", .data = &c, .len = sizeof(c)});
			COPY(ev, memory_types[i].dir, 2100);
			assert_int_equal(!!(ev->has & HAS_STREAM), n >= 4);
		}
	/* Cut, or not read at all. */
	ev = CALL(&r, "cuMemcpy2D_v2", {"pCopy", .data = &old, .len = 76});
	assert_false(ev->has & HAS_SIZE);
	ev = CALL0(&r, "cuMemcpy2D_v2");
	assert_int_equal(ev->has, 0);
	old.words[2] = 1;
	old.words[13] = 2;
	old.words[21] = 10;
	old.words[22] = 20;
	ev = CALL(&r, "cuMemcpy2D", {"pCopy", .data = &old, .len = sizeof(old)});
	COPY(ev, COPY_DIR_HTOD, 200);
}

static void test_3d(void **state)
{
	const struct event *ev;

	(void)state;
	for (unsigned i = 0; i < sizeof(memory_types) / sizeof(memory_types[0]); i++) {
		struct memcpy3d c = {.s_type = memory_types[i].src,
				     .d_type = memory_types[i].dst,
				     .width = 300,
				     .height = 7,
				     .depth = 3};

		ev = CALL(&r, "cuMemcpy3D_v2", {"pCopy", .data = &c, .len = sizeof(c)});
		COPY(ev, memory_types[i].dir, 6300);
		ev = CALL(&r, "cuMemcpy3DAsync_v2", {"pCopy", .data = &c, .len = sizeof(c)},
			  {"hStream", 9});
		COPY(ev, memory_types[i].dir, 6300);
		assert_int_equal(ev->stream, 9);
		ev = CALL(&r, "cuMemcpy3DPeer", {"pCopy", .data = &c, .len = sizeof(c)});
		COPY(ev, COPY_DIR_PEER, 6300);
		assert_false(ev->has & HAS_BANDWIDTH);
		ev = CALL(&r, "cuMemcpy3DPeerAsync", {"pCopy", .data = &c, .len = sizeof(c)});
		COPY(ev, COPY_DIR_PEER, 6300);
	}
}

static void test_batch(void **state)
{
	static const uint64_t sizes[130] = {10, 20, 30}, ptrs[3] = {1, 2, 3};
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuMemcpyBatchAsync_v2", {"dsts", .data = ptrs, .len = 24},
		  {"srcs", .data = ptrs, .len = 24}, {"sizes", .data = sizes, .len = 24},
		  {"count", 3}, {"hStream", 0x5});
	COPY(ev, COPY_NONE, 60);
	assert_int_equal(ev->stream, 5);
	ev = CALL(&r, "cuMemcpyBatchAsync", {"sizes", .data = sizes, .len = 24}, {"count", 3});
	COPY(ev, COPY_NONE, 60);
	/* Sizes that are not all there sum up to nothing. */
	ev = CALL(&r, "cuMemcpyBatchAsync_v2", {"sizes", .data = sizes, .len = 1024},
		  {"count", 129});
	assert_int_equal(ev->has, HAS_STREAM);
	ev = CALL(&r, "cuMemcpyBatchAsync_v2", {"sizes", .len = -EFAULT}, {"count", 1});
	assert_false(ev->has & HAS_SIZE);
	ev = CALL(&r, "cuMemcpyBatchAsync_v2", {"sizes", .data = sizes, .len = 24},
		  {"count", UINT64_MAX});
	assert_false(ev->has & HAS_SIZE);
	ev = CALL(&r, "cuMemcpy3DBatchAsync_v2", {"numOps", 4});
	assert_false(ev->has & HAS_SIZE);
	assert_string_equal(ev->op, "copy");
}

static void test_memset(void **state)
{
	static const struct {
		const char *name;
		unsigned elem;
		bool is_2d, async;
	} rows[] = {
		{"cuMemsetD8_v2", 1, false, false},	   {"cuMemsetD16_v2", 2, false, false},
		{"cuMemsetD32_v2", 4, false, false},	   {"cuMemsetD8_v2_ptds", 1, false, false},
		{"cuMemsetD8Async", 1, false, true},	   {"cuMemsetD16Async", 2, false, true},
		{"cuMemsetD32Async_ptsz", 4, false, true}, {"cuMemsetD2D8_v2", 1, true, false},
		{"cuMemsetD2D16_v2", 2, true, false},	   {"cuMemsetD2D32_v2", 4, true, false},
		{"cuMemsetD2D8Async", 1, true, true},	   {"cuMemsetD2D16Async", 2, true, true},
		{"cuMemsetD2D32Async", 4, true, true},	   {"cuMemsetD32", 4, false, false},
		{"cuMemsetD2D32", 4, true, false},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct event *ev =
			rows[i].is_2d ? CALL(&r, rows[i].name, {"dstDevice", 0x1000},
					     {"dstPitch", 999}, {"Width", 10}, {"Height", 6})
				      : CALL(&r, rows[i].name, {"dstDevice", 0x1000}, {"N", 60});

		assert_int_equal(ev->type, TYPE_TRANSFER);
		assert_string_equal(ev->op, "memset");
		check_size_ptr(ev, 60 * rows[i].elem, 0x1000);
		assert_int_equal(ev->has & ~(HAS_SIZE | HAS_PTR), rows[i].async ? HAS_STREAM : 0);
	}
}

static void test_prefetch(void **state)
{
	const struct event *ev = CALL(&r, "cuMemPrefetchAsync_v2", {"devPtr", 0x1000},
				      {"count", 77}, {"hStream", 0x5});

	(void)state;
	assert_string_equal(ev->op, "prefetch");
	check_size_ptr(ev, 77, 0x1000);
	assert_int_equal(ev->stream, 5);
	assert_false(ev->has & HAS_DIR);
}

/* --- launches --- */

#define LAUNCH_ARGS                                                                                \
	{"f", 0xf00}, {"gridDimX", 0x900000001}, {"gridDimY", 2}, {"gridDimZ", 3},                 \
		{"blockDimX", 4}, {"blockDimY", 5}, {"blockDimZ", 6}, {"sharedMemBytes", 7},       \
	{                                                                                          \
		"hStream", 0x5                                                                     \
	}

static void check_launch(const struct event *ev, uint32_t first)
{
	const struct launch_info *l = &ev->launch;

	assert_int_equal(ev->type, TYPE_KERNEL);
	assert_string_equal(ev->op, "launch");
	assert_int_equal(ev->has & ~HAS_KERNEL, HAS_LAUNCH | HAS_STREAM);
	assert_true(l->has_config);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(l->grid[i], first + i);
		assert_int_equal(l->block[i], first + 3 + i);
	}
	assert_int_equal(l->shared_mem_sz, first + 6);
	assert_int_equal(l->func, 0xf00);
	assert_int_equal(ev->stream, 5);
}

static void test_launch(void **state)
{
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuLaunchKernel", LAUNCH_ARGS);
	check_launch(ev, 1);
	assert_false(ev->launch.cooperative || ev->launch.capturing || ev->launch.kernel);
	check_launch(CALL(&r, "cuLaunchKernel_ptsz", LAUNCH_ARGS), 1);
	ev = CALL(&r, "cuLaunchCooperativeKernel", LAUNCH_ARGS);
	check_launch(ev, 1);
	assert_true(ev->launch.cooperative);
	/* Failed, it was still asked for. */
	r.result = 1;
	check_launch(CALL(&r, "cuLaunchKernel", LAUNCH_ARGS), 1);
	/* Old forms: the configuration was set beforehand. */
	ev = CALL(&r, "cuLaunchGrid", {"f", 0xf00}, {"grid_width", 4}, {"grid_height", 5});
	assert_int_equal(ev->has, HAS_LAUNCH);
	assert_false(ev->launch.has_config);
	assert_int_equal(ev->launch.func, 0xf00);
	ev = CALL(&r, "cuLaunchGridAsync", {"f", 0xf00}, {"hStream", 0x5});
	assert_int_equal(ev->has, HAS_LAUNCH | HAS_STREAM);
	ev = CALL(&r, "cuLaunch", {"f", 0xf00});
	assert_int_equal(ev->has, HAS_LAUNCH);
	/* Many at once: in its arguments only. */
	ev = CALL(&r, "cuLaunchCooperativeKernelMultiDevice", {"numDevices", 0});
	assert_int_equal(ev->has, 0);
	assert_string_equal(ev->op, "launch");
	ev = CALL(&r, "cuLaunchHostFunc", {"hStream", 0x5}, {"fn", 0x1234});
	assert_int_equal(ev->has, HAS_STREAM);
	assert_string_equal(ev->op, "launch_host");
	assert_int_equal(CALL0(&r, "cuFuncSetBlockShape")->has, 0);
}

struct config {
	uint32_t grid[3], block[3], shared, pad;
	uint64_t stream, attrs;
	uint32_t attr_cnt, pad2;
};
_Static_assert(sizeof(struct config) == 56, "CUlaunchConfig");
struct attr {
	uint32_t id, pad, value[16];
};

static void test_launch_ex(void **state)
{
	struct config c = {{10, 11, 12}, {13, 14, 15}, 16, 0, 0x5, 0x7fff0000, 3, 0};
	static const struct attr attrs[] = {
		{6, 0, {1}}, /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
		{4, 0, {2, 3, 4}},
		{2, 0, {1}},
	};
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuLaunchKernelEx", {"f", 0xf00}, {"config", .data = &c, .len = sizeof(c)},
		  {"config", .data = attrs, .len = sizeof(attrs), .next = true});
	check_launch(ev, 10);
	assert_true(ev->launch.cooperative);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ev->launch.cluster[i], 2 + i);
	/* Attributes that could not be read, or not the last of them. */
	ev = CALL(&r, "cuLaunchKernelEx_ptsz", {"f", 0xf00},
		  {"config", .data = &c, .len = sizeof(c)});
	check_launch(ev, 10);
	assert_int_equal(ev->launch.cluster[0], 0);
	assert_false(ev->launch.cooperative);
	ev = CALL(&r, "cuLaunchKernelEx", {"f", 0xf00}, {"config", .data = &c, .len = sizeof(c)},
		  {"config", .data = attrs, .len = sizeof(attrs) - 1, .next = true});
	assert_int_equal(ev->launch.cluster[2], 4);
	assert_false(ev->launch.cooperative);
	/* None: what else is there is none. */
	c.attr_cnt = 0;
	ev = CALL(&r, "cuLaunchKernelEx", {"f", 0xf00}, {"config", .data = &c, .len = sizeof(c)},
		  {"config", .data = attrs, .len = sizeof(attrs), .next = true});
	check_launch(ev, 10);
	assert_int_equal(ev->launch.cluster[0], 0);
	/* Not all of the configuration, or nothing of it. */
	for (int len = -14; len < 52; len += 11) {
		ev = CALL(&r, "cuLaunchKernelEx", {"f", 0xf00}, {"config", .data = &c, .len = len});
		assert_int_equal(ev->has, HAS_LAUNCH);
		assert_false(ev->launch.has_config);
		assert_int_equal(ev->launch.func, 0xf00);
	}
}

/* --- names --- */

static void check_kernel(const struct event *ev, const char *name)
{
	if (!name) {
		assert_false(ev->has & HAS_KERNEL);
		assert_null(ev->launch.kernel);
		return;
	}
	assert_true(ev->has & HAS_KERNEL);
	assert_string_equal(ev->launch.kernel, name);
	assert_false(ev->launch.kernel_guessed);
}

static void test_names(void **state)
{
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuModuleGetFunction", {"hfunc", 0x10}, {"hmod", 1},
		  {"name", .str = "_Z3addPfi"});
	assert_int_equal(ev->type, TYPE_MODULE);
	assert_string_equal(ev->op, "lookup");
	check_kernel(ev, "add(float*, int)");
	assert_string_equal(ev->launch.kernel_mangled, "_Z3addPfi");
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x10}), "add(float*, int)");
	check_kernel(CALL(&r, "cuLibraryGetKernel", {"pKernel", 0x20}, {"name", .str = "lib_k"}),
		     "lib_k");
	check_kernel(CALL(&r, "cuLaunchKernelEx", {"f", 0x20}), "lib_k");
	check_kernel(CALL(&r, "cuKernelGetFunction", {"pFunc", 0x21}, {"kernel", 0x20}), "lib_k");
	check_kernel(CALL(&r, "cuLaunchCooperativeKernel", {"f", 0x21}), "lib_k");
	check_kernel(CALL(&r, "cuFuncGetName", {"name", .str = "by_f"}, {"hfunc", 0x30}), "by_f");
	check_kernel(CALL(&r, "cuLaunchGrid", {"f", 0x30}), "by_f");
	check_kernel(CALL(&r, "cuKernelGetName", {"name", .str = "by_k"}, {"hfunc", 0x40}), "by_k");
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x40}), "by_k");
	/* Failed lookups name what was asked for, and no handle. */
	r.result = 500;
	check_kernel(CALL(&r, "cuModuleGetFunction", {"hfunc", 0x50}, {"name", .str = "no"}), "no");
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x50}), NULL);
	/* A kernel that nobody knows has a function that nobody knows. */
	check_kernel(CALL(&r, "cuKernelGetFunction", {"pFunc", 0x61}, {"kernel", 0x60}), NULL);
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x61}), NULL);
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0}), NULL);
	/* Names that could not be read or are none. */
	check_kernel(CALL(&r, "cuModuleGetFunction", {"hfunc", 0x70}), NULL);
	check_kernel(CALL(&r, "cuModuleGetFunction", {"hfunc", 0x70}, {"name", .str = ""}), NULL);
	check_kernel(CALL(&r, "cuModuleGetFunction", {"hfunc", .len = -14}, {"name", .str = "x"}),
		     "x");
	/* No NUL: as long as the capture. */
	check_kernel(CALL(&r, "cuModuleGetFunction", {"hfunc", 0x80},
			  {"name", .data = "abcdef", .len = 4}),
		     "abcd");
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x80}), "abcd");
	/* A handle is given to another kernel. */
	CALL(&r, "cuModuleUnload", {"hmod", 1});
	CALL(&r, "cuModuleGetFunction", {"hfunc", 0x10}, {"name", .str = "second"});
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x10}), "second");
	/* Other processes have other handles. */
	r.pid = RIG_PID + 1;
	check_kernel(CALL(&r, "cuLaunchKernel", {"f", 0x10}), NULL);
	/* Not a lookup of kernels. */
	ev = CALL(&r, "cuModuleGetGlobal_v2", {"dptr", 1}, {"bytes", 2}, {"name", .str = "var"});
	check_kernel(ev, NULL);
	assert_string_equal(ev->op, "lookup");
	check_kernel(CALL(&r, "cuModuleEnumerateFunctions",
			  {"functions", .data = (uint64_t[]){1, 2}, .len = 16},
			  {"numFunctions", 2}),
		     NULL);
}

/* --- streams and captures --- */

static bool captures(uint64_t stream)
{
	return CALL(&r, "cuLaunchKernel", {"f", 1}, {"hStream", stream})->launch.capturing;
}

static void begin(uint64_t stream)
{
	CALL(&r, "cuStreamBeginCapture_v2", {"hStream", stream}, {"mode", 1});
}

static void end(uint64_t stream, int result)
{
	r.result = result;
	CALL(&r, "cuStreamEndCapture", {"hStream", stream}, {"phGraph", 0x99});
}

static void test_capture(void **state)
{
	struct config c = {{1, 1, 1}, {1, 1, 1}, 0, 0, 0x6, 0, 0, 0};
	const struct event *ev;

	(void)state;
	assert_false(captures(5));
	begin(5);
	assert_string_equal(r.ev.op, "capture_begin");
	assert_int_equal(r.ev.type, TYPE_GRAPH);
	assert_true(captures(5));
	assert_false(captures(6));
	/* It spreads by events. */
	CALL(&r, "cuEventRecord", {"hEvent", 0xe1}, {"hStream", 5});
	assert_int_equal(r.ev.has, HAS_EVENT | HAS_STREAM);
	CALL(&r, "cuStreamWaitEvent", {"hStream", 6}, {"hEvent", 0xe1});
	assert_int_equal(r.ev.has, HAS_EVENT | HAS_STREAM);
	assert_int_equal(r.ev.event, 0xe1);
	assert_int_equal(r.ev.stream, 6);
	assert_true(captures(6));
	ev = CALL(&r, "cuLaunchKernelEx", {"f", 1}, {"config", .data = &c, .len = sizeof(c)});
	assert_true(ev->launch.capturing);
	CALL(&r, "cuEventRecordWithFlags", {"hEvent", 0xe2}, {"hStream", 6});
	CALL(&r, "cuStreamWaitEvent_ptsz", {"hStream", 7}, {"hEvent", 0xe2});
	assert_true(captures(7));
	/* Failed calls spread nothing. */
	r.result = 1;
	CALL(&r, "cuStreamWaitEvent", {"hStream", 8}, {"hEvent", 0xe2});
	assert_false(captures(8));
	/* Another process's streams. */
	r.pid = RIG_PID + 1;
	assert_false(captures(5));
	end(5, 0);
	assert_string_equal(r.ev.op, "capture_end");
	assert_false(captures(5) || captures(6) || captures(7));
	r.result = 1;
	begin(9);
	assert_false(captures(9));
	CALL(&r, "cuStreamBeginCaptureToGraph", {"hStream", 9});
	assert_true(captures(9));
	end(9, 0);
	CALL(&r, "cuStreamBeginCapture", {"hStream", 9});
	assert_true(captures(9));
}

/* A capture that went wrong is over; one that another thread may not end is not. */
static void test_capture_errors(void **state)
{
	static const struct {
		int result;
		bool over;
	} rows[] = {{901, true}, {904, true}, {908, false}, {1, false}};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(5);
		end(5, rows[i].result);
		assert_int_equal(captures(5), !rows[i].over);
		end(5, 0);
		assert_false(captures(5));
	}
}

static void test_streams(void **state)
{
	const struct event *ev;

	(void)state;
	ev = CALL(&r, "cuStreamCreate", {"phStream", 0x55}, {"Flags", 1});
	assert_int_equal(ev->has, HAS_STREAM);
	assert_int_equal(ev->stream, 0x55);
	assert_string_equal(ev->op, "create");
	r.result = 2;
	assert_int_equal(CALL(&r, "cuStreamCreate", {"phStream", 0x55})->has, 0);
	ev = CALL(&r, "cuEventCreate", {"phEvent", 0xe1});
	assert_int_equal(ev->has, HAS_EVENT);
	assert_int_equal(ev->event, 0xe1);
	ev = CALL(&r, "cuStreamSynchronize", {"hStream", 0x55});
	assert_int_equal(ev->type, TYPE_SYNC);
	assert_int_equal(ev->stream, 0x55);
	ev = CALL(&r, "cuStreamSynchronize", {"hStream", 0});
	assert_int_equal(ev->has, HAS_STREAM); /* the default stream is one */
	ev = CALL(&r, "cuEventSynchronize", {"hEvent", 0xe1});
	assert_int_equal(ev->has, HAS_EVENT);
	ev = CALL(&r, "cuGraphLaunch", {"hGraphExec", 1}, {"hStream", 0x55});
	assert_int_equal(ev->type, TYPE_GRAPH);
	assert_string_equal(ev->op, "launch");
	assert_int_equal(ev->has, HAS_STREAM);
}

/* --- words that are not at their argument's index --- */

static void test_words(void **state)
{
	const struct cuda_fn *fn = cuda_fn_by_symbol("cuIpcOpenMemHandle_v2");
	uint64_t words[CT_MAX_WORDS], val;
	struct event ev = {.words = words, .word_cnt = CT_MAX_WORDS};
	struct meaning m;

	(void)state;
	for (unsigned i = 0; i < CT_MAX_WORDS; i++)
		words[i] = 100 + i;
	meaning__init(&m, fn);
	/* pdptr, a handle of 64 bytes on the stack, Flags. */
#ifdef __x86_64__
	assert_true(event_arg(&m, &ev, 2, &val));
	assert_int_equal(val, 101);
	assert_true(event_arg_by_name(&m, &ev, "Flags", &val));
	assert_int_equal(val, 101);
#endif
	assert_false(event_arg(&m, &ev, 1, &val)); /* too big for a number */
	assert_false(event_arg(&m, &ev, 0, &val)); /* its capture is not there */
	assert_false(event_arg(&m, &ev, 3, &val));
	assert_false(event_arg(&m, &ev, -1, &val));
	assert_false(event_arg(&m, &ev, 99, &val));
	assert_false(event_arg_by_name(&m, &ev, "nothing", &val));
	ev.word_cnt = 1;
	assert_false(event_arg(&m, &ev, 2, &val));
	/* A float has no word. */
	meaning__init(&m, cuda_fn_by_symbol("cuParamSetf"));
	ev.word_cnt = CT_MAX_WORDS;
	assert_false(event_arg(&m, &ev, 2, &val));
	assert_true(event_arg(&m, &ev, 1, &val));
	assert_int_equal(val, 101);
}

/* --- the whole table --- */

static uint64_t rnd_state;

static uint64_t rnd(void)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state;
}

/* Numbers near borders, and addresses that meet again. */
static uint64_t rnd_word(void)
{
	static const uint64_t odd[] = {0,	   1,	       2,	   8,
				       UINT64_MAX, 1ull << 63, UINT32_MAX, 0x7f0000000000};

	switch (rnd() % 4) {
	case 0:
		return rnd();
	case 1:
		return odd[rnd() % 8] + rnd() % 3 - 1;
	default:
		return rnd() % 64;
	}
}

static void send_random(unsigned func_id)
{
	struct ct_call *c = calloc(1, CT_CALL_FIXED_SZ + CT_MAX_WORDS * 8 + CT_MAX_CAPS * 1024);
	size_t off = CT_CALL_FIXED_SZ;

	assert_non_null(c);
	c->rec.kind = CT_REC_CALL;
	c->rec.flags = rnd() % 8 ? 0 : rnd() % 4;
	c->rec.pid = RIG_PID + rnd() % 2;
	c->rec.tid = rnd() % 3;
	c->rec.ts_ns = rnd() % 1000;
	c->end_ns = rnd() % 1000;
	c->func_id = func_id;
	c->result = rnd() % 4 ? 0 : (int32_t)rnd();
	c->word_cnt = rnd() % (CT_MAX_WORDS + 1);
	c->cap_cnt = rnd() % (CT_MAX_CAPS + 1);
	for (unsigned i = 0; i < c->word_cnt; i++, off += 8)
		c->words[i] = rnd_word();
	for (unsigned i = 0; i < c->cap_cnt; i++) {
		unsigned len = rnd() % 3 ? rnd() % 9 * 8 : rnd() % 1025;

		c->cap_len[i] = rnd() % 8 ? (int)len : -(int)(rnd() % 100);
		for (unsigned k = 0; c->cap_len[i] > 0 && k < (len + 7) / 8; k++, off += 8) {
			uint64_t x = rnd() % 4 ? rnd_word() : 0x4141415f5a5f0041 + rnd() % 64;

			memcpy((uint8_t *)c + off, &x, 8);
		}
	}
	c->rec.size = off;
	rig_record(&r, c, off);
	free(c);
}

static void no_u64(struct visitor *v, const char *name, uint64_t x)
{
	(void)v;
	(void)name;
	(void)x;
}
static void no_f64(struct visitor *v, const char *name, double x)
{
	(void)v;
	(void)name;
	(void)x;
}
static void no_sym(struct visitor *v, const char *name, const char *s)
{
	(void)v;
	(void)name;
	assert_non_null(s);
}
static void no_text(struct visitor *v, const char *name, const char *s, size_t len, bool cut)
{
	(void)v;
	(void)name;
	(void)cut;
	assert_true(memchr(s, 0, len) == NULL);
}
static void no_array(struct visitor *v, const char *name)
{
	(void)v;
	(void)name;
}
static const struct visitor_ops no_ops = {.u64 = no_u64,
					  .hex = no_u64,
					  .f64 = no_f64,
					  .sym = no_sym,
					  .text = no_text,
					  .open_array = no_array,
					  .close_array = no_array};

static void test_random(void **state)
{
	unsigned cnt = fnset__cnt(r.fns);

	(void)state;
	rnd_state = 0x6a09e667f3bcc909;
	fnset__id(r.fns, "cuNobodyKnows");
	for (unsigned round = 0; round < 60; round++)
		for (unsigned id = 0; id <= cnt; id++) {
			struct visitor v = {&no_ops};
			unsigned before = r.cnt;

			send_random(id);
			assert_int_equal(r.cnt, before + 1);
			event_visit_fields(&r.ev, &v);
		}
	assert_int_equal(model__bad_records(r.m), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_alloc),
		TEST(test_alloc_kinds),
		TEST(test_pitch),
		TEST(test_arrays),
		TEST(test_vmm),
		TEST(test_hostile_sizes),
		TEST(test_copies),
		TEST(test_bandwidth),
		TEST(test_unified),
		TEST(test_2d),
		TEST(test_3d),
		TEST(test_batch),
		TEST(test_memset),
		TEST(test_prefetch),
		TEST(test_launch),
		TEST(test_launch_ex),
		TEST(test_names),
		TEST(test_capture),
		TEST(test_capture_errors),
		TEST(test_streams),
		TEST(test_words),
		TEST(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
