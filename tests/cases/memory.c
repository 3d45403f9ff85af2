/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every kind of allocation, and failing ones. */
#include "case.h"

static void device(void)
{
	dptr p = case_alloc(4096), q = case_alloc(3 << 20);
	size_t pitch = 0, size = (size_t)1 << 50;
	dptr none = 0;
	int r;

	r = F(cuMemAlloc_v2)(&none, size);
	expect("cuMemAlloc_v2", r,
	       "'type':'memory','op':'alloc','size':%zu,'args':{'bytesize':%zu}", size, size);
	must("1 PiB", r, OUT_OF_MEMORY);
	r = F(cuMemAlloc_v2)(&none, (size_t)0);
	expect("cuMemAlloc_v2", r, "'type':'memory','op':'alloc','args':{'bytesize':0}");
	case_free(q);
	case_free(p);
	r = F(cuMemFree_v2)(p);
	expect("cuMemFree_v2", r, "'type':'memory','op':'free','args':{'dptr':" HEX "}", H(p));
	must("double free", r, INVALID_VALUE);
	r = F(cuMemFree_v2)((dptr)0);
	expect("cuMemFree_v2", r, "'type':'memory','op':'free','args':{'dptr':'0x0'}");

	r = F(cuMemAllocPitch_v2)(&p, &pitch, (size_t)1000, (size_t)7, 4);
	expect("cuMemAllocPitch_v2", r,
	       "'type':'memory','op':'alloc','size':%zu,'ptr':" HEX
	       ",'$id':'pitch','args':{'dptr':" HEX
	       ",'pPitch':%zu,'WidthInBytes':1000,'Height':7,'ElementSizeBytes':4}",
	       pitch * 7, H(p), H(p), pitch);
	/* The mock's function calls the public cuMemAlloc_v2. */
	if (dlsym(case_lib, "cuFakeNest"))
		expect("cuMemAlloc_v2", 0,
		       "'type':'memory','op':'alloc','size':%zu,'ptr':" HEX ",'$parent':'pitch'",
		       pitch * 7, H(p));
	case_free(p);
}

static void managed(void)
{
	dptr p = 0;
	int r = F(cuMemAllocManaged)(&p, (size_t)65536, 1);

	expect("cuMemAllocManaged", r,
	       "'type':'memory','op':'alloc_managed','size':65536,'ptr':" HEX ",'args':{'dptr':" HEX
	       ",'bytesize':65536,'flags':'CU_MEM_ATTACH_GLOBAL'}",
	       H(p), H(p));
	case_free(p);
}

static void host(void)
{
	static char buf[8192] __attribute__((aligned(4096)));
	void *p = NULL;
	int r;

	r = F(cuMemAllocHost_v2)(&p, (size_t)10000);
	expect("cuMemAllocHost_v2", r,
	       "'type':'memory','op':'alloc_host','size':10000,'args':{'pp':" HEX
	       ",'bytesize':10000}",
	       H(p));
	r = F(cuMemFreeHost)(p);
	expect("cuMemFreeHost", r, "'type':'memory','op':'free_host','args':{'p':" HEX "}", H(p));
	r = F(cuMemHostAlloc)(&p, (size_t)20000, 3);
	expect("cuMemHostAlloc", r,
	       "'type':'memory','op':'alloc_host','size':20000,'args':{'pp':" HEX
	       ",'Flags':'CU_MEMHOSTALLOC_PORTABLE|CU_MEMHOSTALLOC_DEVICEMAP'}",
	       H(p));
	r = F(cuMemFreeHost)(p);
	expect("cuMemFreeHost", r, "'type':'memory','op':'free_host','args':{'p':" HEX "}", H(p));
	r = F(cuMemHostRegister_v2)(buf, sizeof(buf), 2);
	expect("cuMemHostRegister_v2", r,
	       "'type':'memory','op':'register','size':8192,'args':{'p':" HEX
	       ",'bytesize':8192,'Flags':'CU_MEMHOSTREGISTER_DEVICEMAP'}",
	       H(buf));
	r = F(cuMemHostUnregister)(buf);
	expect("cuMemHostUnregister", r, "'type':'memory','op':'unregister','args':{'p':" HEX "}",
	       H(buf));
}

