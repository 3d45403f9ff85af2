/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cudatrace-nvml PERIOD_MS: samples all GPUs and writes records (ct_gpu.h) to descriptor 3 until
 * its reader closes it. It is a process of its own because NVML may hang together with a GPU.
 */
#include "sampler.h"

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

uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

void send_record(struct sampler *s, struct ct_gpu *rec)
{
	rec->rec.size = sizeof(*rec);
	rec->rec.kind = CT_REC_GPU;
	rec->rec.ts_ns = clock_ns();
	rec->lost_cnt = s->lost_cnt;
	if (send(s->sock, rec, sizeof(*rec), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*rec))
		return;
	/* The reader has closed its end: exit. */
	if (errno != EAGAIN && errno != ENOBUFS)
		_exit(0);
	s->lost_cnt++;
}

struct ct_gpu record_of(const struct device *d, enum ct_gpu_op op)
{
	struct ct_gpu rec = {
		.op = op,
		.gpu = d ? d->index : CT_GPU_NONE,
		.gpu_instance = d ? d->gpu_instance : CT_GPU_WHOLE,
		.compute_instance = d ? d->compute_instance : CT_GPU_WHOLE,
		.minor = CT_GPU_NONE,
	};

	if (d)
		memcpy(rec.uuid, d->uuid, sizeof(rec.uuid));
	return rec;
}

void send_missing(struct sampler *s, const struct device *d, const char *fmt, ...)
{
	struct ct_gpu rec = record_of(d, CT_GPU_MISSING);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(rec.name, sizeof(rec.name), fmt, ap);
	va_end(ap);
	send_record(s, &rec);
}

const char *error_text(const struct sampler *s, int ret)
{
	const char *text = s->n.error_string ? s->n.error_string(ret) : NULL;

	return text && *text ? text : "an unknown error";
}

bool answered(struct sampler *s, struct device *d, int ret)
{
	unsigned bit = ret > 0 && ret < 31 ? 1u << ret : 1u << 31;

	if (ret == NVML_SUCCESS || ret == NVML_NOT_SUPPORTED)
		return !ret;
	if (!(d->refused & bit))
		send_missing(s, d, "NVML error: %.100s (%d)", error_text(s, ret), ret);
	d->refused |= bit;
	return false;
}

void put(struct ct_gpu *rec, enum ct_gpu_value id, uint64_t value)
{
	rec->known |= 1ull << id;
	rec->values[id] = value;
}

static bool load(struct sampler *s)
{
	void *lib = lib_open("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		send_missing(s, NULL, "there is no NVML: %.150s", lib_error());
		return false;
	}
#define FN(id, symbol, older, args)                                                                \
	*(void **)&s->n.id = lib_symbol(lib, symbol);                                              \
	if (!s->n.id && (older))                                                                   \
		*(void **)&s->n.id = lib_symbol(lib, (const char *)(older) ?: "");
	NVML_FUNCTIONS
#undef FN
	*(void **)&s->n.error_string = lib_symbol(lib, "nvmlErrorString");
	if (s->n.init && s->n.count && s->n.handle)
		return true;
	send_missing(s, NULL, "libnvidia-ml.so.1 is not NVML: it lacks functions");
	return false;
}

static bool begin(struct sampler *s)
{
	int ret;

	if (!load(s))
		return false;
	ret = s->n.init();
	if (ret) {
		send_missing(s, NULL, "NVML cannot be used: %.100s (%d)", error_text(s, ret), ret);
		return false;
	}
	find_devices(s);
	find_ports();
	return s->device_cnt;
}

/* Counts Xids of all devices since the last call. */
static void take_events(struct sampler *s)
{
	struct nvml_event e;

	for (int i = 0; s->events && i < 64; i++) {
		e = (struct nvml_event){0};
		if (ASK(&s->n, event, s->events, &e, 0))
			return;
		for (unsigned k = 0; k < s->device_cnt; k++) {
			struct device *d = &s->devices[k];

			if (d->handle != e.device || !(e.type & NVML_EVENT_XID))
				continue;
			d->xid_cnt++;
			d->last_xid = e.data;
		}
	}
}

static void sample_all(struct sampler *s)
{
	take_events(s);
	for (unsigned i = 0; i < s->device_cnt; i++)
		sample_device(s, &s->devices[i]);
	sample_ports(s);
}

/* Returns false if the reader has closed its end. */
static bool wait_until(struct sampler *s, uint64_t due_ns)
{
	struct pollfd p = {.fd = s->sock};
	uint64_t now;

	while ((now = clock_ns()) < due_ns) {
		if (poll(&p, 1, (int)((due_ns - now) / 1000000) + 1) > 0)
			return false;
	}
	return poll(&p, 1, 0) <= 0;
}

int main(int argc, char **argv, char **env)
{
	static struct sampler s = {.sock = SOCK};
	uint64_t period = argc > 1 ? strtoull(argv[1], NULL, 10) * 1000000 : 0, due;

	prctl(PR_SET_NAME, "cudatrace-nvml");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!period)
		return 2;
	if (!begin(&s))
		return 1;
	due = clock_ns();
	do {
		sample_all(&s);
		/* A sample that takes longer than a period skips the periods that it overran. */
		do
			due += period;
		while (due <= clock_ns());
	} while (wait_until(&s, due));
	return 0;
}
