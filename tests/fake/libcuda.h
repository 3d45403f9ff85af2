/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Inside the mock libcuda.so.1.
 *
 * libcuda_entry.S has the exports. They all call fake_dispatch() with the number of the row and the
 * argument words. A function with specific behaviour has an entry in one of the impl tables; every
 * other one follows its row: it fills out-parameters and returns 0. Device memory is host memory,
 * so copies move bytes; kernels only take time on a simulated timeline.
 */
#ifndef FAKE_LIBCUDA_H
#define FAKE_LIBCUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No C function is exported: calls between our files must not go through the PLT. */
#pragma GCC visibility push(hidden)
#include "decode/cuda.h"

#define CALL_MAX_WORDS 16

/* CUresult values used here. */
enum {
	OK = 0,
	E_VALUE = 1,
	E_OOM = 2,
	E_NOT_INIT = 3,
	E_NO_DEVICE = 101, /* CUDA_ERROR_INVALID_DEVICE */
	E_IMAGE = 200,
	E_CONTEXT = 201,
	E_FILE = 301,
	E_HANDLE = 400,
	E_NOT_FOUND = 500,
	E_NOT_READY = 600,
	E_PEER = 704,
	E_REGISTERED = 712,
	E_NOT_REGISTERED = 713,
	E_UNSUPPORTED = 801,
	E_CAPTURE = 900,
	E_CAPTURE_INVALID = 901,
	E_CAPTURE_UNMATCHED = 903,
	E_UNKNOWN = 999,
};

struct call {
	unsigned id;
	const struct api_fn *fn; /* NULL: an export that is not in the table */
	bool per_thread;
	uint64_t w[CALL_MAX_WORDS];
};

#define IMPL_EARLY   1 /* works before cuInit */
#define IMPL_CONTEXT 2 /* fails when the thread has no current context */
#define IMPL_NOLOCK  4 /* calls exports or the program: must not hold the lock */

struct impl {
	const char *sym; /* without _ptsz, _ptds */
	int (*run)(struct call *c);
	unsigned flags;
};

/* Each ends with an entry without a symbol. */
extern const struct impl impl_base[], impl_ctx[], impl_mem[], impl_array[], impl_copy[],
	impl_module[], impl_stream[], impl_launch[], impl_graph[];

/* One lock for everything but the counts: held while an impl runs. */
void fake_lock(void);
void fake_unlock(void);

/* Address of an export by name; NULL: none. For calls through public entries. */
void *fake_export(const char *sym);
/* Newest form of a public name that is visible to programs of this CUDA version. */
void *fake_newest(const char *name, int version, bool per_thread, bool *exists);

/* Stores size bytes at a target's out-pointer; returns E_VALUE if it is not writable. */
int put(uint64_t ptr, const void *val, size_t size);
int put64(uint64_t ptr, uint64_t val);
int put32(uint64_t ptr, uint32_t val);
/* The same; ptr may be NULL. */
int put64_opt(uint64_t ptr, uint64_t val);
int put32_opt(uint64_t ptr, uint32_t val);
bool readable(uint64_t ptr, size_t size);

uint64_t now_ns(void);
/* Waits; releases the caller's lock meanwhile. */
void wait_until_ns(uint64_t when_ns);

/* Handles. */
enum obj_kind {
	OBJ_CTX = 1,
	OBJ_STREAM,
	OBJ_EVENT,
	OBJ_MODULE,
	OBJ_LIBRARY,
	OBJ_FUNC,
	OBJ_KERNEL,
	OBJ_GRAPH,
	OBJ_EXEC,
	OBJ_NODE,
	OBJ_POOL,
	OBJ_PHYS,
	OBJ_ARRAY,
};

struct obj {
	uint32_t magic;
	uint32_t kind;
};

void *obj_new(enum obj_kind kind, size_t size);
/* Returns NULL if it is not a live handle of that kind. */
void *obj_get(uint64_t handle, enum obj_kind kind);
void obj_free(void *obj);
/* Returns a value that looks like a handle and is used only once. */
uint64_t handle_unique(void);

struct ctx {
	struct obj obj;
	int dev;
	unsigned flags;
	bool primary;
};
struct ctx *ctx_current(void);

#define DEVICE_CNT 2
/* Devices visible by CUDA_VISIBLE_DEVICES, which lists numbers; and the device numbers of the
 * machine. */
