/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names as the Itanium C++ ABI mangles them, which nvcc does too, as one reads them. */
#ifndef UTIL_DEMANGLE_H
#define UTIL_DEMANGLE_H

/* The readable form, to be freed; NULL when the name is not mangled, or stays as it is. Whatever
 * the name is, it takes bounded time and memory and returns at most DEMANGLED_MAX bytes. */
#define DEMANGLED_MAX 32768
char *demangle(const char *mangled);

#endif /* UTIL_DEMANGLE_H */
