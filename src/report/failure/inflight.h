/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Work of one process that is not known to have completed: launches, copies, memsets, host
 * functions and memory operations of streams. Completion is known from waits and queries of
 * streams, events and contexts, from synchronous copies, from GPU records, and from the order of
 * streams. A claim of completion is always justified; work that has completed may be listed if
 * nothing showed it.
 *
 * Memory is limited: the process has its latest INFLIGHT_MAX works, and each stream its oldest one.
 */
#ifndef REPORT_FAILURE_INFLIGHT_H
#define REPORT_FAILURE_INFLIGHT_H

#include "report/collect.h"

#define INFLIGHT_MAX	     4096
#define INFLIGHT_STREAMS_MAX 256
#define INFLIGHT_EVENTS_MAX  16384
#define INFLIGHT_KERNELS_MAX 4096
#define INFLIGHT_DEPS	     16

/* A word of a launch's parameters that may be an address. */
struct work_addr {
	uint64_t value;
	uint64_t ptr, size; /* block of memory around it, known at the launch; size 0: none */
	uint64_t freed_id;  /* the call that had freed that block; 0: it was live, or none */
	uint16_t param, at; /* index of the parameter, offset in it */
};
#define WORK_ADDRS_MAX 8

/* How a parameter of a suspect leads to the memory of a fault. */
enum work_link {
	LINK_NONE,
	LINK_BLOCK, /* into the block of the address, or of the one next to it */
	LINK_FREED, /* into memory that was freed before the launch */
	LINK_NULL,  /* it is a null pointer */
};

/* One submission. Its strings and its stack live as long as the report. */
struct work {
	uint64_t number; /* in its process, from 1, in the order of the trace; 0: none */
	uint64_t id;	 /* of the call */
	uint64_t start_ns, end_ns;
	const struct api_fn *fn;
	const char *kernel; /* demangled; NULL: unknown or no launch */
	const char *operator, * range;
	const struct stack *stack;
	uint64_t handle;  /* of the stream; 0: the legacy default stream */
	uint64_t size;	  /* bytes of a copy or memset; 0: unknown */
	uint64_t ptr;	  /* destination; 0: unknown */
	uint64_t host_fn; /* address of a host function; 0: unknown, or none */
	uint32_t grid[3], block[3];
	uint32_t tid, stream;
	bool has_config;
	bool is_new;	   /* a suspect: inflight__is_new() */
	bool may_be_older; /* a suspect: inflight__may_be_older() */
	/* The first addresses of its parameters, and which of them leads to the fault. */
	uint8_t addr_cnt, link_addr;
	bool addrs_known; /* these are all addresses in its parameters */
	uint8_t link;	  /* a suspect: enum work_link */
	struct work_addr addrs[WORK_ADDRS_MAX];
};

/* The work `number` of a stream waits until stream `on` has completed its work `until`. */
struct inflight_dep {
	uint64_t number; /* 0: the next one of the stream */
	uint64_t until;
	uint32_t on;
};

struct inflight_stream {
	uint64_t handle, ctx;
	uint64_t last, done; /* numbers of its works: the latest, and the latest known to be done */
	uint64_t evicted;    /* the latest that inflight.ring has no more */
	struct work oldest;  /* an older one that was not done when it was evicted */
	struct inflight_dep deps[INFLIGHT_DEPS];
	uint32_t dep_cnt;
	uint32_t current; /* index + 1 of the stream that has this handle now; 0: this one */
	uint32_t next_queued;
	uint32_t tid; /* owner of a per-thread default stream, else 0 */
	bool queued;
	bool is_blocking; /* known to wait for the legacy default stream, and it for this one */
};

struct inflight_event {
	uint32_t stream; /* index + 1; 0: not recorded */
	uint64_t number; /* the stream's last work when it was recorded */
	uint64_t end_ns; /* of the call that recorded it */
};

struct inflight {
	struct keys stream_keys, event_keys;
	struct keys
		completed; /* kernels of which a launch had completed: inflight__note_completed() */
	struct keys found; /* kernels that the program looked up, if it is older than the trace */
	struct inflight_stream *streams;
	struct inflight_event *events;
	unsigned stream_cap, event_cap, stream_cnt;
	struct work *ring;  /* work n is at n % ring_cap */
	uint64_t *by_id;    /* number by a hash of the call's id: the latest of equal hashes */
	uint32_t ring_cap;  /* a power of two */
	uint64_t number;    /* of the latest work */
	uint64_t floor;	    /* all works up to this number are done */
	uint64_t untracked; /* works for which there was no memory or no stream */
	uint64_t ctx;	    /* the first context that was seen; 0: none */
	uint32_t queue;	    /* streams whose completion other streams may follow from */
	bool several_ctx;
	bool from_start; /* no work of before the trace can be pending */
	bool whole;	 /* the trace has the begin of the process */
};

/* Updates from a call. ctx: the context that it submits to or waits for; 0: unknown. */
void inflight__event(struct inflight *f, const struct trace_event *ev, uint64_t ctx);
/* Updates from a GPU record of the call `id`. Returns false if it shows nothing new. */
bool inflight__ran(struct inflight *f, uint64_t id);
/* The call has ended the context, and with it all of its work. */
void inflight__context_gone(struct inflight *f, const struct trace_event *ev, uint64_t ctx);
void inflight__free(struct inflight *f);

/* Index of the stream that the call is about; KEYS_NONE: unknown. Adds nothing. */
uint32_t inflight__stream_of(struct inflight *f, const struct trace_event *ev);
/* The event of the call, or NULL: its record is not in the trace. */
const struct inflight_event *inflight__recorded(struct inflight *f, uint64_t cu_event);
/* Whether x is not known to have completed. */
bool inflight_pending(const struct inflight *f, const struct work *x);
/* Whether the stream may belong to the context; 0: any. */
bool inflight_in_context(const struct inflight *f, const struct inflight_stream *s, uint64_t ctx);
/* Calls fn for each work that is pending, in order of submission. */
void inflight__each(const struct inflight *f, void (*fn)(void *ctx, const struct work *x),
		    void *ctx);
/* Finds the kernels that have completed, for inflight__is_new(). */
void inflight__note_completed(struct inflight *f);
/* Returns whether x launches a kernel of which no launch was known to have completed. */
bool inflight__is_new(struct inflight *f, const struct work *x);
/* Returns whether x launches a kernel that may have run before the trace began: the process is
 * older, and so is the handle of the kernel. Runtimes look a kernel up before its first launch. */
bool inflight__may_be_older(struct inflight *f, const struct work *x);
/* How likely x is to run, or to have failed: kernels that ran for the first time, those that may
 * have, other code, the rest. 3 to 0; sets what x says about it. */
#define LIKELY_MAX 3
unsigned inflight__likely(struct inflight *f, struct work *x);
/* The work that must complete next before the stream can continue, following its waits for other
 * streams. NULL: none is known. */
const struct work *inflight__head(const struct inflight *f, uint32_t stream);
/* Whether works are missing: the process may have others than those listed. */
bool inflight_is_partial(const struct inflight *f);

#endif /* REPORT_FAILURE_INFLIGHT_H */
