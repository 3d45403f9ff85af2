/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory that belongs to the program: what a call's arguments point to, kernels' names, return
 * addresses. A pointer may be anything, whatever the call returned, and another thread may unmap
 * it: it is followed directly only into the thread's own stack, below which it stands, into the
 * driver's file, and to what a successful call is there to write, or cannot do without. Everything
 * else the kernel copies, which cannot fault.
 */
#include "inject.h"

#include <string.h>
#include <sys/uio.h>

#define PAGE 4096ull

/* Bytes that could be read, from the beginning on. */
static cold size_t read_slow(void *to, uint64_t addr, size_t len)
{
	size_t first = PAGE - addr % PAGE;
	struct iovec here = {to, len}, there[2] = {{(void *)addr, len}};
	int cnt = 1;
	long n;

	if (is_quiet())
		return 0;
	if (first < len) {
		there[0].iov_len = first;
		there[1].iov_base = (void *)(addr + first);
		there[1].iov_len = len - first;
		cnt = 2;
	}
	n = sys(SYS_process_vm_readv, inject_process->pid, &here, 1, there, cnt, 0);
	return n < 0 ? 0 : n;
}

cold void stack_words(uint64_t *to, uint64_t from, uint64_t left)
{
	size_t len = STACK_WORDS * 8, n;

	memset(to, 0, len);
	n = read_slow(to, from, len);
	if (n < left)
		memcpy(to, (void *)from, left < len ? left : len);
}

static bool is_safe(const struct thread *t, uint64_t sp, uint64_t addr, size_t len)
{
	/* Up to the end of the stack that this runs on everything is there. */
	if (addr >= sp && sp >= t->stack_lo && sp < t->stack_hi && addr < t->stack_hi)
		return len <= t->stack_hi - addr;
	return addr - inject_lib.lo < inject_lib.hi - inject_lib.lo &&
	       object_has(&inject_lib, (void *)addr, false, false) &&
	       object_has(&inject_lib, (void *)(addr + len - 1), false, false) &&
	       (addr ^ (addr + len - 1)) < PAGE;
}

/* How far a plain load may be trusted. */
enum read_trust {
	TRUST_NOTHING,
	TRUST_USED, /* a call that went well has just read there, or written */
};

static bool is_direct(const struct thread *t, uint64_t sp, uint64_t addr, size_t len,
		      enum read_trust trust)
{
	return (trust == TRUST_USED && addr / PAGE == (addr + len - 1) / PAGE) ||
	       is_safe(t, sp, addr, len);
}

static int read_trusted(const struct thread *t, uint64_t sp, void *to, uint64_t addr, size_t len,
			enum read_trust trust)
{
	if (!len)
		return 0;
	if (likely(is_direct(t, sp, addr, len, trust))) {
		memcpy(to, (void *)addr, len);
		return 0;
	}
	return read_slow(to, addr, len) == len ? 0 : -EFAULT;
}

int memory_read(const struct thread *t, uint64_t sp, void *to, uint64_t addr, size_t len)
{
	return read_trusted(t, sp, to, addr, len, TRUST_NOTHING);
}

/* 0 or -EFAULT */
static int read_mem(const struct thread *t, const struct call *call, void *to, uint64_t addr,
		    size_t len, enum read_trust trust)
{
	return read_trusted(t, call->sp, to, addr, len, trust);
}

/* Length with the NUL, which a string that was cut has not; or -EFAULT. */
static int read_str(const struct thread *t, const struct call *call, char *to, uint64_t addr,
		    size_t size, enum read_trust trust)
{
	size_t n = size, len;

	if (!size)
		return 0;
	if (is_direct(t, call->sp, addr, size, trust)) {
		len = strnlen((char *)addr, size);
		memcpy(to, (char *)addr, len);
	} else {
		n = read_slow(to, addr, size);
		len = strnlen(to, n);
		if (len == n && n < size)
			return -EFAULT;
	}
	if (len == size)
		return size - 1; /* cut, so without a NUL */
	to[len] = 0;
	return len + 1;
}

/* Where a pointee is, as cap_locate() of bpf/pointee.bpf.h. */
static int locate(const struct thread *t, const struct call *call, const struct ct_cap *cap,
		  enum read_trust trust, uint64_t *addr, uint32_t *len)
{
	uint64_t p = call_word(call, cap->arg), counter;
	uint32_t count = 1;

