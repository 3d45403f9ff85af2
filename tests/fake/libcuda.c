/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mock libcuda.so.1: dispatch, counts, injected failures and delays, and the results of all
 * functions without specific behaviour.
 *
 * Environment:
 *   FAKE_CUDA_COUNTS=FILE      at exit, append "SYMBOL COUNT" lines; %p in FILE is the pid
 *   FAKE_TID_COUNTS=FILE       calls of each thread: libcuda_tids.c
 *   FAKE_FAIL=SYM:N[:CODE],... the Nth call of SYM fails with CODE (999); N 0: every call
 *   FAKE_FAULT=KERNEL:CODE     when this kernel (mangled name) ends, its context fails with CODE
 *   FAKE_HANG=KERNEL[:MS]      this kernel ends after so many milliseconds; without MS: never
 *   FAKE_EVENT_HANG=1          a wait for an event that is not recorded does not end
 *   FAKE_DELAY_US=SYM:US,...   delays each call of SYM
 *   FAKE_CALL_NS=NS            delays every call
 *   FAKE_KERNEL_US=US[,KERNEL:US...]  duration of kernels on the simulated timeline (5), and of
 * these FAKE_COPY_GBPS=RATE[,RATE] rate of copies (25), and of those from or to pageable memory,
 * which then return when they are done FAKE_NO_SEM=1              every call only counts and
 * returns 0
 */
#include "libcuda.h"
#include "libcuda_tids.h"
#include "tools.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#ifdef __x86_64__
#define REG_WORDS 6
#else
#define REG_WORDS 8
#endif

static const char *const symbols[] = {
#define FN(sym, cls, op, since, args) #sym,
#include "decode/cuda_api.def"
#undef FN
#define EXTRA(sym)	  #sym,
#define EXTRA_LOCKED(sym) #sym,
#include "libcuda_extra.def"
#undef EXTRA
#undef EXTRA_LOCKED
};
#define SYM_CNT ARRAY_SIZE(symbols)

/* The driver's rows come first: CUDA is the first row of apis.def. */
enum {
#define FN(sym, cls, op, since, args) FN_##sym,
#include "decode/cuda_api.def"
#undef FN
	FN_CNT
};

extern void *const fake_entries[];
/* Used by the entry points. */
uint64_t fake_counts[SYM_CNT];
unsigned char fake_no_sem;
uint32_t fake_state; /* 0x321cba00: shut down */
uint32_t fake_locked_cnt;

static struct {
	const struct impl *impl;
	unsigned fail_cnt, delay_us; /* fail_cnt: number of rules for this function */
	uint64_t seen;
} table[SYM_CNT];

static struct fail {
	unsigned id;
	uint64_t nth;
	int code;
} fails[64];
static unsigned fail_cnt;
static uint64_t call_ns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fake_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fake_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Sleeping overshoots by some 60 us: sleep for most of a long wait and spin for the rest. */
static void pause_until_ns(uint64_t when_ns)
{
	uint64_t now = now_ns();

	if (when_ns > now + 200000) {
		uint64_t t = when_ns - 100000;
		struct timespec ts = {.tv_sec = t / 1000000000, .tv_nsec = t % 1000000000};

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
			;
	}
	while (now_ns() < when_ns)
		;
}

void wait_until_ns(uint64_t when_ns)
{
	if (when_ns <= now_ns())
		return;
	fake_unlock();
	pause_until_ns(when_ns);
	fake_lock();
}

/*
 * A bad pointer from a test program must be an error, not a crash of ours. A check by the kernel
 * takes a microsecond, so the last writable pages are cached.
 */
static __thread uint64_t good_pages[8];
static __thread unsigned good_page_next;

static bool known_page(uint64_t ptr, size_t size)
{
	if ((ptr ^ (ptr + size - 1)) >> 12)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(good_pages); i++)
		if (good_pages[i] == ptr >> 12)
			return true;
	return false;
}

static bool access_self(uint64_t ptr, void *buf, size_t size, bool write)
{
	struct iovec here = {buf, size}, there = {(void *)(uintptr_t)ptr, size};
	ssize_t n;

	if (ptr < 4096 || ptr >> 48) /* 47 bits on x86-64, 48 on arm64 */
		return false;
	if (write && known_page(ptr, size)) {
		memcpy((void *)(uintptr_t)ptr, buf, size);
		return true;
	}
	n = write ? process_vm_writev(getpid(), &here, 1, &there, 1, 0)
		  : process_vm_readv(getpid(), &here, 1, &there, 1, 0);
	if (n < 0 && errno != EFAULT) {
		if (write)
			memcpy((void *)(uintptr_t)ptr, buf, size);
		return true;
	}
	if (n == (ssize_t)size && write)
		good_pages[good_page_next++ % ARRAY_SIZE(good_pages)] = ptr >> 12;
	return n == (ssize_t)size;
}

