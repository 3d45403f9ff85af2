/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages of the driver: which failure they belong to, what caused it, and the address. */
#include "failure_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const xid_blame_name[] = {"program", "hardware", "driver", "follows", "unknown"};

static const struct {
	uint32_t number;
	enum xid_blame blame;
	const char *advice;
} rows[] = {
#define XID(number, blame, advice) {number, BLAME_##blame, advice},
#include "xids.def"
};

enum xid_blame xid_blame(uint32_t number)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].number == number)
			return rows[i].blame;
	return BLAME_UNKNOWN;
}

const char *xid_advice(uint32_t number)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].number == number)
			return rows[i].advice;
	return NULL;
}

/* "0x7f05_5e400000": the driver separates the upper and lower half. */
static bool parse_address(const char *p, uint64_t *address)
{
	uint64_t v = 0;
	unsigned digits = 0;

	for (; *p; p++) {
		unsigned d = *p >= '0' && *p <= '9'   ? *p - '0'
			     : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10
			     : *p >= 'A' && *p <= 'F' ? *p - 'A' + 10
						      : 16;

		if (*p == '_')
			continue;
		if (d == 16)
			break;
		if (digits++ == 16)
			return false;
		v = v << 4 | d;
	}
	*address = v;
	return digits;
}

/* The number after "pid=", which a blank, a comma or a quote may precede. */
uint32_t xid_pid(const char *message)
{
	const char *p = message ? strstr(message, "pid=") : NULL;
	unsigned long v;
	char *end;

	if (!p)
		return 0;
	p += strlen("pid=");
	p += *p == '\'' || *p == '"';
	v = strtoul(p, &end, 10);
	return end == p || v > UINT32_MAX ? 0 : v;
}

void xid_parse(struct fail_xid *x, const char *message)
{
	const char *p;

	if (!message)
		return;
	x->pid = xid_pid(message);
	p = strstr(message, "faulted @ 0x");
	if (p)
		x->has_address = parse_address(p + strlen("faulted @ 0x"), &x->address);
	if (strstr(message, "ACCESS_TYPE_VIRT_WRITE") || strstr(message, "ACCESS_TYPE_WRITE"))
		strcpy(x->access, "write");
	else if (strstr(message, "ACCESS_TYPE_VIRT_READ") || strstr(message, "ACCESS_TYPE_READ"))
		strcpy(x->access, "read");
	else if (strstr(message, "ACCESS_TYPE_VIRT_ATOMIC") ||
		 strstr(message, "ACCESS_TYPE_ATOMIC"))
		strcpy(x->access, "atomic access");
}

static bool is_near(const struct fail_xid *x, const struct fail_case *c)
{
	return x->at_ns + XID_NEAR_NS >= c->at_ns && x->at_ns <= c->end_ns + XID_NEAR_NS;
}

static bool knows_process(const struct failure *f, uint32_t pid)
{
	for (unsigned i = 0; i < f->proc_keys.cnt; i++)
		if (f->procs[i].pid == pid)
			return true;
	return false;
}

static unsigned submitters(const struct failure *f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->proc_keys.cnt; i++)
		n += f->procs[i].work.number > 0;
	return n;
}

/* A message about a process that is not in the trace belongs to another program. An address is of
 * one process: without its number, there must be only one that uses the GPU. */
static bool belongs(const struct failure *f, const struct fail_xid *x, const struct fail_case *c)
{
	if (!is_near(x, c))
		return false;
	if (x->pid)
		return x->pid == c->pid;
	return !x->has_address || submitters(f) <= 1;
}

/* If there are several messages, that of the page fault has the address; the others follow from it.
 */
static bool says_more(const struct fail_xid *x, const struct fail_xid *than)
{
	if (x->has_address != than->has_address)
		return x->has_address;
	return xid_blame(than->number) == BLAME_OTHER && xid_blame(x->number) != BLAME_OTHER;
}

void xid_join(struct failure *f, struct fail_case *c)
{
	struct fail_xid *best = NULL;

	for (unsigned i = 0; i < f->xid_cnt; i++) {
		struct fail_xid *x = &f->xids[i];

		if (!belongs(f, x, c))
			continue;
		x->used = true;
		if (!best || says_more(x, best))
			best = x;
	}
	if (!best || (c->has_xid && !says_more(best, &c->xid)))
		return;
	c->xid = *best;
	c->has_xid = true;
	if (best->has_address)
		address_find(f, c);
}

void xid_event(struct failure *f, const struct trace_event *ev)
{
	struct fail_xid *x = &f->xids[f->xid_cnt];

	if (f->xid_cnt == XIDS_MAX)
		return;
	f->xid_cnt++;
	*x = (struct fail_xid){.number = ev->xid.xid, .at_ns = ev->start_ns, .gpu = ev->xid.gpu};
	xid_parse(x, ev->xid.message);
	for (unsigned i = 0; i < f->cnt; i++)
		if (f->cases[i].kind == CASE_FAULT && belongs(f, x, &f->cases[i]))
			xid_join(f, &f->cases[i]);
}

void xid_finish(struct failure *f)
{
	for (unsigned i = 0; i < f->xid_cnt; i++) {
		struct fail_xid *x = &f->xids[i];
		struct trace_event ev = {
			.kind = EVENT_XID, .start_ns = x->at_ns, .end_ns = x->at_ns};
		struct fail_case *c;
		bool known = false;

		if (x->used || (x->pid && !knows_process(f, x->pid)))
			continue;
		for (unsigned k = 0; k < f->cnt; k++) {
			c = &f->cases[k];
			if (c->kind == CASE_XID && c->xid.number == x->number && c->pid == x->pid) {
				c->cnt++;
				known = true;
			}
		}
		c = known ? NULL : fail_case_add(f, CASE_XID, &ev);
		if (!c)
			continue;
		c->pid = x->pid;
		c->xid = *x;
		c->has_xid = true;
		if (x->has_address && x->pid)
			address_find(f, c);
	}
}
