/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "devices.h"

#include "event_table.h"

#include "ct_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device_entry {
	struct hash_link link;
	struct device d;
};
HASH_TABLE_KEY(device_entry, d.key);

/* For all processes together; above this, the oldest are dropped. */
#define DEVICES_MAX 4096
/* The limit of GPUs per process. Higher numbers are rejected. */
#define NUMBER_MAX 64

static void drop(struct devices *ds, struct device_entry *e)
{
	ds->new_cnt -= e->d.is_new;
	device_entry_table__del(&ds->by_key, e);
	free(e);
}

void devices__free(struct devices *ds)
{
	hash_each (e, &ds->by_key)
		drop(ds, e);
	*ds = (struct devices){0};
}

static void forget(struct devices *ds, uint32_t pid)
{
	hash_each (e, &ds->by_key)
		if (e->d.key.pid == pid)
			drop(ds, e);
}

static struct device *find(struct devices *ds, uint32_t pid, uint32_t number)
{
	struct device_key key = {pid, number};
	struct device_entry *e = device_entry_table__find(&ds->by_key, &key);

	return e ? &e->d : NULL;
}

static void look_up_index(const struct devices *ds, struct device *d)
{
	for (unsigned i = 0; d->is_known && !d->has_index && i < ds->nvml_cnt; i++) {
		if (ds->nvml[i].id[0] != d->id[0] || ds->nvml[i].id[1] != d->id[1])
			continue;
		d->has_index = true;
		d->index = ds->nvml[i].index;
	}
}

const struct device *devices__find(struct devices *ds, uint32_t pid, uint32_t number)
{
	struct device *d = find(ds, pid, number);

	if (d)
		look_up_index(ds, d);
	return d;
}

static struct device *get(struct devices *ds, uint32_t pid, uint64_t number)
{
	struct device_key key = {pid, number};
	struct device_entry *e;
	struct device *d;

	if (number >= NUMBER_MAX)
		return NULL;
	d = find(ds, pid, number);
	if (d)
		return d;
	if (hash_cnt(&ds->by_key) == DEVICES_MAX)
		drop(ds, ds->by_key.first);
	e = device_entry_table__new(&ds->by_key, &key);
	if (!e)
		return NULL;
	for (int i = 0; i < DEVICE_PART_CNT; i++)
		e->d.parts[i] = -1;
	return &e->d;
}

static void make_new(struct devices *ds, struct device *d)
{
	ds->new_cnt += !d->is_new;
	d->is_new = true;
}

/* --- UUIDs --- */

/* Parses "GPU-" and 32 digits in five groups; "MIG-" too. */
static bool read_uuid(const char *text, uint64_t id[2])
{
	static const char digits[] = "00112233445566778899aAbBcCdDeEfF";
	unsigned cnt = 0;

	if ((strncmp(text, "GPU-", 4) && strncmp(text, "MIG-", 4)) || strlen(text) != 40)
		return false;
	id[0] = id[1] = 0;
	for (text += 4; *text; text++) {
		const char *at = strchr(digits, *text);

		if (*text == '-')
			continue;
		if (!at || cnt == 32)
			return false;
		id[cnt / 16] = (id[cnt / 16] << 4) | (uint64_t)(at - digits) / 2;
		cnt++;
	}
	return cnt == 32;
}

static void set_uuid(struct device *d, const uint8_t uuid[16], bool is_part)
{
	char *to = d->uuid;

	memcpy(to, is_part ? "MIG-" : "GPU-", 4);
	to += 4;
	d->id[0] = d->id[1] = 0;
	for (unsigned i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*to++ = '-';
		to += sprintf(to, "%02x", uuid[i]);
		d->id[i / 8] = d->id[i / 8] << 8 | uuid[i];
	}
	d->is_known = true;
	d->has_index = false;
}

/* The second form is the UUID of the device that the process uses, the first that of the whole GPU.
 * The name of a MIG device contains its profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
static void settle_uuid(struct device *d)
{
	bool is_part = d->has_uuids == 3 && memcmp(d->uuids[0], d->uuids[1], 16) != 0;

	if (d->has_uuids & 2)
		set_uuid(d, d->uuids[1], is_part || strstr(d->model, " MIG "));
	else if (d->has_uuids && !strstr(d->model, " MIG "))
		set_uuid(d, d->uuids[0], false);
	else
		d->is_known = false;
}

/* --- learning --- */

static bool take_text(char to[DEVICE_TEXT_SZ], const struct pointee *c)
{
	char text[DEVICE_TEXT_SZ] = {0};
	size_t len = strnlen((const char *)c->data, c->len);

	memcpy(text, c->data, len < sizeof(text) ? len : sizeof(text) - 1);
	if (!*text || !strcmp(to, text))
		return false;
	strcpy(to, text);
	return true;
}

