/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The functions of one trace: the table's rows, and a generic row for each exported symbol that is
 * not in the table. Each has an ID, which its probes carry, and is wanted or not (-e).
 */
#ifndef DECODE_FNSET_H
#define DECODE_FNSET_H

#include "ct_spec.h"

#include "cuda.h"

struct fnset;

struct fnset *fnset__new(void);
void fnset__free(struct fnset *set);

/* Returns the ID of a symbol; creates a generic row if it is not in the table. -ENOSPC after
 * CT_MAX_FUNCS. */
int fnset__id(struct fnset *set, const char *symbol);
/* Returns the ID of a symbol, or -ENOENT; creates nothing. */
int fnset__find(const struct fnset *set, const char *symbol);
/* References to generic rows. If no space is left, a generic row whose last reference was released
 * is replaced by another symbol; rows that were never held stay. */
void fnset__hold(struct fnset *set, unsigned id);
void fnset__release(struct fnset *set, unsigned id);
bool fnset__is_held(const struct fnset *set, unsigned id);
/* Sets a function that is called before a row is replaced: fnset__fn(set, id) is then valid for the
 * last time. */
void fnset__on_reuse(struct fnset *set, void (*fn)(void *ctx, unsigned id), void *ctx);
bool fnset__is_generic(const struct fnset *set, unsigned id);
/* Removes added functions that are not wanted, before any id is in use: there is room for
 * CT_MAX_FUNCS. */
void fnset__drop_unwanted(struct fnset *set);
/* Returns the ID of a row from fnset__fn(); -ENOENT if it is none. */
int fnset__id_of(const struct fnset *set, const struct api_fn *fn);
/* Returns NULL if there is no such ID. */
const struct api_fn *fnset__fn(const struct fnset *set, unsigned id);
unsigned fnset__cnt(const struct fnset *set);

/* Sets the level that is traced by default, and from which a leading ! removes: NORMAL unless
 * set. */
void fnset__set_detail(struct fnset *set, enum api_detail detail);
/* Adds all functions of a family that is traced only if named. */
void fnset__add(struct fnset *set, enum api_id api);
/*
 * Selects the functions to trace, with a syntax like strace -e:
 *   expr = [!]item[,item...]   item = function name | glob | class | all | none
 * A leading ! selects the functions of the level of detail minus the items. Without it, only the
 * items are selected, or added to the level if fnset__set_detail() set one. An item may have a ! of
 * its own: later items win. A name matches the public name (all its versions) or the exported
 * symbol. A class is all of its functions, including queries. If called several times, the last
 * call wins. On error returns -EINVAL and writes a message to err, with the item and similar names.
 */
int fnset__select(struct fnset *set, const char *expr, char *err, size_t err_size);

/* Additional marks of functions; expressions as above, none are marked by default. */
enum fnset_mark {
	FNSET_COUNT,	 /* counted instead of recorded; this mark alone makes them wanted */
	FNSET_NO_RETURN, /* probed at their entry only */
	FNSET_STACK,	 /* with their user stack */
	FNSET_PYTHON,	 /* with the frames of Python code */
	FNSET_MARK_CNT
};
int fnset__mark(struct fnset *set, enum fnset_mark mark, const char *expr, char *err,
		size_t err_size);
bool fnset__is_marked(const struct fnset *set, enum fnset_mark mark, unsigned id);
/* Writes text for the header, such as "query (159 functions)"; "" if no wanted function is
 * marked. */
void fnset__describe_mark(const struct fnset *set, enum fnset_mark mark, char *text, size_t size);
/* Fills the spec: what a producer copies from its calls, and their initial level. */
void fnset__spec(const struct fnset *set, unsigned id, enum ct_redact redact, struct ct_spec *spec);
bool fnset__wanted(const struct fnset *set, unsigned id);
/* Returns whether it would be wanted at that level, all else unchanged. */
bool fnset__wanted_at(const struct fnset *set, enum api_detail detail, unsigned id);
/* Returns whether any function of the family is wanted, or may turn out to be; else its libraries
 * are ignored. */
bool fnset__wants_api(const struct fnset *set, const struct api *api);
/* Returns false for a function without a row that is not wanted, of a family that must be named: it
 * needs no id. */
bool fnset__may_trace(const struct fnset *set, const char *symbol);
/* Writes text for the header and the summary, such as "query (61 functions)". */
void fnset__describe(const struct fnset *set, char *traced, size_t traced_size, char *not_traced,
		     size_t not_traced_size);

#endif /* DECODE_FNSET_H */
