/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Slots of threads: taken at a thread's first call, released at its end. */
#include "inject.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

extern void *__libc_stack_end __attribute__((weak));

/* A thread without a slot retries once in this many calls. */
#define WAIT_CALLS 64
/* The kernel maps nothing else this close below the first thread's stack. */
#define MAIN_STACK_MAX (128ull << 20)

/* glibc stores the values of this many keys in each thread, and allocates memory for further ones
 * (PTHREAD_KEY_2NDLEVEL_SIZE; the same since 2.0). */
#define KEYS_THERE 32

/* Key of libc. NULL: there is no key that a thread may set at any time. Other threads then take
 * over the slots of ended threads. */
static int (*key_set)(pthread_key_t key, const void *value);
static pthread_key_t key;

/* The thread ends. Calls in later destructors take a slot again. */
static void thread_end(void *arg)
{
	struct thread *t = arg;
	struct process *p = inject_process;

	if (inject_me.t != t || inject_me.gen != p->alive)
		return;
	busy_set(t, PLACE);
	if (!p->set->ended)
		inject_unfinished(t, inject_now());
	busy_clear(t);
	inject_me.t = NULL;
	__atomic_store_n(&t->slot->tid, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&t->slot->state, CT_SLOT_FREE, __ATOMIC_RELEASE);
}

void thread_setup(void)
{
	int (*create)(pthread_key_t *, void (*)(void *)) = libc_symbol("pthread_key_create");
	int (*remove)(pthread_key_t) = libc_symbol("pthread_key_delete");

	if (!create || !remove || create(&key, thread_end))
		return;
	if (key < KEYS_THERE)
		key_set = libc_symbol("pthread_setspecific");
	else
		remove(key);
}

static void stack_of_main(struct thread *t)
{
	struct rlimit limit = {.rlim_cur = MAIN_STACK_MAX};

	if (!&__libc_stack_end)
		return;
	sys(SYS_prlimit64, 0, RLIMIT_STACK, NULL, &limit);
	t->stack_hi = (uintptr_t)__libc_stack_end;
	t->stack_lo =
		t->stack_hi - (limit.rlim_cur < MAIN_STACK_MAX ? limit.rlim_cur : MAIN_STACK_MAX);
}

/* libc keeps its thread data at the end of the stack that it allocated. (Its functions that return
 * the stack's address allocate memory.) */
static void stack_of_thread(struct thread *t)
{
	uintptr_t end = (uintptr_t)__builtin_thread_pointer();
	struct mapping m;

	if (!maps_find(end - 1, &m))
		return;
	t->stack_lo = m.lo;
	t->stack_hi = end;
}

/* Finds the stack that the system allocated for this thread. The only thread of a forked child may
 * be a copy of any of its parent's threads. */
static void stack_find(struct thread *t, uint64_t sp)
{
	t->stack_lo = t->stack_hi = 0;
	if ((int)t->tid == inject_process->pid) {
		stack_of_main(t);
		if (sp - t->stack_lo < t->stack_hi - t->stack_lo || !process_is_forked())
			return;
	}
	stack_of_thread(t);
}

