/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How the library gets its turn: preloaded (LD_PRELOAD), at the program's start or when it looks up
 * a function of the driver; or loaded by the driver in cuInit() (CUDA_INJECTION64_PATH).
 */
#include "inject.h"

#include "ct_nvtx.h"

#include <stdlib.h>
#include <sys/auxv.h>

#define EXPORT __attribute__((visibility("default")))

#define STEM "libcuda.so"

static bool wanted;
static const char *chain;

/* The real one, for thunk.S; NULL: not looked for yet. */
void *(*inject_real_dlsym)(void *handle, const char *name);

void inject_find_dlsym(void);
void inject_find_dlsym(void)
{
	inject_real_dlsym = libc_symbol("dlsym");
}

static bool is_libcuda(const struct object *o, void *arg)
{
	if (!object_is(o, STEM))
		return false;
	*(struct object *)arg = *o;
	return true;
}

/* dlsym() for names that begin with "cu". NULL: the caller is to ask itself. */
void *inject_dlsym(void *handle, const char *name);
void *inject_dlsym(void *handle, const char *name)
{
	struct object lib;
	void *p;

	if (!wanted)
		return NULL;
	if (!inject_real_dlsym)
		inject_find_dlsym();
	p = inject_real_dlsym ? inject_real_dlsym(handle, name) : NULL;
	if (!p)
		return NULL;
	if (!inject_lib.dyn && object_of_address(p, &lib) && object_is(&lib, STEM))
		process_begin(CT_SHM_PRELOAD, &lib);
	return hook_answer(p);
}

struct loaded {
	struct object *lib;
	bool own, lib_behind;
};

static bool is_behind(const struct object *o, void *arg)
{
	struct loaded *l = arg;

	l->own |= object_has(o, inject_thunks, false, false);
	l->lib_behind = l->own && is_libcuda(o, l->lib);
	return l->lib_behind;
}

__attribute__((constructor)) static void begin(void)
{
	struct object lib;
	struct loaded l = {.lib = &lib};

	if (getauxval(AT_SECURE))
		return;
	chain = getenv(CT_ENV_CHAIN);
	wanted = process_setup();
	/* The program is linked to it, and what is preloaded comes first. When the driver loads
	 * the library it is the other way round, and InitializeInjection() comes next. */
	if (wanted && objects_each(is_behind, &l))
		process_begin(CT_SHM_PRELOAD, &lib);
}

static int next_in_chain(void)
{
	void *(*open)(const char *, int) = libc_symbol("dlopen");
	int (*init)(void) = NULL;
	void *lib;

	if (!inject_real_dlsym)
		inject_find_dlsym();
	lib = open && inject_real_dlsym ? open(chain, 0x2) : NULL; /* RTLD_NOW */
	if (lib)
		init = inject_real_dlsym(lib, "InitializeInjection");
	if (!init)
		say("the library of " CT_ENV_CHAIN " cannot be loaded", 0);
	return init ? init() : 1;
}

static const struct ct_nvtx_table *nvtx;

void nvtx_hook(const struct ct_shm_set *set)
{
	for (unsigned i = 0; nvtx && i < nvtx->cnt; i++)
		hook_place(set, nvtx->funcs[i].name, nvtx->funcs[i].at, nvtx->funcs[i].quiet);
}

/* Called by nvtx/. A program may begin ranges before it loads the driver, which is loaded then:
 * what is seen of a process begins with it. */
EXPORT void cudatrace_nvtx_offer(const struct ct_nvtx_table *table);
EXPORT void cudatrace_nvtx_offer(const struct ct_nvtx_table *table)
{
	void *(*open)(const char *, int) = libc_symbol("dlopen");
	struct object lib;

	if (!wanted)
		return;
	nvtx = table;
	if (inject_process->alive)
		nvtx_hook(inject_process->set);
	else if (!inject_lib.dyn && open && open(STEM ".1", 0x1) && objects_each(is_libcuda, &lib))
		process_begin(CT_SHM_PRELOAD, &lib);
}

/* Called by the driver, in cuInit(). */
EXPORT int InitializeInjection(void);
EXPORT int InitializeInjection(void)
{
	struct object lib;

	if (wanted && !inject_lib.dyn &&
	    ((object_of_address(__builtin_return_address(0), &lib) && object_is(&lib, STEM)) ||
	     objects_each(is_libcuda, &lib)))
		process_begin(CT_SHM_INJECTION, &lib);
	gpu_begin();
	return chain && *chain ? next_in_chain() : 1;
}
