/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Redirects functions to thunks. Only pointers are changed, never code: a uprobe may be in it, and
 * other processes share the page.
 *
 * The exports of NVIDIA's drivers 470 to 580 compare a state word with a constant. Then they jump
 * (up to 555) or call (580) through a dispatch pointer in the library's data:
 *
 * 	81 3d <rel32> 00 ba 1c 32	cmpl $0x321cba00, x(%rip)
 * 	...
 * 	ff 25 <rel32>			jmp *slot(%rip), or ff 15: call
 *
 * and on arm64
 *
 * 	mov	w1, #0xba00
 * 	movk	w1, #0x321c, lsl #16
 * 	...
 * 	adrp	x2, page of slot
 * 	ldr	x2, [x2, #offset]
 * 	br	x2		(from 535: mov x16, x2; br x16)
 *
 * Replacing that pointer redirects every call, however the program found the function. If the
 * pointer cannot be found, the library replaces the pointers that the program gets: from dlsym(),
 * from cuGetProcAddress(), and in tables filled by the dynamic loader. Functions of other libraries
 * are hooked the same way (nccl.c).
 */
#include "inject.h"

#include <string.h>

struct object inject_lib;
uint64_t inject_is_hooked[CT_MAX_FUNCS / 64];

/* Indexed by the number of the hook. */
static struct func {
	void *entry;   /* the export */
	void **slot;   /* NULL: none was found */
	uint32_t name; /* hash of it */
	uint32_t size; /* of its code */
} funcs[CT_MAX_FUNCS];

/* The number of the first hook of another libcuda, and the addresses of such libraries. */
#define MORE_MAX 8
static uint32_t more = CT_MAX_FUNCS;
static uintptr_t more_at[MORE_MAX];
static unsigned more_cnt;

/* Hooks of exports without a dispatch pointer, by address; hook 0 means none. */
#define TABLE_LOG 13
static struct {
	void *entry;
	uint32_t hook;
} table[1 << TABLE_LOG];
static uint32_t table_cnt;

static uint32_t name_hash(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619u;
	return h;
}

static const char *name_of(const struct ct_shm_set *set, uint32_t id)
{
	uint32_t off = set->name_off[id];

	return off && off < CT_SHM_NAMES_SZ && memchr(set->names + off, 0, CT_SHM_NAMES_SZ - off)
		       ? set->names + off
		       : NULL;
}

static uint32_t id_max(const struct ct_shm_set *set)
{
	return set->fn_cnt < CT_MAX_FUNCS ? set->fn_cnt : CT_MAX_FUNCS;
}

void hooks_forget(void)
{
	memset(inject_is_hooked, 0, sizeof(inject_is_hooked));
}

bool hooks_match(const struct ct_shm_set *set)
{
	for (uint32_t id = 0; id < CT_MAX_FUNCS; id++) {
		const char *name =
			inject_hooks[id].real ? name_of(set, inject_hooks[id].func_id) : NULL;
		/* Those of hook_alone() are not called unless they are wanted. */
		bool is_alone = !funcs[id].slot && !funcs[id].entry;

		if (inject_hooks[id].real && (name ? name_hash(name) != funcs[id].name : !is_alone))
			return false;
	}
	return true;
}

/* --- dispatch pointers --- */

/* Functions are short: bytes beyond this belong to another one. */
#define CODE_MAX 256

/* Returns whether the pointer is a dispatch pointer of this function. */
static bool is_slot(const struct object *lib, void **slot)
{
	return (uintptr_t)slot % sizeof(*slot) == 0 && object_has(lib, slot, false, true) &&
	       object_has(lib, slot + 1, false, true) &&
	       ((uintptr_t)slot < lib->relro_lo || (uintptr_t)slot >= lib->relro_hi);
}

#ifdef __x86_64__
#define MAGIC "\x00\xba\x1c\x32"

/* Returns the function's dispatch pointer. A probe may replace the function's first bytes, but not
 * these. */
static void **slot_of(const struct object *lib, const uint8_t *code, size_t size)
{
	const uint8_t *end = code + size, *p = memmem(code, size, MAGIC, 4);
	int32_t rel;

	for (p = p ? p + 4 : end; p + 6 <= end; p++) {
		void **slot;

		if (p[0] != 0xff || (p[1] != 0x15 && p[1] != 0x25))
			continue;
		memcpy(&rel, p + 2, sizeof(rel));
		slot = (void **)(p + 6 + rel);
		if (is_slot(lib, slot))
			return slot;
	}
	return NULL;
}
#else
/* movz and movk of the constant's two halves, into any register */
#define IS_LOW(insn)  (((insn) & ~31u) == 0x52974000)
#define IS_HIGH(insn) (((insn) & ~31u) == 0x72a64380)

/* Known content of a register. */
struct reg {
	uintptr_t page; /* adrp */
	void **slot;	/* address whose content it has */
	bool low;	/* the constant's lower half */
};

static void follow(struct reg *regs, const uint8_t *at, uint32_t insn)
{
	uint32_t to = insn & 31, from = insn >> 5 & 31;
	struct reg r = {0};

	if ((insn & 0x9f000000) == 0x90000000) { /* adrp */
		int64_t pages = (int64_t)((uint64_t)(insn >> 5 & 0x7ffff) << 45) >> 43;

		r.page = ((uintptr_t)at & ~(uintptr_t)4095) + (pages | (insn >> 29 & 3)) * 4096;
	} else if ((insn & 0xffc00000) == 0xf9400000 && regs[from].page) { /* ldr x, [x, imm] */
		r.slot = (void **)(regs[from].page + (insn >> 10 & 4095) * 8);
	} else if ((insn & 0xffe0ffe0) == 0xaa0003e0) { /* mov x, x */
		r = regs[insn >> 16 & 31];
	} else if (IS_LOW(insn)) {
		r.low = true;
	} else if ((insn & 0xfc000000) == 0x14000000 || (insn & 0xff000010) == 0x54000000) {
		return; /* b, b.cond: no register */
	}
	regs[to] = r;
}

static void **slot_of(const struct object *lib, const uint8_t *code, size_t size)
{
	struct reg regs[32] = {0};
	uint32_t insn;
	bool compares = false;

	for (const uint8_t *p = code; p + 4 <= code + size; p += 4) {
		memcpy(&insn, p, sizeof(insn));
		compares |= IS_HIGH(insn) && regs[insn & 31].low;
		/* br, blr */
		if ((insn & 0xffdffc1f) == 0xd61f0000 && compares &&
		    is_slot(lib, regs[insn >> 5 & 31].slot))
			return regs[insn >> 5 & 31].slot;
		follow(regs, p, insn);
	}
	return NULL;
}
#endif

static void **slot_find(const struct object *lib, const struct func *f)
{
	void **slot = slot_of(lib, f->entry, f->size < CODE_MAX ? f->size : CODE_MAX);

	return slot && object_has(lib, *slot, true, false) ? slot : NULL;
}

/* Must precede the change of any pointer to the thunk. */
static void hook_set(uint32_t i, uint32_t func_id, void *real, void *bypass)
{
	inject_hooks[i].func_id = func_id;
	inject_hooks[i].bypass = bypass;
	inject_hooks[i].real = real;
}

/* Functions with the same dispatch pointer cannot be distinguished, unless they are names of the
 * same function. */
static bool slot_is_own(uint32_t id, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if (i != id && funcs[i].slot == funcs[id].slot && funcs[i].entry != funcs[id].entry)
			return false;
	return true;
}

static void hook_slot(const struct object *lib, uint32_t i, uint32_t id, struct hooked_cnt *cnt)
{
	struct func *f = &funcs[i];
	void *now = __atomic_load_n(f->slot, __ATOMIC_RELAXED);

	/* Another tool has replaced it. */
	if (!object_has(lib, now, true, false) && !is_thunk(now))
		return;
	/* Functions that are not traced pass the gate only. */
	if (inject_process->set->specs[id].of.level != CT_LEVEL_GONE) {
		inject_is_hooked[id / 64] |= 1ull << (id % 64);
		cnt->slots++;
	} else if (!inject_process->hooks_all) {
		return;
	}
	/* The function was already hooked under another name. */
	if (!object_has(lib, now, true, false))
		return;
	hook_set(i, id, now, now);
	__atomic_store_n(f->slot, thunk_of(i), __ATOMIC_RELEASE);
}

void hook_place(const struct ct_shm_set *set, const char *name, void **at, void *real)
{
	for (uint32_t id = 0; id < id_max(set); id++) {
		const char *known = name_of(set, id);

		if (!known || inject_hooks[id].real || strcmp(known, name))
			continue;
		funcs[id].name = name_hash(name);
		funcs[id].slot = at;
		hook_set(id, id, real, real);
		__atomic_store_n(at, thunk_of(id), __ATOMIC_RELEASE);
	}
}

void *hook_alone(const struct ct_shm_set *set, const char *name, void *real)
{
	for (uint32_t id = 0; id < id_max(set); id++) {
		const char *known = name_of(set, id);

		if (!known || strcmp(known, name))
			continue;
		if (!inject_hooks[id].real) {
			funcs[id].name = name_hash(name);
			hook_set(id, id, real, real);
		}
		return inject_hooks[id].real == real && set->specs[id].of.level != CT_LEVEL_GONE
			       ? thunk_of(id)
			       : NULL;
	}
	return NULL;
}

/* Another tool has replaced our pointer and kept it: its calls end at the real function. */
void unhook_all(void)
{
	for (uint32_t id = 0; id < CT_MAX_FUNCS; id++) {
		void *thunk = thunk_of(id);

		if (funcs[id].slot && inject_hooks[id].real)
			__atomic_compare_exchange_n(funcs[id].slot, &thunk, inject_hooks[id].real,
						    false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	}
}

unsigned hooks_gate(void)
{
	unsigned cnt = 0;

	for (uint32_t i = 0; i < CT_MAX_FUNCS; i++) {
		if (!funcs[i].slot || !object_has(&inject_lib, funcs[i].slot, false, true))
			continue;
		__atomic_or_fetch(&inject_hooks[i].role, HOOK_GATED, __ATOMIC_SEQ_CST);
		__atomic_store_n(&inject_hooks[i].off_ns, 0, __ATOMIC_SEQ_CST);
		cnt += inject_hooks[i].real != NULL;
	}
	return cnt;
}

void hooks_rest(void)
{
	struct process *p = inject_process;
	struct hooked_cnt cnt = {0};
	uint32_t max = id_max(p->set);

	p->hooks_all = 1;
	for (uint32_t id = 0; id < max; id++)
		if (funcs[id].slot && !inject_hooks[id].real &&
		    object_has(&inject_lib, funcs[id].slot, false, true))
			hook_slot(&inject_lib, id, id, &cnt);
}

void *hook_beneath(const char *name)
{
	const ElfW(Sym) *s = object_symbol(&inject_lib, name);
	void **slot = NULL, *now;

	if (s)
		slot = slot_of(&inject_lib, (const uint8_t *)inject_lib.base + s->st_value,
			       s->st_size < CODE_MAX ? s->st_size : CODE_MAX);
	if (!slot)
		return NULL;
	now = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	now = thunk_real(now);
	return object_has(&inject_lib, now, true, false) ? now : NULL;
}

/* --- pointers that the program gets --- */

static uint32_t table_at(const void *p)
{
	uint32_t i = (uint32_t)((uintptr_t)p >> 4) * 2654435761u >> (32 - TABLE_LOG);

	while (table[i].entry && table[i].entry != p)
		i = (i + 1) & ((1u << TABLE_LOG) - 1);
	return i;
}

void *hook_answer(void *p)
{
	uint32_t i;

	if (!__atomic_load_n(&table_cnt, __ATOMIC_ACQUIRE))
		return p;
	i = table_at(p);
	return table[i].entry ? thunk_of(table[i].hook) : p;
}

/* past: address after its probe; NULL: it has no probe. */
static void hook_pointer(uint32_t hook, uint32_t id, void *bypass, struct hooked_cnt *cnt)
{
	void *entry = funcs[hook].entry;
	uint32_t i = table_at(entry);

	inject_is_hooked[id / 64] |= 1ull << (id % 64);
	cnt->pointers++;
	hook_set(hook, id, entry, bypass ? bypass : entry);
	if (table[i].entry)
		return;
	table[i].hook = hook;
	__atomic_store_n(&table[i].entry, entry, __ATOMIC_RELEASE);
	__atomic_store_n(&table_cnt, table_cnt + 1, __ATOMIC_RELEASE);
}

bool hook_is_entry(uint32_t hook, uint64_t addr)
{
	return addr - (uintptr_t)funcs[hook].entry < funcs[hook].size;
}

struct binding {
	const char *name;
	const struct object *lib;
};

static bool is_anothers(const struct object *o, void *arg)
{
	const struct binding *b = arg;

	return o->base != b->lib->base && object_symbol(o, b->name);
}

void *hook_lazy(const struct object *lib, const char *name)
{
	struct binding b = {name, lib};
	const ElfW(Sym) *s = object_symbol(lib, name);

	return s && !objects_each(is_anothers, &b) ? hook_answer((void *)(lib->base + s->st_value))
						   : NULL;
}

static void bind_one(const struct object *o, void **at, const char *name, bool is_lazy)
{
	void *was = *at, *to;

	if (strncmp(name, "cu", 2))
		return;
	to = hook_answer(was);
	if (to == was && is_lazy)
		to = hook_lazy(&inject_lib, name);
	if (is_thunk(to))
		pointer_put(o, at, was, to);
}

static bool bind_object(const struct object *o, void *arg)
{
	if (!hook_is_known(o) && !object_has(o, arg, false, false))
		object_pointers(o, bind_one);
	return false;
}

/* --- hooking a library --- */

bool hook_pin(const char *path)
{
	/* RTLD_LAZY, _NOLOAD, _NODELETE */
	return libc_open(path, 0x1 | 0x4 | 0x1000);
}

/* Returns false if the library has no function of this name. */
static bool find(const struct object *lib, const char *name, struct func *f)
{
	const ElfW(Sym) *s = name ? object_symbol(lib, name) : NULL;
	void *entry = s ? (void *)(lib->base + s->st_value) : NULL;

	if (!entry || !object_has(lib, entry, true, false))
		return false;
	f->entry = entry;
	f->name = name_hash(name);
	f->size = s->st_size;
	return true;
}

bool hook_has(const struct ct_shm_set *set, const char *prefix)
{
	for (uint32_t id = 0; id < id_max(set); id++) {
		const char *name = name_of(set, id);

		if (name && !strncmp(name, prefix, strlen(prefix)))
			return true;
	}
	return false;
}

bool hook_named(const struct ct_shm_set *set, const struct object *lib, const char *prefix,
		struct hooked_cnt *cnt)
{
	struct func f = {0};
	void *bypass;

	if (!hook_pin(lib->path))
		return false;
	for (uint32_t id = 0; id < id_max(set); id++) {
		const char *name = name_of(set, id);

		if (!name || strncmp(name, prefix, strlen(prefix)) || !find(lib, name, &f) ||
		    id >= more)
			continue;
		bypass = set->probed ? bypass_new(lib, f.entry) : NULL;
		if (set->probed && !bypass)
			continue;
		funcs[id] = f;
		hook_pointer(id, id, bypass, cnt);
	}
	return cnt->pointers;
}

bool hook_is_known(const struct object *lib)
{
	bool known = lib->base == inject_lib.base;

	for (unsigned i = 0; i < more_cnt; i++)
		known |= lib->base == more_at[i];
	return known;
}

/* Functions of the hooks. */
static uint16_t ids[CT_MAX_FUNCS];

/* Functions that were found have consecutive hook numbers. */
static void hook_found(const struct object *lib, uint32_t from, uint32_t to, bool answers,
		       struct hooked_cnt *cnt)
{
	for (uint32_t i = from; i < to; i++) {
		if (funcs[i].slot && !slot_is_own(i, from, to))
			funcs[i].slot = NULL;
		if (!funcs[i].slot && funcs[i].entry && answers)
			hook_pointer(i, ids[i], NULL, cnt);
	}
	/* Must come last, because functions that share a pointer are detected only when all are
	 * known. */
	for (uint32_t i = from; i < to; i++)
		if (funcs[i].slot)
			hook_slot(lib, i, ids[i], cnt);
}

/* The driver returns functions by name that it does not export. */
static void bind_all(const struct ct_shm_set *set, uint32_t from, uint32_t to)
{
	const char *name;

	if (!table_cnt)
		return;
	for (uint32_t i = from; i < to; i++) {
		name = inject_hooks[i].real ? name_of(set, inject_hooks[i].func_id) : NULL;
		if (name &&
		    (!strcmp(name, "cuGetProcAddress") || !strcmp(name, "cuGetProcAddress_v2")))
			hook_role_set(i, HOOK_ANSWERS);
	}
	objects_each(bind_object, inject_thunks);
}

/* For params.c. */
static void hook_unloads(const struct ct_shm_set *set, uint32_t max)
{
	for (uint32_t i = 0; i < max; i++)
		if (inject_hooks[i].real && set->specs[i].of.flags & CT_SPEC_F_UNLOADS)
			hook_role_set(i, HOOK_UNLOADS);
}

void hook_all(const struct ct_shm_set *set, bool answers, struct hooked_cnt *cnt)
{
	uint32_t max = id_max(set);

	hook_pin(inject_lib.path);
	for (uint32_t id = 0; id < max; id++) {
		ids[id] = id;
		if (!find(&inject_lib, name_of(set, id), &funcs[id]))
			continue;
		funcs[id].slot = slot_find(&inject_lib, &funcs[id]);
		if (!inject_process->gate.armed)
			continue;
		__atomic_or_fetch(&inject_hooks[id].role, HOOK_GATED, __ATOMIC_SEQ_CST);
		__atomic_store_n(&inject_hooks[id].off_ns, 0, __ATOMIC_SEQ_CST);
	}
	hook_found(&inject_lib, 0, max, answers, cnt);
	hook_unloads(set, max);
	bind_all(set, 0, max);
}

void hook_more(const struct ct_shm_set *set, const struct object *lib, struct hooked_cnt *cnt)
{
	uint32_t max = id_max(set), end = more;
	struct func f = {0};

	if (more_cnt == MORE_MAX || !hook_pin(lib->path))
		return;
	more_at[more_cnt++] = lib->base;
	for (uint32_t id = 0; id < max; id++) {
		if (!find(lib, name_of(set, id), &f))
			continue;
		if (more <= max || inject_hooks[more - 1].real)
			break;
		f.slot = slot_find(lib, &f);
		more--;
		ids[more] = id;
		funcs[more] = f;
	}
	hook_found(lib, more, end, true, cnt);
	bind_all(set, more, end);
}
