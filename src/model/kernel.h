/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names of kernels. A launch has a CUfunction or a CUkernel as its handle. Its name was recorded
 * when the program looked the kernel up by name. Otherwise it is read through the handle: the word
 * at offset 8 of what the handle points to points to the mangled name (drivers 470 to 580; not
 * documented by NVIDIA). cudatrace checks this in each process against recorded names, and stops
 * using it there after one mismatch.
 */
#ifndef MODEL_KERNEL_H
#define MODEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/demangle.h"
#include "util/hash_table.h"
#include "util/limits.h"

#include "ct_record.h"

/* Interned name: one per text. It lives as long as a handle of any process has it, and at least
 * until the next lookup. */
struct kernel_name {
	struct hash_link link;
	char *mangled, *demangled; /* the same pointer if there is nothing to demangle */
	size_t size;		   /* memory of all of it; 0: over the limit, and not stored */
	uint64_t id;		   /* as in struct trace_event; the mangled name has the next ID */
	unsigned refs;		   /* number of handles */
	bool loose;		   /* in the list of names that may have no handles */
	struct kernel_name *next_loose;
};
HASH_TABLE_TYPE(kernel_name);
HASH_TABLE_BYTES(kernel_name, mangled);

/* The names of a model. */
struct kernel_names;
struct kernel_names *kernel_names__new(struct quotas *q);
/* Call it after all handles are freed. */
void kernel_names__free(struct kernel_names *n);
/* Frees the names without handles: earlier results of kernel_name__intern() may become invalid. */
void kernel_names__collect(struct kernel_names *n);

struct handle {
	struct hash_link link;
	uint64_t value;
	const struct kernel_name *name; /* NULL: not known */
	bool guessed;			/* read through the handle */
	bool is_read;			/* it was read through the handle after it was last named */
	bool read_is_name;		/* the result of that read was name */
	const struct kernel_name *read; /* else the result; NULL: not a name */
};
HASH_TABLE(handle, value);

/* The handles of a process. */
struct handles {
	struct kernel_names *names;
	struct handle_table by_value;
	struct quota_share share, names_share;
	unsigned checked_ok, checked_bad; /* checks of names read through handles */
	struct demangle_share demangling;
};

/* Interns a name. If it exceeds the limit, it stays mangled, and the next such name replaces it.
 * Returns NULL if out of memory. */
const struct kernel_name *kernel_name__intern(struct handles *h, const char *mangled, size_t len);

/* Stores what was read through this handle: size bytes including a NUL; 0: nothing could be
 * read. */
void handles__set_name(struct handles *h, uint64_t value, const char *name, size_t size);
/* The program looked this handle up by name. Checks it against what was read through the handle. */
void handles__set(struct handles *h, uint64_t value, const struct kernel_name *name);
/* Returns NULL if its name is unknown. */
const struct handle *handles__get(struct handles *h, uint64_t value);
/* value is another handle of the kernel that from is a handle of. */
void handles__derive(struct handles *h, uint64_t value, const struct handle *from);
/* A module was unloaded: its handles may be reused for other kernels. Names read through handles
 * are dropped and read again. */
void handles__unloaded(struct handles *h);
void handles__clear(struct handles *h);

#endif /* MODEL_KERNEL_H */
