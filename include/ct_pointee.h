/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory that a call's arguments point to, found as its spec requests (ct_spec.h): shared by the
 * BPF side (bpf/pointee.bpf.h, bpf/name.bpf.h) and the in-process library (inject/pointee.c). The
 * including file first defines
 *   RECORDER_CALL                    type of a call, passed on to the two below
 *   recorder_word(call, i)           argument word i; i may be any number
 *   recorder_read(call, to, len, addr, used)
 *                                    0, or not 0: unreadable. used: 1 if the function itself reads
 *                                    or writes that memory.
 */
#if !defined(CT_POINTEE_H) && defined(RECORDER_CALL)
#define CT_POINTEE_H

#include "ct_recorder.h"

/* Why a pointee has no bytes (ct_call.cap_len). */
#define RECORDER_EFAULT -14
#define RECORDER_EINVAL -22

/* Finds address and length of a pointee. Returns 0, or RECORDER_EFAULT. */
RECORDER_INLINE long recorder_locate(RECORDER_CALL call, const struct ct_cap *cap, __u64 *addr,
				     __u32 *len)
{
	__u64 p = recorder_word(call, cap->arg), counter;
	__u32 count = 1;

	*len = cap->size;
	if (!p)
		return RECORDER_EFAULT;
	switch (cap->kind) {
	case CT_CAP_PSTR:
		if (recorder_read(call, &p, sizeof(p), p, 1))
			return RECORDER_EFAULT;
		break;
	case CT_CAP_ARR:
		counter = recorder_word(call, cap->count_arg);
		count = counter;
		if (cap->flags & CT_CAP_F_COUNT_PTR &&
		    recorder_read(call, &count, sizeof(count), counter, 0))
			return RECORDER_EFAULT;
		break;
	case CT_CAP_PARR:
		if (recorder_read(call, &count, sizeof(count), p + cap->count_off, 0) ||
		    recorder_read(call, &p, sizeof(p), p + cap->off, 0))
			return RECORDER_EFAULT;
		break;
	case CT_CAP_FSTR:
	case CT_CAP_FMEM:
		if (recorder_read(call, &p, sizeof(p), p + cap->off, 0) ||
		    (cap->count_off && recorder_read(call, &p, sizeof(p), p + cap->count_off, 0)))
			return RECORDER_EFAULT;
		break;
	}
	if (count > CT_CAP_SZ_MAX)
		count = CT_CAP_SZ_MAX;
	*len *= count;
	if (*len > CT_CAP_SZ_MAX)
		*len = CT_CAP_SZ_MAX;
	*addr = p;
	return p ? 0 : RECORDER_EFAULT;
}

RECORDER_INLINE int recorder_is_string(const struct ct_cap *cap)
{
	return cap->kind == CT_CAP_STR || cap->kind == CT_CAP_PSTR || cap->kind == CT_CAP_FSTR;
}

/* Reads CT_CAP_EXTRA, part of a kernel's arguments. Returns its size, or RECORDER_E*. */
RECORDER_INLINE long recorder_extra(RECORDER_CALL call, const struct ct_cap *cap, __u32 *to)
{
	struct {
		/* CU_LAUNCH_PARAM_BUFFER_POINTER, its value, CU_LAUNCH_PARAM_BUFFER_SIZE, its value
		 */
		__u64 is_buffer, buffer, is_size, size;
	} e;
	__u64 size = 0, at = recorder_word(call, cap->arg);

	if (!at || recorder_read(call, &e, sizeof(e), at, 1))
		return RECORDER_EFAULT;
	if (e.is_buffer != 1 || e.is_size != 2 ||
	    recorder_read(call, &size, sizeof(size), e.size, 1) || size < cap->off + sizeof(*to))
		return RECORDER_EINVAL;
	if (recorder_read(call, to, sizeof(*to), e.buffer + cap->off, 1))
		return RECORDER_EFAULT;
	return sizeof(*to);
}

/* --- names of kernels --- */

/* A handle that led to no name is retried once in this many calls: a failing read takes longer than
 * the rest of the call. */
#define RECORDER_NAME_RETRY 256

enum recorder_name {
	RECORDER_NAME_NONE,
	RECORDER_NAME_USED, /* send the name unless it was sent */
	RECORDER_NAME_NEW,  /* send it: this shows the model whether names can be read at all */
};

/* Finds the kernel's handle in a call, if its name is needed. ok: the call succeeded. */
RECORDER_INLINE enum recorder_name recorder_handle(RECORDER_CALL call, const struct ct_spec *spec,
						   int ok, __u64 *handle)
{
	if (!spec->handle_word)
		return RECORDER_NAME_NONE;
	*handle = recorder_word(call, spec->handle_word - 1);
	if (!(spec->flags & CT_SPEC_F_HANDLE_OUT))
		return RECORDER_NAME_USED;
	if (ok && !recorder_read(call, handle, sizeof(*handle), *handle, 0) && *handle)
		return RECORDER_NAME_NEW;
	return RECORDER_NAME_NONE;
}

#endif /* CT_POINTEE_H */
