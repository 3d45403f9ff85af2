/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lists of sections as tables for a terminal. */
#include "section_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect.h"
#include "util/law.h"

struct section_text {
	struct table t;
	/* The view: columns, then the name. */
	const struct section_col *view[TABLE_COLS + 1];
	unsigned view_cnt;
	struct table_row *row;
};

bool section_text_begin(struct section_text *t)
{
	t->row = table__row(&t->t, "");
	return t->row;
}

unsigned section_text_rows(const struct section_text *t)
{
	return t->t.row_cnt;
}

int section_text_column(const struct section_text *t, const struct section_col *c)
{
	for (unsigned i = 0; i < t->view_cnt; i++)
		if (t->view[i] == c)
			return i;
	return -1;
}

void section_text_red(struct section_text *t, bool is_red)
{
	t->row->red |= is_red;
}

void section_text_depth(struct section_text *t, unsigned depth)
{
	t->row->depth = depth;
}

/* The text of a column in the row. */
static void put(struct section_cursor *w, const struct section_col *c, const char *text)
{
	struct section_text *t = w->text;
	unsigned at = section_text_column(t, c);

	if (at + 1 < t->view_cnt) {
		snprintf(t->row->cell[at], CELL_SZ, "%s", text);
	} else {
		/* The buffer is reused: copy the text. */
		free(t->row->text);
		t->row->text = strdup(text);
		t->row->name = t->row->text ?: "";
		t->t.is_cut |= !t->row->text;
	}
}

void section_text_u64(struct section_cursor *w, const struct section_col *c, uint64_t v)
{
	char cell[CELL_SZ];

	if (!v && c->show & NONZERO)
		return;
	switch (c->type) {
	case SECTION_TYPE_ns:
	case SECTION_TYPE_call_ns:
	case SECTION_TYPE_ms:
		human_time(cell, v);
		break;
	case SECTION_TYPE_bytes:
		human_bytes(cell, v);
		break;
	case SECTION_TYPE_hex:
		snprintf(cell, sizeof(cell), "0x%llx", (unsigned long long)v);
		break;
	case SECTION_TYPE_flag:
		snprintf(cell, sizeof(cell), "%s", v ? "yes" : "no");
		break;
	case SECTION_TYPE_number:
		snprintf(cell, sizeof(cell), "%llu", (unsigned long long)v);
		break;
	default:
		human_count(cell, v);
	}
	put(w, c, cell);
}

void section_text_f64(struct section_cursor *w, const struct section_col *c, double v)
{
	char cell[CELL_SZ];

	if (v == 0 && c->show & NONZERO)
		return;
	switch (c->type) {
	case SECTION_TYPE_mean_ns:
	case SECTION_TYPE_call_mean_ns:
	case SECTION_TYPE_call_f64_ns:
	case SECTION_TYPE_us:
	case SECTION_TYPE_f64_ns:
		human_time(cell, v);
		break;
	case SECTION_TYPE_share:
	case SECTION_TYPE_call_share:
	case SECTION_TYPE_ratio:
		human_share(cell, v, 1);
		break;
	case SECTION_TYPE_joules:
		human_joules(cell, v);
		break;
	case SECTION_TYPE_rate:
		human_rate(cell, v, 1);
		break;
	case SECTION_TYPE_digits:
		snprintf(cell, sizeof(cell), "%.3g", v);
		break;
	default:
		snprintf(cell, sizeof(cell), "%.2f", v);
	}
	put(w, c, cell);
}

void section_text_str(struct section_cursor *w, const struct section_col *c, const char *v)
{
	struct section_text *t = w->text;

	/* A name of the trace is not copied; it may be long. */
	if (v && v != w->buf && section_text_column(t, c) + 1 == (int)t->view_cnt)
		t->row->name = v;
	else
		put(w, c, v ?: "");
}

/* "80x1x1", in its shortest form */
void section_text_dim(struct section_cursor *w, const struct section_col *c, const uint32_t *v)
{
	char cell[CELL_SZ];

	if (v[1] <= 1 && v[2] <= 1)
		snprintf(cell, CELL_SZ, "%u", v[0]);
	else if (v[2] <= 1)
		snprintf(cell, CELL_SZ, "%ux%u", v[0], v[1]);
	else
		snprintf(cell, CELL_SZ, "%ux%ux%u", v[0], v[1], v[2]);
	put(w, c, cell);
}

static const struct section_col *find(const struct section_table *of, const char *name, size_t len)
{
	for (unsigned i = 0; i < of->col_cnt; i++)
		if (!strncmp(of->cols[i].name, name, len) && !of->cols[i].name[len])
			return &of->cols[i];
	return NULL;
}

/* Returns whether the view names the column. */
static bool names(const char *view, const char *name)
{
	size_t len;

	for (; *view && *view != '='; view += len + (view[len] == ' ')) {
		len = strcspn(view, " =");
		if (!strncmp(view, name, len) && !name[len])
			return true;
	}
	return false;
}

static void add(struct section_text *t, const struct section_col *c)
{
	law(c && c->in_text && c->kind != SECTION_LIST);
	if (c && t->view_cnt <= TABLE_COLS)
		t->view[t->view_cnt++] = c;
}

static void start(struct section_text *t, const struct section_table *of, const char *view)
{
	const char *heading = strchr(view, '=');
	size_t len;

	t->view_cnt = 0;
	for (const char *at = view; *at && *at != '='; at += len + (at[len] == ' ')) {
		len = strcspn(at, " =");
		if (*at != '*')
			add(t, find(of, at, len));
		for (unsigned i = 0; *at == '*' && i < of->col_cnt; i++)
			if (of->cols[i].in_text && !names(view, of->cols[i].name))
				add(t, &of->cols[i]);
	}
	if (!t->view_cnt)
		add(t, of->cols);
	table__start(&t->t, heading ? heading + 1 : t->view[t->view_cnt - 1]->head);
	for (unsigned i = 0; i + 1 < t->view_cnt; i++) {
		const struct section_col *c = t->view[i];

		table__col(&t->t,
			   (struct table_col){c->head, .drop = c->drop, .if_any = c->show & HAS});
	}
}

unsigned section_print(const struct report *r, const struct section_table *of, const void *s,
		       const void *x, const char *list, unsigned max, const struct term *term)
{
	const struct section_col *c = find(of, list, strlen(list));
	char buf[SECTION_BUF];
	struct section_text t;
	struct section_cursor w = {.r = r, .s = s, .x = x, .buf = buf, .text = &t, .term = term};

	law(c && c->kind == SECTION_LIST);
	if (!c)
		return 0;
	start(&t, c->of, c->view);
	section_walk(&w, c, max ? max : report_rows(term, r->opts.top));
	if (t.t.row_cnt || t.t.is_cut)
		table__print(&t.t, term);
	table__free(&t.t);
	return t.t.row_cnt;
}
