/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Scopes of calls other than functions: NVTX ranges and PyTorch operators. Their lines come at
 * their end. A node of the backward pass is below the forward operator that made it, in whatever
 * thread it runs: autograd numbers both. Each thread counts its own numbers. If two threads have an
 * operator with one number, and the first had no backward pass yet, neither is used.
 */
#include "map_priv.h"

static struct map_scope *scope_of(struct map_scope *scopes, uint64_t key)
{
	struct map_scope *s = &scopes[key % MAP_SCOPES];

	return key && s->key == key && !s->is_open ? s : NULL;
}

uint32_t *map_long_of(struct map *m, uint64_t key)
{
	uint32_t i = keys__find(&m->long_keys, key);

	return i == KEYS_NONE ? NULL : &m->long_nodes[i];
}

static bool is_known(struct map *m, struct map_scope *scopes, uint64_t key)
{
	for (unsigned i = 0; key && i < MAP_DEPTH; i++) {
		struct map_scope *s = scope_of(scopes, key);

		if (!s)
			return scopes == m->scopes && map_long_of(m, key);
		key = s->parent;
	}
	return true;
}

/* --- ranges --- */

/* The node of a range that has not ended yet; its name and place are set at its end. */
static uint32_t long_node(struct map *m, uint32_t root, uint64_t key, const char *text)
{
	uint32_t *at = map_long_of(m, key), i, node;

	if (at)
		return *at;
	/* Number of all ranges that are or were open; beyond the limit they are not distinguished.
	 */
	if (m->long_keys.cnt >= MAP_LONG) {
		m->early++;
		return root;
	}
	node = map_node_of(m, root, MAP_RANGE, NULL, (const char *)(uintptr_t)key, 0);
	i = node == MAP_NONE ? KEYS_NONE : keys__add(&m->long_keys, key, MAP_LONG, MEMLIMIT_MAP);
	if (i == KEYS_NONE)
		return root;
	m->nodes[node].name = text;
	m->nodes[node].file = NULL;
	return m->long_nodes[i] = node;
}

uint32_t map_range_node(struct map *m, uint32_t root, uint64_t key, const char *text)
{
	const char *names[MAP_DEPTH];
	unsigned cnt = 0;

	while (key && cnt < MAP_DEPTH) {
		struct map_scope *s = scope_of(m->scopes, key);

		if (!s) {
			root = long_node(m, root, key, cnt ? NULL : text);
			break;
		}
		names[cnt++] = s->name;
		key = s->parent;
	}
	while (cnt--)
		root = map_node_of(m, root, MAP_RANGE, names[cnt], NULL, 0);
	return root;
}

/* --- operators --- */

static struct map_forward *forward_at(struct map *m, uint64_t seq)
{
	return &m->forwards[seq % MAP_SCOPES];
}

/* The forward operator of this backward operator; NULL: not known. */
static struct map_forward *forward_of(struct map *m, const struct map_scope *s)
{
	struct map_forward *f = forward_at(m, s->seq);

	return s->is_backward && s->seq && f->seq == s->seq ? f : NULL;
}

/* The forward operator of the innermost enclosing backward operator that has calls pending, or a
 * place. */
static struct map_forward *forward_around(struct map *m, uint64_t op, bool is_pending)
{
	struct map_scope *s = scope_of(m->op_scopes, op);

	for (unsigned i = 0; s && i < MAP_DEPTH; i++) {
		struct map_forward *f = forward_of(m, s);

		if (f && (is_pending ? f->is_pending : f->node != MAP_NONE))
			return f;
		s = scope_of(m->op_scopes, s->parent);
	}
	return NULL;
}

const struct map_forward *map_forward_of(struct map *m, const struct map_pending *h)
{
	return forward_around(m, h->op, false);
}

uint32_t map_forward_ahead(struct map *m, const struct map_pending *h)
{
	const struct map_forward *f = forward_around(m, h->op, true);

	return f ? f->thread : MAP_NONE;
}

bool map_scopes_known(struct map *m, const struct map_pending *h)
{
	return is_known(m, m->scopes, h->range) && is_known(m, m->op_scopes, h->op) &&
	       map_forward_ahead(m, h) == MAP_NONE;
}

/* Sets the node of a forward operator. If only some calls have frames, those without are
 * ignored. */
static void note_forward(struct map *m, const struct map_thread *t, const struct map_scope *s,
			 uint32_t node, bool has_path)
{
	struct map_forward *f = forward_at(m, s->seq);

	if (!s->seq || s->is_backward || f->seq != s->seq || f->thread == MAP_NONE ||
	    &m->threads[f->thread] != t)
		return;
	f->is_pending = false;
	if (has_path || !t->python || f->node == MAP_NONE)
		f->node = node;
}

uint32_t map_operator_node(struct map *m, const struct map_thread *t, uint32_t node,
			   const struct map_forward *of, const struct map_pending *h)
{
	struct map_scope in[MAP_DEPTH];
	uint64_t key = h->op;
	unsigned cnt = 0;

	while (key && cnt < MAP_DEPTH) {
		const struct map_scope *s = scope_of(m->op_scopes, key);
		struct map_forward *f;

		if (!s && cnt)
			break;
		in[cnt++] = s ? *s : (struct map_scope){.name = h->op_name};
		f = s ? forward_of(m, s) : NULL;
		key = s ? s->parent : 0;
		if (f)
			f->is_used = true;
		if (f && f == of)
			break;
	}
	while (cnt--) {
		node = map_node_of(m, node, in[cnt].is_backward ? MAP_BACKWARD : MAP_OPERATOR,
				   in[cnt].name, NULL, 0);
		note_forward(m, t, &in[cnt], node, h->path);
	}
	return node;
}

void map_operator_calls(struct map *m, uint64_t op)
{
	struct map_scope *s = &m->op_scopes[op % MAP_SCOPES];

	if (op && s->key != op)
		*s = (struct map_scope){.key = op, .is_open = true};
}

/* Operators of several threads may have the same number: then the backward pass is ambiguous. */
static void begin_forward(struct map *m, uint64_t seq, uint32_t thread)
{
	struct map_forward *f = forward_at(m, seq);
	bool is_others = f->seq == seq && f->thread != thread && !f->is_used;

	*f = (struct map_forward){.seq = seq,
				  .node = MAP_NONE,
				  .thread = is_others ? MAP_NONE : thread,
				  .is_pending = !is_others};
}

void map_operator_ended(struct map *m, const struct trace_event *ev, uint32_t thread)
{
	uint64_t key = map_key(ev->pid, ev->torch_op.id);
	struct map_scope *s = &m->op_scopes[key % MAP_SCOPES];
	bool has_calls = s->key == key && s->is_open;

	*s = (struct map_scope){.key = key,
				.parent = map_key(ev->pid, ev->torch_op.parent),
				.name = ev->name,
				.is_backward = ev->op[0] == 'b'};
	if (ev->torch_op.seq.known)
		s->seq = map_key(ev->pid, ev->torch_op.seq.v + 1);
	if (!has_calls)
		return;
	if (s->seq && !s->is_backward && thread != MAP_NONE)
		begin_forward(m, s->seq, thread);
	map_operator_calls(m, s->parent);
}
