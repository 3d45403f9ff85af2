/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of our thread (gpu.c), names of kernels and descriptions of devices, which are sent once.
 */
#include "gpu_priv.h"

#include <string.h>
#include <time.h>

/* Maximum time that records wait while the tracer does not read; the program does not wait. */
#define ROOM_MAX_NS 2000000000ull

static struct {
	const struct process *p; /* whose tracer receives the records */
	uint64_t devices;	 /* one bit each: its description has been sent */
	uint64_t sent[4096];	 /* names, by their hash */
	uint32_t sent_cnt;
} to;

bool gpu_send(struct thread *t, const struct ct_rec *rec)
{
	uint64_t began = inject_now();
	void *at;

	for (;;) {
		/* Shows the tracer that a record is being made; its time is set after this. */
		busy_set(t, PLACE);
		at = ring_room(t, rec->size);
		if (at) {
			memcpy(at, rec, rec->size);
			if (rec->kind == CT_REC_GPU_RUN)
				((struct ct_gpu_run *)at)->sent_ns = inject_now();
			else
				((struct ct_rec *)at)->ts_ns = inject_now();
			ring_send(t, ((struct ct_rec *)at)->size);
		}
		busy_clear(t);
		if (at || inject_now() - began > ROOM_MAX_NS)
			break;
		sys(SYS_nanosleep, &(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return at;
}

bool gpu_send_counted(struct thread *t, const struct ct_rec *rec)
{
	bool sent = gpu_send(t, rec);

	to.p->shm->gpu.lost += !sent;
	return sent;
}

static uint64_t hash_of(const char *s)
{
	uint64_t h = 14695981039346656037ull; /* FNV-1a */

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 1099511628211ull;
	return h ? h : 1;
}

static void forget_names(void)
{
	memset(to.sent, 0, sizeof(to.sent));
	to.sent_cnt = 0;
}

/* Returns whether it was sent before; from now on it counts as sent. */
static bool is_known(uint64_t id)
{
	const uint32_t mask = sizeof(to.sent) / sizeof(*to.sent) - 1;
	uint32_t i = id & mask;

	if (to.sent_cnt > mask / 2)
		forget_names();
	for (; to.sent[i]; i = (i + 1) & mask)
		if (to.sent[i] == id)
			return true;
	to.sent[i] = id;
	to.sent_cnt++;
	return false;
}

uint64_t gpu_send_name(struct thread *t, const char *name)
{
	static union {
		struct ct_name name;
		uint8_t bytes[sizeof(struct ct_name) + CT_NAME_SZ_MAX];
	} buf;
	uint64_t id = hash_of(name);
	size_t len = strlen(name) + 1;

	if (is_known(id))
		return id;
	memset(&buf, 0, sizeof(buf));
	if (len > CT_NAME_SZ_MAX)
		len = CT_NAME_SZ_MAX;
	buf.name.rec.size = sizeof(buf.name) + len;
	buf.name.rec.kind = CT_REC_NAME;
	buf.name.rec.flags = CT_NAME_F_GPU;
	buf.name.rec.tid = t->tid;
	buf.name.handle = id;
	buf.name.len = len;
	memcpy(buf.name.name, name, len - 1);
	/* It is sent again with the next record. */
	if (!gpu_send_counted(t, &buf.name.rec))
		forget_names();
	return id;
}

/* Once per device that executed something (device numbers are small), before its first execution.
 */
void gpu_send_device(struct thread *t, uint32_t device)
{
	uint32_t redact = to.p->set->redact;
	struct ct_device d;

	if (device >= 64 || to.devices >> device & 1 || redact == CT_REDACT_ARGS)
		return;
	to.devices |= 1ull << device;
	device_query(&d, device, redact == CT_REDACT_NOTHING);
	d.rec.tid = t->tid;
	/* It is sent with the next record. */
	if (!gpu_send_counted(t, &d.rec))
		to.devices &= ~(1ull << device);
}

void gpu_send_begin(const struct process *p)
{
	to.p = p;
	to.devices = 0;
	forget_names();
}
