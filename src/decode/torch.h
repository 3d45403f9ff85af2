/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --torch: what a libtorch_cpu calls its operators and nodes of autograd. Both are known by a
 * distance in the file, which no process changes: of the return address in an operator from what it
 * calls when it begins; of a node's vtable from the function that runs nodes.
 */
#ifndef DECODE_TORCH_H
#define DECODE_TORCH_H

#include "ct_bpf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct torch_operator {
	uint64_t distance;
	char *name;	     /* "aten::addmm" */
	struct ct_site site; /* for the BPF side, when has_site */
	bool has_site;
};

struct torch_node {
	uint64_t distance;
	char *name; /* "AddmmBackward0", as torch.profiler has it */
};

/* Both by distance. */
struct torch_lib {
	struct torch_operator *operators;
	struct torch_node *nodes;
	unsigned operator_cnt, node_cnt;
};

void torch_lib__free(struct torch_lib *lib);
/* Sorts what was added. */
void torch_lib__sort(struct torch_lib *lib);
/* NULL: it is none of these. */
const char *torch_lib__operator(const struct torch_lib *lib, uint64_t distance);
const char *torch_lib__node(const struct torch_lib *lib, uint64_t distance);

/* "aten::NAME" of _ZN2at4_ops<length>NAME4callE..., which is the name with its overload; false: it
 * is none. */
bool torch_operator_name(const char *symbol, char *buf, size_t size);
/* Of the symbol of a vtable, which begins with _ZTVN5torch8autograd; false: it is none. */
bool torch_node_name(const char *symbol, char *buf, size_t size);
/* Operators that torch.profiler never shows. */
bool torch_is_unobserved(const char *name);

#endif /* DECODE_TORCH_H */
