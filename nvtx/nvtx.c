/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The library that NVTX_INJECTION64_PATH names: it has a function for each range call, which does
 * nothing. NVTX 3 consists of headers. A client looks for a tool once, at its first call; without a
 * tool all its later calls do nothing, so that no place for a probe exists.
 *
 * Calls go through a pointer to a function that is exported under the name of the NVTX function;
 * probes are put on it as on libnvToolsExt. The library in the process (inject/) may replace the
 * pointer instead. Handles and ids are counters. If another tool is to be served, too
 * (CT_ENV_NVTX_CHAIN), each call is passed on to that tool, and its handles and ids are returned.
 *
 * Numbers of tables and of their functions: NVTX 3.0.1 to 3.2, nvtxTypes. Each program or library
 * that contains NVTX calls InitializeInjectionNvtx2() separately.
 */
#include "ct_nvtx.h"
#include "sys.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define EXPORT __attribute__((visibility("default"), noinline))

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type, padding;
	const void *message;
};
_Static_assert(sizeof(struct attributes) == 48, "nvtxEventAttributes_v2");
enum { MESSAGE_ASCII = 1, MESSAGE_WIDE = 2 };

enum { CALLBACKS = 1, CORE = 1, CORE2 = 5, MODULE_MAX = 16 };

typedef void (*func)(void);
struct callbacks {
	size_t size;
	int (*module_table)(int module, func ***table, unsigned *cnt);
};
typedef const void *(*table_fn)(uint32_t id);
typedef int (*init_fn)(table_fn get_table);

/* They got new symbol versions when glibc 2.34 merged its libraries. */
#ifdef __x86_64__
#define OLD "GLIBC_2.2.5"
#else
#define OLD "GLIBC_2.17"
#endif
__asm__(".symver dlopen, dlopen@" OLD "\n"
	".symver dlsym, dlsym@" OLD "\n");

