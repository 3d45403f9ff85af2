/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Invariants of the numbers of every trace: parts add up to the whole, a share is within 0 and 1,
 * live memory is never negative. Builds with sanitizers or DEBUG=1 check them, print what fails and
 * continue, since a trace is untrusted and may hold any sizes and times. tests/e2e/test_laws.py
 */
#ifndef UTIL_LAW_H
#define UTIL_LAW_H

#if defined(DEBUG) || defined(__SANITIZE_ADDRESS__)
#include <stdio.h>

#define law(holds)                                                                                 \
	((holds) ? (void)0                                                                         \
		 : (void)fprintf(stderr, "law broken: %s:%d: %s\n", __FILE__, __LINE__, #holds))
#else
#define law(holds) ((void)sizeof(holds))
#endif

#endif /* UTIL_LAW_H */
