/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the processor time that the daemon's main thread, and its readers, spend on profiles: 1 %
 * of a core in the long run, a tenth of a second at once. Each piece of work is enclosed by begin
 * and end, and may be nested. Whoever makes work asks for time first:
 *
 *   if (!profile_budget__has_time())
 *           return;
 *   profile_budget__begin();
 *   ...
 *   profile_budget__end();
 *
 * Before profile_budget__start() (without profiles) nothing is limited.
 */
#ifndef UTIL_PROFILE_BUDGET_H
#define UTIL_PROFILE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

void profile_budget__start(void);
void profile_budget__begin(void);
void profile_budget__end(void);
/* For reading the record of a sample, which is not timed. */
#define PROFILE_RECORD_NS 5000
/* Work that is too short to be timed, or that another process did. */
void profile_budget__spend(uint64_t ns);
/* Time that a reader took: counts if work has begun. */
void profile_budget__spend_within(uint64_t ns);
bool profile_budget__has_time(void);
/* Returns whether half of what may be spent at once is left. */
bool profile_budget__has_much(void);
uint64_t profile_budget__spent_ns(void);

#endif /* UTIL_PROFILE_BUDGET_H */
