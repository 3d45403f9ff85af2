/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ranges and marks around allocations with distinct sizes, as test_nvtx.py expects. With
 * NVIDIA's headers (-DREAL_NVTX) or those of client.h. */
#ifdef REAL_NVTX
#include <nvtx3/nvToolsExt.h>
#else
#include "client.h"
#endif

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int (*alloc)(uint64_t *, size_t);
static int (*free_it)(uint64_t), (*sync_all)(void);

/* A call that its size names. */
static void call(unsigned n)
{
	uint64_t p = 0;

	alloc(&p, 1000 + n);
	free_it(p);
}

static void cuda(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
	int (*init)(unsigned) = lib ? (int (*)(unsigned))dlsym(lib, "cuInit") : NULL;
	int (*retain)(void **, int) =
		lib ? (int (*)(void **, int))dlsym(lib, "cuDevicePrimaryCtxRetain") : NULL;
	int (*current)(void *) = lib ? (int (*)(void *))dlsym(lib, "cuCtxSetCurrent") : NULL;

	if (!init || init(0) || retain(&ctx, 0) || current(ctx))
		exit(3);
	alloc = (int (*)(uint64_t *, size_t))dlsym(lib, "cuMemAlloc_v2");
	free_it = (int (*)(uint64_t))dlsym(lib, "cuMemFree_v2");
	sync_all = (int (*)(void))dlsym(lib, "cuCtxSynchronize");
}

static nvtxEventAttributes_t event_of(const char *text)
{
	nvtxEventAttributes_t a = {0};

	a.version = NVTX_VERSION;
	a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	a.messageType = NVTX_MESSAGE_TYPE_ASCII;
	a.message.ascii = text;
	return a;
}

static void plain(void)
{
	nvtxEventAttributes_t a = event_of("inner");

	nvtxNameCategoryA(7, "seven");
	nvtxRangePushA("outer");
	call(1);
	a.category = 7;
	a.colorType = NVTX_COLOR_ARGB;
	a.color = 0xff8000;
	a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
	a.payload.ullValue = UINT64_MAX - 1;
	nvtxRangePushEx(&a);
	call(2);
	a = event_of("marked");
	a.category = 8;
	a.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
	a.payload.dValue = 0.5;
	nvtxMarkEx(&a);
	nvtxMarkA("marked, too");
	nvtxRangePop();
	call(3);
	nvtxRangePop();
	call(4);
	nvtxRangePop();
}

/* Ranges of domains end by themselves, in whatever order. */
static void domains(void)
{
	nvtxDomainHandle_t d = nvtxDomainCreateA("my.domain");
	nvtxEventAttributes_t a = event_of(NULL);

	nvtxDomainNameCategoryA(d, 7, "another seven");
	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = nvtxDomainRegisterStringA(d, "registered \xe2\x98\x83");
	a.category = 7;
	nvtxDomainRangePushEx(d, &a);
	nvtxRangePushA("default");
	call(5);
	nvtxDomainRangePop(d);
	call(6);
	nvtxDomainMarkEx(d, &a);
	nvtxRangePop();
	nvtxDomainDestroy(d);
}

static void *end_it(void *id)
{
	call(8);
	nvtxRangeEnd((uintptr_t)id);
	return NULL;
}

static void started(void)
{
	nvtxRangeId_t first = nvtxRangeStartA("first"), second = nvtxRangeStartA("second");
	pthread_t t;

	call(7);
	pthread_create(&t, NULL, end_it, (void *)(uintptr_t)first);
	pthread_join(t, NULL);
	call(9);
	nvtxRangeEnd(second);
	nvtxRangeEnd(second);
}

/* As NCCL does: ids of schemas are its own. */
static void payloads(void)
{
	nvtxDomainHandle_t d = nvtxDomainCreateA("NCCL");
	uint64_t data[3] = {0xabcdef0123456789, 4096, 1};
	struct {
		uint64_t schema, size;
		const void *data;
	} entry = {0x1000005, sizeof(data), data};
	nvtxEventAttributes_t a = event_of("ncclAllReduce");

	a.payloadType = (int32_t)0xdfbd0009;
	a.reserved0 = 1;
	a.payload.ullValue = (uintptr_t)&entry;
	nvtxDomainRangePushEx(d, &a);
	call(10);
	nvtxDomainRangePop(d);
}

