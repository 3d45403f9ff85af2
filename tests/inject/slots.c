/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * slots LIBCUDA, with the names of its functions on standard input: counts those with a dispatch
 * pointer that inject/hook.c can find. LIBCUDA is a real driver's; no GPU is needed. Linked to
 * inject/hook.c, pointer.c, elf.c and thunk.S; the functions that a thunk calls are here.
 *
 *   functions N slots N
 *   without NAME...
 *
 * Calls some through the pointers, then when they are off, then after settings have changed, and
 * then after the pointers have been restored. Exit status 0 if the driver's results are the same
 * each time, and the thunks pass on the calls that are neither off nor behind the settings.
 */
#include "../../inject/gate.h"
#include "../../inject/inject.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hook inject_hooks[CT_MAX_FUNCS];
static struct process process;
struct process *inject_process = &process;
struct {
	void *(*dlsym)(void *, const char *);
	void *prctl, *syscall;
} inject_real;
uint32_t inject_sandboxed;
void inject_find_real(void);
void inject_clock_off(void);
void *inject_enter(struct call *call);
void inject_exit(struct call *call, uint64_t result);
void *inject_dlsym(void *handle, const char *name);

static struct ct_shm_set set;
static unsigned seen;

void *inject_enter(struct call *call)
{
	seen++;
	call->t = NULL;
	return inject_hooks[call->func_id].real;
}

void inject_exit(struct call *call, uint64_t result)
{
}

__attribute__((constructor)) void inject_find_real(void)
{
	libc_setup();
	inject_real.dlsym = libc_symbol("dlsym");
	inject_real.prctl = libc_symbol("prctl");
	inject_real.syscall = libc_symbol("syscall");
}

void inject_clock_off(void)
{
}

bool guard_loader(void)
{
	return false;
}

void guard_release(void)
{
}

void *inject_dlsym(void *handle, const char *name)
{
	return inject_real.dlsym(handle, name);
}

static bool is_driver(const struct object *o, void *arg)
{
	if (!object_is(o, "libcuda.so"))
		return false;
	inject_lib = *o;
	return true;
}

static void read_names(void)
{
	char name[256];
	uint32_t at = 1;

	while (scanf("%255s", name) == 1 && set.fn_cnt < CT_MAX_FUNCS - 1 &&
	       at + strlen(name) < CT_SHM_NAMES_SZ) {
		set.name_off[++set.fn_cnt] = at;
		strcpy(set.names + at, name);
		at += strlen(name) + 1;
	}
	set.fn_cnt++;
}

static void all_off(uint64_t changed_ns)
{
	for (uint32_t id = 1; id < set.fn_cnt; id++)
		inject_hooks[id].off_ns = changed_ns;
}

/* The driver's results without a device. calls: the number that reaches inject_enter(). */
#define CALLS 3
static unsigned ask(void *lib, unsigned *calls)
{
	int (*sync)(void) = (int (*)(void))dlsym(lib, "cuCtxSynchronize");
	int (*count)(int *) = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
	int (*attribute)(int *, int, int) =
		(int (*)(int *, int, int))dlsym(lib, "cuDeviceGetAttribute");
	unsigned before = seen, answers;
	int n = 7;

	answers = sync() << 20 | count(&n) << 10 | attribute(&n, 1, 0);
	*calls = seen - before;
	return answers;
}

int main(int argc, char **argv)
{
	void *lib = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	struct hooked_cnt cnt = {0};
	unsigned answers[5], calls[5] = {0};

	if (!lib) {
		fprintf(stderr, "slots: %s\n", dlerror());
		return 2;
	}
	/* Initialises the driver as far as possible. */
	((int (*)(int))dlsym(lib, "cuInit"))(0);
	answers[0] = ask(lib, &calls[0]);
	read_names();
	if (!objects_each(is_driver, NULL))
		return 2;
	for (unsigned i = 0; i < sizeof(set.specs) / sizeof(set.specs[0]); i++)
		set.specs[i].of.level = CT_LEVEL_TRACE;
	process.set = &set;
	hook_all(&set, false, &cnt);
	process.set = NULL;
	/* Without settings no function is off. */
	all_off(0);
	answers[1] = ask(lib, &calls[1]);
	process.set = &set;
	set.changed_ns = 1;
	all_off(1);
	answers[2] = ask(lib, &calls[2]);
	set.changed_ns = 2;
	answers[3] = ask(lib, &calls[3]);
	unhook_all();
	answers[4] = ask(lib, &calls[4]);
	printf("functions %u slots %u\nwithout", set.fn_cnt - 1, cnt.slots);
	for (uint32_t id = 1; id < set.fn_cnt; id++)
		if (!(inject_is_hooked[id / 64] >> (id % 64) & 1))
			printf(" %s", set.names + set.name_off[id]);
	printf("\n");
	for (unsigned i = 0; i < 5; i++) {
		if (answers[i] == answers[0] && calls[i] == (i == 1 || i == 3 ? CALLS : 0))
			continue;
		fprintf(stderr,
			"slots: the %u. time: answers 0x%x, and 0x%x before; %u calls seen\n",
			i + 1, answers[i], answers[0], calls[i]);
		return 1;
	}
	return 0;
}
