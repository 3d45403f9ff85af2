/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names of kernels. A launch carries a CUfunction or a CUkernel; its name was seen when the program
 * looked the kernel up by name, or it is read through the handle: the word at offset 8 of what the
 * handle points to points to the mangled name (drivers 470 to 580; not documented by NVIDIA). That
 * is checked in each process against names that were seen, and given up there when it is wrong
 * once.
 */
#ifndef MODEL_KERNEL_H
#define MODEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <uthash.h>

#include "util/demangle.h"
#include "util/quota.h"

#include "ct_record.h"

/* Of one text there is one, which lives as long as a handle of any process has it, and at least
 * until the next lookup. */
struct kernel_name {
	char *mangled, *demangled; /* the same pointer when there is nothing to demangle */
	size_t size;		   /* of all of it; 0: there was no room, it is no handle's */
	uint64_t id;		   /* as in struct trace_event; that of mangled is the next */
	unsigned refs;		   /* handles */
	bool loose;		   /* in the list of those that may have none */
	struct kernel_name *next_loose;
	UT_hash_handle hh;
};

/* Those of a model. */
struct kernel_names;
struct kernel_names *kernel_names__new(struct quotas *q);
/* After all handles. */
void kernel_names__free(struct kernel_names *n);
/* Frees those that no handle has: what was interned before may be gone. */
void kernel_names__collect(struct kernel_names *n);

struct handle {
	uint64_t value;
	const struct kernel_name *name; /* NULL: not known */
	bool guessed;			/* read through the handle */
	bool is_read;			/* the handle was followed, and not been named since: */
	bool read_is_name;		/* to its name */
	const struct kernel_name *read; /* else to this; NULL: to no name */
	UT_hash_handle hh;
};

/* Of a process. */
struct handles {
	struct kernel_names *names;
	struct handle *by_value;
	struct quota_share share, names_share;
	unsigned checked_ok, checked_bad; /* names read through handles against names seen */
	struct demangle_share demangling;
};

/* Where there is no room for it, it stays mangled, and the next such name takes its place. NULL:
 * out of memory. */
const struct kernel_name *kernel_name__intern(struct handles *h, const char *mangled, size_t len);

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
