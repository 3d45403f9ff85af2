/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Walks over sections and writes JSON; section_text.c has the cells for a terminal. */
#include "section_priv.h"

#include <string.h>

void section_visit(const struct section_cursor *w, const struct section_table *of,
		   struct section_cursor *to)
{
	to->of = of;
	to->r = w->r;
	to->s = w->s;
	to->buf = w->buf;
	to->j = w->j;
	to->text = w->text;
	to->term = w->term;
	to->csv = w->csv;
	to->value = w->value;
	to->ctx = w->ctx;
	of->visit(to);
}

bool section_begin(struct section_cursor *w, bool when)
{
	if (!when || w->value)
		return when;
	if (!w->j)
		return section_text_begin(w->text);
	if (w->csv)
		section_csv_begin(w);
	else if (!w->is_open)
		json_open(w->j, w->name);
	return true;
}

void section_end(struct section_cursor *w)
{
	if (w->csv)
		section_csv_end(w);
	else if (w->j && !w->is_open)
		json_close(w->j);
}

bool section_wants(const struct section_cursor *w, const struct section_col *c)
{
	if (w->value)
		return c->kind == SECTION_OBJECT || c->kind == SECTION_COMPARE;
	if (w->csv)
		return section_csv_wants(w, c);
	return w->j ? c->in_json : section_text_column(w->text, c) >= 0;
}

void section_null(struct section_cursor *w, const struct section_col *c)
{
	if (w->j)
		json_null(w->j, c->name);
}

void section_red(struct section_cursor *w, bool is_red)
{
	if (w->text)
		section_text_red(w->text, is_red);
}

void section_depth(struct section_cursor *w, unsigned depth)
{
	if (w->text)
		section_text_depth(w->text, depth);
}

void section_compare(struct section_cursor *w, const char *what, unsigned flags, uint64_t cnt,
		     uint64_t ns)
{
	if (w->value)
		w->value(w->ctx, &(struct section_value){what, flags, cnt, ns});
}

void section_values(const struct report *r, section_value_fn fn, void *ctx)
{
	static const struct analysis_ops *const analyses[AN_CNT] = {
#define AN(id, name, what) [AN_##id] = &name##_ops,
#include "analyses.def"
#undef AN
	};
	char buf[SECTION_BUF];
	struct section_cursor w = {.r = r, .buf = buf, .value = fn, .ctx = ctx};

	for (unsigned i = 0; i < AN_CNT; i++) {
		w.s = r->an[i];
		if (analyses[i]->section && !report_lacks(r, i))
			section_visit(&w, analyses[i]->section,
				      &(struct section_cursor){.x = r->an[i]});
	}
}

void section_object(struct section_cursor *w, const struct section_col *c, const void *x)
{
	struct section_cursor to = {.x = x, .up = w->x, .name = c->name, .depth = w->depth + 1};

	if (w->csv)
		to.col = section_csv_col(w, c);
	section_visit(w, c->of, &to);
}

/* Returns a number that grows with each written row. */
static uint64_t written(const struct section_cursor *w)
{
	return w->csv ? section_csv_rows(w->csv) : w->j ? w->j->o->len : section_text_rows(w->text);
}

unsigned section_walk(struct section_cursor *w, const struct section_col *c, unsigned max)
{
	struct section_cursor row = {.up = w->x, .depth = w->depth + 1};

	for (unsigned i = 0; row.n < max; i++) {
		uint64_t before = written(w);

		row.x = c->row(w, row.x, i, row.n);
		if (!row.x)
			break;
		row.i = i;
		section_visit(w, c->of, &row);
		row.n += written(w) > before;
	}
	return row.n;
}

void section_list(struct section_cursor *w, const struct section_col *c)
{
	json_open_array(w->j, c->name);
	section_walk(w, c, UINT32_MAX);
	json_close_array(w->j);
}

void section_open_items(struct section_cursor *w, const char *name, bool is_object)
{
	if (is_object)
		json_open(w->j, name);
	else
		json_open_array(w->j, name);
	w->is_item = true;
}