uint32_t device_cnt(void);
uint32_t device_at(uint64_t dev);
static inline bool bad_dev(uint64_t dev)
{
	return (uint32_t)dev >= device_cnt();
}

/* After a fork the child has a driver that was never initialized. */
void base_after_fork(void);
void ctx_after_fork(void);
void stream_after_fork(void);
bool fake_inited(void);

/* CUfunction and CUkernel: as in the real driver, the word at offset 8 points to the name. */
struct func {
	struct obj obj;
	char *name;
	void *owner; /* module or library */
	struct func *next;
	struct func *as_func; /* of a kernel */
	const char *params;   /* in PTX, from after its name; NULL: unknown */
};
_Static_assert(offsetof(struct func, name) == 8, "tracers read the name at offset 8");
/* Function of a launch: CUfunction or CUkernel. */
struct func *func_get(uint64_t handle);
/* A launch copies the kernel's parameters, and crashes where it cannot, as in the real driver. */
void func_params_copy(const struct func *f, uint64_t params, uint64_t extra);

/* Memory. */
enum range_kind {
	RANGE_DEVICE = 1,
	RANGE_MANAGED,
	RANGE_POOL,
	RANGE_MAPPED,
	RANGE_HOST,
	RANGE_REGISTERED,
};

struct array {
	struct obj obj;
	size_t row_sz, height, depth;
	unsigned char *data;
};

/* Returns whether the whole range is in one live allocation. */
bool mem_is_device(uint64_t ptr, size_t size);
/* The GPU has a copy to or from it over its bus. */
bool mem_is_host(uint64_t ptr);
bool mem_is_pageable(uint64_t ptr);
/* false for freed or never allocated device memory; host memory is not checked. */
bool mem_plausible(uint64_t ptr, size_t size);

/* From that time on the context is unusable: calls that need it return the code. */
void fault_plan(int code, uint64_t when_ns);

/* Streams. */
struct graph;
struct stream {
	struct obj obj;
	uint64_t busy_until_ns;
	unsigned flags;
	int priority;
	uint64_t number;
	uint64_t cb_queued, cb_done;
	struct graph *capture;
	bool capture_origin, capture_invalid;
	struct stream *next;
};
/* The stream of a call: handles 0, 1 and 2 are default streams. */
struct stream *stream_of(const struct call *c, uint64_t handle);
/* Adds work of that duration to the stream's timeline. Returns its start. */
uint64_t stream_add(struct stream *s, uint64_t duration_ns);
/* Waits until all work added so far is done. */
void stream_wait(struct stream *s);
/* All of them; is this the legacy default stream? */
extern struct stream *streams;
bool stream_is_legacy(const struct stream *s);
#define ENDLESS_NS (3600 * 1000000000ull)
uint64_t kernel_ns(void);

/* Graphs: the work of a captured or added node. */
struct work {
	enum work_kind {
		WORK_KERNEL,
		WORK_COPY,
		WORK_COPY2D,
		WORK_MEMSET,
		WORK_HOST,
		WORK_EMPTY
	} kind;
	uint64_t func;
	uint64_t dst, src, size;
	uint64_t params[32]; /* WORK_COPY2D: the struct */
	unsigned width, height;
	uint64_t pitch, value;
};
/* Runs the work now or, on a capturing stream, adds a node. */
int work_submit(struct stream *s, const struct work *w);
int work_run(struct stream *s, const struct work *w);
struct graph *graph_new(void);
void graph_free(struct graph *g);
void capture_add(struct graph *g, const struct work *w);
void copy2d_run(const uint64_t *params);
uint64_t copy_ns(const struct work *w);
uint8_t copy_kind(const struct work *w); /* CUpti_ActivityMemcpyKind */
/* Whether copies from or to pageable memory take longer, and this is one. */
bool copy_is_slow(const struct work *w);
/* For libcupti: the time of the work on the timeline. */
void tools_work(const struct stream *s, const struct work *w, uint64_t duration_ns);
void tools_context(void *ctx, uint32_t device, bool is_new);
extern __thread uint64_t tools_node; /* the running node of a graph; 0: none */
void host_func_queue(struct stream *s, uint64_t fn, uint64_t data);

#pragma GCC visibility pop

#endif /* FAKE_LIBCUDA_H */
