/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --kernel: redirects the driver's system calls to the library. The driver's objects call libc for
 * them, through pointers that the dynamic loader fills (550 does, and has no system call
 * instruction). These pointers are replaced, in NVIDIA's objects only; the program's own calls are
 * not recorded.
 */
#include "inject.h"

/* Prefix of their file names. */
static const char *const stems[] = {"libcuda.so", "libcudadebugger.so", "libnvidia-",
				    "libnvcuvid.so", "libnvoptix.so"};

static uint32_t hooked_cnt, hooking;
static uint64_t seen_cnt; /* objects_cnt() at the last check; 0: check again */
static bool again;	  /* the loader had not finished with an object */

static struct nv_func *func_of(const char *name)
{
	for (unsigned i = 0; i < NV_FUNC_CNT; i++)
		if (!__builtin_strcmp(nv_funcs[i].name, name))
			return &nv_funcs[i];
	return NULL;
}

static bool is_drivers(const struct object *o)
{
	if (o->base == inject_lib.base)
		return true;
	for (unsigned i = 0; i < sizeof(stems) / sizeof(stems[0]); i++)
		if (object_is(o, stems[i]))
			return true;
	return false;
}

/* Skip a pointer that already leads elsewhere: it is another tool's. */
static void hook_one(const struct object *o, void **at, const char *name, bool is_lazy)
{
	struct nv_func *f = func_of(name);
	void *was = *at;

	if (!f || !f->real || was == f->hook)
		return;
	if (was != f->real && !is_lazy)
		again |= (uintptr_t)was < o->base; /* not relocated yet */
	else if (pointer_put(o, at, was, f->hook))
		hooked_cnt++;
	else
		again = true;
}

/* Includes pointers that are not resolved yet: the loader would have found the same function. */
static void unhook_one(const struct object *o, void **at, const char *name, bool is_lazy)
{
	struct nv_func *f = func_of(name);

	if (f && *at == f->hook)
		pointer_put(o, at, f->hook, f->real);
}

static bool hook_object(const struct object *o, void *arg)
{
	if (is_drivers(o))
		object_pointers(o, hook_one);
	return false;
}

static bool unhook_object(const struct object *o, void *arg)
{
	if (is_drivers(o))
		object_pointers(o, unhook_one);
	return false;
}

/* A child of fork has its parent's pointers, and another thread of the parent may have held the
 * loader's lock. */
uint32_t nv_hook(void)
{
	uint64_t cnt = process_is_forked() ? seen_cnt : objects_cnt().loaded;

	if (is_quiet() || cnt == seen_cnt || __atomic_exchange_n(&hooking, 1, __ATOMIC_ACQUIRE))
		return hooked_cnt;
	again = false;
	for (unsigned i = 0; i < NV_FUNC_CNT; i++)
		if (!nv_funcs[i].real)
			nv_funcs[i].real = global_symbol(nv_funcs[i].name);
	objects_each(hook_object, NULL);
	seen_cnt = again ? 0 : cnt;
	__atomic_store_n(&hooking, 0, __ATOMIC_RELEASE);
	return hooked_cnt;
}

void nv_unhook(void)
{
	if (hooked_cnt && !process_is_forked() && !is_quiet())
		objects_each(unhook_object, NULL);
}