static bool take_number(uint32_t *to, uint64_t value)
{
	if ((int32_t)value <= 0 || *to == (uint32_t)value)
		return false;
	*to = value;
	return true;
}

/* Stores a number that is meaningful only together with others. */
static bool take_part(struct device *d, enum device_part which, uint64_t value)
{
	const int64_t *of = d->parts;
	char text[DEVICE_TEXT_SZ];

	if ((int32_t)value < 0 || of[which] == (int32_t)value)
		return false;
	d->parts[which] = (int32_t)value;
	if (which == DEVICE_MAJOR || which == DEVICE_MINOR)
		return of[DEVICE_MAJOR] > 0 && of[DEVICE_MAJOR] < 100 && of[DEVICE_MINOR] >= 0 &&
		       of[DEVICE_MINOR] < 10 &&
		       take_number(&d->capability, 10 * of[DEVICE_MAJOR] + of[DEVICE_MINOR]);
	if (of[DEVICE_DOMAIN] < 0 || of[DEVICE_BUS] < 0 || of[DEVICE_SLOT] < 0)
		return false;
	snprintf(text, sizeof(text), "%04x:%02x:%02x.0", (unsigned)of[DEVICE_DOMAIN],
		 (unsigned)of[DEVICE_BUS], (unsigned)of[DEVICE_SLOT]);
	return take_text(d->pci, &(struct pointee){(const uint8_t *)text, sizeof(text)});
}

/* CUdevice_attribute (cuda.h; the same since CUDA 4). */
static bool take_attribute(struct device *d, uint64_t attribute, uint64_t value)
{
	switch (attribute) {
	case 13: /* CLOCK_RATE */
		return take_number(&d->clock_khz, value);
	case 16: /* MULTIPROCESSOR_COUNT */
		return take_number(&d->sm_cnt, value);
	case 33: /* PCI_BUS_ID */
		return take_part(d, DEVICE_BUS, value);
	case 34: /* PCI_DEVICE_ID */
		return take_part(d, DEVICE_SLOT, value);
	case 36: /* MEMORY_CLOCK_RATE */
		return take_number(&d->memory_khz, value);
	case 37: /* GLOBAL_MEMORY_BUS_WIDTH */
		return take_number(&d->bus_bits, value);
	case 50: /* PCI_DOMAIN_ID */
		return take_part(d, DEVICE_DOMAIN, value);
	case 75: /* COMPUTE_CAPABILITY_MAJOR */
		return take_part(d, DEVICE_MAJOR, value);
	case 76: /* COMPUTE_CAPABILITY_MINOR */
		return take_part(d, DEVICE_MINOR, value);
	default:
		return false;
	}
}

static bool take_uuid(struct device *d, int form, const struct pointee *c)
{
	if (c->len < 16 || (d->has_uuids >> form & 1 && !memcmp(d->uuids[form], c->data, 16)))
		return false;
	memcpy(d->uuids[form], c->data, 16);
	d->has_uuids |= 1 << form;
	return true;
}

void devices__learn(struct devices *ds, uint32_t pid, uint64_t number,
		    const struct device_desc *desc)
{
	struct device *d = get(ds, pid, number);
	bool is_new = false;

	if (!d)
		return;
	for (int form = 0; form < 2; form++)
		if (desc->uuids[form].len > 0)
			is_new |= take_uuid(d, form, &desc->uuids[form]);
	if (desc->model.len > 0)
		is_new |= take_text(d->model, &desc->model);
	if (desc->pci.len > 0)
		is_new |= take_text(d->pci, &desc->pci);
	is_new |= take_attribute(d, desc->attribute, desc->value);
	if (!is_new)
		return;
	settle_uuid(d);
	make_new(ds, d);
}

static struct pointee bytes(const void *data, size_t size)
{
	return (struct pointee){data, size};
}

void devices__add_record(struct devices *ds, const struct ct_device *rec)
{
	const struct {
		uint32_t attribute, value;
	} numbers[] = {{75, rec->major},     {76, rec->minor},	    {16, rec->sm_cnt},
		       {13, rec->clock_khz}, {36, rec->memory_khz}, {37, rec->bus_bits}};
	struct device_desc desc = {
		.model = bytes(rec->name, sizeof(rec->name)),
		.pci = bytes(rec->pci, sizeof(rec->pci)),
	};

	if (rec->has & CT_DEVICE_HAS_GPU_UUID)
		desc.uuids[0] = bytes(rec->gpu_uuid, sizeof(rec->gpu_uuid));
	if (rec->has & CT_DEVICE_HAS_UUID)
		desc.uuids[1] = bytes(rec->uuid, sizeof(rec->uuid));
	devices__learn(ds, rec->rec.pid, rec->device, &desc);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		/* 0 means unknown, except for a minor number. */
		if (!numbers[i].value && !(numbers[i].attribute == 76 && rec->major))
			continue;
		devices__learn(ds, rec->rec.pid, rec->device,
			       &(struct device_desc){.attribute = numbers[i].attribute,
						     .value = numbers[i].value});
	}
}

