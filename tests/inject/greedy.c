/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process that tries to use up the daemon's time, places, memory or numbers:
 *
 *   greedy LIBCUDA fillers SECONDS    rings full of fillers of all sizes, which end anywhere
 *   greedy LIBCUDA broken SECONDS     invalid rings, and one with a record at each look
 *   greedy LIBCUDA names SECONDS      records of missing threads, beside 2000 existing ones
 *   greedy LIBCUDA nested SECONDS     calls in flight in each slot, whose records fill the rings
 *   greedy LIBCUDA hellos SECONDS     4 processes with 20000 mappings that connect all the time
 *   greedy LIBCUDA old SECONDS        records older than all others, in 256 slots
 *   greedy LIBCUDA stay SECONDS N MB  N processes in a group of their own: counted functions,
 *                                     also missing ones, and MB written in their rings
 *   greedy LIBCUDA numbers SECONDS N  reports N of everything, then nothing, then N again
 *   greedy LIBCUDA memory SECONDS MB  writes MB of its rings, with one thread
 */
#include <pthread.h>
#include <stdbool.h>

#include "join.h"

static uint64_t end_ns;

static void live(struct ct_shm *m, unsigned i)
{
	slot_of(m, i)->state = CT_SLOT_LIVE;
	slot_of(m, i)->tid = getpid();
}

static char *ring_of(struct ct_shm *m, unsigned i)
{
	return (char *)slot_of(m, i) + m->ring_off;
}

/* Makes everything that was read available again. */
static void again(struct ct_shm *m, unsigned i)
{
	struct ct_shm_slot *s = slot_of(m, i);

	__atomic_store_n(&s->head, __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE) + m->ring_sz,
			 __ATOMIC_RELEASE);
}

static void fillers(struct ct_shm *m)
{
	for (unsigned i = 0; i < 512; i++) {
		char *ring = ring_of(m, i);
		uint32_t size = 8 + i % 2 * 8;

		live(m, i);
		for (uint64_t at = 0; at + size <= m->ring_sz; at += size)
			memcpy(ring + at, &(struct ct_rec){.size = size, .kind = CT_REC_NONE}, 8);
	}
	say("ready");
	while (now_ns() < end_ns) {
		for (unsigned i = 0; i < 512; i++)
			again(m, i);
		nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
	}
}

/* Writes the header of a record of this kind; the next one follows it. */
static void put(struct ct_shm *m, unsigned i, uint16_t kind, uint32_t tid, uint64_t ns)
{
	struct ct_shm_slot *s = slot_of(m, i);
	uint64_t left = m->ring_sz - (s->head & (m->ring_sz - 1));
	union {
		struct ct_rec rec;
		struct ct_task task;
		struct ct_name name;
	} r = {0};
	uint32_t size = kind == CT_REC_NAME ? sizeof(r.name) : sizeof(r.task);

	r.rec = (struct ct_rec){.size = size, .kind = kind, .ts_ns = ns, .tid = tid};
	size = (size + 7) & ~7u;
	if (left < size) {
		memcpy(ring_of(m, i) + m->ring_sz - left,
		       &(struct ct_rec){.size = left, .kind = CT_REC_NONE}, 8);
		__atomic_store_n(&s->head, s->head + left, __ATOMIC_RELEASE);
	}
	memcpy(ring_of(m, i) + (s->head & (m->ring_sz - 1)), &r, r.rec.size);
	__atomic_store_n(&s->head, s->head + size, __ATOMIC_RELEASE);
}

static bool has_room(struct ct_shm *m, unsigned i)
{
	return slot_of(m, i)->head - slot_of(m, i)->tail < m->ring_sz / 2;
}

static void broken(struct ct_shm *m)
{
	for (unsigned i = 0; i < 500; i++) {
		live(m, i);
		memset(ring_of(m, i), i ? 0xff : 0, 16384);
	}
	say("ready");
	while (now_ns() < end_ns) {
		if (slot_of(m, 0)->head == slot_of(m, 0)->tail)
			put(m, 0, CT_REC_THREAD, getpid(), now_ns());
		for (unsigned i = 1; i < 500; i++)
			slot_of(m, i)->head += i % 2 ? 4096 : 12;
	}
}

static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void names(struct ct_shm *m)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	for (unsigned i = 0; i < 2000 && !pthread_create(&thread, &attr, idle, NULL); i++)
		;
	live(m, 0);
	live(m, 1);
	say("ready");
	for (uint32_t tid = 1 << 22; now_ns() < end_ns; tid++) {
		put(m, tid % 2, tid % 4 < 2 ? CT_REC_THREAD : CT_REC_NAME, tid, now_ns());
		while (!has_room(m, tid % 2) && now_ns() < end_ns)
			sleep_ms(1);
	}
}

static void in_flight(struct ct_shm *m)
{
	for (unsigned i = 0; i < 256; i++) {
		struct ct_shm_slot *s = slot_of(m, i);

		live(m, i);
		while (has_room(m, i))
			put(m, i, CT_REC_NAME, getpid(), now_ns());
		for (unsigned d = 0; d < CT_MAX_DEPTH; d++)
			s->frames[d] = (struct ct_frame){.func_id = 1 + d, .call_id = 7};
		s->begun = CT_MAX_DEPTH;
	}
}