int put(uint64_t ptr, const void *val, size_t size)
{
	return access_self(ptr, (void *)(uintptr_t)val, size, true) ? OK : E_VALUE;
}

int put64(uint64_t ptr, uint64_t val)
{
	return put(ptr, &val, sizeof(val));
}

int put32(uint64_t ptr, uint32_t val)
{
	return put(ptr, &val, sizeof(val));
}

int put64_opt(uint64_t ptr, uint64_t val)
{
	return ptr ? put64(ptr, val) : OK;
}

int put32_opt(uint64_t ptr, uint32_t val)
{
	return ptr ? put32(ptr, val) : OK;
}

bool readable(uint64_t ptr, size_t size)
{
	char buf[256];

	return access_self(ptr, buf, size < sizeof(buf) ? size : sizeof(buf), false);
}

void *fake_export(const char *sym)
{
	for (size_t i = 0; i < SYM_CNT; i++)
		if (!strcmp(symbols[i], sym))
			return fake_entries[i];
	return NULL;
}

void *fake_newest(const char *name, int version, bool per_thread, bool *exists)
{
	const struct api_fn *best = NULL;
	const struct api_fn *fns = api_fns(&(unsigned){0});
	char thread_form[96];
	void *p;

	*exists = false;
	for (unsigned i = 0; i < FN_CNT; i++) {
		if (fns[i].per_thread || strcmp(fns[i].name, name))
			continue;
		*exists = true;
		if (fns[i].since > version)
			continue;
		/* Between two forms of the same version, the one with the longer suffix is
		 * newer. */
		if (!best || fns[i].since > best->since ||
		    (fns[i].since == best->since && strcmp(fns[i].symbol, best->symbol) > 0))
			best = &fns[i];
	}
	if (!best)
		return NULL;
	if (per_thread) {
		snprintf(thread_form, sizeof(thread_form), "%s_ptsz", best->symbol);
		p = fake_export(thread_form);
		if (p)
			return p;
		snprintf(thread_form, sizeof(thread_form), "%s_ptds", best->symbol);
		p = fake_export(thread_form);
		if (p)
			return p;
	}
	return fake_entries[best - fns];
}

/* The result of a function without specific behaviour: fill the out-parameters of its row. */
static int run_generic(const struct call *c)
{
	const struct api_fn *fn = c->fn;

	for (unsigned i = 0; fn && i < fn->arg_cnt && i < CALL_MAX_WORDS; i++) {
		const struct api_arg *a = &fn->args[i];
		static const char zero[1024];
		size_t size = a->type->size, n;

		if (a->dir < DIR_OUT || a->dir == DIR_INOUT || a->dir == DIR_IN_PTR ||
		    a->dir == DIR_IN_STR || a->dir == DIR_IN_ARR)
			continue;
		if (!c->w[i]) {
			/* The first argument is required; others are optional. */
			if (i == 0)
				return E_VALUE;
			continue;
		}
		switch (a->dir) {
		case DIR_OUT:
			if (size == 8 && (a->type->kind == KIND_HEX || a->type->kind == KIND_PTR))
				n = put64(c->w[i], handle_unique());
			else
				n = put(c->w[i], zero, size < sizeof(zero) ? size : sizeof(zero));
			if (n)
				return E_VALUE;
			break;
		case DIR_OUT_STR:
			if (put(c->w[i], "", 1))
				return E_VALUE;
			break;
		case DIR_OUT_PSTR:
			if (put64(c->w[i], (uint64_t)(uintptr_t) "fake"))
				return E_VALUE;
			break;
		case DIR_OUT_ARR:
			n = (uint32_t)c->w[a->count_arg] * size;
			if (put(c->w[i], zero, n < sizeof(zero) ? n : sizeof(zero)))
				return E_VALUE;
			break;
		}
	}
	return OK;
}

static int injected(unsigned id)
{
	uint64_t nth = __atomic_add_fetch(&table[id].seen, 1, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < fail_cnt; i++)
		if (fails[i].id == id && (!fails[i].nth || fails[i].nth == nth))
			return fails[i].code;
	return OK;
}

static int fault_code;
static uint64_t fault_ns;

void fault_plan(int code, uint64_t when_ns)
{
	if (!fault_code)
		fault_ns = when_ns;
	fault_code = fault_code ? fault_code : code;
}

