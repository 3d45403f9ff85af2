/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A mock for the NVIDIA kernel driver where there is none: mounts a file system on a folder and
 * answers the ioctls of the files in it, through raw /dev/fuse.
 *
 *   server FOLDER    prints "ready" when it serves; SIGTERM unmounts and ends it
 *
 * The kernel copies an argument by the size in the request number. UVM's numbers have no size:
 * their arguments, and data that other arguments point to, are read and written in the caller's
 * memory.
 *
 * One thread: while an answer is delayed, nothing else is answered.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "proto.h"

#define ARG_MAX_SZ  (16 << 10)
#define FILE_SZ	    (64 << 10)
#define BLOCKED_MAX 64

/* The directory is node 1; the files follow. */
static const char *const names[] = {"nvidiactl", "nvidia0", "nvidia-uvm", "nvidia-uvm-tools"};
#define NAME_CNT   (sizeof(names) / sizeof(names[0]))
#define FIRST_FILE 2
#define NODE_UVM   4

static int dev;
static volatile sig_atomic_t ended;
static uint32_t next_handle = FIRST_NEW;
static uint64_t blocked[BLOCKED_MAX]; /* requests that wait to be interrupted */

struct req {
	struct fuse_in_header h;
	const uint8_t *body;
	size_t len;
};

static void on_signal(int sig)
{
	(void)sig;
	ended = 1;
}

static void answer(uint64_t unique, int error, const struct iovec *parts, int cnt)
{
	struct fuse_out_header h = {.len = sizeof(h), .error = error, .unique = unique};
	struct iovec iov[4] = {{&h, sizeof(h)}};

	for (int i = 0; i < cnt; i++) {
		iov[i + 1] = parts[i];
		h.len += parts[i].iov_len;
	}
	/* ENOENT: the caller has ended. */
	if (writev(dev, iov, cnt + 1) < 0 && errno != ENOENT)
		perror("nvfuse: answer");
}

static void answer_with(const struct req *r, const void *data, size_t size)
{
	struct iovec iov = {(void *)data, size};

	answer(r->h.unique, 0, &iov, 1);
}

static bool in_caller(const struct req *r, void *buf, uint64_t addr, size_t size, bool write)
{
	struct iovec here = {buf, size}, there = {(void *)(uintptr_t)addr, size};
	ssize_t n = write ? process_vm_writev(r->h.pid, &here, 1, &there, 1, 0)
			  : process_vm_readv(r->h.pid, &here, 1, &there, 1, 0);

	return n == (ssize_t)size;
}

/* --- the driver --- */

struct io {
	const struct req *req;
	uint32_t nr;
	uint32_t order; /* what the caller ordered */
	void *arg;
	uint32_t size;
};

static uint32_t code(struct io *io, uint32_t field)
{
	if ((field & ORDER_MASK) != ORDER)
		return 0;
	io->order = field & ~ORDER_MASK;
	return field & ORDER_CODE;
}

static void make_handle(uint32_t *handle)
{
	if (!*handle)
		*handle = next_handle++;
}

static void rm_control(struct io *io, struct rm_control *c)
{
	uint64_t timeslice = TIMESLICE_US;
	uint8_t first = 0;

	c->status = code(io, c->flags);
	if (c->status || !c->params)
		return;
	if (c->cmd == CTRL_GET_TIMESLICE) {
		if (!in_caller(io->req, &timeslice, c->params, sizeof(timeslice), true))
			c->status = NV_ERR_INVALID_POINTER;
	} else if (!in_caller(io->req, &first, c->params, 1, false)) {
		c->status = NV_ERR_INVALID_POINTER;
	}
}

static void rm_alloc(struct io *io)
{
	struct rm_alloc_short *s = io->arg;
	struct rm_alloc *a = io->arg;

	if (io->size == sizeof(*a)) {
		a->status = code(io, a->flags);
		make_handle(&a->new);
	} else {
		s->status = code(io, s->params_size);
		make_handle(&s->new);
	}
}

