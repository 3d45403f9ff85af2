/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of the program: data that arguments point to, kernel names, return addresses. A pointer
 * may be invalid whatever the call returned, and another thread may unmap its target. So the
 * library reads directly only from the thread's own stack above the current position, from the
 * driver's file, and from memory that a successful call has written or needed. The kernel copies
 * everything else, which cannot fault.
 */
#include "inject.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define PAGE 4096ull

/* Returns the number of bytes that could be read, from the start. */
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
	n = kernel_copy(&here, 1, there, cnt);
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
	/* The current stack is mapped up to its end. */
	if (addr >= sp && sp >= t->stack_lo && sp < t->stack_hi && addr < t->stack_hi)
		return len <= t->stack_hi - addr;
	return addr - inject_lib.lo < inject_lib.hi - inject_lib.lo &&
	       object_has(&inject_lib, (void *)addr, false, false) &&
	       object_has(&inject_lib, (void *)(addr + len - 1), false, false) &&
	       (addr ^ (addr + len - 1)) < PAGE;
}

/* Trust in a direct read. */
enum read_trust {
	TRUST_NOTHING,
	TRUST_USED, /* a successful call has just read or written it */
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

int memory_read_used(const struct thread *t, uint64_t sp, void *to, uint64_t addr, size_t len,
		     bool ok)
{
	return read_trusted(t, sp, to, addr, len, ok ? TRUST_USED : TRUST_NOTHING);
}

/* Returns 0 or -EFAULT. */
static int read_mem(const struct thread *t, const struct call *call, void *to, uint64_t addr,
		    size_t len, enum read_trust trust)
{
	return read_trusted(t, call->sp, to, addr, len, trust);
}

/* Reads a string like read_slow(). The page after its NUL is not touched: a read of a page for
 * which the program has a userfaultfd waits until the program provides it. */
static cold size_t read_str_slow(char *to, uint64_t addr, size_t size)
{
	size_t first = PAGE - addr % PAGE, n = read_slow(to, addr, first < size ? first : size);

	if (n < first || strnlen(to, n) < n || n == size)
		return n;
	return n + read_slow(to + n, addr + n, size - n);
}

/* Returns the length with the NUL, which a truncated string lacks; or -EFAULT. */
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
		n = read_str_slow(to, addr, size);
		len = strnlen(to, n);
		if (len == n && n < size)
			return -EFAULT;
	}
	if (len == size)
		return size - 1; /* truncated, so without a NUL */
	to[len] = 0;
	return len + 1;
}

/* For ct_pointee.h: a call, and whether the memory that the function itself uses is readable. */
struct source {
	const struct thread *t;
	const struct call *call;
	enum read_trust trust;
};
#define RECORDER_CALL	    const struct source *
#define recorder_word(s, i) call_word((s)->call, i)
#define recorder_read(s, to, len, addr, used)                                                      \
	read_mem((s)->t, (s)->call, to, addr, len, (used) ? (s)->trust : TRUST_NOTHING)
#include "ct_pointee.h"

/* Reads one pointee; returns its length, or -errno. */
static int pointee(const struct thread *t, const struct call *call, const struct ct_cap *cap,
		   enum read_trust trust, uint8_t *to)
{
	const struct source s = {t, call, trust};
	__u64 addr;
	uint32_t len;
	int n;

	if (recorder_locate(&s, cap, &addr, &len))
		return -EFAULT;
	if (recorder_is_string(cap))
		return read_str(t, call, (char *)to, addr, len,
				cap->kind == CT_CAP_STR ? trust : TRUST_NOTHING);
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
		/* Clear up to the next pointee: bytes of another record may be there. */
		memset(rec + off + n, 0, -n & 7);
		off += (n + 7) & ~7u;
	}
	return off;
}

cold uint32_t extra_add(const struct thread *t, const struct call *call, const struct ct_spec *spec,
			struct ct_call *rec, bool ok, uint32_t off)
{
	/* The driver has copied the arguments that are there. */
	const struct source s = {t, call, ok ? TRUST_USED : TRUST_NOTHING};
	uint64_t *to = (uint64_t *)((uint8_t *)rec + off);
	int n;

	*to = 0;
	n = recorder_extra(&s, &spec->caps[spec->cap_cnt], (uint32_t *)to);
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
	/* Driver 580 calls through its pointer, so the function's own address adds nothing. */
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

/* --- kernel names, as in bpf/name.bpf.h --- */

/* Names already sent: the key of a handle, plus one if it had no name. Each handle has two possible
 * slots. Otherwise two kernels launched in turn could evict each other each time. */
#define ANNOUNCED_LOG 11
static uint64_t announced[1 << ANNOUNCED_LOG];
static uint64_t names_gen = 1;

void names_forget(void)
{
	__atomic_fetch_add(&names_gen, 1, __ATOMIC_RELAXED);
}

uint64_t names_generation(void)
{
	return __atomic_load_n(&names_gen, __ATOMIC_RELAXED);
}

/* Sends the name; without one, only on request. */
static cold bool name_send(struct thread *t, const struct call *call, uint64_t handle, bool anyway)
{
	struct ct_name *rec = ring_room(t, sizeof(*rec) + CT_NAME_SZ_MAX);
	uint64_t addr;
	int len = 0;

	/* A later call sends it. */
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

static void name_announce(struct thread *t, const struct call *call, uint64_t handle)
{
	uint64_t gen = __atomic_load_n(&names_gen, __ATOMIC_RELAXED);
	uint64_t key = (handle ^ gen << 48) * 0x9e3779b97f4a7c15ull,
		 i = key >> (64 - ANNOUNCED_LOG);
	uint64_t first = __atomic_load_n(&announced[i], __ATOMIC_RELAXED);
	uint64_t second = __atomic_load_n(&announced[i ^ 1], __ATOMIC_RELAXED);
	bool is_nameless = first == key + 1 || second == key + 1;

	if (!handle || likely(first == key) || second == key)
		return;
	if (is_nameless && t->slot->next_id % RECORDER_NAME_RETRY)
		return;
	if (!name_send(t, call, handle, false))
		key++;
	/* All threads read this at each launch: do not store values that are already there. */
	if (first == key || second == key)
		return;
	/* The new handle takes its first slot, and the old one moves to its second. */
	if (!is_nameless && first)
		__atomic_store_n(&announced[i ^ 1], first, __ATOMIC_RELAXED);
	__atomic_store_n(&announced[i], key, __ATOMIC_RELAXED);
}

hot void name_of_call(struct thread *t, const struct call *call, const struct ct_spec *spec,
		      bool ok)
{
	const struct source s = {t, call, TRUST_NOTHING};
	__u64 handle = 0;
	enum recorder_name how = recorder_handle(&s, spec, ok, &handle);

	if (how == RECORDER_NAME_USED)
		name_announce(t, call, handle);
	else if (how == RECORDER_NAME_NEW)
		name_send(t, call, handle, true);
}
