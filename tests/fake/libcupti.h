/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parts of the mock libcupti. */
#ifndef FAKE_LIBCUPTI_H
#define FAKE_LIBCUPTI_H

#include "cupti.h"

#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

/* libcupti.c: returns whether FAKE_CUPTI has this word. */
bool cupti_wants(const char *word);

/* libcupti_pc.c: PC sampling */
extern cupti_call_fn *pc_callback;
extern uint64_t pc_made; /* samples, of all kinds */
void pc_context(void *ctx, uint32_t device, bool is_new);
/* A kernel was executed. */
void pc_kernel(const char *name);
/* Writes what was made. */
void pc_counts(FILE *f);

#endif /* FAKE_LIBCUPTI_H */
