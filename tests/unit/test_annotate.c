/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Meaning of memory calls and transfers: sizes, pointers, directions, live memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "test_model.h"

static struct rig r;

static int setup(void **state)
{
	rig_open(&r, false, 0);
	return 0;
}

static int teardown(void **state)
{
	rig_close(&r);
	return 0;
}

static void check_mem(const struct trace_event *ev, uint64_t device, uint64_t host,
		      uint64_t managed)
{
	assert_true(ev->has_mem);
	assert_int_equal(ev->mem.bytes[MEM_DEVICE], device);
	assert_int_equal(ev->mem.bytes[MEM_HOST], host);
	assert_int_equal(ev->mem.bytes[MEM_MANAGED], managed);
}

static void check_size_ptr(const struct trace_event *ev, uint64_t size, uint64_t ptr)
{
	assert_int_equal(ev->has & (HAS_SIZE | HAS_PTR), HAS_SIZE | HAS_PTR);
	assert_int_equal(ev->size, size);
	assert_int_equal(ev->ptr, ptr);
}

/* --- memory --- */

static void test_alloc(void **state)
{
	const struct trace_event *ev;

	ev = CALL(&r, "cuMemAlloc_v2", {"dptr", 0x7f0000000000}, {"bytesize", 1ull << 33});
	assert_int_equal(ev->has, HAS_SIZE | HAS_PTR);
	check_size_ptr(ev, 1ull << 33, 0x7f0000000000);
	check_mem(ev, 1ull << 33, 0, 0);
	/* 32-bit forms ignore the upper half of the word and of the capture. */
	ev = CALL(&r, "cuMemAlloc", {"dptr", 0x1000}, {"bytesize", 0xdead00000040});
	check_size_ptr(ev, 0x40, 0x1000);
	check_mem(ev, (1ull << 33) + 0x40, 0, 0);
	ev = CALL(&r, "cuMemFree", {"dptr", 0xdead00001000});
	check_size_ptr(ev, 0x40, 0x1000);
	ev = CALL(&r, "cuMemFree_v2", {"dptr", 0x7f0000000000});
	check_size_ptr(ev, 1ull << 33, 0x7f0000000000);
	check_mem(ev, 0, 0, 0);
	/* An unknown address: no size, and nothing changes. */
	ev = CALL(&r, "cuMemFree_v2", {"dptr", 0x7f0000000000});
	assert_int_equal(ev->has, HAS_PTR);
	assert_false(ev->has_mem);
	/* A failed call has no pointer. */
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
	const struct trace_event *ev;

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
	const struct trace_event *ev;

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

/* Arrays have handles, which may be close to each other: a handle covers no address range. */
static void test_arrays(void **state)
{
	static const struct array_desc d2 = {1024, 1024, 0x20, 4}, d1 = {100, 0, 0x10, 1};
	static const struct array3d_desc d3 = {64, 32, 16, 0x01, 2, 0, 0},
					 bc = {64, 64, 0, 0x91, 4, 0, 0};
	const struct trace_event *ev;

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
	/* Compressed formats: the size is unknown. */
	ev = CALL(&r, "cuArray3DCreate_v2", {"pHandle", 0x5300},
		  {"pAllocateArray", .data = &bc, .len = sizeof(bc)});
	assert_int_equal(ev->has, HAS_PTR);
	assert_false(ev->has_mem);
	/* The descriptor was not read, or only part of it. */
	ev = CALL(&r, "cuArray3DCreate_v2", {"pHandle", 0x5400});
	assert_int_equal(ev->has, HAS_PTR);
	ev = CALL(&r, "cuArray3DCreate_v2", {"pHandle", 0x5400},
		  {"pAllocateArray", .data = &d3, .len = 28});
	assert_int_equal(ev->has, HAS_PTR);
	/* Host memory at the same numbers does not affect the handles. */
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
	const struct trace_event *ev;

	ev = CALL(&r, "cuMemCreate", {"handle", 0x100}, {"size", 2 << 20});
	assert_int_equal(ev->type, TYPE_MEMORY);
	assert_string_equal(ev->op, "create");
	check_size_ptr(ev, 2 << 20, 0x100);
	check_mem(ev, 2 << 20, 0, 0);
	CALL(&r, "cuMemCreate", {"handle", 0x101}, {"size", 4 << 20});
	/* Reserved addresses without memory. */
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
	/* An address is not a handle. */
	ev = CALL(&r, "cuMemFree_v2", {"dptr", 0x101});
	assert_false(ev->has_mem);
	check_mem(CALL(&r, "cuMemRelease", {"handle", 0x101}), 0, 0, 0);
	ev = CALL(&r, "cuMemAdvise_v2", {"devPtr", 0x10}, {"count", 20}, {"advice", 1});
	check_size_ptr(ev, 20, 0x10);
	assert_string_equal(ev->op, "advise");
}

/* Sizes from a hostile target. */
static void test_hostile_sizes(void **state)
{
	const struct trace_event *ev;

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

static void check_copy(const struct trace_event *ev, enum copy_dir dir, uint64_t size)
{
	assert_int_equal(ev->type, TYPE_TRANSFER);
	assert_string_equal(ev->op, "copy");
	assert_int_equal(ev->dir, dir);
	assert_int_equal(!!(ev->has & HAS_DIR), dir != COPY_NONE);
	assert_true(ev->has & HAS_SIZE);
	assert_int_equal(ev->size, size);
}

static void test_copies(void **state)
{
	/* Each function in all its forms; the first argument is the destination. */
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

	for (unsigned i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		for (unsigned k = 0; k < 6 && copies[i].names[k]; k++) {
			const char *name = copies[i].names[k];
			bool async = strstr(name, "Async");
			const struct trace_event *ev;

			r.dur_ns = 500;
			ev = async ? CALL(&r, name, {copies[i].dst, 0x1000},
					  {copies[i].src, 0x9000}, {"ByteCount", 4096},
					  {"hStream", 0x5})
				   : CALL(&r, name, {copies[i].dst, 0x1000},
					  {copies[i].src, 0x9000}, {"ByteCount", 4096});
			check_copy(ev, copies[i].dir, 4096);
			check_size_ptr(ev, 4096, 0x1000);
			assert_int_equal(!!(ev->has & HAS_STREAM), async);
			assert_int_equal(ev->stream, async ? 5 : 0);
			/* Bandwidth only for copies that the host waits for, not for those between
			 * devices. */
			assert_int_equal(!!(ev->has & HAS_BANDWIDTH),
					 !async && copies[i].dir < COPY_DIR_DTOD);
			if (ev->has & HAS_BANDWIDTH)
				assert_true(ev->bandwidth_gbps > 8.191 &&
					    ev->bandwidth_gbps < 8.193);
		}
}

static void test_bandwidth(void **state)
{
	const struct trace_event *ev;

	r.dur_ns = 0;
	ev = CALL(&r, "cuMemcpyHtoD_v2", {"ByteCount", 4096});
	assert_false(ev->has & HAS_BANDWIDTH);
	r.result = 1;
	ev = CALL(&r, "cuMemcpyHtoD_v2", {"ByteCount", 4096});
	assert_false(ev->has & HAS_BANDWIDTH);
	check_copy(ev, COPY_DIR_HTOD, 4096);
	ev = CALL(&r, "cuMemcpyHtoD_v2", {"ByteCount", 0});
	check_copy(ev, COPY_DIR_HTOD, 0);
	/* The destination is unknown, and so is whether the call waits. */
	ev = CALL(&r, "cuMemcpy", {"dst", 1}, {"src", 2}, {"ByteCount", 4096});
	check_copy(ev, COPY_NONE, 4096);
	assert_false(ev->has & HAS_BANDWIDTH);
}

/* cuMemcpy(): the kinds of its addresses follow from their allocations. */
static void test_unified(void **state)
{
	enum { D = 0x10000, M = 0x20000, H = 0x30000, V = 0x40000, G = 0x50000, U = 0x90000 };
	static const struct {
		uint64_t dst, src;
		enum copy_dir dir;
	} rows[] = {
		{D, D + 64, COPY_DIR_DTOD},
		{D, M, COPY_DIR_DTOD},
		{M, D, COPY_DIR_DTOD},
		{D, H, COPY_DIR_HTOD},
		{H, D, COPY_DIR_DTOH},
		/* Mapped memory and a variable of a module are device memory. */
		{D, V + 8191, COPY_DIR_DTOD},
		{V, H, COPY_DIR_HTOD},
		{H, G + 15, COPY_DIR_DTOH},
		/* Without a recorded allocation, memory may belong to the host or to a device. */
		{D, U, COPY_NONE},
		{M + 4095, U, COPY_NONE},
		{U, D, COPY_NONE},
		{U, M, COPY_NONE},
		{D, V + 8192, COPY_NONE},
		{H, H + 64, COPY_DIR_HTOH},
		{U, U, COPY_NONE},
		{U, D + 4096, COPY_NONE},
		/* Pinned memory, and possibly device memory from before the trace. */
		{H, U, COPY_NONE},
		{U, H, COPY_NONE},
	};

	CALL(&r, "cuMemAlloc_v2", {"dptr", D}, {"bytesize", 4096});
	CALL(&r, "cuMemAllocManaged", {"dptr", M}, {"bytesize", 4096});
	CALL(&r, "cuMemHostAlloc", {"pp", H}, {"bytesize", 4096});
	CALL(&r, "cuMemMap", {"ptr", V}, {"size", 4096}, {"handle", 77});
	CALL(&r, "cuMemMap", {"ptr", V + 4096}, {"size", 4096}, {"handle", 78});
	CALL(&r, "cuModuleGetGlobal_v2", {"dptr", G}, {"bytes", 16}, {"name", .str = "table"});
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct trace_event *ev = CALL(&r, "cuMemcpy", {"dst", rows[i].dst},
						    {"src", rows[i].src}, {"ByteCount", 8});

		check_copy(ev, rows[i].dir, 8);
		assert_int_equal(ev->ptr, rows[i].dst);
		assert_int_equal(!!(ev->has & HAS_BANDWIDTH),
				 rows[i].dir != COPY_NONE && rows[i].dir != COPY_DIR_DTOD);
		ev = CALL(&r, "cuMemcpyAsync", {"dst", rows[i].dst}, {"src", rows[i].src},
			  {"ByteCount", 8}, {"hStream", 7});
		check_copy(ev, rows[i].dir, 8);
		assert_int_equal(ev->stream, 7);
	}
	/* One call removes two mappings. */
	CALL(&r, "cuMemUnmap", {"ptr", V}, {"size", 8192});
	check_copy(CALL(&r, "cuMemcpy", {"dst", V + 4096}, {"src", H}, {"ByteCount", 8}), COPY_NONE,
		   8);
	/* Another process has other memory. */
	r.pid = RIG_PID + 1;
	check_copy(CALL(&r, "cuMemcpy", {"dst", D}, {"src", H}, {"ByteCount", 8}), COPY_NONE, 8);
	CALL(&r, "cuMemFree_v2", {"dptr", D});
	check_copy(CALL(&r, "cuMemcpy", {"dst", D}, {"src", U}, {"ByteCount", 8}), COPY_NONE, 8);
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

/* The struct before CUDA 3.2: offsets, WidthInBytes and Height of 32 bits each. */
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
	const struct trace_event *ev;

	for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++)
		for (unsigned i = 0; i < sizeof(memory_types) / sizeof(memory_types[0]); i++) {
			struct memcpy2d c = {.s_type = memory_types[i].src,
					     .d_type = memory_types[i].dst,
					     .width = 300,
					     .height = 7};

			ev = CALL(&r, names[n], {"pCopy", .data = &c, .len = sizeof(c)});
			check_copy(ev, memory_types[i].dir, 2100);
			assert_int_equal(!!(ev->has & HAS_STREAM), n >= 4);
		}
	/* Truncated, or not read at all. */
	ev = CALL(&r, "cuMemcpy2D_v2", {"pCopy", .data = &old, .len = 76});
	assert_false(ev->has & HAS_SIZE);
	ev = CALL0(&r, "cuMemcpy2D_v2");
	assert_int_equal(ev->has, 0);
	old.words[2] = 1;
	old.words[13] = 2;
	old.words[21] = 10;
	old.words[22] = 20;
	ev = CALL(&r, "cuMemcpy2D", {"pCopy", .data = &old, .len = sizeof(old)});
	check_copy(ev, COPY_DIR_HTOD, 200);
}

static void test_3d(void **state)
{
	const struct trace_event *ev;

	for (unsigned i = 0; i < sizeof(memory_types) / sizeof(memory_types[0]); i++) {
		struct memcpy3d c = {.s_type = memory_types[i].src,
				     .d_type = memory_types[i].dst,
				     .width = 300,
				     .height = 7,
				     .depth = 3};

		ev = CALL(&r, "cuMemcpy3D_v2", {"pCopy", .data = &c, .len = sizeof(c)});
		check_copy(ev, memory_types[i].dir, 6300);
		ev = CALL(&r, "cuMemcpy3DAsync_v2", {"pCopy", .data = &c, .len = sizeof(c)},
			  {"hStream", 9});
		check_copy(ev, memory_types[i].dir, 6300);
		assert_int_equal(ev->stream, 9);
		ev = CALL(&r, "cuMemcpy3DPeer", {"pCopy", .data = &c, .len = sizeof(c)});
		check_copy(ev, COPY_DIR_PEER, 6300);
		assert_false(ev->has & HAS_BANDWIDTH);
		ev = CALL(&r, "cuMemcpy3DPeerAsync", {"pCopy", .data = &c, .len = sizeof(c)});
		check_copy(ev, COPY_DIR_PEER, 6300);
	}
}

/* A batch has a direction if all its copies have the same one and all of it was read. */
static void test_batch_direction(void **state)
{
	static const uint64_t sizes[] = {10, 20}, device[] = {0x10000, 0x10800},
			      host[] = {0x90000, 0x91000}, both[] = {0x10000, 0x90000};
	const struct trace_event *ev;

	CALL(&r, "cuMemAlloc_v2", {"dptr", 0x10000}, {"bytesize", 4096});
	CALL(&r, "cuMemHostAlloc", {"pp", 0x90000}, {"bytesize", 8192});
	ev = CALL(&r, "cuMemcpyBatchAsync_v2", {"dsts", .data = device, .len = 16},
		  {"srcs", .data = host, .len = 16}, {"sizes", .data = sizes, .len = 16},
		  {"count", 2});
	check_copy(ev, COPY_DIR_HTOD, 30);
	ev = CALL(&r, "cuMemcpyBatchAsync_v2", {"dsts", .data = host, .len = 16},
		  {"srcs", .data = both, .len = 16}, {"sizes", .data = sizes, .len = 16},
		  {"count", 1});
	check_copy(ev, COPY_DIR_DTOH, 10);
	ev = CALL(&r, "cuMemcpyBatchAsync_v2", {"dsts", .data = host, .len = 16},
		  {"srcs", .data = both, .len = 16}, {"sizes", .data = sizes, .len = 16},
		  {"count", 2});
	check_copy(ev, COPY_NONE, 30);
	ev = CALL(&r, "cuMemcpyBatchAsync_v2", {"dsts", .data = device, .len = 16},
		  {"srcs", .data = host, .len = 8}, {"sizes", .data = sizes, .len = 16},
		  {"count", 2});
	check_copy(ev, COPY_NONE, 30);
}

static void test_batch(void **state)
{
	static const uint64_t sizes[130] = {10, 20, 30}, ptrs[3] = {1, 2, 3};
	const struct trace_event *ev;

	ev = CALL(&r, "cuMemcpyBatchAsync_v2", {"dsts", .data = ptrs, .len = 24},
		  {"srcs", .data = ptrs, .len = 24}, {"sizes", .data = sizes, .len = 24},
		  {"count", 3}, {"hStream", 0x5});
	check_copy(ev, COPY_NONE, 60);
	assert_int_equal(ev->stream, 5);
	ev = CALL(&r, "cuMemcpyBatchAsync", {"sizes", .data = sizes, .len = 24}, {"count", 3});
	check_copy(ev, COPY_NONE, 60);
	/* Incomplete sizes give no sum. */
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

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct trace_event *ev =
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
	const struct trace_event *ev = CALL(&r, "cuMemPrefetchAsync_v2", {"devPtr", 0x1000},
					    {"count", 77}, {"hStream", 0x5});

	assert_string_equal(ev->op, "prefetch");
	check_size_ptr(ev, 77, 0x1000);
	assert_int_equal(ev->stream, 5);
	assert_false(ev->has & HAS_DIR);
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
		TEST(test_batch_direction),
		TEST(test_memset),
		TEST(test_prefetch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
