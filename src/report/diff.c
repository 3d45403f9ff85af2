/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Both traces are analysed as for a report; then sums are compared: of the whole, of each
 * function and of each kernel. An item has an exact value (a count, bytes) and perhaps a time. It
 * differs if its value differs, or its time by more than noise. Changes are ordered by their change
 * in time, then by their relative change in count.
 */
#include "diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash_table.h"

#include "model/call.h"
#include "collect.h"
#include "losses.h"
#include "diff_verdict.h"
#include "saved/reader.h"
#include "saved/strings.h"
#include "section.h"
#include "text/losses_text.h"
#include "util/order.h"

enum diff_kind { THING_WHOLE, THING_FUNCTION, THING_KERNEL, THING_EXECUTION, THING_KIND_CNT };

/* With flags of enum section_compare: it comes from a report, whose memory is limited. */
#define COMPARE_ANALYSED (1u << 8)

struct value {
	uint64_t cnt, ns;
	uint64_t untimed_cnt; /* of cnt: only their starts were recorded */
};

/* What of a row was not recorded on a side. */
enum diff_lack { LACKS_NOTHING, LACKS_TIME, LACKS_ALL };

struct diff_row {
	struct hash_link link;
	const char *name;
	enum diff_kind kind;
	unsigned flags;	       /* enum section_compare */
	enum api_class class;  /* of a function */
	const char *option[2]; /* for which it was not recorded on this side; NULL: it was */
	enum diff_lack lacks[2];
	bool differs;
	struct value v[2];
};
HASH_TABLE_TYPE(diff_row);
HASH_TABLE_BYTES(diff_row, name);

struct diff {
	struct report_opts opts;
	struct trace_info info[2];
	struct report *report[2];
	/* Keyed by the address of the interned name. executions: on GPUs (--gpu-time) */
	struct diff_row_table functions, kernels, executions;
	struct value calls[2], launches[2], errors[2], copied[2][COPY_DIR_PEER + 1];
	uint64_t lost[2];
	struct saved_file files[2]; /* diff__file() */
	bool has_gpu[2];
	/* of diff__finish() */
	const char *lack_option[2]; /* a row lacks something for it */
	unsigned lack_cnt[2];
	struct speed speed;
	struct losses_view lost_in;
	struct diff_row **things; /* all, ordered; those of a kind begin at first[] */
	unsigned cnt, differ_cnt, first[THING_KIND_CNT + 1], differ_of[THING_KIND_CNT];
};

struct diff *diff__new(const struct report_opts *opts)
{
	struct diff *d = calloc(1, sizeof(*d));

	if (d)
		d->opts = *opts;
	return d;
}

int diff__begin(struct diff *d, int side, const struct trace_info *info)
{
	if (d->report[side])
		return 0;
	d->info[side] = *info;
	d->report[side] = report__new(&d->opts, &d->info[side]);
	return d->report[side] ? 0 : -1;
}

static void add_value(struct value *sum, const struct value *v)
{
	sum->cnt += v->cnt;
	sum->ns += v->ns;
	sum->untimed_cnt += v->untimed_cnt;
}

static struct diff_row *count(struct diff_row_table *table, enum diff_kind kind, int side,
			      const char *name, const struct value *v)
{
	size_t size = strlen(name) + 1;
	struct diff_row *t = diff_row_table__find(table, name, size);

	if (!t) {
		t = memlimit_new(MEMLIMIT_COMPARED, sizeof(*t) + size);
		if (!t)
			return NULL;
		*t = (struct diff_row){
			.name = (char *)(t + 1), .kind = kind, .flags = COMPARE_CNT | COMPARE_NS};
		memcpy(t + 1, name, size);
		if (diff_row_table__add(table, t, size)) {
			memlimit_reject(MEMLIMIT_COMPARED);
			memlimit_free(t);
			return NULL;
		}
	}
	add_value(&t->v[side], v);
	return t;
}

static void on_execution(struct diff *d, int side, const struct trace_event *ev)
{
	d->has_gpu[side] = true;
	count(&d->executions, THING_EXECUTION, side, ev->gpu.kernel ?: ev->name,
	      &(struct value){.cnt = 1, .ns = event_duration_ns(ev)});
}

