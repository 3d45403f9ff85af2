/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "chrome_proc.h"

#include "model/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "util/hash_table.h"

/* Limits. Dropped entries are named again when they return. */
#define MAX_PROCS   16384
#define MAX_THREADS 65536

#define COMM_SZ 64 /* threads have 16, GPU rows need more */

static const struct chrome_counter mem_counter[MEM_KIND_CNT] = {
	[MEM_DEVICE] = {"device memory", "memory", "bytes", false},
	[MEM_HOST] = {"pinned host memory", "memory", "bytes", false},
	[MEM_MANAGED] = {"managed memory", "memory", "bytes", false},
};

static const struct chrome_counter rate_counter = {"ioctls/s", "kernel", "ioctls/s", false};

struct thread_key {
	uint32_t pid, tid;
};

struct thread {
	struct hash_link link;
	struct thread_key key;
	unsigned file; /* file in which it was named */
	char comm[COMM_SZ];
};
HASH_TABLE(thread, key);

struct proc {
	struct hash_link link;
	uint32_t pid;
	unsigned index;
	unsigned file;	    /* file in which it was named */
	bool named_by_main; /* otherwise by any thread */
	char comm[COMM_SZ];

	uint64_t mem[MEM_KIND_CNT]; /* newest values */
	uint64_t shown[MEM_KIND_CNT];
	bool seen[MEM_KIND_CNT]; /* a value was written: a counter that stays 0 is not drawn */
	bool pending;
	uint64_t mem_ns;   /* time of the last change of mem */
	uint64_t shown_ns; /* time of the last written value; 0: none */

	uint64_t rate_ns;   /* start of the current ioctl count */
	unsigned ioctl_cnt; /* 0: not counting */
};
HASH_TABLE(proc, pid);

struct chrome_procs {
	struct proc_table procs;
	struct thread_table threads;
	struct proc *cur_proc; /* process of the last event */
	struct thread *cur_thread;
	unsigned proc_cnt; /* processes so far */
	unsigned file;	   /* finished files */
	uint64_t forgotten;
};

struct chrome_procs *chrome_procs__new(void)
{
	return calloc(1, sizeof(struct chrome_procs));
}

static void proc_drop(struct chrome_procs *ps, struct proc *p)
{
	proc_table__del(&ps->procs, p);
	if (ps->cur_proc == p)
		ps->cur_proc = NULL;
	free(p);
}

static void thread_drop(struct chrome_procs *ps, struct thread *t)
{
	thread_table__del(&ps->threads, t);
	if (ps->cur_thread == t)
		ps->cur_thread = NULL;
	free(t);
}

void chrome_procs__free(struct chrome_procs *ps)
{
	if (!ps)
		return;
	proc_table__free(&ps->procs);
	thread_table__free(&ps->threads);
	free(ps);
}

uint64_t chrome_procs__forgotten(const struct chrome_procs *ps)
{
	return ps->forgotten;
}

void chrome_procs__name_anew(struct chrome_procs *ps)
{
	ps->file++;
}

static struct proc *proc_find(struct chrome_procs *ps, uint32_t pid)
{
	struct proc *p = ps->cur_proc;

	if (p && p->pid == pid)
		return p;
	p = proc_table__find(&ps->procs, &pid);
	if (p)
		ps->cur_proc = p;
	return p;
}

static struct proc *proc_add(struct chrome_procs *ps, uint32_t pid)
{
	struct proc *p;

	if (hash_cnt(&ps->procs) >= MAX_PROCS) {
		proc_drop(ps, ps->procs.first);
		ps->forgotten++;
	}
	p = proc_table__new(&ps->procs, &pid);
	if (!p)
		return NULL;
	p->index = ps->proc_cnt++;
	ps->cur_proc = p;
	return p;
}

static struct thread *thread_find(struct chrome_procs *ps, uint32_t pid, uint32_t tid)
{
	struct thread_key k = {pid, tid};
	struct thread *t = ps->cur_thread;

	if (t && t->key.tid == tid && t->key.pid == pid)
		return t;
	t = thread_table__find(&ps->threads, &k);
	if (t)
		ps->cur_thread = t;
	return t;
}

static struct thread *thread_add(struct chrome_procs *ps, uint32_t pid, uint32_t tid)
{
	const struct thread_key key = {pid, tid};
	struct thread *t;

	if (hash_cnt(&ps->threads) >= MAX_THREADS) {
		thread_drop(ps, ps->threads.first);
		ps->forgotten++;
	}
	t = thread_table__new(&ps->threads, &key);
	if (t)
		ps->cur_thread = t;
	return t;
}

static bool comm_set(char *comm, const char *new)
{
	if (!strncmp(comm, new, COMM_SZ - 1))
		return false;
	strncpy(comm, new, COMM_SZ - 1);
	return true;
}

static void name_process(struct chrome_procs *ps, const struct trace_event *ev,
			 struct chrome_names *n)
{
	struct proc *p = proc_find(ps, ev->pid);
	bool is_main = ev->tid == ev->pid;

	if (!p) {
		p = proc_add(ps, ev->pid);
		if (!p)
			return;
		n->new_process = true;
		n->index = p->index;
	} else if (p->file != ps->file) {
		n->new_process = true;
		n->index = p->index;
		n->process = p->comm;
		p->file = ps->file;
		if (!is_main)
			return;
	} else if (!is_main || (p->named_by_main && !strncmp(p->comm, ev->comm, COMM_SZ - 1))) {
		return;
	}
	p->file = ps->file;
	p->named_by_main = is_main;
	if (comm_set(p->comm, ev->comm) || n->new_process)
		n->process = p->comm;
}

