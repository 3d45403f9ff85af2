/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --gpu-time: what a GPU executed, joined with the call that asked for it. CUPTI's records name a
 * thread and a moment in the call; of each thread the calls are kept that may still be asked for.
 * Records come some 100 ms after their call as a rule, and before it when it waits for the GPU.
 */
#ifndef MODEL_GPU_H
#define MODEL_GPU_H

#include "event.h"

#include "ct_record.h"

struct gpu_call {
	uint64_t start_ns, end_ns;
	uint64_t id; /* 0: it is no line of the trace */
	uint64_t range_id, operator_id;
	const char *name;
	bool is_launch; /* of something that the GPU executes, for certain */
	bool timed;
};

/* Of a thread, in the order of their start. */
struct gpu_calls {
	struct gpu_call *v;
	uint32_t room;	/* a power of two */
	uint64_t made;	/* ever; the last of them are there */
	uint64_t known; /* of these, that many are before the first that is there */
};

/* Of a model. */
struct gpu_join {
	uint64_t row_cnt;	    /* of all threads together */
	uint64_t timed_cnt;	    /* launches of which the GPU's time is known, */
	uint64_t missing_cnt;	    /* and of which it never came */
	uint64_t no_call_cnt;	    /* executions whose call is not in the trace */
	struct ct_gpu_run *waiting; /* for their call, oldest first */
	unsigned waiting_at, waiting_cnt;
};

/* Can a GPU execute something for this call? */
bool gpu_is_wanted(const struct trace_event *ev);
/* A call that returned, or was left; is_line: it is in the trace. */
void gpu_calls__add(struct gpu_join *j, struct gpu_calls *c, const struct trace_event *ev,
		    bool is_line);
/* The call that the thread was in then; NULL: there is none. *later: it may still come. */
struct gpu_call *gpu_calls__find(const struct gpu_calls *c, uint64_t ns, bool *later);
/* Launches that are there and have no time. */
uint64_t gpu_calls__missing(const struct gpu_calls *c);
/* The thread is forgotten. */
void gpu_calls__free(struct gpu_join *j, struct gpu_calls *c);

/* Its call may still come. False: too many wait; the first has to go before. */
bool gpu_join__wait(struct gpu_join *j, const struct ct_gpu_run *g);
/* The first that waits, or NULL; it waits no longer. */
const struct ct_gpu_run *gpu_join__first(const struct gpu_join *j);
void gpu_join__drop_first(struct gpu_join *j);
/* Each that fn is true for waits no longer. */
void gpu_join__take(struct gpu_join *j, bool (*fn)(const struct ct_gpu_run *g, void *arg),
		    void *arg);
void gpu_join__free(struct gpu_join *j);

/* The event of an execution; name: of its kernel, or NULL; call: or NULL. */
void gpu_event(struct trace_event *ev, const struct ct_gpu_run *g, const char *kernel,
	       const char *mangled, const struct gpu_call *call);

/* Pictures have a row for each stream of a device, below the threads of its process: a thread id
 * that no thread has, and what it is called. */
#define GPU_ROW_NAME_SZ 80
uint32_t gpu_row_tid(const struct trace_event *ev);
void gpu_row_name(const struct trace_event *ev, char buf[GPU_ROW_NAME_SZ]);

struct ct_shm_gpu;
/* "graphs", "nodes"; NULL. */
const char *gpu_time_name(int mode);
/* CT_GPU_TIME_*; negative: there is none of that name. */
int gpu_time_by_name(const char *name);
/* What became of it in a process, for people. */
void gpu_state_text(const struct ct_shm_gpu *gpu, char *buf, size_t size);

#endif /* MODEL_GPU_H */
