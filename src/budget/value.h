/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Values of a report's JSON by path. */
#ifndef BUDGET_VALUE_H
#define BUDGET_VALUE_H

#include <stdbool.h>
#include <stddef.h>

struct values;

/* Parses a report. json: len bytes, with a NUL and PARSE_SLACK readable bytes after them. *err: 0,
 * -EINVAL if it is not an object, or -ENOMEM; the result is NULL then. */
struct values *values__new(const char *json, size_t len, int *err);
void values__free(struct values *v);
/* Finds the value of a path of limits.def. name replaces $, of replaces $of; both may be NULL.
 * Returns false if the report does not have it. */
bool values__get(struct values *v, const char *path, const char *name, const char *of, double *x);
/* Copies the text at a path without lists; empty if there is none. */
void values__text(struct values *v, const char *path, char *buf, size_t size);
/* Calls fn with the text of this member of each row of a list; as in "ranges.list", "text". */
void values__names(struct values *v, const char *list, const char *member,
		   void (*fn)(void *ctx, const char *text, size_t len), void *ctx);

#endif /* BUDGET_VALUE_H */
