/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names that a program gives to code which it makes as it runs: /tmp/perf-PID.map, as Python's
 * -X perf, Java and V8 write it. */
#ifndef MODEL_PERF_MAP_H
#define MODEL_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_map;
struct quota;
/* quota: of bytes; NULL: no bound. */
struct perf_map *perf_map__new(uint32_t pid, struct quota *quota);
void perf_map__free(struct perf_map *m);
/* What lies at addr, and where that begins; reads first what the program has added. The name lives
 * until the next call. */
const char *perf_map__find(struct perf_map *m, uint64_t addr, uint64_t *start);

#endif /* MODEL_PERF_MAP_H */
