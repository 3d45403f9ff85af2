/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Suggests names similar to a mistyped one, by edit distance, ignoring case. */
#include "fnset_suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"

#define NAME_MAX_LEN 64
#define SUGGEST_CNT  3

struct suggestions {
	const char *names[SUGGEST_CNT];
	unsigned dist[SUGGEST_CNT];
	unsigned cnt;
};

static unsigned min(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Levenshtein distance, one row at a time; names have at most NAME_MAX_LEN bytes. Distances above
 * limit are not computed: cells further than limit from the diagonal are skipped. */
static unsigned distance(const char *a, const char *b, unsigned limit)
{
	unsigned row[NAME_MAX_LEN + 1], m = strlen(a), n = strlen(b);

	if (m > n + limit || n > m + limit)
		return limit + 1;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 0; i < m; i++) {
		unsigned from = i > limit ? i - limit : 0, to = min(n, i + limit + 1);
		unsigned diag = row[from], least = from ? limit + 1 : i + 1;

		row[from] = least;
		for (unsigned j = from; j < to; j++) {
			bool same = tolower((unsigned char)a[i]) == tolower((unsigned char)b[j]);
			unsigned up = row[j + 1];

			row[j + 1] = min(min(up, row[j]) + 1, diag + !same);
			least = min(least, row[j + 1]);
			diag = up;
		}
		if (least > limit)
			return least;
	}
	return row[n];
}

/* Keeps the SUGGEST_CNT nearest names, each once, nearest first. */
static void consider(struct suggestions *near, const char *name, const char *candidate,
		     unsigned limit)
{
	unsigned d, at;

	if (strlen(candidate) > NAME_MAX_LEN)
		return;
	d = distance(name, candidate, limit);
	if (d > limit)
		return;
	for (unsigned i = 0; i < near->cnt; i++)
		if (!strcmp(near->names[i], candidate))
			return;
	for (at = near->cnt; at > 0 && near->dist[at - 1] > d; at--)
		;
	if (at == SUGGEST_CNT)
		return;
	if (near->cnt < SUGGEST_CNT)
		near->cnt++;
	memmove(&near->names[at + 1], &near->names[at],
		(near->cnt - at - 1) * sizeof(near->names[0]));
	memmove(&near->dist[at + 1], &near->dist[at], (near->cnt - at - 1) * sizeof(near->dist[0]));
	near->names[at] = candidate;
	near->dist[at] = d;
}

void fnset_suggest(const char *name, char *err, size_t err_size)
{
	struct suggestions near = {0};
	unsigned cnt, limit;
	const struct api_fn *fns = api_fns(&cnt);
	size_t len = strlen(name);
	int n;

	if (len <= NAME_MAX_LEN) {
		limit = len < 6 ? 2 : min(len / 3, 4);
		for (int c = 0; c < CLASS_CNT; c++)
			consider(&near, name, api_class_name(c), limit);
		for (unsigned i = 0; i < cnt; i++)
			consider(&near, name, fns[i].name, limit);
	}
	/* Keep only the names at the smallest distance. */
	while (near.cnt > 1 && near.dist[near.cnt - 1] > near.dist[0])
		near.cnt--;
	n = snprintf(err, err_size, "unknown function or class \"%.128s\": ", name);
	if (n < 0 || (size_t)n >= err_size)
		return;
	if (!near.cnt) {
		snprintf(err + n, err_size - n, "see cudatrace list");
		return;
	}
	n += snprintf(err + n, err_size - n, "did you mean %s", near.names[0]);
	for (unsigned i = 1; i < near.cnt && (size_t)n < err_size; i++)
		n += snprintf(err + n, err_size - n, "%s%s", i + 1 == near.cnt ? " or " : ", ",
			      near.names[i]);
	if ((size_t)n < err_size)
		snprintf(err + n, err_size - n, "?");
}