	if (!p)
		return -EFAULT;
	switch (cap->kind) {
	case CT_CAP_PSTR:
		if (read_mem(t, call, &p, p, sizeof(p), trust))
			return -EFAULT;
		break;
	case CT_CAP_ARR:
		counter = call_word(call, cap->count_arg);
		count = counter;
		if (cap->flags & CT_CAP_F_COUNT_PTR &&
		    read_mem(t, call, &count, counter, sizeof(count), TRUST_NOTHING))
			return -EFAULT;
		break;
	case CT_CAP_PARR:
		if (read_mem(t, call, &count, p + cap->count_off, sizeof(count), TRUST_NOTHING) ||
		    read_mem(t, call, &p, p + cap->off, sizeof(p), TRUST_NOTHING))
			return -EFAULT;
		break;
	case CT_CAP_FSTR:
	case CT_CAP_FMEM:
		if (read_mem(t, call, &p, p + cap->off, sizeof(p), TRUST_NOTHING) ||
		    (cap->count_off &&
		     read_mem(t, call, &p, p + cap->count_off, sizeof(p), TRUST_NOTHING)))
			return -EFAULT;
		break;
	}
	if (count > CT_CAP_SZ_MAX)
		count = CT_CAP_SZ_MAX;
	*len = cap->size * count;
	if (*len > CT_CAP_SZ_MAX)
		*len = CT_CAP_SZ_MAX;
	*addr = p;
	return p ? 0 : -EFAULT;
}

/* CU_LAUNCH_PARAM_BUFFER_POINTER, its value, CU_LAUNCH_PARAM_BUFFER_SIZE, its value */
struct launch_extra {
	uint64_t is_buffer, buffer, is_size, size;
};

/* As extra_read() of bpf/pointee.bpf.h. */
static int read_extra(const struct thread *t, const struct call *call, const struct ct_cap *cap,
		      enum read_trust trust, uint32_t *to)
{
	struct launch_extra e;
	uint64_t size, at = call_word(call, cap->arg);

	if (!at || read_mem(t, call, &e, at, sizeof(e), trust))
		return -EFAULT;
	if (e.is_buffer != 1 || e.is_size != 2 ||
	    read_mem(t, call, &size, e.size, sizeof(size), trust) || size < cap->off + sizeof(*to))
		return -EINVAL;
	return read_mem(t, call, to, e.buffer + cap->off, sizeof(*to), trust) ? -EFAULT
									      : (int)sizeof(*to);
}

/* Reads one pointee; its length, or -errno. */
static int pointee(const struct thread *t, const struct call *call, const struct ct_cap *cap,
		   enum read_trust trust, uint8_t *to)
{
	uint64_t addr;
	uint32_t len;
	int n;

	if (locate(t, call, cap, trust, &addr, &len))
		return -EFAULT;
	if (cap->kind == CT_CAP_STR)
		return read_str(t, call, (char *)to, addr, len, trust);
	if (cap->kind == CT_CAP_PSTR || cap->kind == CT_CAP_FSTR)
		return read_str(t, call, (char *)to, addr, len, TRUST_NOTHING);
	n = read_mem(t, call, to, addr, len, cap->kind == CT_CAP_MEM ? trust : TRUST_NOTHING);
	return n ? n : (int)len;
}

hot uint32_t pointees_from(unsigned i, struct thread *t, const struct call *call,
			   const struct ct_spec *spec, uint8_t *rec, int16_t *cap_len, bool ok,
			   uint32_t off)
{
	for (; i < CT_MAX_CAPS && i < spec->cap_cnt; i++) {
		const struct ct_cap *cap = &spec->caps[i];
		enum read_trust trust = TRUST_NOTHING;
		int n;

		if (cap->flags & CT_CAP_F_ON_SUCCESS) {
			if (!ok)
				continue;
			/* The others may be optional. */
			trust = i ? TRUST_NOTHING : TRUST_USED;
		}
		if (off >= CT_OUT_SZ_MAX)
			n = -ENOSPC;
		else if (cap->kind == CT_CAP_COMM)
			n = comm_read(t, call, cap, ok, (struct ct_comm *)(rec + off));
		else
			n = pointee(t, call, cap, trust, rec + off);
		cap_len[i] = n;
		if (n <= 0)
			continue;
		/* Up to where the next one begins: what was there is of another record. */
		memset(rec + off + n, 0, -n & 7);
		off += (n + 7) & ~7u;
	}
	return off;
}

cold uint32_t extra_add(const struct thread *t, const struct call *call, const struct ct_spec *spec,
			struct ct_call *rec, bool ok, uint32_t off)
{
	const struct ct_cap *cap = &spec->caps[spec->cap_cnt];
	uint64_t *to = (uint64_t *)((uint8_t *)rec + off);
	int n;