static int fault_now(const struct impl *impl)
{
	return fault_code && impl && impl->flags & IMPL_CONTEXT && now_ns() >= fault_ns ? fault_code
											: OK;
}

/* Called by the entry points with the register words and the address of the stack words. */
static int dispatch(unsigned id, const uint64_t *regs, const uint64_t *stack)
{
	const struct impl *impl = table[id].impl;
	struct call c = {.id = id};
	unsigned words = 6;
	int err;

	if (id < FN_CNT) {
		c.fn = &api_fns(&(unsigned){0})[id];
		c.per_thread = c.fn->per_thread;
		words = c.fn->arg_cnt < CALL_MAX_WORDS ? c.fn->arg_cnt : CALL_MAX_WORDS;
	}
	for (unsigned i = 0; i < words; i++)
		c.w[i] = i < REG_WORDS ? regs[i] : stack[i - REG_WORDS];

	if (call_ns || table[id].delay_us)
		pause_until_ns(now_ns() + call_ns + table[id].delay_us * 1000ull);
	if (table[id].fail_cnt) {
		err = injected(id);
		if (err)
			return err;
	}
	if (!fake_inited() && id < FN_CNT && !(impl && impl->flags & IMPL_EARLY))
		return E_NOT_INIT;
	if (impl && impl->flags & IMPL_CONTEXT && !ctx_current())
		return E_CONTEXT;
	err = fault_now(impl);
	if (err)
		return err;
	if (impl && impl->flags & IMPL_NOLOCK)
		return impl->run(&c);
	fake_lock();
	err = impl ? impl->run(&c) : run_generic(&c);
	fake_unlock();
	return err ? err : fault_now(impl);
}

/* --- for libcupti --- */

#pragma GCC visibility push(default)
const struct fake_tools *fake_tools;
struct fake_public fake_public;
#pragma GCC visibility pop
static uint32_t last_correlation;
static __thread uint32_t correlation; /* of the current call of this thread */
__thread uint64_t tools_node;

/* The only place that calls dispatch(), which so has no frame of its own in stacks. */
static inline int tools_dispatch(unsigned id, const uint64_t *regs, const uint64_t *stack)
{
	const struct fake_tools *tools = __atomic_load_n(&fake_tools, __ATOMIC_ACQUIRE);
	bool outer = tools && !correlation;
	int err;

	if (outer) {
		correlation = __atomic_add_fetch(&last_correlation, 1, __ATOMIC_RELAXED);
		tools->enter(symbols[id], correlation);
	}
	err = dispatch(id, regs, stack);
	if (outer) {
		tools->leave(correlation);
		correlation = 0;
	}
	return err;
}

void tools_work(const struct stream *s, const struct work *w, uint64_t duration_ns)
{
	const struct fake_tools *tools = __atomic_load_n(&fake_tools, __ATOMIC_ACQUIRE);
	const struct func *f = w->kind == WORK_KERNEL ? func_get(w->func) : NULL;
	uint64_t end = s->busy_until_ns;

	if (!tools || !correlation)
		return;
	tools->work(f			     ? FAKE_KERNEL
		    : w->kind == WORK_MEMSET ? FAKE_MEMSET
					     : FAKE_COPY,
		    f ? f->name : NULL, end - duration_ns, end, correlation, s->number,
		    w->kind == WORK_MEMSET ? w->size * w->height : w->size, copy_kind(w),
		    tools_node);
}

void tools_context(void *ctx, uint32_t device, bool is_new)
{
	const struct fake_tools *tools = __atomic_load_n(&fake_tools, __ATOMIC_ACQUIRE);

	if (!tools)
		return;
	/* A tool may call the driver. */
	fake_unlock();
	tools->context(ctx, device, is_new);
	fake_lock();
}

/* FAKE_NO_SEM, if the entry points must come here to be counted by thread. */
static bool no_sem;
static bool counts_inside; /* FAKE_CUPTI has "strict" */

static __thread uint32_t inside_depth;

static inline void inside_begin(void)
{
	if (!counts_inside)
		return;
	__atomic_fetch_add(&fake_public.entered, 1, __ATOMIC_SEQ_CST);
	if (!inside_depth++)
		__atomic_fetch_add(&fake_public.inside, 1, __ATOMIC_SEQ_CST);
}

static inline void inside_end(void)
{
	if (counts_inside && !--inside_depth)
		__atomic_fetch_sub(&fake_public.inside, 1, __ATOMIC_SEQ_CST);
}

