/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A communicator's own words, as comm_read() of bpf/pointee.bpf.h has them: each of NCCL's calls
 * that has a communicator says which.
 *
 * Its memory may go, when another thread destroys it. The kernel can copy it all the same, which
 * takes longer than ten calls of the driver. A call that went well has just used it, so that it is
 * there unless it is being destroyed at this moment; and who is about to do that comes through here
 * first. Who reads says what it holds, and then looks whether that is known; who destroys says that
 * it is not, until it has done so, and then waits for those who hold it.
 */
#include "inject.h"

#include <string.h>
#include <sys/uio.h>

/* Communicators whose words could all be read, each where its hash says: others push it out.
 * DYING: it is being destroyed. */
#define KNOWN_LOG 6
static uint64_t known[1 << KNOWN_LOG];
#define DYING 1
static bool learns;	/* who destroys one comes here */
#define WAITS_MAX 10000 /* a second */

static uint64_t *known_at(uint64_t comm)
{
	return &known[comm * 0x9e3779b97f4a7c15ull >> (64 - KNOWN_LOG)];
}

void comm_hook(const struct object *lib)
{
	/* Two names of one function each, as a rule. */
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

	/* Who holds none holds that one. */
	if (!comm)
		return;
	was = __atomic_exchange_n(known_at(comm), comm | DYING, __ATOMIC_SEQ_CST);
	/* Two at a time, in one place. */
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

/* Places of a communicator, and where they go. */
struct words {
	struct iovec to[3], from[3];
	unsigned cnt;
};

static void copy(const struct words *w)
{
	for (unsigned i = 0; i < w->cnt; i++)
		memcpy(w->to[i].iov_base, w->from[i].iov_base, w->to[i].iov_len);
}

/* How many of them are there: the others, from there on, are not copied. */
static cold unsigned copy_safe(const struct words *w)
{
	unsigned cnt = 0;
	long n;

	if (is_quiet())
		return 0;
	n = sys(SYS_process_vm_readv, inject_process->pid, w->to, w->cnt, w->from, w->cnt, 0);
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
