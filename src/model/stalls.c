/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stalls.h"

#include "decode/sass.h"
#include "event_table.h"

#include "ct_shm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FNS_MAX	     (2 * CT_STALL_FNS_MAX)
#define SOURCES_MAX  4096
#define ROWS_MAX     65536
#define ROWS_BEGIN   1024
#define PARTS	     64 /* lines of instructions of a function and interval */
#define PART_PERCENT 2
#define PART_SAMPLES 5
/* The length of a wait is measured at instructions with at least this part of the waits. */
#define WAIT_PERCENT 2

struct source_line {
	uint32_t pc, line;
	char *file;
};

struct stalls_fn {
	uint64_t id;
	uint8_t *code; /* room for size bytes, of which the first `have` are known */
	uint32_t size, have, arch;
	struct source_line *lines;
	unsigned line_cnt;
};

struct proc_stalls {
	struct quota *quota;
	struct quota_share share;
	struct stalls_fn *fns; /* by id, from id % FNS_MAX on */
	unsigned fn_cnt;
	/* Samples that were added since the last interval. */
	uint64_t function;
	struct ct_stall_row *rows;
	unsigned row_cnt, row_room;
};

struct proc_stalls *proc_stalls__new(struct quota *quota)
{
	struct proc_stalls *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->quota = quota;
	if (quota__take(quota, &s->share, FNS_MAX * sizeof(*s->fns)))
		s->fns = calloc(FNS_MAX, sizeof(*s->fns));
	if (s->fns)
		return s;
	quota__give(quota, &s->share, s->share.used);
	free(s);
	return NULL;
}

void proc_stalls__free(struct proc_stalls *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < FNS_MAX; i++) {
		for (unsigned k = 0; k < s->fns[i].line_cnt; k++)
			free(s->fns[i].lines[k].file);
		free(s->fns[i].lines);
		free(s->fns[i].code);
	}
	free(s->fns);
	free(s->rows);
	quota__give(s->quota, &s->share, s->share.used);
	free(s);
}

static struct stalls_fn *find(struct proc_stalls *s, uint64_t id, bool make)
{
	for (unsigned k = 0, i = id % FNS_MAX; k < FNS_MAX && id; k++, i = (i + 1) % FNS_MAX) {
		if (s->fns[i].id == id)
			return &s->fns[i];
		if (s->fns[i].id)
			continue;
		if (!make || s->fn_cnt == FNS_MAX * 3 / 4)
			return NULL;
		s->fn_cnt++;
		s->fns[i].id = id;
		return &s->fns[i];
	}
	return NULL;
}

void proc_stalls__add_code(struct proc_stalls *s, const struct ct_stall_code *rec)
{
	struct stalls_fn *f;

	if (rec->len > CT_STALL_PART_MAX || rec->rec.size - sizeof(*rec) < rec->len || !rec->size ||
	    rec->size > CT_STALL_CODE_MAX || rec->off > rec->size ||
	    rec->len > rec->size - rec->off)
		return;
	f = find(s, rec->function, true);
	if (!f)
		return;
	if (!f->code && quota__take(s->quota, &s->share, rec->size)) {
		f->code = malloc(rec->size);
		f->size = rec->size;
		f->arch = rec->arch;
	}
	if (!f->code || f->size != rec->size)
		return;
	/* It is sent again after a loss. */
	if (rec->off > f->have)
		return;
	memcpy(f->code + rec->off, rec->code, rec->len);
	if (rec->off + rec->len > f->have)
		f->have = rec->off + rec->len;
}

static const struct source_line *line_of(const struct stalls_fn *f, uint32_t pc)
{
	for (unsigned i = 0; f && i < f->line_cnt; i++)
		if (f->lines[i].pc == pc)
			return &f->lines[i];
	return NULL;
}

void proc_stalls__add_source(struct proc_stalls *s, const struct ct_stall_source *rec)
{
	struct stalls_fn *f;
	struct source_line *lines;

	if (!rec->len || rec->len > CT_STALL_FILE_MAX || rec->rec.size - sizeof(*rec) < rec->len)
		return;
	f = find(s, rec->function, true);
	if (!f || f->line_cnt == SOURCES_MAX || line_of(f, rec->pc) ||
	    !quota__take(s->quota, &s->share, sizeof(*lines) + rec->len + 1))
		return;
	lines = realloc(f->lines, (f->line_cnt + 1) * sizeof(*lines));
	if (!lines)
		return;
	f->lines = lines;
	lines[f->line_cnt] = (struct source_line){rec->pc, rec->line, strndup(rec->file, rec->len)};
	f->line_cnt += lines[f->line_cnt].file != NULL;
}

