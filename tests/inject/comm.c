/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * comm: destroying a communicator waits for its readers (inject/comm.c, linked to this; the
 * functions that it needs from the rest of the library are here). Exit status 0 if so.
 */
#include "../../inject/inject.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct hook inject_hooks[CT_MAX_FUNCS];
uint32_t inject_sandboxed;
__thread struct tls inject_me;
char inject_thunks[CT_MAX_FUNCS * THUNK_SZ];
static struct process process;
struct process *inject_process = &process;
static struct object lib;
static ElfW(Sym) symbol;
/* This thread's slot, and another's. */
static struct thread *own = &process.threads[3], *other = &process.threads[5];

int memory_read(const struct thread *t, uint64_t sp, void *to, uint64_t addr, size_t len)
{
	memcpy(to, (void *)addr, len);
	return 0;
}

const ElfW(Sym) * object_symbol(const struct object *o, const char *name)
{
	return &symbol;
}

static bool is_missing; /* some function does not lead to the library */

void *hook_answer(void *p)
{
	return is_missing ? p : thunk_of(7);
}

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "comm: %s\n", what);
		exit(1);
	}
}

#define SIZE 8192
static struct ct_shm shm = {.comm_layout = {.off = 4096, .version = 22809, .counts_off = 4200}};

/* False: its memory is unmapped, so a direct read would end this program. */
static bool reads(void *comm, bool ok)
{
	struct call call = {.regs = {(uint64_t)(uintptr_t)comm}, .t = own};
	struct ct_cap cap = {.kind = CT_CAP_COMM};
	struct ct_comm c;

	if (comm_read(own, &call, &cap, ok, &c) < 0)
		return false;
	must(c.handle == (uint64_t)(uintptr_t)comm && c.magic == 11 && c.hash == 22 &&
		     c.made == 5 * 33,
	     "reads something else");
	must(!own->comm, "is held");
	return true;
}

static void *page(void)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED, "mmap");
	*(uint64_t *)p = 11;
	*(uint64_t *)(p + 4096) = 22;
	for (unsigned i = 0; i < CT_COMM_COUNTS; i++)
		((uint64_t *)(p + 4200))[i] = 33;
	return p;
}

static void take(void *comm)
{
	must(!munmap(comm, SIZE), "munmap");
}

static bool is_through;

static void *destroy(void *comm)
{
	comm_free_begin((uint64_t)(uintptr_t)comm);
	__atomic_store_n(&is_through, true, __ATOMIC_SEQ_CST);
	return NULL;
}

int main(void)
{
	void *comm = page();
	pthread_t thread;

	process.pid = getpid();
	process.shm = &shm;
	inject_me.t = own;
	is_missing = true;
	comm_hook(&lib);
	must(reads(comm, true) && reads(comm, true), "does not read");
	take(comm);
	/* No direct reads while some calls bypass the library: this one would fault. */
	must(!reads(comm, true), "reads what is gone");
	is_missing = false;
	comm_hook(&lib);
	must(inject_hooks[7].role == HOOK_FREES, "no role");
	comm = page();
	must(reads(comm, true) && reads(comm, true), "does not read");

	/* A failed call need not have used it. */
	take(comm);
	must(!reads(comm, false), "reads what is gone");
	comm = page();
	must(reads(comm, true) && reads(comm, true), "does not read");

	/* No thread is reading this one: nothing waits. */
	must(!pthread_create(&thread, NULL, destroy, NULL), "thread");
	usleep(100000);
	must(__atomic_exchange_n(&is_through, false, __ATOMIC_SEQ_CST), "waits for nobody");

	/* Another thread is reading this one. */
	other->comm = (uint64_t)(uintptr_t)comm;
	must(!pthread_create(&thread, NULL, destroy, comm), "thread");
	usleep(20000);
	must(!__atomic_load_n(&is_through, __ATOMIC_SEQ_CST), "does not wait");
	/* Until destroy() is through, no thread reads or finds it. */
	must(reads(comm, true), "does not read");
	__atomic_store_n(&other->comm, 0, __ATOMIC_SEQ_CST);
	must(!pthread_join(thread, NULL) && is_through, "waits");
	must(reads(comm, true), "does not read");
	take(comm);
	must(!reads(comm, true), "reads what is gone");
	comm_free_end((uint64_t)(uintptr_t)comm);
	must(!reads(comm, true), "reads what is gone");
	return 0;
}
