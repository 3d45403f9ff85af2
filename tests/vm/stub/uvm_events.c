/* SPDX-License-Identifier: GPL-2.0-only */
/* See uvm_events.h. A separate file, because callers are in other files in the driver, too. */
#include "stub.h"
#include "uvm_events.h"

noinline void uvm_perf_event_notify(void *va_space_events, uvm_perf_event_t id,
				    uvm_perf_event_data_t *data)
{
	barrier_data(data);
}

long stub_event(const void __user *arg)
{
	uvm_fault_buffer_entry_t entry;
	uvm_perf_event_data_t data;
	struct stub_event e;

	if (copy_from_user(&e, arg, sizeof(e)))
		return -EFAULT;
	/* A value read from a wrong offset must not look right. */
	memset(&entry, 0xa5, sizeof(entry));
	memset(&data, 0xa5, sizeof(data));
	if (e.is_migration) {
		data.migration.dst.val = e.dst;
		data.migration.src.val = e.src;
		data.migration.address = e.address;
		data.migration.bytes = e.bytes;
		data.migration.cause = e.cause;
	} else {
		data.fault.proc_id.val = e.dst;
		if (e.dst) {
			entry.fault_address = e.address;
			data.fault.gpu.buffer_entry = &entry;
		} else {
			data.fault.cpu.fault_va = e.address;
			data.fault.cpu.is_write = e.is_write;
		}
	}
	uvm_perf_event_notify(NULL, e.id, &data);
	return 0;
}
