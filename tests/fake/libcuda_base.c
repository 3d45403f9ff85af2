/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mock libcuda: initialisation, devices, contexts, entry point lookup, handles. */
#include "libcuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OBJ_MAGIC   0xc0da5eed
#define DEVICE_NAME "Mock GPU"

static bool inited;
bool fake_inited(void)
{
	return __atomic_load_n(&inited, __ATOMIC_RELAXED);
}

void base_after_fork(void)
{
	inited = false;
}

/* Handles: a hash set of the live objects, so that any word can be checked. */
static struct obj **objs;
static size_t obj_room, obj_used;
#define OBJ_GONE ((struct obj *)1)

static size_t obj_slot(const void *p, size_t room)
{
	return ((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 20 & (room - 1);
}

static void obj_insert(struct obj **set, size_t room, struct obj *o)
{
	size_t i = obj_slot(o, room);

	while (set[i] && set[i] != OBJ_GONE)
		i = (i + 1) & (room - 1);
	set[i] = o;
}

static struct obj **obj_find(uint64_t handle)
{
	struct obj *o = (struct obj *)(uintptr_t)handle;

	if (!obj_room || handle < 4096)
		return NULL;
	for (size_t i = obj_slot(o, obj_room); objs[i]; i = (i + 1) & (obj_room - 1))
		if (objs[i] == o)
			return &objs[i];
	return NULL;
}

void *obj_new(enum obj_kind kind, size_t size)
{
	struct obj *o = calloc(1, size);

	if (!o)
		abort();
	o->magic = OBJ_MAGIC;
	o->kind = kind;
	if (obj_used * 2 >= obj_room) {
		size_t room = obj_room ? obj_room * 2 : 1024, used = 0;
		struct obj **set = calloc(room, sizeof(*set));

		if (!set)
			abort();
		for (size_t i = 0; i < obj_room; i++)
			if (objs[i] && objs[i] != OBJ_GONE) {
				obj_insert(set, room, objs[i]);
				used++;
			}
		free(objs);
		objs = set;
		obj_room = room;
		obj_used = used;
	}
	obj_insert(objs, obj_room, o);
	obj_used++;
	return o;
}

void *obj_get(uint64_t handle, enum obj_kind kind)
{
	struct obj **o = obj_find(handle);

	return o && (*o)->kind == kind ? *o : NULL;
}

void obj_free(void *obj)
{
	struct obj **o = obj_find((uintptr_t)obj);

	if (o)
		*o = OBJ_GONE;
	free(obj);
}

uint64_t handle_unique(void)
{
	static uint64_t next = 0x555500001000;

	return __atomic_fetch_add(&next, 0x40, __ATOMIC_RELAXED);
}

/* Like the driver (470 to 580): even if cuInit() is going to fail. */
static void load_injection(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *lib = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	int (*init)(void) = lib ? (int (*)(void))dlsym(lib, "InitializeInjection") : NULL;

	if (init)
		init();
}

static int run_init(struct call *c)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_injection);
	if ((uint32_t)c->w[0])
		return E_VALUE;
	__atomic_store_n(&inited, true, __ATOMIC_RELAXED);
	return OK;
}

static int run_driver_version(struct call *c)
{
	return put32(c->w[0], 13000);
}

/* Also for cuGetErrorString: the name serves as the text. */
static int run_error_name(struct call *c)
{
	const char *name = api_result_name(api_at(API_CUDA), (int32_t)c->w[0]);

	/* A tracer in the kernel cannot read a page that was never accessed. */
	if (name)
		*(const volatile char *)name;
	if (put64(c->w[1], (uintptr_t)name))
		return E_VALUE;
	return name ? OK : E_VALUE;
}

static struct {
	uint32_t cnt, at[DEVICE_CNT];
} visible;

