/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The functions of one trace: the table's rows and a generic row for each exported symbol that the
 * table does not know, each with the id that its probes carry, and which of them are wanted (-e).
 */
#ifndef DECODE_FNSET_H
#define DECODE_FNSET_H

#include "cuda.h"

struct fnset;

struct fnset *fnset__new(void);
void fnset__free(struct fnset *set);

/* Id of a symbol; makes a generic row when the table has none. -ENOSPC after CT_MAX_FUNCS. */
int fnset__id(struct fnset *set, const char *symbol);
/* NULL when there is no such id. */
const struct cuda_fn *fnset__fn(const struct fnset *set, unsigned id);
unsigned fnset__cnt(const struct fnset *set);

/*
 * Chooses what is traced, in the manner of strace -e:
 *   expr = [!]item[,item...]   item = function name | glob | class | all | none
 * A leading ! takes what is traced by default (all but the queries) less the items. An item may
 * have a ! of its own: later items win. A name matches the public name (all its versions) or the
 * exported symbol; a class is all of its functions, queries too. Several calls: the last wins. On
 * error returns -EINVAL and writes a message that says which item and what is near it to err.
 */
int fnset__select(struct fnset *set, const char *expr, char *err, size_t err_size);
/* Everything, queries too (--all). */
void fnset__select_all(struct fnset *set);
bool fnset__wanted(const struct fnset *set, unsigned id);
/* Text for the header and the summary: what is left out, such as "query (61 functions)". */
void fnset__describe(const struct fnset *set, char *traced, size_t traced_size, char *left_out,
		     size_t left_out_size);

#endif /* DECODE_FNSET_H */