static void hostile(void)
{
	nvtxEventAttributes_t a = event_of("x");
	char text[5000];

	nvtxRangePushA("\"</script><b>\x01\x7f\xff\xfe\n;\\ \xed\xa0\x80");
	call(11);
	memset(text, 'L', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	nvtxRangePushA(text);
	nvtxRangePushA(NULL);
	a.messageType = 99;
	nvtxRangePushEx(&a);
	/* An invalid pointer, which must not be dereferenced. */
	a.messageType = NVTX_MESSAGE_TYPE_ASCII;
	a.message.ascii = (const char *)16;
	a.payloadType = (int32_t)0xdfbd0009;
	a.reserved0 = 1;
	a.payload.ullValue = 16;
	nvtxRangePushEx(&a);
	call(12);
	for (int i = 0; i < 5; i++)
		nvtxRangePop();
	for (int i = 0; i < 300; i++)
		nvtxRangePushA("deep");
	for (int i = 0; i < 300; i++)
		nvtxRangePop();
}

static void wide(void)
{
	nvtxEventAttributes_t a = event_of(NULL);

	nvtxRangePushW(L"wide \u2603 \U0001f600");
	a.messageType = NVTX_MESSAGE_TYPE_UNICODE;
	a.message.unicode = L"wide, too";
	nvtxRangePushEx(&a);
	call(13);
	nvtxRangePop();
	nvtxRangePop();
}

/* A page's last word is no NUL, and the next page is missing. */
static void unterminated(void)
{
	long *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	wchar_t *text = (wchar_t *)(page + 512) - 4;

	munmap(page + 512, 4096);
	memcpy(text, L"open", 16);
	nvtxRangePushW(text);
	nvtxRangePushW((wchar_t *)(page + 512));
	nvtxRangePushEx((nvtxEventAttributes_t *)(page + 512));
	nvtxRangePushEx((nvtxEventAttributes_t *)((char *)(page + 512) - 24));
	call(14);
	for (int i = 0; i < 4; i++)
		nvtxRangePop();
}

static void many(int cnt)
{
	for (int i = 0; i < cnt; i++) {
		char text[32];

		snprintf(text, sizeof(text), "step %d", i);
		nvtxRangePushA(text);
		call(i);
		nvtxRangePop();
	}
}

int main(int argc, char **argv)
{
	int cnt = argc > 2 ? atoi(argv[2]) : 1;
	const char *what = argc > 1 ? argv[1] : "all";
	bool all = !strcmp(what, "all");
	struct pollfd in = {.events = POLLIN};

	/* A range may begin before the driver is there. */
	if (!strcmp(what, "early"))
		nvtxRangePushA("early");
	/* For a late attach: exports exist, and calls wait for a line on stdin. A library may enter
	 * at each call meanwhile. */
	if (!strcmp(what, "late")) {
		nvtxMarkA("before");
		cuda();
		puts("ready");
		fflush(stdout);
		while (!poll(&in, 1, 20))
			sync_all();
	} else {
		cuda();
	}
	if (all || !strcmp(what, "plain") || !strcmp(what, "late"))
		plain();
	if (all || !strcmp(what, "domains"))
		domains();
	if (all || !strcmp(what, "started"))
		started();
	if (all || !strcmp(what, "payloads"))
		payloads();
	if (all || !strcmp(what, "hostile"))
		hostile();
	if (all || !strcmp(what, "wide"))
		wide();
	if (!strcmp(what, "unterminated"))
		unterminated();
	if (!strcmp(what, "thread"))
		nvtxNameOsThreadA(1, "a thread");
	if (!strcmp(what, "many"))
		many(cnt);
	if (!strcmp(what, "early"))
		call(14);
	if (all) {
		nvtxRangePushA("never");
		call(15);
	}
	return 0;
}
