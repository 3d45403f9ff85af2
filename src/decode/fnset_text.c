/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Describes the functions that are traced and not traced, as text. */
#include "fnset.h"

#include <stdarg.h>
#include <stdio.h>

struct text {
	char *buf;
	size_t size, len;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->len && t->len + 2 < t->size)
		t->len += snprintf(t->buf + t->len, t->size - t->len, ", ");
	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	t->len += n;
	if (t->len >= t->size)
		t->len = t->size - 1;
}

/* Queries are listed apart from their class, because they are off by default. */
static int class_of(const struct api_fn *fn)
{
	return api_fn_is_query(fn) ? CLASS_QUERY : fn->class;
}

static void count(const struct fnset *set, int class, unsigned *wanted, unsigned *all)
{
	*wanted = *all = 0;
	for (unsigned id = 0; id < fnset__cnt(set); id++) {
		const struct api_fn *fn = fnset__fn(set, id);

		if (class_of(fn) != class)
			continue;
		/* Families that were not named are not listed as missing. */
		if (api_at(fn->api)->is_requested && !fnset__wanted(set, id))
			continue;
		++*all;
		*wanted += fnset__wanted(set, id);
	}
}

void fnset__describe(const struct fnset *set, char *traced, size_t traced_size, char *not_traced,
		     size_t not_traced_size)
{
	struct text in = {traced, traced_size, 0}, out = {not_traced, not_traced_size, 0};
	unsigned wanted, all, left = 0;

	if (!traced_size || !not_traced_size)
		return;
	traced[0] = not_traced[0] = 0;
	for (int c = 0; c < CLASS_CNT; c++) {
		count(set, c, &wanted, &all);
		left += all - wanted;
		if (wanted && wanted == all)
			add(&in, "%s", api_class_name(c));
		else if (wanted)
			add(&in, "%s (%u of %u functions)", api_class_name(c), wanted, all);
		if (wanted < all)
			add(&out, "%s (%u function%s)", api_class_name(c), all - wanted,
			    all - wanted == 1 ? "" : "s");
	}
	if (!left) {
		in.len = 0;
		add(&in, "everything");
		add(&out, "nothing");
	} else if (!in.len) {
		add(&in, "nothing");
	}
}

void fnset__describe_mark(const struct fnset *set, enum fnset_mark mark, char *text, size_t size)
{
	struct text t = {text, size, 0};
	unsigned cnt[CLASS_CNT] = {0};

	text[0] = 0;
	for (unsigned id = 0; id < fnset__cnt(set); id++)
		if (fnset__wanted(set, id) && fnset__is_marked(set, mark, id))
			cnt[class_of(fnset__fn(set, id))]++;
	for (int c = 0; c < CLASS_CNT; c++)
		if (cnt[c])
			add(&t, "%s (%u function%s)", api_class_name(c), cnt[c],
			    cnt[c] == 1 ? "" : "s");
}
