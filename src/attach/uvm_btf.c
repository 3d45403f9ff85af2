/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "uvm_btf.h"

#include "util/log.h"

#include <bpf/btf.h>
#include <errno.h>
#include <string.h>

/* Returns the type behind typedefs and qualifiers. */
static const struct btf_type *resolve(const struct btf *btf, __u32 id)
{
	const struct btf_type *t = btf__type_by_id(btf, id);

	while (t && (btf_is_typedef(t) || btf_is_mod(t)))
		t = btf__type_by_id(btf, t->type);
	return t;
}

/* Returns the byte offset of "migration.bytes" in a struct or union, or -1. Searches unnamed
 * members, too. */
static int field_off(const struct btf *btf, const struct btf_type *t, const char *path)
{
	size_t len = strcspn(path, ".");
	const struct btf_member *m;

	if (!t || !btf_is_composite(t))
		return -1;
	m = btf_members(t);
	for (unsigned i = 0; i < btf_vlen(t); i++, m++) {
		const char *name = btf__name_by_offset(btf, m->name_off);
		int at = btf_member_bit_offset(t, i) / 8, in;

		if (!*name) {
			in = field_off(btf, resolve(btf, m->type), path);
			if (in >= 0)
				return at + in;
			continue;
		}
		if (strlen(name) != len || memcmp(name, path, len))
			continue;
		if (!path[len])
			return at;
		in = field_off(btf, resolve(btf, m->type), path + len + 1);
		return in < 0 ? -1 : at + in;
	}
	return -1;
}

bool uvm_btf_read(__u32 *off)
{
	/* kernel-open/nvidia-uvm/uvm_perf_events.h, uvm_gpu.h: names as in 515 to 595 */
	static const struct {
		const char *type, *path;
	} fields[CT_UVM_FIELD_CNT] = {
		[CT_UVM_MIG_DST] = {"uvm_perf_event_data_t", "migration.dst"},
		[CT_UVM_MIG_SRC] = {"uvm_perf_event_data_t", "migration.src"},
		[CT_UVM_MIG_ADDRESS] = {"uvm_perf_event_data_t", "migration.address"},
		[CT_UVM_MIG_BYTES] = {"uvm_perf_event_data_t", "migration.bytes"},
		[CT_UVM_MIG_CAUSE] = {"uvm_perf_event_data_t", "migration.cause"},
		[CT_UVM_FAULT_PROC] = {"uvm_perf_event_data_t", "fault.proc_id"},
		[CT_UVM_FAULT_CPU_VA] = {"uvm_perf_event_data_t", "fault.cpu.fault_va"},
		[CT_UVM_FAULT_CPU_WRITE] = {"uvm_perf_event_data_t", "fault.cpu.is_write"},
		[CT_UVM_FAULT_ENTRY] = {"uvm_perf_event_data_t", "fault.gpu.buffer_entry"},
		[CT_UVM_ENTRY_ADDRESS] = {"uvm_fault_buffer_entry_t", "fault_address"},
	};
	struct btf *vmlinux = btf__load_vmlinux_btf();
	struct btf *btf = vmlinux ? btf__load_module_btf("nvidia_uvm", vmlinux) : NULL;
	bool ok = btf != NULL;

	for (int i = 0; ok && i < CT_UVM_FIELD_CNT; i++) {
		int id = btf__find_by_name_kind(btf, fields[i].type, BTF_KIND_TYPEDEF);
		int at = id < 0 ? -1 : field_off(btf, resolve(btf, id), fields[i].path);

		if (at < 0)
			dbg("nvidia_uvm: %s has no %s", fields[i].type, fields[i].path);
		ok = at >= 0;
		off[i] = at;
	}
	btf__free(btf);
	btf__free(vmlinux);
	return ok;
}
