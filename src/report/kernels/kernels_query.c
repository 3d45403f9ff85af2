/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program's queries of its kernels and devices (--all), or what --gpu-time has of them, and the
 * occupancy that follows. Without both, none of this is known.
 */
#include <string.h>

#include "decode/api_values.h"
#include "model/event_path.h"
#include "kernels_priv.h"
#include "occupancy.h"

static void note_cc(struct kernels *k, uint64_t *to, bool *has, uint64_t val)
{
	k->mixed |= *has && *to != val;
	*to = val;
	*has = true;
}

static void note_sms(struct kernels *k, uint64_t val)
{
	k->mixed_sms |= k->has_sms && k->sm_cnt != val;
	k->sm_cnt = val;
	k->has_sms = true;
}

static void on_device(struct kernels *k, const struct trace_event *ev)
{
	uint64_t attr, val;

	if (event_arg_u64(ev, "major", &val)) {
		note_cc(k, &k->cc_major, &k->has_major, val);
		if (event_arg_u64(ev, "minor", &val))
			note_cc(k, &k->cc_minor, &k->has_minor, val);
	} else if (event_path_u64(ev, "attrib", &attr) && event_arg_u64(ev, "pi", &val)) {
		if (attr == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
			note_cc(k, &k->cc_major, &k->has_major, val);
		else if (attr == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
			note_cc(k, &k->cc_minor, &k->has_minor, val);
		else if (attr == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
			note_sms(k, val);
	}
}

unsigned kernels_cc(const struct kernels *k)
{
	if (!k->has_major || !k->has_minor || k->mixed || k->cc_major > 24 || k->cc_minor > 9)
		return 0;
	return k->cc_major * 10 + k->cc_minor;
}

static void on_attribute(struct kernels *k, const struct trace_event *ev)
{
	struct kernel_func *f;
	uint64_t attr, val, func;

	if (!event_path_u64(ev, "attrib", &attr) ||
	    (attr != CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES && attr != CU_FUNC_ATTRIBUTE_NUM_REGS) ||
	    !event_arg_u64(ev, "pi", &val))
		return;
	if (!event_arg_u64(ev, "hfunc", &func) && !event_arg_u64(ev, "kernel", &func))
		return;
	f = kernels_func(k, func, ev->pid);
	if (!f)
		return;
	if (attr == CU_FUNC_ATTRIBUTE_NUM_REGS) {
		f->registers = val;
		f->has_registers = true;
	} else {
		f->shared_mem = val;
		f->has_shared = true;
	}
}

/* cuOccupancyMaxActiveBlocksPerMultiprocessor, with and without flags */
static void on_occupancy(struct kernels *k, const struct trace_event *ev)
{
	uint64_t func, blocks, threads, shared;
	struct kernel_func *f;

	if (!event_arg_u64(ev, "numBlocks", &blocks) || !event_arg_u64(ev, "func", &func) ||
	    !event_arg_u64(ev, "blockSize", &threads) ||
	    !event_arg_u64(ev, "dynamicSMemSize", &shared))
		return;
	f = kernels_func(k, func, ev->pid);
	if (!f)
		return;
	f->has_resident = true;
	f->resident = blocks;
	f->resident_threads = threads;
	f->resident_shared = shared;
}

/* Records the handle that a lookup returned, and its name. */
static void on_lookup(struct kernels *k, const struct trace_event *ev)
{
	struct kernel_func *f;
	uint64_t func;

	if (!(ev->has & HAS_KERNEL))
		return;
	if (!event_arg_u64(ev, "hfunc", &func) && !event_arg_u64(ev, "pKernel", &func) &&
	    !event_arg_u64(ev, "pFunc", &func))
		return;
	f = kernels_func(k, func, ev->pid);
	if (f)
		f->name = ev->launch.kernel;
}

static void on_gpu_device(struct kernels *k, const struct trace_event *ev)
{
	const struct event_gpu_device *d = &ev->gpu_device;

	if (d->capability.known) {
		note_cc(k, &k->cc_major, &k->has_major, d->capability.v / 10);
		note_cc(k, &k->cc_minor, &k->has_minor, d->capability.v % 10);
	}
	if (d->multiprocessors.known)
		note_sms(k, d->multiprocessors.v);
}

void kernels_gpu(struct kernels *k, const struct trace_event *ev)
{
	struct kernel_func *f;

	if (ev->kind == EVENT_GPU_DEVICE)
		on_gpu_device(k, ev);
	if (ev->kind != EVENT_GPU || !ev->gpu.registers || !ev->gpu.kernel)
		return;
	f = kernels_func(k, (uintptr_t)ev->gpu.kernel, 0);
	if (!f)
		return;
	f->name = ev->gpu.kernel;
	f->is_measured = true;
	/* A name may have several kernels: with other registers, none are known. */
	f->registers = f->has_registers && f->registers != ev->gpu.registers ? UINT64_MAX
									     : ev->gpu.registers;
	f->shared_mem = ev->gpu.shared_mem;
	f->has_registers = f->has_shared = true;
}

void kernels_query(struct kernels *k, const struct trace_event *ev)
{
	switch (ev->fn->class) {
	case CLASS_DEVICE:
		on_device(k, ev);
		break;
	case CLASS_MODULE:
		if (ev->fn->op == OP_LOOKUP)
			on_lookup(k, ev);
		else
			on_attribute(k, ev);
		break;
	case CLASS_OCCUPANCY:
		on_occupancy(k, ev);
		break;
	}
}

static struct kernel *kernel_of(struct kernels *k, const struct kernel_func *f)
{
	uint32_t i = f->kernel ? f->kernel - 1 : KEYS_NONE;

	if (i == KEYS_NONE && f->name)
		i = keys__find(&k->keys, (uintptr_t)f->name);
	return i < k->keys.cnt && i < k->cap ? &k->list[i] : NULL;
}

/* Sets the registers of a kernel only if all its handles agree. */
static void print_registers(struct kernel *row, const struct kernel_func *f)
{
	if (row->has_registers && row->registers != f->registers)
		row->registers = UINT64_MAX;
	else
		row->registers = f->registers;
	row->has_registers = true;
}

/* Does the same for the occupancy. A kernel with several block sizes has several occupancies, and
 * no launch has the largest of each value. */
static void print_occupancy(struct kernels *k, struct kernel *row, const struct kernel_func *f)
{
	unsigned cc = kernels_cc(k);
	struct occupancy_use use = {row->block_threads, f->registers,
				    f->shared_mem + row->shared_mem};
	uint64_t resident;

	if (!occupancy_max_threads(cc) || !row->has_config || row->is_mixed ||
	    row->cluster[0] > 1 || row->cluster[1] > 1 || row->cluster[2] > 1)
		return;
	if (f->has_resident && f->resident_threads == row->block_threads &&
	    f->resident_shared == row->shared_mem)
		resident = f->resident;
	else if (!f->has_registers || !f->has_shared || !occupancy_blocks(cc, &use, &resident))
		return;
	row->is_mixed = row->has_occupancy && row->resident != resident;
	row->occupancy = occupancy_share(cc, row->block_threads, resident);
	row->has_occupancy = !row->is_mixed && row->occupancy <= 1;
	row->resident = resident;
}

/* Equally long blocks run in waves; a full wave has as many blocks as the GPU holds. */
static void print_waves(const struct kernels *k, struct kernel *row)
{
	uint64_t room, whole;

	if (!row->has_occupancy || !row->resident || !k->has_sms || k->mixed_sms || !k->sm_cnt ||
	    k->sm_cnt > UINT16_MAX || row->grid_blocks_max > UINT64_MAX / 2)
		return;
	room = row->resident * k->sm_cnt;
	whole = (row->grid_blocks_max + room - 1) / room;
	if (!whole)
		return;
	row->has_waves = true;
	row->waves = (double)row->grid_blocks_max / room;
	row->tail_share = 1 - row->waves / whole;
}

static void print_func(struct kernels *k, const struct kernel_func *f)
{
	struct kernel *row = kernel_of(k, f);

	if (!row)
		return;
	if (f->has_registers && !(f->is_measured && row->has_registers))
		print_registers(row, f);
	if (!(f->is_measured && row->has_occupancy))
		print_occupancy(k, row, f);
}

/* A program's queries come first: CUPTI has 16 registers where a kernel has fewer. */
void kernels_occupancy(struct kernels *k)
{
	for (unsigned measured = 0; measured < 2; measured++)
		for (uint32_t i = 0; i < k->func_keys.cnt && i < k->func_cap; i++)
			if (k->funcs[i].is_measured == measured)
				print_func(k, &k->funcs[i]);
	for (uint32_t i = 0; i < k->keys.cnt && i < k->cap; i++) {
		struct kernel *row = &k->list[i];

		if (row->has_registers && row->registers == UINT64_MAX)
			row->has_registers = row->has_occupancy = false;
		print_waves(k, row);
	}
}
