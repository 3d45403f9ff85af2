/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * As much of an NVTX 3 client as the tests need, where NVIDIA's headers are not there: it looks for
 * a tool at the first call, as those do, and does nothing for good when there is none. Its pointers
 * are in a structure of the same layout. With
 * NVTX_EXPORTS functions are those of a library of that name instead, as with NVTX 2. With
 * -DCLIENT_API= it is such a library itself, which looks for a tool, as CuPy's is.
 */
#ifndef TESTS_NVTX_CLIENT_H
#define TESTS_NVTX_CLIENT_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

#ifdef CLIENT_API
#define CLIENT_EXPORTS NULL
#else
#define CLIENT_API     static __attribute__((unused))
#define CLIENT_EXPORTS getenv("NVTX_EXPORTS")
#endif

typedef uint64_t nvtxRangeId_t;
typedef void *nvtxDomainHandle_t;
typedef void *nvtxStringHandle_t;
typedef struct {
	uint16_t version, size;
	uint32_t category;
	int32_t colorType;
	uint32_t color;
	int32_t payloadType, reserved0;
	union {
		uint64_t ullValue;
		int64_t llValue;
		double dValue;
		uint32_t uiValue;
	} payload;
	int32_t messageType;
	union {
		const char *ascii;
		const wchar_t *unicode;
		nvtxStringHandle_t registered;
	} message;
} nvtxEventAttributes_t;
#define NVTX_VERSION			 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE	 sizeof(nvtxEventAttributes_t)
#define NVTX_COLOR_ARGB			 1
#define NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 1
#define NVTX_PAYLOAD_TYPE_DOUBLE	 3
#define NVTX_MESSAGE_TYPE_ASCII		 1
#define NVTX_MESSAGE_TYPE_UNICODE	 2
#define NVTX_MESSAGE_TYPE_REGISTERED	 3

/* result, name, table, number in it, parameters, arguments, result without a tool */
#define CLIENT(F)                                                                                  \
	F(void, nvtxMarkEx, 1, 1, (const nvtxEventAttributes_t *a), (a), )                         \
	F(void, nvtxMarkA, 1, 2, (const char *s), (s), )                                           \
	F(nvtxRangeId_t, nvtxRangeStartEx, 1, 4, (const nvtxEventAttributes_t *a), (a), 0)         \
	F(nvtxRangeId_t, nvtxRangeStartA, 1, 5, (const char *s), (s), 0)                           \
	F(void, nvtxRangeEnd, 1, 7, (nvtxRangeId_t id), (id), )                                    \
	F(int, nvtxRangePushEx, 1, 8, (const nvtxEventAttributes_t *a), (a), -2)                   \
	F(int, nvtxRangePushA, 1, 9, (const char *s), (s), -2)                                     \
	F(int, nvtxRangePushW, 1, 10, (const wchar_t *s), (s), -2)                                 \
	F(int, nvtxRangePop, 1, 11, (void), (), -2)                                                \
	F(void, nvtxNameCategoryA, 1, 12, (uint32_t n, const char *s), (n, s), )                   \
	F(void, nvtxNameOsThreadA, 1, 14, (uint32_t n, const char *s), (n, s), )                   \
	F(void, nvtxDomainMarkEx, 5, 1, (nvtxDomainHandle_t d, const nvtxEventAttributes_t *a),    \
	  (d, a), )                                                                                \
	F(int, nvtxDomainRangePushEx, 5, 4,                                                        \
	  (nvtxDomainHandle_t d, const nvtxEventAttributes_t *a), (d, a), -2)                      \
	F(int, nvtxDomainRangePop, 5, 5, (nvtxDomainHandle_t d), (d), -2)                          \
	F(void, nvtxDomainNameCategoryA, 5, 8, (nvtxDomainHandle_t d, uint32_t n, const char *s),  \
	  (d, n, s), )                                                                             \
	F(nvtxStringHandle_t, nvtxDomainRegisterStringA, 5, 10,                                    \
	  (nvtxDomainHandle_t d, const char *s), (d, s), NULL)                                     \
	F(nvtxDomainHandle_t, nvtxDomainCreateA, 5, 12, (const char *s), (s), NULL)                \
	F(void, nvtxDomainDestroy, 5, 14, (nvtxDomainHandle_t d), (d), )