static void look_at_devices(void)
{
	const char *s = getenv("CUDA_VISIBLE_DEVICES");

	for (uint32_t i = 0; !s && i < DEVICE_CNT; i++)
		visible.at[visible.cnt++] = i;
	/* Like the driver: only devices before the first invalid one. */
	for (; s && *s >= '0' && *s < '0' + DEVICE_CNT && visible.cnt < DEVICE_CNT;
	     s += s[1] == ',' ? 2 : 1)
		visible.at[visible.cnt++] = *s - '0';
}

uint32_t device_cnt(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look_at_devices);
	return visible.cnt;
}

uint32_t device_at(uint64_t dev)
{
	return visible.at[(uint32_t)dev];
}

static int run_device_get(struct call *c)
{
	return bad_dev(c->w[1]) ? E_NO_DEVICE : put32(c->w[0], c->w[1]);
}

static int run_device_count(struct call *c)
{
	return put32(c->w[0], device_cnt());
}

static int run_device_name(struct call *c)
{
	int len = (int)c->w[1];
	char name[64] = DEVICE_NAME;

	if (bad_dev(c->w[2]))
		return E_NO_DEVICE;
	if (len <= 0)
		return E_VALUE;
	if ((size_t)len < sizeof(name))
		name[len - 1] = 0;
	return put(c->w[0], name, strlen(name) + 1);
}

static int run_total_mem(struct call *c)
{
	return bad_dev(c->w[1]) ? E_NO_DEVICE : put64(c->w[0], 8ull << 30);
}

static int run_device_attr(struct call *c)
{
	static const struct {
		unsigned attr;
		int value;
	} known[] = {
		{1, 1024},    {2, 1024},     {3, 1024},	    {4, 64},	{5, 2147483647},
		{6, 65535},   {7, 65535},    {8, 49152},    {9, 65536}, {10, 32},
		{12, 65536},  {13, 1500000}, {14, 512},	    {16, 132},	{17, 0},
		{20, 0},      {31, 1},	     {36, 2600000}, {37, 5120}, {38, 52428800},
		{39, 2048},   {40, 3},	     {41, 1},	    {75, 9},	{76, 0},
		{81, 233472}, {82, 65536},   {97, 232448},  {106, 32},	{95, 1},
	};
	int value = 1;

	if (bad_dev(c->w[2]))
		return E_NO_DEVICE;
	if ((int)c->w[1] <= 0)
		return E_VALUE;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].attr == (uint32_t)c->w[1])
			value = known[i].value;
	return put32(c->w[0], value);
}