void diff__event(struct diff *d, int side, const struct trace_event *ev)
{
	struct value v = {.cnt = 1}, copied;
	struct diff_row *t;

	report__event(d->report[side], ev);
	if (ev->kind == EVENT_GPU)
		on_execution(d, side, ev);
	if (ev->kind != EVENT_CALL || !ev->fn)
		return;
	v.ns = event_returned(ev) ? event_duration_ns(ev) : 0;
	v.untimed_cnt = ev->entry_only;
	t = count(&d->functions, THING_FUNCTION, side, ev->fn->name, &v);
	if (t)
		t->class = ev->fn->class;
	d->calls[side].cnt++;
	d->calls[side].untimed_cnt += v.untimed_cnt;
	d->calls[side].ns += call_is_top(ev) ? v.ns : 0;
	d->errors[side].cnt += ev->is_error;
	if (!call_ran(ev))
		return;
	if (ev->has & HAS_LAUNCH) {
		add_value(&d->launches[side], &v);
		if (ev->launch.kernel)
			count(&d->kernels, THING_KERNEL, side, ev->launch.kernel, &v);
	}
	if (ev->type == TYPE_TRANSFER && ev->has & HAS_SIZE && ev->has & HAS_DIR) {
		copied = v;
		copied.cnt = ev->size;
		add_value(&d->copied[side][ev->dir], &copied);
	}
}

void diff__end(struct diff *d, int side, const struct trace_info *info, const struct trace_end *end)
{
	for (int i = 0; i < CT_DROP_CNT; i++)
		d->lost[side] += end->drops[i];
	report__ended(d->report[side], info, end);
}

static struct diff_row *add(struct diff *d, const char *name, unsigned flags, struct value a,
			    struct value b)
{
	size_t size = strlen(name) + 1;
	struct diff_row *t = calloc(1, sizeof(*t) + size);

	if (!t)
		return NULL;
	memcpy(t + 1, name, size);
	*t = (struct diff_row){
		.name = (char *)(t + 1), .kind = THING_WHOLE, .flags = flags, .v = {a, b}};
	d->things[d->cnt++] = t;
	return t;
}

/* The row counts calls of these classes. */
static void needs(struct diff *d, struct diff_row *t, const char *classes)
{
	for (int i = 0; t && i < 2; i++) {
		t->option[i] = t->v[i].cnt ? NULL : report_not_recorded(d->report[i], classes);
		t->lacks[i] = t->option[i] ? LACKS_ALL : LACKS_NOTHING;
	}
}

/* The row counts all calls, or their results. */
static void needs_all(struct diff *d, struct diff_row *t, bool results)
{
	for (int i = 0; t && i < 2; i++) {
		const char *option = report_left_out(d->report[i], HOST_CLASSES, false);

		if (!option || (!strcmp(option, "--entry-only") && !results))
			continue;
		t->option[i] = option;
		t->lacks[i] = LACKS_ALL;
	}
	/* The same options leave out the same. */
	if (t && t->lacks[0] && t->lacks[1] && !strcmp(t->option[0], t->option[1]))
		t->lacks[0] = t->lacks[1] = LACKS_NOTHING;
}

#define WHOLE_MAX 64

/* Values from the report of one trace. */
struct values {
	struct section_value of[WHOLE_MAX];
	unsigned cnt;
};

static void take_value(void *ctx, const struct section_value *v)
{
	struct values *all = ctx;

	if (all->cnt < WHOLE_MAX)
		all->of[all->cnt++] = *v;
}

/* A sum of the times of its calls, if it counts them. */
static struct value value_of(const struct report *r, const struct section_value *v)
{
	return (struct value){.cnt = v->cnt,
			      .ns = v->ns,
			      .untimed_cnt = v->flags & COMPARE_CNT ? r->untimed_cnt : 0};
}

/* Notes a section that one report lacks because of an option. */
static void note_section(struct diff *d, unsigned id)
{
	for (int i = 0; i < 2; i++) {
		const char *option = report_lacks(d->report[i], id);

		if (!option || report_lacks(d->report[!i], id) || !strcmp(option, "--no-args"))
			continue;
		d->lack_option[i] = option;
		d->lack_cnt[i]++;
	}
}

/* Adds the values that both reports have. */
static void add_values(struct diff *d)
{
	struct values v[2] = {0};

	for (int i = 0; i < 2; i++)
		section_values(d->report[i], take_value, &v[i]);
	for (unsigned i = 0, n; i < v[0].cnt; i++) {
		const struct section_value *a = &v[0].of[i], *b;

		for (n = 0; n < v[1].cnt && strcmp(v[1].of[n].what, a->what) != 0;)
			n++;
		b = &v[1].of[n];
		if (n < v[1].cnt &&
		    !(a->flags & COMPARE_SOME && !(a->cnt | a->ns | b->cnt | b->ns)))
			add(d, a->what, a->flags | COMPARE_ANALYSED, value_of(d->report[0], a),
			    value_of(d->report[1], b));
	}
	for (unsigned id = 0; id < AN_CNT; id++)
		note_section(d, id);
}

