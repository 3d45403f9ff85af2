/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Matrix products and equivalent operations, by function, op, size and types: operations and host
 * time; with --gpu-time also GPU time and the share of the GPU's peak. An execution's call is a
 * launch inside the product's call, directly or through nested calls: parent ids lead there.
 */
#include "report/section.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "peak.h"
#include "report/collect.h"

#define ROWS_MAX (1u << 14)
#define NONE	 UINT32_MAX
#define IN_MAX	 8
/* Executions that arrived before their launch's enclosing call returned. */
#define EARLY_MAX    512
#define EARLY_HASHES 4096

struct gemm_row {
	const char *name, *op;
	struct gemm_info g; /* of one */
	uint64_t cnt, call_ns, gpu_cnt, gpu_ns, timed_flops;
	/* Device and units of its executions; differs: they are not all the same. */
	struct device device;
	enum peak_type type;
	bool differs;
};

struct gemm_call {
	uint64_t key, parent;
	uint32_t row; /* NONE: no product */
	bool timed;   /* its operations are in its row's timed_flops */
};

struct gemm_early {
	struct trace_event ev;
	struct device device;
};

struct gemms {
	struct report *r;
	/* Executions that wait for the calls with these keys; 0: none. */
	uint64_t early_keys[EARLY_MAX];
	struct gemm_early *early;
	unsigned early_cnt,
		early_next; /* early_next: for the next one, if it is free or all are in use */
	uint16_t early_of[EARLY_HASHES]; /* their number by hash of the key: most calls have none */
	struct keys keys;
	struct gemm_row *rows;
	unsigned cap;
	struct gemm_call *calls; /* nested calls and products: the latest */
	uint64_t flops, cnt;
	uint64_t unknown_cnt; /* plans of cuDNN with unknown operations */
};

static void gemms__free(void *a)
{
	struct gemms *s = a;

	keys__free(&s->keys);
	memlimit_free(s->rows);
	free(s->early);
	free(s->calls);
	free(s);
}

static uint64_t text_key(uint64_t key, const char *s)
{
	for (; s && *s; s++)
		key = pair_key(key, (uint8_t)*s);
	return pair_key(key, 1);
}

static uint32_t row_of(struct gemms *s, const struct trace_event *ev)
{
	const struct gemm_info *g = &ev->gemm;
	uint64_t key = text_key(text_key(0, ev->name), ev->op);
	uint32_t i;

	key = pair_key(pair_key(pair_key(pair_key(key, g->m), g->n), g->k), g->batch);
	key = text_key(text_key(text_key(key, g->a_type), g->b_type), g->c_type);
	/* A cuDNN plan may have further products besides the one with these sizes. */
	key = pair_key(text_key(key, g->compute_type), g->flops);
	i = keys_row_max(&s->keys, key, ROWS_MAX, MEMLIMIT_KERNELS, s->rows, s->cap);
	if (i == KEYS_NONE)
		return NONE;
	s->rows[i].name = ev->name;
	s->rows[i].op = ev->op;
	s->rows[i].g = *g;
	return i;
}

static uint64_t call_key(const struct trace_event *ev, uint64_t id)
{
	return pair_key(id, ev->pid);
}

static void remember(struct gemms *s, const struct trace_event *ev, uint32_t row)
{
	uint64_t key = call_key(ev, ev->id);
	struct gemm_call *c;

	if (!s->calls)
		s->calls = calloc(RECENT_MAX, sizeof(*s->calls));
	if (!s->calls || !key)
		return;
	c = recent_get(s->calls, sizeof(*c), key);
	*c = (struct gemm_call){key, ev->parent_id ? call_key(ev, ev->parent_id) : 0, row, false};
}

static void on_early(struct gemms *s, uint64_t key);

static void on_call(struct gemms *s, const struct trace_event *ev)
{
	struct gemm_row *row;
	uint32_t i = NONE;

	if ((ev->has & HAS_GEMM) && ev->gemm.flops && call_was_made(ev) && !ev->is_error) {
		i = row_of(s, ev);
		s->flops += ev->gemm.flops;
		s->cnt++;
	}
	if (i != NONE) {
		row = &s->rows[i];
		row->cnt++;
		row->call_ns += event_duration_ns(ev);
	}
	if (i != NONE || ev->parent_id || s->early_cnt)
		remember(s, ev, i);
	if (s->early_cnt && call_key(ev, ev->id))
		on_early(s, call_key(ev, ev->id));
	s->unknown_cnt += ev->fn->op == OP_EXECUTE && call_was_made(ev) && !ev->is_error &&
			  !strcmp(ev->op, api_op_name(OP_EXECUTE));
}

