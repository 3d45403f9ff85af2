/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface of outputs. A sink is one file with a struct sink_ops and one row in sinks.def. It
 * receives model events, never raw records, and prints their values through a visitor.
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
	bool defines_stacks; /* writes each stack once, by EVENT_STACK; else each event has its own
			      */
	/* Called before the first event. */
	int (*open)(struct sink *s, const struct trace_info *info);
	void (*event)(struct sink *s, const struct trace_event *ev);
	/* s is a copy that writes events to its own out, concurrently with other copies. NULL:
	 * events depend on earlier ones. Returns 0 or -ENOMEM. */
	int (*cloned)(struct sink *s);
	/* Writes the text that event made in a copy that packs. NULL: the same as copying it. */
	void (*put)(struct sink *s, const char *text, size_t len);
	/* The copy's out is complete and will be written next; then other events follow. thread:
	 * number of the formatting thread, from 0; the caller's is WORKERS_CALLER (workers.h). Or
	 * NULL. */
	void (*formatted)(struct sink *s, unsigned thread);
	/* Frees the data of cloned(). Or NULL. */
	void (*uncloned)(struct sink *s);
	/* Writes the closing parts after the last event, also that of a file that another one
	 * follows (end->goes_on). May be called again after its output was taken back. */
	void (*end)(struct sink *s, const struct trace_end *end);
	/* Continues in another, empty file, as open() does: text written once per file is written
	 * again. NULL: it cannot be split. */
	int (*next_file)(struct sink *s, const struct trace_info *info);
	/* Writes the last event again, as the first of another file: the output of event() was
	 * taken back. */
	void (*again)(struct sink *s, const struct trace_event *ev);
	/* Frees the data of open(); end() may not have been called. */
	void (*close)(struct sink *s);
};

struct sink {
	const struct sink_ops *ops;
	struct out *out;	   /* output; owned */
	struct workers *workers;   /* NULL: the caller writes */
	struct segments *segments; /* NULL: it is not split */
	const char *more; /* JSONL: members that follow those of the next event; NULL: none */
	bool packs;	  /* a copy whose text another copy writes */
	uint64_t base_ns;
	uint64_t event_cnt; /* events received */
	uint64_t lost_cnt;  /* of those, not written: disk full, pipe closed */
	bool waits;	    /* calls' lines wait for their GPU executions */
	uint64_t late_cnt;  /* executions that arrived after their call's line was written */
	size_t gpu_at;	    /* JSONL: position in out for the last call's gpu_times */
};

/* Opens that sink with path as its output ("-": stdout). Reports its own errors. */
struct sink *sink__open(enum sink_id id, const char *path, const struct trace_info *info);
/* Writes to memory, s->out: the caller consumes the text. Also for the caller's own ops. */
struct sink *sink__memory_for(const struct sink_ops *ops, const struct trace_info *info);
struct sink *sink__memory(enum sink_id id, const struct trace_info *info);
/* Splits the output into files of at most max bytes, named after path (util/segment.h), each a
 * valid trace. Does nothing for outputs that are not files or cannot be split. info must live as
 * long as s. To be called before any event; reports its own errors: 0 or -errno. */
int sink__segment(struct sink *s, const char *path, uint64_t max, const struct trace_info *info);
/* Formats lines in this number of threads from now on, if the output is an unsplit file and its ops
 * allow it. Otherwise, or without threads, the caller formats them. wait (--gpu-time): lines also
 * wait a second for their GPU executions, if its ops allow it. */
void sink__start_workers(struct sink *s, unsigned threads, bool wait);
void sink__event(struct sink *s, const struct trace_event *ev);
/* Writes buffered text; s->out and s->lost_cnt are exact until the next event. */
void sink__flush(struct sink *s);
/* As sink__flush(), except for pending lines. Called by a timer, so that files can be followed. */
void sink__tick(struct sink *s);
/* A copy that formats events separately, for ops with `cloned`: to memory, n->out. NULL: no
 * memory. */
struct sink *sink__copy(const struct sink *s);
/* For a copy: puts a text that another copy's event() has made. */
void sink_put(struct sink *n, const char *text, size_t len);
/* For a copy: all texts have been put. */
void sink_formatted(struct sink *n, unsigned thread);
/* n may be NULL. */
void sink__free_copy(struct sink *n);
/* true: the output accepts no more data */
bool sink__failed(const struct sink *s);
/* end may be NULL when the trace failed to start. */
int sink__close(struct sink *s, const struct trace_end *end);
/* As sink__close(); the output's losses are added to sum->lines_lost and sum->write_error, or to
 * sum->output_gone_cnt. */
int sink__close_into(struct sink *s, const struct trace_end *end, struct trace_end *sum);

#endif /* SINK_SINK_H */