static void add_whole(struct diff *d)
{
	bool redacted = d->report[0]->args_redacted || d->report[1]->args_redacted;
	char name[32];

	needs_all(d, add(d, "CUDA calls", COMPARE_CNT | COMPARE_NS, d->calls[0], d->calls[1]),
		  false);
	needs(d,
	      add(d, "kernel launches", COMPARE_CNT | COMPARE_NS, d->launches[0], d->launches[1]),
	      "launch");
	needs_all(d, add(d, "failed calls", COMPARE_CNT, d->errors[0], d->errors[1]), true);
	for (int dir = COPY_NONE + 1; !redacted && dir <= COPY_DIR_PEER; dir++) {
		snprintf(name, sizeof(name), "copied %s", copy_dir_name(dir));
		needs(d,
		      add(d, name, COMPARE_CNT | COMPARE_BYTES | COMPARE_NS, d->copied[0][dir],
			  d->copied[1][dir]),
		      "transfer");
	}
	add_values(d);
	add(d, "lost records", COMPARE_CNT, (struct value){.cnt = d->lost[0]},
	    (struct value){.cnt = d->lost[1]});
}

static double ratio(const struct diff_row *t)
{
	return t->v[0].ns ? (double)t->v[1].ns / t->v[0].ns : INFINITY;
}

/* Returns whether the times differ by more than noise. */
static bool time_differs(const struct diff_row *t)
{
	if (!(t->flags & COMPARE_NS) || t->v[0].ns == t->v[1].ns)
		return false;
	return ratio(t) > 1 + DIFF_NOISE || ratio(t) < 1 / (1 + DIFF_NOISE);
}

/* The traces share the memory limit: an item that was rejected in one of them is unknown. */
static bool is_unknown(const struct diff_row *t)
{
	return t->kind == THING_WHOLE
		       ? t->flags & COMPARE_ANALYSED
		       : !t->v[0].cnt || !t->v[1].cnt || !strcmp(t->name, STRINGS_FULL);
}

/* Notes what of the row the options of a trace left out. A sum of some of the times cannot be
 * compared either. */
static void find_lacks(struct diff *d, struct diff_row *t)
{
	if (t->kind == THING_FUNCTION)
		needs(d, t, api_class_name(t->class));
	if (t->kind == THING_KERNEL)
		needs(d, t, "launch");
	for (int i = 0; i < 2; i++) {
		if (!t->lacks[i] && t->v[i].untimed_cnt && t->flags & COMPARE_NS) {
			t->lacks[i] = LACKS_TIME;
			t->option[i] = "--entry-only";
		}
		if (t->lacks[i] && (t->v[0].cnt || t->v[1].cnt)) {
			d->lack_option[i] = t->option[i];
			d->lack_cnt[i]++;
		}
	}
}

/* Returns whether a value of both sides was recorded: a count, or a time. */
static bool is_comparable(const struct diff_row *t, bool time)
{
	enum diff_lack max = time ? LACKS_NOTHING : LACKS_TIME;

	return t->lacks[0] <= max && t->lacks[1] <= max;
}

static void find_differences(struct diff *d)
{
	bool limited = diff_losses_of_limits();

	for (unsigned i = 0; i < d->cnt; i++) {
		struct diff_row *t = d->things[i];

		find_lacks(d, t);
		t->differs = !(limited && is_unknown(t)) &&
			     ((t->flags & COMPARE_CNT && is_comparable(t, false) &&
			       t->v[0].cnt != t->v[1].cnt) ||
			      (is_comparable(t, true) && time_differs(t)));
		d->differ_cnt += t->differs;
		d->differ_of[t->kind] += t->differs;
	}
}

static double moved_ns(const struct diff_row *t)
{
	return t->flags & COMPARE_NS ? fabs((double)t->v[1].ns - (double)t->v[0].ns) : 0;
}

static double cnt_share(const struct diff_row *t)
{
	uint64_t most = t->v[0].cnt > t->v[1].cnt ? t->v[0].cnt : t->v[1].cnt;

	return most ? fabs((double)t->v[1].cnt - (double)t->v[0].cnt) / most : 0;
}