/* --- events --- */

const struct device *devices__take_new(struct devices *ds)
{
	if (!ds->new_cnt)
		return NULL;
	hash_each (e, &ds->by_key) {
		if (!e->d.is_new)
			continue;
		e->d.is_new = false;
		ds->new_cnt--;
		return &e->d;
	}
	return NULL;
}

static struct opt_u64 number_of(uint32_t n)
{
	return (struct opt_u64){n, n != 0};
}

void device_event(struct trace_event *ev, const struct device *d, uint64_t ns)
{
	*ev = (struct trace_event){
		.kind = EVENT_GPU_DEVICE,
		.type = event_kinds[EVENT_GPU_DEVICE].type,
		.op = "device",
		.name = "device",
		.pid = d->key.pid,
		.tid = d->key.pid,
		.comm = "",
		.start_ns = ns,
		.end_ns = ns,
		.device = d,
		.gpu_device =
			{
				.device = d->key.number,
				.uuid = d->is_known ? d->uuid : NULL,
				.pci = *d->pci ? d->pci : NULL,
				.model = *d->model ? d->model : NULL,
				.capability = number_of(d->capability),
				.multiprocessors = number_of(d->sm_cnt),
				.clock_khz = number_of(d->clock_khz),
				.memory_khz = number_of(d->memory_khz),
				.bus_bits = number_of(d->bus_bits),
			},
	};
}

static void copy(char *to, size_t size, const char *from)
{
	if (from)
		snprintf(to, size, "%s", from);
}

static void on_device(struct devices *ds, const struct trace_event *ev)
{
	const struct event_gpu_device *x = &ev->gpu_device;
	struct device *d = get(ds, ev->pid, x->device);

	/* In live events, ev->device is the record itself. */
	if (!d || d == ev->device)
		return;
	if (x->uuid && read_uuid(x->uuid, d->id)) {
		d->is_known = true;
		d->has_index = false;
		copy(d->uuid, sizeof(d->uuid), x->uuid);
	}
	copy(d->pci, sizeof(d->pci), x->pci);
	copy(d->model, sizeof(d->model), x->model);
	if (x->capability.known && x->capability.v < 1000)
		d->capability = x->capability.v;
	if (x->multiprocessors.known && x->multiprocessors.v < UINT32_MAX)
		d->sm_cnt = x->multiprocessors.v;
	if (x->clock_khz.known && x->clock_khz.v < UINT32_MAX)
		d->clock_khz = x->clock_khz.v;
	if (x->memory_khz.known && x->memory_khz.v < UINT32_MAX)
		d->memory_khz = x->memory_khz.v;
	if (x->bus_bits.known && x->bus_bits.v < UINT32_MAX)
		d->bus_bits = x->bus_bits.v;
}

static void on_nvml(struct devices *ds, const struct event_gpu_stats *x)
{
	uint64_t id[2];

	if (!x->uuid || !x->gpu.known || x->gpu.v >= NUMBER_MAX || !read_uuid(x->uuid, id))
		return;
	for (unsigned i = 0; i < ds->nvml_cnt; i++)
		if (ds->nvml[i].id[0] == id[0] && ds->nvml[i].id[1] == id[1])
			return;
	if (ds->nvml_cnt == DEVICES_NVML)
		return;
	memcpy(ds->nvml[ds->nvml_cnt].id, id, sizeof(id));
	ds->nvml[ds->nvml_cnt++].index = x->gpu.v;
}

void devices__event(struct devices *ds, const struct trace_event *ev)
{
	switch (ev->kind) {
	case EVENT_GPU_DEVICE:
		on_device(ds, ev);
		break;
	case EVENT_GPU_STATS:
		if (!strcmp(ev->op, "device"))
			on_nvml(ds, &ev->gpu_stats);
		break;
	case EVENT_PROCESS:
		if (strcmp(ev->op, "exit"))
			forget(ds, ev->pid);
		break;
	default:
		break;
	}
}

void device_label(char buf[DEVICE_LABEL_SZ], const struct device *d, uint32_t number)
{
	if (d && d->is_known)
		snprintf(buf, DEVICE_LABEL_SZ, "GPU %u %.8s", d->has_index ? d->index : number,
			 d->uuid + strlen("GPU-"));
	else
		snprintf(buf, DEVICE_LABEL_SZ, "GPU %u", number);
}
