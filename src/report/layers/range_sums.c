/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "range_sums.h"

#include "model/call.h"
#include "report/collect.h"
#include "report/section.h"
#include "util/hash_table.h"
#include "util/plural.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

/* Limits of a process, and of a summary: names; ranges open at the same time. */
#define OPEN_MAX (1u << 16)
/* Nesting limit of ranges: parents in a hostile trace may form a cycle. */
#define DEPTH_MAX 256

struct sum {
	uint64_t calls, call_ns, launches, bytes; /* calls of the driver; bytes of transfers */
	uint64_t gpu_cnt, gpu_ns;
};

struct row {
	struct hash_link link;
	struct row *next; /* in the order of by_time() */
	unsigned number;  /* in the order of creation */
	struct sum sum;
	uint64_t cnt, ns, max_ns, unfinished, marks;
	const char *domain, *text; /* in key; NULL: none */
	size_t len;
	char key[]; /* "domain\0text\0" */
};
HASH_TABLE_TYPE(row);
HASH_TABLE_BYTES(row, key);

/* Work in a range whose own line comes later. */
struct open {
	struct hash_link link;
	uint64_t key;
	struct sum sum;
};
HASH_TABLE(open, key);

struct past {
	uint64_t key, parent;
	struct row *row;
};

struct range_sums {
	const struct report *r; /* NULL in a summary */
	bool of_operators;	/* operators of PyTorch, not ranges */
	bool has_gpu;		/* valid from sort() on: GPU times exist */
	struct row_table rows;
	struct row *first; /* of the sorted rows */
	struct open_table open;
	struct past *past; /* the latest (recent_find()) */
	uint64_t rejected;
	struct memlimit_share names, opened; /* in a report */
};

/* Charges one more row to the process; cnt: number of rows so far. */
static bool charge(const struct range_sums *s, struct memlimit_share *rows, unsigned cnt,
		   unsigned max)
{
	if (!s->r)
		return cnt < max;
	return memlimit_has(rows, 1, max) && memlimit_charge(rows, 1, max, MEMLIMIT_RANGES);
}

struct range_sums *range_sums__new(bool of_operators)
{
	struct range_sums *s = calloc(1, sizeof(*s));

	if (s)
		s->of_operators = of_operators;
	if (s)
		s->past = calloc(RECENT_MAX, sizeof(*s->past));
	if (s && !s->past) {
		free(s);
		return NULL;
	}
	return s;
}

void range_sums__free(struct range_sums *s)
{
	if (!s)
		return;
	row_table__free(&s->rows);
	open_table__free(&s->open);
	memlimit_share_free(&s->names);
	memlimit_share_free(&s->opened);
	free(s->past);
	free(s);
}

/* Traces that are read together have distinct process ids. */
static uint64_t key_of(const struct trace_event *ev, uint64_t id)
{
	return pair_key(id, ev->pid);
}

static void add(struct sum *to, const struct sum *x)
{
	to->calls += x->calls;
	to->call_ns += x->call_ns;
	to->launches += x->launches;
	to->bytes += x->bytes;
	to->gpu_cnt += x->gpu_cnt;
	to->gpu_ns += x->gpu_ns;
}

/* NULL: limit reached, or no memory. */
static struct row *row_of(struct range_sums *s, const char *domain, const char *text)
{
	size_t domain_len = domain ? strlen(domain) : 0, text_len = text ? strlen(text) : 0;
	size_t len = domain_len + text_len + 2 + 1;
	struct row *r, *made = malloc(sizeof(*r) + len);
	char *key;

	if (!made)
		return NULL;
	memset(made, 0, sizeof(*made));
	key = made->key;
	memcpy(key, domain ?: "", domain_len + 1);
	memcpy(key + domain_len + 1, text ?: "", text_len + 1);
	key[len - 1] = !text;
	r = row_table__find(&s->rows, key, len);
	if (r || !charge(s, &s->names, hash_cnt(&s->rows), MEMLIMIT_RANGES_MAX)) {
		free(made);
		return r;
	}
	made->len = len;
	made->domain = domain ? key : NULL;
	made->text = text ? key + domain_len + 1 : NULL;
	made->number = hash_cnt(&s->rows);
	if (!row_table__add(&s->rows, made, len))
		return made;
	free(made);
	return NULL;
}

