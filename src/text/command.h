/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a trace is of, as text. */
#ifndef TEXT_COMMAND_H
#define TEXT_COMMAND_H

#include "model/trace.h"

/* "python3 train.py --epochs 3", "process 4242"; what does not fit is replaced by "...". */
void command_text(const struct trace_info *info, char *text, size_t size);

#endif /* TEXT_COMMAND_H */
