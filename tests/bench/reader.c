/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Measures the cost of a recorded call for the thread that reads the rings, up to the worker pool's
 * batch, and for the worker pool: launches of eight threads, each on a processor with its own ring,
 * JSON lines to nowhere. The reader has its own processor, so that a batch goes from one to
 * another. The kernel's part is not measured: the rings are in memory, and are filled before the
 * clock starts.
 *
 *   reader [CREW [CALLS]]     CREW threads (3); CALLS (2 million) without a kernel's name, and with
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "model/model.h"
#include "record/ring_priv.h"
#include "trace/session.h"
#include "trace/source.h"
#include "util/out.h"

#define RINGS	   8
#define RING_SZ	   (1u << 20)
#define SLICE	   2000
#define WORKERS_US 2000
#define BASE_NS	   1000000000000ULL
#define PID	   41234
/* Handle of a kernel. */
#define NAMED 0x55d0c1a2b3f0

struct fake {
	unsigned long consumer, producer;
	uint8_t *data;
};

static struct fake fakes[RINGS];
static uint64_t now_of_calls = BASE_NS, ids;
static cpu_set_t others; /* processors that the reader does not use */

static double now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static bool put(struct fake *f, const void *rec, uint32_t size)
{
	uint32_t header[2] = {size};
	size_t all = (sizeof(header) + size + 7) & ~7ul, at = f->producer % RING_SZ;

	if (f->producer + all - f->consumer > RING_SZ)
		return false;
	/* It is mapped twice: the second copy matters only where it wraps around. */
	memcpy(f->data + at, header, sizeof(header));
	memcpy(f->data + at + sizeof(header), rec, size);
	if (at + all > RING_SZ)
		memcpy(f->data, f->data + RING_SZ, at + all - RING_SZ);
	f->producer += all;
	return true;
}

static void put_thread(unsigned i)
{
	struct ct_task t = {.rec = {.size = sizeof(t),
				    .kind = CT_REC_THREAD,
				    .ts_ns = now_of_calls++,
				    .pid = PID,
				    .tid = PID + i},
			    .comm = "python3"};

	put(&fakes[i], &t, sizeof(t));
}

static void put_name(uint64_t handle)
{
	static const char name[] = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
				   "11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_";
	struct {
		struct ct_name n;
		char name[(sizeof(name) + 7) & ~7ul];
	} rec = {.n = {.rec = {.size = sizeof(rec),
			       .kind = CT_REC_NAME,
			       .ts_ns = now_of_calls++,
			       .pid = PID,
			       .tid = PID},
		       .handle = handle,
		       .len = sizeof(name)}};

	memcpy(rec.n.name, name, sizeof(name));
	put(&fakes[0], &rec, sizeof(rec));
}

static bool put_call(unsigned i, uint32_t func_id, uint64_t handle)
{
	const uint64_t words[] = {handle,	  128, 16, 1, 256, 1, 1, 49152, 0x55d0c0ffee10,
				  0x7ffd12345678, 0};
	struct ct_call c = {.rec = {.size = CT_CALL_FIXED_SZ + sizeof(words),
				    .kind = CT_REC_CALL,
				    .ts_ns = now_of_calls - 3000,
				    .pid = PID,
				    .tid = PID + i},
			    .end_ns = now_of_calls,
			    .call_id = ++ids,
			    .func_id = func_id,
			    .lib_id = 1,
			    .word_cnt = sizeof(words) / 8};

	memcpy(c.words, words, sizeof(words));
	now_of_calls += 200;
	return put(&fakes[i], &c, c.rec.size);
}

struct filling {
	uint32_t func_id;
	uint64_t handle, max;
	uint64_t cnt;
	double seconds;
};

