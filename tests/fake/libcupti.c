/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mock libcupti.so.13: activity records of the work of the mock libcuda, in buffers like in
 * CUPTI 12.9 and 13.0; callbacks of calls; one subscriber.
 *
 * Environment, words with commas between:
 *   FAKE_CUPTI=taken      another tool has subscribed already
 *              old, bad   a version that is too old, or known to be faulty
 *              fail       no activity can be enabled
 *              registers  kernels have 96 registers and 2 KiB of static shared memory
 *              untimed    each tenth record has no times
 *              drop       each tenth record is dropped
 *              nocall     there are no callbacks
 *              late       records come when a buffer is full and at the end
 *              junk       with records of unrequested kinds in between
 *              strict     aborts as CUPTI may: if its first start, which takes 30 ms, meets a
 *                         thread in the driver; if GRAPH_TRACE is enabled after a graph was
 *                         instantiated, at the next launch of a graph; if it is finalized; if
 *                         it is called after its own handler at the exit
 *              pc-...     of PC sampling: libcupti_pc.c
 *              pm-...     of PM sampling: libcupti_pm.c
 *   FAKE_CUPTI_COUNTS=FILE  at exit: number of delivered kernels, copies, memsets, graphs
 */
#include "cupti.h"
#include "libcupti.h"
#include "tools.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KINDS 64

enum { KERNEL, COPY, MEMSET, GRAPH, WHAT_CNT };

/* Sizes of CUPTI 13.0's structs. */
static const struct {
	uint32_t kind, size;
} forms[WHAT_CNT] = {
	[KERNEL] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 208},
	[COPY] = {CUPTI_ACTIVITY_KIND_MEMCPY, 88},
	[MEMSET] = {CUPTI_ACTIVITY_KIND_MEMSET, 88},
	[GRAPH] = {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 56},
};
#define JUNK_KIND 38
#define JUNK_SZ	  40

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool enabled[KINDS], asked[1024];
static cupti_request_fn *request;
static cupti_complete_fn *complete;
static cupti_call_fn *callback;
static uint8_t *buf;
static size_t buf_sz, buf_len;
static uint64_t made, dropped, delivered[WHAT_CNT];
/* The current graph launch of a thread, which can have only one. */
static __thread struct {
	uint64_t start, end;
	uint32_t stream;
} graph;

bool cupti_wants(const char *word)
{
	const char *s = getenv("FAKE_CUPTI");
	size_t len = strlen(word);

	for (; s && *s; s += strcspn(s, ","), s += *s == ',')
		if (!strncmp(s, word, len) && (!s[len] || s[len] == ','))
			return true;
	return false;
}

static void fatal(const char *why)
{
	fprintf(stderr, "libcupti: %s\n", why);
	abort();
}

static const struct fake_public *driver(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	return lib ? dlsym(lib, "fake_public") : NULL;
}

/* The first start takes 30 ms. */
static void be_alone(void)
{
	const struct fake_public *d = driver();
	const struct timespec ms = {.tv_nsec = 1000000};
	static bool is_warm;
	uint32_t entered = d ? __atomic_load_n(&d->entered, __ATOMIC_SEQ_CST) : 0;

	for (int i = 0; d && !is_warm && i < 30; i++) {
		if (__atomic_load_n(&d->inside, __ATOMIC_SEQ_CST) ||
		    __atomic_load_n(&d->entered, __ATOMIC_SEQ_CST) != entered)
			fatal("started while a thread is in the driver");
		nanosleep(&ms, NULL);
	}
	is_warm = true;
}

static bool late_graphs;

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* CUPTI's time for a time of the driver. With the lock held. */
static uint64_t real(uint64_t ns)
{
	static uint64_t offset;
	uint64_t best = UINT64_MAX, at_best = 0;

	for (int i = 0; !offset && i < 100; i++) {
		uint64_t before = clock_ns(CLOCK_MONOTONIC), ts = clock_ns(CLOCK_REALTIME);
		uint64_t took = clock_ns(CLOCK_MONOTONIC) - before;

		if (took >= best)
			continue;
		best = took;
		at_best = ts - before - took / 2;
	}
	if (!offset)
		offset = at_best;
	return ns + offset;
}

/* With the lock held, which is released for the callback. */
static void give_buf(void)
{
	uint8_t *b = buf;
	size_t size = buf_sz, len = buf_len;

	buf = NULL;
	buf_len = 0;
	if (!b)
		return;
	pthread_mutex_unlock(&lock);
	complete(NULL, 0, b, size, len);
	pthread_mutex_lock(&lock);
}

