/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Loaded objects, libc, and the environment. */
#ifndef INJECT_OBJECT_H
#define INJECT_OBJECT_H

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* elf.c: loaded objects. */
struct object {
	const char *path; /* valid as long as the object is loaded */
	uintptr_t base, lo, hi;
	struct {
		uintptr_t lo, hi, off; /* off: offset of its start in the file */
		uintptr_t filled;      /* end of what the file fills */
		bool exec, write;
	} parts[16];
	unsigned part_cnt;
	uintptr_t relro_lo, relro_hi;
	const ElfW(Dyn) * dyn;
	const ElfW(Sym) * syms;
	const char *strs, *soname;
	const uint32_t *gnu_hash, *hash;
	const uint16_t *versions;
	const ElfW(Rela) * rela[2]; /* relocations with a symbol, and of the PLT */
	size_t rela_cnt[2];
};
/* Calls fn for each object, in load order, until it returns true; then returns true. */
bool objects_each(bool (*fn)(const struct object *o, void *arg), void *arg);
bool object_is(const struct object *o, const char *stem);
bool object_of_address(const void *p, struct object *o);
/* Returns the segment of an address; NULL: none. */
bool object_has(const struct object *o, const void *p, bool exec, bool write);
const ElfW(Sym) * object_symbol(const struct object *o, const char *name);
/* Returns how many objects were ever loaded and unloaded. */
struct objects_cnt {
	uint64_t loaded, unloaded;
};
struct objects_cnt objects_cnt(void);
/* Returns whether one was loaded since objects_cnt() was last called. Does not need the loader's
 * lock. */
bool objects_are_new(void);
/* Finds libc. Must be called before all other functions here. */
void libc_setup(void);
/* Finds a function of libc in libc.so.6, or before 2.34 in libpthread.so.0 or libdl.so.2. */
void *libc_symbol(const char *name);
/* dlopen(). Leaves no message: the program, which may be in dlsym(), would take it for its own. */
void *libc_open(const char *path, int flags);
/* Finds the function that the program would get without this library: of the next object in the
 * list. */
void *next_symbol(const char *name);
/* Functions of libc that are called often; NULL: there is none. */
struct timespec;
extern struct libc_fns {
	int (*objects)(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg);
	int (*clock)(int clock, struct timespec *ts);
	int *(*errno_at)(void);
	unsigned long (*auxv)(unsigned long type);
	unsigned long page_size;
} inject_libc;
/* The program's errno, through libc's function: the program may define that function's name itself.
 */
#undef errno
#define errno (*inject_libc.errno_at())

/* env.c: the environment. Returns the value of a variable, or the address of "NAME=value"; or NULL.
 */
const char *env_get(const char *name);
char **env_find(const char *name);
void env_remove(const char *name);
/* Returns false if out of memory. */
bool env_set(const char *name, const char *value);
/* Finds the first definition, as the dynamic loader does. */
void *global_symbol(const char *name);

#endif /* INJECT_OBJECT_H */
