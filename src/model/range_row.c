/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers of a timeline's rows for ranges and operators of a thread. */
#include "ranges.h"

#include <inttypes.h>
#include <stdio.h>

/* Part of the row ID between RANGE_ROW_TID and the thread's or process's number. */
enum { ROW_DEFAULT, ROW_DOMAIN, ROW_OPERATORS = 95, ROW_LANE, ROW_KINDS = 128 };
#define ROW_KIND_AT 22

static uint32_t domain_row(const char *domain)
{
	uint32_t h = 2166136261u;

	if (!domain)
		return ROW_DEFAULT;
	for (; *domain; domain++)
		h = (h ^ (uint8_t)*domain) * 16777619u;
	return ROW_DOMAIN + h % (ROW_OPERATORS - ROW_DOMAIN);
}

uint32_t range_row_tid(const struct trace_event *ev)
{
	bool is_operator = ev->kind == EVENT_OPERATOR, is_started = ev->op[0] == 's';
	uint32_t kind = is_operator  ? ROW_OPERATORS
			: is_started ? ROW_LANE + ev->range.lane % (ROW_KINDS - ROW_LANE)
				     : domain_row(ev->range.domain);

	return RANGE_ROW_TID | kind << ROW_KIND_AT |
	       ((is_started ? ev->pid : ev->tid) & ((1u << ROW_KIND_AT) - 1));
}

void range_row_name(const struct trace_event *ev, char buf[RANGE_ROW_NAME_SZ])
{
	if (ev->kind == EVENT_OPERATOR)
		snprintf(buf, RANGE_ROW_NAME_SZ, "PyTorch %" PRIu32, ev->tid);
	else if (ev->op[0] == 's')
		snprintf(buf, RANGE_ROW_NAME_SZ, "NVTX started %" PRIu32, ev->range.lane);
	else
		snprintf(buf, RANGE_ROW_NAME_SZ, "NVTX %" PRIu32 " %.30s", ev->tid,
			 ev->range.domain ?: "");
}
