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
	CUPTI_ERROR_OUT_OF_MEMORY = 8,
	CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
	CUPTI_ERROR_HARDWARE_BUSY = 26,
	CUPTI_ERROR_NOT_SUPPORTED = 27,
	CUPTI_ERROR_INSUFFICIENT_PRIVILEGES = 35,
	CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
	CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES = 40,
	CUPTI_ERROR_UNKNOWN = 999
};

enum {
	CUPTI_ACTIVITY_KIND_MEMCPY = 1,
	CUPTI_ACTIVITY_KIND_MEMSET = 2,
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_ACTIVITY_KIND_MEMCPY2 = 22,
	CUPTI_ACTIVITY_KIND_GRAPH_TRACE = 51
};

enum { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };
enum { CUPTI_CB_DOMAIN_DRIVER_API = 1, CUPTI_CB_DOMAIN_RESOURCE = 3 };
enum {
	CUPTI_CBID_RESOURCE_CONTEXT_CREATED = 1,
	CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING = 2,
	CUPTI_CBID_RESOURCE_MODULE_LOADED = 6,
	CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING = 7
};
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

/* CUpti_ResourceData, CUpti_ModuleResourceData */
struct cupti_resource {
	void *context;
	void *handle;
	const void *descriptor;
};
struct cupti_module {
	uint32_t id;
	size_t size;
	const void *cubin;
};

/* PC sampling, as in CUPTI 12.5 to 13.0. Each struct begins with its size. */
struct cupti_stall {
	uint32_t index, samples;
};
struct cupti_pc {
	size_t size;
	uint64_t crc, pc;
	uint32_t function, pad;
	char *name;
	size_t stall_cnt;
	struct cupti_stall *stalls;
	uint32_t correlation;
};
struct cupti_samples {
	size_t size, room;
	uint64_t total, dropped;
	size_t cnt, remaining;
	uint64_t range;
	struct cupti_pc *pcs;
	uint64_t unattributed;
	uint8_t full;
};
_Static_assert(sizeof(struct cupti_pc) == 64 && sizeof(struct cupti_samples) == 80, "as in CUPTI");

enum {
	CUPTI_PC_PERIOD = 1,
	CUPTI_PC_HARDWARE_BUFFER = 4,
	CUPTI_PC_MODE = 5,
	CUPTI_PC_DATA_BUFFER = 8,
	CUPTI_PC_DECODE_MS = 9
};
enum { CUPTI_PC_CONTINUOUS = 1 };
struct cupti_pc_attribute {
	int type, status;
	union {
		uint32_t u32;
		size_t size;
		void *pointer;
		uint8_t room[24];
	};
};
/* Enable, Disable: the first three members. GetData: data. SetConfiguration: cnt, attributes. */
struct cupti_pc_params {
	size_t size;
	void *priv, *context;
	union {
		struct cupti_samples *data;
		size_t cnt;
		size_t *cnt_to;
	};
	union {
		struct cupti_pc_attribute *attributes;
		uint32_t *indices;
	};
	char **names;
};
_Static_assert(sizeof(struct cupti_pc_attribute) == 32 && sizeof(struct cupti_pc_params) == 48,
	       "as in CUPTI");
#define CUPTI_PC_ENABLE_SZ  24
#define CUPTI_PC_DATA_SZ    32
#define CUPTI_PC_CONFIG_SZ  40
#define CUPTI_PC_REASONS_SZ 48
#define CUPTI_STALL_NAME_SZ 128

struct cupti_crc {
	size_t size, cubin_size;
	const void *cubin;
	uint64_t crc;
};
struct cupti_source {
	size_t size;
	const void *cubin;
	const char *function;
	size_t cubin_size;
	uint32_t line, pad;
	uint64_t pc;
	char *file, *folder;
};
_Static_assert(sizeof(struct cupti_source) == 64, "as in CUPTI");

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
	CUPTI_FN(ActivityGetNumDroppedRecords, false, int (*)(void *, uint32_t, size_t *))         \
	CUPTI_FN(GetDeviceId, false, int (*)(void *, uint32_t *))                                  \
	CUPTI_FN(GetCubinCrc, false, int (*)(struct cupti_crc *))                                  \
	CUPTI_FN(GetSassToSourceCorrelation, false, int (*)(struct cupti_source *))                \
	CUPTI_FN(PCSamplingEnable, false, int (*)(struct cupti_pc_params *))                       \
	CUPTI_FN(PCSamplingDisable, false, int (*)(struct cupti_pc_params *))                      \
	CUPTI_FN(PCSamplingGetData, false, int (*)(struct cupti_pc_params *))                      \
	CUPTI_FN(PCSamplingGetNumStallReasons, false, int (*)(struct cupti_pc_params *))           \
	CUPTI_FN(PCSamplingGetStallReasons, false, int (*)(struct cupti_pc_params *))              \
	CUPTI_FN(PCSamplingSetConfigurationAttribute, false, int (*)(struct cupti_pc_params *))    \
	CUPTI_FN(PCSamplingGetConfigurationAttribute, false, int (*)(struct cupti_pc_params *))

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
	uint32_t registers, shared_mem; /* of a kernel: per thread; static, per block */
	uint64_t start, end;		/* CUPTI's clock */
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
