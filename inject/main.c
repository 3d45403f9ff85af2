/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Entry points of the library. It is preloaded (LD_PRELOAD) and runs at program start, or when the
 * program looks up a driver function; or the driver loads it in cuInit() (CUDA_INJECTION64_PATH).
 */
#include "gate.h"

#include "ct_late.h"
#include "ct_nvtx.h"

#include <elf.h>
#include <limits.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#define STEM	 "libcuda.so"
#define OWN_NAME "libcudatrace-inject"

/* thunk.S */
struct real_fns {
	void *(*dlsym)(void *handle, const char *name);
	void *prctl, *syscall;
};
extern struct real_fns inject_real;

static bool wanted;
static const char *chain;

/* The functions that programs would call without this library, for thunk.S; NULL: not searched yet.
 */
struct real_fns inject_real;

void inject_find_real(void);
void inject_find_real(void)
{
	inject_real.prctl = next_symbol("prctl");
	inject_real.syscall = next_symbol("syscall");
	inject_real.dlsym = next_symbol("dlsym");
}

static bool is_libcuda(const struct object *o, void *arg)
{
	if (!object_is(o, STEM))
		return false;
	*(struct object *)arg = *o;
	return true;
}

/* A program that calls other CUDA libraries will load the driver, so load it now: recording of a
 * process begins with it. */
static void begin_early(void)
{
	static bool tried;
	struct object lib;

	if (!inject_lib.dyn && !tried && !is_quiet() && libc_open(STEM ".1", 0x1) &&
	    objects_each(is_libcuda, &lib))
		process_begin(CT_SHM_PRELOAD, &lib);
	tried = true;
}

/* The program looks up an NCCL function that was not found before. */
static void begin_for_nccl(void *p)
{
	struct object lib;

	if (!object_of_address(p, &lib) || !nccl_is_lib(&lib))
		return;
	begin_early();
	if (process_is_new_child() && process_begin(0, NULL))
		nccl_look(inject_process);
}

/* Functions of other libraries (cudaMalloc, cublasCreate) continue in lower case. Finding the
 * object of an address takes 40 ns for each object of the process. */
static bool is_drivers(const char *name)
{
	return name[2] >= 'A' && name[2] <= 'Z';
}

#define RTLD_NEXT_HANDLE ((void *)-1)

/* Looks for a new libnccl. In a child of fork, another thread of the parent may have held the
 * loader's lock, which this takes, and dlsym() does not. It was free if the child has loaded an
 * object itself. */
static void look_for_nccl(void)
{
	if (inject_process->alive && !is_quiet() && (!process_is_forked() || objects_are_new()))
		nccl_look(inject_process);
}

/* dlsym() for names that begin with "cu" or "nccl". NULL: the caller must look it up itself. */
void *inject_dlsym(void *handle, const char *name);
void *inject_dlsym(void *handle, const char *name)
{
	bool nccl = name && nccl_is_name(name);
	struct object lib;
	void *p, *answer;

	if (!wanted)
		return NULL;
	look_for_nccl();
	if (!name || handle == RTLD_NEXT_HANDLE || !(nccl || (name[0] == 'c' && name[1] == 'u')))
		return NULL;
	if (!inject_real.dlsym)
		inject_find_real();
	p = inject_real.dlsym ? inject_real.dlsym(handle, name) : NULL;
	if (!p)
		return NULL;
	/* It may be a wrapper in front of the driver, such as a memory limiter. */
	if (!inject_lib.dyn && !nccl && is_drivers(name) &&
	    ((object_of_address(p, &lib) && object_is(&lib, STEM)) ||
	     objects_each(is_libcuda, &lib)))
		process_begin(CT_SHM_PRELOAD, &lib);
	answer = hook_answer(p);
	if (nccl && answer == p && !inject_process->alive) {
		begin_for_nccl(p);
		answer = hook_answer(p);
	}
	return answer;
}

struct load_ctx {
	struct object lib; /* the libcuda after us in load order; dyn NULL: none */
	bool own, nccl;
};

static bool is_behind(const struct object *o, void *arg)
{
	struct load_ctx *l = arg;

	l->own |= object_has(o, inject_thunks, false, false);
	l->nccl |= l->own && nccl_is_lib(o);
	return l->own && is_libcuda(o, &l->lib);
}

/* NVIDIA's profilers refuse to start if the driver is to load another tool. These are their names,
 * as the kernel truncates them, and those of programs that they start. (src/inject/environment.c
 * handles them as the command itself.) */