/* Sums of the range with this key; NULL: limit reached, or no memory. */
static struct sum *open_of(struct range_sums *s, uint64_t key)
{
	struct open *o = open_table__find(&s->open, &key);

	if (o)
		return &o->sum;
	if (charge(s, &s->opened, hash_cnt(&s->open), OPEN_MAX))
		o = open_table__new(&s->open, &key);
	if (!o) {
		s->rejected++;
		memlimit_reject(MEMLIMIT_RANGES);
		return NULL;
	}
	return &o->sum;
}

static struct past *past_of(struct range_sums *s, uint64_t key)
{
	return recent_find(s->past, sizeof(*s->past), key);
}

/* If the range has ended, adds to it and to its enclosing ranges. */
static void add_to(struct range_sums *s, uint64_t key, const struct sum *x)
{
	struct past *p = past_of(s, key);
	struct sum *open;

	for (unsigned i = 0; p && i < DEPTH_MAX; i++) {
		add(&p->row->sum, x);
		key = p->parent;
		if (!key)
			return;
		p = past_of(s, key);
	}
	open = open_of(s, key);
	if (open)
		add(open, x);
}

static void on_range(struct range_sums *s, const struct trace_event *ev)
{
	const bool op = s->of_operators;
	uint64_t key = key_of(ev, op ? ev->torch_op.id : ev->range.id);
	uint64_t parent = op ? ev->torch_op.parent : ev->range.parent, ns = event_duration_ns(ev);
	struct row *r = op ? row_of(s, ev->op[0] == 'b' ? ev->op : NULL, ev->name)
			   : row_of(s, ev->range.domain, ev->range.text);
	struct sum sum = {0};
	struct past *past;
	struct open *o;

	o = open_table__find(&s->open, &key);
	if (o) {
		sum = o->sum;
		open_table__del(&s->open, o);
		free(o);
		if (s->r)
			memlimit_uncharge(&s->opened, NULL, 1);
	}
	if (!r) {
		s->rejected++;
		memlimit_reject(MEMLIMIT_RANGES);
		return;
	}
	if (!strcmp(ev->op, "mark")) {
		r->marks++;
		return;
	}
	r->cnt++;
	r->ns += ns;
	r->max_ns = ns > r->max_ns ? ns : r->max_ns;
	r->unfinished += ev->unfinished;
	past = recent_get(s->past, sizeof(*past), key);
	*past = (struct past){key, parent ? key_of(ev, parent) : 0, r};
	add_to(s, key, &sum);
}

static void on_call(struct range_sums *s, const struct trace_event *ev)
{
	struct sum sum = {
		.calls = 1,
		.call_ns = event_duration_ns(ev),
		.launches = call_launches_any(ev),
		.bytes = (ev->has & HAS_SIZE) && ev->type == TYPE_TRANSFER && call_ran(ev)
				 ? ev->size
				 : 0,
	};

	if (call_was_made(ev) && call_is_top(ev))
		add_to(s, key_of(ev, s->of_operators ? ev->operator_id : ev->range_id), &sum);
}

void range_sums__event(struct range_sums *s, const struct trace_event *ev)
{
	const bool op = s->of_operators;

	if (ev->kind == (op ? EVENT_OPERATOR : EVENT_RANGE))
		on_range(s, ev);
	else if (ev->kind == EVENT_CALL && (op ? ev->operator_id : ev->range_id) && ev->fn)
		on_call(s, ev);
	else if (ev->kind == EVENT_GPU && (op ? ev->gpu.operator_id : ev->gpu.range_id))
		add_to(s, key_of(ev, op ? ev->gpu.operator_id : ev->gpu.range_id),
		       &(struct sum){.gpu_cnt = 1, .gpu_ns = event_duration_ns(ev)});
}

/* --- output --- */

static int by_time(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;

	return DESCENDING(x->ns, y->ns) ?: ASCENDING(x->number, y->number);
}

/* Reasons for wrong numbers or missing names. */
static void print_notes(const struct trace_nvtx *n, const struct term *term)
{
	if (n->unfinished)
		term_para(term, "%llu had not ended", (unsigned long long)n->unfinished);
	if (n->unbalanced)
		term_para(term, "%llu ended without a recorded start",
			  (unsigned long long)n->unbalanced);
	if (n->unnamed)
		term_para(term, "%llu have unreadable text", (unsigned long long)n->unnamed);
	if (n->too_many)
		term_para(term,
			  "%llu are missing: too many were open, or their names were too long",
			  (unsigned long long)n->too_many);
}

