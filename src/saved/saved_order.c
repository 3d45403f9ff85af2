/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Restores the order of a line's members, which other programs change when they rewrite lines (jq
 * -S, Python's sort_keys). The part of a line that timelines show is put into the order
 * in which cudatrace writes it. Rows of events.def, arguments and struct fields are ordered as
 * declared; unknown members come last, by name.
 */
#include <stdlib.h>
#include <string.h>

#include "saved_value.h"
#include "util/out.h"

/* A struct in an array in a struct in the arguments. Deeper values are not reordered. */
#define DEPTH_MAX SAVED_DEPTH_MAX

/* Where the order of an object's members is declared; all NULL: nowhere. */
struct order {
	const struct saved *s;
	enum event_kind kind;
	const struct api_fn *fn;
	const struct api_struct *st;
};

struct place {
	unsigned rank;
	const struct member *m;
	const struct api_type *type; /* type of its value, if known */
};

static bool is_called(const struct member *m, const char *name)
{
	return strlen(name) == m->name_len && !memcmp(name, m->name, m->name_len);
}

static struct place place_of(const struct order *o, const struct member *m)
{
	struct place p = {UINT32_MAX, m, NULL};

	if (o->s && o->s->row_of[o->kind][m->key])
		p.rank = o->s->row_of[o->kind][m->key];
	for (unsigned i = 0; o->fn && i < o->fn->arg_cnt; i++)
		if (is_called(m, o->fn->args[i].name))
			return (struct place){i, m, o->fn->args[i].type};
	for (unsigned i = 0; o->st && i < o->st->field_cnt; i++)
		if (is_called(m, o->st->fields[i].name))
			return (struct place){i, m, o->st->fields[i].type};
	return p;
}

static int by_rank(const void *x, const void *y)
{
	const struct place *a = x, *b = y;
	uint32_t len = a->m->name_len < b->m->name_len ? a->m->name_len : b->m->name_len;
	int diff = memcmp(a->m->name, b->m->name, len);

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (diff)
		return diff;
	if (a->m->name_len != b->m->name_len)
		return a->m->name_len < b->m->name_len ? -1 : 1;
	return a->m->from < b->m->from ? -1 : 1;
}

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t\r\n"); /* RFC 8259, section 2 */
}

static void put_value(struct saved *s, unsigned depth, const struct member *m, const char *raw,
		      size_t len, const struct api_type *type);

static void put_comma(struct out *o, size_t from)
{
	if (o->len > from)
		out_char(o, ',');
}

/* Writes members in order. base: start of their offsets. Writes those of the body, or all. */
static void put_members(struct saved *s, unsigned depth, const struct json_value *p,
			const char *base, const struct order *order, bool body)
{
	struct place *places = calloc(p->cnt + 1, sizeof(*places));
	size_t begin = s->ordered->len;
	unsigned cnt = 0;

	if (!places)
		return;
	for (unsigned i = 0; i < p->cnt; i++)
		if (!body || s->is_body[order->kind][p->m[i].key])
			places[cnt++] = place_of(order, &p->m[i]);
	qsort(places, cnt, sizeof(*places), by_rank);
	for (unsigned i = 0; i < cnt; i++) {
		const struct member *m = places[i].m;
		const char *name = base + m->from, *end = name + 1;

		put_comma(s->ordered, begin);
		while (*end != '"')
			end += *end == '\\' ? 2 : 1;
		out_bytes(s->ordered, name, end + 1 - name);
		out_char(s->ordered, ':');
		end = skip_blanks(skip_blanks(end + 1) + 1);
		put_value(s, depth, m, end, base + m->to - end, places[i].type);
	}
	free(places);
}

static void put_elements(struct saved *s, unsigned depth, const struct json_value *p,
			 const char *base, const struct api_type *type)
{
	size_t begin = s->ordered->len;

	for (unsigned i = 0; i < p->cnt; i++) {
		const struct member *m = &p->m[i];
		const char *raw = skip_blanks(base + m->from);

		/* An element begins where the previous one ended. */
		raw = *raw == ',' ? skip_blanks(raw + 1) : raw;
		put_comma(s->ordered, begin);
		put_value(s, depth, m, raw, base + m->to - raw, type);
	}
}

/* raw: the value as written in the line. m points into the buffer of its parser. */
static void put_value(struct saved *s, unsigned depth, const struct member *m, const char *raw,
		      size_t len, const struct api_type *type)
{
	const struct order order = {.st = type && type->kind == KIND_STRUCT ? type->st : NULL};
	bool is_array = m->val == VAL_ARRAY;
	struct json_value in;

	if ((!is_array && m->val != VAL_OBJECT) || depth == DEPTH_MAX ||
	    parser__slice(s->deep[depth], m, &in)) {
		out_bytes(s->ordered, raw, len);
		return;
	}
	out_char(s->ordered, is_array ? '[' : '{');
	/* A slice lacks its brackets: add them. */
	if (is_array)
		put_elements(s, depth + 1, &in, m->text - 1, type);
	else
		put_members(s, depth + 1, &in, m->text - 1, &order, false);
	out_char(s->ordered, is_array ? ']' : '}');
}

static bool has_parsers(struct saved *s)
{
	for (unsigned i = 0; i < DEPTH_MAX; i++) {
		s->deep[i] = s->deep[i] ?: parser__new();
		if (!s->deep[i])
			return false;
	}
	s->ordered = s->ordered ?: out__memory();
	return s->ordered;
}

bool saved_put_in_order(struct saved *s, const struct json_value *p, const char *line,
			const struct trace_event *ev)
{
	const struct order fields = {.s = s, .kind = ev->kind}, args = {.fn = ev->fn};
	const struct member *m = parsed_find(p, "args");
	size_t fields_len;
	struct json_value in;

	if (!has_parsers(s))
		return false;
	s->ordered->len = 0;
	put_members(s, 0, p, line, &fields, true);
	fields_len = s->ordered->len;
	if (s->text.args_len && m && !parser__slice(s->deep[0], m, &in))
		put_members(s, 1, &in, m->text - 1, &args, false);
	s->text.fields = s->ordered->buf;
	s->text.fields_len = fields_len;
	if (s->text.args_len) {
		s->text.args = s->ordered->buf + fields_len;
		s->text.args_len = s->ordered->len - fields_len;
	}
	return true;
}

void saved_order_free(struct saved *s)
{
	for (unsigned i = 0; i < DEPTH_MAX; i++)
		parser__free(s->deep[i]);
	out__close(s->ordered);
}
