/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parameters of a launched kernel. The driver is queried for their sizes and offsets once per
 * kernel, by the thread that has just launched it: the function is loaded then, so the query only
 * reads. It goes behind the driver's exports, so that no producer records it. Meanwhile the thread
 * does not take part in stream captures, which other queries could end.
 */
#include "inject.h"

#include <string.h>

/* CU_STREAM_CAPTURE_MODE_RELAXED */
#define CAPTURE_RELAXED 2

typedef int param_fn(uint64_t handle, size_t i, size_t *off, size_t *size);
typedef int capture_fn(int *mode);

/* Layouts by handle. Each handle has SLOTS possible slots. A reader copies a layout and then checks
 * that its key is still there. cnt 0: the driver does not return it. */
#define LAYOUTS_LOG 12
#define SLOTS	    4
#define KEY_BUSY    1ull
static struct layout {
	uint64_t key;
	struct ct_params head;
	struct ct_param of[CT_PARAMS_MAX];
} layouts[1 << LAYOUTS_LOG];

static uint64_t key_of(uint64_t handle)
{
	/* A handle never has the key that it had in another generation. */
	uint64_t key =
		(handle ^ names_generation() * 0xd6e8feb86659fd93ull) * 0x9e3779b97f4a7c15ull;

	return key > KEY_BUSY ? key : 2;
}

static struct layout *slot_of(uint64_t key, unsigned i)
{
	return &layouts[(key >> (64 - LAYOUTS_LOG)) ^ i];
}

/* Returns whether the slot had the layout. */
static bool layout_copy(const struct layout *from, uint64_t key, struct layout *to)
{
	unsigned cnt;

	if (__atomic_load_n(&from->key, __ATOMIC_ACQUIRE) != key)
		return false;
	to->head = from->head;
	cnt = to->head.cnt;
	if (cnt <= CT_PARAMS_MAX)
		memcpy(to->of, from->of, cnt * sizeof(*to->of));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&from->key, __ATOMIC_RELAXED) == key;
}

static bool layout_find(uint64_t key, struct layout *to)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (layout_copy(slot_of(key, i), key, to))
			return true;
	return false;
}

