/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "limits.h"

#include <inttypes.h>
#include <stdlib.h>

#include "log.h"

/* A PyTorch process has some 10,000 kernels (names of 1 KiB), 5,000 ranges, 100 threads. The sizes
 * of rows are measured by tests/unit/test_limits.c for tables that can be filled there. */
static const struct {
	const char *name, *text, *full;
	uint64_t max, share;
	unsigned row_sz;
	enum { ALWAYS, WITH_STACKS, WITH_DRIVER, IF_ASKED } on;
} tables[LIMIT_TABLE_CNT] = {
#define KERNEL_LIMIT(ID, ...)
#define TRACE_LIMIT(ID, name, max, share, row_sz, on, text, full, ...)                             \
	[QUOTA_##ID] = {name, text, full, max, share, row_sz, on},
#define REPORT_LIMIT(ID, name, most, text, ...) [MEMLIMIT_##ID] = {name, text, .max = most},
#include "limits.def"
};

const char *limit_name(enum limit_table t)
{
	return tables[t].name;
}

const char *limit_text(enum limit_table t)
{
	return tables[t].text;
}

void quotas__init(struct quotas *q, bool stacks, bool driver)
{
	for (int i = 0; i < QUOTA_CNT; i++) {
		q->of[i] =
			(struct quota){.table = i, .max = tables[i].max, .share = tables[i].share};
		if ((tables[i].on == WITH_STACKS && !stacks) ||
		    (tables[i].on == WITH_DRIVER && !driver) || tables[i].on == IF_ASKED)
			q->of[i].max = 0;
	}
}

void quotas__with_stacks(struct quotas *q)
{
	for (int i = 0; i < QUOTA_CNT; i++)
		if (tables[i].on == WITH_STACKS)
			q->of[i].max = tables[i].max;
}

void quotas__with(struct quotas *q, enum limit_table t)
{
	q->of[t].max = tables[t].max;
}

uint64_t quota_row_sz(enum limit_table t)
{
	return tables[t].row_sz;
}

uint64_t quotas__max_bytes(const struct quotas *q)
{
	uint64_t sum = 0;

	for (int i = 0; i < QUOTA_CNT; i++)
		sum += q->of[i].max * tables[i].row_sz;
	return sum;
}

void quota__full(struct quota *q)
{
	if (!q || q->full_cnt++)
		return;
	warn("too many %s (limit %" PRIu64 ", %" PRIu64
	     " per owner): %s; reported once, then only counted",
	     tables[q->table].text, q->max, q->share, tables[q->table].full);
}

void quota__force(struct quota *q, struct quota_share *s, uint64_t n)
{
	if (!q)
		return;
	q->used += n;
	if (s)
		s->used += n;
}

bool quota__take(struct quota *q, struct quota_share *s, uint64_t n)
{
	uint64_t left = q ? ct_limit_left(q->max, q->used) : 0;

	if (q && (s ? !ct_limit_fits(s->used, n, q->share, left) : n > left)) {
		quota__full(q);
		return false;
	}
	quota__force(q, s, n);
	return true;
}

void quota__give(struct quota *q, struct quota_share *s, uint64_t n)
{
	if (!q)
		return;
	q->used -= n;
	if (s)
		s->used -= n;
}

struct quota_owner {
	struct hash_link link;
	uint32_t id;
	struct quota_share share;
};
HASH_TABLE_KEY(quota_owner, id);

static void drop_owner(struct quota_owners *os, struct quota_owner *o)
{
	if (o->share.used)
		return;
	quota_owner_table__del(&os->by_id, o);
	free(o);
}

bool quota_owners__take(struct quota_owners *os, struct quota *q, uint32_t id, uint64_t n)
{
	struct quota_owner *o = quota_owner_table__find(&os->by_id, &id);
	bool taken;

	o = o ?: quota_owner_table__new(&os->by_id, &id);
	if (!o)
		return false;
	taken = quota__take(q, &o->share, n);
	drop_owner(os, o);
	return taken;
}

void quota_owners__give(struct quota_owners *os, struct quota *q, uint32_t id, uint64_t n)
{
	struct quota_owner *o = quota_owner_table__find(&os->by_id, &id);

	quota__give(q, o ? &o->share : NULL, n);
	if (o)
		drop_owner(os, o);
}

uint64_t quota_owners__used(const struct quota_owners *os, uint32_t id)
{
	const struct quota_owner *o = quota_owner_table__find(&os->by_id, &id);

	return o ? o->share.used : 0;
}