/* Returns 0 or -errno, like the driver's ioctl entry. */
static int rm_ioctl(struct io *io)
{
	static const struct {
		uint32_t nr, size;
	} sizes[] = {
		{ESC_RM_FREE, sizeof(struct rm_free)},
		{ESC_RM_CONTROL, sizeof(struct rm_control)},
		{ESC_RM_ALLOC, sizeof(struct rm_alloc)},
		{ESC_RM_ALLOC, sizeof(struct rm_alloc_short)},
		{ESC_RM_DUP_OBJECT, sizeof(struct rm_dup)},
		{ESC_RM_MAP_MEMORY, sizeof(struct rm_map)},
		{ESC_CARD_INFO, 32 * sizeof(struct rm_card)},
		{ESC_REGISTER_FD, 4},
		{ESC_ALLOC_OS_EVENT, sizeof(struct rm_os_event)},
		{ESC_CHECK_VERSION_STR, sizeof(struct rm_version)},
	};
	struct rm_version *v = io->arg;
	struct rm_free *f = io->arg;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i].nr == io->nr && sizes[i].size == io->size)
			break;
	if (i == sizeof(sizes) / sizeof(sizes[0]))
		return -EINVAL;
	switch (io->nr) {
	case ESC_RM_FREE:
		f->status = code(io, f->parent);
		break;
	case ESC_RM_CONTROL:
		rm_control(io, io->arg);
		break;
	case ESC_RM_ALLOC:
		rm_alloc(io);
		break;
	case ESC_RM_DUP_OBJECT:
		((struct rm_dup *)io->arg)->status = 0;
		make_handle(&((struct rm_dup *)io->arg)->new);
		break;
	case ESC_RM_MAP_MEMORY:
		((struct rm_map *)io->arg)->status = 0;
		((struct rm_map *)io->arg)->address = 0x7e5700000000;
		break;
	case ESC_CARD_INFO:
		((struct rm_card *)io->arg)->valid = 1;
		break;
	case ESC_ALLOC_OS_EVENT:
		((struct rm_os_event *)io->arg)->status = 0;
		break;
	case ESC_CHECK_VERSION_STR:
		v->reply = 1;
		memset(v->text, 0, sizeof(v->text));
		memcpy(v->text, DRIVER_VERSION, sizeof(DRIVER_VERSION));
		break;
	}
	return io->order & ORDER_FAIL ? -EIO : 0;
}

static int xfer(struct io *io)
{
	struct rm_xfer x = *(struct rm_xfer *)io->arg;
	uint8_t buf[ARG_MAX_SZ];
	struct io inner = {.req = io->req, .nr = x.nr, .arg = buf, .size = x.size};
	int ret;

	if (io->size != sizeof(x) || x.size > sizeof(buf))
		return -EINVAL;
	if (!in_caller(io->req, buf, x.ptr, x.size, false))
		return -EFAULT;
	ret = rm_ioctl(&inner);
	io->order = inner.order;
	if (!ret && !in_caller(io->req, buf, x.ptr, x.size, true))
		ret = -EFAULT;
	return ret;
}

static int uvm_ioctl(struct io *io, uint64_t addr)
{
	union {
		struct uvm_init init;
		struct uvm_map_ext map;
		struct uvm_free free;
	} u;
	size_t size;

	switch (io->nr) {
	case UVM_INITIALIZE:
		size = sizeof(u.init);
		break;
	case UVM_MAP_EXT:
		size = sizeof(u.map);
		break;
	case UVM_FREE:
		size = sizeof(u.free);
		break;
	default:
		return -EINVAL;
	}
	if (!in_caller(io->req, &u, addr, size, false))
		return -EFAULT;
	if (io->nr == UVM_INITIALIZE)
		u.init.status = 0;
	else if (io->nr == UVM_MAP_EXT)
		u.map.status = u.map.base & ORDER_CODE;
	else
		u.free.status = u.free.base & ORDER_CODE;
	return in_caller(io->req, &u, addr, size, true) ? 0 : -EFAULT;
}

/* --- FUSE --- */

static void block(uint64_t unique)
{
	for (int i = 0; i < BLOCKED_MAX; i++) {
		if (blocked[i])
			continue;
		blocked[i] = unique;
		return;
	}
	answer(unique, -ENOSPC, NULL, 0);
}

static void interrupt(const struct req *r)
{
	const struct fuse_interrupt_in *in = (const void *)r->body;

	for (int i = 0; i < BLOCKED_MAX; i++) {
		if (blocked[i] != in->unique)
			continue;
		blocked[i] = 0;
		answer(in->unique, -EINTR, NULL, 0);
	}
}