	*to = 0;
	/* The driver has copied the arguments that lie there. */
	n = read_extra(t, call, cap, ok ? TRUST_USED : TRUST_NOTHING, (uint32_t *)to);
	rec->cap_len[spec->cap_cnt] = n;
	rec->cap_cnt = spec->cap_cnt + 1;
	return n > 0 ? off + 8 : off;
}

uint32_t stack_add(const struct thread *t, const struct call *call, uint64_t *to)
{
	uint32_t max = inject_process->set->stack_max, cnt = 0;
	uint64_t frame[2] = {call->fp, call->ret};

	if (!max || max > CT_STACK_MAX)
		max = CT_STACK_MAX;
	/* Driver 580 calls through its pointer: the function's own address is no news. */
	if (hook_is_entry(call->hook, call->ret) &&
	    read_mem(t, call, frame, call->fp, sizeof(frame), TRUST_NOTHING))
		return 0;
	while (cnt < max) {
		to[cnt++] = frame[1];
		if (!frame[0] || frame[0] % 8 ||
		    read_mem(t, call, frame, frame[0], sizeof(frame), TRUST_NOTHING))
			break;
	}
	return cnt;
}

/* --- names of kernels, as bpf/name.bpf.h has them --- */

/* What was told: key of a handle, or one more where there was no name. Each has two places to be
 * in, or two kernels that are launched in turn might push each other out each time. */
#define TOLD_LOG 11
static uint64_t told[1 << TOLD_LOG];
static uint64_t names_gen = 1;
/* A handle that led to no name is followed again at one of so many calls. */
#define NAME_RETRY 256

void names_forget(void)
{
	__atomic_fetch_add(&names_gen, 1, __ATOMIC_RELAXED);
}

/* Sends the name; without one only when asked to. */
static cold bool name_send(struct thread *t, const struct call *call, uint64_t handle, bool anyway)
{
	struct ct_name *rec = ring_room(t, sizeof(*rec) + CT_NAME_SZ_MAX);
	uint64_t addr;
	int len = 0;

	/* It goes with a later call. */
	if (!rec)
		return false;
	if (!read_mem(t, call, &addr, handle + CT_NAME_PTR_OFF, sizeof(addr), TRUST_NOTHING))
		len = read_str(t, call, rec->name, addr, CT_NAME_SZ_MAX, TRUST_NOTHING);
	if (len < 0)
		len = 0;
	if (!len && !anyway)
		return false;
	rec->rec.size = sizeof(*rec) + len;
	rec->rec.kind = CT_REC_NAME;
	rec->rec.flags = 0;
	rec->rec.ts_ns = inject_now();
	rec->rec.pid = 0;
	rec->rec.tid = t->tid;
	rec->handle = handle;
	rec->len = len;
	rec->reserved = 0;
	ring_send(t, rec->rec.size);
	return len;
}

static void name_tell(struct thread *t, const struct call *call, uint64_t handle)
{
	uint64_t gen = __atomic_load_n(&names_gen, __ATOMIC_RELAXED);
	uint64_t key = (handle ^ gen << 48) * 0x9e3779b97f4a7c15ull, i = key >> (64 - TOLD_LOG);
	uint64_t first = __atomic_load_n(&told[i], __ATOMIC_RELAXED);
	uint64_t second = __atomic_load_n(&told[i ^ 1], __ATOMIC_RELAXED);
	bool is_nameless = first == key + 1 || second == key + 1;

	if (!handle || likely(first == key) || second == key)
		return;
	/* A read that fails costs more than the rest of the call: tried again now and then. */
	if (is_nameless && t->slot->next_id % NAME_RETRY)
		return;
	if (!name_send(t, call, handle, false))
		key++;
	/* All threads look there at each launch: nothing is stored that is there. */
	if (first == key || second == key)
		return;
	/* The newcomer to its own place; who was there moves on. */
	if (!is_nameless && first)
		__atomic_store_n(&told[i ^ 1], first, __ATOMIC_RELAXED);
	__atomic_store_n(&told[i], key, __ATOMIC_RELAXED);
}

hot void name_of_call(struct thread *t, const struct call *call, const struct ct_spec *spec,
		      bool ok)
{
	uint64_t handle = call_word(call, spec->handle_word - 1u);

	if (!(spec->flags & CT_SPEC_F_HANDLE_OUT))
		name_tell(t, call, handle);
	else if (ok && !read_mem(t, call, &handle, handle, sizeof(handle), TRUST_NOTHING) && handle)
		name_send(t, call, handle, true);
}
