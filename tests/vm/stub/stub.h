/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the mocks for NVIDIA's kernel modules.
 *
 * They have the real modules' devices, entry points and ioctl layouts, and do nothing. The caller
 * requests the answer of an ioctl in the status field:
 *
 *   0xc757SSSS   status SSSS; anything else: 0 (NV_OK)
 *   0xc758EEEE   ioctl() fails with errno EEEE, and copies nothing back
 *   0xc759MMMM   status 0, after MMMM milliseconds; can be interrupted by a fatal signal
 *
 * RM_CONTROL accepts a request in its flags, too.
 */
#ifndef STUB_H
#define STUB_H

#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#ifndef NV_VERSION
#ifdef OLD
#define NV_VERSION "535.288.01"
#else
#define NV_VERSION "580.159.04"
#endif
#endif

#define WISH_STATUS 0xc7570000u
#define WISH_ERRNO  0xc7580000u
#define WISH_SLEEP  0xc7590000u
#define WISH_KIND   0xffff0000u

/* Entry points: static, but in a table of file operations, so a symbol in every build. */
#define ENTRY static noinline __used

static inline u32 get32(const void *b, u32 off)
{
	return *(const u32 *)((const char *)b + off);
}

static inline void put32(void *b, u32 off, u32 v)
{
	*(u32 *)((char *)b + off) = v;
}

/* Is this a wish? Then *status is the requested answer, *err the requested error. */
static inline bool take_wish(u32 word, u32 *status, long *err)
{
	switch (word & WISH_KIND) {
	case WISH_STATUS:
		*status = word & 0xffff;
		return true;
	case WISH_ERRNO:
		*err = -(long)(word & 0xffff);
		return true;
	case WISH_SLEEP:
		*status = 0;
		if (msleep_interruptible(word & 0xffff) && fatal_signal_pending(current))
			*err = -EINTR;
		return true;
	}
	return false;
}

/* A page of zeros. */
static inline int map_zeros(struct vm_area_struct *vma, struct page *page)
{
	unsigned long at;
	int ret;

	for (at = vma->vm_start; at < vma->vm_end; at += PAGE_SIZE) {
		ret = vm_insert_page(vma, at, page);
		if (ret)
			return ret;
	}
	return 0;
}

#endif /* STUB_H */