static void on_ioctl(const struct req *r)
{
	const struct fuse_ioctl_in *in = (const void *)r->body;
	struct timespec delay = {.tv_nsec = DELAY_MS * 1000000L};
	static uint8_t arg[ARG_MAX_SZ];
	struct fuse_ioctl_out out = {0};
	struct iovec iov[] = {{&out, sizeof(out)}, {arg, in->out_size}};
	struct io io = {.req = r, .nr = in->cmd & 0xff, .arg = arg, .size = in->in_size};

	if (in->in_size > sizeof(arg) || in->out_size > sizeof(arg)) {
		answer(r->h.unique, -EINVAL, NULL, 0);
		return;
	}
	memset(arg, 0, sizeof(arg));
	memcpy(arg, r->body + sizeof(*in), in->in_size);
	if (r->h.nodeid >= NODE_UVM) {
		io.nr = in->cmd;
		out.result = uvm_ioctl(&io, in->arg);
	} else if (io.nr == ESC_XFER) {
		out.result = xfer(&io);
	} else {
		out.result = rm_ioctl(&io);
	}
	if (io.order & ORDER_BLOCK) {
		block(r->h.unique);
		return;
	}
	if (io.order & ORDER_DELAY)
		nanosleep(&delay, NULL);
	answer(r->h.unique, 0, iov, out.result ? 1 : 2);
}

static void fill_attr(struct fuse_attr *a, uint64_t node)
{
	memset(a, 0, sizeof(*a));
	a->ino = node;
	a->mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0666;
	a->size = node == FUSE_ROOT_ID ? 0 : FILE_SZ;
	a->nlink = 1;
	a->blksize = 4096;
}

static void on_lookup(const struct req *r)
{
	struct fuse_entry_out e = {.entry_valid = 3600, .attr_valid = 3600};

	for (size_t i = 0; i < NAME_CNT; i++) {
		if (strcmp((const char *)r->body, names[i]))
			continue;
		e.nodeid = FIRST_FILE + i;
		fill_attr(&e.attr, e.nodeid);
		answer_with(r, &e, sizeof(e));
		return;
	}
	answer(r->h.unique, -ENOENT, NULL, 0);
}

static void on_init(const struct req *r)
{
	const struct fuse_init_in *in = (const void *)r->body;
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor
							       : FUSE_KERNEL_MINOR_VERSION,
		.max_write = 4096 * 4,
	};

	answer_with(r, &out, sizeof(out));
}

static void serve(const struct req *r)
{
	static const uint8_t zeros[128 << 10];
	struct fuse_attr_out attr = {.attr_valid = 3600};
	const struct fuse_read_in *rd = (const void *)r->body;
	const struct fuse_write_in *wr = (const void *)r->body;
	struct fuse_write_out written = {0};
	struct fuse_open_out open = {.fh = 1};

	switch (r->h.opcode) {
	case FUSE_INIT:
		on_init(r);
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		return;
	case FUSE_INTERRUPT:
		interrupt(r);
		return;
	case FUSE_LOOKUP:
		on_lookup(r);
		return;
	case FUSE_GETATTR:
		fill_attr(&attr.attr, r->h.nodeid);
		answer_with(r, &attr, sizeof(attr));
		return;
	case FUSE_OPEN:
		answer_with(r, &open, sizeof(open));
		return;
	case FUSE_READ:
		answer_with(r, zeros, rd->size < sizeof(zeros) ? rd->size : sizeof(zeros));
		return;
	case FUSE_WRITE:
		written.size = wr->size;
		answer_with(r, &written, sizeof(written));
		return;
	case FUSE_IOCTL:
		on_ioctl(r);
		return;
	case FUSE_RELEASE:
	case FUSE_FLUSH:
	case FUSE_FSYNC:
		answer(r->h.unique, 0, NULL, 0);
		return;
	default:
		answer(r->h.unique, -ENOSYS, NULL, 0);
	}
}

static int mount_on(const char *folder)
{
	char opts[128];

	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (dev < 0) {
		fprintf(stderr, "nvfuse: /dev/fuse: %s\n", strerror(errno));
		return -1;
	}
	snprintf(opts, sizeof(opts), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev);
	if (mount("nvfuse", folder, "fuse", MS_NOSUID | MS_NODEV, opts)) {
		fprintf(stderr, "nvfuse: mount: %s\n", strerror(errno));
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t buf[256 << 10] __attribute__((aligned(8)));
	struct sigaction sa = {.sa_handler = on_signal};
	struct req r;
	ssize_t n;

	if (argc != 2 || mount_on(argv[1]))
		return 1;
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		ended = 1;
	while (!ended) {
		n = read(dev, buf, sizeof(buf));
		if (n < 0 && errno == ENODEV)
			break;
		if (n < (ssize_t)sizeof(r.h))
			continue;
		memcpy(&r.h, buf, sizeof(r.h));
		r.body = buf + sizeof(r.h);
		r.len = n - sizeof(r.h);
		serve(&r);
	}
	umount2(argv[1], MNT_DETACH);
	return 0;
}
