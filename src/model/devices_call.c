/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Updates the devices from the program's queries to the driver, and their results. */
#include "devices.h"

#include "annotate_priv.h"

#include <string.h>

static void take_bytes(const struct annotations *m, const struct trace_event *ev, const char *arg,
		       struct pointee *to)
{
	int i = api_arg_by_name(m->fn, arg), cap = i >= 0 ? m->cap[i] : -1;

	if (cap >= 0 && (unsigned)cap < ev->cap_cnt && ev->caps[cap].len > 0)
		*to = ev->caps[cap];
}

void devices__call(struct devices *ds, const struct annotations *m, const struct trace_event *ev)
{
	struct device_desc desc = {0};
	uint64_t dev;

	if (m->fn->api != API_CUDA || ev->result || !event_returned(ev) ||
	    !event_arg_by_name(m, ev, "dev", &dev))
		return;
	if (!strcmp(ev->name, "cuDeviceGetAttribute")) {
		if (!event_arg_by_name(m, ev, "attrib", &desc.attribute) ||
		    !event_arg_by_name(m, ev, "pi", &desc.value))
			return;
	} else if (!strcmp(m->fn->symbol, "cuDeviceGetUuid")) {
		take_bytes(m, ev, "uuid", &desc.uuids[0]);
	} else if (!strcmp(m->fn->symbol, "cuDeviceGetUuid_v2")) {
		take_bytes(m, ev, "uuid", &desc.uuids[1]);
	} else if (!strcmp(ev->name, "cuDeviceGetName")) {
		take_bytes(m, ev, "name", &desc.model);
	} else if (!strcmp(ev->name, "cuDeviceGetPCIBusId")) {
		take_bytes(m, ev, "pciBusId", &desc.pci);
	} else {
		return;
	}
	devices__learn(ds, ev->pid, dev, &desc);
}
