/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fields of a communicator, as comm_read() in bpf/pointee.bpf.h reads them. Each NCCL call with a
 * communicator has them in its record.
 *
 * Another thread may destroy the communicator and free its memory. The kernel could copy it safely,
 * but that takes longer than ten driver calls. A successful call has just used the communicator, so
 * it exists unless it is being destroyed now, and the destroying call passes through here first. A
 * reader publishes the communicator that it holds, then checks that it is known. The destroying
 * thread marks it as unknown until it is destroyed, then waits for readers that hold it.
 */
#include "inject.h"

#include <string.h>
#include <sys/uio.h>

/* Communicators whose fields could all be read, indexed by their hash; a new one replaces another
 * in its slot. DYING: it is being destroyed. */
#define KNOWN_LOG 6
static uint64_t known[1 << KNOWN_LOG];
#define DYING 1
static bool learns;	/* used by threads that destroy one */
#define WAITS_MAX 10000 /* one second */

static uint64_t *known_at(uint64_t comm)
{
	return &known[comm * 0x9e3779b97f4a7c15ull >> (64 - KNOWN_LOG)];
}

void comm_hook(const struct object *lib)
{
	/* Each function usually has two names. */
	static const char *const frees[] = {"ncclCommDestroy", "pncclCommDestroy", "ncclCommAbort",
					    "pncclCommAbort"};
	bool all = true;

	for (unsigned i = 0; i < sizeof(frees) / sizeof(*frees); i++) {
		const ElfW(Sym) *s = object_symbol(lib, frees[i]);
		void *to = s ? hook_answer((void *)(lib->base + s->st_value)) : NULL;

		if (is_thunk(to))
			hook_role_set(thunk_id(to), HOOK_FREES);
		else
			all &= !s;
	}
	learns = all;
}

static bool is_held(uint64_t comm)
{
	struct process *p = inject_process;

	for (unsigned i = 0; i < CT_SHM_SLOTS; i++)
		if (&p->threads[i] != inject_me.t &&
		    __atomic_load_n(&p->threads[i].comm, __ATOMIC_SEQ_CST) == comm)
			return true;
	return false;
}

cold void comm_free_begin(uint64_t comm)
{
	uint64_t was;

	/* Readers that hold none have 0. */
	if (!comm)
		return;
	was = __atomic_exchange_n(known_at(comm), comm | DYING, __ATOMIC_SEQ_CST);
	/* At most two at a time, in one slot. */
	if (was & DYING)
		learns = false;
	for (unsigned i = 0; i < WAITS_MAX && is_held(comm); i++)
		nap();
}

cold void comm_free_end(uint64_t comm)
{
	uint64_t was = comm | DYING;

	__atomic_compare_exchange_n(known_at(comm), &was, 0, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_RELAXED);
}

static void learn(uint64_t comm)
{
	uint64_t was = __atomic_load_n(known_at(comm), __ATOMIC_RELAXED);

	if (learns && !(was & DYING))
		__atomic_compare_exchange_n(known_at(comm), &was, comm, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED);
}

static bool hold(struct thread *t, uint64_t comm)
{
	uint64_t *at = known_at(comm);

	if (__atomic_load_n(at, __ATOMIC_RELAXED) != comm)
		return false;
	__atomic_store_n(&t->comm, comm, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(at, __ATOMIC_SEQ_CST) == comm)
		return true;
	__atomic_store_n(&t->comm, 0, __ATOMIC_RELEASE);
	return false;
}

static void release(struct thread *t)
{
	__atomic_store_n(&t->comm, 0, __ATOMIC_RELEASE);
}

/* Fields of a communicator, and where they are copied to. */
struct words {
	struct iovec to[3], from[3];
	unsigned cnt;
};

static void copy(const struct words *w)
{
	for (unsigned i = 0; i < w->cnt; i++)
		memcpy(w->to[i].iov_base, w->from[i].iov_base, w->to[i].iov_len);
}

/* Lets the kernel copy the fields. Returns how many were readable; those after them are not copied.
 */
static cold unsigned copy_safe(const struct words *w)
{
	unsigned cnt = 0;
	long n;

	if (is_quiet())
		return 0;
	n = kernel_copy(w->to, w->cnt, w->from, w->cnt);
	for (; cnt < w->cnt && n >= (long)w->to[cnt].iov_len; cnt++)
		n -= w->to[cnt].iov_len;
	return cnt;
}

int comm_read(struct thread *t, const struct call *call, const struct ct_cap *cap, bool ok,
	      struct ct_comm *c)
{
	const struct ct_comm_layout place = inject_process->shm->comm_layout;
	const size_t len = offsetof(struct ct_comm, version) - offsetof(struct ct_comm, hash);
	uint64_t counts[CT_COMM_COUNTS], at = call_word(call, cap->arg);
	struct words w;
	unsigned got;

	if (cap->flags & CT_CAP_F_DEREF && at && memory_read(t, call->sp, &at, at, sizeof(at)))
		return -EFAULT;
	*c = (struct ct_comm){.handle = at, .version = place.version};
	if (!place.off || !at)
		return -EFAULT;
	w = (struct words){
		.to = {{&c->magic, sizeof(c->magic)}, {&c->hash, len}, {counts, sizeof(counts)}},
		.from = {{(void *)at, sizeof(c->magic)},
			 {(void *)(at + place.off), len},
			 {(void *)(at + place.counts_off), sizeof(counts)}},
		.cnt = place.counts_off ? 3 : 2,
	};
	if (ok && hold(t, at)) {
		copy(&w);
		got = w.cnt;
		release(t);
	} else {
		got = copy_safe(&w);
		if (got == w.cnt)
			learn(at);
	}
	for (unsigned i = 0; i < CT_COMM_COUNTS && got == 3; i++)
		c->made += counts[i];
	return got >= 2 ? (int)sizeof(*c) : -EFAULT;
}
