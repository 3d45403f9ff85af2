/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions that libelf.a lacks, for the static program only. libelf.a of elfutils 0.191 and later
 * calls five functions that live in elfutils' internal libeu.a, which no distribution ships (Debian
 * bookworm-backports, trixie). Here they are, over libc's tsearch(). Weak: a libelf.a that has its
 * own wins.
 *
 * elfutils guards the tree with a lock when built with thread safety; the lock follows root in the
 * real struct and is not needed here, since cudatrace uses each Elf from one thread only.
 */
#include <search.h>
#include <stddef.h>

typedef struct {
	void *root;
} search_tree;

typedef int compare_fn(const void *, const void *);

#define WEAK __attribute__((weak))
void eu_search_tree_init(search_tree *tree);
void eu_search_tree_fini(search_tree *tree, void (*free_node)(void *));
void *eu_tsearch(const void *key, search_tree *tree, compare_fn *compare);
void *eu_tfind(const void *key, search_tree *tree, compare_fn *compare);
void *eu_tdelete(const void *key, search_tree *tree, compare_fn *compare);

WEAK void eu_search_tree_init(search_tree *tree)
{
	tree->root = NULL;
}

WEAK void eu_search_tree_fini(search_tree *tree, void (*free_node)(void *))
{
	tdestroy(tree->root, free_node);
	tree->root = NULL;
}

WEAK void *eu_tsearch(const void *key, search_tree *tree, compare_fn *compare)
{
	return tsearch(key, &tree->root, compare);
}

WEAK void *eu_tfind(const void *key, search_tree *tree, compare_fn *compare)
{
	return tfind(key, &tree->root, compare);
}

WEAK void *eu_tdelete(const void *key, search_tree *tree, compare_fn *compare)
{
	return tdelete(key, &tree->root, compare);
}
