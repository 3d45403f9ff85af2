/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parts of --gpu-time and of --stalls: gpu.c has the thread. */
#ifndef INJECT_GPU_PRIV_H
#define INJECT_GPU_PRIV_H

#include "cupti.h"
#include "inject.h"

/* gpu.c */
/* Wakes our thread. */
void gpu_ring_bell(void);

/* gpu_buffers.c */
/* Returns false if out of memory. */
bool gpu_buffers_setup(const struct cupti *c);
/* CUPTI's callbacks. */
void gpu_buffer_request(uint8_t **buf, size_t *size, size_t *max);
void gpu_buffer_complete(void *ctx, uint32_t stream, uint8_t *buf, size_t size, size_t valid);
/* Returns whether CUPTI has buffers. */
bool gpu_buffers_are_out(void);
/* Calls fn for each record in full buffers, which CUPTI then may have again. */
void gpu_buffers_take(void (*fn)(void *arg, const uint8_t *record), void *arg);
/* Records that CUPTI dropped, and bytes for which it had no buffer. */
void gpu_buffers_losses(struct ct_shm_gpu *to);
/* Forgets full buffers, and begins with these losses. */
void gpu_buffers_reset(uint64_t dropped, uint64_t discarded);

/* gpu_send.c */
/* For the tracer of this process, which knows no names or devices yet. */
void gpu_send_begin(const struct process *p);
/* Returns false if the tracer has not read in time. */
bool gpu_send(struct thread *t, const struct ct_rec *rec);
/* Our thread ends at exit() before the handlers and destructors of all that is loaded now: CUPTI
 * and libnvperf_host crash if they are called after theirs (observed with CUPTI 13.0). *is_set:
 * whether this was done. */
void gpu_exit_set(bool *is_set);
/* The same, counted as lost. */
bool gpu_send_counted(struct thread *t, const struct ct_rec *rec);
/* Sends a name if that is new. Returns its id. */
uint64_t gpu_send_name(struct thread *t, const char *name);
/* Once per device, before its first execution. */
void gpu_send_device(struct thread *t, uint32_t device);

#endif /* INJECT_GPU_PRIV_H */
