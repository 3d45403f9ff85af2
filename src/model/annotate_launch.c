/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Launches: grid, block, stream, kernel name. */
#include "annotate_priv.h"

#include <string.h>

#include "decode/api_values.h"

/* CUlaunchConfig and CUlaunchAttribute of CUDA 13.0, as in cuda_structs.def. They are C structs
 * here for speed: every launch of a modern program uses them. */
struct launch_config {
	uint32_t grid[3], block[3], shared_mem_sz, pad;
	uint64_t stream, attrs;
	uint32_t attr_cnt;
};
struct launch_attr {
	uint32_t id, pad;
	uint32_t value[16];
};
_Static_assert(sizeof(struct launch_attr) == 72, "CUlaunchAttribute");

static void read_attrs(struct launch_info *l, const struct pointee *c)
{
	struct launch_attr attr;

	for (int off = 0; off + (int)sizeof(attr) <= c->len; off += sizeof(attr)) {
		memcpy(&attr, c->data + off, sizeof(attr));
		if (attr.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			memcpy(l->cluster, attr.value, sizeof(l->cluster));
		else if (attr.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
			l->cooperative = attr.value[0];
	}
}

/* cuLaunchKernelEx(config, f, ...): the config is the first pointee, its attributes are the
 * next. */
static void from_config(struct trace_event *ev)
{
	struct launch_info *l = &ev->launch;
	struct launch_config cfg;

	if (!ev->cap_cnt || ev->caps[0].len < (int)offsetof(struct launch_config, attr_cnt) + 4)
		return;
	memcpy(&cfg, ev->caps[0].data, offsetof(struct launch_config, attr_cnt) + 4);
	memcpy(l->grid, cfg.grid, sizeof(l->grid));
	memcpy(l->block, cfg.block, sizeof(l->block));
	l->shared_mem_sz = cfg.shared_mem_sz;
	l->has_config = true;
	ev->stream = cfg.stream;
	ev->has |= HAS_STREAM;
	if (ev->cap_cnt > 1 && cfg.attr_cnt)
		read_attrs(l, &ev->caps[1]);
}

/* cuLaunchKernel(f, grid x y z, block x y z, shared memory, stream, ...) */
static void from_words(struct trace_event *ev)
{
	struct launch_info *l = &ev->launch;

	if (ev->word_cnt < 8)
		return;
	for (int i = 0; i < 3; i++) {
		l->grid[i] = ev->words[1 + i];
		l->block[i] = ev->words[4 + i];
	}
	l->shared_mem_sz = ev->words[7];
	l->has_config = true;
}

void annotate_launch(const struct annotations *m, struct trace_event *ev, struct proc *p)
{
	const struct handle *h;

	switch (m->fn->op) {
	case OP_LAUNCH:
		from_words(ev);
		break;
	case OP_LAUNCH_COOP:
		from_words(ev);
		ev->launch.cooperative = true;
		break;
	case OP_LAUNCH_EX:
		from_config(ev);
		break;
	case OP_LAUNCH_GRID:
		break;
	default:
		return;
	}
	ev->has |= HAS_LAUNCH;
	if (!event_arg(m, ev, m->func, &ev->launch.func))
		return;
	h = handles__get(&p->handles, ev->launch.func);
	if (h)
		name_kernel(ev, h->name, h->guessed);
}
