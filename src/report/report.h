/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A report: the analyses of a trace, live or from a saved file, and their output. Analyses get
 * model events in the order of the trace (roughly by end time). Their memory depends on what is
 * live, not on the length of the trace.
 *
 * An analysis is one file with a struct analysis_ops and one row in analyses.def. Its JSON is the
 * contract for scripts and for the HTML page: docs/REPORT.md.
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "model/event.h"
#include "model/losses.h"
#include "model/trace.h"
#include "report/step/replay.h"
#include "text/json.h"
#include "text/table.h"

/* How iterations are found. */
enum iter_mode {
	ITER_AUTO,   /* automatic: a repeating sequence of launches between synchronisations */
	ITER_MARKER, /* a call of the function opts.marker begins one */
	ITER_SYNC,   /* a synchronisation ends one */
	ITER_GAP,    /* no call for opts.gap_ns ends one */
};

/* Weight of --map: columns of map/map.section. */
enum map_weight {
	MAP_BY_NONE,
	MAP_BY_HOST,
	MAP_BY_WALL,
	MAP_BY_GPU,
	MAP_BY_LAUNCHES,
	MAP_BY_CALLS
};

#define REPORT_TOP_DEFAULT 10

struct report_opts {
	unsigned top; /* rows of long tables */
	enum iter_mode iter;
	const char *marker;
	uint64_t gap_ns;
	bool html;			   /* keep the events for the page */
	bool pprof;			   /* keep the sums for a profile */
	enum map_weight map;		   /* --map: show only the map, by this */
	bool serving;			   /* explain if no serving was found */
	bool full;			   /* print all sections as text */
	double kwh_price, gpu_hour_price;  /* --price-per-...; 0: not given */
	uint64_t sections;		   /* print only these: a bit for each analysis; 0: all */
	uint64_t analyses;		   /* run only these; 0: all */
	const struct step_change *changes; /* --what-if */
	unsigned change_cnt;
};

enum analysis_id {
#define AN(id, name, what) AN_##id,
#include "analyses.def"
#undef AN
	AN_CNT
};

struct report;
struct saved_file;
struct section_table;

struct analysis_ops {
	const char *name; /* its member in JSON */
	/* STATE_SIZE() of the state, which begins as zeros and r; or else new. */
	size_t size;
	/* Creates the state of the analysis; NULL: out of memory. */
	void *(*new)(struct report *r);
	void (*event)(void *a, const struct trace_event *ev);
	/* After the last event. */
	void (*finish)(void *a);
	/* Its member in JSON, made from the state: section.h. */
	const struct section_table *section;
	bool is_list; /* the member is the list that the object begins with */
	/* Without a section: one value (json_open(j, ops->name) ... or json_open_array). */
	void (*json)(const void *a, struct json *j);
	/* Prints a section for a terminal; prints nothing if it is empty. */
	void (*print)(const void *a, const struct term *term);
	void (*free)(void *a); /* NULL: free() */
	/* The analysis needs arguments. In a trace without them (--no-args) it gets no events and
	 * has no output. */
	bool of_args;
	/* Classes of calls that it counts, separated by blanks; NULL: others. If the trace has none
	 * of them because of an option, the section has no output: report_lacks(). */
	const char *needs;
	/* It adds up times between calls: without some of HOST_CLASSES, or their durations, it has
	 * no output. */
	bool of_times;
};

/* The calls in which a program spends its time. */
#define HOST_CLASSES "launch transfer sync memory module"

/* The size of a state whose first member is struct report *r. */
#define STATE_SIZE(type) (sizeof(type) + 0 * sizeof(char[offsetof(type, r) ? -1 : 1]))

#define AN(id, name, what) extern const struct analysis_ops name##_ops;
#include "analyses.def"
#undef AN

struct html_events;
struct profile;

/* One of several traces in the report. */
struct report_trace {
	const struct trace_info *info;
	const char *path; /* of its first file; NULL: live */
	uint64_t last_ns; /* its latest time */
	bool has_ended;
};
/* Times of further traces are not compared. */
#define REPORT_TRACES_MAX 1024

