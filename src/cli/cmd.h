/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The verbs of verbs.def, one file each. They return the exit status of cudatrace. */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "opts.h"

#define VERB(id, name, flags, brief, usages, help, man) int cmd_##name(const struct opts *o);
#include "verbs.def"
#undef VERB

#endif /* CLI_CMD_H */
