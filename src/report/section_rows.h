/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes tables from the rows in SECTION_ROWS for an analysis with the state SECTION_STATE: see
 * section.h. A C file may include it once. It needs no header guard: everything except the tables
 * is static.
 */
#ifdef SECTION_ROWS
#include "section.h"

/* 1: declarations for expressions. */
#define TABLE(id, type, up_type, when)                                                             \
	extern const struct section_table id##_table;                                              \
	typedef type id##_row;                                                                     \
	typedef up_type id##_up;
#define END(id)
#define COL(type, name, value, when, head, show, drop, text)
#define JSON(type, name, value, when, text)
#define TEXT(type, name, value, when, head, show, drop)
#define OBJECT(name, table, row, when, text)
#define LIST(id, name, table, row, when, view, text)
#define TEXT_LIST(id, name, table, row, view)
#define ARRAY(type, name, cnt, value, when, text)
#define SOME(type, name, cnt, value, has, when, text)
#define MAP(type, name, cnt, key, value, has, when, text)
#define SERIES(type, name, keys, key, has, cnt, value, when, text)
#define RAW(name, statement, schema, when, text)
#define RED(condition)
#define DEPTH(n)
#define COMPARE(what, flags, cnt, ns, when)
#include SECTION_ROWS

/* 2: the rows of lists. */
#undef TABLE
#undef LIST
#undef TEXT_LIST
#define TABLE(id, type, up_type, when)
#define LIST(id, name, table, row, when, view, text)                                               \
	static const void *id##_##name(struct section_cursor *w, const void *prev, unsigned i,     \
				       unsigned n)                                                 \
	{                                                                                          \
		const SECTION_STATE *s = w->s;                                                     \
		const id##_row *x = w->x;                                                          \
		const id##_up *up = w->up;                                                         \
                                                                                                   \
		(void)s, (void)x, (void)up, (void)prev, (void)i, (void)n;                          \
		return (row);                                                                      \
	}
#define TEXT_LIST(id, name, table, row, view) LIST(id, name, table, row, , view, )
#include SECTION_ROWS

