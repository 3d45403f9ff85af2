/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of the model's enums. */
#include "event.h"
#include "trace.h"

static const char *const type_names[TYPE_CNT] = {
#define CLASS(id, name, TYPE, type, ...) [TYPE_##TYPE] = type,
#include "decode/cuda_classes.def"
#undef CLASS
#define CALL_TYPES
#define OWN_TYPE(ID, name)		      [TYPE_##ID] = name,
#define EVENT(ID, id, type, flags, ops, text) type
#include "events.def"
};

static const char *const drop_names[CT_DROP_CNT] = {
	[CT_DROP_CALL] = "calls",
	[CT_DROP_TASK] = "tasks",
	[CT_DROP_LIB] = "libraries",
	[CT_DROP_THREADS] = "threads",
	[CT_DROP_DEPTH] = "depth",
	[CT_DROP_NV] = "driver",
	[CT_DROP_COUNT] = "counts",
	[CT_DROP_ERRORS] = "errors",
	[CT_DROP_THREADS_SHARE] = "threads_share",
	[CT_DROP_NV_SHARE] = "driver_share",
	[CT_DROP_PROCESSES] = "processes",
	[CT_DROP_CTXSW] = "ctxsw",
	[CT_DROP_INPROC] = "inproc",
	[CT_DROP_BEGIN] = "begins",
	[CT_DROP_PM] = "gpu_metrics",
};

const char *event_type_name(enum event_type t)
{
	return t < TYPE_CNT ? type_names[t] : "other";
}

enum event_type event_type_of(enum api_class c)
{
	static const uint8_t types[CLASS_CNT] = {
#define CLASS(id, name, TYPE, ...)                                                                 \
	[CLASS_##id] = TYPE_##TYPE                                                                 \
	,
#include "decode/cuda_classes.def"
#undef CLASS
	};

	return types[c];
}

uint64_t trace_lost(const struct trace_end *end)
{
	uint64_t cnt = 0;

	for (unsigned i = 0; i < CT_DROP_CNT; i++)
		cnt += i == CT_DROP_CTXSW ? 0 : end->drops[i];
	return cnt;
}

const char *drop_name(enum ct_drop d)
{
	return d < CT_DROP_CNT && drop_names[d] ? drop_names[d] : "other";
}
