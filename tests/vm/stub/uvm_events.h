/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Internal notifications of the UVM driver about page faults and migrations. Types and fields have
 * the names of the real ones; their offsets differ between the two variants, as in the driver, so
 * that a reader must use the type information.
 */
#ifndef UVM_EVENTS_H
#define UVM_EVENTS_H

#include <linux/types.h>

/* An ioctl that the real driver does not have: makes one event. */
#define STUB_EVENT 0x7e570001

struct stub_event {
	__u32 id; /* uvm_perf_event_t, as this version numbers it */
	__u32 is_migration;
	__u64 address, bytes;
	__u32 src, dst; /* processors; of a fault: dst */
	__u32 cause, is_write;
};

typedef unsigned int uvm_perf_event_t;
typedef struct {
	u32 val;
} uvm_processor_id_t;

struct uvm_fault_buffer_entry_struct {
#ifndef OLD
	u64 timestamp;
#endif
	u64 fault_address;
	u32 fault_access_type;
};
typedef struct uvm_fault_buffer_entry_struct uvm_fault_buffer_entry_t;

typedef union {
	struct {
		void *block;
		uvm_processor_id_t proc_id;
		uvm_processor_id_t preferred_location;
		union {
			struct {
				uvm_fault_buffer_entry_t *buffer_entry;
				u32 batch_id;
				bool is_duplicate;
			} gpu;
			struct {
				u64 fault_va;
#ifndef OLD
				u32 cpu_num;
#endif
				bool is_write;
				u64 pc;
			} cpu;
		};
	} fault;
	struct {
		void *push;
		void *block;
		uvm_processor_id_t dst;
		uvm_processor_id_t src;
#ifndef OLD
		s32 dst_nid, src_nid;
#endif
		u64 address;
		u64 bytes;
		u32 transfer_mode;
		u32 cause;
	} migration;
} uvm_perf_event_data_t;

void uvm_perf_event_notify(void *va_space_events, uvm_perf_event_t id, uvm_perf_event_data_t *data);
long stub_event(const void __user *arg);

#endif /* UVM_EVENTS_H */
