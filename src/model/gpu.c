/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu.h"

#include "devices.h"
#include "event_table.h"

#include "ct_shm.h"
#include "util/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls kept per thread: half a second at 500,000 per second. All threads together: 100 MB. */
#define ROOM_MIN    256
#define ROOM_MAX    (1u << 16)
#define ROWS_MAX    (1u << 21)
#define WAITING_MAX 1024

static bool is_graph_launch(const struct trace_event *ev)
{
	return ev->type == TYPE_GRAPH && !strcmp(ev->name, "cuGraphLaunch");
}

bool gpu_is_wanted(const struct trace_event *ev)
{
	/* CUPTI assigns a nested driver call the number of the outer one. */
	return ev->fn->api == API_CUDA && !ev->api_depth &&
	       (ev->type == TYPE_KERNEL || ev->type == TYPE_TRANSFER || is_graph_launch(ev));
}

static bool is_missing(const struct gpu_calls *c, const struct gpu_call *call)
{
	return call->is_launch && !call->timed && call->start_ns >= c->since_ns;
}

static void drop_first(struct gpu_join *j, struct gpu_calls *c)
{
	const struct gpu_call *first = &c->v[c->known++ & (c->room - 1)];

	j->missing_cnt += is_missing(c, first);
}

static void grow(struct gpu_join *j, struct gpu_calls *c)
{
	uint32_t room = c->room ? 2 * c->room : ROOM_MIN;
	struct gpu_call *v;

	if (room > ROOM_MAX || j->row_cnt + room - c->room > ROWS_MAX)
		return;
	v = malloc(room * sizeof(*v));
	if (!v)
		return;
	for (uint64_t i = c->known; i < c->made; i++)
		v[i & (room - 1)] = c->v[i & (c->room - 1)];
	free(c->v);
	j->row_cnt += room - c->room;
	c->v = v;
	c->room = room;
}

void gpu_calls__add(struct gpu_join *j, struct gpu_calls *c, const struct trace_event *ev,
		    bool is_line)
{
	bool ran = event_returned(ev) && !ev->is_error && !ev->capturing;

	if (c->made - c->known == c->room)
		grow(j, c);
	if (!c->room)
		return;
	if (c->made - c->known == c->room)
		drop_first(j, c);
	c->v[c->made++ & (c->room - 1)] = (struct gpu_call){
		.start_ns = ev->start_ns,
		/* If only the entry was recorded, the call may last until the next one. */
		.end_ns = ev->entry_only ? UINT64_MAX : ev->end_ns,
		.id = is_line ? ev->id : 0,
		.range_id = ev->range_id,
		.operator_id = ev->operator_id,
		.name = ev->name,
		.is_launch = ran && ((ev->has & HAS_LAUNCH) || is_graph_launch(ev)),
	};
}

struct gpu_call *gpu_calls__find(const struct gpu_calls *c, uint64_t ns, bool *later)
{
	uint64_t cnt = COUNT_LEADING(i, c->made - c->known,
				     c->v[(c->known + i) & (c->room - 1)].start_ns <= ns);
	struct gpu_call *found;

	*later = cnt == c->made - c->known;
	if (!cnt)
		return NULL;
	found = &c->v[(c->known + cnt - 1) & (c->room - 1)];
	return ns <= found->end_ns ? found : NULL;
}

uint64_t gpu_calls__missing(const struct gpu_calls *c)
{
	uint64_t cnt = 0;

	for (uint64_t i = c->known; i < c->made; i++) {
		const struct gpu_call *call = &c->v[i & (c->room - 1)];

		cnt += is_missing(c, call);
	}
	return cnt;
}

void gpu_calls__free(struct gpu_join *j, struct gpu_calls *c)
{
	j->missing_cnt += gpu_calls__missing(c);
	j->row_cnt -= c->room;
	free(c->v);
	*c = (struct gpu_calls){0};
}

bool gpu_join__wait(struct gpu_join *j, const struct ct_gpu_run *g)
{
	if (!j->waiting)
		j->waiting = malloc(WAITING_MAX * sizeof(*j->waiting));
	if (!j->waiting || j->waiting_cnt == WAITING_MAX)
		return false;
	j->waiting[(j->waiting_at + j->waiting_cnt++) % WAITING_MAX] = *g;
	return true;
}

const struct ct_gpu_run *gpu_join__first(const struct gpu_join *j)
{
	return j->waiting_cnt ? &j->waiting[j->waiting_at] : NULL;
}

void gpu_join__drop_first(struct gpu_join *j)
{
	j->waiting_at = (j->waiting_at + 1) % WAITING_MAX;
	j->waiting_cnt--;
}

void gpu_join__take(struct gpu_join *j, bool (*fn)(const struct ct_gpu_run *g, void *arg),
		    void *arg)
{
	unsigned cnt = j->waiting_cnt, kept = 0;

	for (unsigned i = 0; i < cnt; i++) {
		const struct ct_gpu_run *g = &j->waiting[(j->waiting_at + i) % WAITING_MAX];

		if (!fn(g, arg))
			j->waiting[(j->waiting_at + kept++) % WAITING_MAX] = *g;
	}
	j->waiting_cnt = kept;
}

void gpu_join__free(struct gpu_join *j)
{
	free(j->waiting);
}

/* CUpti_ActivityMemcpyKind (CUDA 13.0): arrays are on the device. */
static enum copy_dir dir_of(uint32_t kind)
{
	static const uint8_t dirs[] = {
		[1] = COPY_DIR_HTOD,  /* HTOD */
		[2] = COPY_DIR_DTOH,  /* DTOH */
		[3] = COPY_DIR_HTOD,  /* HTOA */
		[4] = COPY_DIR_DTOH,  /* ATOH */
		[5] = COPY_DIR_DTOD,  /* ATOA */
		[6] = COPY_DIR_DTOD,  /* ATOD */
		[7] = COPY_DIR_DTOD,  /* DTOA */
		[8] = COPY_DIR_DTOD,  /* DTOD */
		[9] = COPY_DIR_HTOH,  /* HTOH */
		[10] = COPY_DIR_PEER, /* PTOP */
	};

