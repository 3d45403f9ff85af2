/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is loaded into the process, libc, and the environment. */
#ifndef INJECT_OBJECT_H
#define INJECT_OBJECT_H

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* elf.c: what is loaded. */
struct object {
	const char *path; /* lives as long as it is loaded */
	uintptr_t base, lo, hi;
	struct {
		uintptr_t lo, hi, off; /* off: where it begins in the file */
		bool exec, write;
	} parts[16];
	unsigned part_cnt;
	uintptr_t relro_lo, relro_hi;
	const ElfW(Dyn) * dyn;
	const ElfW(Sym) * syms;
	const char *strs, *soname;
	const uint32_t *gnu_hash, *hash;
	const uint16_t *versions;
	const ElfW(Rela) * rela[2]; /* with a symbol, and of the PLT */
	size_t rela_cnt[2];
};
/* Calls fn for each object, in the order they were loaded, until it returns true, and returns that.
 */
bool objects_each(bool (*fn)(const struct object *o, void *arg), void *arg);
bool object_is(const struct object *o, const char *stem);
bool object_of_address(const void *p, struct object *o);
/* The part that an address lies in; NULL: none. */
bool object_has(const struct object *o, const void *p, bool exec, bool write);
const ElfW(Sym) * object_symbol(const struct object *o, const char *name);
/* How many objects were ever loaded and unloaded. */
struct objects_cnt {
	uint64_t loaded, unloaded;
};
struct objects_cnt objects_cnt(void);
/* Finds libc. Nothing else here works before. */
void libc_setup(void);
/* Of libc itself, wherever it has it: libc.so.6, or before 2.34 libpthread.so.0, libdl.so.2. */
void *libc_symbol(const char *name);
/* What a program without this library would get: of the next object in the loader's list. */
void *next_symbol(const char *name);
/* libc's functions that are called often; NULL: there is none. */
struct timespec;
extern struct libc_fns {
	int (*objects)(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg);
	int (*clock)(int clock, struct timespec *ts);
	int *(*errno_at)(void);
	unsigned long (*auxv)(unsigned long type);
	unsigned long page_size;
} inject_libc;
/* The program's, without a name that it may have given to something else. */
#undef errno
#define errno (*inject_libc.errno_at())

/* env.c: the environment. A variable's value, or where it is ("NAME=value"); NULL. */
const char *env_get(const char *name);
char **env_find(const char *name);
void env_remove(const char *name);
/* False: there is no memory. */
bool env_set(const char *name, const char *value);
/* Of whoever comes first: what the dynamic loader finds. */
void *global_symbol(const char *name);

#endif /* INJECT_OBJECT_H */
