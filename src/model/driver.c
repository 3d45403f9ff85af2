/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "driver.h"

#include "ct_nv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A PyTorch process has some 500 objects. A full table rejects objects and counts them. */
#define OBJECTS_MAX 65536

int driver__init(struct driver *d, const struct nv_abi *abi, struct quotas *quotas)
{
	d->abi = *abi;
	d->objects = nv_objects__new(OBJECTS_MAX);
	if (!d->objects)
		return -ENOMEM;
	nv_objects__use_quota(d->objects, quotas__get(quotas, QUOTA_OBJECTS));
	return 0;
}

void driver__end_process(struct driver *d, uint32_t pid)
{
	if (d->objects)
		nv_objects__end_process(d->objects, pid);
}

void driver__close(struct driver *d)
{
	nv_objects__free(d->objects);
}

static void name_device(const struct ct_nv *rec, char *buf, size_t size)
{
	if (rec->dev == CT_NV_GPU)
		snprintf(buf, size, "nvidia%u", rec->minor);
	else
		snprintf(buf, size, "%s", nv_dev_name(rec->dev));
}

static void add_range(struct nv_block *b, const struct raw_nv *raw, unsigned i)
{
	for (int r = 0; r < CT_NV_SPANS; r++) {
		if (b->r[r].len)
			continue;
		b->r[r] = (struct nv_range){raw->blocks[i].data, raw->nv->blocks[i].off,
					    raw->blocks[i].len};
		return;
	}
}

static void decode(struct driver *d, const struct raw_nv *raw, struct nv_ioctl *io)
{
	const struct ct_nv *rec = raw->nv;
	struct nv_decode_in in = {
		.abi = &d->abi,
		.dev = rec->dev,
		.cmd = rec->cmd,
		.finished = !(rec->rec.flags & CT_CALL_F_UNFINISHED),
		.ret = rec->ret,
	};
	struct nv_block *blocks[] = {
		[CT_NV_ENTRY] = &in.entry,
		[CT_NV_EXIT] = &in.exit,
		[CT_NV_INNER_ENTRY] = &in.inner_entry,
		[CT_NV_INNER_EXIT] = &in.inner_exit,
	};

	for (unsigned i = 0; i < raw->block_cnt; i++)
		if (raw->blocks[i].len > 0 && raw->nv->blocks[i].block <= CT_NV_INNER_EXIT)
			add_range(blocks[raw->nv->blocks[i].block], raw, i);
	nv_decode_ioctl(&in, io);
}

/* Returns the name of the control or the escape, or its number as text. */
static const char *ioctl_name(struct driver *d, const struct nv_ioctl *io, char *buf, size_t size)
{
	if (io->control)
		return io->control->name;
	if (nv_has(io, NV_R_CONTROL)) {
		nv_rmctrl_describe(&d->abi, io->f[NV_R_CONTROL].v, buf, size);
		return buf;
	}
	if (io->name)
		return io->name;
	snprintf(buf, size, "ioctl 0x%x", io->nr);
	return buf;
}

/* Returns the class of the object; counts unknown objects. */
static const char *class_of(struct driver *d, const struct nv_ioctl *io)
{
	const struct nv_object *obj;
	const struct nv_class *class;

	if (!nv_has(io, NV_R_CLIENT) || !nv_has(io, NV_R_OBJECT))
		return NULL;
	obj = nv_objects__find(d->objects, io->f[NV_R_CLIENT].v, io->f[NV_R_OBJECT].v);
	if (!obj || obj->class == NV_CLASS_UNKNOWN) {
		d->unknown_cnt++;
		return NULL;
	}
	class = nv_class_by_number(&d->abi, obj->class, NULL);
	return class ? class->name : NULL;
}

static void learn(struct driver *d, const struct ct_nv *rec, const struct nv_ioctl *io)
{
	nv_objects__set_process(d->objects, rec->rec.pid);
	if (io && rec->file)
		nv_objects__apply(d->objects, rec->file, io);
	if (rec->op == CT_NV_CLOSE && rec->is_release && rec->file)
		nv_objects__close(d->objects, rec->file);
}

static bool fill_sched(struct driver *d, const struct raw_nv *raw, struct driver_scratch *s,
		       const struct trace_event *ev, struct trace_event *sched)
{
	s->sched = s->info;
	s->sched.sched = s->io.sched;
	s->sched.sched_values = NULL;
	for (unsigned i = 0; i < raw->block_cnt; i++) {
		if (raw->nv->blocks[i].block != CT_NV_PARAMS || raw->blocks[i].len <= 0)
			continue;
		nv_sched_describe(&d->abi, s->io.sched, raw->blocks[i].data, raw->blocks[i].len,
				  s->values, sizeof(s->values));
		s->sched.sched_values = s->values;
	}
	*sched = *ev;
	sched->kind = EVENT_SCHED;
	sched->type = TYPE_SCHEDULER;
	sched->op = s->io.sched->op;
	sched->drv = &s->sched;
	return true;
}

bool driver__event(struct driver *d, const struct raw_nv *raw, const struct fnset *fns,
		   struct driver_scratch *s, struct trace_event *ev, struct trace_event *sched)
{
	static const char *const ops[] = {
		[CT_NV_IOCTL] = "ioctl", [CT_NV_MMAP] = "mmap", [CT_NV_OPEN] = "open",
		[CT_NV_CLOSE] = "close", [CT_NV_POLL] = "poll",
	};
	const struct ct_nv *rec = raw->nv;
	const struct api_fn *fn = raw->call_id ? fnset__fn(fns, rec->func_id) : NULL;
	bool is_ioctl = rec->op == CT_NV_IOCTL;

	name_device(rec, s->device, sizeof(s->device));
	s->info = (struct driver_info){
		.device = s->device,
		.call_id = raw->call_id,
		.call = fn ? fn->name : NULL,
		.cmd = rec->cmd,
		.fd = rec->fd,
		.ret = rec->ret,
		.address = rec->op == CT_NV_MMAP ? rec->ret : 0,
		.length = rec->op == CT_NV_MMAP ? rec->arg : 0,
	};
	ev->kind = EVENT_DRIVER;
	ev->type = TYPE_KERNEL;
	ev->op = ops[rec->op];
	ev->name = ev->op;
	ev->unfinished = rec->rec.flags & CT_CALL_F_UNFINISHED;
	ev->drv = &s->info;
	if (is_ioctl) {
		decode(d, raw, &s->io);
		s->info.io = &s->io;
		s->info.object_class = class_of(d, &s->io);
		ev->name = ioctl_name(d, &s->io, s->name, sizeof(s->name));
	}
	ev->is_error = driver_failed(&s->info);
	learn(d, rec, is_ioctl ? &s->io : NULL);
	return is_ioctl && s->io.sched && fill_sched(d, raw, s, ev, sched);
}

/* UVM_MAKE_RESIDENT_CAUSE_*: the same order in 515 to 595. */
const char *driver_uvm_cause(uint32_t cause)
{
	static const char *const names[] = {
		"replayable fault",
		"non-replayable fault",
		"access counter",
		"prefetch",
		"eviction",
		"tools",
		"migrate call",
		"set range group",
		"hint",
	};

	return cause < sizeof(names) / sizeof(names[0]) ? names[cause] : NULL;
}
