/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --gpu-time: joins executions on a GPU with the calls that requested them. CUPTI's records contain
 * a thread and a time within the call. Recent calls are kept per thread until their records can no
 * longer arrive. Records usually arrive some 100 ms after the call, but before its end if the call
 * waits for the GPU.
 */
#ifndef MODEL_GPU_H
#define MODEL_GPU_H

#include "event.h"

#include "ct_record.h"

struct gpu_call {
	uint64_t start_ns, end_ns;
	uint64_t id; /* 0: it has no line in the trace */
	uint64_t range_id, operator_id;
	const char *name;
	bool is_launch; /* it certainly makes the GPU execute something */
	bool timed;
};

/* The calls of a thread, in the order of their start. */
struct gpu_calls {
	struct gpu_call *v;
	uint32_t room;	/* capacity, a power of two */
	uint64_t made;	/* number of calls ever added; the last ones are in v */
	uint64_t known; /* number of those already removed from v */
	/* Earlier calls have no GPU times: CUPTI was started later. */
	uint64_t since_ns;
};

/* The join of a model. */
struct gpu_join {
	uint64_t row_cnt;	    /* sum of room over all threads */
	uint64_t timed_cnt;	    /* launches with a GPU time */
	uint64_t missing_cnt;	    /* launches whose GPU time never arrived */
	uint64_t no_call_cnt;	    /* executions whose call is not in the trace */
	struct ct_gpu_run *waiting; /* executions that wait for their call, oldest first */
	unsigned waiting_at, waiting_cnt;
};

/* Returns whether a GPU can execute something for this call. */
bool gpu_is_wanted(const struct trace_event *ev);
/* Adds a call that returned or was abandoned; is_line: it is in the trace. */
void gpu_calls__add(struct gpu_join *j, struct gpu_calls *c, const struct trace_event *ev,
		    bool is_line);
/* Returns the call that the thread was in at ns; NULL: none. *later: it may still arrive. */
struct gpu_call *gpu_calls__find(const struct gpu_calls *c, uint64_t ns, bool *later);
/* Returns the number of stored launches without a time. */
uint64_t gpu_calls__missing(const struct gpu_calls *c);
/* Frees the calls of a thread. */
void gpu_calls__free(struct gpu_join *j, struct gpu_calls *c);

/* Queues an execution whose call may still arrive. Returns false if the queue is full: remove the
 * first and retry. */
bool gpu_join__wait(struct gpu_join *j, const struct ct_gpu_run *g);
/* Returns the first execution in the queue, or NULL. Valid until the queue changes. */
const struct ct_gpu_run *gpu_join__first(const struct gpu_join *j);
void gpu_join__drop_first(struct gpu_join *j);
/* Removes each execution for which fn returns true. */
void gpu_join__take(struct gpu_join *j, bool (*fn)(const struct ct_gpu_run *g, void *arg),
		    void *arg);
void gpu_join__free(struct gpu_join *j);

/* Fills the event of an execution. name: that of its kernel, or NULL; call: its call, or NULL. */
void gpu_event(struct trace_event *ev, const struct ct_gpu_run *g, const char *kernel,
	       const char *mangled, const struct gpu_call *call);

/* Timelines have a row for each stream of a device, below the threads of its process. Returns its
 * row ID, which no thread has; the next function names it. */
#define GPU_ROW_NAME_SZ 80
uint32_t gpu_row_tid(const struct trace_event *ev);
void gpu_row_name(const struct trace_event *ev, char buf[GPU_ROW_NAME_SZ]);

struct ct_shm_gpu;
/* Returns "graphs", "nodes" or NULL. */
const char *gpu_time_name(int mode);
/* Returns CT_GPU_TIME_*; negative if the name is unknown. */
int gpu_time_by_name(const char *name);
/* Formats the state of GPU times in a process, for people. */
void gpu_state_text(const struct ct_shm_gpu *gpu, char *buf, size_t size);

#endif /* MODEL_GPU_H */