	return kind < sizeof(dirs) ? dirs[kind] : COPY_NONE;
}

void gpu_event(struct trace_event *ev, const struct ct_gpu_run *g, const char *kernel,
	       const char *mangled, const struct gpu_call *call)
{
	static const char *const ops[CT_RUN_WHAT_CNT] = {
		[CT_RUN_KERNEL] = "kernel",
		[CT_RUN_COPY] = "copy",
		[CT_RUN_MEMSET] = "memset",
		[CT_RUN_GRAPH] = "graph",
	};
	uint64_t bytes = g->what == CT_RUN_KERNEL ? 0 : g->bytes;

	*ev = (struct trace_event){
		.kind = EVENT_GPU,
		.type = event_kinds[EVENT_GPU].type,
		.op = ops[g->what],
		.name = ops[g->what],
		.pid = g->rec.pid,
		.tid = g->rec.tid,
		.comm = "",
		.start_ns = g->rec.ts_ns,
		.end_ns = g->end_ns,
		.size = bytes,
		.has = bytes ? HAS_SIZE : 0,
		.gpu =
			{
				.device = g->device,
				.context = g->context,
				.gpu_stream = g->stream,
				.correlation = g->correlation,
				.graph_node = g->graph_node,
				.kernel = kernel,
				.kernel_mangled = mangled,
			},
	};
	if (g->what == CT_RUN_COPY) {
		ev->dir = dir_of(g->copy_kind);
		ev->has |= ev->dir ? HAS_DIR : 0;
	}
	if (g->what == CT_RUN_KERNEL) {
		ev->gpu.registers = g->registers;
		ev->gpu.shared_mem = g->bytes;
	}
	if (bytes && g->end_ns > g->rec.ts_ns) {
		ev->has |= HAS_BANDWIDTH;
		ev->bandwidth_gbps = (double)bytes / (g->end_ns - g->rec.ts_ns);
	}
	if (!call)
		return;
	ev->gpu.call_id = call->id;
	ev->gpu.call = call->name;
	ev->gpu.range_id = call->range_id;
	ev->gpu.operator_id = call->operator_id;
	ev->gpu.queue_ns = ev->start_ns > call->start_ns ? ev->start_ns - call->start_ns : 0;
}

const char *gpu_time_name(int mode)
{
	static const char *const names[] = {
		[CT_GPU_TIME_GRAPHS] = "graphs", [CT_GPU_TIME_NODES] = "nodes"};

	return mode >= 0 && mode < (int)(sizeof(names) / sizeof(names[0])) ? names[mode] : NULL;
}

int gpu_time_by_name(const char *name)
{
	for (int i = CT_GPU_TIME_GRAPHS; gpu_time_name(i); i++)
		if (!strcmp(name, gpu_time_name(i)))
			return i;
	return -1;
}

/* code: a CUptiResult, or -errno */
static const char *cupti_error_name(int code)
{
	switch (code) {
#define CUPTI_ERROR(name, number)                                                                  \
	case number:                                                                               \
		return "CUPTI_ERROR_" #name;
#include "cupti_results.def"
#undef CUPTI_ERROR
	default:
		return code < 0 && code > -4096 ? strerror(-code) : "unknown error";
	}
}

void gpu_state_text(const struct ct_shm_gpu *gpu, char *buf, size_t size)
{
	switch (gpu->state) {
	case CT_CUPTI_ON:
		snprintf(buf, size, "CUPTI %u, %s", gpu->version, gpu->path);
		break;
	case CT_CUPTI_MISSING:
		snprintf(buf, size,
			 gpu->path[0] ? "%s is not the required version of libcupti"
				      : "no libcupti was found: set its path with --cupti PATH%s",
			 gpu->path);
		break;
	case CT_CUPTI_BAD:
		snprintf(
			buf, size,
			"CUPTI %u (%s) is too old or known to lose kernels: set another with --cupti PATH",
			gpu->version, gpu->path);
		break;
	case CT_CUPTI_TAKEN:
		snprintf(buf, size, "CUPTI is in use already%s%s%s, by a profiler",
			 gpu->who[0] ? " (" : "", gpu->who, gpu->who[0] ? ")" : "");
		break;
	case CT_CUPTI_BUSY:
		snprintf(
			buf, size,
			"CUPTI was not started, because it may crash a program at work (%s): try again",
			gpu->who);
		break;
	default:
		snprintf(buf, size, "%s failed: %s (%d)", gpu->who[0] ? gpu->who : "CUPTI",
			 cupti_error_name(gpu->code), gpu->code);
	}
}

/* No thread ID is this high (PID_MAX_LIMIT is 2^22), and all timeline formats have 31 bits for it.
 * RANGE_ROW_TID is for the other kind of such rows. */
#define ROW_TID (1u << 30)

uint32_t gpu_row_tid(const struct trace_event *ev)
{
	return ROW_TID | (ev->gpu.device & 15) << 26 | (ev->gpu.context & 1023) << 16 |
	       (ev->gpu.gpu_stream & 65535);
}

void gpu_row_name(const struct trace_event *ev, char buf[GPU_ROW_NAME_SZ])
{
	char label[DEVICE_LABEL_SZ];

	device_label(label, ev->device, ev->gpu.device);
	snprintf(buf, GPU_ROW_NAME_SZ, "%s ctx %u stream %u", label, ev->gpu.context,
		 ev->gpu.gpu_stream);
}