void proc_stalls__add_pcs(struct proc_stalls *s, const struct ct_stall_pcs *rec)
{
	if (rec->cnt > CT_STALL_ROWS_MAX ||
	    (rec->rec.size - sizeof(*rec)) / sizeof(rec->rows[0]) < rec->cnt)
		return;
	if (s->function != rec->function)
		s->row_cnt = 0;
	s->function = rec->function;
	for (unsigned i = 0; i < rec->cnt; i++) {
		if (rec->rows[i].reason >= CT_STALL_CNT)
			continue;
		if (s->row_cnt == s->row_room) {
			unsigned room = s->row_room ? 2 * s->row_room : ROWS_BEGIN;
			struct ct_stall_row *rows;

			if (room > ROWS_MAX ||
			    !quota__take(s->quota, &s->share, (room - s->row_room) * sizeof(*rows)))
				return;
			rows = realloc(s->rows, room * sizeof(*rows));
			if (!rows)
				return;
			s->rows = rows;
			s->row_room = room;
		}
		s->rows[s->row_cnt++] = rec->rows[i];
	}
}

/* Samples of one instruction. */
struct part {
	uint32_t pc;
	uint64_t sum, reasons[CT_STALL_CNT];
};

static int by_pc(const void *a, const void *b)
{
	const struct ct_stall_row *x = a, *y = b;

	return x->pc < y->pc ? -1 : x->pc > y->pc;
}

/* Adds up the rows of the next instruction; returns the number of rows. */
static unsigned next_part(const struct proc_stalls *s, unsigned at, struct part *p)
{
	unsigned i;

	*p = (struct part){.pc = s->rows[at].pc};
	for (i = at; i < s->row_cnt && s->rows[i].pc == p->pc; i++) {
		p->reasons[s->rows[i].reason] += s->rows[i].samples;
		p->sum += s->rows[i].samples;
	}
	return i - at;
}

static bool is_wait(unsigned reason)
{
	return reason != CT_STALL_SELECTED && reason != CT_STALL_NOT_SELECTED;
}

/* The reason for which most samples wait; CT_STALL_CNT: none waits. */
static unsigned main_reason(const uint64_t *reasons)
{
	unsigned best = CT_STALL_CNT;

	for (unsigned i = 0; i < CT_STALL_CNT; i++)
		if (is_wait(i) && reasons[i] &&
		    (best == CT_STALL_CNT || reasons[i] > reasons[best]))
			best = i;
	return best;
}

static const char *reason_id(unsigned reason)
{
	static const char *const ids[] = {
#define STALL(ID, id, cupti, words) #id,
#include "ct_stall.def"
	};

	return reason < CT_STALL_CNT ? ids[reason] : NULL;
}

