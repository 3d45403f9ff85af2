/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the files of this directory only: macros for .def rows. */
#ifndef DECODE_NV_NV_PRIV_H
#define DECODE_NV_NV_PRIV_H

#include "nv.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define NV_BRANCHES(X)                                                                             \
	X(515)                                                                                     \
	X(520)                                                                                     \
	X(525) X(530) X(535) X(545) X(550) X(555) X(560) X(565) X(570) X(575) X(580) X(590) X(595)

enum nv_branch_index {
#define BRANCH(n) NV_BR_##n,
	NV_BRANCHES(BRANCH)
#undef BRANCH
		NV_BR_CNT
};

/* Columns of the .def files. */
#define V(a, b, c)     NV_VER(a, b, c)
#define B(first, last) (((1u << (NV_BR_##last + 1)) - 1) & ~((1u << NV_BR_##first) - 1))
#define P(name)	       #name
#define NOP	       NULL

/* If two rows have the same number, the better fit is used, or the first of equals. */
enum nv_fit nv_fit_range(const struct nv_abi *abi, uint32_t since, uint32_t until);
enum nv_fit nv_fit_branches(const struct nv_abi *abi, uint16_t mask, uint16_t partial);

static inline void nv_fit_set(enum nv_fit *fit, enum nv_fit value)
{
	if (fit)
		*fit = value;
}

#endif /* DECODE_NV_NV_PRIV_H */