static uint64_t new_number(void)
{
	static uint64_t last;

	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

/* Depth of ranges of a thread, over all domains: NVTX returns it to the caller. */
static __thread int level;

static int push_level(void)
{
	return level++;
}

static int pop_level(void)
{
	return level > 0 ? --level : -1;
}

/* FUNC(result, name, table, number, parameters, arguments, result without another tool) */
#define FUNCS                                                                                      \
	FUNC(void, nvtxMarkEx, CORE, 1, (const struct attributes *a), (a), (void)0)                \
	FUNC(void, nvtxMarkA, CORE, 2, (const char *text), (text), (void)0)                        \
	FUNC(uint64_t, nvtxRangeStartEx, CORE, 4, (const struct attributes *a), (a), new_number()) \
	FUNC(uint64_t, nvtxRangeStartA, CORE, 5, (const char *text), (text), new_number())         \
	FUNC(void, nvtxRangeEnd, CORE, 7, (uint64_t id), (id), (void)0)                            \
	FUNC(int, nvtxRangePushEx, CORE, 8, (const struct attributes *a), (a), push_level())       \
	FUNC(int, nvtxRangePushA, CORE, 9, (const char *text), (text), push_level())               \
	FUNC(int, nvtxRangePop, CORE, 11, (void), (), pop_level())                                 \
	FUNC(void, nvtxNameCategoryA, CORE, 12, (uint32_t id, const char *name), (id, name),       \
	     (void)0)                                                                              \
	FUNC(void, nvtxDomainMarkEx, CORE2, 1, (void *domain, const struct attributes *a),         \
	     (domain, a), (void)0)                                                                 \
	FUNC(uint64_t, nvtxDomainRangeStartEx, CORE2, 2,                                           \
	     (void *domain, const struct attributes *a), (domain, a), new_number())                \
	FUNC(void, nvtxDomainRangeEnd, CORE2, 3, (void *domain, uint64_t id), (domain, id),        \
	     (void)0)                                                                              \
	FUNC(int, nvtxDomainRangePushEx, CORE2, 4, (void *domain, const struct attributes *a),     \
	     (domain, a), push_level())                                                            \
	FUNC(int, nvtxDomainRangePop, CORE2, 5, (void *domain), (domain), pop_level())             \
	FUNC(void, nvtxDomainNameCategoryA, CORE2, 8,                                              \
	     (void *domain, uint32_t id, const char *name), (domain, id, name), (void)0)           \
	FUNC(void *, nvtxDomainRegisterStringA, CORE2, 10, (void *domain, const char *text),       \
	     (domain, text), (void *)(uintptr_t)new_number())                                      \
	FUNC(void *, nvtxDomainCreateA, CORE2, 12, (const char *name), (name),                     \
	     (void *)(uintptr_t)new_number())                                                      \
	FUNC(void, nvtxDomainDestroy, CORE2, 14, (void *domain), (domain), (void)0)

/* next: function of the other tool. quiet: what this library does. name: the same, exported for
 * probes. */
#define FUNC(ret, name, module, number, params, args, alone)                                       \
	static ret(*next_##name) params;                                                           \
	static ret quiet_##name params                                                             \
	{                                                                                          \
		return next_##name ? next_##name args : alone;                                     \
	}                                                                                          \
	EXPORT ret name params;                                                                    \
	EXPORT ret name params                                                                     \
	{                                                                                          \
		return quiet_##name args;                                                          \
	}
FUNCS
#undef FUNC

enum {
#define FUNC(ret, name, module, number, params, args, alone) AT_##name,
	FUNCS
#undef FUNC
		FUNC_CNT
};

static void *places[FUNC_CNT] = {
#define FUNC(ret, name, ...) [AT_##name] = (void *)name,
	FUNCS
#undef FUNC
};

static const struct ct_nvtx_func funcs[FUNC_CNT] = {
#define FUNC(ret, name, ...) [AT_##name] = {#name, &places[AT_##name], (void *)quiet_##name},
	FUNCS
#undef FUNC
};

static const struct ct_nvtx_table table = {FUNC_CNT, funcs};

/* --- functions for clients --- */

#define CALL(name) ((__typeof__(&name))__atomic_load_n(&places[AT_##name], __ATOMIC_RELAXED))
#define NARROW_SZ  1024

/* Without a tool, a client that passes a wrong pointer works. All programs need this system call,
 * so that filters permit it. It reads a set of signals there, refuses the action and changes
 * nothing. */
static int is_readable(const void *at)
{
	return sys(SYS_rt_sigprocmask, -1, (uintptr_t)at & ~7ull, 0, 8) != -EFAULT;
}

static int begins_page(const wchar_t *at)
{
	return (uintptr_t)at % 4096 < sizeof(*at);
}

/* Converts wide characters, which have 4 bytes here, to UTF-8; cuts off what does not fit, and at
 * memory that cannot be read. */
static const char *narrow(char to[NARROW_SZ], const wchar_t *text)
{
	char *p = to;

	if (!text)
		return NULL;
	for (const wchar_t *begin = text; p < to + NARROW_SZ - 4; text++) {
		uint32_t c;

		if ((text == begin || begins_page(text)) && !is_readable(text))
			break;
		c = *text;
		if (!c)
			break;

		if (c > 0x10ffff)
			c = 0xfffd;
		if (c < 0x80) {
			*p++ = c;
			continue;
		}
		if (c < 0x800) {
			*p++ = 0xc0 | c >> 6;
		} else {
			if (c < 0x10000) {
				*p++ = 0xe0 | c >> 12;
			} else {
				*p++ = 0xf0 | c >> 18;
				*p++ = 0x80 | (c >> 12 & 63);
			}
			*p++ = 0x80 | (c >> 6 & 63);
		}
		*p++ = 0x80 | (c & 63);
	}
	*p = 0;
	return to;
}

struct narrow_event {
	struct attributes a;
	char text[NARROW_SZ];
};

/* Returns the event with narrow text. */
static const struct attributes *narrow_event(struct narrow_event *to, const struct attributes *a)
{
	if (!a || !is_readable(a) || !is_readable((const char *)(a + 1) - 1) ||
	    a->message_type != MESSAGE_WIDE)
		return a;
	to->a = *a;
	to->a.size = sizeof(to->a);
	to->a.message_type = MESSAGE_ASCII;
	to->a.message = narrow(to->text, a->message);
	return &to->a;
}

#define EVENT(name)                                                                                \
	{                                                                                          \
		struct narrow_event n;                                                             \
                                                                                                   \
		return CALL(name)(narrow_event(&n, a));                                            \
	}
#define DOMAIN_EVENT(name)                                                                         \
	{                                                                                          \
		struct narrow_event n;                                                             \
                                                                                                   \
		return CALL(name)(domain, narrow_event(&n, a));                                    \
	}
#define TEXT(name, ...)                                                                            \
	{                                                                                          \
		char to[NARROW_SZ];                                                                \
                                                                                                   \
		return CALL(name)(__VA_ARGS__);                                                    \
	}

static void mark_ex(const struct attributes *a)
	EVENT(nvtxMarkEx) static void mark_a(const char *text)
{
	CALL(nvtxMarkA)(text);
}
static void mark_w(const wchar_t *text) TEXT(nvtxMarkA, narrow(to, text)) static uint64_t
	start_ex(const struct attributes *a) EVENT(nvtxRangeStartEx) static uint64_t
	start_a(const char *text)
{
	return CALL(nvtxRangeStartA)(text);
}
static uint64_t start_w(const wchar_t *text)
	TEXT(nvtxRangeStartA, narrow(to, text)) static void end(uint64_t id)
{
	CALL(nvtxRangeEnd)(id);
}
static int push_ex(const struct attributes *a)
	EVENT(nvtxRangePushEx) static int push_a(const char *text)
{
	return CALL(nvtxRangePushA)(text);
}
static int push_w(const wchar_t *text) TEXT(nvtxRangePushA, narrow(to, text)) static int pop(void)
{
	return CALL(nvtxRangePop)();
}
static void category_a(uint32_t id, const char *name)
{
	CALL(nvtxNameCategoryA)(id, name);
}
static void category_w(uint32_t id, const wchar_t *name)
	TEXT(nvtxNameCategoryA, id,
	     narrow(to, name)) static void domain_mark(void *domain, const struct attributes *a)
		DOMAIN_EVENT(nvtxDomainMarkEx) static uint64_t
	domain_start(void *domain, const struct attributes *a)
		DOMAIN_EVENT(nvtxDomainRangeStartEx) static void domain_end(void *domain,
									    uint64_t id)
{
	CALL(nvtxDomainRangeEnd)(domain, id);
}
static int domain_push(void *domain, const struct attributes *a)
	DOMAIN_EVENT(nvtxDomainRangePushEx) static int domain_pop(void *domain)
{
	return CALL(nvtxDomainRangePop)(domain);
}
static void domain_category_a(void *domain, uint32_t id, const char *name)
{
	CALL(nvtxDomainNameCategoryA)(domain, id, name);
}
static void domain_category_w(void *domain, uint32_t id, const wchar_t *name)
	TEXT(nvtxDomainNameCategoryA, domain, id,
	     narrow(to, name)) static void *string_a(void *domain, const char *text)
{
	return CALL(nvtxDomainRegisterStringA)(domain, text);
}
static void *string_w(void *domain, const wchar_t *text)
	TEXT(nvtxDomainRegisterStringA, domain,
	     narrow(to, text)) static void *create_a(const char *name)
{
	return CALL(nvtxDomainCreateA)(name);
}
static void *create_w(const wchar_t *name)
	TEXT(nvtxDomainCreateA, narrow(to, name)) static void destroy(void *domain)
{
	CALL(nvtxDomainDestroy)(domain);
}

static const struct hook {
	int module;
	unsigned number;
	void *f;
	void **next; /* the other tool's function; NULL: the call is passed on with narrow text */
} hooks[] = {
	{CORE, 1, (void *)mark_ex, (void **)&next_nvtxMarkEx},
	{CORE, 2, (void *)mark_a, (void **)&next_nvtxMarkA},
	{CORE, 3, (void *)mark_w, NULL},
	{CORE, 4, (void *)start_ex, (void **)&next_nvtxRangeStartEx},
	{CORE, 5, (void *)start_a, (void **)&next_nvtxRangeStartA},
	{CORE, 6, (void *)start_w, NULL},
	{CORE, 7, (void *)end, (void **)&next_nvtxRangeEnd},
	{CORE, 8, (void *)push_ex, (void **)&next_nvtxRangePushEx},
	{CORE, 9, (void *)push_a, (void **)&next_nvtxRangePushA},
	{CORE, 10, (void *)push_w, NULL},
	{CORE, 11, (void *)pop, (void **)&next_nvtxRangePop},
	{CORE, 12, (void *)category_a, (void **)&next_nvtxNameCategoryA},
	{CORE, 13, (void *)category_w, NULL},
	{CORE2, 1, (void *)domain_mark, (void **)&next_nvtxDomainMarkEx},
	{CORE2, 2, (void *)domain_start, (void **)&next_nvtxDomainRangeStartEx},
	{CORE2, 3, (void *)domain_end, (void **)&next_nvtxDomainRangeEnd},
	{CORE2, 4, (void *)domain_push, (void **)&next_nvtxDomainRangePushEx},
	{CORE2, 5, (void *)domain_pop, (void **)&next_nvtxDomainRangePop},
	{CORE2, 8, (void *)domain_category_a, (void **)&next_nvtxDomainNameCategoryA},
	{CORE2, 9, (void *)domain_category_w, NULL},
	{CORE2, 10, (void *)string_a, (void **)&next_nvtxDomainRegisterStringA},
	{CORE2, 11, (void *)string_w, NULL},
	{CORE2, 12, (void *)create_a, (void **)&next_nvtxDomainCreateA},
	{CORE2, 13, (void *)create_w, NULL},
	{CORE2, 14, (void *)destroy, (void **)&next_nvtxDomainDestroy},
};

/* --- initialization --- */

/* Where a client stores its pointer to a function; NULL: nowhere. */
static func *slot_of(const struct callbacks *cb, const struct hook *o)
{
	func **slots;
	unsigned cnt;

	return cb->module_table(o->module, &slots, &cnt) && o->number < cnt ? slots[o->number]
									    : NULL;
}

static init_fn other_tool(void)
{
	const char *path = getenv(CT_ENV_NVTX_CHAIN);
	void *lib = path && *path ? dlopen(path, RTLD_LAZY) : NULL;

	return lib ? (init_fn)dlsym(lib, "InitializeInjectionNvtx2") : NULL;
}

/* The function that the other tool stored there is called after ours. */
static void serve_other(init_fn init, table_fn get_table, const struct callbacks *cb)
{
	enum { CNT = sizeof(hooks) / sizeof(hooks[0]) };
	func was[CNT];

	for (unsigned i = 0; i < CNT; i++) {
		func *slot = slot_of(cb, &hooks[i]);

		was[i] = slot ? *slot : NULL;
	}
	if (!init(get_table))
		return;
	for (unsigned i = 0; i < CNT; i++) {
		func *slot = slot_of(cb, &hooks[i]);

		if (hooks[i].next && slot && *slot != was[i])
			__atomic_store_n(hooks[i].next, (void *)*slot, __ATOMIC_RELEASE);
	}
}

/* The library in the process, preloaded or loaded by the driver. */
static void offer(void)
{
	static uint32_t offered;
	const char *path = getenv("CUDA_INJECTION64_PATH");
	ct_nvtx_offer_fn to;
	void *lib;

	if (__atomic_exchange_n(&offered, 1, __ATOMIC_ACQ_REL))
		return;
	to = (ct_nvtx_offer_fn)dlsym(RTLD_DEFAULT, CT_NVTX_OFFER);
	lib = !to && path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (lib)
		to = (ct_nvtx_offer_fn)dlsym(lib, CT_NVTX_OFFER);
	if (to)
		to(&table);
}

EXPORT int InitializeInjectionNvtx2(table_fn get_table);
EXPORT int InitializeInjectionNvtx2(table_fn get_table)
{
	const struct callbacks *cb = get_table(CALLBACKS);
	init_fn other = other_tool();

	if (!cb || cb->size < sizeof(*cb))
		return 0;
	offer();
	if (other)
		serve_other(other, get_table, cb);
	for (unsigned i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++) {
		func *slot = slot_of(cb, &hooks[i]);

		if (slot)
			*slot = (func)hooks[i].f;
	}
	return 1;
}
