/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Interface between the NVTX library (nvtx/) and the in-process library (inject/), which may be
 * loaded, too: the pointers that NVTX calls go through. */
#ifndef CT_NVTX_H
#define CT_NVTX_H

struct ct_nvtx_func {
	const char *name; /* NVTX's own name */
	void **at;	  /* pointer that calls use: the function that may have a probe, until it is
			     replaced */
	void *quiet;	  /* the same function without a probe */
};

struct ct_nvtx_table {
	unsigned cnt;
	const struct ct_nvtx_func *funcs;
};

/* The in-process library exports a function of this name and type, which stores the table. */
#define CT_NVTX_OFFER "cudatrace_nvtx_offer"
typedef void (*ct_nvtx_offer_fn)(const struct ct_nvtx_table *table);

/* Value of NVTX_INJECTION64_PATH before we set it. */
#define CT_ENV_NVTX_CHAIN "CUDATRACE_NVTX_CHAIN"

#endif /* CT_NVTX_H */