int fake_dispatch(unsigned id, const uint64_t *regs, const uint64_t *stack);
int fake_dispatch(unsigned id, const uint64_t *regs, const uint64_t *stack)
{
	struct tid_count *t = tids_mine();
	int err;

	if (t)
		t->entered++;
	inside_begin();
	err = no_sem ? 0 : tools_dispatch(id, regs, stack);
	inside_end();
	if (t)
		t->returned++;
	return err;
}

static int find_symbol(const char *s, size_t len)
{
	for (size_t i = 0; i < SYM_CNT; i++)
		if (strlen(symbols[i]) == len && !memcmp(symbols[i], s, len))
			return i;
	fprintf(stderr, "fake libcuda: no such function: %.*s\n", (int)len, s);
	return -1;
}

/* SYM:A[:B],SYM:A... */
static void parse_rules(const char *env, bool is_fail)
{
	const char *s = getenv(env);

	while (s && *s) {
		size_t len = strcspn(s, ":,");
		int id = find_symbol(s, len);
		uint64_t a = 0, b = E_UNKNOWN;
		char *end = (char *)s + len;

		if (*end == ':')
			a = strtoull(end + 1, &end, 0);
		if (*end == ':')
			b = strtoull(end + 1, &end, 0);
		if (id >= 0 && is_fail && fail_cnt < ARRAY_SIZE(fails)) {
			fails[fail_cnt++] = (struct fail){id, a, b};
			table[id].fail_cnt++;
		} else if (id >= 0 && !is_fail) {
			table[id].delay_us = a;
		}
		s = end + strcspn(end, ",");
		s += *s == ',';
	}
}

static bool same_but_thread(const char *sym, const char *plain)
{
	size_t n = strlen(plain);

	return !strncmp(sym, plain, n) &&
	       (!sym[n] || !strcmp(sym + n, "_ptsz") || !strcmp(sym + n, "_ptds"));
}

static void bind_impls(const struct impl *impls)
{
	for (; impls->sym; impls++)
		for (size_t i = 0; i < SYM_CNT; i++)
			if (same_but_thread(symbols[i], impls->sym))
				table[i].impl = impls;
}

static void after_fork(void)
{
	/* The count belongs to the parent; the driver is unusable in the child until cuInit. */
	memset(fake_counts, 0, sizeof(fake_counts));
	pthread_mutex_init(&lock, NULL);
	tids_after_fork();
	base_after_fork();
	ctx_after_fork();
	stream_after_fork();
}

__attribute__((constructor)) static void fake_start(void)
{
	const char *s = getenv("FAKE_NO_SEM");

	counts_inside = getenv("FAKE_CUPTI") && strstr(getenv("FAKE_CUPTI"), "strict");
	no_sem = s && *s && *s != '0';
	tids_open();
	fake_no_sem = no_sem && !tids_wanted();
	s = getenv("FAKE_CALL_NS");
	call_ns = s ? strtoull(s, NULL, 0) : 0;
	bind_impls(impl_base);
	bind_impls(impl_ctx);
	bind_impls(impl_mem);
	bind_impls(impl_array);
	bind_impls(impl_copy);
	bind_impls(impl_module);
	bind_impls(impl_stream);
	bind_impls(impl_launch);
	bind_impls(impl_graph);
	parse_rules("FAKE_FAIL", true);
	parse_rules("FAKE_DELAY_US", false);
	pthread_atfork(fake_lock, fake_unlock, after_fork);
}

__attribute__((destructor)) static void fake_end(void)
{
	const char *name = getenv("FAKE_CUDA_COUNTS"), *p;
	char path[4096], *text;
	size_t len = 0, size = SYM_CNT * 96;
	int fd;

	if (!name || !*name)
		return;
	p = strstr(name, "%p");
	if (p)
		snprintf(path, sizeof(path), "%.*s%d%s", (int)(p - name), name, getpid(), p + 2);
	else
		snprintf(path, sizeof(path), "%s", name);
	text = malloc(size);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || !text) {
		fprintf(stderr, "fake libcuda: cannot write %s: %s\n", path, strerror(errno));
		goto out;
	}
	for (size_t i = 0; i < SYM_CNT; i++) {
		uint64_t n = __atomic_load_n(&fake_counts[i], __ATOMIC_RELAXED);

		if (n)
			len += snprintf(text + len, size - len, "%s %llu\n", symbols[i],
					(unsigned long long)n);
	}
	/* One write: several processes may append to the same file. */
	if (write(fd, text, len) != (ssize_t)len)
		fprintf(stderr, "fake libcuda: short write to %s\n", path);
out:
	free(text);
	if (fd >= 0)
		close(fd);
}