static void put_reasons(struct event_stalls *e, const uint64_t *reasons)
{
#define STALL(ID, id, cupti, words)                                                                \
	e->id = (struct opt_u64){reasons[CT_STALL_##ID], reasons[CT_STALL_##ID] != 0};
#include "ct_stall.def"
}

static void put_classes(struct event_stalls *e, const uint64_t *classes)
{
#define CLASS(ID, id, words)                                                                       \
	e->for_##id = (struct opt_u64){classes[SASS_##ID], classes[SASS_##ID] != 0};
#define OP(number, name, ID)
#include "decode/sass.def"
}

/* The instruction that one waits for, by its reason: itself if it waits to enter a queue. */
static uint32_t waited_for(const struct sass *code, uint32_t pc, unsigned reason)
{
	switch (reason) {
	case CT_STALL_LONG_SCOREBOARD:
		return sass_waits_for(code, pc, true);
	case CT_STALL_SHORT_SCOREBOARD:
		return sass_waits_for(code, pc, false);
	case CT_STALL_LG_THROTTLE:
	case CT_STALL_MIO_THROTTLE:
	case CT_STALL_TEX_THROTTLE:
	case CT_STALL_MATH_PIPE:
		return sass_class_at(code, pc) == SASS_CLASS_CNT ? SASS_NONE : pc;
	default:
		return SASS_NONE;
	}
}

static void add_classes(const struct sass *code, const struct part *p, uint64_t *classes)
{
	for (unsigned i = 0; i < CT_STALL_CNT; i++) {
		uint32_t at = p->reasons[i] ? waited_for(code, p->pc, i) : SASS_NONE;

		if (at != SASS_NONE)
			classes[sass_class_at(code, at)] += p->reasons[i];
	}
}

static void add_wait(const struct part *p, unsigned reason, uint64_t of, struct event_stalls *e)
{
	if (p->reasons[reason] * 100 < of * WAIT_PERCENT)
		return;
	e->waiting += p->reasons[reason];
	e->waiting_issued += p->reasons[CT_STALL_SELECTED];
}

static const char *code_state(const struct stalls_fn *f)
{
	if (!f || !f->code || f->have < f->size)
		return "missing";
	return sass_is_known(f->arch) ? "decoded" : "unknown-architecture";
}

static void give_part(const struct stalls_fn *f, const struct sass *code, const struct part *p,
		      struct trace_event *ev, void (*fn)(void *ctx, const struct trace_event *ev),
		      void *ctx)
{
	const struct source_line *line = line_of(f, p->pc);
	struct event_stalls *e = &ev->stalls;
	uint32_t at;

	e->samples = p->sum;
	e->offset = p->pc;
	put_reasons(e, p->reasons);
	e->reason = reason_id(main_reason(p->reasons));
	e->file = line ? line->file : NULL;
	e->line = line ? line->line : 0;
	e->operation = sass_name_at(code, p->pc);
	at = waited_for(code, p->pc, main_reason(p->reasons));
	e->for_offset = (struct opt_u64){at, at != SASS_NONE};
	e->for_operation = at != SASS_NONE ? sass_name_at(code, at) : NULL;
	e->for_class = at != SASS_NONE ? sass_class_name(sass_class_at(code, at)) : NULL;
	line = at != SASS_NONE ? line_of(f, at) : NULL;
	e->for_line = line ? line->line : 0;
	fn(ctx, ev);
}

/* Where the samples of a function are; next: the first instruction that was not looked at, joined:
 * the offset from which on threads are together. */
struct places {
	uint32_t next, joined;
	uint64_t guarded, diverged, issued_memory, issued_multiply, matrix;
};

static bool is_global(enum sass_class c)
{
	return c == SASS_GLOBAL_LOAD || c == SASS_GLOBAL_STORE || c == SASS_ATOMIC;
}

/* Parts come in the order of the code. */
static void add_place(const struct sass *code, const struct part *p, struct places *at)
{
	for (; at->next < p->pc && at->next < code->size; at->next += SASS_SZ) {
		uint32_t joins = sass_joins_at(code, at->next);

		at->joined = joins > at->joined ? joins : at->joined;
	}
	if (p->pc < at->joined)
		at->diverged += p->sum;
	if (sass_is_guarded(code, p->pc))
		at->guarded += p->sum;
	if (is_global(sass_class_at(code, p->pc)))
		at->issued_memory += p->reasons[CT_STALL_SELECTED];
	if (sass_class_at(code, p->pc) == SASS_MULTIPLY)
		at->issued_multiply += p->reasons[CT_STALL_SELECTED];
	if (sass_class_at(code, p->pc) == SASS_TENSOR)
		at->matrix += p->sum;
}

static void sum_up(const struct proc_stalls *s, const struct sass *code, struct event_stalls *e,
		   unsigned reason, uint64_t of)
{
	uint64_t classes[SASS_CLASS_CNT + 1] = {0};
	struct places at = {0};
	struct part p;

	for (unsigned i = 0; i < s->row_cnt;) {
		i += next_part(s, i, &p);
		if (code->size) {
			add_classes(code, &p, classes);
			add_place(code, &p, &at);
		}
		if (reason < CT_STALL_CNT)
			add_wait(&p, reason, of, e);
	}
	put_classes(e, classes);
	e->guarded = (struct opt_u64){at.guarded, code->size};
	e->diverged = (struct opt_u64){at.diverged, code->size};
	e->issued_memory = (struct opt_u64){at.issued_memory, code->size};
	e->issued_multiply = (struct opt_u64){at.issued_multiply, code->size};
	e->matrix = (struct opt_u64){at.matrix, code->size};
}

void proc_stalls__give(struct proc_stalls *s, const struct ct_stalls *rec,
		       const struct trace_event *base,
		       void (*fn)(void *ctx, const struct trace_event *ev), void *ctx)
{
	const struct stalls_fn *f = find(s, rec->function, false);
	struct trace_event ev = *base;
	struct event_stalls *e = &ev.stalls;
	uint64_t reasons[CT_STALL_CNT];
	unsigned reason, cnt = 0;
	struct sass code = {0};
	struct part p;
	uint64_t sum = 0;
	double sm_ns;

	if (f && f->code && f->have == f->size && sass_is_known(f->arch))
		code = (struct sass){f->code, f->size, f->arch};
	if (s->function != rec->function)
		s->row_cnt = 0;
	if (s->row_cnt)
		qsort(s->rows, s->row_cnt, sizeof(*s->rows), by_pc);
	for (unsigned i = 0; i < CT_STALL_CNT; i++)
		sum += reasons[i] = rec->reasons[i];
	reason = main_reason(reasons);
	e->samples = sum;
	e->not_issued = rec->not_issued < sum ? rec->not_issued : sum;
	e->code = code_state(f);
	e->architecture = f ? f->arch : 0;
	e->reason = reason_id(reason);
	e->device = rec->device;
	e->multiprocessors = rec->sm_cnt;
	if (rec->period && rec->period < 64)
		e->period_cycles = (struct opt_u64){1ull << rec->period, true};
	sm_ns = rec->clock_khz ? (double)sum * e->period_cycles.v * 1e6 / rec->clock_khz : 0;
	/* A damaged record may have any numbers. */
	if (sm_ns > 0 && sm_ns < 0x1p63)
		e->sm_us = (struct opt_u64){sm_ns, true};
	put_reasons(e, reasons);
	sum_up(s, &code, e, reason, reason < CT_STALL_CNT ? reasons[reason] : 0);
	ev.op = ev.name = "function";
	fn(ctx, &ev);

	ev = *base;
	ev.op = ev.name = "instruction";
	e->device = rec->device;
	for (unsigned i = 0; i < s->row_cnt && cnt < PARTS;) {
		i += next_part(s, i, &p);
		if (p.sum < PART_SAMPLES || p.sum * 100 < sum * PART_PERCENT)
			continue;
		cnt++;
		give_part(f, &code, &p, &ev, fn, ctx);
	}
	s->row_cnt = 0;
}

/* --- for people --- */

static const char *privilege_text(void)
{
	return "the program may not read the GPU's counters: give it CAP_PERFMON (run it as root), or set "
	       "the driver's module parameter NVreg_RestrictProfilingToAdminUsers=0";
}

void stalls_state_text(const struct ct_shm_stalls *st, char *buf, size_t size)
{
	switch (st->state) {
	case CT_STALLS_ON:
		if (st->period)
			snprintf(buf, size, "a sample each 2^%u cycles", st->period);
		else
			snprintf(buf, size, "the sampling period is not known");
		break;
	case CT_STALLS_NO_CUPTI:
		snprintf(buf, size, "CUPTI does not work in it");
		break;
	case CT_STALLS_OLD:
		snprintf(
			buf, size,
			"this CUPTI cannot sample: set one of CUDA 12.5 or later with --cupti PATH");
		break;
	case CT_STALLS_NO_NVPERF:
		snprintf(
			buf, size,
			"libnvperf_host.so was not found: put it beside libcupti, where CUDA has it");
		break;
	case CT_STALLS_NO_RIGHTS:
		snprintf(buf, size, "%s", privilege_text());
		break;
	case CT_STALLS_UNSUPPORTED:
		snprintf(buf, size, "CUPTI does not sample on this device (%d)", st->code);
		break;
	default:
		snprintf(buf, size, "%s failed (%d)", st->who[0] ? st->who : "CUPTI", st->code);
	}
}

bool stalls_flag_text(const struct ct_shm_stalls *st, unsigned i, char *buf, size_t size)
{
	switch (1u << i & st->flags ? 1u << i : 0) {
	case CT_STALLS_F_FULL:
		snprintf(buf, size,
			 "CUPTI's buffer was full, and sampling stopped: use a longer "
			 "period, as in --stalls=24");
		break;
	case CT_STALLS_F_SHARED:
		snprintf(buf, size,
			 "another program samples this GPU (%d): end it, and start again",
			 st->code);
		break;
	case CT_STALLS_F_SECOND:
		snprintf(buf, size,
			 "a second context of a GPU is not sampled: only one at a time can be");
		break;
	case CT_STALLS_F_ERROR:
		snprintf(buf, size, "reading samples failed (%d)", st->code);
		break;
	default:
		buf[0] = 0;
	}
	return 1u << i <= CT_STALLS_F_ERROR;
}

int stalls_period(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	int log = 0;

	if (*text < '0' || *text > '9' || *end)
		return -1;
	if (n <= CT_STALLS_PERIOD_MAX) {
		log = n;
	} else {
		while (log < 63 && 1ul << log < n)
			log++;
		if (1ul << log != n)
			return -1;
	}
	return log >= CT_STALLS_PERIOD_MIN && log <= CT_STALLS_PERIOD_MAX ? log : -1;
}
