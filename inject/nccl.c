/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NCCL, which has no dispatch pointers: its calls come to the library by the pointers that programs
 * get, those of dlsym() (main.c) and those that the dynamic loader puts into the tables of all
 * objects that call NCCL, NCCL itself among them.
 *
 * NCCL, or who calls it, may be loaded at any time. Who loads an object then asks dlsym() for
 * something in it, as a rule: so there is a look at what was loaded whenever dlsym() is called, and
 * another when a thread makes its first call. Objects are added at the end of the loader's list: a
 * look goes on where the last one ended, for PyTorch's have a million pointers.
 */
#include "inject.h"

#include <string.h>

#define STEM   "libnccl.so"
#define PREFIX "nccl"
/* So long an object is looked at again that the loader is not through with. */
#define AGAIN_MAX_NS 10000000000ull
#define WAITS_MAX    10000 /* a second */
#define TRIES_MAX    10
#define MORE_MAX     8 /* further libcudas */

static struct object lib; /* path NULL: none was found yet */
static bool is_hooked;	  /* its functions are; else there is nothing to be done any more */
static uint32_t cnt;
static uint32_t looking; /* thread id of who looks */
static unsigned seen;	 /* objects, the first of the list */
static bool unready;	 /* the loader is not through with the next one */
static uint64_t news_ns; /* when there was news */
/* Of the last look that is over: whether there is to be another. */
static struct objects_cnt seen_cnt;
static bool again;

bool nccl_is_name(const char *name)
{
	return !strncmp(name + (*name == 'p'), PREFIX, sizeof(PREFIX) - 1);
}

bool nccl_is_lib(const struct object *o)
{
	return object_is(o, STEM);
}

