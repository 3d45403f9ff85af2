/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* clang-format off */
/*
 * Sections of the report as rows. A file NAME.section has tables of an analysis. Its rows define
 * the JSON form, the tables for a terminal, the JSON Schema (`cudatrace list --schema=report`) and
 * the lists of members in docs/REPORT.md. See docs/HOWTO_ADD_ANALYSIS.md.
 *
 * A C file of the analysis defines SECTION_STATE (the type of its state) and SECTION_ROWS (the
 * .section file), and includes section_rows.h. That makes a `const struct section_table ID_table`
 * of each table. Ids are unique in the report.
 *
 * TABLE(id, type, up_type, when): a kind of objects in JSON, each made of one `type`. If when
 * is false, the object is left out. END(id) ends it. Between them, in the order of JSON:
 *
 * COL(type, name, value, when, head, show, drop, text): in JSON, and a column for a terminal
 * JSON(type, name, value, when, text): only in JSON
 * TEXT(type, name, value, when, head, show, drop): only for a terminal
 *   type    section_types.def
 *   name    its member in JSON; for TEXT: its name in views
 *   when    ALWAYS; IF(condition): else left out; OR_NULL(condition): else null; IF_OR_NULL(a, b):
 *           left out without a, null without b
 *   head    heading of the column
 *   show    SHOWN; HAS: a column only if a row that is shown has it; NONZERO: zero is an empty
 *           cell; HAS_NONZERO: both
 *   drop    a narrow terminal drops the columns with the highest numbers first; 0: it stays
 *   text    its meaning, for docs and schema, without a full stop
 * OBJECT(name, table, row, when, text): a member that is an object of another table, made of row, a
 *     pointer
 * LIST(id, name, table, row, when, view, text): an array of them. id is the id of its table.
 *     row is a pointer to row number i, NULL after the last. n rows are already in the list; prev
 *     is the previous row, or NULL
 *   view    names of the columns for a terminal, separated by blanks; the last takes the rest of
 *           the line. *: all other columns. A name may end with =HEADING. "": no table
 * TEXT_LIST(id, name, table, row, view): the same for a terminal only
 * ARRAY(type, name, cnt, value, when, text): an array of cnt plain values, of numbers i
 * SOME(type, name, cnt, value, has, when, text): the same of those where has
 * MAP(type, name, cnt, key, value, has, when, text): an object whose names are keys, where has
 * SERIES(type, name, keys, key, has, cnt, value, when, text): a map of arrays: keys numbered i, where
 *     has, each with cnt values, numbered k
 * RAW(name, statement, schema, when, text): a statement writes it to w->j
 * RED(condition): these rows are red on a terminal
 * DEPTH(n): the row is a node of a tree, n levels below the root: its name is indented
 * COMPARE(what, flags, cnt, ns, when): `cudatrace diff` compares these values of both traces, if both
 *     have them. what is their name; flags are of enum section_compare
 *
 * Expressions can use s, the state; x, the row; up, the row that has the list of x; i, the number
 * of x in its list; buf, SECTION_BUF bytes for text; and the report as w->r (NULL in a summary).
 * w->j is NULL for a terminal, which is w->term. They must change only buf and w->j.
 */
/* clang-format on */
#ifndef REPORT_SECTION_H
#define REPORT_SECTION_H

#include <stdint.h>

#include "report.h"

#define SECTION_BUF 4096

typedef uint64_t section_c_u64;
typedef int64_t section_c_i64;
typedef double section_c_f64;
typedef const char *section_c_str;
typedef const uint32_t *section_c_dim;

enum section_type {
#define SECTION_TYPE(type, carrier, json, more) SECTION_TYPE_##type,
#include "section_types.def"
	SECTION_TYPE_CNT
};

enum section_kind {
	SECTION_VALUE,
	SECTION_OBJECT,
	SECTION_LIST,
	SECTION_ARRAY,
	SECTION_MAP,
	SECTION_SERIES,
	SECTION_RAW,
	SECTION_COMPARE
};

enum section_compare {
	COMPARE_CNT = 1 << 0,
	COMPARE_BYTES = 1 << 1, /* cnt is bytes */
	COMPARE_NS = 1 << 2,
	COMPARE_SOME = 1 << 3, /* left out if zero in both traces */
};

/* A row that is compared. */
struct section_value {
	const char *what;
	unsigned flags;
	uint64_t cnt, ns;
};
typedef void (*section_value_fn)(void *ctx, const struct section_value *v);

