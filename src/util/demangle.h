/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Demangles names of the Itanium C++ ABI, which nvcc uses too. */
#ifndef UTIL_DEMANGLE_H
#define UTIL_DEMANGLE_H

#include <stdint.h>

/* 430 bytes of a PyTorch kernel's name expand to 5000 characters. But 235 bytes can expand to 277
 * million, since a name may refer to parts of itself. */
#define DEMANGLED_MAX 8192

/* The time that a process has used for its names lately. Starts zeroed. */
struct demangle_share {
	uint64_t used_ns, at_ns;
};

/*
 * Returns the readable form, which the caller frees; NULL when the name is not mangled or stays
 * mangled. The target chooses the names, so the limits hold for any name:
 *   length  1024 bytes
 *   time    3 ms of processor time per name; a process (share) 100 ms per second, 300 ms at once;
 *           all processes together twice that
 *   memory  below 1 MB of stack; no heap but the result
 *   output  at most DEMANGLED_MAX bytes
 *
 * A name that would exceed a limit stays mangled. share NULL: the time is charged to no process.
 */
char *demangle(const char *mangled, struct demangle_share *share);

/* Number of names that stayed mangled because of a limit. */
uint64_t demangle_given_up(void);

#endif /* UTIL_DEMANGLE_H */
