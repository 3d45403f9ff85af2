/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The seam between the NVTX library (nvtx/) and the library in the process (inject/), which may be
 * there, too: pointers that calls of NVTX go through. */
#ifndef CT_NVTX_H
#define CT_NVTX_H

struct ct_nvtx_func {
	const char *name; /* NVTX's own */
	void **at;   /* where calls go: the function that may have a probe, until it is changed */
	void *quiet; /* does the same, and has no probe */
};

struct ct_nvtx_table {
	unsigned cnt;
	const struct ct_nvtx_func *funcs;
};

/* The library in the process has a function of this name and type, which keeps the table. */
#define CT_NVTX_OFFER "cudatrace_nvtx_offer"
typedef void (*ct_nvtx_offer_fn)(const struct ct_nvtx_table *table);

/* What NVTX_INJECTION64_PATH was before we set it. */
#define CT_ENV_NVTX_CHAIN "CUDATRACE_NVTX_CHAIN"

#endif /* CT_NVTX_H */
