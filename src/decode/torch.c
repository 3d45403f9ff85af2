/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "torch.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPERATOR_PREFIX "_ZN2at4_ops"
#define OPERATOR_SUFFIX "4callE"
#define VTABLE_PREFIX	"_ZTVN"
#define NODE_SPACE	"torch::autograd::"
#define GENERATED_SPACE "torch::autograd::generated::"

void torch_lib__free(struct torch_lib *lib)
{
	if (!lib)
		return;
	for (unsigned i = 0; i < lib->operator_cnt; i++)
		free(lib->operators[i].name);
	for (unsigned i = 0; i < lib->node_cnt; i++)
		free(lib->nodes[i].name);
	free(lib->operators);
	free(lib->nodes);
	free(lib);
}

static int cmp(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int cmp_operators(const void *a, const void *b)
{
	return cmp(((const struct torch_operator *)a)->distance,
		   ((const struct torch_operator *)b)->distance);
}

static int cmp_nodes(const void *a, const void *b)
{
	return cmp(((const struct torch_node *)a)->distance,
		   ((const struct torch_node *)b)->distance);
}

void torch_lib__sort(struct torch_lib *lib)
{
	if (lib->operator_cnt)
		qsort(lib->operators, lib->operator_cnt, sizeof(*lib->operators), cmp_operators);
	if (lib->node_cnt)
		qsort(lib->nodes, lib->node_cnt, sizeof(*lib->nodes), cmp_nodes);
}

const char *torch_lib__operator(const struct torch_lib *lib, uint64_t distance)
{
	struct torch_operator key = {.distance = distance}, *hit;

	if (!lib || !lib->operator_cnt)
		return NULL;
	hit = bsearch(&key, lib->operators, lib->operator_cnt, sizeof(key), cmp_operators);
	return hit ? hit->name : NULL;
}

const char *torch_lib__node(const struct torch_lib *lib, uint64_t distance)
{
	struct torch_node key = {.distance = distance}, *hit;

	if (!lib || !lib->node_cnt || !distance)
		return NULL;
	hit = bsearch(&key, lib->nodes, lib->node_cnt, sizeof(key), cmp_nodes);
	return hit ? hit->name : NULL;
}

/* Reads <length><name> at *s, and moves *s after it; returns 0 if there is none. */
static size_t take_name(const char **s, const char **name)
{
	char *end;
	unsigned long len;

	if (!isdigit((unsigned char)**s))
		return 0;
	len = strtoul(*s, &end, 10);
	if (!len || len > strlen(end))
		return 0;
	*name = end;
	*s = end + len;
	return len;
}

bool torch_operator_name(const char *symbol, char *buf, size_t size)
{
	const char *s = symbol + strlen(OPERATOR_PREFIX), *name;
	size_t len;

	if (strncmp(symbol, OPERATOR_PREFIX, strlen(OPERATOR_PREFIX)) != 0)
		return false;
	len = take_name(&s, &name);
	if (!len || strncmp(s, OPERATOR_SUFFIX, strlen(OPERATOR_SUFFIX)) != 0)
		return false;
	snprintf(buf, size, "aten::%.*s", (int)(len < size ? len : size), name);
	return true;
}

bool torch_node_name(const char *symbol, char *buf, size_t size)
{
	const char *s = symbol + strlen(VTABLE_PREFIX), *name;
	size_t at = 0, len;

	if (strncmp(symbol, VTABLE_PREFIX, strlen(VTABLE_PREFIX)) != 0)
		return false;
	while ((len = take_name(&s, &name))) {
		if (at + len + 3 > size)
			return false;
		at += snprintf(buf + at, size - at, "%s%.*s", at ? "::" : "", (int)len, name);
	}
	/* Longer names are templates. */
	if (!at || *s != 'E' || strncmp(buf, NODE_SPACE, strlen(NODE_SPACE)) != 0)
		return false;
	if (!strncmp(buf, GENERATED_SPACE, strlen(GENERATED_SPACE)))
		memmove(buf, buf + strlen(GENERATED_SPACE),
			strlen(buf + strlen(GENERATED_SPACE)) + 1);
	return true;
}
