/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names as the Itanium C++ ABI mangles them, which nvcc does too, as one reads them. */
#ifndef UTIL_DEMANGLE_H
#define UTIL_DEMANGLE_H

#include <stdint.h>

/* 430 bytes of a PyTorch kernel's name say 5000 characters. But 235 bytes can say 277 million,
 * since a name may refer to parts of itself. */
#define DEMANGLED_MAX 8192

/* What of the time for names a process has used lately. Begins as zeros. */
struct demangle_share {
	uint64_t used_ns, at_ns;
};

/*
 * The readable form, to be freed; NULL when the name is not mangled, or stays as it is. The target
 * chooses the names, so whatever one is:
 *   time    3 ms of processor time a name; a process (share) 100 ms a second, 300 ms at once; all
 *           processes together twice that
 *   memory  below 1 MB of stack, nothing on the heap but what is returned
 *   output  at most DEMANGLED_MAX bytes
 * A name that would need more stays mangled. share NULL: the name is nobody's, and not counted.
 */
char *demangle(const char *mangled, struct demangle_share *share);

/* Names that stayed mangled because there was no time for them. */
uint64_t demangle_given_up(void);

#endif /* UTIL_DEMANGLE_H */
