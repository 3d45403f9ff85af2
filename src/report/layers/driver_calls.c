/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests to the kernel driver (--kernel): ioctls by command and by CUDA call, commands for the
 * GPU's scheduler, errors of the GPU, managed memory.
 */
#include "driver_priv.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

static void *driver__new(struct report *r)
{
	struct driver_calls *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->r = r;
	d->step_ns = 1000000000;
	return d;
}

static void rows__free(struct dr_rows *rows)
{
	keys__free(&rows->keys);
	memlimit_free(rows->rows);
}

static void driver__free(void *a)
{
	struct driver_calls *d = a;

	rows__free(&d->commands);
	rows__free(&d->calls);
	rows__free(&d->pairs);
	rows__free(&d->sched);
	rows__free(&d->xids);
	keys__free(&d->call_ids);
	free(d);
}

static struct dr_row *row_get(struct dr_rows *rows, const char *name, const char *other)
{
	uint64_t key = pair_key((uintptr_t)other, (uintptr_t)name);
	uint32_t i = keys_row(&rows->keys, key, MEMLIMIT_COMMANDS, rows->rows, rows->cap);

	if (i == KEYS_NONE)
		return NULL;
	rows->rows[i].name = name;
	rows->rows[i].other = other;
	return &rows->rows[i];
}

static void row_add(struct dr_row *row, const struct trace_event *ev, uint64_t ns)
{
	if (!row)
		return;
	if (!row->cnt++)
		row->first_ns = ev->start_ns;
	row->total_ns += ns;
	row->max_ns = ns > row->max_ns ? ns : row->max_ns;
	row->error_cnt += ev->is_error;
}

/* In a long trace the slots are longer than a second. */
static void count_second(struct driver_calls *d, const struct trace_event *ev)
{
	uint64_t at = ev->start_ns > d->r->base_ns ? ev->start_ns - d->r->base_ns : 0;

	while (at / d->step_ns >= DR_SECONDS) {
		for (unsigned i = 0; i < DR_SECONDS / 2; i++)
			d->seconds[i] = d->seconds[2 * i] + d->seconds[2 * i + 1];
		memset(d->seconds + DR_SECONDS / 2, 0, sizeof(d->seconds) / 2);
		d->step_ns *= 2;
		d->second_cnt = (d->second_cnt + 1) / 2;
	}
	at /= d->step_ns;
	d->seconds[at]++;
	if (at >= d->second_cnt)
		d->second_cnt = (unsigned)at + 1;
}

static void on_ioctl(struct driver_calls *d, const struct trace_event *ev)
{
	uint64_t ns = ev->unfinished ? 0 : event_duration_ns(ev);
	const struct driver_info *drv = ev->drv;
	struct dr_row *row;
	uint32_t ids;

	d->ioctl_cnt++;
	d->total_ns += ns;
	d->error_cnt += ev->is_error;
	row_add(row_get(&d->commands, ev->name, drv->device), ev, ns);
	count_second(d, ev);
	if (!drv->call_id) {
		d->outside_cnt++;
		return;
	}
	row = row_get(&d->calls, drv->call, NULL);
	row_add(row, ev, ns);
	ids = d->call_ids.cnt;
	keys_get(&d->call_ids, pair_key(drv->call_id, ev->pid), DR_CALLS_MAX, MEMLIMIT_COMMANDS);
	if (row)
		row->call_cnt += d->call_ids.cnt > ids;
	row_add(row_get(&d->pairs, ev->name, drv->call), ev, ns);
}

static void on_uvm(struct driver_calls *d, const struct trace_event *ev)
{
	if (!strcmp(ev->op, "fault"))
		d->fault_cnt++;
	else if (!strcmp(ev->op, "migration"))
		d->migration_cnt++;
	else
		d->eviction_cnt++;
	d->uvm_bytes += ev->has & HAS_SIZE ? ev->size : 0;
}

static void driver_event(void *a, const struct trace_event *ev)
{
	struct driver_calls *d = a;
	struct dr_row *row;

	switch (ev->kind) {
	case EVENT_DRIVER:
		d->is_seen = true;
		if (ev->drv && !strcmp(ev->op, "ioctl"))
			on_ioctl(d, ev);
		break;
	case EVENT_SCHED:
		d->is_seen = true;
		d->sched_cnt++;
		if (ev->start_ns > d->sched_last_ns)
			d->sched_last_ns = ev->start_ns;
		row = row_get(&d->sched, ev->op, ev->name);
		row_add(row, ev, 0);
		if (row && ev->drv && ev->drv->sched)
			row->text = ev->drv->sched->text;
		break;
	case EVENT_XID:
		d->xid_cnt++;
		row = row_get(&d->xids, ev->xid.gpu, (const char *)(uintptr_t)ev->xid.xid);
		row_add(row, ev, 0);
		break;
	case EVENT_UVM:
		on_uvm(d, ev);
		break;
	default:
		break;
	}
}

/* Longest time first, then most calls, then the earliest. */
static int row_by_time(const void *a, const void *b)
{
	const struct dr_row *x = a, *y = b;

	return DESCENDING(x->total_ns, y->total_ns) ?: DESCENDING(x->cnt, y->cnt)
	       ?: ASCENDING(x->first_ns, y->first_ns);
}

static void driver_finish(void *a)
{
	struct driver_calls *d = a;
	struct dr_rows *all[] = {&d->commands, &d->calls, &d->pairs, &d->sched, &d->xids};

	/* the keys no longer match the sorted rows, but nothing uses them */
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]->keys.cnt)
			qsort(all[i]->rows, all[i]->keys.cnt, sizeof(struct dr_row), row_by_time);
}

static unsigned top_of(struct driver_pair *to, unsigned max, const struct dr_rows *rows)
{
	unsigned n = 0;

	for (; n < max && n < rows->keys.cnt; n++)
		to[n] = (struct driver_pair){rows->rows[n].name, rows->rows[n].cnt,
					     rows->rows[n].total_ns};
	return n;
}

void driver_result(const struct report *r, struct driver_result *res)
{
	const struct driver_calls *d = r->an[AN_DRIVER];

	memset(res, 0, sizeof(*res));
	if (!d)
		return;
	res->traced = d->is_seen || r->info->kernel_probe;
	res->ioctl_cnt = d->ioctl_cnt;
	res->total_ns = d->total_ns;
	res->error_cnt = d->error_cnt;
	res->outside_cnt = d->outside_cnt;
	res->command_cnt = d->commands.keys.cnt;
	res->sched_total = d->sched_cnt;
	res->sched_last_ns = d->sched_last_ns;
	res->xid_cnt = d->xid_cnt;
	res->call_cnt = top_of(res->calls, 4, &d->calls);
	res->top_cnt = top_of(res->commands, 4, &d->commands);
	res->sched_cnt = top_of(res->sched, 8, &d->sched);
}

bool driver_xid(const struct report *r, unsigned i, struct driver_xid *res)
{
	const struct driver_calls *d = r->an[AN_DRIVER];
	const struct dr_row *row;

	if (!d || i >= d->xids.keys.cnt)
		return false;
	row = &d->xids.rows[i];
	*res = (struct driver_xid){(uintptr_t)row->other, row->name,
				   nv_xid_text((uintptr_t)row->other), row->cnt, row->first_ns};
	return true;
}

const struct analysis_ops driver_ops = {
	.name = "driver",
	.new = driver__new,
	.event = driver_event,
	.finish = driver_finish,
	.section = &driver_table,
	.print = driver_print,
	.free = driver__free,
};