static bool is_alike(const struct device *a, const struct device *b)
{
	return a->capability == b->capability && a->sm_cnt == b->sm_cnt &&
	       a->clock_khz == b->clock_khz && !strcmp(a->model, b->model);
}

static void add_execution(struct gemm_row *row, const struct trace_event *ev)
{
	enum peak_type type = peak_type_of(&row->g, ev->gpu.kernel);

	if (type && row->type && type != row->type)
		row->differs = true;
	if (type)
		row->type = type;
	if (!row->gpu_cnt && ev->device)
		row->device = *ev->device;
	else if (!ev->device || !is_alike(&row->device, ev->device))
		row->differs = true;
	row->gpu_cnt++;
	row->gpu_ns += event_duration_ns(ev);
}

static void forget_early(struct gemms *s, unsigned i)
{
	if (!s->early_keys[i])
		return;
	s->early_of[s->early_keys[i] % EARLY_HASHES]--;
	s->early_keys[i] = 0;
	s->early_cnt--;
}

static void wait_for(struct gemms *s, const struct trace_event *ev, uint64_t key)
{
	struct gemm_early *e;

	if (!s->early)
		s->early = calloc(EARLY_MAX, sizeof(*s->early));
	if (!s->early)
		return;
	while (s->early_cnt < EARLY_MAX && s->early_keys[s->early_next])
		s->early_next = (s->early_next + 1) % EARLY_MAX;
	e = &s->early[s->early_next];
	forget_early(s, s->early_next);
	s->early_keys[s->early_next] = key;
	s->early_of[key % EARLY_HASHES]++;
	s->early_cnt++;
	s->early_next = (s->early_next + 1) % EARLY_MAX;
	e->ev = *ev;
	if (ev->device)
		e->device = *ev->device;
}

/* Assigns the execution to the call with that key, or to the enclosing product. */
static void on_gpu(struct gemms *s, const struct trace_event *ev, uint64_t key)
{
	for (unsigned n = 0; key && n < IN_MAX; n++) {
		struct gemm_call *c = s->calls ? recent_find(s->calls, sizeof(*c), key) : NULL;
		struct gemm_row *row;

		/* There is no enclosing call, or it has not returned yet. */
		if (!c) {
			if (n)
				wait_for(s, ev, key);
			return;
		}
		if (c->row == NONE) {
			key = c->parent;
			continue;
		}
		row = &s->rows[c->row];
		add_execution(row, ev);
		/* A product may run several kernels, with others in between. */
		if (!c->timed)
			row->timed_flops += row->g.flops;
		c->timed = true;
		return;
	}
}

/* Assigns executions that waited for the call with that key, which has returned. */
static void on_early(struct gemms *s, uint64_t key)
{
	for (unsigned i = 0; i < EARLY_MAX && s->early_of[key % EARLY_HASHES]; i++) {
		struct gemm_early e;

		if (s->early_keys[i] != key)
			continue;
		forget_early(s, i);
		e = s->early[i];
		if (e.ev.device)
			e.ev.device = &e.device;
		on_gpu(s, &e.ev, key);
	}
}

static void gemms_event(void *a, const struct trace_event *ev)
{
	if (ev->kind == EVENT_CALL && ev->fn)
		on_call(a, ev);
	else if (ev->kind == EVENT_GPU && ev->gpu.call_id)
		on_gpu(a, ev, call_key(ev, ev->gpu.call_id));
}

static int by_flops(const void *a, const void *b)
{
	const struct gemm_row *x = a, *y = b;
	double fx = (double)x->cnt * x->g.flops, fy = (double)y->cnt * y->g.flops;

	return fx > fy ? -1 : fx < fy;
}

static void gemms_finish(void *a)
{
	struct gemms *s = a;

	if (s->keys.cnt)
		qsort(s->rows, s->keys.cnt, sizeof(*s->rows), by_flops);
}

/* 10^12 per second; 0: not known. */
static double tflops(const struct gemm_row *row)
{
	return row->gpu_ns ? row->timed_flops / (row->gpu_ns * 1e3) : 0;
}

/* A rate above the GPU's peak times this is impossible: then an assumption is wrong. */
#define POSSIBLE 1.02
static struct peak peak(const struct gemm_row *row)
{
	bool half = row->g.compute_type ? !strcmp(row->g.compute_type, "CUBLAS_COMPUTE_16F") : true;
	struct peak p = {0};