enum section_show { SHOWN, HAS = 1, NONZERO = 2, HAS_NONZERO = HAS | NONZERO };

struct section_table;
struct section_text;
struct section_csv;

/* Position of a walk over the tables. */
struct section_cursor {
	const struct report *r;
	const void *s, *x, *up;
	unsigned i, n;
	const char *name; /* of the object; NULL in an array */
	const char *key;  /* of a value in an array or a map */
	bool is_item;	  /* a value of an array or a map */
	bool is_open;	  /* its members belong to the object around it */
	char *buf;
	struct json *j; /* NULL: for a terminal, to text */
	struct section_text *text;
	const struct term *term; /* of text */
	const struct section_table *of;
	struct section_csv *csv; /* not NULL: j is the members of a line, in memory */
	unsigned depth, col;	 /* csv: objects around this one; its first column */
	section_value_fn value;	 /* not NULL: only values to compare are wanted */
	void *ctx;
};

struct section_col {
	const char *name, *head, *text;
	const char *view;   /* of a list */
	const char *schema; /* SECTION_RAW */
	const struct section_table *of;
	const void *(*row)(struct section_cursor *w, const void *prev, unsigned i, unsigned n);
	uint8_t kind, type, show, drop;
	bool in_json, in_text, required, nullable;
};

static inline bool section_is_call_time(enum section_type type)
{
	return type == SECTION_TYPE_call_ns || type == SECTION_TYPE_call_mean_ns ||
	       type == SECTION_TYPE_call_f64_ns || type == SECTION_TYPE_call_share;
}

struct section_table {
	const char *id;
	const struct section_col *cols;
	unsigned col_cnt;
	void (*visit)(struct section_cursor *w);
};

/* Writes one row's object as member name of j; name is NULL in an array. */
void section_json(const struct report *r, const struct section_table *of, const void *s,
		  const void *x, struct json *j, const char *name);
/* Writes the members of the object into the one that is open. */
void section_members(const struct report *r, const struct section_table *of, const void *s,
		     struct json *j);
/* Writes its first list. */
void section_list_json(const struct report *r, const struct section_table *of, const void *s,
		       struct json *j);
/* Prints a list as a table of at most max rows; 0: the terminal's default. Returns the number of
 * rows; prints nothing if there are none. */
unsigned section_print(const struct report *r, const struct section_table *of, const void *s,
		       const void *x, const char *list, unsigned max, const struct term *term);
/* Calls fn for each value of the report that `diff` compares, in the order of the report. */
void section_values(const struct report *r, section_value_fn fn, void *ctx);
/* Write the JSON Schema of the object, or of the list that is its first member. */
void section_schema(struct out *out, const struct section_table *of, bool or_null);
void section_list_schema(struct out *out, const struct section_table *of, bool or_null);

/* --- for section_rows.h --- */

bool section_begin(struct section_cursor *w, bool when);
void section_end(struct section_cursor *w);
/* Returns whether the output has the column. */
bool section_wants(const struct section_cursor *w, const struct section_col *c);
void section_null(struct section_cursor *w, const struct section_col *c);
void section_object(struct section_cursor *w, const struct section_col *c, const void *x);
void section_list(struct section_cursor *w, const struct section_col *c);
/* Around the values of an array, or around those of a key; is_object: around all keys. */
void section_open_items(struct section_cursor *w, const char *name, bool is_object);
void section_close_items(struct section_cursor *w, bool is_object);
void section_red(struct section_cursor *w, bool is_red);
void section_depth(struct section_cursor *w, unsigned depth);
void section_compare(struct section_cursor *w, const char *what, unsigned flags, uint64_t cnt,
		     uint64_t ns);

void section_u64(struct section_cursor *w, const struct section_col *c, uint64_t v);
void section_i64(struct section_cursor *w, const struct section_col *c, int64_t v);
void section_f64(struct section_cursor *w, const struct section_col *c, double v);
void section_str(struct section_cursor *w, const struct section_col *c, const char *v);
void section_dim(struct section_cursor *w, const struct section_col *c, const uint32_t *v);

#define SECTION_TYPE(type, carrier, json, more)                                                    \
	static inline void section_put_##type(struct section_cursor *w,                            \
					      const struct section_col *c, section_c_##carrier v)  \
	{                                                                                          \
		section_##carrier(w, c, v);                                                        \
	}
#include "section_types.def"

#endif /* REPORT_SECTION_H */
