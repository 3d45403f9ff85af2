/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parameters of suspects that lead to the memory of a fault. */
#include "failure_priv.h"

#include <stdio.h>
#include <string.h>

#include "decode/api_values.h"

const char *const work_link_name[] = {"none", "block", "freed", "null"};

/* Returns the start of parameter i in a demangled name, and its length; NULL: unknown. */
static const char *type_of_param(const char *kernel, unsigned i, size_t *len)
{
	const char *end = kernel ? strrchr(kernel, ')') : NULL, *s, *from;
	int depth = 0;

	/* From the end: the first parenthesis may be in a template's argument. */
	for (s = end; s && s > kernel; s--) {
		depth += *s == ')';
		depth -= *s == '(';
		if (!depth)
			break;
	}
	if (!s || s == kernel || *s != '(')
		return NULL;
	for (from = ++s; s <= end; s++) {
		depth += strchr("(<[", *s) && *s;
		if (!depth && (*s == ',' || s == end)) {
			if (!i--) {
				*len = s - from;
				return from;
			}
			from = s + 1;
		}
		depth -= s < end && strchr(")>]", *s) && *s;
	}
	return NULL;
}

static bool is_pointer(const char *kernel, unsigned param)
{
	size_t len;
	const char *type = type_of_param(kernel, param, &len);

	return type && len && type[len - 1] == '*';
}

/* A page of the GPU. At a greater distance the nearest block may be one that the kernel does not
 * use. */
#define NEAR_MAX (2u << 20)

static bool leads_to(const struct fail_memory *m, uint64_t value)
{
	const struct memory_block *b = &m->block.b;
	bool inside = m->state == MEMORY_LIVE || m->state == MEMORY_FREED;
	bool beside = m->state == MEMORY_PAST_END || m->state == MEMORY_BEFORE;

	return (inside || (beside && m->offset < NEAR_MAX)) && b->size_known &&
	       value - b->ptr < b->size;
}

static bool has_address(const struct fail_case *c)
{
	return c->has_xid && c->xid.has_address;
}

static bool wants_null(const struct fail_case *c)
{
	return has_address(c) ? c->mem.state == MEMORY_NULL
			      : c->result == CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* Without an address of the fault, memory that was freed before the launch. */
static bool wants_freed(const struct fail_case *c)
{
	return !has_address(c) && c->result == CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void find_link(const struct fail_case *c, struct work *x)
{
	x->link = LINK_NONE;
	for (unsigned i = 0; i < x->addr_cnt; i++) {
		const struct work_addr *a = &x->addrs[i];
		enum work_link link = LINK_NONE;

		if (has_address(c) && leads_to(&c->mem, a->value))
			link = LINK_BLOCK;
		else if (wants_freed(c) && a->freed_id)
			link = LINK_FREED;
		else if (!a->value && wants_null(c) && is_pointer(x->kernel, a->param))
			link = LINK_NULL;
		/* A null pointer may be an argument that is not used. */
		if (!link || (x->link && link == LINK_NULL))
			continue;
		x->link = link;
		x->link_addr = i;
		if (link != LINK_NULL)
			return;
	}
}

/* Distance of the block of a from the address, and where the address is. */
static uint64_t place_of(const struct work_addr *a, uint64_t addr, enum memory_state *state)
{
	uint64_t end = a->ptr + a->size;

	if (addr - a->ptr < a->size) {
		*state = a->freed_id ? MEMORY_FREED : MEMORY_LIVE;
		return 0;
	}
	*state = addr >= end ? MEMORY_PAST_END : MEMORY_BEFORE;
	return addr >= end ? addr - end : a->ptr - addr;
}

/* A trace that began late does not have each block: the launches have those of their parameters. */
static void find_block(struct fail_case *c)
{
	bool beside = c->mem.state == MEMORY_PAST_END || c->mem.state == MEMORY_BEFORE;
	uint64_t best = beside ? c->mem.offset : NEAR_MAX, distance;
	enum memory_state state;
	bool inside;

	if (!has_address(c) ||
	    (!beside && c->mem.state != MEMORY_UNKNOWN && c->mem.state != MEMORY_NEVER))
		return;
	for (unsigned i = 0; i < c->listed_cnt; i++)
		for (unsigned k = 0; k < c->suspects[i].addr_cnt; k++) {
			const struct work_addr *a = &c->suspects[i].addrs[k];

			if (!a->size)
				continue;
			distance = place_of(a, c->xid.address, &state);
			inside = state == MEMORY_LIVE || state == MEMORY_FREED;
			if (!inside && (distance >= best || a->freed_id))
				continue;
			best = distance;
			c->mem = (struct fail_memory){
				.state = state,
				.offset = inside ? c->xid.address - a->ptr : distance,
				.block = {.b = {.ptr = a->ptr, .size = a->size, .size_known = true},
					  .freed_id = a->freed_id},
			};
			if (inside)
				return;
		}
}

void params_find(struct fail_case *c)
{
	/* Each of those that are not listed might have one, too. */
	bool known = c->suspect_cnt == c->listed_cnt;
	unsigned cnt = 0, at = 0;
	struct work first;

	find_block(c);
	for (unsigned i = 0; i < c->listed_cnt; i++) {
		struct work *x = &c->suspects[i];

		find_link(c, x);
		if (x->link) {
			cnt++;
			at = i;
		}
		known &= x->link || !x->kernel || x->addrs_known;
	}
	c->linked = cnt == 1 && known;
	if (!c->linked)
		return;
	first = c->suspects[at];
	memmove(&c->suspects[1], &c->suspects[0], at * sizeof(first));
	c->suspects[0] = first;
}