static void leave_to_profiler(const char *comm)
{
	static const char *const names[] = {"ncu", "nsys", "nv-nsight-cu-cl", "nvprof"};
	const char *path = env_get("CUDA_INJECTION64_PATH"), *slash = path ? strrchr(path, '/') : 0;

	for (unsigned i = 0; slash && i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(comm, names[i]) && !strncmp(slash + 1, OWN_NAME, strlen(OWN_NAME))) {
			env_remove("CUDA_INJECTION64_PATH");
			log_warn(
				"CUDA_INJECTION64_PATH is left to the profiler: the library is only "
				"preloaded",
				0);
		}
}

/* Otherwise the program has run before. */
static bool is_preloaded(void)
{
	const char *list = env_get("LD_PRELOAD");

	for (; list && *list; list++)
		if (!strncmp(list, OWN_NAME, strlen(OWN_NAME)))
			return true;
	return false;
}

__attribute__((constructor)) static void begin(void)
{
	struct load_ctx l = {0};
	char comm[16] = "";

	libc_setup();
	/* Another libc than glibc: its programs cannot load NVIDIA's driver. */
	if (!inject_libc.objects || !inject_libc.auxv || !inject_libc.errno_at ||
	    inject_libc.auxv(AT_SECURE))
		return;
	sandbox_at_start(comm);
	log_at_load(is_preloaded());
	/* cudatrace_attach() follows. Other threads of the program may read its environment. */
	if (!strcmp(comm, LATE_THREAD_NAME))
		return;
	chain = env_get(CT_ENV_CHAIN);
	leave_to_profiler(comm);
	wanted = process_setup();
	if (wanted)
		thread_setup();
	/* The program is linked to the driver, and a preloaded library runs first. If the driver
	 * loads the library, it is the other way round, and InitializeInjection() follows. */
	if (wanted && objects_each(is_behind, &l))
		process_begin(CT_SHM_PRELOAD, &l.lib);
	else if (l.nccl)
		begin_early();
}

static int next_in_chain(void)
{
	void *(*open)(const char *, int) = libc_symbol("dlopen");
	int (*init)(void) = NULL;
	void *lib;

	if (!inject_real.dlsym)
		inject_find_real();
	lib = open && inject_real.dlsym ? open(chain, 0x2) : NULL; /* RTLD_NOW */
	if (lib)
		init = inject_real.dlsym(lib, "InitializeInjection");
	if (!init)
		log_debug("the library of " CT_ENV_CHAIN " cannot be loaded", 0);
	return init ? init() : 1;
}

static const struct ct_nvtx_table *nvtx;

void nvtx_hook(const struct ct_shm_set *set)
{
	for (unsigned i = 0; nvtx && i < nvtx->cnt; i++)
		hook_place(set, nvtx->funcs[i].name, nvtx->funcs[i].at, nvtx->funcs[i].quiet);
}

/* Called by nvtx/. */
EXPORT void cudatrace_nvtx_offer(const struct ct_nvtx_table *table);
EXPORT void cudatrace_nvtx_offer(const struct ct_nvtx_table *table)
{
	if (!wanted)
		return;
	nvtx = table;
	if (inject_process->alive)
		nvtx_hook(inject_process->set);
	else
		begin_early();
}

static bool copy_path(const struct object *o, void *path)
{
	size_t len = strlen(o->path);

	if (!object_is(o, STEM) || len >= PATH_MAX)
		return false;
	memcpy(path, o->path, len + 1);
	return true;
}

/* No call of the driver keeps it loaded here: another thread may unload it. */
static bool pin_libcuda(void)
{
	char path[PATH_MAX];

	return objects_each(copy_path, path) && hook_pin(path);
}

/* Called in a thread of its own (src/inject/late_code.c). Returns 0 or -errno. */
EXPORT int cudatrace_attach(const char *socket, const uint64_t token[2]);
EXPORT int cudatrace_attach(const char *socket, const uint64_t token[2])
{
	struct object lib;
	int err;

	/* begin() did nothing either. */
	if (!inject_libc.objects || !inject_libc.auxv || !inject_libc.errno_at)
		return -ENOSYS;
	guard_setup();
	if (!pin_libcuda() || !objects_each(is_libcuda, &lib))
		return -ENOENT;
	if (!wanted)
		thread_setup();
	wanted = true;
	err = process_attach(socket, token, &lib);
	if (!err)
		gpu_begin_late();
	return err;
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
	/* It may be another libcuda's. */
	look_for_nccl();
	gpu_begin();
	return chain && *chain ? next_in_chain() : 1;
}
