/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "saved/parse.h"
#include "util/order.h"

/* Objects and lists on the way to a value. */
#define DEPTH_MAX 6

struct values {
	struct json_value root; /* of the first parser */
	/* One for each depth: a result is valid until the parser's next use, and its slices are in
	 * the parser's own memory. */
	struct parser *parsers[DEPTH_MAX];
};

/* A member, and how deep it is. */
struct at {
	struct member m;
	unsigned depth;
};

struct values *values__new(const char *json, size_t len, int *err)
{
	struct values *v = calloc(1, sizeof(*v));

	*err = -ENOMEM;
	if (!v)
		return NULL;
	for (int i = 0; i < DEPTH_MAX; i++) {
		v->parsers[i] = parser__new();
		if (!v->parsers[i])
			goto fail;
	}
	*err = -EINVAL;
	if (parser__line(v->parsers[0], json, len, &v->root) || !v->root.is_object)
		goto fail;
	*err = 0;
	return v;
fail:
	values__free(v);
	return NULL;
}

void values__free(struct values *v)
{
	if (!v)
		return;
	for (int i = 0; i < DEPTH_MAX; i++)
		parser__free(v->parsers[i]);
	free(v);
}

/* Parses the object or list. */
static bool open_at(struct values *v, const struct at *at, struct json_value *in)
{
	if (!at->depth) {
		*in = v->root;
		return true;
	}
	return at->depth < DEPTH_MAX && (at->m.val == VAL_OBJECT || at->m.val == VAL_ARRAY) &&
	       !parser__slice(v->parsers[at->depth], &at->m, in);
}

/* Replaces *at, an object, with its member. */
static bool go_to(struct values *v, struct at *at, const char *name, size_t len)
{
	struct json_value in;

	if (at->m.val != VAL_OBJECT || !open_at(v, at, &in))
		return false;
	for (unsigned i = 0; i < in.cnt; i++) {
		if (in.m[i].name_len == len && !memcmp(in.m[i].name, name, len)) {
			*at = (struct at){in.m[i], at->depth + 1};
			return true;
		}
	}
	return false;
}

static bool number(const struct member *m, double *x)
{
	if (m->val != VAL_NUMBER && m->val != VAL_TRUE && m->val != VAL_FALSE)
		return false;
	*x = m->val == VAL_NUMBER ? strtod(m->text, NULL) : m->val == VAL_TRUE;
	return true;
}

/* Follows a path without lists. */
static bool follow(struct values *v, struct at *at, const char *path, size_t len, const char *of)
{
	while (len) {
		size_t n = 0;
		bool is_of = len == 3 && !memcmp(path, "$of", 3);

		while (n < len && path[n] != '.')
			n++;
		if (!go_to(v, at, is_of && of ? of : path, is_of && of ? strlen(of) : n))
			return false;
		n += n < len;
		path += n;
		len -= n;
	}
	return true;
}

/* A selector of rows: the text between brackets. */
struct selector {
	const char *member, *text, *not_flag; /* member: NULL for all rows; not_flag: or NULL */
	size_t member_len, text_len, flag_len;
	bool is_prefix, must_be; /* must_be: a row must be there */
};

static struct selector selector_of(const char *at, size_t len, const char *name)
{
	struct selector s = {0};
	const char *eq = memchr(at, '=', len), *flag = memmem(at, len, ",!", 2);

	s.must_be = *at == '+';
	if (flag) {
		s.not_flag = flag + 2;
		s.flag_len = at + len - s.not_flag;
		len = flag - at;
	}
	if (!eq)
		return s;
	s.is_prefix = eq > at && eq[-1] == '^';
	s.member = at;
	s.member_len = eq - at - s.is_prefix;
	s.text = eq + 1;
	s.text_len = at + len - s.text;
	if (s.text_len == 1 && *s.text == '$') {
		s.text = name ?: "";
		s.text_len = strlen(s.text);
		s.must_be = true;
	}
	return s;
}

static bool selects(struct values *v, const struct selector *s, const struct at *row)
{
	struct at at = *row, flag = *row;

	if (s->not_flag && go_to(v, &flag, s->not_flag, s->flag_len) && flag.m.val == VAL_TRUE)
		return false;
	if (!s->member)
		return true;
	return go_to(v, &at, s->member, s->member_len) && at.m.val == VAL_STRING &&
	       (s->is_prefix ? at.m.len >= s->text_len : at.m.len == s->text_len) &&
	       !memcmp(at.m.text, s->text, s->text_len);
}