void section_close_items(struct section_cursor *w, bool is_object)
{
	if (is_object)
		json_close(w->j);
	else
		json_close_array(w->j);
	w->is_item = false;
}

static const char *name_of(const struct section_cursor *w, const struct section_col *c)
{
	return w->is_item ? w->key : c->name;
}

/* Writes nothing, or null, for a time that was not recorded. Returns whether it did. */
static bool is_not_recorded(struct section_cursor *w, const struct section_col *c, bool is_zero)
{
	if (!is_zero || !section_is_call_time(c->type) || !w->r || report_has_times(w->r))
		return false;
	if (w->j)
		json_null(w->j, name_of(w, c));
	return true;
}

void section_u64(struct section_cursor *w, const struct section_col *c, uint64_t v)
{
	const char *name = name_of(w, c);

	if (is_not_recorded(w, c, !v))
		return;
	if (!w->j) {
		section_text_u64(w, c, v);
		return;
	}
	switch (c->type) {
	case SECTION_TYPE_hex:
		json_hex(w->j, name, v);
		return;
	case SECTION_TYPE_flag:
		json_bool(w->j, name, v);
		return;
	case SECTION_TYPE_ms:
		json_f64(w->j, name, v / 1e6);
		return;
	case SECTION_TYPE_milli:
		json_milli(w->j, name, v);
		return;
	case SECTION_TYPE_since:
		json_micro(w->j, name, v);
		return;
	case SECTION_TYPE_ts:
		report_json_ts(w->r, w->j, name, v);
		return;
	default:
		json_u64(w->j, name, v);
	}
}

void section_i64(struct section_cursor *w, const struct section_col *c, int64_t v)
{
	if (w->j)
		json_i64(w->j, name_of(w, c), v);
	else
		section_text_f64(w, c, v);
}

void section_f64(struct section_cursor *w, const struct section_col *c, double v)
{
	if (is_not_recorded(w, c, v == 0))
		return;
	if (!w->j)
		section_text_f64(w, c, v);
	else if (c->type == SECTION_TYPE_mean_ns || c->type == SECTION_TYPE_call_mean_ns)
		json_u64(w->j, name_of(w, c), v + 0.5);
	else if (c->type == SECTION_TYPE_exact && v >= 0 && v < 9e15 && v == (uint64_t)v)
		json_u64(w->j, name_of(w, c), v);
	else
		json_f64(w->j, name_of(w, c), c->type == SECTION_TYPE_us ? v / 1e3 : v);
}

void section_str(struct section_cursor *w, const struct section_col *c, const char *v)
{
	/* Always escaped: names of functions come from the trace, which may be hostile. */
	if (w->j)
		json_str(w->j, name_of(w, c), v);
	else
		section_text_str(w, c, v);
}

void section_dim(struct section_cursor *w, const struct section_col *c, const uint32_t *v)
{
	if (!w->j) {
		section_text_dim(w, c, v);
		return;
	}
	json_open_array(w->j, name_of(w, c));
	for (unsigned i = 0; i < 3; i++)
		json_u64(w->j, NULL, v[i]);
	json_close_array(w->j);
}

void section_json(const struct report *r, const struct section_table *of, const void *s,
		  const void *x, struct json *j, const char *name)
{
	char buf[SECTION_BUF];

	of->visit(
		&(struct section_cursor){.r = r, .s = s, .x = x, .name = name, .buf = buf, .j = j});
}

void section_members(const struct report *r, const struct section_table *of, const void *s,
		     struct json *j)
{
	char buf[SECTION_BUF];

	of->visit(&(struct section_cursor){
		.r = r, .s = s, .x = s, .buf = buf, .j = j, .is_open = true});
}

void section_list_json(const struct report *r, const struct section_table *of, const void *s,
		       struct json *j)
{
	const struct section_col *c = of->cols;
	char buf[SECTION_BUF];

	while (c->kind != SECTION_LIST)
		c++;
	section_list(&(struct section_cursor){.r = r, .s = s, .x = s, .buf = buf, .j = j}, c);
}
