/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which processes use a GPU that the driver reports, as far as NVML's samples show it. */
#ifndef DAEMON_DOSSIER_GPU_H
#define DAEMON_DOSSIER_GPU_H

#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct dproc;
struct trace_event;

#define DOSSIER_GPUS_MAX 64
/* Processes that get a dossier for a message that names none. */
#define DOSSIER_SHARED_MAX 4

/* Bus addresses by NVML's numbers of GPUs: + 1; 0: unknown. */
struct dossier_gpus {
	uint64_t bus[DOSSIER_GPUS_MAX];
};

/* Traced processes that may use a GPU: those that hold the most device memory. */
struct dossier_users {
	struct dproc *of[DOSSIER_SHARED_MAX];
	bool uses[DOSSIER_SHARED_MAX]; /* NVML shows it there; else it may use it */
	unsigned cnt, all;
};

/* Takes what NVML's samples show. p: the process of the event, or NULL. */
void dossier_gpu__event(struct dossier_gpus *gpus, struct dproc *p, const struct trace_event *ev);
/* pci: as in the driver's message, "PCI:0000:3b:00"; NULL: unknown. */
void dossier_gpu__users(const struct daemon *d, const char *pci, struct dossier_users *users);

#endif /* DAEMON_DOSSIER_GPU_H */
