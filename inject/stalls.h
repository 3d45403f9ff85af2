/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --stalls: PC sampling, in the thread and the subscription of gpu.c. */
#ifndef INJECT_STALLS_H
#define INJECT_STALLS_H

#include "gpu_priv.h"

/* stalls.c. Returns false if nothing can be sampled; the state is set. */
bool stalls_setup(const struct cupti *c, void *subscriber, const char *cupti_path);
/* CUPTI does not work. */
void stalls_off(void);
/* A callback of CUPTI, in the program's thread. */
void stalls_on_resource(uint32_t cbid, const struct cupti_resource *r);
/* Reads samples, and sends those of an interval that is over. */
void stalls_tick(struct thread *t, uint64_t now);
/* Reads and sends what there is. */
void stalls_flush(struct thread *t, uint64_t now);
/* The same, when the program ends. */
void stalls_end(struct thread *t);
/* Returns whether a context is or was sampled. */
bool stalls_are_on(void);

#endif /* INJECT_STALLS_H */
