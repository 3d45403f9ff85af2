/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parts of cudatrace list. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include <stdbool.h>

struct out;

/* --ioctls: the tables of the kernel driver's interface, with sizes for the running driver, or for
 * the newest in the tables. */
void list_ioctls(struct out *out, bool json);

/* --schema: the JSON Schema of a line of JSONL. */
void list_schema(struct out *out);
/* --schema=budget: the JSON Schema of a budget. */
void budget_schema(struct out *out);

#endif /* CLI_LIST_H */
