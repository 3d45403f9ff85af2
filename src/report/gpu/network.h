/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Network ports of --gpu-stats, for other analyses. */
#ifndef REPORT_GPU_NETWORK_H
#define REPORT_GPU_NETWORK_H

#include "model/event.h"

/* Returns the number of packets lost on their way that a port noticed since its previous sample. */
uint64_t network_lost(const struct event_network *x);

#endif /* REPORT_GPU_NETWORK_H */
