/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tables of pointers to other objects' functions, which the dynamic loader fills: those of a
 * loaded object, and how one is replaced. Called for objects that objects_each() gives: so nobody
 * unloads them meanwhile, and there is one caller at a time.
 */
#include "inject.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A number of /proc/self/maps. */
static const char *hex(const char *s, uintptr_t *n)
{
	*n = 0;
	for (;; s++) {
		unsigned digit = *s >= 'a' ? *s - 'a' + 10u : *s - '0' + 0u;

		if (digit > 15)
			return s;
		*n = *n << 4 | digit;
	}
}

/* What a line of /proc/self/maps says of a page: -1: nothing, 0: it is read-only, 1: it is not. */
static int line_says(const char *line, uintptr_t page)
{
	uintptr_t lo, hi;

	line = hex(line, &lo);
	if (*line != '-')
		return -1;
	line = hex(line + 1, &hi);
	return page < lo || page >= hi || *line != ' ' ? -1 : line[2] == 'w';
}

/* Where that cannot be found, it is not. */
static bool is_writable(uintptr_t page)
{
	int fd = syscall(SYS_openat, (long)AT_FDCWD, "/proc/self/maps",
			 (long)(O_RDONLY | O_CLOEXEC), 0l);
	char buf[4096], line[64];
	size_t len = 0;
	int says = -1;
	long n;

	while (fd >= 0 && says < 0 && (n = syscall(SYS_read, (long)fd, buf, sizeof(buf))) > 0)
		for (long i = 0; i < n && says < 0; i++) {
			if (buf[i] != '\n') {
				line[len] = buf[i];
				len += len < sizeof(line) - 1;
				continue;
			}
			line[len] = 0;
			len = 0;
			says = line_says(line, page);
		}
	if (fd >= 0)
		syscall(SYS_close, (long)fd);
	return says == 1;
}

static bool sealed; /* of the object that is looked at: known, and it stays so */

/* Has the loader made read-only what is to be? Before that it is still at work there. */
static bool is_sealed(uintptr_t page)
{
	if (!sealed)
		sealed = !is_writable(page);
	return sealed;
}

bool pointer_put(const struct object *o, void **at, void *was, void *to)
{
	uintptr_t size = sysconf(_SC_PAGESIZE), page = (uintptr_t)at & -size;
	/* Pages that are only in part are as the rest of them is. */
	bool relro = (uintptr_t)at >= o->relro_lo && (uintptr_t)at < (o->relro_hi & -size), put;

	if (relro && (!is_sealed(page) || mprotect((void *)page, size, PROT_READ | PROT_WRITE)))
		return false;
	put = __atomic_compare_exchange_n(at, &was, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	if (relro)
		mprotect((void *)page, size, PROT_READ);
	return put;
}

#ifdef __x86_64__
#define R_SLOT R_X86_64_JUMP_SLOT
#define R_GLOB R_X86_64_GLOB_DAT
#define R_WORD R_X86_64_64
#else
#define R_SLOT R_AARCH64_JUMP_SLOT
#define R_GLOB R_AARCH64_GLOB_DAT
#define R_WORD R_AARCH64_ABS64
#endif

static void pointer_of(const struct object *o, const ElfW(Rela) * r,
		       void (*fn)(const struct object *o, void **at, const char *name,
				  bool is_lazy))
{
	uint32_t type = ELF64_R_TYPE(r->r_info), sym = ELF64_R_SYM(r->r_info);
	void **at = (void **)(o->base + r->r_offset);

	if ((type == R_SLOT || type == R_GLOB || type == R_WORD) && sym && !r->r_addend &&
	    object_has(o, at, false, true))
		/* Not looked up yet: it points into the object's own table. */
		fn(o, at, o->strs + o->syms[sym].st_name,
		   type == R_SLOT && object_has(o, *at, true, false));
}

void object_pointers(const struct object *o,
		     void (*fn)(const struct object *o, void **at, const char *name, bool is_lazy))
{
	sealed = false;
	for (unsigned t = 0; o->syms && o->strs && t < 2; t++)
		for (size_t i = 0; o->rela[t] && i < o->rela_cnt[t]; i++)
			pointer_of(o, &o->rela[t][i], fn);
}