static void put(const uint8_t *rec, size_t size)
{
	size_t max = 0;

	if (buf && buf_len + size > buf_sz)
		give_buf();
	if (!buf) {
		request(&buf, &buf_sz, &max);
		buf_len = 0;
	}
	if (!buf || size > buf_sz) {
		dropped++;
		return;
	}
	memcpy(buf + buf_len, rec, size);
	buf_len += size;
}

/* With the lock held. As in CUPTI, a name is kept when its module is unloaded. */
static const char *kept(const char *name)
{
	static struct name {
		struct name *next;
		char text[];
	} * names;
	struct name *n;

	for (n = names; n; n = n->next)
		if (!strcmp(n->text, name))
			return n->text;
	n = malloc(sizeof(*n) + strlen(name) + 1);
	strcpy(n->text, name);
	n->next = names;
	names = n;
	return n->text;
}

static void put32(uint8_t *rec, size_t at, uint32_t v)
{
	memcpy(rec + at, &v, sizeof(v));
}

static void put64(uint8_t *rec, size_t at, uint64_t v)
{
	memcpy(rec + at, &v, sizeof(v));
}

static void deliver(int what, const char *name, uint64_t start, uint64_t end, uint32_t correlation,
		    uint32_t stream, uint64_t bytes, uint8_t kind, uint64_t node)
{
	uint8_t rec[256] = {0}, junk[JUNK_SZ] = {JUNK_KIND};
	bool is_graph = what == GRAPH;

	pthread_mutex_lock(&lock);
	made++;
	if (cupti_wants("drop") && made % 10 == 0) {
		dropped++;
		goto out;
	}
	put32(rec, 0, forms[what].kind);
	if (!(cupti_wants("untimed") && made % 10 == 0)) {
		put64(rec, is_graph ? 8 : 16, real(start));
		put64(rec, is_graph ? 16 : 24, real(end));
	}
	switch (what) {
	case KERNEL:
		put32(rec, 44, 1);
		put32(rec, 48, stream);
		put32(rec, 92, correlation);
		put64(rec, 104, (uintptr_t)kept(name));
		put64(rec, 144, node);
		if (cupti_wants("registers")) {
			rec[6] = 96;
			put32(rec, 76, 2048);
		}
		break;
	case GRAPH:
		put32(rec, 4, correlation);
		put32(rec, 32, 1);
		put32(rec, 36, stream);
		break;
	default:
		rec[4] = kind;
		put64(rec, 8, bytes);
		put32(rec, 36, 1);
		put32(rec, 40, stream);
		put32(rec, 44, correlation);
		put64(rec, 64, node);
	}
	if (cupti_wants("junk"))
		put(junk, sizeof(junk));
	put(rec, forms[what].size);
	delivered[what]++;
out:
	pthread_mutex_unlock(&lock);
}

/* --- notifications by the driver --- */

static void on_enter(const char *symbol, uint32_t correlation)
{
	static const struct {
		const char *name;
		uint16_t id;
	} cbids[] = {
#define CBID(name, number) {#name, number},
#include "cupti_cbids.def"
	};
	struct cupti_call c = {
		.site = CUPTI_API_ENTER, .function = symbol, .correlation = correlation};
	/* Read once: cuptiUnsubscribe() may run between two reads. */
	cupti_call_fn *fn = __atomic_load_n(&callback, __ATOMIC_ACQUIRE);

	graph.start = 0;
	for (size_t i = 0; fn && i < sizeof(cbids) / sizeof(*cbids); i++) {
		if (!asked[cbids[i].id] || strcmp(cbids[i].name, symbol))
			continue;
		fn(NULL, CUPTI_CB_DOMAIN_DRIVER_API, cbids[i].id, &c);
		c.site = !CUPTI_API_ENTER;
		fn(NULL, CUPTI_CB_DOMAIN_DRIVER_API, cbids[i].id, &c);
		return;
	}
}

static void on_leave(uint32_t correlation)
{
	if (graph.start)
		deliver(GRAPH, NULL, graph.start, graph.end, correlation, graph.stream, 0, 0, 0);
	graph.start = 0;
}

static void on_work(enum fake_work what, const char *name, uint64_t start, uint64_t end,
		    uint32_t correlation, uint32_t stream, uint64_t bytes, uint8_t kind,
		    uint64_t node)
{
	if (what == FAKE_KERNEL)
		pc_kernel(name);
	if (node && late_graphs)
		fatal("GRAPH_TRACE, and a graph that was instantiated before");
	if (node && enabled[CUPTI_ACTIVITY_KIND_GRAPH_TRACE]) {
		if (!graph.start)
			graph.start = start;
		graph.end = end;
		graph.stream = stream;
		return;
	}
	if (enabled[forms[what].kind])
		deliver(what, name, start, end, correlation, stream, bytes, kind, node);
}

