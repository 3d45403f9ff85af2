/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "driver.h"

#include "ct_nv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A PyTorch process holds some 500 objects; a full table refuses and counts. */
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

static enum nv_dev decode_dev(uint8_t dev)
{
	static const uint8_t devs[] = {
		[CT_NV_NONE] = NV_DEV_OTHER,  [CT_NV_CTL] = NV_DEV_CTL,
		[CT_NV_GPU] = NV_DEV_GPU,     [CT_NV_MODESET] = NV_DEV_MODESET,
		[CT_NV_UVM] = NV_DEV_UVM,     [CT_NV_UVM_TOOLS] = NV_DEV_UVM_TOOLS,
		[CT_NV_OTHER] = NV_DEV_OTHER,
	};

	return dev < sizeof(devs) ? devs[dev] : NV_DEV_OTHER;
}

static void name_device(const struct ct_nv *rec, char *buf, size_t size)
{
	static const char *const names[] = {
		[CT_NV_CTL] = "nvidiactl",	[CT_NV_MODESET] = "nvidia-modeset",
		[CT_NV_UVM] = "nvidia-uvm",	[CT_NV_UVM_TOOLS] = "nvidia-uvm-tools",
		[CT_NV_OTHER] = "nvidia-other",
	};

	if (rec->dev == CT_NV_GPU)
		snprintf(buf, size, "nvidia%u", rec->minor);
	else
		snprintf(buf, size, "%s",
			 rec->dev < sizeof(names) / sizeof(names[0]) && names[rec->dev]
				 ? names[rec->dev]
				 : "nvidia-other");
}

static void add_range(struct nv_block *b, const struct raw_nv *raw, unsigned i)
{
	for (int r = 0; r < NV_RANGES; r++) {
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
		.dev = decode_dev(rec->dev),
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

/* What it is called: the control, the escape, or its number. */
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

/* Counts those that are not known. */
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
		       const struct event *ev, struct event *sched)
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
		   struct driver_scratch *s, struct event *ev, struct event *sched)
{
	static const char *const ops[] = {
		[CT_NV_IOCTL] = "ioctl", [CT_NV_MMAP] = "mmap", [CT_NV_OPEN] = "open",
		[CT_NV_CLOSE] = "close", [CT_NV_POLL] = "poll",
	};
	const struct ct_nv *rec = raw->nv;
	const struct cuda_fn *fn = rec->call_id ? fnset__fn(fns, rec->func_id) : NULL;
	bool is_ioctl = rec->op == CT_NV_IOCTL;

	name_device(rec, s->device, sizeof(s->device));
	s->info = (struct driver_info){
		.device = s->device,
		.call_id = rec->call_id,
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
		ev->is_error = rec->ret < 0 ||
			       (s->io.f[NV_R_STATUS].at == NV_AT_EXIT && s->io.f[NV_R_STATUS].v);
	} else {
		ev->is_error = rec->ret < 0 && rec->ret >= -4095;
	}
	learn(d, rec, is_ioctl ? &s->io : NULL);
	return is_ioctl && s->io.sched && fill_sched(d, raw, s, ev, sched);
}

static void visit_handle(struct visitor *v, const char *name, const struct nv_ioctl *io,
			 enum nv_role role)
{
	if (nv_has(io, role))
		v->ops->hex(v, name, io->f[role].v);
}

static void visit_status(struct visitor *v, const struct nv_ioctl *io)
{
	const struct nv_value *st = &io->f[NV_R_STATUS];

	if (st->at == NV_AT_EXIT && io->status_name)
		v->ops->sym(v, "status", io->status_name);
	else if (st->at == NV_AT_EXIT)
		v->ops->hex(v, "status", st->v);
	else if (st->at == NV_AT_UNREADABLE)
		v->ops->none(v, "status");
}

static void visit_ioctl(struct visitor *v, const struct nv_ioctl *io)
{
	bool uvm = io->dev == NV_DEV_UVM || io->dev == NV_DEV_UVM_TOOLS;

	if (io->name)
		v->ops->sym(v, uvm ? "uvm" : "escape", io->name);
	if (io->control)
		v->ops->sym(v, "control", io->control->name);
	visit_handle(v, "control_cmd", io, NV_R_CONTROL);
	if (io->control && io->control->params)
		v->ops->sym(v, "params", io->control->params);
	else if (io->params)
		v->ops->sym(v, "params", io->params);
	if (nv_has(io, NV_R_PARAMS_SIZE))
		v->ops->u64(v, "params_size", io->f[NV_R_PARAMS_SIZE].v);
	if (io->class)
		v->ops->sym(v, "class", io->class->name);
	else
		visit_handle(v, "class", io, NV_R_CLASS);
	visit_handle(v, "client", io, NV_R_CLIENT);
	visit_handle(v, "parent", io, NV_R_PARENT);
	visit_handle(v, "object", io, NV_R_OBJECT);
	visit_handle(v, "new", io, NV_R_NEW);
	if (io->function)
		v->ops->sym(v, "function", io->function);
	visit_handle(v, "address", io, NV_R_ADDRESS);
	if (nv_has(io, NV_R_LENGTH))
		v->ops->u64(v, "length", io->f[NV_R_LENGTH].v);
	if (nv_has(io, NV_R_FD))
		v->ops->i64(v, "target_fd", (int64_t)io->f[NV_R_FD].v);
	if (io->driver_version[0])
		v->ops->text(v, "version", io->driver_version, strlen(io->driver_version), false);
	if (io->notes & NV_NOTE_XFER)
		visit_bool(v, "xfer", true);
}

