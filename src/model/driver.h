/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * System calls into the NVIDIA driver, decoded, with the objects behind their handles. The driver's
 * clients and handles do not belong to one process, so the trace has one table.
 */
#ifndef MODEL_DRIVER_H
#define MODEL_DRIVER_H

#include "event.h"

#include "decode/fnset.h"
#include "decode/nv/nv_decode.h"
#include "decode/nv/objects.h"
#include "record/check.h"
#include "util/limits.h"

struct driver {
	struct nv_abi abi;
	struct nv_objects *objects;
	uint64_t unknown_cnt; /* commands on an object whose allocation was not recorded */
};

/* abi: that of the running driver. Returns 0 or -ENOMEM. */
int driver__init(struct driver *d, const struct nv_abi *abi, struct quotas *quotas);
/* Drops the objects that the process did not free. */
void driver__end_process(struct driver *d, uint32_t pid);
void driver__close(struct driver *d);

/* Buffers that a driver event points to while it is delivered. */
struct driver_scratch {
	struct nv_ioctl io;
	struct driver_info info, sched;
	char device[24], name[64], values[256];
};

/* Fills *ev from a record. Returns true if the record is also a request to the GPU's scheduler:
 * *sched is then an event too. */
bool driver__event(struct driver *d, const struct raw_nv *raw, const struct fnset *fns,
		   struct driver_scratch *s, struct trace_event *ev, struct trace_event *sched);

/* An ioctl can also fail through the status in its argument. Calls that may return an address fail
 * with an errno. */
static inline bool driver_failed(const struct driver_info *d)
{
	const struct nv_value *status = d->io ? &d->io->f[NV_R_STATUS] : NULL;

	if (status)
		return d->ret < 0 || (status->at == NV_AT_EXIT && status->v);
	return d->ret < 0 && d->ret >= -CT_MAX_ERRNO;
}

/* Returns why a page was moved; NULL if the number is unknown. 4 is "eviction". */
const char *driver_uvm_cause(uint32_t cause);
#define UVM_CAUSE_EVICTION 4

#endif /* MODEL_DRIVER_H */
