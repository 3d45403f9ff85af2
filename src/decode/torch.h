/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --torch: names of the operators and autograd nodes of a libtorch_cpu. Both are identified by a
 * distance in the file, which is the same in all processes. For an operator, it is from the first
 * function that it calls to the return address of that call. For a node, it is from the function
 * that runs nodes to the node's vtable.
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
	struct ct_site site; /* for the BPF programs, if has_site */
	bool has_site;
};

struct torch_node {
	uint64_t distance;
	char *name; /* "AddmmBackward0", as in torch.profiler */
};

/* Both are sorted by distance. */
struct torch_lib {
	struct torch_operator *operators;
	struct torch_node *nodes;
	unsigned operator_cnt, node_cnt;
};

void torch_lib__free(struct torch_lib *lib);
/* Sorts the entries after adding. */
void torch_lib__sort(struct torch_lib *lib);
/* Returns NULL if there is no such entry. */
const char *torch_lib__operator(const struct torch_lib *lib, uint64_t distance);
const char *torch_lib__node(const struct torch_lib *lib, uint64_t distance);

/* Writes "aten::NAME" for _ZN2at4_ops<length>NAME4callE..., where NAME includes the overload.
 * Returns false for other symbols. */
bool torch_operator_name(const char *symbol, char *buf, size_t size);
/* Writes the name from a vtable's symbol, which begins with _ZTVN5torch8autograd. Returns false for
 * other symbols. */
bool torch_node_name(const char *symbol, char *buf, size_t size);

#endif /* DECODE_TORCH_H */