struct report {
	struct report_opts opts;
	const struct trace_info *info;
	const struct trace_end *end; /* NULL: the trace has none (cut off) */
	uint64_t base_ns;	     /* of ts 0 */
	uint64_t begin_ns; /* when the first file begins; not later than the first event */
	uint64_t last_ns;  /* latest time seen */
	uint64_t event_cnt;
	struct report_trace *traces; /* in the order of their numbers, from info's on */
	unsigned trace_cnt, trace_cap;
	unsigned ended_cnt; /* report__ended() */
	struct losses lost; /* after the finish: includes the counts of memlimit.h */
	bool is_over;	    /* no more events follow */
	const struct saved_file *files;
	unsigned file_cnt;
	void *an[AN_CNT];
	struct html_events *html;
	struct profile *profile;       /* with opts.pprof */
	uint64_t class_cnt[CLASS_CNT]; /* calls */
	uint64_t untimed_cnt;	       /* calls of which only the start was recorded */
	bool args_redacted;
};

/* info must live as long as the report. NULL: out of memory. */
struct report *report__new(const struct report_opts *opts, const struct trace_info *info);
/* Begins a trace of the report, the first or a further one, from the file path. */
void report__also(struct report *r, const char *path, const struct trace_info *info);
/* Ends a trace: adds up its losses. */
void report__ended(struct report *r, const struct trace_info *info, const struct trace_end *end);
/* Returns whether records are missing. Conclusions then mention it. */
bool report_is_incomplete(const struct report *r);
/* Strings of the event (names, kernels, comm) must live as long as the report: same text, same
 * address (interned). */
void report__event(struct report *r, const struct trace_event *ev);
void report__finish(struct report *r, const struct trace_end *end, const struct saved_file *files,
		    unsigned file_cnt);
/* The option that left out calls of these classes, or their durations; NULL: none. whole: as in
 * text/not_recorded.h. */
const char *report_left_out(const struct report *r, const char *classes, bool whole);
/* The option for which nothing is known of calls of these classes; NULL: they were recorded. */
const char *report_not_recorded(const struct report *r, const char *classes);
/* The option for which this section has no output (null in JSON); NULL: it has. */
const char *report_lacks(const struct report *r, unsigned id);
void report__json(const struct report *r, struct json *j);
/* JSON Schemas of report__json() and diff__json(). */
void report_schema(struct out *out);
void diff_schema(struct out *out);
void report__print(const struct report *r, const struct term *term);
void report__free(struct report *r);

/* sections.c: the analyses that have text, by JSON name. Returns the bit of a name; 0: unknown. */
uint64_t report_section(const char *name, size_t len);
/* The most similar name; NULL: none. */
const char *report_section_like(const char *name, size_t len);
/* Returns the content of section id. */
const char *report_section_what(unsigned id);
/* Returns the name and the content of the next section from *i on, which grows; NULL: no more. */
const char *report_section_at(unsigned *i, const char **what);
/* Prints one line per section: its name and content. */
void report_sections_print(FILE *f);

/* traces.c: end of what that trace covers; UINT64_MAX: it has not ended. */
uint64_t report_until(const struct report *r, unsigned trace);
void report_traces_event(struct report *r, const struct trace_event *ev);
/* "files", and "traces" if there are several; their state is the report. */
/* Tables of the report itself, in the order of JSON. */
#define REPORT_TABLES                                                                              \
	{                                                                                          \
		&losses_table, &report_files_table, &rejected_table                                \
	}
extern const struct section_table losses_table, report_files_table, rejected_table;
/* Prints them if there are several. */
void report_traces_print(const struct report *r, const struct term *term);

/* Returns whether all calls have times. If not, a sum of 0 is unknown: section_types.def. */
static inline bool report_has_times(const struct report *r)
{
	return !r->untimed_cnt;
}
/* A time of calls for people. */
#define HUMAN_CALL_TIME(r, ns) ((ns) || report_has_times(r) ? HUMAN_TIME(ns) : "an unknown amount")

/* A time for people: ns since the first file began. For lines of a file of the daemon, ts counts
 * from the daemon's start instead (report_json_ts()). Valid after the finish. */
static inline double report_since_begin(const struct report *r, uint64_t ns)
{
	return (double)ns - (double)r->begin_ns;
}

/* Length of the trace so far. */
static inline uint64_t report_wall_ns(const struct report *r)
{
	return r->last_ns > r->begin_ns ? r->last_ns - r->begin_ns : 0;
}

/* A time of the monotonic clock as "ts" of the trace: milliseconds with six decimals. */
void report_json_ts(const struct report *r, struct json *j, const char *name, uint64_t ns);
#define WALL_TEXT_SZ 64
/* A time since the epoch, UTC. NULL: not known. */
const char *report_wall_text(char buf[WALL_TEXT_SZ], uint64_t wall_ns);

#endif /* REPORT_REPORT_H */
