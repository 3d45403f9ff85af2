/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory that a traced process shares with the tracer: it may write anything anywhere, also
 * between two reads. Each record must have its stated length and belong to that process.
 */
#include "fuzz.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "ct_nv.h"
#include "inject/inject_priv.h"
#include "record/check.h"

#define RING_SZ	   (64 << 10)
#define SLOTS	   3
#define RING_OFF   ((sizeof(struct ct_shm_slot) + 4095) & ~4095ul)
#define WRITTEN_SZ (sizeof(struct ct_shm_slot) + 1024)

static struct inject in;
static struct client client;

static void on_record(void *ctx, const void *rec, size_t size)
{
	struct raw raw;

	assert(size >= sizeof(struct ct_rec) && size <= CT_SHM_REC_MAX);
	if (raw_check(rec, size, 1, &raw))
		return;
	assert(raw.rec->pid == (uint32_t)getpid());
	if (raw.rec->kind == CT_REC_CALL)
		assert(raw.call.call->func_id < CT_MAX_FUNCS);
	if (raw.rec->kind == CT_REC_NV)
		assert(!raw.nv.call_id || raw.nv.nv->func_id < CT_MAX_FUNCS);
}

static void on_count(void *ctx, const struct ct_count_key *key, const struct ct_count *c)
{
	assert(key->func_id < CT_MAX_FUNCS && key->pid == (uint32_t)getpid());
}

static void on_error(void *ctx, const struct ct_error_key *key, uint64_t cnt)
{
	assert(key->func_id < CT_MAX_FUNCS && cnt);
}

static void begin(void)
{
	if (!in.o.fn) {
		in.o.fns = fnset__new();
		in.o.fn = on_record;
		in.settings.fd = in.epoll_fd = in.timer_fd = in.listen_fd = in.late_sock = -1;
		assert(in.o.fns && !settings__open(&in.settings, &in.o));
		client.pid = getpid();
		client.turn = UINT32_MAX;
		assert(!shm__open(&client.shm, RING_SZ, NULL, NULL));
		in.clients[0] = &client;
		in.client_cnt = 1;
	}
	client.pidfd = -1;
	client.shm.slot_cnt = SLOTS;
	client.shm.bad_cnt = 0;
	client.shm.ended = false;
	in.synth_at = in.synth_cnt = 0;
	for (unsigned i = 0; i < SLOTS; i++) {
		memset(shm__slot(&client.shm, i), 0, RING_OFF + 1024);
		free(client.shm.slots[i].blocks);
		memset(&client.shm.slots[i], 0, sizeof(client.shm.slots[i]));
	}
}

/* Returns a place in a slot's own part, in its ring, or at the ring's end. */
static void scribble(struct input *from)
{
	uint8_t *slot = (uint8_t *)shm__slot(&client.shm, take8(from) % SLOTS);
	size_t off = take16(from) % WRITTEN_SZ, size = take8(from);

	if (off >= sizeof(struct ct_shm_slot))
		off += RING_OFF - sizeof(struct ct_shm_slot);
	take(from, slot + off, size);
}

/* Appends a whole record, as a thread does. */
static void write_record(struct input *from)
{
	unsigned i = take8(from) % SLOTS;
	struct ct_shm_slot *slot = shm__slot(&client.shm, i);
	uint8_t *ring = (uint8_t *)slot + RING_OFF;
	uint32_t size = 24 + take8(from);
	uint64_t off = slot->head & (RING_SZ - 1);

	if (off + size + 8 > 1024)
		return;
	take(from, ring + off, size);
	memcpy(ring + off, &size, sizeof(size));
	ring[off + 4] = take8(from) % (CT_REC_KIND_CNT + 1);
	ring[off + 5] = 0;
	slot->head += (size + 7) & ~7u;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input from = {data, size};
	struct ct_totals sum;

	begin();
	while (from.left) {
		uint64_t now = take8(&from);

		switch (take8(&from) % 4) {
		case 0:
			scribble(&from);
			break;
		case 1:
			write_record(&from);
			break;
		case 2:
			for (unsigned i = 0; i < SLOTS; i++)
				shm__look(&client.shm, i, now);
			/* From here on, nothing that is written counts. */
			if (now == 255)
				shm__end(&client.shm, now);
			break;
		default:
			inject__take(&in, take8(&from) % 32, UINT64_MAX - 1);
		}
	}
	inject__totals(&in, &sum);
	inject__read_counts(&in, on_count, on_error, NULL);
	clients__give_up(&in, &client, 1);
	inject__unfinished(&in);
	return 0;
}
