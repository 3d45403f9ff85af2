/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loaded objects and their symbols, read from memory. dlsym() is not used: it may be the library's
 * own, and also searches an object's dependencies.
 *
 * The library is linked to nothing. It finds libc in the loader's list and calls libc's functions
 * by their addresses there. A program may define functions of the same names, and a program with
 * another libc (musl) has others.
 */
#include "gate.h"

#include <elf.h>
#include <string.h>
#include <sys/uio.h>

/* From glibc and musl; NULL: the program lacks it. */
#pragma weak _r_debug
extern struct r_debug *_dl_debug_addr __attribute__((weak));
extern const ElfW(Dyn) inject_dynamic[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));

/* glibc 2.35: one for each namespace of dlmopen(); before, only the first is known. */
struct namespace
{
	struct r_debug list;
	struct namespace *next;
};

/* glibc relocates these pointers when it loads an object, except for the vDSO. */
static const void *at(const struct object *o, ElfW(Addr) ptr)
{
	return (const void *)(ptr < o->base ? ptr + o->base : ptr);
}

static void object_dynamic(struct object *o)
{
	size_t soname = 0, relative = 0;

	for (const ElfW(Dyn) *d = o->dyn; d && d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			o->syms = at(o, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			o->strs = at(o, d->d_un.d_ptr);
			break;
		case DT_SONAME:
			soname = d->d_un.d_val;
			break;
		case DT_GNU_HASH:
			o->gnu_hash = at(o, d->d_un.d_ptr);
			break;
		case DT_HASH:
			o->hash = at(o, d->d_un.d_ptr);
			break;
		case DT_VERSYM:
			o->versions = at(o, d->d_un.d_ptr);
			break;
		case DT_RELA:
			o->rela[0] = at(o, d->d_un.d_ptr);
			break;
		case DT_RELASZ:
			o->rela_cnt[0] = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_RELACOUNT:
			relative = d->d_un.d_val;
			break;
		case DT_JMPREL:
			o->rela[1] = at(o, d->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			o->rela_cnt[1] = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		}
	}
	/* Most relocations have no symbol and come first. */
	if (relative <= o->rela_cnt[0]) {
		o->rela[0] += o->rela[0] ? relative : 0;
		o->rela_cnt[0] -= relative;
	}
	if (soname && o->strs)
		o->soname = o->strs + soname;
}

static void object_load(struct object *o, const struct dl_phdr_info *info)
{
	memset(o, 0, sizeof(*o));
	o->path = info->dlpi_name;
	o->base = info->dlpi_addr;
	o->lo = UINTPTR_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t lo = o->base + p->p_vaddr, hi = lo + p->p_memsz;

		if (p->p_type == PT_DYNAMIC)
			o->dyn = (const void *)lo;
		if (p->p_type == PT_GNU_RELRO)
			o->relro_lo = lo, o->relro_hi = hi;
		if (p->p_type != PT_LOAD || o->part_cnt == 16)
			continue;
		o->parts[o->part_cnt].lo = lo;
		o->parts[o->part_cnt].hi = hi;
		o->parts[o->part_cnt].off = p->p_offset;
		o->parts[o->part_cnt].filled = lo + p->p_filesz;
		o->parts[o->part_cnt].exec = p->p_flags & PF_X;
		o->parts[o->part_cnt++].write = p->p_flags & PF_W;
		o->lo = lo < o->lo ? lo : o->lo;
		o->hi = hi > o->hi ? hi : o->hi;
	}
	object_dynamic(o);
}

/* --- the loader's list: used without its lock, so only for objects that are never unloaded --- */

/* The library's own entry in the list; NULL: there is no list. */
static const struct link_map *own_map(void)
{
	const struct r_debug *list = &_r_debug	       ? &_r_debug
				     : &_dl_debug_addr ? _dl_debug_addr
						       : NULL;
	const struct link_map *m;

	for (; list; list = &((const struct namespace *)list)->next->list) {
		for (m = list->r_map; m; m = m->l_next)
			if (m->l_ld == inject_dynamic)
				return m;
		if (list->r_version < 2 || !((const struct namespace *)list)->next)
			break;
	}
	return list ? list->r_map : NULL;
}