static void client_init(void);

typedef void (*client_fn)(void);
static int client_module(int module, client_fn ***table, unsigned *cnt);
static void client_version(uint32_t version);

/* Of functions of table 1 and 5. */
#define CLIENT_AT(table, n)				   ((table) == 1 ? (n)-1 : 43 + (n)-1)
#define FIRST_OF(ret, name, table, n, params, args, alone) static ret client_first_##name params;
CLIENT(FIRST_OF)
#define FN_OF(ret, name, table, n, params, args, alone)                                            \
	[CLIENT_AT(table, n)] = (client_fn)client_first_##name,
#define CORE_OF(n) &client_globals.fns[n]
static struct {
	volatile uint32_t state;
	struct client_callbacks {
		size_t size;
		int (*module)(int, client_fn ***, unsigned *);
	} callbacks;
	struct {
		size_t size;
		uint32_t version, reserved;
		void (*set)(uint32_t);
	} version;
	client_fn fns[64], *core[17];
} client_globals = {
	.callbacks = {sizeof(struct client_callbacks), client_module},
	.version = {24, NVTX_VERSION, 0, client_version},
	.fns = {CLIENT(FN_OF)},
	.core = {NULL, CORE_OF(0), CORE_OF(1), CORE_OF(2), CORE_OF(3), CORE_OF(4), CORE_OF(5),
		 CORE_OF(6), CORE_OF(7), CORE_OF(8), CORE_OF(9), CORE_OF(10), CORE_OF(11),
		 CORE_OF(12), CORE_OF(13), CORE_OF(14), NULL},
};
#define CLIENT_FN(table, n) client_globals.fns[CLIENT_AT(table, n)]
#define FIRST(ret, name, table, n, params, args, alone)                                            \
	CLIENT_API ret name params                                                                 \
	{                                                                                          \
		ret(*fn) params =                                                                  \
			(ret(*) params)__atomic_load_n(&CLIENT_FN(table, n), __ATOMIC_RELAXED);    \
                                                                                                   \
		if (!fn)                                                                           \
			return alone;                                                              \
		return fn args;                                                                    \
	}                                                                                          \
	static ret client_first_##name params                                                      \
	{                                                                                          \
		client_init();                                                                     \
		return name args;                                                                  \
	}
CLIENT(FIRST)

static client_fn *client_tables[8][17] = {
#define SLOT(ret, name, table, n, params, args, alone) [table][n] = &CLIENT_FN(table, n),
	CLIENT(SLOT)};

static void client_version(uint32_t version)
{
	(void)version;
}

static int client_module(int module, client_fn ***table, unsigned *cnt)
{
	if (module < 1 || module > 6)
		return 0;
	*table = client_tables[module];
	*cnt = module == 1 || module == 5 ? 16 : 0;
	return 1;
}

static const void *client_table(uint32_t id)
{
	return id == 1 ? &client_globals.callbacks : NULL;
}

static void client_init(void)
{
	const char *exports = CLIENT_EXPORTS, *path = getenv("NVTX_INJECTION64_PATH");
	void *lib = exports ? dlopen(exports, RTLD_NOW) : path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*init)(const void *(*)(uint32_t)) =
		lib && !exports
			? (int (*)(const void *(*)(uint32_t)))dlsym(lib, "InitializeInjectionNvtx2")
			: NULL;
	int ok = init && init(client_table);

	(void)ok;
#define SETTLE(ret, name, table, n, params, args, alone)                                           \
	if (exports && lib)                                                                        \
		CLIENT_FN(table, n) = (client_fn)dlsym(lib, #name);                                \
	if (CLIENT_FN(table, n) == (client_fn)client_first_##name)                                 \
		CLIENT_FN(table, n) = NULL;
	CLIENT(SETTLE)
	client_globals.state = 2;
}

#endif /* TESTS_NVTX_CLIENT_H */