static int run_device_uuid(struct call *c)
{
	unsigned char uuid[16] = {0xfa, 0x4e, 0xc0, 0xd0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

	if (bad_dev(c->w[1]))
		return E_NO_DEVICE;
	uuid[3] = 0xd0 + device_at(c->w[1]);
	return put(c->w[0], uuid, sizeof(uuid));
}

static int run_pci_bus_id(struct call *c)
{
	char id[32];

	if (bad_dev(c->w[2]))
		return E_NO_DEVICE;
	snprintf(id, sizeof(id), "0000:%02X:00.0", (unsigned)device_at(c->w[2]) + 1);
	if ((int)c->w[1] <= (int)strlen(id))
		return E_VALUE;
	return put(c->w[0], id, strlen(id) + 1);
}

static int run_can_access_peer(struct call *c)
{
	return bad_dev(c->w[1]) || bad_dev(c->w[2]) ? E_NO_DEVICE
						    : put32(c->w[0], c->w[1] != c->w[2]);
}

static int run_get_proc(struct call *c)
{
	const char *name = (const char *)(uintptr_t)c->w[0];
	bool exists, v2 = strstr(c->fn->symbol, "_v2") != NULL;
	void *p;

	if (!readable(c->w[0], 1))
		return E_VALUE;
	/* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
	p = fake_newest(name, (int)c->w[2], c->w[3] & 2, &exists);
	if (put64(c->w[1], (uintptr_t)p))
		return E_VALUE;
	/* CU_GET_PROC_ADDRESS_SUCCESS, _SYMBOL_NOT_FOUND, _VERSION_NOT_SUFFICIENT */
	if (v2 && put32_opt(c->w[4], p ? 0 : exists ? 2 : 1))
		return E_VALUE;
	return p ? OK : E_NOT_FOUND;
}

/* The CUDA runtime starts with these tables, and checks that they are those of NVIDIA's driver. */
static int run_export_table(struct call *c)
{
	static bool reported;

	if (getenv("CUDATRACE_FAKE") && !reported)
		fputs("cudatrace fake: the program requests internal tables of NVIDIA's driver: if it "
		      "uses the CUDA runtime, as PyTorch does, it cannot run on the mock driver\n",
		      stderr);
	reported = true;
	return put64(c->w[0], 0) ? E_VALUE : E_NOT_FOUND;
}

static int run_occupancy(struct call *c)
{
	return put32(c->w[0], 8);
}

static int run_undocumented(struct call *c)
{
	uint64_t sum = 0;

	for (int i = 0; i < 6; i++)
		sum += c->w[i];
	return (int)((sum & 0xff) % 7);
}

static int run_callback(struct call *c)
{
	void (*fn)(void *) = (void (*)(void *))(uintptr_t)c->w[0];

	if (!fn)
		return E_VALUE;
	fn((void *)(uintptr_t)c->w[1]);
	return OK;
}

static int run_nest(struct call *c)
{
	int depth = (int)c->w[0];
	uint64_t pitch;

	if (depth > 0) {
		int (*nest)(int, uint64_t) = (int (*)(int, uint64_t))fake_export("cuFakeNest");

		return nest(depth - 1, c->w[1]);
	}
	int (*alloc)(uint64_t, uint64_t *, size_t, size_t, unsigned) = (int (*)(
		uint64_t, uint64_t *, size_t, size_t, unsigned))fake_export("cuMemAllocPitch_v2");
	return alloc ? alloc(c->w[1], &pitch, 100, 10, 4) : E_UNSUPPORTED;
}

static int run_sleep(struct call *c)
{
	uint64_t ns = (uint64_t)(uint32_t)c->w[0] * 1000;
	struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	nanosleep(&ts, NULL);
	return OK;
}

static int run_nothing(struct call *c)
{
	(void)c;
	return OK;
}

const struct impl impl_base[] = {
	{"cuInit", run_init, IMPL_EARLY | IMPL_NOLOCK},
	{"cuDriverGetVersion", run_driver_version, IMPL_EARLY},
	{"cuGetErrorName", run_error_name, IMPL_EARLY},
	{"cuGetErrorString", run_error_name, IMPL_EARLY},
	{"cuGetProcAddress", run_get_proc, IMPL_EARLY},
	{"cuGetProcAddress_v2", run_get_proc, IMPL_EARLY},
	{"cuGetExportTable", run_export_table, IMPL_EARLY},
	{"cuDeviceGet", run_device_get, 0},
	{"cuDeviceGetCount", run_device_count, 0},
	{"cuDeviceGetName", run_device_name, 0},
	{"cuDeviceTotalMem_v2", run_total_mem, 0},
	{"cuDeviceGetAttribute", run_device_attr, 0},
	{"cuDeviceGetUuid", run_device_uuid, 0},
	{"cuDeviceGetUuid_v2", run_device_uuid, 0},
	{"cuDeviceGetPCIBusId", run_pci_bus_id, 0},
	{"cuDeviceCanAccessPeer", run_can_access_peer, 0},
	{"cuOccupancyMaxActiveBlocksPerMultiprocessor", run_occupancy, IMPL_CONTEXT},
	{"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", run_occupancy, IMPL_CONTEXT},
	{"cuFakeUndocumented", run_undocumented, IMPL_NOLOCK},
	{"cuFakeCallback", run_callback, IMPL_NOLOCK},
	{"cuFakeNest", run_nest, IMPL_NOLOCK},
	{"cuFakeSleep", run_sleep, IMPL_NOLOCK},
	{"cuFakeLocked", run_nothing, IMPL_NOLOCK},
	{NULL, NULL, 0},
};
