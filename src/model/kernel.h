/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names of kernels. A launch carries a CUfunction or a CUkernel; its name was seen when the program
 * looked the kernel up by name, or it was read through the handle: the word at offset 8 of what the
 * handle points to points to the mangled name (drivers 470 to 580; not documented by NVIDIA). That
 * is checked in each process against names that were seen, and given up there when it is wrong
 * once. The BPF side reads it (bpf/name.bpf.h), never this side: a program may map a file of its
 * own file system there, and whoever makes the kernel fetch its pages waits for it for ever.
 */
#ifndef MODEL_KERNEL_H
#define MODEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <uthash.h>

#include "util/demangle.h"

#include "ct_abi.h"

/* Lives until names__free(): pointers may be kept and compared. */
struct kernel_name {
	char *mangled, *demangled; /* the same pointer when there is nothing to demangle */
	UT_hash_handle hh;
};

struct handle {
	uint64_t value;
	const struct kernel_name *name; /* NULL: not known */
	bool guessed;			/* read through the handle */
	bool is_read;			/* the handle was followed: */
	const struct kernel_name *read; /* to this; NULL: to no name */
	UT_hash_handle hh;
};

struct handles {
	struct handle *by_value;
	unsigned checked_ok, checked_bad; /* names read through handles against names seen */
	struct demangle_share demangling;
};

/* h: of the process whose name it is. */
const struct kernel_name *kernel_name__intern(struct handles *h, const char *mangled, size_t len);
void kernel_names__free(void);

/* What this handle leads to: size bytes with a NUL at the end; 0: nothing that can be read. */
void handles__told(struct handles *h, uint64_t value, const char *name, size_t size);
/* The program named this handle, which is compared with what was told of it. */
void handles__set(struct handles *h, uint64_t value, const struct kernel_name *name);
/* NULL: its name is not known. */
const struct handle *handles__get(struct handles *h, uint64_t value);
/* value is another handle of the kernel that from is a handle of. */
void handles__derive(struct handles *h, uint64_t value, const struct handle *from);
/* A module went: its handles may be given to other kernels. Names that were read are told anew. */
void handles__unloaded(struct handles *h);
void handles__clear(struct handles *h);

#endif /* MODEL_KERNEL_H */