static const struct fake_tools tools = {on_enter, on_leave, on_work, pc_context};

static void report_driver(const struct fake_tools *t)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	const struct fake_tools **at = lib ? dlsym(lib, "fake_tools") : NULL;

	if (at)
		__atomic_store_n(at, t, __ATOMIC_RELEASE);
}

/* --- CUPTI --- */

EXPORT int cuptiGetVersion(uint32_t *version)
{
	*version = cupti_wants("old") ? 16 : cupti_wants("bad") ? 22 : 130000;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiGetTimestamp(uint64_t *ns)
{
	*ns = clock_ns(CLOCK_REALTIME);
	return CUPTI_SUCCESS;
}

static bool is_over;

static void set_over(void)
{
	is_over = true;
}

static void must_not_be_over(void)
{
	if (is_over)
		abort();
}

EXPORT int cuptiSubscribe(void **subscriber, cupti_call_fn *fn, void *user)
{
	static bool has_exit;

	(void)user;
	if (cupti_wants("taken") || callback)
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	if (cupti_wants("strict")) {
		be_alone();
		has_exit = has_exit || !atexit(set_over);
	}
	callback = fn;
	*subscriber = &callback;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiSubscribe_v2(void **subscriber, cupti_call_fn *fn, void *user,
			     struct cupti_subscriber *s)
{
	int err = cuptiSubscribe(subscriber, fn, user);

	if (err && s->old_name)
		snprintf(s->old_name, s->old_size, "a test");
	return err;
}

EXPORT int cuptiUnsubscribe(void *subscriber)
{
	must_not_be_over();
	(void)subscriber;
	callback = pc_callback = NULL;
	report_driver(NULL);
	return CUPTI_SUCCESS;
}

EXPORT int cuptiEnableCallback(uint32_t on, void *subscriber, int domain, uint32_t cbid)
{
	(void)subscriber;
	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		pc_callback = on ? callback : NULL;
		report_driver(&tools);
		return CUPTI_SUCCESS;
	}
	if (cbid >= sizeof(asked) / sizeof(*asked))
		return 1;
	asked[cbid] = on && !cupti_wants("nocall");
	return CUPTI_SUCCESS;
}

EXPORT int cuptiActivityRegisterCallbacks(cupti_request_fn *r, cupti_complete_fn *c)
{
	request = r;
	complete = c;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiActivityEnable(int kind)
{
	if (cupti_wants("fail"))
		return 10;
	if (cupti_wants("strict") && kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE && driver())
		late_graphs = driver()->instantiated;
	enabled[kind % KINDS] = true;
	report_driver(&tools);
	return CUPTI_SUCCESS;
}

EXPORT int cuptiActivityDisable(int kind)
{
	must_not_be_over();
	enabled[kind % KINDS] = false;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiFinalize(void);
EXPORT int cuptiFinalize(void)
{
	fatal("finalized");
	return 0;
}

EXPORT int cuptiActivityFlushAll(uint32_t flag)
{
	must_not_be_over();
	if (cupti_wants("late") && !(flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED))
		return CUPTI_SUCCESS;
	pthread_mutex_lock(&lock);
	give_buf();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

static size_t size_of(uint32_t kind)
{
	for (int i = 0; i < WHAT_CNT; i++)
		if (forms[i].kind == kind)
			return forms[i].size;
	return JUNK_SZ;
}

EXPORT int cuptiActivityGetNextRecord(uint8_t *b, size_t valid, uint8_t **at)
{
	uint32_t kind;

	if (!*at) {
		*at = b;
	} else {
		memcpy(&kind, *at, sizeof(kind));
		*at += size_of(kind);
	}
	return *at < b + valid ? CUPTI_SUCCESS : CUPTI_ERROR_MAX_LIMIT_REACHED;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void *ctx, uint32_t stream, size_t *cnt)
{
	(void)ctx;
	(void)stream;
	*cnt = __atomic_exchange_n(&dropped, 0, __ATOMIC_RELAXED);
	return CUPTI_SUCCESS;
}

__attribute__((destructor)) static void end(void)
{
	const char *name = getenv("FAKE_CUPTI_COUNTS");
	FILE *f = name && *name && (made || pc_made) ? fopen(name, "ae") : NULL;

	if (!f)
		return;
	pc_counts(f);
	fprintf(f, "kernel %lu\ncopy %lu\nmemset %lu\ngraph %lu\n", delivered[KERNEL],
		delivered[COPY], delivered[MEMSET], delivered[GRAPH]);
	fclose(f);
}