/* Items of the whole keep their order; functions and kernels are sorted by change. */
static int by_change(const void *a, const void *b)
{
	const struct diff_row *x = *(struct diff_row *const *)a, *y = *(struct diff_row *const *)b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->differs != y->differs)
		return x->differs ? -1 : 1;
	return DESCENDING(moved_ns(x), moved_ns(y)) ?: DESCENDING(cnt_share(x), cnt_share(y))
	       ?: strcmp(x->name, y->name);
}

static void take_all(struct diff *d, struct diff_row_table *table)
{
	while (table->first)
		d->things[d->cnt++] = diff_row_table__pop(table);
}

/* Returns the kind of data that a side lacks; NULL: none. */
static const char *redacted_on(const struct diff *d, int side)
{
	return d->report[side]->args_redacted ? "arguments" : d->info[side].redacted;
}

/* Redacted in either trace; NULL: nothing. */
static const char *what_is_redacted(const struct diff *d)
{
	if (d->report[0]->args_redacted || d->report[1]->args_redacted)
		return "arguments";
	return redacted_on(d, 0) ?: redacted_on(d, 1);
}

/* The side that has less than the other: what only the other has cannot be compared. NULL: they
 * have the same. */
static const char *poorer_side(const struct diff *d)
{
	const char *before = redacted_on(d, 0), *after = redacted_on(d, 1);

	if (!before == !after && (!before || !strcmp(before, after)))
		return NULL;
	return !after || (before && !strcmp(before, "arguments")) ? "before" : "after";
}

void diff__file(struct diff *d, int side, const struct saved_file *file)
{
	d->files[side] = *file;
}

unsigned diff__finish(struct diff *d)
{
	size_t max = WHOLE_MAX + 16 + hash_cnt(&d->functions) + hash_cnt(&d->kernels) +
		     hash_cnt(&d->executions);
	unsigned whole;

	for (int i = 0; i < 2; i++) {
		report__finish(d->report[i], NULL, &d->files[i], 1);
		/* The limit applies to both reports together. */
		d->report[i]->lost.of_report = false;
	}
	diff_speed(d->report, DIFF_NOISE, &d->speed);
	d->lost_in = diff_losses(d->report);
	d->things = calloc(max, sizeof(struct diff_row *));
	if (!d->things) {
		memlimit_reject(MEMLIMIT_COMPARED);
		return 0;
	}
	add_whole(d);
	whole = d->cnt;
	take_all(d, &d->functions);
	/* A redacted trace has no kernel names to compare. */
	if (!what_is_redacted(d))
		take_all(d, &d->kernels);
	if (!what_is_redacted(d) && d->has_gpu[0] && d->has_gpu[1])
		take_all(d, &d->executions);
	find_differences(d);
	qsort(d->things + whole, d->cnt - whole, sizeof(*d->things), by_change);
	for (unsigned i = 0; i < d->cnt; i++)
		for (unsigned k = d->things[i]->kind + 1; k <= THING_KIND_CNT; k++)
			d->first[k] = i + 1;
	return d->differ_cnt;
}

static bool is_incomplete(const struct diff *d)
{
	return diff_losses_any(d->report);
}

bool diff__is_unknown(const struct diff *d)
{
	return !d->differ_cnt &&
	       (is_incomplete(d) || poorer_side(d) || d->lack_cnt[0] || d->lack_cnt[1]);
}

static const char *verdict_of(const struct diff *d)
{
	return d->differ_cnt ? "different" : diff__is_unknown(d) ? "unknown" : "same";
}

/* Prints one line about redacted data. */
static void print_redacted(const struct diff *d, const struct term *term)
{
	const char *what = what_is_redacted(d), *side = poorer_side(d);
	bool args = what && !strcmp(what, "arguments");
	const char *who = !side			    ? "both traces have"
			  : !strcmp(side, "before") ? "the old trace has"
						    : "the new trace has";

	if (!what)
		return;
	term_para(term, "Hidden: %s are not compared, because %s no %s (%s).",
		  args ? "kernels, iterations, copies and memory" : "kernels", who,
		  args ? "arguments" : "names", args ? "--no-args" : "--no-strings");
}

/* Prints what was not recorded in one of the traces only, or in both. */
static void print_lacks(const struct diff *d, const struct term *term)
{
	for (int i = 0; i < 2; i++)
		if (d->lack_cnt[i])
			term_para(term,
				  "Not recorded in %s: what %s left out is not compared (%s).",
				  i ? "NEW" : "OLD", d->lack_option[i],
				  HUMAN_NOUNS(d->lack_cnt[i], "value"));
}