	if (row->gpu_ns && row->type && !row->differs)
		p = peak_of(&row->device, row->type, half);
	return tflops(row) <= POSSIBLE * p.most ? p : (struct peak){0};
}

static const char *flops_text(char buf[SECTION_BUF], double flops)
{
	static const char *const units[] = {"", " k", " M", " G", " T", " P"};
	unsigned i = 0;

	for (; flops >= 1000 && i < 5; i++)
		flops /= 1000;
	snprintf(buf, SECTION_BUF, "%.3g%s", flops, units[i]);
	return buf;
}

/* Prints each peak that shares refer to, once. */
#define PEAKS_SHOWN 4
static void print_peaks(const struct gemms *s, unsigned rows, const struct term *term)
{
	const struct gemm_row *shown[PEAKS_SHOWN];
	unsigned cnt = 0;

	for (unsigned i = 0; i < rows && cnt < PEAKS_SHOWN; i++) {
		const struct gemm_row *row = &s->rows[i];
		const struct peak p = peak(row);
		char text[256];
		bool is_new = p.tflops > 0;

		for (unsigned k = 0; k < cnt; k++)
			is_new &= peak(shown[k]).tflops != p.tflops || shown[k]->type != row->type;
		if (!is_new)
			continue;
		shown[cnt++] = row;
		snprintf(text, sizeof(text),
			 "Peak of %s: %.4g TFLOP/s, dense: %u multiprocessors at %u MHz%s%s",
			 peak_type_name(row->type), p.tflops, row->device.sm_cnt,
			 p.clock_khz / 1000, *row->device.model ? ", " : "", row->device.model);
		term_para(term, "%s", text);
	}
}

/* The function without the common prefix; for cuDNN a short name of the operation. */
static const char *short_name(const struct gemm_row *row)
{
	static const struct {
		const char *op, *is;
	} ops[] = {
		{"convolution_forward", "conv"},	  {"convolution_backward_data", "dgrad"},
		{"convolution_backward_filter", "wgrad"}, {"attention_forward", "attention"},
		{"attention_backward", "attn bwd"},
	};

	if (strncmp(row->name, "cudnn", 5) != 0)
		return strncmp(row->name, "cublas", 6) ? row->name : row->name + 6;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(row->op, ops[i].op))
			return ops[i].is;
	return row->op;
}

static void print_unknown(const struct gemms *s, const struct term *term)
{
	char text[256];

	if (!s->unknown_cnt)
		return;
	snprintf(
		text, sizeof(text),
		"%" PRIu64
		" executions of cuDNN plans are not included: the plans were made before the trace or from JSON, or "
		"calls were lost",
		s->unknown_cnt);
	term_para(term, "%s", text);
}

static const char *gemm_text(char buf[SECTION_BUF], const struct gemm_row *x)
{
	const char *type = x->g.c_type ?: "";
	int len = snprintf(buf, SECTION_BUF, "%" PRIu64 " %" PRIu64 " %" PRIu64, x->g.m, x->g.n,
			   x->g.k);

	/* A trace may contain any text here. */
	if (!strncmp(type, "CUDA_", 5))
		type += 5;
	if (x->g.batch > 1)
		len += snprintf(buf + len, SECTION_BUF - len, " x %" PRIu64, x->g.batch);
	snprintf(buf + len, SECTION_BUF - len, " %s %s", type, short_name(x));
	return buf;
}

#define SECTION_STATE struct gemms
#define SECTION_ROWS  "report/kernels/gemms.section"
#include "report/section_rows.h"

static void gemms_print(const void *a, const struct term *term)
{
	const struct gemms *s = a;
	char all[SECTION_BUF];

	if (!s->cnt && !s->unknown_cnt)
		return;
	term_section(term, "Matrix products", "%s, %s operations", HUMAN_COUNT(s->cnt),
		     flops_text(all, s->flops));
	print_peaks(s, section_print(s->r, &gemms_table, s, s, "list", 0, term), term);
	print_unknown(s, term);
}

const struct analysis_ops gemms_ops = {
	.name = "gemms",
	.size = STATE_SIZE(struct gemms),
	.event = gemms_event,
	.finish = gemms_finish,
	.section = &gemms_table,
	.print = gemms_print,
	.free = gemms__free,
	.of_args = true,
};
