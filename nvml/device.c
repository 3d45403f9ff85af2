/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the GPUs and MIG instances, and reads what does not change. */
#include "sampler.h"

#include <string.h>

/* Copies text that may lack its terminating zero. */
static void end_text(char *text, size_t size)
{
	text[size - 1] = 0;
}

static void read_facts(struct sampler *s, struct device *d)
{
	struct nvml_gpm_support gpm = {.version = 1};
	nvml_device whole = d->parent ?: d->handle;
	struct nvml_pci pci = {0};

	if (answered(s, d, ASK(&s->n, uuid, d->handle, d->uuid, sizeof(d->uuid))))
		end_text(d->uuid, sizeof(d->uuid));
	else
		d->uuid[0] = 0;
	/* NVML_DEVICE_NAME_V2_BUFFER_SIZE is 96. */
	if (answered(s, d, ASK(&s->n, name, d->handle, d->name, 96)))
		end_text(d->name, sizeof(d->name));
	else
		d->name[0] = 0;
	if (answered(s, d, ASK(&s->n, pci, whole, &pci)))
		memcpy(d->pci, pci.bus_id, sizeof(d->pci) - 1);
	if (!answered(s, d, ASK(&s->n, minor, whole, &d->minor)))
		d->minor = CT_GPU_NONE;
	/* Hopper and later, drivers from 520 on. */
	d->gpm_off = !answered(s, d, ASK(&s->n, gpm_support, whole, &gpm)) || !gpm.supported ||
		     !answered(s, d, ASK(&s->n, gpm_alloc, &d->gpm[0])) ||
		     !answered(s, d, ASK(&s->n, gpm_alloc, &d->gpm[1]));
}

static void report(struct sampler *s, struct device *d)
{
	struct ct_gpu rec = record_of(d, CT_GPU_DEVICE);
	struct nvml_memory m = {0};

	memcpy(rec.name, d->name, sizeof(rec.name));
	memcpy(rec.pci, d->pci, sizeof(rec.pci));
	rec.minor = d->minor;
	if (answered(s, d, ASK(&s->n, memory, d->handle, &m)))
		put(&rec, CT_GPU_MEMORY_TOTAL, m.total);
	send_record(s, &rec);
}

static struct device *add(struct sampler *s, nvml_device handle, unsigned index)
{
	struct device *d;

	if (s->device_cnt == DEVICES_MAX)
		return NULL;
	d = &s->devices[s->device_cnt++];
	d->handle = handle;
	d->index = index;
	d->gpu_instance = d->compute_instance = CT_GPU_WHOLE;
	return d;
}

static void add_mig(struct sampler *s, struct device *whole)
{
	unsigned current = 0, pending = 0, max = 0;

	if (ASK(&s->n, mig_mode, whole->handle, &current, &pending) || !current)
		return;
	whole->is_split = true;
	if (!answered(s, whole, ASK(&s->n, mig_max, whole->handle, &max)))
		return;
	for (unsigned i = 0; i < max && i < DEVICES_MAX; i++) {
		nvml_device handle = NULL;
		struct device *d;

		/* MIG indices without an instance return errors. */
		if (ASK(&s->n, mig_device, whole->handle, i, &handle) || !handle)
			continue;
		d = add(s, handle, whole->index);
		if (!d)
			return;
		d->parent = whole->handle;
		if (ASK(&s->n, gpu_instance, handle, &d->gpu_instance))
			d->gpu_instance = CT_GPU_WHOLE;
		if (ASK(&s->n, compute_instance, handle, &d->compute_instance))
			d->compute_instance = CT_GPU_WHOLE;
		read_facts(s, d);
		report(s, d);
	}
}

void find_devices(struct sampler *s)
{
	unsigned cnt = 0;
	int ret = s->n.count(&cnt);

	if (ret || !cnt) {
		send_missing(s, NULL, "NVML shows no GPU%s%.100s", ret ? ": " : "",
			     ret ? error_text(s, ret) : "");
		return;
	}
	if (ASK(&s->n, event_set, &s->events))
		s->events = NULL;
	for (unsigned i = 0; i < cnt && i < DEVICES_MAX; i++) {
		nvml_device handle = NULL;
		struct device *d;

		ret = s->n.handle(i, &handle);
		if (ret || !handle) {
			send_missing(s, NULL, "GPU %u cannot be used: %.100s (%d)", i,
				     error_text(s, ret), ret);
			continue;
		}
		d = add(s, handle, i);
		if (!d)
			return;
		read_facts(s, d);
		report(s, d);
		if (s->events)
			ASK(&s->n, register_events, handle, NVML_EVENT_XID, s->events);
		add_mig(s, d);
	}
}