/* Takes a free slot, or another one of the handle's each time. */
static void layout_put(const struct layout *l)
{
	static uint32_t turn;
	struct layout *to = slot_of(l->key, __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % SLOTS);
	uint64_t was;

	for (unsigned i = 0; i < SLOTS; i++)
		if (!slot_of(l->key, i)->key)
			to = slot_of(l->key, i);
	was = __atomic_load_n(&to->key, __ATOMIC_RELAXED);
	/* Another thread is writing there: a later launch queries again. */
	if (was == KEY_BUSY || !__atomic_compare_exchange_n(&to->key, &was, KEY_BUSY, false,
							    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	to->head = l->head;
	memcpy(to->of, l->of, sizeof(to->of));
	__atomic_store_n(&to->key, l->key, __ATOMIC_RELEASE);
}

/* Returns false if the driver does not return them for this kind of handle. */
static bool query(param_fn *fn, uint64_t handle, struct layout *l)
{
	size_t off, size;

	l->head = (struct ct_params){0};
	for (size_t i = 0; fn && i <= CT_PARAMS_MAX; i++) {
		off = size = 0;
		if (fn(handle, i, &off, &size))
			break;
		if (i == CT_PARAMS_MAX) {
			l->head.flags = CT_PARAMS_F_MORE;
			break;
		}
		if (off >= CT_PARAM_F_MISSING || !size || size > UINT16_MAX)
			return false;
		l->of[l->head.cnt++] = (struct ct_param){off, size};
	}
	return l->head.cnt;
}

/* The handle is a CUfunction or a CUkernel: the driver accepts each in one of the functions. */
static cold void layout_query(uint64_t handle, struct layout *l)
{
	param_fn *function = (param_fn *)hook_beneath("cuFuncGetParamInfo"),
		 *kernel = (param_fn *)hook_beneath("cuKernelGetParamInfo");
	capture_fn *capture = (capture_fn *)hook_beneath("cuThreadExchangeStreamCaptureMode");
	int mode = CAPTURE_RELAXED;

	l->head = (struct ct_params){0};
	if (function && capture && !capture(&mode)) {
		if (!query(function, handle, l) && !query(kernel, handle, l))
			l->head.cnt = 0;
		capture(&mode);
	}
	if (!l->head.cnt)
		l->head.flags = CT_PARAMS_F_UNKNOWN;
}

/* Where the values are: in memory of their own each, or in one buffer. */
struct values {
	const struct thread *t;
	uint64_t sp;
	bool ok;
	uint64_t at[CT_PARAMS_MAX]; /* 0: unknown */
};

static void values_find(struct values *v, const struct layout *l, uint64_t params, uint64_t extra)
{
	/* CU_LAUNCH_PARAM_BUFFER_POINTER, its value, CU_LAUNCH_PARAM_BUFFER_SIZE, its value */
	uint64_t e[4], size;

	memset(v->at, 0, sizeof(v->at));
	if (params) {
		if (memory_read_used(v->t, v->sp, v->at, params, l->head.cnt * 8ul, v->ok))
			memset(v->at, 0, sizeof(v->at));
		return;
	}
	if (!extra || memory_read_used(v->t, v->sp, e, extra, sizeof(e), v->ok) || e[0] != 1 ||
	    e[2] != 2 || memory_read_used(v->t, v->sp, &size, e[3], sizeof(size), v->ok))
		return;
	for (unsigned i = 0; i < l->head.cnt; i++)
		if ((uint64_t)l->of[i].off + l->of[i].size <= size)
			v->at[i] = e[1] + l->of[i].off;
}

/* Copies the values; returns their bytes. */
static uint32_t values_copy(const struct values *v, const struct ct_params *head,
			    struct ct_param *of, uint8_t *to)
{
	uint32_t used = 0;

	for (unsigned i = 0; i < head->cnt; i++) {
		uint32_t room = CT_PARAMS_SZ_MAX - used, n = of[i].size < room ? of[i].size : room;

		if (!n)
			break;
		if (!v->at[i] || memory_read_used(v->t, v->sp, to + used, v->at[i], n, v->ok))
			of[i].off |= CT_PARAM_F_MISSING;
		else
			used += n;
	}
	return used;
}

hot uint32_t params_add(const struct thread *t, const struct call *call, const struct ct_cap *cap,
			uint8_t *rec, int16_t *cap_len, bool ok, uint32_t off)
{
	uint64_t handle = call_word(call, cap->off), key = key_of(handle);
	struct ct_params *to = (struct ct_params *)(rec + off);
	struct ct_param *of = (struct ct_param *)(to + 1);
	struct values v = {.t = t, .sp = call->sp, .ok = ok};
	struct layout l;
	uint32_t n;

	if (off >= CT_OUT_SZ_MAX) {
		*cap_len = -ENOSPC;
		return off;
	}
	if (!layout_find(key, &l)) {
		l.head = (struct ct_params){.flags = CT_PARAMS_F_UNKNOWN};
		/* A function of a second libcuda has another hook. */
		if (ok && call->hook == call->func_id) {
			layout_query(handle, &l);
			l.key = key;
			layout_put(&l);
		}
	}
	*to = l.head;
	memcpy(of, l.of, l.head.cnt * sizeof(*of));
	n = sizeof(*to) + l.head.cnt * sizeof(*of);
	if (l.head.cnt) {
		values_find(&v, &l, call_word(call, cap->arg),
			    cap->count_arg ? call_word(call, cap->count_arg) : 0);
		n += values_copy(&v, &l.head, of, rec + off + n);
	}
	*cap_len = n;
	memset(rec + off + n, 0, -n & 7);
	return off + ((n + 7) & ~7u);
}