/* 3: walks. */
#include "section_undef.h"
#define ALWAYS			1
#define IF(cond)		((cond) ? 1 : 0)
#define OR_NULL(cond)		((cond) ? 1 : -1)
#define IF_OR_NULL(cond, known) ((cond) ? (known) ? 1 : -1 : 0)
#define TABLE(id, type, up_type, when)                                                             \
	static void id##_visit(struct section_cursor *w)                                           \
	{                                                                                          \
		const struct section_col *c = id##_table.cols;                                     \
		const SECTION_STATE *s = w->s;                                                     \
		const type *x = w->x;                                                              \
		const up_type *up = w->up;                                                         \
		const unsigned i = w->i;                                                           \
		char *buf = w->buf;                                                                \
                                                                                                   \
		(void)s, (void)x, (void)up, (void)i, (void)buf;                                    \
		if (!section_begin(w, when))                                                       \
			return;
#define SECTION_MEMBER(put, when)                                                                  \
	if (section_wants(w, c)) {                                                                 \
		int there = when;                                                                  \
                                                                                                   \
		if (there > 0) {                                                                   \
			put;                                                                       \
		} else if (there < 0) {                                                            \
			section_null(w, c);                                                        \
		}                                                                                  \
	}                                                                                          \
	c++;
#define COL(type, name, value, when, head, show, drop, text)                                       \
	SECTION_MEMBER(section_put_##type(w, c, value), when)
#define JSON(type, name, value, when, text) SECTION_MEMBER(section_put_##type(w, c, value), when)
#define TEXT(type, name, value, when, head, show, drop)                                            \
	SECTION_MEMBER(section_put_##type(w, c, value), when)
#define OBJECT(name, table, row, when, text)	     SECTION_MEMBER(section_object(w, c, row), when)
#define LIST(id, name, table, row, when, view, text) SECTION_MEMBER(section_list(w, c), when)
#define TEXT_LIST(id, name, table, row, view)	     c++;
#define ARRAY(type, name, cnt, value, when, text)    SOME(type, name, cnt, value, true, when, text)
#define SOME(type, name, cnt, value, has, when, text)                                              \
	SECTION_MEMBER(SECTION_ITEMS(false, cnt, NULL, has, section_put_##type(w, c, value)), when)
#define MAP(type, name, cnt, key, value, has, when, text)                                          \
	SECTION_MEMBER(SECTION_ITEMS(true, cnt, key, has, section_put_##type(w, c, value)), when)
#define SERIES(type, name, keys, key, has, cnt, value, when, text)                                 \
	SECTION_MEMBER(SECTION_ITEMS(true, keys, key, has,                                         \
				     SECTION_SERIES_OF(cnt, section_put_##type(w, c, value))),     \
		       when)
#define SECTION_ITEMS(is_object, cnt, called, has, put)                                            \
	{                                                                                          \
		section_open_items(w, c->name, is_object);                                         \
		for (unsigned i = 0; i < (cnt); i++) {                                             \
			if (!(has))                                                                \
				continue;                                                          \
			w->key = called;                                                           \
			put;                                                                       \
		}                                                                                  \
		section_close_items(w, is_object);                                                 \
	}
#define SECTION_SERIES_OF(cnt, put)                                                                \
	section_open_items(w, w->key, false);                                                      \
	w->key = NULL;                                                                             \
	for (unsigned k = 0; k < (cnt); k++)                                                       \
		put;                                                                               \
	section_close_items(w, false)
#define RAW(name, statement, schema, when, text) SECTION_MEMBER(statement, when)
#define RED(condition)				 section_red(w, condition);
#define DEPTH(n)				 section_depth(w, n);
#define COMPARE(what, flags, cnt, ns, when)                                                        \
	SECTION_MEMBER(section_compare(w, what, flags, cnt, ns), when)
#define END(id)                                                                                    \
	section_end(w);                                                                            \
	}
#include SECTION_ROWS

/* 4: the rows as data. */
#include "section_undef.h"
#define ALWAYS			       .required = true
#define IF(cond)		       .required = false
#define OR_NULL(cond)		       .required = true, .nullable = true
#define IF_OR_NULL(cond, known)	       .required = false, .nullable = true
#define TABLE(id, type, up_type, when) static const struct section_col id##_cols[] = {
#define SECTION_NAMED(called, of_kind, meaning, ...)                                               \
	.name = #called, .kind = of_kind, .text = meaning, .in_json = true, __VA_ARGS__
#define COL(of_type, called, value, when, heading, shown, goes, meaning)                           \
	{SECTION_NAMED(called, SECTION_VALUE, meaning, when),                                      \
	 .type = SECTION_TYPE_##of_type,                                                           \
	 .in_text = true,                                                                          \
	 .head = heading,                                                                          \
	 .show = shown,                                                                            \
	 .drop = goes},
#define JSON(of_type, called, value, when, meaning)                                                \
	{SECTION_NAMED(called, SECTION_VALUE, meaning, when), .type = SECTION_TYPE_##of_type},
#define TEXT(of_type, called, value, when, heading, shown, goes)                                   \
	{.name = #called,                                                                          \
	 .type = SECTION_TYPE_##of_type,                                                           \
	 .in_text = true,                                                                          \
	 .head = heading,                                                                          \
	 .show = shown,                                                                            \
	 .drop = goes},
#define OBJECT(called, table, x, when, meaning)                                                    \
	{SECTION_NAMED(called, SECTION_OBJECT, meaning, when), .of = &table##_table},
#define LIST(id, called, table, x, when, seen, meaning)                                            \
	{SECTION_NAMED(called, SECTION_LIST, meaning, when), .of = &table##_table,                 \
	 .row = id##_##called, .view = seen},
#define TEXT_LIST(id, called, table, x, seen)                                                      \
	{.name = #called,                                                                          \
	 .kind = SECTION_LIST,                                                                     \
	 .of = &table##_table,                                                                     \
	 .row = id##_##called,                                                                     \
	 .view = seen},
#define ARRAY(of_type, called, cnt, value, when, meaning)                                          \
	{SECTION_NAMED(called, SECTION_ARRAY, meaning, when), .type = SECTION_TYPE_##of_type},
#define SOME(of_type, called, cnt, value, has, when, meaning)                                      \
	ARRAY(of_type, called, cnt, value, when, meaning)
#define MAP(of_type, called, cnt, key, value, has, when, meaning)                                  \
	{SECTION_NAMED(called, SECTION_MAP, meaning, when), .type = SECTION_TYPE_##of_type},
#define SERIES(of_type, called, keys, key, has, cnt, value, when, meaning)                         \
	{SECTION_NAMED(called, SECTION_SERIES, meaning, when), .type = SECTION_TYPE_##of_type},
#define RAW(called, statement, is, when, meaning)                                                  \
	{SECTION_NAMED(called, SECTION_RAW, meaning, when), .schema = is},
#define RED(condition)
#define DEPTH(n)
#define COMPARE(what, flags, cnt, ns, when) {.name = what, .kind = SECTION_COMPARE},
#define END(table)                                                                                 \
	}                                                                                          \
	;                                                                                          \
	const struct section_table table##_table = {                                               \
		.id = #table,                                                                      \
		.cols = table##_cols,                                                              \
		.col_cnt = sizeof(table##_cols) / sizeof(table##_cols[0]),                         \
		.visit = table##_visit,                                                            \
	};
#include SECTION_ROWS
#include "section_undef.h"
#undef SECTION_ROWS
#undef SECTION_STATE
#endif /* SECTION_ROWS */
