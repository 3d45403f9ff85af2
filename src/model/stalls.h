/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --stalls: samples of a process's functions. Records of an interval have a function's samples by
 * instruction; its machine code tells what they wait for. Producers are untrusted: all memory is
 * limited.
 */
#ifndef MODEL_STALLS_H
#define MODEL_STALLS_H

#include "event.h"
#include "util/limits.h"

#include "ct_stall.h"

struct proc_stalls;

struct proc_stalls *proc_stalls__new(struct quota *quota);
void proc_stalls__free(struct proc_stalls *s);
void proc_stalls__add_code(struct proc_stalls *s, const struct ct_stall_code *rec);
void proc_stalls__add_source(struct proc_stalls *s, const struct ct_stall_source *rec);
/* Samples of one function, until the next proc_stalls__give(). */
void proc_stalls__add_pcs(struct proc_stalls *s, const struct ct_stall_pcs *rec);
/* Calls fn with the event of the function's interval, and then with those of its instructions that
 * have many samples. base has the members that are common to them. */
void proc_stalls__give(struct proc_stalls *s, const struct ct_stalls *rec,
		       const struct trace_event *base,
		       void (*fn)(void *ctx, const struct trace_event *ev), void *ctx);

struct ct_shm_stalls;
/* Formats the state of --stalls in a process, for people. */
void stalls_state_text(const struct ct_shm_stalls *st, char *buf, size_t size);
/* Formats what happened later (CT_STALLS_F_*); returns false if there is no more, i counts from 0.
 */
bool stalls_flag_text(const struct ct_shm_stalls *st, unsigned i, char *buf, size_t size);
/* Parses a period: an exponent of two, or cycles that are a power of two. Returns the exponent;
 * negative: it is neither. */
int stalls_period(const char *text);

#endif /* MODEL_STALLS_H */
