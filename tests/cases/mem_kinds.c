/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pools, physical memory and its mappings, arrays, memory of other processes and other APIs,
 * registered memory: each is made and freed. */
#include "mem_calls.h"

static void pools(void)
{
	/* CUmemPoolProps */
	struct {
		int type, handles, loc_type, loc_id;
		void *security;
		size_t max;
		uint16_t usage;
		char reserved[54];
	} props = {1, 0, 1, 1, NULL, 0, 0, ""};
	handle own = NULL;
	dptr p = 0, q = 0;
	int r;

	r = F(cuMemPoolCreate)(&own, &props);
	expect("cuMemPoolCreate", r, "'type':'memory','op':'create'");
	r = F(cuMemAllocFromPoolAsync)(&p, (size_t)1000, own, NULL);
	expect("cuMemAllocFromPoolAsync", r, "'op':'alloc_async','ptr':" HEX, H(p));
	r = F(cuMemAllocAsync)(&q, (size_t)3000, NULL);
	expect("cuMemAllocAsync", r, "'op':'alloc_async','ptr':" HEX, H(q));
	r = F(cuMemFreeAsync)(p, NULL);
	expect("cuMemFreeAsync", r, "'op':'free_async','ptr':" HEX, H(p));
	/* This function also frees it. */
	MEM_FREE(cuMemFree_v2, q, 0);
	r = F(cuMemPoolTrimTo)(own, (size_t)0);
	expect("cuMemPoolTrimTo", r, "'op':'trim'");
	r = F(cuMemPoolDestroy)(own);
	expect("cuMemPoolDestroy", r, "'op':'destroy'");
}

/* Memory released while mapped lives until it is unmapped. */
static void virtual_memory(void)
{
	uint64_t a = mem_create(4 * MIB, 1), b = mem_create(2 * MIB, 1);
	dptr p = 0;
	int r;

	r = F(cuMemAddressReserve)(&p, 8 * MIB, (size_t)0, (dptr)0, 0ull);
	expect("cuMemAddressReserve", r, "'op':'reserve','ptr':" HEX, H(p));
	r = F(cuMemMap)(p, 4 * MIB, (size_t)0, a, 0ull);
	expect("cuMemMap", r, "'op':'map','ptr':" HEX, H(p));
	must("cuMemMap", r, 0);
	MEM_FREE(cuMemRelease, a, 0);
	MEM_FREE(cuMemRelease, b, 0);
	a = mem_create(2 * MIB, 1); /* now 6 MiB are live, as before */
	r = F(cuMemUnmap)(p, 4 * MIB);
	expect("cuMemUnmap", r, "'op':'unmap','ptr':" HEX, H(p));
	must("cuMemUnmap", r, 0);
	MEM_FREE(cuMemRelease, a, 0);
	r = F(cuMemAddressFree)(p, 8 * MIB);
	expect("cuMemAddressFree", r, "'op':'unreserve','ptr':" HEX, H(p));
}

static void arrays(void)
{
	struct {
		size_t width, height;
		unsigned format, channels;
	} desc = {64, 32, 0x20, 2};
	handle a = NULL;
	int r = F(cuArrayCreate_v2)(&a, &desc);

	expect("cuArrayCreate_v2", r, "'op':'alloc_array','size':16384");
	must("cuArrayCreate_v2", r, 0);
	MEM_FREE(cuArrayDestroy, a, 0);
}

static void others(void)
{
	struct {
		char bytes[64];
	} ipc = {"x"};
	struct {
		int type;
		union {
			int fd;
			void *ptr[2];
		} handle;
		unsigned long long size;
		unsigned flags, reserved[16];
	} desc = {.type = 1, .size = 12345};
	static char buf[8192];
	handle ext = NULL;
	dptr p = 0;
	int r;

	r = F(cuIpcOpenMemHandle_v2)(&p, ipc, 1);
	expect("cuIpcOpenMemHandle_v2", r, "'type':'memory','op':'import'");
	must("cuIpcOpenMemHandle_v2", r, 0);
	r = F(cuIpcCloseMemHandle)(p);
	expect("cuIpcCloseMemHandle", r, "'type':'memory','op':'release'");
	must("cuIpcCloseMemHandle", r, 0);
	r = F(cuImportExternalMemory)(&ext, &desc);
	expect("cuImportExternalMemory", r, "'op':'import'");
	must("cuImportExternalMemory", r, 0);
	r = F(cuDestroyExternalMemory)(ext);
	expect("cuDestroyExternalMemory", r, "'op':'destroy'");
	r = F(cuMemHostRegister_v2)(buf, sizeof(buf), 0);
	expect("cuMemHostRegister_v2", r, "'op':'register','size':8192");
	must("cuMemHostRegister_v2", r, 0);
	r = F(cuMemHostUnregister)(buf);
	expect("cuMemHostUnregister", r, "'op':'unregister'");
	must("cuMemHostUnregister", r, 0);
}

int main(void)
{
	case_open();
	case_context();
	mem_needs_devices(2);
	pools();
	virtual_memory();
	arrays();
	others();
	MEM_FREE(cuMemFree_v2, mem_alloc_managed(5000), 0);
	case_report("{'memory':{'kinds':["
		    "{'kind':'managed','allocs':1,'frees':1,'peak_bytes':5000,'live_bytes':0},"
		    "{'kind':'array','allocs':1,'frees':1,'peak_bytes':16384,'live_bytes':0},"
		    "{'kind':'vmm','allocs':3,'frees':3,'alloc_bytes':8388608,"
		    "'peak_bytes':6291456,'live_bytes':0},"
		    "{'kind':'pool','allocs':2,'frees':2,'peak_bytes':4000,'live_bytes':0},"
		    "{'kind':'registered','allocs':1,'frees':1,'peak_bytes':8192,'live_bytes':0},"
		    "{'kind':'ipc','allocs':1,'frees':1,'peak_bytes':0,'live_bytes':0},"
		    "{'kind':'external','allocs':1,'frees':1,'peak_bytes':12345,'live_bytes':0},"
		    "{'kind':'reserved','allocs':1,'frees':1,'peak_bytes':8388608,'live_bytes':0}],"
		    "'devices':[{'device':1,'pid':%d,'peak_bytes':6291456},"
		    "{'device':0,'pid':%d,'peak_bytes':16384}],"
		    "'peak_bytes':6291456,'leak_count':0,'bad_free_count':0,'unmatched_frees':0,"
		    "'unseen_frees':0,'pools':{'created':1,'destroyed':1,'trims':1}}}",
		    getpid(), getpid());
	return 0;
}
