/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --kernel and --sched: counts of driver events. */
#include "summary_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/nv/nv_decode.h"

static struct cmd_stat *cmd_stat(struct driver_stat *d, const char *name)
{
	size_t len = strnlen(name, SUMMARY_NAME_MAX);
	struct cmd_stat *c = cmd_stat_table__find(&d->cmds, name, len);

	if (c)
		return c;
	if (hash_cnt(&d->cmds) >= SUMMARY_CMDS_MAX)
		return &d->other_cmds;
	c = calloc(1, sizeof(*c) + len + 1);
	if (!c)
		return &d->other_cmds;
	memcpy(c + 1, name, len);
	c->name = (const char *)(c + 1);
	if (cmd_stat_table__add(&d->cmds, c, len)) {
		free(c);
		return &d->other_cmds;
	}
	return c;
}

/* Constant text: the status's name, or that of ioctl()'s error. */
static const char *error_name(const struct driver_info *drv)
{
	if (drv->ret < 0)
		return drv->ret >= -CT_MAX_ERRNO ? strerrorname_np((int)-drv->ret) : NULL;
	return drv->io ? drv->io->status_name : NULL;
}

static void keep_slow(struct driver_stat *d, const struct trace_event *ev, uint64_t ns)
{
	unsigned i = d->slow_cnt;
	struct slow_ioctl *slow;

	if (i == SUMMARY_SLOWEST && ns <= d->slowest[i - 1].ns)
		return;
	if (i < SUMMARY_SLOWEST)
		d->slow_cnt++;
	else
		i--;
	for (; i && d->slowest[i - 1].ns < ns; i--)
		d->slowest[i] = d->slowest[i - 1];
	slow = &d->slowest[i];
	*slow = (struct slow_ioctl){.ns = ns, .call = ev->drv->call};
	snprintf(slow->name, sizeof(slow->name), "%s", ev->name);
	if (ev->drv->io && ev->drv->io->class)
		slow->class = ev->drv->io->class->name;
	else
		slow->class = ev->drv->object_class;
}

static void on_ioctl(struct driver_stat *d, const struct trace_event *ev, uint64_t ns)
{
	struct cmd_stat *c = cmd_stat(d, ev->name);

	c->cnt++;
	if (ev->unfinished)
		return;
	d->ioctl_ns += ns;
	c->total_ns += ns;
	if (ns > c->max_ns)
		c->max_ns = ns;
	keep_slow(d, ev, ns);
	if (ev->is_error && !c->error_cnt++)
		c->first_error = error_name(ev->drv);
}

static enum driver_op op_of(const struct trace_event *ev)
{
	static const char *const ops[DRV_OP_CNT] = {"ioctl", "open", "mmap", "close", "poll"};
	unsigned i = 0;

	while (i < DRV_POLL && strcmp(ev->op, ops[i]))
		i++;
	return i;
}

static void on_system_call(struct driver_stat *d, const struct trace_event *ev)
{
	uint64_t ns = event_duration_ns(ev);
	enum driver_op op = op_of(ev);

	d->op_cnt[op]++;
	d->unfinished_cnt += ev->unfinished;
	d->op_errors[op] += ev->is_error && !ev->unfinished;
	if (op != DRV_IOCTL)
		return;
	if (!ev->drv->call_id) {
		d->outside_cnt++;
		d->outside_ns += ev->unfinished ? 0 : ns;
	}
	on_ioctl(d, ev, ns);
}

static void count_op(struct op_stat *ops, unsigned *kinds, const char *op, uint64_t bytes)
{
	unsigned i = 0;

	while (i < *kinds && strcmp(ops[i].op, op))
		i++;
	if (i == *kinds) {
		/* Names come from our own tables, which have fewer. */
		if (i == SUMMARY_OPS_MAX)
			return;
		++*kinds;
		ops[i].op = op;
	}
	ops[i].cnt++;
	ops[i].bytes += bytes;
}

static void on_xid(struct driver_stat *d, const struct trace_event *ev)
{
	unsigned i = 0;

	d->xid_cnt++;
	while (i < d->xid_kinds && d->xids[i].number != ev->xid.xid)
		i++;
	if (i == d->xid_kinds) {
		if (i == SUMMARY_XIDS_MAX)
			return;
		d->xid_kinds++;
		d->xids[i].number = ev->xid.xid;
		snprintf(d->xids[i].gpu, sizeof(d->xids[i].gpu), "%s",
			 ev->xid.gpu ? ev->xid.gpu : "");
		snprintf(d->xids[i].message, sizeof(d->xids[i].message), "%s",
			 ev->xid.message ? ev->xid.message : "");
	}
	d->xids[i].cnt++;
}

void summary_driver_event(struct summary *s, const struct trace_event *ev)
{
	struct driver_stat *d = &s->driver;

	switch (ev->kind) {
	case EVENT_DRIVER:
		on_system_call(d, ev);
		break;
	case EVENT_SCHED:
		count_op(d->sched, &d->sched_kinds, ev->op, 0);
		break;
	case EVENT_UVM:
		count_op(d->uvm, &d->uvm_kinds, ev->op, ev->size);
		break;
	case EVENT_XID:
		on_xid(d, ev);
		break;
	case EVENT_IRQ:
		d->irq_cnt++;
		break;
	default:
		break;
	}
}
