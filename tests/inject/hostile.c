/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process that misuses the tracer's socket and memory, as the library never does:
 *
 *   hostile LIBCUDA forgotten      reports hooked pointers after the tracer has forgotten it
 *   hostile LIBCUDA busy SECONDS   begins a record and ends it, in each slot, all the time
 *   hostile LIBCUDA writer SECONDS ends, and leaves a child that keeps writing into its memory
 *   hostile LIBCUDA many           connects as often as possible, each time with calls in flight
 *   hostile LIBCUDA connections PROGRAM [ARGUMENT...]   holds connections while PROGRAM runs
 *   hostile LIBCUDA hold SECONDS   holds as many connections as one process gets
 *   hostile LIBCUDA flood SECONDS  writes records with the earliest times, in each slot
 *   hostile LIBCUDA pages SECONDS  reports memory that was never written as full
 *   hostile LIBCUDA counts SECONDS has counts of all functions in all slots, and of all errors
 *   hostile LIBCUDA samples SECONDS RATE FRAMES   sends RATE sampled calls per second, each with
 *                                  another stack of that size, of many files and mappings (1: all
 *                                  the same); prints their number
 *
 * It executes itself again without what loads the library: only the test talks to the tracer.
 */
#include "join.h"

#include <glob.h>
#include <stdbool.h>
#include <sys/uio.h>

#define HELD 64

/* Waits until the tracer has read all earlier messages. */
static void await_look(void)
{
	int fd = dial();

	must_join(fd);
	close(fd);
	sleep_ms(100);
}

/* Reports one more library, which the process does not have, and hooked pointers in it. */
static void more(void)
{
	struct ct_shm_hooked h = {
		.magic = CT_SHM_MAGIC, .version = CT_SHM_VERSION, .pointer_cnt = 9};
	int fd = dial();

	if (join_as(fd, CT_SHM_MORE))
		die("more");
	send(fd, &h, sizeof(h), MSG_NOSIGNAL);
	close(fd);
}

static void forgotten(void)
{
	struct ct_shm_hooked h = {.magic = CT_SHM_MAGIC, .version = CT_SHM_VERSION};
	int first;

	more();
	first = dial();
	must_join(first);
	more();
	await_look();
	await_look();
	send(first, &h, sizeof(h), MSG_NOSIGNAL);
	await_look();
	/* Half a message, then one message too many. */
	first = dial();
	send(first, &h, 5, MSG_NOSIGNAL);
	first = dial();
	must_join(first);
	send(first, &h, sizeof(h), MSG_NOSIGNAL);
	send(first, &h, sizeof(h), MSG_NOSIGNAL);
	await_look();
}

static void busy(double seconds)
{
	struct ct_shm *m = must_join(dial());
	uint64_t end = now_ns() + seconds * 1e9;

	for (unsigned i = 0; i < m->slot_cnt; i++) {
		slot_of(m, i)->state = CT_SLOT_LIVE;
		/* At each moment some slot is busy. */
		slot_of(m, i)->busy = i % 2;
	}
	while (now_ns() < end)
		for (unsigned i = 0; i < m->slot_cnt; i++) {
			volatile __u32 *one = &slot_of(m, i)->busy;

			*one = !*one;
		}
}

/* Valid records, one after the other, whether there is room or not. */
static void write_for_ever(struct ct_shm *m)
{
	struct ct_shm_slot *s = slot_of(m, 0);
	char *ring = (char *)s + m->ring_off;

	for (;; sched_yield()) {
		struct ct_task *rec = (void *)(ring + (s->head & (m->ring_sz - 1)));

		memset(rec, 0, sizeof(*rec));
		rec->rec.kind = CT_REC_THREAD;
		rec->rec.size = sizeof(*rec);
		rec->rec.ts_ns = now_ns();
		strcpy(rec->comm, "written");
		if (m->ring_sz - (s->head & (m->ring_sz - 1)) < 2 * sizeof(*rec)) {
			rec->rec.kind = CT_REC_NONE;
			rec->rec.size = m->ring_sz - (s->head & (m->ring_sz - 1));
		}
		__atomic_store_n(&s->head, s->head + (rec->rec.size + 7) / 8 * 8, __ATOMIC_RELEASE);
	}
}