/* Connects as another process, repeatedly. */
static void nested(void)
{
	bool said = false;

	while (now_ns() < end_ns) {
		pid_t child = fork();

		if (!child) {
			struct ct_shm *m = join(dial());

			if (m)
				in_flight(m);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		if (!said)
			say("ready");
		said = true;
	}
}

static void hellos(void)
{
	int file = open(lib_path, O_RDONLY), held[8] = {0};

	for (int i = 0; i < 3 && fork(); i++)
		;
	for (int i = 0; i < 20000; i++)
		mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE, file, 0);
	say("ready");
	for (unsigned n = 0; now_ns() < end_ns; n++) {
		struct ct_shm_hello h = {.magic = CT_SHM_MAGIC,
					 .version = CT_SHM_VERSION,
					 .how = n % 3 ? CT_SHM_PRELOAD : CT_SHM_MORE};
		int fd = dial();

		memcpy(h.lib_path, lib_path, sizeof(h.lib_path));
		send(fd, &h, sizeof(h), MSG_NOSIGNAL);
		if (held[n % 8])
			close(held[n % 8]);
		held[n % 8] = fd;
		if (n % 8 == 0)
			sleep_ms(1);
	}
}

static void old(struct ct_shm *m)
{
	for (unsigned i = 0; i < 256; i++)
		live(m, i);
	say("ready");
	while (now_ns() < end_ns)
		for (unsigned i = 0; i < 256; i++)
			for (unsigned n = 0; n < 64 && has_room(m, i); n++)
				put(m, i, CT_REC_THREAD, getpid(), 1);
}

/* Writes behind the members of struct ct_shm_slot, so that no slot counts as used. */
static void fill(struct ct_shm *m, uint64_t mb)
{
	char *at = (char *)slot_of(m, 1);

	for (uint64_t k = 0; k < mb << 20; k += 4096)
		at[k + 4000] = 1;
}

static void stay(double seconds, unsigned cnt, uint64_t mb)
{
	int joined[2];
	char c;

	setpgid(0, 0);
	if (pipe(joined))
		die("pipe");
	for (unsigned i = 0; i < cnt; i++) {
		struct ct_shm *m;

		/* One after the other: a user has at most 128 connections at a time. */
		if (fork()) {
			(void)!read(joined[0], &c, 1);
			continue;
		}
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		m = join(dial());
		if (m) {
			live(m, 0);
			slot_of(m, 0)->counted[CT_MAX_FUNCS / 64 - 1] = 1ull << 63;
			slot_of(m, 0)->counted[0] = i % 2 ? ~0ull : 0;
			fill(m, mb);
		}
		say(m ? "joined" : "refused");
		(void)!write(joined[1], "", 1);
		sleep_ms(seconds * 1000);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
}

static void report(struct ct_shm *m, uint64_t n)
{
	for (unsigned i = 0; i < 8; i++) {
		struct ct_shm_slot *s = slot_of(m, i);
		struct ct_count *c = (void *)((char *)s + m->counts_off);

		live(m, i);
		for (unsigned k = 0; k < CT_DROP_CNT; k++)
			s->drops[k] = n;
		for (unsigned k = 0; k < CT_STAT_CNT; k++)
			s->stats[k] = n;
		s->begun = n / CT_SHM_DEPTHS * CT_SHM_DEPTHS;
		s->cost_ns = s->busiest = n;
		s->errors[0] = (struct ct_shm_error){1, -5, n};
		s->counted[0] = 0xff00;
		for (unsigned id = 8; id < 16; id++) {
			c[id].entered = c[id].total_ns = c[id].max_ns = c[id].errors = n;
			c[id].hist[3] = n;
		}
	}
	m->no_slot_cnt = n;
	m->gpu.records = m->gpu.dropped = m->gpu.lost = m->gpu.untimed = n;
	m->gpu.discarded = m->gpu.clock_error_ns = m->gpu.clock_steps = n;
}

static void numbers(struct ct_shm *m, uint64_t n)
{
	report(m, n);
	say("ready");
	while (now_ns() < end_ns) {
		sleep_ms(200);
		report(m, 0);
		sleep_ms(200);
		report(m, n);
	}
}

int main(int argc, char **argv)
{
	double seconds;
	const char *what;

	if (argc < 4)
		return 2;
	what = argv[2];
	seconds = atof(argv[3]);
	set_up(argv);
	end_ns = now_ns() + seconds * 1e9;
	if (!strcmp(what, "nested"))
		nested();
	else if (!strcmp(what, "hellos"))
		hellos();
	else if (!strcmp(what, "stay") && argc > 5)
		stay(seconds, atoi(argv[4]), atoi(argv[5]));
	else if (!strcmp(what, "fillers"))
		fillers(must_join(dial()));
	else if (!strcmp(what, "broken"))
		broken(must_join(dial()));
	else if (!strcmp(what, "names"))
		names(must_join(dial()));
	else if (!strcmp(what, "old"))
		old(must_join(dial()));
	else if (!strcmp(what, "numbers") && argc > 4)
		numbers(must_join(dial()), strtoull(argv[4], NULL, 0));
	else if (!strcmp(what, "memory") && argc > 4) {
		struct ct_shm *m = must_join(dial());

		live(m, 0);
		fill(m, atoi(argv[4]));
		say("ready");
		sleep_ms(seconds * 1000);
	} else
		return 2;
	return 0;
}
