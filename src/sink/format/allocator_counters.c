/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "allocator_counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Further devices have no counters. */
#define DEVICES_MAX 64
#define DEVICE_SZ   32

enum { ALLOCATED, RESERVED, COUNTERS };

struct device {
	char device[DEVICE_SZ];
	char names[COUNTERS][DEVICE_SZ + 32];
	struct chrome_counter counters[COUNTERS];
};

struct allocator_counters {
	struct device *devices[DEVICES_MAX];
	unsigned cnt;
};

struct allocator_counters *allocator_counters__new(void)
{
	return calloc(1, sizeof(struct allocator_counters));
}

void allocator_counters__free(struct allocator_counters *a)
{
	while (a && a->cnt)
		free(a->devices[--a->cnt]);
	free(a);
}

static struct device *device_of(struct allocator_counters *a, const char *name)
{
	static const char *const whats[COUNTERS] = {"allocated", "reserved"};
	struct device *d;

	for (unsigned i = 0; i < a->cnt; i++)
		if (!strncmp(a->devices[i]->device, name, DEVICE_SZ - 1))
			return a->devices[i];
	d = a->cnt < DEVICES_MAX ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	snprintf(d->device, sizeof(d->device), "%s", name);
	for (int i = 0; i < COUNTERS; i++) {
		snprintf(d->names[i], sizeof(d->names[i]), "PyTorch %s %s", d->device, whats[i]);
		d->counters[i] = (struct chrome_counter){d->names[i], "memory", "bytes", false};
	}
	return a->devices[a->cnt++] = d;
}

void allocator_counters__event(struct allocator_counters *a, const struct trace_event *ev,
			       chrome_counter_fn fn, void *ctx)
{
	struct device *d = ev->allocator.device ? device_of(a, ev->allocator.device) : NULL;

	if (!d)
		return;
	fn(ctx, ev->pid, &d->counters[ALLOCATED], ev->start_ns, ev->allocator.allocated);
	fn(ctx, ev->pid, &d->counters[RESERVED], ev->start_ns, ev->allocator.reserved);
}
