/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "proc.h"

#include "samples.h"
#include "stalls.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/profile_budget.h"

/* Sweeps begin above this number of processes or threads. */
#define LOOK_MIN 256

/* If an exit record was dropped or rejected, threads and processes end unnoticed. Their rows are
 * removed before the whole process or trace ends. */
static bool is_gone(uint32_t id)
{
	return kill((pid_t)id, 0) && errno == ESRCH;
}

static unsigned next_look(unsigned cnt)
{
	return 2 * cnt < LOOK_MIN ? LOOK_MIN : 2 * cnt;
}

/* A sweep is due when the number of rows has doubled since the last. */
static bool is_time_to_look(const struct procs *ps, unsigned cnt, struct sweep *l)
{
	if (!l->at)
		l->at = LOOK_MIN;
	if (!ps->live || cnt < l->at)
		return false;
	if (l->ns >= ps->record_ns) {
		l->at = next_look(cnt);
		return false;
	}
	l->ns = now_ns();
	return true;
}

static bool may_go(uint32_t id, bool *was_gone)
{
	bool was = *was_gone;

	*was_gone = is_gone(id);
	return was && *was_gone;
}

static struct quota *proc_quota(const struct procs *ps)
{
	return quotas__get(ps->quotas, QUOTA_PROCESSES);
}

static struct quota *thread_quota(const struct procs *ps)
{
	return quotas__get(ps->quotas, QUOTA_THREADS);
}

/* Makes space for one more process. */
static void make_room(struct procs *ps)
{
	unsigned going = 0;

	if (is_time_to_look(ps, hash_cnt(&ps->by_pid), &ps->look)) {
		hash_each (p, &ps->by_pid) {
			if (!p->ended && may_go(p->pid, &p->was_gone))
				procs__remove(ps, p);
			else
				going += p->was_gone;
		}
		ps->look.at = next_look(hash_cnt(&ps->by_pid) - going) + going;
	}
	if (quota__take(proc_quota(ps), NULL, 1))
		return;
	procs__remove(ps, ps->by_pid.first);
	quota__force(proc_quota(ps), NULL, 1);
}

static void init(struct procs *ps, struct proc *p)
{
	p->handles.names = p->gpu_names.names = ps->names;
	p->mem.ledger.quota = quotas__get(ps->quotas, QUOTA_RANGES);
	p->mem.keeps_freed = ps->kernel_args;
	p->captures.quota = quotas__get(ps->quotas, QUOTA_CAPTURES);
	p->comms.quota = quotas__get(ps->quotas, QUOTA_COMMS);
}

struct proc *procs__find(struct procs *ps, uint32_t pid)
{
	struct proc **recent = &ps->recent[pid % PROCS_RECENT], *p = *recent;

	if (p && p->pid == pid)
		return p;
	p = proc_table__find(&ps->by_pid, &pid);
	if (p)
		*recent = p;
	return p;
}

/* Returns false if the thread has ended. */
static bool read_comm(char comm[THREAD_COMM_SZ + 1], uint32_t pid, uint32_t tid)
{
	char path[64];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(comm, 1, THREAD_COMM_SZ, f);
	fclose(f);
	comm[n ? n - 1 : 0] = 0; /* strip the newline */
	return n;
}

struct proc *procs__get_any(struct procs *ps, uint32_t pid)
{
	struct proc *p = procs__find(ps, pid);

	if (!p) {
		make_room(ps);
		p = proc_table__new(&ps->by_pid, &pid);
		if (!p) {
			quota__give(proc_quota(ps), NULL, 1);
			return NULL;
		}
		init(ps, p);
		if (ps->live)
			read_comm(p->comm, pid, pid);
	}
	return p;
}

static struct recent_thread *recent_thread(struct procs *ps, uint32_t tid)
{
	return &ps->recent_threads[tid % PROCS_RECENT];
}

static void drop_thread(struct procs *ps, struct proc *p, struct thread *t)
{
	struct recent_thread *recent = recent_thread(ps, t->tid);

	thread_ranges__free(ps->quotas, p, t);
	thread_operators__free(t);
	thread_samples__free(ps, p, t);
	thread_table__del(&p->threads, t);
	if (recent->t == t)
		*recent = (struct recent_thread){0};
	if (t->gpu_calls)
		gpu_calls__free(&ps->gpu, t->gpu_calls);
	free(t->gpu_calls);
	free(t->nccl);
	free(t);
	quota__give(thread_quota(ps), &p->threads_share, 1);
}