/* Fills the ring; the next thread is almost random. */
static void *fill(void *arg)
{
	static uint64_t next = 1;
	struct filling *f = arg;

	sched_setaffinity(0, sizeof(others), &others);
	while (f->cnt < f->max) {
		next = next * 6364136223846793005ull + 1442695040888963407ull;
		if (!put_call(next >> 61, f->func_id, f->handle))
			break;
		f->cnt++;
	}
	f->seconds = now(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static void fill_elsewhere(struct filling *f)
{
	pthread_t t;

	f->cnt = 0;
	if (pthread_create(&t, NULL, fill, f) || pthread_join(t, NULL))
		exit(1);
}

static void on_record(void *source, const void *rec, size_t size)
{
	source__give(source, rec, size);
}

static void on_raw(void *model, const struct raw *raw)
{
	model__record(model, raw);
}

static struct sink *open_sink(unsigned workers)
{
	static const struct trace_info info = {.version = "bench",
					       .base_ns = BASE_NS,
					       .hostname = "h",
					       .kernel = "k",
					       .machine = "m",
					       .driver_version = "",
					       .traced = "",
					       .not_traced = "",
					       .mechanism = "none"};
	struct sink *s = sink__open(SINK_JSONL, "/dev/null", &info);

	if (!s)
		exit(1);
	s->out->is_file = true; /* as required for a worker pool */
	sink__start_workers(s, workers, false);
	return s;
}

static struct ring *open_rings(struct source *src)
{
	struct ring *r = ring__new(RINGS, RING_SZ, on_record, src);

	if (!r)
		exit(1);
	for (unsigned i = 0; i < RINGS; i++) {
		struct fake *f = &fakes[i];

		f->data = malloc(2 * RING_SZ);
		if (!f->data)
			exit(1);
		memset(f->data, 0, 2 * RING_SZ);
		ring__add(r, &f->consumer, &f->producer, f->data);
	}
	return r;
}

static struct session *open_session(unsigned workers)
{
	static const struct session_opts none;
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		exit(1);
	s->o = &none;
	s->sinks[s->sink_cnt++] = open_sink(workers);
	return s;
}

/* Puts this thread on the first processor available, the others on the rest. */
static void part_from_workers(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	cpu_set_t first;
	int cpu = 0;

	if (!tasks || sched_getaffinity(0, sizeof(others), &others) || CPU_COUNT(&others) < 2) {
		fprintf(stderr, "two processors are needed\n");
		exit(1);
	}
	while (!CPU_ISSET(cpu, &others))
		cpu++;
	CPU_ZERO(&first);
	CPU_SET(cpu, &first);
	CPU_CLR(cpu, &others);
	while ((task = readdir(tasks)))
		if (atoi(task->d_name) != getpid() && atoi(task->d_name))
			sched_setaffinity(atoi(task->d_name), sizeof(others), &others);
	sched_setaffinity(0, sizeof(first), &first);
	closedir(tasks);
}

/* In slices that fit the worker pool, with time for them: otherwise the reader helps it. The rest
 * is the time for formatting and writing. */
static void measure(struct session *s, struct ring *ring, unsigned workers, int func_id,
		    uint64_t handle, uint64_t wanted)
{
	double all = now(CLOCK_PROCESS_CPUTIME_ID), filling = 0, reader = 0, began;
	struct filling f = {.func_id = func_id, .handle = handle};
	uint64_t cnt = 0;
	size_t taken;

	while (cnt < wanted) {
		f.max = wanted - cnt;
		fill_elsewhere(&f);
		cnt += f.cnt;
		filling += f.seconds;
		ring__look(ring);
		do {
			began = now(CLOCK_THREAD_CPUTIME_ID);
			taken = ring__take(ring, SLICE, UINT64_MAX);
			reader += now(CLOCK_THREAD_CPUTIME_ID) - began;
			usleep(WORKERS_US);
		} while (taken == SLICE);
	}
	sink__flush(s->sinks[0]);
	all = now(CLOCK_PROCESS_CPUTIME_ID) - all;
	printf("reader: %.0f ns a call, its worker pool of %u: %.0f ns; %.0f bytes a line\n",
	       reader / cnt * 1e9, workers, (all - filling - reader) / cnt * 1e9,
	       (double)s->sinks[0]->out->written / s->end.call_cnt);
	if (s->end.call_cnt != cnt)
		exit(1);
	s->end.call_cnt = s->sinks[0]->out->written = 0;
}

int main(int argc, char **argv)
{
	unsigned workers = argc > 1 ? strtoul(argv[1], NULL, 0) : 3;
	uint64_t wanted = argc > 2 ? strtoull(argv[2], NULL, 0) : 2000000;
	struct fnset *fns = fnset__new();
	struct session *s = open_session(workers);
	struct model_opts mo = {.fns = fns, .fn = session__event, .ctx = s, .stub_func_id = -1};
	struct source src = {.fn = on_raw, .ctx = model__new(&mo)};
	struct ring *ring = open_rings(&src);

	if (!fns || !src.ctx)
		return 1;
	for (unsigned i = 0; i < RINGS; i++)
		put_thread(i);
	put_name(NAMED);
	part_from_workers();
	for (int named = 0; named < 2; named++)
		measure(s, ring, workers, fnset__id(fns, "cuLaunchKernel"), named ? NAMED : 1,
			wanted);
	sink__close(s->sinks[0], NULL);
	ring__free(ring);
	model__free(src.ctx);
	fnset__free(fns);
	free(s);
	return src.bad_cnt ? 1 : 0;
}
