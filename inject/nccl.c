/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records calls of NCCL, which has no dispatch pointers. Its calls reach the library through
 * pointers that programs get from dlsym() (main.c), and through tables that the dynamic loader
 * fills in all objects that call NCCL, including NCCL itself.
 *
 * NCCL and its callers may be loaded at any time. A program usually calls dlsym() after loading an
 * object, so each dlsym() checks for new objects, and so does the first call of each thread. The
 * loader appends objects to its list, and a check continues where the last one ended, because
 * PyTorch's objects have a million pointers.
 */
#include "inject.h"

#include <string.h>

#define STEM   "libnccl.so"
#define PREFIX "nccl"
/* Maximum time for retrying an object that the loader has not finished with. */
#define AGAIN_MAX_NS 10000000000ull
#define WAITS_MAX    10000 /* one second */
#define TRIES_MAX    10
#define MORE_MAX     8 /* further libcudas */

static struct object lib; /* path NULL: none was found yet */
static bool is_hooked;	  /* its functions are hooked, and nothing is left to do */
static uint32_t cnt;
static uint32_t looking; /* id of the thread that searches */
static unsigned seen;	 /* objects searched, from the first in the list */
static bool unready;	 /* the loader has not finished with the next one */
static uint64_t news_ns; /* time of the last new object */
/* Result of the last completed search: whether another is needed. */
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

/* Another thread may wait for the loader's lock, which this one may hold: wait only briefly. */
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

/* Includes pointers that are not resolved yet: the loader would have found the same function. */
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

/* The first copy of NCCL; others in the process are ignored. */
static void begin(const struct ct_shm_set *set)
{
	int err;

	if (!hook_has(set, PREFIX) || !objects_each(find, NULL))
		return;
	err = process_more(lib.path, hook);
	is_hooked = !err;
	seen = 0;
	if (err && !set->probed)
		log_debug("NCCL's functions are not traced", -err);
}

static bool is_same(const struct objects_cnt *now)
{
	return now->loaded == __atomic_load_n(&seen_cnt.loaded, __ATOMIC_ACQUIRE) &&
	       now->unloaded == __atomic_load_n(&seen_cnt.unloaded, __ATOMIC_ACQUIRE);
}

/* Returns false if an object was unloaded meanwhile, so that positions in the list have changed. */
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

/* Another libcuda, such as that of a compatibility package next to the driver's own. */
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
		log_warn(
			"a second libcuda of the process is not traced: the tracer did not respond",
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
	/* Must come last, because a thread that finds no change returns at once. */
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
	/* Another thread may have ended tracing meanwhile, when it could not unbind the objects
	 * itself. */
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

	/* A thread that was searching does not exist in the child. */
	looking = 0;
	for (more_cnt = 0; more_cnt < all;)
		if (process_more(more[more_cnt].path, more_hooked_before))
			more_cnt++;
	if (is_hooked)
		process_more(lib.path, hooked_before);
}

void nccl_again(void)
{
	if (!is_hooked || !take_turn())
		return;
	seen = 0;
	seen_cnt = (struct objects_cnt){0};
	end_turn();
	process_more(lib.path, hooked_before);
}

void nccl_unhook(void)
{
	if (!is_hooked || process_is_forked() || is_quiet() || !take_turn())
		return;
	objects_each(unbind_object, NULL);
	end_turn();
}