static void make_thread_room(struct procs *ps, struct proc *p)
{
	unsigned going = 0;

	if (is_time_to_look(ps, hash_cnt(&p->threads), &p->threads_look)) {
		hash_each (t, &p->threads) {
			if (may_go(t->tid, &t->was_gone))
				drop_thread(ps, p, t);
			else
				going += t->was_gone;
		}
		p->threads_look.at = next_look(hash_cnt(&p->threads) - going) + going;
	}
	if (quota__take(thread_quota(ps), &p->threads_share, 1))
		return;
	if (p->threads.first)
		drop_thread(ps, p, p->threads.first);
	quota__force(thread_quota(ps), &p->threads_share, 1);
}

struct thread *proc__any_thread(struct procs *ps, struct proc *p, uint32_t tid)
{
	struct thread *t = thread_table__find(&p->threads, &tid);

	if (!t) {
		make_thread_room(ps, p);
		t = thread_table__new(&p->threads, &tid);
		if (!t) {
			quota__give(thread_quota(ps), &p->threads_share, 1);
			return NULL;
		}
		/* Its first record was dropped, or others use its row now. */
		if (ps->live)
			t->is_named = read_comm(t->comm, p->pid, tid);
	}
	*recent_thread(ps, tid) = (struct recent_thread){p, t};
	return t;
}

void proc__set_comm(struct proc *p, struct thread *t, const char comm[THREAD_COMM_SZ])
{
	memcpy(t->comm, comm, THREAD_COMM_SZ);
	t->comm[THREAD_COMM_SZ] = 0;
	t->is_named = true;
	if (t->tid == p->pid)
		memcpy(p->comm, t->comm, sizeof(p->comm));
}

static void free_threads(struct procs *ps, struct proc *p)
{
	hash_each (t, &p->threads)
		drop_thread(ps, p, t);
	p->threads_look = (struct sweep){0};
}

void procs__renew(struct procs *ps, struct proc *p)
{
	for (unsigned i = 0; p->ended && i < PROCS_ENDED; i++) {
		if (ps->ended[i] == p)
			ps->ended[i] = NULL;
	}
	p->ended = p->tidied = p->has_job = false;
	p->comm[0] = 0;
	free_threads(ps, p);
	handles__clear(&p->handles);
	handles__clear(&p->gpu_names);
	mem__clear(&p->mem);
	capture_set__clear(&p->captures);
	proc_ranges__free(ps->quotas, p);
	comms__clear(&p->comms);
	dnn__free(p->dnn);
	p->dnn = NULL;
	profile_budget__begin();
	proc_stacks__free(p->stacks);
	profile_budget__end();
	p->stacks = NULL;
	proc_stalls__free(p->stalls);
	p->stalls = NULL;
}

void procs__end(struct procs *ps, struct proc *p)
{
	struct proc **place = &ps->ended[ps->ended_next++ % PROCS_ENDED];

	if (p->ended)
		return;
	if (*place)
		procs__remove(ps, *place);
	*place = p;
	p->ended = true;
}

unsigned procs__compact(struct procs *ps)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < PROCS_ENDED; i++) {
		struct proc *p = ps->ended[i];

		if (p && p->tidied) {
			procs__remove(ps, p);
			cnt++;
		} else if (p) {
			p->tidied = true;
		}
	}
	return cnt;
}

void procs__remove(struct procs *ps, struct proc *p)
{
	proc_table__del(&ps->by_pid, p);
	if (ps->recent[p->pid % PROCS_RECENT] == p)
		ps->recent[p->pid % PROCS_RECENT] = NULL;
	procs__renew(ps, p);
	free(p);
	quota__give(proc_quota(ps), NULL, 1);
}

void procs__free(struct procs *ps)
{
	hash_each (p, &ps->by_pid)
		procs__remove(ps, p);
	gpu_join__free(&ps->gpu);
}
