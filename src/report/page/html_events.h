/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by html_events.c (collects) and html_events_write.c. */
#ifndef REPORT_PAGE_HTML_EVENTS_H
#define REPORT_PAGE_HTML_EVENTS_H

#include "util/hash_table.h"

#include "report/callers.h"
#include "html.h"

/* Limits per process, besides MEMLIMIT_PAGE_MAX lanes, of which further threads share one: names
 * become the first name, and other events have no details. */
#define WHATS	 (1 << 20)
#define DETAILS	 (1 << 17)
#define REFUSALS 4096
/* Limit of stacks in the page. */
#define CALLERS 500
/* Density of merged events: a cell is 1 ms, and doubles for longer traces. */
#define CELLS	 2048
#define CELL_MIN 1000000

struct hev {
	int64_t start : 48; /* ns since ts 0: 39 hours; later ones are clamped */
	uint64_t lane : 16;
	uint64_t dur : 44;    /* ns: 4.8 hours */
	uint64_t detail : 20; /* 0: none */
	uint32_t id;	      /* 0: none, or too large */
	uint32_t what;
};
_Static_assert(sizeof(struct hev) == 24, "a million events are 24 MB");
_Static_assert(MEMLIMIT_ALL(MEMLIMIT_PAGE_MAX) < 1 << 16 && MEMLIMIT_ALL(DETAILS) < 1 << 20,
	       "their numbers fit");

struct cell {
	uint32_t cnt;
	uint8_t type; /* of the longest event */
	uint64_t busy_ns, longest_ns;
};

struct lane {
	struct hash_link link;
	struct lane_key {
		uint32_t pid, tid;
		uint32_t driver;
	} key;
	unsigned idx;
	char comm[64];
	size_t cnt; /* events written */
	struct cell *cells;
};
HASH_TABLE(lane, key);

struct detail_row {
	struct hash_link link;
	struct detail_row_key {
		const char *name, *kernel;
		uint32_t type, kind;
	} key;
	unsigned idx;
	const char *op;
};
HASH_TABLE(detail_row, key);

enum detail_flag {
	D_UNFINISHED = 1 << 0,
	D_ABANDONED = 1 << 1,
	D_ERROR = 1 << 2,
	D_CAPTURING = 1 << 3,
	D_LAUNCH = 1 << 4,
};

struct detail {
	struct hash_link link;
	struct detail_key {
		uint64_t size, stream;
		const char *error;	   /* result name; NULL: none, or no name */
		const struct stack *stack; /* with Python frames; NULL: none */
		const char *status;	   /* of a refused ioctl; NULL: none, or no name */
		uint32_t grid[3], block[3], shared_mem;
		uint32_t has, dir, flags;
		int32_t result;
		uint32_t pad;
	} key;
	unsigned idx;
};
HASH_TABLE(detail, key);

/* Refused ioctls, by command and reason. */
struct refusal {
	struct hash_link link;
	struct refusal_key {
		const char *name, *device, *status;
		uint64_t number; /* status without a name, or errno */
		uint64_t is_errno;
	} key;
	uint64_t cnt;
};
HASH_TABLE(refusal, key);

struct html_events {
	uint64_t base_ns;
	struct hev *evs;
	size_t cnt, cap, max;
	struct lane_table lanes;
	struct lane *lane_at[MEMLIMIT_ALL(MEMLIMIT_PAGE_MAX) + 1];
	struct lane others; /* threads without a lane of their own */
	struct memlimit_share lane_rows, what_rows, detail_rows, refusal_rows;
	struct detail_row_table whats;
	struct detail_table details;
	struct refusal_table refusals;
	struct callers callers;
	unsigned lane_cnt, what_cnt, detail_cnt;
	bool failed; /* out of memory */
	/* merged: events shorter than below_ns */
	uint64_t below_ns, merged_cnt, step_ns;
};

/* Launches and system calls into the driver are both TYPE_KERNEL: in the page the latter have their
 * own type. */
#define HTML_TYPE_DRIVER TYPE_CNT

static inline uint8_t html_type(uint32_t kind, uint32_t type)
{
	return kind == EVENT_DRIVER ? HTML_TYPE_DRIVER : (uint8_t)type;
}

static inline const char *html_type_name(uint8_t type)
{
	return type == HTML_TYPE_DRIVER ? "driver" : event_type_name(type);
}

#endif /* REPORT_PAGE_HTML_EVENTS_H */
