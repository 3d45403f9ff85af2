/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Outputs. A sink is one file with a struct sink_ops and one row in sinks.def. It sees model
 * events, never raw records, and prints their values through a visitor.
 */
#ifndef SINK_SINK_H
#define SINK_SINK_H

#include "model/event.h"
#include "model/trace.h"

struct sink;
struct workers;
struct segments;

enum sink_id {
#define SINK(id, name, help) SINK_##id,
#include "sinks.def"
#undef SINK
	SINK_CNT
};

struct sink_ops {
	size_t size;	     /* of the sink's own struct, which begins with struct sink */
	bool defines_stacks; /* by EVENT_STACK, once; else each event shows its own */
	/* Before the first event. */
	int (*open)(struct sink *s, const struct trace_info *info);
	void (*event)(struct sink *s, const struct trace_event *ev);
	/* s is a copy, to write events into an out of its own, which others do at the same time.
	 * NULL: its events depend on those before. */
	void (*cloned)(struct sink *s);
	/* Puts what event made in a copy that packs. NULL: that is the same. */
	void (*put)(struct sink *s, const char *text, size_t len);
	/* The copy has put events into its out, which are written next; then come others. thread: a
	 * number of the one that does it, from 0; of the caller WORKERS_CALLER (workers.h). Or
	 * NULL. */
	void (*formatted)(struct sink *s, unsigned thread);
	/* Frees what cloned made. Or NULL. */
	void (*uncloned)(struct sink *s);
	/* After the last event, and that of each file that another follows (end->goes_on): write
	 * the closing parts. May be called again when what it wrote was taken back. */
	void (*end)(struct sink *s, const struct trace_end *end);
	/* The file goes on in another, which is empty: as open, and what was said once is to be
	 * said again. NULL: it cannot be split. */
	int (*next_file)(struct sink *s, const struct trace_info *info);
	/* The last event once more, as the first of another file: what event wrote was taken back.
	 */
	void (*again)(struct sink *s, const struct trace_event *ev);
	/* Frees what open made; end may not have been called. */
	void (*close)(struct sink *s);
};

struct sink {
	const struct sink_ops *ops;
	struct out *out;	   /* where it writes; owned */
	struct workers *workers;   /* NULL: the caller writes */
	struct segments *segments; /* NULL: it stays one file */
	const char *more; /* JSONL: members that follow those of the next event; NULL: none */
	bool packs;	  /* a copy whose text another puts */
	uint64_t base_ns;
	uint64_t event_cnt; /* given to it */
	uint64_t lost_cnt;  /* of those, not written: disk full, pipe closed */
	bool waits;	    /* lines of calls wait for what GPUs execute for them */
	uint64_t late_cnt;  /* executions that came when such a line was written */
	size_t gpu_at;	    /* JSONL, of the last call: where in out its gpu_times belong */
};

/* Opens path ("-": stdout) and that sink on it. Reports its own errors. */
struct sink *sink__open(enum sink_id id, const char *path, const struct trace_info *info);
/* Writes into memory, s->out: the caller takes what is there. For ops of the caller's own, too. */
struct sink *sink__memory_for(const struct sink_ops *ops, const struct trace_info *info);
struct sink *sink__memory(enum sink_id id, const struct trace_info *info);
/* No file of it is larger than max: what comes goes to others, named after path (util/segment.h),
 * each a trace by itself. Where it is no file, or one that is only whole, nothing happens. info
 * must live as long as s. Before any event; reports its own errors: 0 or -errno. */
int sink__segment(struct sink *s, const char *path, uint64_t max, const struct trace_info *info);
/* From now on that many threads put its lines together, where it is a file that is not split and
 * its ops allow that. Else, or when there can be none, the caller goes on doing so. wait
 * (--gpu-time): and lines wait a second for what GPUs execute, where its ops allow that. */
void sink__start_workers(struct sink *s, unsigned threads, bool wait);
void sink__event(struct sink *s, const struct trace_event *ev);
/* Writes what is buffered; s->out and s->lost_cnt are exact until the next event. */
void sink__flush(struct sink *s);
/* The same without what waits. Called by a timer, so that files can be followed. */
void sink__tick(struct sink *s);
/* Puts lines together by itself, for ops that have `cloned`: in memory, n->out. NULL: no memory. */
struct sink *sink__copy(const struct sink *s);
/* Of a copy: a text that another's event has put. */
void sink_put(struct sink *n, const char *text, size_t len);
/* And all of them are there. */
void sink_formatted(struct sink *n, unsigned thread);
/* NULL is fine. */
void sink__free_copy(struct sink *n);
/* true: nothing can be written any more */
bool sink__failed(const struct sink *s);
/* end may be NULL when the trace failed to start. */
int sink__close(struct sink *s, const struct trace_end *end);
/* The same; what the output lost is added to sum->lines_lost and sum->write_error, or to
 * sum->output_gone_cnt. */
int sink__close_into(struct sink *s, const struct trace_end *end, struct trace_end *sum);

#endif /* SINK_SINK_H */