static void print_torch_notes(const struct trace_torch *n, const struct term *term)
{
	if (n->unfinished)
		term_para(term, "%llu have no later event in their thread",
			  (unsigned long long)n->unfinished);
	if (n->unnamed)
		term_para(term, "%llu have unknown names", (unsigned long long)n->unnamed);
	if (n->too_many)
		term_para(term, "%llu are missing: they were nested too deeply",
			  (unsigned long long)n->too_many);
}

static const char *range_text(char buf[SECTION_BUF], const struct row *r)
{
	snprintf(buf, SECTION_BUF, "%s%s%s", r->domain ?: "", r->domain ? ": " : "",
		 r->text ?: "(no name)");
	return buf;
}

#define SECTION_STATE struct range_sums
#define SECTION_ROWS  "report/layers/ranges.section"
#include "report/section_rows.h"

static void sort(struct range_sums *s)
{
	struct row **list = calloc(hash_cnt(&s->rows) + 1, sizeof(*list));
	unsigned n = 0;

	s->first = NULL;
	if (!list) {
		memlimit_reject(MEMLIMIT_RANGES);
		return;
	}
	hash_each (r, &s->rows) {
		s->has_gpu |= r->sum.gpu_cnt;
		list[n++] = r;
	}
	qsort(list, n, sizeof(*list), by_time);
	for (; n--; s->first = list[n])
		list[n]->next = s->first;
	free(list);
}

static const struct section_table *section_of(const struct range_sums *s)
{
	return s->of_operators ? &operators_table : &ranges_table;
}

void range_sums__print(struct range_sums *s, const struct term *term, const struct trace_end *end,
		       unsigned top)
{
	uint64_t marks = 0, cnt = 0;

	if (!s || !s->rows.first)
		return;
	sort(s);
	hash_each (r, &s->rows) {
		cnt += r->cnt;
		marks += r->marks;
	}
	if (s->of_operators)
		term_section(
			term, "PyTorch operators",
			"%llu, including backward nodes; numbers include nested operators; a time ends with the next event",
			(unsigned long long)cnt);
	else
		term_section(term, "NVTX ranges",
			     "%llu, and %llu mark%s; numbers include nested ranges",
			     (unsigned long long)cnt, (unsigned long long)marks, plural(marks));
	section_print(s->r, section_of(s), s, s, "list", top, term);
	if (s->rejected)
		term_para(term, "%llu %s%s and the calls in them are missing: too many names",
			  (unsigned long long)s->rejected, s->of_operators ? "operator" : "range",
			  plural(s->rejected));
	if (end && s->of_operators)
		print_torch_notes(&end->torch, term);
	else if (end)
		print_notes(&end->nvtx, term);
}

void range_sums__json(struct range_sums *s, struct json *j, const char *name)
{
	if (!s)
		return;
	sort(s);
	section_json(s->r, section_of(s), s, s, j, name);
}

/* --- the analysis --- */

static void *ranges_new(struct report *r)
{
	struct range_sums *s = range_sums__new(false);

	if (s)
		s->r = r;
	return s;
}

static void *operators_new(struct report *r)
{
	struct range_sums *s = range_sums__new(true);

	if (s)
		s->r = r;
	return s;
}

static void analysis_event(void *a, const struct trace_event *ev)
{
	range_sums__event(a, ev);
}

static void analysis_finish(void *a)
{
	sort(a);
}

static void analysis_print(const void *a, const struct term *term)
{
	const struct range_sums *s = a;

	range_sums__print((struct range_sums *)s, term, s->r->end,
			  report_rows(term, s->r->opts.top));
}

static void analysis_free(void *a)
{
	range_sums__free(a);
}

const struct analysis_ops ranges_ops = {
	.name = "ranges",
	.new = ranges_new,
	.event = analysis_event,
	.finish = analysis_finish,
	.section = &ranges_table,
	.print = analysis_print,
	.free = analysis_free,
};

const struct analysis_ops operators_ops = {
	.name = "operators",
	.new = operators_new,
	.event = analysis_event,
	.finish = analysis_finish,
	.section = &operators_table,
	.print = analysis_print,
	.free = analysis_free,
};