bool chrome_procs__names(struct chrome_procs *ps, const struct trace_event *ev,
			 struct chrome_names *n)
{
	struct thread *t;

	memset(n, 0, sizeof(*n));
	if (!ev->comm)
		return false;
	t = thread_find(ps, ev->pid, ev->tid);
	if (t && t->file == ps->file && !strncmp(t->comm, ev->comm, COMM_SZ - 1))
		return false;
	/* Ranges have row numbers that no thread id reaches. */
	if (ev->tid < RANGE_ROW_TID)
		name_process(ps, ev, n);
	if (!t)
		t = thread_add(ps, ev->pid, ev->tid);
	if (t) {
		t->file = ps->file;
		comm_set(t->comm, ev->comm);
		n->thread = t->comm;
	}
	return n->process || n->thread;
}

static void counters_write(struct proc *p, uint64_t ts_ns, chrome_counter_fn fn, void *ctx)
{
	int i;

	for (i = 0; i < MEM_KIND_CNT; i++) {
		if (p->mem[i] == p->shown[i] && (p->seen[i] || i != MEM_DEVICE))
			continue;
		p->seen[i] = true;
		p->shown[i] = p->mem[i];
		fn(ctx, p->pid, &mem_counter[i], ts_ns, p->mem[i]);
	}
	p->shown_ns = ts_ns;
	p->pending = false;
}

/* Writes a delayed value whose gap has ended. */
static void counters_late(struct proc *p, chrome_counter_fn fn, void *ctx)
{
	uint64_t due = p->shown_ns + CHROME_COUNTER_GAP_NS;

	counters_write(p, p->mem_ns > due ? p->mem_ns : due, fn, ctx);
}

static void rate_write(struct proc *p, chrome_counter_fn fn, void *ctx)
{
	uint64_t rate = (uint64_t)p->ioctl_cnt * 1000000000 / CHROME_RATE_GAP_NS;

	fn(ctx, p->pid, &rate_counter, p->rate_ns, rate);
	p->rate_ns += CHROME_RATE_GAP_NS;
	p->ioctl_cnt = 0;
}

/* No more ioctls for now: the counter falls to 0. */
static void rate_end(struct proc *p, chrome_counter_fn fn, void *ctx)
{
	if (!p->ioctl_cnt)
		return;
	rate_write(p, fn, ctx);
	fn(ctx, p->pid, &rate_counter, p->rate_ns, 0);
}

/* Threads may be out of order by a few microseconds: a late ioctl counts as one of now. */
static void count_ioctl(struct proc *p, const struct trace_event *ev, chrome_counter_fn fn,
			void *ctx)
{
	if (p->ioctl_cnt && ev->end_ns >= p->rate_ns + 2 * CHROME_RATE_GAP_NS)
		rate_end(p, fn, ctx);
	else if (p->ioctl_cnt && ev->end_ns >= p->rate_ns + CHROME_RATE_GAP_NS)
		rate_write(p, fn, ctx);
	/* A call after the end of a period starts a new one, so values are at least a period apart.
	 */
	if (!p->ioctl_cnt && ev->end_ns >= p->rate_ns + CHROME_RATE_GAP_NS)
		p->rate_ns = ev->end_ns;
	p->ioctl_cnt++;
}

static void threads_forget(struct chrome_procs *ps, uint32_t pid)
{
	hash_each (t, &ps->threads)
		if (t->key.pid == pid)
			thread_drop(ps, t);
}

/* The driver frees a program's memory when it ends or is replaced by another. */
static void process_ends(struct chrome_procs *ps, struct proc *p, const struct trace_event *ev,
			 chrome_counter_fn fn, void *ctx)
{
	bool is_exit = !strcmp(ev->name, "exit");

	if (!is_exit && strcmp(ev->name, "exec"))
		return;
	rate_end(p, fn, ctx);
	memset(p->mem, 0, sizeof(p->mem));
	if (p->shown_ns)
		counters_write(p, ev->start_ns > p->shown_ns ? ev->start_ns : p->shown_ns, fn, ctx);
	if (!is_exit)
		return;
	threads_forget(ps, p->pid);
	proc_drop(ps, p);
}

void chrome_procs__counters(struct chrome_procs *ps, const struct trace_event *ev,
			    chrome_counter_fn fn, void *ctx)
{
	bool is_ioctl = ev->kind == EVENT_DRIVER && !strcmp(ev->op, "ioctl");
	struct proc *p;

	if (!ev->has_mem && ev->kind != EVENT_PROCESS && !is_ioctl)
		return;
	p = proc_find(ps, ev->pid);
	if (!p)
		return;
	if (is_ioctl)
		count_ioctl(p, ev, fn, ctx);
	if (p->pending &&
	    (ev->kind == EVENT_PROCESS || ev->end_ns >= p->shown_ns + CHROME_COUNTER_GAP_NS))
		counters_late(p, fn, ctx);
	if (ev->has_mem) {
		memcpy(p->mem, ev->mem.bytes, sizeof(p->mem));
		p->mem_ns = ev->end_ns;
		p->pending = true;
		if (!p->shown_ns || ev->end_ns >= p->shown_ns + CHROME_COUNTER_GAP_NS)
			counters_write(p, ev->end_ns, fn, ctx);
	}
	if (ev->kind == EVENT_PROCESS)
		process_ends(ps, p, ev, fn, ctx);
}

void chrome_procs__flush(struct chrome_procs *ps, chrome_counter_fn fn, void *ctx)
{
	hash_each (p, &ps->procs) {
		rate_end(p, fn, ctx);
		if (p->pending)
			counters_late(p, fn, ctx);
	}
}