static void writer(unsigned seconds)
{
	struct ct_shm *m = must_join(dial());
	pid_t child;

	slot_of(m, 0)->state = CT_SLOT_LIVE;
	slot_of(m, 0)->tid = getpid();
	child = fork();
	if (!child) {
		alarm(seconds);
		setsid();
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		write_for_ever(m);
	}
	printf("%d\n", child);
	sleep_ms(200);
}

static void many(void)
{
	unsigned joined = 0;

	for (unsigned n = 0; n < 300; n++) {
		int fd = dial();
		struct ct_shm *m = join(fd);

		close(fd);
		if (!m)
			continue;
		joined++;
		for (unsigned i = 0; i < 256; i++) {
			struct ct_shm_slot *s = slot_of(m, i);

			s->state = CT_SLOT_LIVE;
			s->counted[0] = 2;
			for (unsigned d = 0; d < CT_MAX_DEPTH; d++) {
				s->frames[d].func_id = 1;
				s->frames[d].call_id = d + 1;
			}
			s->begun = CT_MAX_DEPTH;
		}
		munmap(m, m->slots_off + m->slot_cnt * m->stride);
	}
	printf("joined %u\n", joined);
}

static void hold(double seconds)
{
	uint64_t end = now_ns() + seconds * 1e9;

	for (int i = 0; i < 8; i++)
		dial();
	say("held");
	/* Opens a new connection for each closed one. */
	while (now_ns() < end) {
		sleep_ms(20);
		for (int fd = 3; fd < 11; fd++) {
			char c;

			if (recv(fd, &c, 1, MSG_DONTWAIT))
				continue;
			close(fd);
			dial();
		}
	}
}

#define FLOOD_SLOTS 64

static void flood(double seconds)
{
	struct ct_shm *m = must_join(dial());
	uint64_t end = now_ns() + seconds * 1e9;
	const struct ct_task rec = {.rec = {.size = sizeof(rec), .kind = CT_REC_THREAD}};

	say("joined");
	for (unsigned i = 0; i < FLOOD_SLOTS; i++) {
		char *ring = (char *)slot_of(m, i) + m->ring_off;

		slot_of(m, i)->state = CT_SLOT_LIVE;
		for (uint64_t at = 0; at + sizeof(rec) <= m->ring_sz; at += sizeof(rec))
			memcpy(ring + at, &rec, sizeof(rec));
	}
	for (; now_ns() < end; sleep_ms(1))
		for (unsigned i = 0; i < FLOOD_SLOTS; i++) {
			struct ct_shm_slot *s = slot_of(m, i);

			/* The rest of the ring has no room for a whole record. */
			s->head = s->tail + m->ring_sz / sizeof(rec) / 2 * sizeof(rec);
		}
}

static void pages(double seconds)
{
	struct ct_shm *m = must_join(dial());
	uint64_t end = now_ns() + seconds * 1e9;

	say("joined");
	for (unsigned i = 0; i < m->slot_cnt; i++)
		slot_of(m, i)->state = CT_SLOT_LIVE;
	while (now_ns() < end) {
		for (unsigned i = 0; i < m->slot_cnt; i++)
			slot_of(m, i)->head += 4096;
		sleep_ms(2);
	}
}

static void counts(double seconds)
{
	struct ct_shm *m = must_join(dial());

	for (unsigned i = 0; i < m->slot_cnt; i++) {
		struct ct_shm_slot *s = slot_of(m, i);

		s->state = CT_SLOT_LIVE;
		memset(s->counted, 255, sizeof(s->counted));
		for (unsigned k = 0; k < CT_SHM_ERRORS; k++)
			s->errors[k] = (struct ct_shm_error){k, i * CT_SHM_ERRORS + k, 1};
	}
	say("joined");
	sleep_ms(seconds * 1000);
}

#define PAGES 20000

/* Maps the libraries of this machine, and pages without names. Returns the number of ranges. */
static unsigned map_many(struct iovec *to, unsigned max)
{
	const size_t page = 4096;
	unsigned cnt = 0;
	glob_t g = {0};
	char *at;

	glob("/usr/lib/*/*.so*", 0, NULL, &g);
	for (size_t i = 0; i < g.gl_pathc && cnt < max - PAGES; i++) {
		int fd = open(g.gl_pathv[i], O_RDONLY | O_CLOEXEC);
		off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

		at = size > 0 ? mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0)
			      : MAP_FAILED;
		if (at != MAP_FAILED)
			to[cnt++] = (struct iovec){at, size};
		close(fd);
	}
	globfree(&g);
	at = mmap(NULL, 2 * PAGES * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; at != MAP_FAILED && i < PAGES && cnt < max; i++)
		if (!mprotect(at + 2 * i * page, page, PROT_READ | PROT_EXEC))
			to[cnt++] = (struct iovec){at + 2 * i * page, page};
	return cnt;
}

