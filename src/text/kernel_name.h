/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Short names of kernels. */
#ifndef TEXT_KERNEL_NAME_H
#define TEXT_KERNEL_NAME_H

#include <stddef.h>

/*
 * Returns the readable part of a demangled kernel name: no return type, no template arguments, no
 * parameters, no anonymous namespaces.
 *   void at::native::(anonymous namespace)::fill<4, float>(int, float)  ->  at::native::fill
 * The result is not NUL-terminated: *len bytes at the returned address, valid until the next call
 * from the same thread. A name that cannot be parsed is returned unchanged.
 */
const char *kernel_short_name(const char *demangled, size_t *len);

/*
 * Where to begin a demangled name that must be shortened to room columns: after a return type of
 * void, and after as many namespaces as do not fit next to the function's own name. *head is the
 * length of its part up to the bracket of its arguments, which should not be cut; 0: no arguments.
 */
const char *kernel_name_fit(const char *name, size_t room, size_t *head);

/* The length of plain words before a name: the call of "cuLaunchKernel ns::f(int)", or a return
 * type other than void. */
size_t kernel_name_words(const char *name);

#endif /* TEXT_KERNEL_NAME_H */
