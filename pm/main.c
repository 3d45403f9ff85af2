/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cudatrace-pm HZ CUPTI PROGRAM: samples the hardware counters of all GPUs and writes records
 * (ct_gpu.h) to descriptor 3 until its reader closes that or shuts it down; then it reads once
 * more. CUPTI: its path, or "". PROGRAM: the traced command, or "".
 */
#include "sampler.h"
#include "start.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SOCK 3
/* How long a record waits for the reader; meanwhile the driver keeps the samples. */
#define SEND_MS 20

uint64_t clock_ns(int clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void stop_all(struct sampler *s)
{
	for (unsigned i = 0; i < s->gpu_cnt; i++)
		if (s->gpus[i].object)
			stop_gpu(s, &s->gpus[i]);
}

static bool try_send(struct sampler *s, const struct ct_gpu *rec)
{
	return send(s->sock, rec, sizeof(*rec), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*rec);
}

void send_record(struct sampler *s, struct ct_gpu *rec)
{
	struct pollfd room = {.fd = s->sock, .events = POLLOUT};

	rec->rec.size = sizeof(*rec);
	rec->rec.kind = CT_REC_GPU;
	if (!rec->rec.ts_ns)
		rec->rec.ts_ns = clock_ns(CLOCK_MONOTONIC);
	rec->lost_cnt = s->lost_cnt;
	if (try_send(s, rec) || ((errno == EAGAIN || errno == ENOBUFS) &&
				 poll(&room, 1, SEND_MS) > 0 && try_send(s, rec)))
		return;
	/* The reader has closed its end: exit. */
	if (errno != EAGAIN && errno != ENOBUFS) {
		stop_all(s);
		_exit(0);
	}
	s->lost_cnt++;
}

struct ct_gpu record_of(const struct gpu *g, enum ct_gpu_op op)
{
	struct ct_gpu rec = {
		.op = op,
		.gpu = g ? g->index : CT_GPU_NONE,
		.gpu_instance = CT_GPU_WHOLE,
		.compute_instance = CT_GPU_WHOLE,
		.minor = CT_GPU_NONE,
	};

	if (g)
		memcpy(rec.uuid, g->uuid, sizeof(rec.uuid));
	return rec;
}

void send_missing(struct sampler *s, const struct gpu *g, const char *fmt, ...)
{
	struct ct_gpu rec = record_of(g, CT_GPU_PM_MISSING);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(rec.name, sizeof(rec.name), fmt, ap);
	va_end(ap);
	send_record(s, &rec);
}

static bool load(struct sampler *s, const char *path, const char *program)
{
	char symbol[64];
	void *lib = find_cupti(path, program);

	if (!lib && *path)
		send_missing(s, NULL, "--cupti: %.150s",
			     access(path, R_OK) ? strerror(errno) : lib_error());
	else if (!lib)
		send_missing(s, NULL, "no libcupti was found: give its path with --cupti PATH");
	if (!lib)
		return false;
#define FN(name, params)                                                                           \
	snprintf(symbol, sizeof(symbol), "cupti%s", #name);                                        \
	*(void **)&s->c.name = lib_symbol(lib, symbol);                                            \
	if (!s->c.name) {                                                                          \
		send_missing(s, NULL, "this libcupti has no %s: use a newer one (13.0 works)",     \
			     symbol);                                                              \
		return false;                                                                      \
	}
	PM_FUNCTIONS
#undef FN
	*(void **)&s->c.GetResultString = lib_symbol(lib, "cuptiGetResultString");
	return true;
}

/* Returns false if the reader has closed the socket or shut it down. */
static bool wait_until(struct sampler *s, uint64_t due_ns)
{
	struct pollfd p = {.fd = s->sock, .events = POLLIN};
	uint64_t now;

	while ((now = clock_ns(CLOCK_MONOTONIC)) < due_ns) {
		if (poll(&p, 1, (int)((due_ns - now) / 1000000) + 1) > 0)
			return false;
	}
	return poll(&p, 1, 0) <= 0;
}

static bool read_all(struct sampler *s)
{
	bool any = false;

	for (unsigned i = 0; i < s->gpu_cnt; i++) {
		if (s->gpus[i].object)
			read_gpu(s, &s->gpus[i]);
		any |= s->gpus[i].object != NULL;
	}
	return any;
}

static void finish(struct sampler *s)
{
	struct ct_gpu rec = record_of(NULL, CT_GPU_PM_END);

	read_all(s);
	for (unsigned i = 0; i < s->gpu_cnt; i++)
		if (s->gpus[i].last_read)
			count_end(s, &s->gpus[i]);
	send_record(s, &rec);
	stop_all(s);
}

int main(int argc, char **argv, char **env)
{
	static struct sampler s = {.sock = SOCK};
	unsigned long hz = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	uint64_t due;

	prctl(PR_SET_NAME, "cudatrace-pm");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!hz)
		return 2;
	s.interval_ns = 1000000000 / hz;
	s.read_ns = hz < READ_SLOW_HZ ? READ_SLOW_NS : READ_NS;
	if (!load(&s, argv[2], argv[3]))
		return 1;
	open_gpus(&s);
	due = clock_ns(CLOCK_MONOTONIC);
	while (read_all(&s)) {
		/* After a reading that takes longer than a period, the next one begins at once. */
		due += s.read_ns;
		if (due < clock_ns(CLOCK_MONOTONIC))
			due = clock_ns(CLOCK_MONOTONIC);
		if (!wait_until(&s, due)) {
			finish(&s);
			return 0;
		}
	}
	return 1;
}