/* Another thread may wait for the loader, which this one may have: not for long. */
static bool take_turn(void)
{
	uint32_t tid = sys(SYS_gettid), none = 0;

	for (unsigned i = 0; i < WAITS_MAX; i++) {
		if (__atomic_compare_exchange_n(&looking, &none, tid, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
		if (none == tid)
			return false;
		none = 0;
		nap();
	}
	return false;
}

static void end_turn(void)
{
	__atomic_store_n(&looking, 0, __ATOMIC_RELEASE);
}

static bool has(const struct object *o, void *p)
{
	return object_has(o, p, false, false);
}

static void bind_one(const struct object *o, void **at, const char *name, bool is_lazy)
{
	void *was = *at, *to;

	if (!nccl_is_name(name) || is_thunk(was))
		return;
	to = hook_answer(was);
	if (to == was && is_lazy)
		to = hook_lazy(&lib, name);
	if (is_thunk(to))
		unready |= !pointer_put(o, at, was, to);
	else /* not relocated yet? */
		unready |= (uintptr_t)was < o->base && !objects_each(has, was);
}

static bool bind_object(const struct object *o, void *arg)
{
	unsigned *at = arg;

	if ((*at)++ < seen)
		return false;
	object_pointers(o, bind_one);
	if (!unready)
		seen = *at;
	return false;
}

/* Also those that were not looked up before: the loader would have found the same. */
static void unbind_one(const struct object *o, void **at, const char *name, bool is_lazy)
{
	void *now = *at;

	if (nccl_is_name(name) && is_thunk(now))
		pointer_put(o, at, now, thunk_real(now));
}

static bool unbind_object(const struct object *o, void *arg)
{
	object_pointers(o, unbind_one);
	return false;
}

static int hook(struct hooked_cnt *to)
{
	if (!hook_named(inject_process->set, &lib, PREFIX, to))
		return -ENOENT;
	comm_hook(&lib);
	cnt = to->pointers;
	return 0;
}

static bool find(const struct object *o, void *arg)
{
	if (nccl_is_lib(o))
		lib = *o;
	return lib.path;
}

/* The first copy of NCCL; another that a process may have is not looked at. */
static void begin(const struct ct_shm_set *set)
{
	int err;

	if (!hook_has(set, PREFIX) || !objects_each(find, NULL))
		return;
	err = process_more(lib.path, hook);
	is_hooked = !err;
	seen = 0;
	if (err && !set->probed)
		say("the functions of NCCL are not traced", -err);
}

static bool is_same(const struct objects_cnt *now)
{
	return now->loaded == __atomic_load_n(&seen_cnt.loaded, __ATOMIC_ACQUIRE) &&
	       now->unloaded == __atomic_load_n(&seen_cnt.unloaded, __ATOMIC_ACQUIRE);
}

/* False: an object was unloaded meanwhile, so that others were not where they were. */
static bool bind_all(struct objects_cnt *now)
{
	unsigned at = 0;

	*now = objects_cnt();
	if (now->unloaded != seen_cnt.unloaded)
		seen = 0;
	if (!is_same(now))
		news_ns = inject_now();
	unready = false;
	objects_each(bind_object, &at);
	return objects_cnt().unloaded == now->unloaded;
}

/* Another libcuda: that of a compatibility package beside the driver's own, for example. */
static bool is_more(const struct object *o, void *arg)
{
	if (!inject_lib.dyn || hook_is_known(o) || !object_is(o, "libcuda.so"))
		return false;
	*(struct object *)arg = *o;
	return true;
}

static struct object more[MORE_MAX];
static struct hooked_cnt more_got[MORE_MAX];
static unsigned more_cnt;

static int hook_more_now(struct hooked_cnt *to)
{
	hook_more(inject_process->set, &more[more_cnt], to);
	more_got[more_cnt++] = *to;
	return 0;
}

static void look_for_more(void)
{
	int err;

	while (more_cnt < MORE_MAX && objects_each(is_more, &more[more_cnt])) {
		unsigned before = more_cnt;

		err = process_more(more[more_cnt].path, hook_more_now);
		if (more_cnt > before)
			continue;
		tell("a second libcuda is not traced in the process: no answer of the tracer",
		     -err);
		return;
	}
}

static void look(struct process *p)
{
	struct objects_cnt now = objects_cnt();

	look_for_more();
	if (!lib.path)
		begin(p->set);
	for (unsigned i = 0; is_hooked && !bind_all(&now); i++)
		if (i == TRIES_MAX)
			return;
	/* Not before: who finds that there is no news goes on at once. */
	__atomic_store_n(&again, unready, __ATOMIC_RELAXED);
	__atomic_store_n(&seen_cnt.unloaded, now.unloaded, __ATOMIC_RELEASE);
	__atomic_store_n(&seen_cnt.loaded, now.loaded, __ATOMIC_RELEASE);
}

void nccl_look(struct process *p)
{
	struct objects_cnt now = objects_cnt();
	int err = errno;

	if (!p->alive || is_quiet() ||
	    (is_same(&now) && (!again || inject_now() - news_ns > AGAIN_MAX_NS)) || !take_turn())
		return;
	look(p);
	/* It may have ended meanwhile, and found that it is not its turn. */
	if (p->given_up && is_hooked)
		objects_each(unbind_object, NULL);
	end_turn();
	errno = err;
}

static int hooked_before(struct hooked_cnt *to)
{
	to->pointers = cnt;
	return 0;
}

static int more_hooked_before(struct hooked_cnt *to)
{
	*to = more_got[more_cnt++];
	return 0;
}

void nccl_forked(void)
{
	unsigned all = more_cnt;

	/* Who looked at that moment is not there. */
	looking = 0;
	for (more_cnt = 0; more_cnt < all;)
		if (process_more(more[more_cnt].path, more_hooked_before))
			more_cnt++;
	if (is_hooked)
		process_more(lib.path, hooked_before);
}

void nccl_unhook(void)
{
	if (!is_hooked || process_is_forked() || is_quiet() || !take_turn())
		return;
	objects_each(unbind_object, NULL);
	end_turn();
}
