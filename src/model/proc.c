/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct proc *procs__get(struct procs *ps, uint32_t pid)
{
	struct proc *p = ps->last;

	if (p && p->pid == pid)
		return p;
	HASH_FIND(hh, ps->by_pid, &pid, sizeof(pid), p);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		p->pid = pid;
		HASH_ADD(hh, ps->by_pid, pid, sizeof(p->pid), p);
	}
	ps->last = p;
	return p;
}

/* For a thread whose first record was lost. */
static void read_comm(struct thread *t, uint32_t pid)
{
	char path[64];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, t->tid);
	f = fopen(path, "re");
	if (!f)
		return;
	n = fread(t->comm, 1, sizeof(t->comm) - 1, f);
	fclose(f);
	if (n && t->comm[n - 1] == '\n')
		n--;
	t->comm[n] = 0;
}

struct thread *proc__thread(struct procs *ps, struct proc *p, uint32_t tid)
{
	struct thread *t = p->last;

	if (t && t->tid == tid)
		return t;
	HASH_FIND(hh, p->threads, &tid, sizeof(tid), t);
	if (!t) {
		t = calloc(1, sizeof(*t));
		if (!t)
			return NULL;
		t->tid = tid;
		if (ps->live)
			read_comm(t, p->pid);
		HASH_ADD(hh, p->threads, tid, sizeof(t->tid), t);
	}
	p->last = t;
	return t;
}

void thread__set_comm(struct thread *t, const char comm[16])
{
	memcpy(t->comm, comm, 16);
	t->comm[16] = 0;
}

static void free_threads(struct proc *p)
{
	struct thread *t, *tmp;

	HASH_ITER (hh, p->threads, t, tmp) {
		HASH_DEL(p->threads, t);
		free(t);
	}
	p->last = NULL;
}

void procs__renew(struct procs *ps, struct proc *p)
{
	for (unsigned i = 0; p->ended && i < PROCS_ENDED; i++) {
		if (ps->ended[i] == p)
			ps->ended[i] = NULL;
	}
	p->ended = false;
	free_threads(p);
	handles__clear(&p->handles);
	mem__clear(&p->mem);
	capture_set__clear(&p->captures);
	proc_stacks__free(p->stacks);
	p->stacks = NULL;
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

void procs__remove(struct procs *ps, struct proc *p)
{
	HASH_DEL(ps->by_pid, p);
	if (ps->last == p)
		ps->last = NULL;
	procs__renew(ps, p);
	free(p);
}

void procs__free(struct procs *ps)
{
	struct proc *p, *tmp;

	HASH_ITER (hh, ps->by_pid, p, tmp)
		procs__remove(ps, p);
}
