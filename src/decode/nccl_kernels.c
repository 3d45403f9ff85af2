/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "nccl_kernels.h"

#include <stddef.h>

struct algo_proto {
	const char *algorithm, *protocol;
};

#define WAY(algorithm, protocol)                                                                   \
	{                                                                                          \
		algorithm, protocol                                                                \
	}
#define VERSIONS(first, last)
#define RUN(op, ways, times)
#define WAYS(id, ...) static const struct algo_proto ways_##id[] = {__VA_ARGS__};
#include "nccl_kernels.def"
#undef WAYS
#undef VERSIONS
#undef RUN

struct run {
	const struct algo_proto *ways; /* NULL: rows of versions first to last begin here */
	uint32_t cnt, times;
	uint32_t op, first, last;
};

static const struct run runs[] = {
#define WAYS(id, ...)
#define VERSIONS(from, to) {.first = from, .last = to},
#define RUN(id, w, n)                                                                              \
	{.ways = ways_##w,                                                                         \
	 .cnt = sizeof(ways_##w) / sizeof(struct algo_proto),                                      \
	 .times = n,                                                                               \
	 .op = OP_##id},
#include "nccl_kernels.def"
};

bool nccl_kernel_by_func(uint32_t version, uint32_t func, struct nccl_kernel *k)
{
	const struct run *r = runs, *end = runs + sizeof(runs) / sizeof(runs[0]);

	while (r < end && (r->ways || version < r->first || version > r->last))
		r++;
	if (r == end)
		return false;
	for (r++; r < end && r->ways; r++) {
		if (func < r->cnt * r->times) {
			*k = (struct nccl_kernel){r->op, r->ways[func % r->cnt].algorithm,
						  r->ways[func % r->cnt].protocol};
			return true;
		}
		func -= r->cnt * r->times;
	}
	return false;
}
