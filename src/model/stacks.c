/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stacks.h"

#include "modules.h"
#include "util/quota.h"

#include <stdlib.h>
#include <string.h>

#include "ct_record.h"

#include <uthash.h>

struct frame_row {
	uint64_t ip;
	struct stack_frame frame;
	char *symbol;
	UT_hash_handle hh;
};

struct stack_row {
	UT_hash_handle hh;
	uint64_t ips[CT_STACK_MAX]; /* the key; those that there are */
	struct stack stack;	    /* last: frames follow */
};

struct stacks {
	struct module_files *files;
	uint64_t last_id;
	struct quotas *quotas;
};

struct proc_stacks {
	struct modules *modules;
	struct stack_row *stacks;
	struct frame_row *frames;
	struct quota *quota; /* of bytes */
	struct quota_share share;
};

struct stacks *stacks__new(struct quotas *q, enum ct_hide hide)
{
	struct stacks *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->quotas = q;
	s->files = module_files__new(q, hide);
	if (!s->files) {
		free(s);
		return NULL;
	}
	return s;
}

void stacks__free(struct stacks *s)
{
	if (!s)
		return;
	module_files__free(s->files);
	free(s);
}

static void drop_all(struct proc_stacks *p)
{
	struct stack_row *stack, *next_stack;
	struct frame_row *frame, *next_frame;

	HASH_ITER (hh, p->stacks, stack, next_stack) {
		HASH_DEL(p->stacks, stack);
		free(stack);
	}
	HASH_ITER (hh, p->frames, frame, next_frame) {
		HASH_DEL(p->frames, frame);
		free(frame->symbol);
		free(frame);
	}
	quota__give(p->quota, &p->share, p->share.used);
}

void proc_stacks__free(struct proc_stacks *p)
{
	if (!p)
		return;
	drop_all(p);
	modules__free(p->modules);
	free(p);
}

static struct proc_stacks *make(struct stacks *s, struct proc_stacks **p, uint32_t pid)
{
	if (*p)
		return *p;
	*p = calloc(1, sizeof(**p));
	if (!*p)
		return NULL;
	(*p)->quota = quotas__get(s->quotas, QUOTA_STACKS);
	(*p)->modules = modules__new(s->files, pid);
	if (!(*p)->modules) {
		free(*p);
		*p = NULL;
	}
	return *p;
}

void proc_stacks__look(struct stacks *s, struct proc_stacks **p, uint32_t pid)
{
	/* Its other threads have nothing new to tell. */
	if (!*p && make(s, p, pid))
		modules__read((*p)->modules);
}

static struct stack_frame *frame_of(struct proc_stacks *p, uint64_t ip, uint64_t ns)
{
	struct frame_row *row;

	HASH_FIND(hh, p->frames, &ip, sizeof(ip), row);
	if (row)
		return &row->frame;
	row = calloc(1, sizeof(*row));
	if (!row)
		return NULL;
	row->ip = row->frame.ip = ip;
	modules__resolve(p->modules, &row->frame, ns, &row->symbol);
	row->frame.symbol = row->symbol;
	/* It is there: the next stack finds that it was too much. */
	quota__force(p->quota, &p->share, sizeof(*row) + (row->symbol ? strlen(row->symbol) : 0));
	HASH_ADD(hh, p->frames, ip, sizeof(row->ip), row);
	return &row->frame;
}

/* Code without frame pointers has anything in their register: what cannot be an address of user
 * space, on x86-64 and on arm64 with 48 bits, and what lies behind it, is noise. */
static unsigned count_addresses(const uint64_t *ips, unsigned cnt)
{
	unsigned n = 0;

	while (n < cnt && n < CT_STACK_MAX && ips[n] >= 4096 && ips[n] >> 48 == 0)
		n++;
	return n;
}

const struct stack *proc_stacks__get(struct stacks *s, struct proc_stacks **ps, uint32_t pid,
				     const uint64_t *ips, unsigned cnt, uint64_t ns, bool *is_new)
{
	struct proc_stacks *p = make(s, ps, pid);
	struct stack_row *row;
	size_t key_sz, size;

	*is_new = false;
	cnt = count_addresses(ips, cnt);
	key_sz = cnt * sizeof(*ips);
	if (!p || !cnt)
		return NULL;
	HASH_FIND(hh, p->stacks, ips, key_sz, row);
	if (row)
		return &row->stack;
	if (HASH_COUNT(p->stacks) >= STACKS_MAX || HASH_COUNT(p->frames) >= FRAMES_MAX)
		drop_all(p);
	size = sizeof(*row) + cnt * sizeof(row->stack.frames[0]);
	if (!quota__take(p->quota, &p->share, size)) {
		drop_all(p);
		if (!quota__take(p->quota, &p->share, size))
			return NULL;
	}
	row = calloc(1, size);
	if (!row)
		return NULL;
	memcpy(row->ips, ips, key_sz);
	for (unsigned i = 0; i < cnt; i++) {
		const struct stack_frame *frame = frame_of(p, ips[i], ns);

		if (!frame) {
			free(row);
			return NULL;
		}
		row->stack.frames[i] = *frame;
	}
	row->stack.id = ++s->last_id;
	row->stack.frame_cnt = cnt;
	HASH_ADD_KEYPTR(hh, p->stacks, row->ips, key_sz, row);
	*is_new = true;
	return &row->stack;
}
