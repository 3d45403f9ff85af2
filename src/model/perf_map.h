/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Function names of code generated at run time: /tmp/perf-PID.map, as written by Python's -X perf,
 * Java and V8. */
#ifndef MODEL_PERF_MAP_H
#define MODEL_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_map;
struct quota;
/* quota: in bytes; NULL: no limit. */
struct perf_map *perf_map__new(uint32_t pid, struct quota *quota);
void perf_map__free(struct perf_map *m);
/* Returns the name of the code at addr, and its start in *start; reads new lines first, at
 * most 64 MiB of them, as long as the time budget of the process's user allows. The name is valid
 * until the next call. NULL: no name was read, or the time is used up. */
const char *perf_map__find(struct perf_map *m, uint64_t addr, uint64_t *start);

#endif /* MODEL_PERF_MAP_H */