static void object_of_map(struct object *o, const struct link_map *m)
{
	memset(o, 0, sizeof(*o));
	o->path = m->l_name;
	o->base = m->l_addr;
	o->dyn = m->l_ld;
	object_dynamic(o);
}

void *next_symbol(const char *name)
{
	const struct link_map *m = own_map();
	const ElfW(Sym) * s;
	struct object o;

	for (m = m ? m->l_next : NULL; m; m = m->l_next) {
		object_of_map(&o, m);
		s = object_symbol(&o, name);
		if (s)
			return (void *)(o.base + s->st_value);
	}
	return libc_symbol(name);
}

/* --- libc --- */

struct libc_fns inject_libc;
static struct object libc;

static bool is_libc(const struct object *o)
{
	return object_is(o, "libc.so.6");
}

void libc_setup(void)
{
	const struct link_map *m = own_map();

	while (m && m->l_prev)
		m = m->l_prev;
	for (; m && !libc.dyn; m = m->l_next) {
		object_of_map(&libc, m);
		if (!is_libc(&libc))
			libc.dyn = NULL;
	}
	inject_libc.objects = libc_symbol("dl_iterate_phdr");
	inject_libc.clock = libc_symbol("clock_gettime");
	inject_libc.errno_at = libc_symbol("__errno_location");
	inject_libc.auxv = libc_symbol("getauxval");
	inject_libc.page_size = inject_libc.auxv ? inject_libc.auxv(AT_PAGESZ) : 4096;
}

struct each_ctx {
	bool (*fn)(const struct object *o, void *arg);
	void *arg;
};

static int on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct each_ctx *e = arg;
	struct object o;

	if (size < offsetof(struct dl_phdr_info, dlpi_phnum) + sizeof(info->dlpi_phnum))
		return 0;
	object_load(&o, info);
	return e->fn(&o, e->arg);
}

static int iterate(int (*fn)(struct dl_phdr_info *info, size_t size, void *arg), void *arg)
{
	bool is_guarded = guard_loader();
	int ret = inject_libc.objects ? inject_libc.objects(fn, arg) : 0;

	if (is_guarded)
		guard_release();
	return ret;
}

bool objects_each(bool (*fn)(const struct object *o, void *arg), void *arg)
{
	return iterate(on_object, &(struct each_ctx){fn, arg});
}

/* The last object of the list when objects_cnt() looked. */
static struct {
	struct objects_cnt cnt;
	const struct link_map *map;
} last;