static const struct diff_row *row_at(const struct diff *d, enum diff_kind kind, unsigned i)
{
	return d->first[kind] + i < d->first[kind + 1] ? d->things[d->first[kind] + i] : NULL;
}

static bool has_count(const struct diff_row *t)
{
	return t->flags & COMPARE_CNT && !(t->flags & COMPARE_BYTES);
}

static const char *amount_text(char buf[SECTION_BUF], const struct diff_row *t, int side)
{
	if (t->flags & COMPARE_BYTES)
		human_bytes(buf, t->v[side].cnt);
	else
		human_count(buf, t->v[side].cnt);
	return buf;
}

static const char *ratio_text(char buf[SECTION_BUF], const struct diff_row *t)
{
	if (!is_comparable(t, true))
		return "not recorded";
	snprintf(buf, SECTION_BUF, "%.2f%s", ratio(t), time_differs(t) ? "" : " ~");
	return buf;
}

static const char *row_text(char buf[SECTION_BUF], const struct diff_row *t)
{
	bool is_single = t->kind != THING_WHOLE && t->flags & COMPARE_CNT;

	snprintf(buf, SECTION_BUF, "%s%s",
		 is_single && !t->v[0].cnt   ? "new: "
		 : is_single && !t->v[1].cnt ? "gone: "
					     : "",
		 t->name);
	return buf;
}

#define SECTION_STATE struct diff
#define SECTION_ROWS  "report/diff.section"
#include "report/section_rows.h"

static void print_kind(const struct diff *d, const struct term *term, enum diff_kind kind,
		       const char *list, unsigned top)
{
	unsigned rows;

	if (!d->differ_of[kind])
		return;
	term_gap(term);
	rows = section_print(d->report[0], &diff_table, d, d, list, top, term);
	if (rows < d->differ_of[kind])
		term_para(term, "and %u more that differ", d->differ_of[kind] - rows);
}

void diff__print(const struct diff *d, const struct term *term, unsigned top)
{
	const char *mark = is_incomplete(d) ? LOSSES_MARK : "";

	diff_losses_print(d->report, term);
	losses_print_chosen(&d->report[0]->lost, term, "in the old trace");
	losses_print_chosen(&d->report[1]->lost, term, "in the new trace");
	print_redacted(d, term);
	print_lacks(d, term);
	if (d->has_gpu[0] != d->has_gpu[1])
		term_para(term,
			  "Only the %s trace has GPU times (--gpu-time): they are not compared.",
			  d->has_gpu[0] ? "old" : "new");
	diff_verdict_print(&d->speed, term, mark);
	if (!d->differ_cnt && *mark) {
		term_para(term, "Not known: no recorded value differs, but a trace is incomplete.");
		return;
	}
	if (diff__is_unknown(d)) {
		term_para(term, "Not known: nothing else differs.");
		return;
	}
	if (!d->differ_cnt) {
		term_para(term,
			  "Nothing changed: all counts are the same, and no time differs by more "
			  "than %.0f %%.",
			  DIFF_NOISE * 100);
		return;
	}
	term_section(
		term, "What changed",
		"%u value%s; counts are exact; a time that differs by less than %.0f %% is noise (~)%s",
		d->differ_cnt, plural(d->differ_cnt), DIFF_NOISE * 100, mark);
	print_kind(d, term, THING_WHOLE, "all", TABLE_ROWS);
	print_kind(d, term, THING_FUNCTION, "functions", top);
	print_kind(d, term, THING_KERNEL, "kernels", top);
	print_kind(d, term, THING_EXECUTION, "gpu", top);
}

void diff__json(const struct diff *d, struct json *j)
{
	json_open(j, NULL);
	section_members(NULL, &diff_head_table, d, j);
	rejected_json(j);
	section_members(NULL, &diff_table, d, j);
	json_close(j);
}

static void free_thing(struct diff_row *t)
{
	if (t->kind == THING_WHOLE)
		free(t);
	else
		memlimit_free(t);
}

void diff__free(struct diff *d)
{
	if (!d)
		return;
	while (d->functions.first)
		free_thing(diff_row_table__pop(&d->functions));
	while (d->kernels.first)
		free_thing(diff_row_table__pop(&d->kernels));
	while (d->executions.first)
		free_thing(diff_row_table__pop(&d->executions));
	for (unsigned i = 0; i < d->cnt; i++)
		free_thing(d->things[i]);
	free(d->things);
	report__free(d->report[0]);
	report__free(d->report[1]);
	free(d);
}