/* Returns whether there was room. */
static bool put_sample(struct ct_shm *m, const struct iovec *maps, unsigned map_cnt,
		       unsigned frames)
{
	struct ct_shm_slot *s = slot_of(m, 0);
	size_t size = CT_CALL_FIXED_SZ + frames * 8;
	uint64_t off = s->head & (m->ring_sz - 1), id = s->head / 8 + 1;
	struct {
		uint8_t call[CT_CALL_FIXED_SZ];
		uint64_t ips[CT_STACK_MAX];
	} rec = {0};
	struct ct_call c = {
		.rec = {.kind = CT_REC_CALL, .size = size, .flags = CT_CALL_F_SAMPLED},
		.call_id = id,
		.func_id = 1 + rand() % 64,
		.stack_cnt = frames,
	};

	c.rec.tid = 1 + rand() % 32768;
	c.end_ns = now_ns();
	c.rec.ts_ns = c.end_ns - 1000;
	memcpy(rec.call, &c, sizeof(rec.call));
	for (unsigned i = 0; i < frames; i++) {
		const struct iovec *map = &maps[rand() % map_cnt];

		rec.ips[i] = (uintptr_t)map->iov_base + rand() % map->iov_len;
	}
	if (m->ring_sz - off < size) {
		const struct ct_rec rest = {.kind = CT_REC_NONE, .size = m->ring_sz - off};

		memcpy((char *)s + m->ring_off + off, &rest, 8);
		s->head += m->ring_sz - off;
		off = 0;
	}
	if (s->head - __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE) + size > m->ring_sz)
		return false;
	memcpy((char *)s + m->ring_off + off, &rec, size);
	__atomic_store_n(&s->head, s->head + size, __ATOMIC_RELEASE);
	return true;
}

static void samples(double seconds, unsigned rate, unsigned frames)
{
	static struct iovec maps[PAGES + 4096] = {{put_sample, 1}};
	struct ct_shm *m = must_join(dial());
	unsigned map_cnt = frames > 1 ? map_many(maps, PAGES + 4096) : 1, sent = 0;
	uint64_t begun = now_ns(), end = begun + seconds * 1e9;

	slot_of(m, 0)->state = CT_SLOT_LIVE;
	slot_of(m, 0)->tid = getpid();
	say("joined");
	for (; now_ns() < end; sleep_ms(1))
		while (sent < (now_ns() - begun) / 1e9 * rate &&
		       put_sample(m, maps, map_cnt, frames))
			sent++;
	printf("%u\n", sent);
}

static void connections(char **argv)
{
	int status = 1;

	for (int i = 0; i < HELD; i++)
		fcntl(dial(), F_SETFD, FD_CLOEXEC);
	if (!fork()) {
		execvp(argv[0], argv);
		die(argv[0]);
	}
	wait(&status);
	exit(status);
}

int main(int argc, char **argv)
{
	const char *what;

	if (argc < 3)
		return 2;
	what = argv[2];
	if (!strcmp(what, "connections"))
		connections(argv + 3);
	set_up(argv);
	if (!strcmp(what, "forgotten"))
		forgotten();
	else if (!strcmp(what, "busy"))
		busy(atof(argv[3]));
	else if (!strcmp(what, "writer"))
		writer(atoi(argv[3]));
	else if (!strcmp(what, "many"))
		many();
	else if (!strcmp(what, "hold"))
		hold(atof(argv[3]));
	else if (!strcmp(what, "flood"))
		flood(atof(argv[3]));
	else if (!strcmp(what, "pages"))
		pages(atof(argv[3]));
	else if (!strcmp(what, "counts"))
		counts(atof(argv[3]));
	else if (!strcmp(what, "samples"))
		samples(atof(argv[3]), atoi(argv[4]), atoi(argv[5]));
	else
		return 2;
	return 0;
}