static void visit_call(struct visitor *v, const struct driver_info *d)
{
	if (!d->call_id)
		return;
	v->ops->u64(v, "call_id", d->call_id);
	if (d->call)
		v->ops->text(v, "call", d->call, strlen(d->call), false);
}

static void visit_driver(const struct event *ev, struct visitor *v)
{
	const struct driver_info *d = ev->drv;

	v->ops->sym(v, "device", d->device);
	if (d->fd >= 0)
		v->ops->i64(v, "fd", d->fd);
	if (d->io) {
		v->ops->hex(v, "cmd", d->cmd);
		visit_ioctl(v, d->io);
		if (d->object_class)
			v->ops->sym(v, "object_class", d->object_class);
		visit_status(v, d->io);
	}
	if (d->length) {
		v->ops->u64(v, "size", d->length);
		if (!ev->is_error && !ev->unfinished)
			v->ops->hex(v, "ptr", d->address);
	}
	if (!ev->unfinished && !(d->length && !ev->is_error))
		v->ops->i64(v, "result", d->ret);
	visit_call(v, d);
}

static void visit_sched(const struct event *ev, struct visitor *v)
{
	const struct driver_info *d = ev->drv;

	v->ops->sym(v, "device", d->device);
	v->ops->sym(v, "meaning", d->sched->text);
	if (d->sched_values)
		v->ops->text(v, "values", d->sched_values, strlen(d->sched_values), false);
	visit_handle(v, "client", d->io, NV_R_CLIENT);
	visit_handle(v, "object", d->io, NV_R_OBJECT);
	if (d->object_class)
		v->ops->sym(v, "object_class", d->object_class);
	visit_status(v, d->io);
	/* No status then, but it must be seen that nothing came of it. */
	if (ev->unfinished)
		visit_bool(v, "unfinished", true);
	else if (d->ret < 0)
		v->ops->i64(v, "result", d->ret);
	visit_call(v, d);
}

static void visit_processor(struct visitor *v, const char *name, uint32_t id)
{
	char text[16];

	snprintf(text, sizeof(text), id ? "GPU%u" : "CPU", id - 1);
	v->ops->text(v, name, text, strlen(text), false);
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

static void visit_uvm(const struct event *ev, struct visitor *v)
{
	if (ev->has & HAS_PTR)
		v->ops->hex(v, "ptr", ev->ptr);
	if (!strcmp(ev->op, "fault")) {
		visit_processor(v, "processor", ev->uvm_dst);
		if (!ev->uvm_dst)
			visit_bool(v, "write", ev->uvm_write);
		return;
	}
	if (ev->has & HAS_SIZE)
		v->ops->u64(v, "size", ev->size);
	visit_processor(v, "from", ev->uvm_src);
	visit_processor(v, "to", ev->uvm_dst);
	if (driver_uvm_cause(ev->uvm_cause))
		v->ops->sym(v, "cause", driver_uvm_cause(ev->uvm_cause));
	else
		v->ops->u64(v, "cause", ev->uvm_cause);
}

void driver_visit_fields(const struct event *ev, struct visitor *v)
{
	switch (ev->kind) {
	case EVENT_DRIVER:
		visit_driver(ev, v);
		break;
	case EVENT_SCHED:
		visit_sched(ev, v);
		break;
	case EVENT_XID:
		v->ops->u64(v, "xid", ev->number);
		if (ev->path)
			v->ops->text(v, "gpu", ev->path, strlen(ev->path), false);
		if (nv_xid_text(ev->number))
			v->ops->sym(v, "meaning", nv_xid_text(ev->number));
		if (ev->note)
			v->ops->text(v, "message", ev->note, strlen(ev->note), false);
		break;
	case EVENT_UVM:
		visit_uvm(ev, v);
		break;
	case EVENT_IRQ:
		v->ops->u64(v, "irq", ev->number);
		v->ops->u64(v, "cpu", ev->cpu);
		break;
	default:
		break;
	}
}
