/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stacks as JSON and as text. */
#ifndef TEXT_STACK_H
#define TEXT_STACK_H

#include "json.h"

#include "model/event.h"

/* Writes "id" and "frames" with all members. */
void json_stack(struct json *j, const struct stack *s);
/* Writes "stack" with a name for each frame; nothing if s is NULL. */
void json_stack_names(struct json *j, const struct stack *s);
/* Returns the symbol, else the module with the offset, else the address; in buf or in the frame. */
const char *stack_frame_name(const struct stack_frame *f, char *buf, size_t size);

#endif /* TEXT_STACK_H */