/* Values of the selected rows; of: a statistic, or NULL for their sum. */
struct sum {
	const char *of;
	double *x, total;
	unsigned cnt;
};

static int by_value(const void *a, const void *b)
{
	return ASCENDING(*(const double *)a, *(const double *)b);
}

/* As the report computes percentiles. */
static double percentile(const struct sum *s, double part)
{
	return s->x[(unsigned)ceil(part * s->cnt) - 1];
}

static double statistic(struct sum *s)
{
	if (!s->of || !strcmp(s->of, "total"))
		return s->total;
	if (!strcmp(s->of, "mean"))
		return s->total / s->cnt;
	qsort(s->x, s->cnt, sizeof(*s->x), by_value);
	if (!strcmp(s->of, "min"))
		return s->x[0];
	if (!strcmp(s->of, "max"))
		return s->x[s->cnt - 1];
	return percentile(s, !strcmp(s->of, "p99") ? 0.99 : !strcmp(s->of, "p95") ? 0.95 : 0.5);
}

static bool add_rows(struct values *v, const struct json_value *rows, unsigned depth,
		     const struct selector *s, const char *rest, size_t rest_len, struct sum *sum)
{
	for (unsigned i = 0; i < rows->cnt; i++) {
		struct at at = {rows->m[i], depth};
		double x;

		if (!selects(v, s, &at))
			continue;
		if (!follow(v, &at, rest, rest_len, NULL) || !number(&at.m, &x))
			return false;
		sum->total += x;
		sum->x[sum->cnt++] = x;
	}
	return sum->cnt || !s->must_be;
}

static bool sum_rows(struct values *v, const struct at *list, const struct selector *s,
		     const char *rest, size_t rest_len, const char *of, double *x)
{
	struct sum sum = {0};
	struct json_value rows;
	bool ok;

	if (list->m.val != VAL_ARRAY || !open_at(v, list, &rows))
		return false;
	if (rest_len > 4 && !memcmp(rest + rest_len - 4, ".$of", 4)) {
		rest_len -= 4;
		sum.of = of;
	}
	sum.x = calloc(rows.cnt + 1, sizeof(*sum.x));
	ok = sum.x && add_rows(v, &rows, list->depth + 1, s, rest, rest_len, &sum);
	if (ok)
		*x += statistic(&sum);
	free(sum.x);
	return ok;
}

static bool add_path(struct values *v, const char *path, size_t len, const char *name,
		     const char *of, double *sum)
{
	const char *open = memchr(path, '[', len), *close = open ? memchr(open, ']', len) : NULL;
	struct at at = {{.val = VAL_OBJECT}, 0};
	struct selector s;
	double x;

	if (!close) {
		if (!follow(v, &at, path, len, of) || !number(&at.m, &x))
			return false;
		*sum += x;
		return true;
	}
	s = selector_of(open + 1, close - open - 1, name);
	if (!follow(v, &at, path, open - path, of))
		return false;
	close += 2;
	return sum_rows(v, &at, &s, close, path + len - close, of, sum);
}

bool values__get(struct values *v, const char *path, const char *name, const char *of, double *x)
{
	size_t len = strlen(path);
	bool not_zero = len && path[len - 1] == '!';
	const char *end = path + len - not_zero;

	*x = 0;
	while (path < end) {
		const char *plus = path;

		while (plus < end && !(*plus == '+' && plus > path && plus[-1] != '['))
			plus++;
		if (!add_path(v, path, plus - path, name, of, x))
			return false;
		path = plus + 1;
	}
	return !not_zero || *x != 0;
}

void values__text(struct values *v, const char *path, char *buf, size_t size)
{
	struct at at = {{.val = VAL_OBJECT}, 0};
	bool has = follow(v, &at, path, strlen(path), NULL) && at.m.val == VAL_STRING;

	snprintf(buf, size, "%.*s", has ? (int)at.m.len : 0, has ? at.m.text : "");
}

void values__names(struct values *v, const char *list, const char *member,
		   void (*fn)(void *ctx, const char *text, size_t len), void *ctx)
{
	struct at at = {{.val = VAL_OBJECT}, 0};
	struct json_value rows;

	if (!follow(v, &at, list, strlen(list), NULL) || at.m.val != VAL_ARRAY ||
	    !open_at(v, &at, &rows))
		return;
	for (unsigned i = 0; i < rows.cnt; i++) {
		struct at row = {rows.m[i], at.depth + 1};

		if (go_to(v, &row, member, strlen(member)) && row.m.val == VAL_STRING)
			fn(ctx, row.m.text, row.m.len);
	}
}
