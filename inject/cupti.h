/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Our own declarations of the used part of CUPTI. The library is found at run time, so the build
 * does not need it. Taken from CUPTI's headers of CUDA 12 and 13.0 (activity, callbacks, result,
 * driver_cbid); tests/e2e/test_gpu_time.py compares them if the headers are installed.
 */
#ifndef INJECT_CUPTI_H
#define INJECT_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CUPTI_SUCCESS = 0,
	CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
	CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39
};

enum {
	CUPTI_ACTIVITY_KIND_MEMCPY = 1,
	CUPTI_ACTIVITY_KIND_MEMSET = 2,
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_ACTIVITY_KIND_MEMCPY2 = 22,
	CUPTI_ACTIVITY_KIND_GRAPH_TRACE = 51
};

enum { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };
enum { CUPTI_CB_DOMAIN_DRIVER_API = 1 };
enum { CUPTI_API_ENTER = 0 };

/* CUpti_CallbackData */
struct cupti_call {
	int site;
	const char *function;
	const void *params;
	void *result;
	const char *symbol;
	void *context;
	uint32_t context_uid;
	uint64_t *data;
	uint32_t correlation;
};
_Static_assert(offsetof(struct cupti_call, correlation) == 64, "as in CUPTI");

/* CUpti_SubscriberParams (13.0) */
struct cupti_subscriber {
	size_t size;
	const char *name;
	char *old_name;
	size_t old_size;
};

typedef void cupti_request_fn(uint8_t **buf, size_t *size, size_t *max);
typedef void cupti_complete_fn(void *ctx, uint32_t stream, uint8_t *buf, size_t size, size_t valid);
typedef void cupti_call_fn(void *user, int domain, uint32_t cbid, const struct cupti_call *c);

/* Functions: CUPTI_FN(name without "cupti", whether it is required, type) */
#define CUPTI_FUNCS                                                                                \
	CUPTI_FN(GetVersion, true, int (*)(uint32_t *))                                            \
	CUPTI_FN(GetTimestamp, true, int (*)(uint64_t *))                                          \
	CUPTI_FN(Subscribe, true, int (*)(void **, cupti_call_fn *, void *))                       \
	CUPTI_FN(Subscribe_v2, false,                                                              \
		 int (*)(void **, cupti_call_fn *, void *, struct cupti_subscriber *))             \
	CUPTI_FN(Unsubscribe, true, int (*)(void *))                                               \
	CUPTI_FN(EnableCallback, true, int (*)(uint32_t, void *, int, uint32_t))                   \
	CUPTI_FN(ActivityRegisterCallbacks, true,                                                  \
		 int (*)(cupti_request_fn *, cupti_complete_fn *))                                 \
	CUPTI_FN(ActivityEnable, true, int (*)(int))                                               \
	CUPTI_FN(ActivityDisable, true, int (*)(int))                                              \
	CUPTI_FN(ActivityFlushAll, true, int (*)(uint32_t))                                        \
	CUPTI_FN(ActivityGetNextRecord, true, int (*)(uint8_t *, size_t, uint8_t **))              \
	CUPTI_FN(ActivityGetNumDroppedRecords, false, int (*)(void *, uint32_t, size_t *))

struct cupti {
	uint32_t version;
#define CUPTI_FN(name, needed, ...) __typeof__(__VA_ARGS__) name;
	CUPTI_FUNCS
#undef CUPTI_FN
};

/* cupti_find.c: finds the library and its functions. path: the only file to try, or "". found
 * receives its path. Returns false if there is none. */
bool gpu_find_cupti(struct cupti *c, const char *path, char *found, size_t found_sz);

/* One activity record of a supported kind. */
struct cupti_record {
	uint32_t what; /* enum ct_run_what */
	uint32_t correlation, device, context, stream;
	uint32_t copy_kind;
	uint64_t start, end; /* CUPTI's clock */
	uint64_t bytes, graph_node;
	const char *name; /* of a kernel */
};
/* cupti_record.c: returns false for other kinds. */
bool gpu_read(const uint8_t *at, struct cupti_record *r);

/* graph_sum.c: one record per launch of a graph, from the records of its nodes. send() is called
 * for those that are complete: with no node for a while before now_ns. */
typedef void graph_sum_fn(void *arg, const struct cupti_record *r);
bool graph_sum_begin(void);
void graph_sum_add(const struct cupti_record *r, uint64_t now_ns, graph_sum_fn *send, void *arg);
void graph_sum_send(uint64_t now_ns, graph_sum_fn *send, void *arg);

#endif /* INJECT_CUPTI_H */
