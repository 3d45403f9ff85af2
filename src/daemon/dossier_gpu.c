/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "dossier_gpu.h"

#include "daemon_priv.h"

#include <stdio.h>
#include <string.h>

/* "00000000:3B:00.0" of NVML, "PCI:0000:3b:00" of the kernel log. 0: not understood. */
static uint64_t read_bus(const char *pci)
{
	unsigned domain, bus, slot;

	if (pci && !strncmp(pci, "PCI:", 4))
		pci += 4;
	if (!pci || sscanf(pci, "%8x:%4x:%4x", &domain, &bus, &slot) != 3)
		return 0;
	return ((uint64_t)domain << 32 | bus << 16 | slot) + 1;
}

void dossier_gpu__event(struct dossier_gpus *gpus, struct dproc *p, const struct trace_event *ev)
{
	const struct event_gpu_stats *x = &ev->gpu_stats;

	if (!x->gpu.known || x->gpu.v >= DOSSIER_GPUS_MAX)
		return;
	if (x->pci)
		gpus->bus[x->gpu.v] = read_bus(x->pci);
	if (p && !strcmp(ev->op, "process"))
		p->gpus |= 1ull << x->gpu.v;
}

static int number_of(const struct dossier_gpus *gpus, const char *pci)
{
	uint64_t bus = read_bus(pci);

	for (int i = 0; bus && i < DOSSIER_GPUS_MAX; i++)
		if (gpus->bus[i] == bus)
			return i;
	return -1;
}

static void add(struct dossier_users *users, struct dproc *p, bool uses)
{
	unsigned i = users->cnt;

	users->all++;
	if (i == DOSSIER_SHARED_MAX) {
		if (users->of[i - 1]->mem.bytes[MEM_DEVICE] >= p->mem.bytes[MEM_DEVICE])
			return;
		i--;
	}
	for (; i && users->of[i - 1]->mem.bytes[MEM_DEVICE] < p->mem.bytes[MEM_DEVICE]; i--) {
		users->of[i] = users->of[i - 1];
		users->uses[i] = users->uses[i - 1];
	}
	users->of[i] = p;
	users->uses[i] = uses;
	users->cnt += users->cnt < DOSSIER_SHARED_MAX;
}

void dossier_gpu__users(const struct daemon *d, const char *pci, struct dossier_users *users)
{
	int gpu = number_of(&d->dossiers.gpus, pci);

	*users = (struct dossier_users){.cnt = 0};
	hash_each (p, &d->procs.by_pid) {
		bool uses = gpu >= 0 && p->gpus >> gpu & 1;

		/* NVML shows it on other GPUs only. */
		if (!dproc_is_traced(p) || (gpu >= 0 && p->gpus && !uses))
			continue;
		add(users, p, uses);
	}
}
