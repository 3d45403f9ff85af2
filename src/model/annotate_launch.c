/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Launches: grid, block, stream, kernel name, parameters. */
#include "annotate_priv.h"
#include "params.h"

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

/* Looks for memory at the addresses in the parameters. */
struct param_join {
	struct launch_params *params;
	const struct mem *mem;
};

/* Smaller values are no addresses of memory, nor are those above the address space. */
#define ADDRESS_MIN 0x10000
#define ADDRESS_MAX (1ull << 57)

static void join_memory(void *ctx, unsigned param, unsigned at, uint64_t value)
{
	struct param_join *j = ctx;
	struct param_memory *to = &j->params->memory[j->params->memory_cnt];
	const struct mem_freed *freed;
	const struct block *b;

	if (value < ADDRESS_MIN || value >= ADDRESS_MAX ||
	    j->params->memory_cnt == PARAMS_WORDS_MAX)
		return;
	b = ledger__around(&j->mem->ledger, value);
	freed = b ? NULL : mem__freed_at(j->mem, value);
	if (!b && !freed)
		return;
	*to = (struct param_memory){.param = param,
				    .at = at,
				    .freed = freed,
				    .ptr = b ? b->key : freed->ptr,
				    .size = b ? b->size : freed->size,
				    .freed_id = freed ? freed->id : 0};
	to->offset = value - to->ptr;
	j->params->memory_cnt++;
}

/* The parameters are valid until the next call: annotating is done by one thread at a time. */
static void read_params(const struct annotations *m, struct trace_event *ev, const struct proc *p)
{
	static _Thread_local struct launch_params params;
	struct param_join j = {&params, &p->mem};
	int cap = m->params < 0 ? -1 : m->cap[m->params];

	if (cap < 0 || (unsigned)cap >= ev->cap_cnt || ev->caps[cap].len <= 0 ||
	    !launch_params_read(&params, ev->caps[cap].data, ev->caps[cap].len))
		return;
	/* No output needs the pointee. */
	ev->caps[cap].len = 0;
	ev->launch.params_cut = params.more;
	ev->launch.params = &params;
	launch_params_words(&params, join_memory, &j);
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
	read_params(m, ev, p);
	if (!event_arg(m, ev, m->func, &ev->launch.func))
		return;
	h = handles__get(&p->handles, ev->launch.func);
	if (h)
		name_kernel(ev, h->name, h->guessed);
}
