/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tables of pointers to functions of other objects, filled by the dynamic loader: finds those of a
 * loaded object, and replaces pointers. Called for objects passed by objects_each(), so no object
 * is unloaded meanwhile, and there is one caller at a time.
 */
#include "inject.h"

#include <sys/mman.h>

static bool sealed; /* of the current object: known and unchanging */

/* Returns whether the loader has made its read-only part read-only. Before that it still writes
 * there. */
static bool is_sealed(uintptr_t page)
{
	struct mapping m;

	if (!sealed)
		sealed = !maps_find(page, &m) || !m.write;
	return sealed;
}

bool pointer_put(const struct object *o, void **at, void *was, void *to)
{
	uintptr_t size = page_size(), page = (uintptr_t)at & -size;
	/* Pages that belong to it only in part have the protection of their rest. */
	bool relro = (uintptr_t)at >= o->relro_lo && (uintptr_t)at < (o->relro_hi & -size), put;

	if (relro && (!is_sealed(page) || sys(SYS_mprotect, page, size, PROT_READ | PROT_WRITE)))
		return false;
	put = __atomic_compare_exchange_n(at, &was, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	if (relro)
		sys(SYS_mprotect, page, size, PROT_READ);
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
		/* An unresolved slot points into the object's own table. */
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