/* Has the loader's lock. */
static int on_first(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct objects_cnt *cnt = arg;

	if (size < offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
		return 1;
	*cnt = (struct objects_cnt){info->dlpi_adds, info->dlpi_subs};
	if (cnt->loaded == last.cnt.loaded && cnt->unloaded == last.cnt.unloaded)
		return 1;
	last.cnt = *cnt;
	last.map = own_map();
	while (last.map && last.map->l_next)
		last.map = last.map->l_next;
	return 1;
}

bool objects_are_new(void)
{
	const struct link_map *next = NULL;
	struct iovec to = {&next, sizeof(next)};
	struct iovec from = {last.map ? (void *)&last.map->l_next : NULL, sizeof(next)};

	/* It may have been unloaded. */
	return kernel_copy(&to, 1, &from, 1) < 0 || next;
}

struct objects_cnt objects_cnt(void)
{
	struct objects_cnt cnt = {0};

	iterate(on_first, &cnt);
	return cnt;
}

static bool starts(const char *s, const char *stem)
{
	return s && !strncmp(s, stem, strlen(stem));
}

bool object_is(const struct object *o, const char *stem)
{
	const char *base = o->path ? strrchr(o->path, '/') : NULL;

	return starts(o->soname, stem) || starts(base ? base + 1 : o->path, stem);
}

bool object_has(const struct object *o, const void *p, bool exec, bool write)
{
	for (unsigned i = 0; i < o->part_cnt; i++)
		if ((uintptr_t)p >= o->parts[i].lo && (uintptr_t)p < o->parts[i].hi)
			return (!exec || o->parts[i].exec) && (!write || o->parts[i].write);
	return false;
}

struct of_address {
	const void *p;
	struct object *o;
};

static bool is_of_address(const struct object *o, void *arg)
{
	struct of_address *a = arg;

	if (!object_has(o, a->p, false, false))
		return false;
	*a->o = *o;
	return true;
}

bool object_of_address(const void *p, struct object *o)
{
	return objects_each(is_of_address, &(struct of_address){p, o});
}

/* Returns whether the symbol is defined, and is the version that an unversioned lookup gets. */
static bool is_it(const struct object *o, uint32_t i, const char *name)
{
	const ElfW(Sym) *s = &o->syms[i];

	return s->st_shndx != SHN_UNDEF && s->st_value && !strcmp(o->strs + s->st_name, name) &&
	       (!o->versions || !(o->versions[i] & 0x8000));
}

static const ElfW(Sym) * by_gnu_hash(const struct object *o, const char *name)
{
	const uint32_t *h = o->gnu_hash, *buckets, *chain;
	uint32_t hash = 5381, first = h[1], i;

	for (const char *s = name; *s; s++)
		hash = hash * 33 + (uint8_t)*s;
	buckets = h + 4 + h[2] * (sizeof(ElfW(Addr)) / 4);
	chain = buckets + h[0];
	i = h[0] ? buckets[hash % h[0]] : 0;
	if (i < first)
		return NULL;
	for (;; i++) {
		uint32_t in_chain = chain[i - first];

		if ((in_chain | 1) == (hash | 1) && is_it(o, i, name))
			return &o->syms[i];
		if (in_chain & 1)
			return NULL;
	}
}

static const ElfW(Sym) * by_hash(const struct object *o, const char *name)
{
	const uint32_t *h = o->hash, *chain = h + 2 + h[0];
	uint32_t hash = 0;

	for (const char *s = name; *s; s++) {
		hash = (hash << 4) + (uint8_t)*s;
		hash ^= hash >> 24 & 0xf0;
		hash &= 0xfffffff;
	}
	for (uint32_t i = h[0] ? h[2 + hash % h[0]] : 0; i; i = chain[i])
		if (is_it(o, i, name))
			return &o->syms[i];
	return NULL;
}

const ElfW(Sym) * object_symbol(const struct object *o, const char *name)
{
	if (!o->syms || !o->strs)
		return NULL;
	if (o->gnu_hash)
		return by_gnu_hash(o, name);
	return o->hash ? by_hash(o, name) : NULL;
}

struct symbol_query {
	const char *name;
	void *p;
};

static bool has(const struct object *o, void *arg)
{
	struct symbol_query *w = arg;
	const ElfW(Sym) *s = object_symbol(o, w->name);

	if (s)
		w->p = (void *)(o->base + s->st_value);
	return s;
}

/* Before glibc 2.34. */
static bool libc_part_has(const struct object *o, void *arg)
{
	return (object_is(o, "libpthread.so.0") || object_is(o, "libdl.so.2")) && has(o, arg);
}

void *libc_symbol(const char *name)
{
	struct symbol_query w = {name, NULL};

	if (libc.dyn && !has(&libc, &w))
		objects_each(libc_part_has, &w);
	return w.p;
}

void *libc_open(const char *path, int flags)
{
	void *(*open)(const char *, int) = libc_symbol("dlopen");
	char *(*message)(void) = libc_symbol("dlerror");
	bool is_guarded = guard_loader();
	void *lib = open ? open(path, flags) : NULL;

	if (is_guarded)
		guard_release();
	if (open && !lib && message)
		message();
	return lib;
}

void *global_symbol(const char *name)
{
	struct symbol_query w = {name, NULL};

	objects_each(has, &w);
	return w.p;
}