static void pool(void)
{
	struct {
		int type, handles, loc_type, loc_id;
		void *security;
		size_t max;
		uint16_t usage;
		char reserved[54];
	} props = {1, 0, 1, 0, NULL, 0, 0, ""};
	handle s = case_stream(1), own = NULL;
	dptr p = 0;
	int r;

	r = F(cuMemAllocAsync)(&p, (size_t)123456, s);
	expect("cuMemAllocAsync", r,
	       "'type':'memory','op':'alloc_async','size':123456,'ptr':" HEX ",'stream':" HEX
	       ",'args':{'dptr':" HEX ",'bytesize':123456,'hStream':" HEX "}",
	       H(p), H(s), H(p), H(s));
	must("cuMemAllocAsync", r, 0);
	r = F(cuMemFreeAsync)(p, s);
	expect("cuMemFreeAsync", r, "'type':'memory','op':'free_async','ptr':" HEX ",'stream':" HEX,
	       H(p), H(s));
	r = F(cuMemPoolCreate)(&own, &props);
	expect("cuMemPoolCreate", r,
	       "'type':'memory','op':'create','args':{'pool':" HEX
	       ",'poolProps':{'allocType':'CU_MEM_ALLOCATION_TYPE_PINNED'}}",
	       H(own));
	r = F(cuMemAllocFromPoolAsync)(&p, (size_t)777, own, s);
	expect("cuMemAllocFromPoolAsync", r,
	       "'type':'memory','op':'alloc_async','size':777,'args':{'dptr':" HEX ",'pool':" HEX
	       "}",
	       H(p), H(own));
	r = F(cuMemFreeAsync)(p, s);
	expect("cuMemFreeAsync", r, "'type':'memory','op':'free_async','ptr':" HEX, H(p));
	case_stream_sync(s);
	r = F(cuMemPoolDestroy)(own);
	expect("cuMemPoolDestroy", r, "'type':'memory','op':'destroy','args':{'pool':" HEX "}",
	       H(own));
	r = F(cuStreamDestroy_v2)(s);
	expect("cuStreamDestroy_v2", r, "'type':'stream','op':'destroy'");
}

/* Physical memory, an address range, and a mapping of one in the other. */
static void virtual_memory(void)
{
	struct {
		int type, handles, loc_type, loc_id;
		void *meta;
		unsigned char compression, rdma;
		uint16_t usage;
		unsigned char reserved[4];
	} prop = {.type = 1, .loc_type = 1};
	struct {
		int loc_type, loc_id, flags;
	} access = {1, 0, 3};
	size_t size = 4 << 20, granularity = 0;
	uint64_t phys = 0;
	dptr p = 0;
	int r;

	r = F(cuMemGetAllocationGranularity)(&granularity, &prop, 0);
	expect("cuMemGetAllocationGranularity", r, "'op':'query','args':{'granularity':%zu}",
	       granularity);
	r = F(cuMemCreate)(&phys, size, &prop, 0ull);
	expect("cuMemCreate", r,
	       "'type':'memory','op':'create','size':%zu,'args':{'handle':" HEX
	       ",'prop':{'type':'CU_MEM_ALLOCATION_TYPE_PINNED','location':{'type':"
	       "'CU_MEM_LOCATION_TYPE_DEVICE','id':0}}}",
	       size, H(phys));
	must("cuMemCreate", r, 0);
	r = F(cuMemAddressReserve)(&p, size, (size_t)0, (dptr)0, 0ull);
	expect("cuMemAddressReserve", r, "'type':'memory','op':'reserve','size':%zu,'ptr':" HEX,
	       size, H(p));
	r = F(cuMemMap)(p, size, (size_t)0, phys, 0ull);
	expect("cuMemMap", r,
	       "'type':'memory','op':'map','size':%zu,'ptr':" HEX ",'args':{'handle':" HEX "}",
	       size, H(p), H(phys));
	r = F(cuMemSetAccess)(p, size, &access, (size_t)1);
	expect("cuMemSetAccess", r,
	       "'type':'memory','op':'set_access','args':{'ptr':" HEX ",'count':1}", H(p));
	r = F(cuMemUnmap)(p, size);
	expect("cuMemUnmap", r, "'type':'memory','op':'unmap','size':%zu,'ptr':" HEX, size, H(p));
	r = F(cuMemRelease)(phys);
	expect("cuMemRelease", r, "'type':'memory','op':'release','args':{'handle':" HEX "}",
	       H(phys));
	r = F(cuMemAddressFree)(p, size);
	expect("cuMemAddressFree", r, "'type':'memory','op':'unreserve','ptr':" HEX, H(p));
}

static void array(void)
{
	struct {
		size_t width, height;
		unsigned format, channels;
	} desc = {64, 32, 0x20, 2};
	handle a = NULL;
	int r = F(cuArrayCreate_v2)(&a, &desc);

	expect("cuArrayCreate_v2", r,
	       "'type':'memory','op':'alloc_array','size':16384,'args':{'pHandle':" HEX
	       ",'pAllocateArray':{'Width':64,'Height':32,'Format':'CU_AD_FORMAT_FLOAT',"
	       "'NumChannels':2}}",
	       H(a));
	r = F(cuArrayDestroy)(a);
	expect("cuArrayDestroy", r, "'type':'memory','op':'free_array','args':{'hArray':" HEX "}",
	       H(a));
}

int main(void)
{
	dptr p = 0;
	int r;

	case_open();
	r = F(cuMemAlloc_v2)(&p, (size_t)4096);
	expect("cuMemAlloc_v2", r, "'type':'memory','op':'alloc','args':{'bytesize':4096}");
	must("cuMemAlloc_v2 before cuInit", r, NOT_INITIALIZED);
	case_context();
	device();
	managed();
	host();
	pool();
	virtual_memory();
	array();
	return 0;
}