static bool slot_take(struct ct_shm_slot *s, uint32_t tid)
{
	uint32_t free = CT_SLOT_FREE;

	if (__atomic_load_n(&s->state, __ATOMIC_RELAXED) != CT_SLOT_FREE ||
	    !__atomic_compare_exchange_n(&s->state, &free, CT_SLOT_LIVE, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&s->tid, tid, __ATOMIC_RELEASE);
	return true;
}

/* The slot of a thread that ended without releasing it. tid 0: another thread is taking it. */
static uint32_t slot_steal(struct ct_shm_slot *s, uint32_t tid)
{
	uint32_t old = __atomic_load_n(&s->tid, __ATOMIC_ACQUIRE), was = old;

	if (__atomic_load_n(&s->state, __ATOMIC_RELAXED) != CT_SLOT_LIVE || !old)
		return 0;
	if (old != tid && (is_quiet() || sys(SYS_tgkill, inject_process->pid, old, 0) != -ESRCH))
		return 0;
	return __atomic_compare_exchange_n(&s->tid, &old, tid, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED)
		       ? was
		       : 0;
}

static void thread_init(struct process *p, struct thread *t, unsigned i, uint32_t tid)
{
	struct ct_count *counts = t->counts;
	uint32_t cnt = t->counts_cnt;

	memset(t, 0, sizeof(*t));
	t->counts = counts;
	t->counts_cnt = cnt;
	t->slot = p->slots[i];
	t->ring = (uint8_t *)t->slot + p->shm->ring_off;
	t->ring_sz = p->shm->ring_sz;
	t->tid = tid;
	t->cost_then = t->slot->cost_ns;
}

static void thread_send(struct thread *t, uint64_t now)
{
	struct ct_task *rec = ring_room(t, sizeof(*rec));

	if (!rec) {
		t->slot->drops[CT_DROP_TASK]++;
		return;
	}
	memset(rec, 0, sizeof(*rec));
	rec->rec.size = sizeof(*rec);
	rec->rec.kind = CT_REC_THREAD;
	rec->rec.ts_ns = now;
	rec->rec.tid = t->tid;
	memcpy(rec->comm, t->name, sizeof(rec->comm));
	ring_send(t, rec->rec.size);
}

/* Threads get their names after they have started. So the name is checked at each of the first
 * calls, and later once per millisecond, because the check is a system call. */
#define LOOKS_FIRST 64
#define LOOK_NS	    1000000

cold void thread_look(struct thread *t, uint64_t now)
{
	char name[sizeof(t->name)] = {0};

	t->look_ns = now + (t->look_cnt++ < LOOKS_FIRST ? 0 : LOOK_NS);
	if (is_quiet())
		return;
	gpu_look(inject_process);
	sys(SYS_prctl, PR_GET_NAME, name);
	if (t->look_cnt > 1 && !memcmp(name, t->name, sizeof(name)))
		return;
	memcpy(t->name, name, sizeof(name));
	thread_send(t, now);
}

static struct thread *slot_find(struct process *p, uint32_t tid)
{
	struct ct_shm_slot *s;
	uint32_t was;

	for (unsigned i = 0; i < p->shm->slot_cnt && i < CT_SHM_SLOTS; i++) {
		s = slot_at(p, i);
		if (!s)
			return NULL;
		if (!slot_take(s, tid))
			continue;
		thread_init(p, &p->threads[i], i, tid);
		return &p->threads[i];
	}
	for (unsigned i = 0; i < p->shm->slot_cnt && i < CT_SHM_SLOTS; i++) {
		was = slot_steal(p->slots[i], tid);
		if (!was)
			continue;
		thread_init(p, &p->threads[i], i, was);
		inject_unfinished(&p->threads[i], inject_now());
		p->threads[i].tid = tid;
		return &p->threads[i];
	}
	return NULL;
}

static struct thread *thread_take(struct process *p, uint64_t sp)
{
	struct thread *t, *none = NULL;
	uint32_t tid;
	uint64_t now;

	/* All that follows needs system calls. */
	if (is_quiet())
		return NULL;
	tid = sys(SYS_gettid);
	t = slot_find(p, tid);
	if (!t)
		return NULL;
	/* Set as soon as the slot belongs to the thread, for a signal handler that makes a call. */
	busy_set(t, sp);
	stack_find(t, sp);
	now = inject_now();
	t->random = (now ^ (uint64_t)tid << 32 ^ p->set->sample_seed) | 1;
	t->skip = 1 + t->random / 2 % 64;
	t->since_ns = now;
	/* A signal handler may have run and made a call. */
	if (!__atomic_compare_exchange_n(&inject_me.t, &none, t, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED)) {
		busy_clear(t);
		__atomic_store_n(&t->slot->tid, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&t->slot->state, CT_SLOT_FREE, __ATOMIC_RELEASE);
		return none;
	}
	inject_me.gen = p->alive;
	inject_me.slot = t->slot;
	thread_look(t, now);
	if (unlikely(process_missed)) {
		t->slot->stats[CT_STAT_ENTRIES]++;
		t->slot->drops[CT_DROP_CALL]++;
		process_missed = 0;
	}
	busy_clear(t);
	if (key_set)
		key_set(key, t);
	if (p->set->nv.wanted)
		nv_hook();
	/* In a child of fork, another thread of the parent may have held the loader's lock. */
	if (!process_is_forked())
		nccl_look(p);
	return t;
}

cold struct thread *thread_begin(uint64_t sp)
{
	struct process *p = inject_process;
	struct thread *t = NULL;
	int err = errno;

	if (!p->alive) {
		if (p->given_up || p->muted || !process_begin(0, NULL))
			goto out;
		p = inject_process;
	}
	if (inject_me.gen != p->alive)
		inject_me = (struct tls){.gen = p->alive, .process = p};
	t = inject_me.t;
	if (t)
		goto out;
	if (inject_me.wait) {
		inject_me.wait--;
	} else {
		t = thread_take(p, sp);
		if (!t)
			inject_me.wait = WAIT_CALLS;
	}
	if (!t)
		__atomic_fetch_add(&p->shm->no_slot_cnt, 1, __ATOMIC_RELAXED);
out:
	errno = err;
	return t;
}
