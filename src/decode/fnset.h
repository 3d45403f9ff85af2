/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The functions of one trace: the table's rows and a generic row for each exported symbol that the
 * table does not know, each with the id that its probes carry, and which of them are wanted (-e).
 */
#ifndef DECODE_FNSET_H
#define DECODE_FNSET_H

#include "ct_spec.h"

#include "cuda.h"

struct fnset;

struct fnset *fnset__new(void);
void fnset__free(struct fnset *set);

/* Id of a symbol; makes a generic row when the table has none. -ENOSPC after CT_MAX_FUNCS. */
int fnset__id(struct fnset *set, const char *symbol);
/* Makes none: -ENOENT. */
int fnset__find(const struct fnset *set, const char *symbol);
/* A generic row that nobody holds any more gives its place to another symbol when there is no other
 * place; those that were never held stay. */
void fnset__hold(struct fnset *set, unsigned id);
void fnset__release(struct fnset *set, unsigned id);
bool fnset__is_held(const struct fnset *set, unsigned id);
/* fn is told of it first: fnset__fn(set, id) is there for the last time. */
void fnset__on_reuse(struct fnset *set, void (*fn)(void *ctx, unsigned id), void *ctx);
bool fnset__is_generic(const struct fnset *set, unsigned id);
/* Of a row that fnset__fn() gave; -ENOENT when it is none. */
int fnset__id_of(const struct fnset *set, const struct api_fn *fn);
/* NULL when there is no such id. */
const struct api_fn *fnset__fn(const struct fnset *set, unsigned id);
unsigned fnset__cnt(const struct fnset *set);

/* What is traced when nothing else is said, and what a leading ! takes from: NORMAL unless set. */
void fnset__set_detail(struct fnset *set, enum api_detail detail);
/* Also all of a family that is traced only when it is asked for. */
void fnset__add(struct fnset *set, enum api_id api);
/*
 * Chooses what is traced, in the manner of strace -e:
 *   expr = [!]item[,item...]   item = function name | glob | class | all | none
 * A leading ! takes the functions of the level of detail less the items; without it the items are
 * all, or, where fnset__set_detail() chose a level, added to it. An item may have a ! of its own:
 * later items win. A name matches the public name (all its versions) or the
 * exported symbol; a class is all of its functions, queries too. Several calls: the last wins. On
 * error returns -EINVAL and writes a message that says which item and what is near it to err.
 */
int fnset__select(struct fnset *set, const char *expr, char *err, size_t err_size);

/* What some functions are to be besides traced; expressions as above, none are marked by default.
 */
enum fnset_mark {
	FNSET_COUNT,	 /* counted instead of recorded; wanted by that alone */
	FNSET_NO_RETURN, /* seen at their entry only */
	FNSET_STACK,	 /* with their user stack */
	FNSET_PYTHON,	 /* with the frames of Python code */
	FNSET_MARK_CNT
};
int fnset__mark(struct fnset *set, enum fnset_mark mark, const char *expr, char *err,
		size_t err_size);
bool fnset__is_marked(const struct fnset *set, enum fnset_mark mark, unsigned id);
/* Text for the header, such as "query (159 functions)"; "" when none is wanted and marked. */
void fnset__describe_mark(const struct fnset *set, enum fnset_mark mark, char *text, size_t size);
/* What a producer is to copy of its calls, and how much is kept of them at first. */
void fnset__spec(const struct fnset *set, unsigned id, enum ct_redact redact, struct ct_spec *spec);
bool fnset__wanted(const struct fnset *set, unsigned id);
/* Whether it would be with that level, all else as it is. */
bool fnset__wanted_at(const struct fnset *set, enum api_detail detail, unsigned id);
/* Whether any function of the family is or may turn out to be: else its libraries are left alone.
 */
bool fnset__wants_api(const struct fnset *set, const struct api *api);
/* Text for the header and the summary: what is left out, such as "query (61 functions)". */
void fnset__describe(const struct fnset *set, char *traced, size_t traced_size, char *not_traced,
		     size_t not_traced_size);

#endif /* DECODE_FNSET_H */
