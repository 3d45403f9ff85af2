/* SPDX-License-Identifier: GPL-2.0-only */
/* A mock for nvidia.ko: /dev/nvidiactl, /dev/nvidia0, /proc/driver/nvidia. See stub.h. */
#include "stub.h"

#include <linux/cdev.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#define CREATE_TRACE_POINTS
#include "nv_tracepoint.h"

#define NV_MAJOR     195
#define MINOR_CTL    255
#define ARG_MAX_SIZE 16384 /* as NV_ABSOLUTE_MAX_IOCTL_SIZE */

enum {
	RM_FREE = 0x29,
	RM_CONTROL = 0x2a,
	RM_ALLOC = 0x2b,
	RM_DUP_OBJECT = 0x34,
	RM_VID_HEAP_CONTROL = 0x4a,
	RM_MAP_MEMORY = 0x4e,
	RM_UNMAP_MEMORY = 0x4f,
	CARD_INFO = 0xc8,
	REGISTER_FD = 0xc9,
	ALLOC_OS_EVENT = 0xce,
	FREE_OS_EVENT = 0xcf,
	CHECK_VERSION_STR = 0xd2,
	XFER = 0xd3,
	ATTACH_GPUS_TO_FD = 0xd4,
	SYS_PARAMS = 0xd6,
	NUMA_INFO = 0xd7,
};

static char *version = NV_VERSION;
module_param(version, charp, 0444);
MODULE_PARM_DESC(version, "what /proc/driver/nvidia/version says");
static char *flavour = "Open Kernel Module for x86_64";
module_param(flavour, charp, 0444);
static unsigned int control_status;
module_param(control_status, uint, 0644);
MODULE_PARM_DESC(control_status, "status of RM_CONTROLs that wish for none");

static atomic_t next_handle = ATOMIC_INIT(1);
static struct page *zeros;

static u32 new_handle(u32 class)
{
	bool root = class == 0x41 || class == 0 || class == 1;

	return (root ? 0xc1d00000 : 0xcaf00000) | (atomic_inc_return(&next_handle) & 0xffff);
}

static long rm_control(u8 *b)
{
	u32 status = control_status;
	u64 params = *(u64 *)(b + 16);
	u32 token = 0x1234;
	long err = 0;

	if (!take_wish(get32(b, 12), &status, &err))
		take_wish(get32(b, 28), &status, &err);
	/* The token of GPFIFO_GET_WORK_SUBMIT_TOKEN: a predictable value. */
	if (!err && !status && get32(b, 8) == 0xc36f0108 && get32(b, 24) >= 4 &&
	    copy_to_user((void __user *)(unsigned long)params, &token, sizeof(token)))
		status = 0x1e;
	put32(b, 28, status);
	return err;
}

static void card_info(u8 *b, u32 size)
{
	memset(b, 0, size);
	b[0] = 1;
	put32(b, 4, 0); /* domain, then bus, slot, function */
	b[8] = 0x3b;
	put32(b, 12, 0x233510de); /* vendor, device */
	put32(b, 16, 0x3b00);	  /* gpu id */
}

/* Returns the offset of an escape's status: -1 when it has none, -2 when there is no such escape.
 */
static int status_off(u32 nr, u32 size)
{
	switch (nr) {
	case RM_FREE:
		return 12;
	case RM_ALLOC: /* NVOS21, in newer drivers with paramsSize, or NVOS64 */
		return size == 32   ? (NV_VERSION[0] == '5' && NV_VERSION[1] < '3' ? 24 : 28)
		       : size == 48 ? 40
				    : -2;
	case RM_DUP_OBJECT:
		return 24;
	case RM_VID_HEAP_CONTROL:
		return 20;
	case RM_MAP_MEMORY:
		return 40;
	case RM_UNMAP_MEMORY:
		return 24;
	case ALLOC_OS_EVENT:
	case FREE_OS_EVENT:
		return 12;
	case CARD_INFO:
	case REGISTER_FD:
	case CHECK_VERSION_STR:
	case ATTACH_GPUS_TO_FD:
	case SYS_PARAMS:
	case NUMA_INFO:
		return -1;
	}
	return -2;
}

static long answer(u32 nr, u8 *b, u32 size)
{
	int at = status_off(nr, size);
	u32 status = 0;
	long err = 0;

	if (nr == RM_CONTROL)
		return size == 32 ? rm_control(b) : -EINVAL;
	if (at == -2 || (at >= 0 && size < at + 4))
		return -EINVAL;
	if (at >= 0) {
		take_wish(get32(b, at), &status, &err);
		put32(b, at, status);
	}
	switch (nr) {
	case RM_ALLOC:
		if (!status && !get32(b, 8))
			put32(b, 8, new_handle(get32(b, 12)));
		break;
	case RM_DUP_OBJECT:
		if (!status && !get32(b, 8))
			put32(b, 8, new_handle(0xffff));
		break;
	case RM_MAP_MEMORY:
		*(u64 *)(b + 32) = 0xfe000000;
		break;
	case CARD_INFO:
		if (size >= 72)
			card_info(b, size);
		break;
	case CHECK_VERSION_STR:
		if (size == 72) {
			put32(b, 4, !strncmp(b + 8, version, 64));
			strscpy_pad(b + 8, version, 64);
		}
		break;
	case SYS_PARAMS:
		if (size == 8)
			*(u64 *)b = 0x8000000;
		break;
	}
	return err;
}

static noinline __used long nvidia_ioctl(struct inode *inode, struct file *file, unsigned int cmd,
					 unsigned long arg)
{
	u32 nr = _IOC_NR(cmd), size = _IOC_SIZE(cmd);
	void __user *user = (void __user *)arg;
	struct {
		u32 nr, size;
		u64 addr;
	} xfer;
	long ret;
	u8 *b;

	if (nr == XFER) {
		if (size != sizeof(xfer))
			return -EINVAL;
		if (copy_from_user(&xfer, user, sizeof(xfer)))
			return -EFAULT;
		nr = xfer.nr;
		size = xfer.size;
		user = (void __user *)(unsigned long)xfer.addr;
		if (size > ARG_MAX_SIZE || nr == XFER)
			return -EINVAL;
	}
	b = kzalloc(max(size, 1u), GFP_KERNEL);
	if (!b)
		return -ENOMEM;
	ret = -EFAULT;
	if (!copy_from_user(b, user, size)) {
		ret = answer(nr, b, size);
		if (!ret && copy_to_user(user, b, size))
			ret = -EFAULT;
	}
	kfree(b);
	return ret;
}

ENTRY int nvidia_open(struct inode *inode, struct file *file)
{
	unsigned int minor = iminor(inode);

	return minor == MINOR_CTL || minor == 0 ? 0 : -ENODEV;
}

ENTRY int nvidia_close(struct inode *inode, struct file *file)
{
	return 0;
}

/* Not static in the driver either. */
noinline int nvidia_mmap(struct file *file, struct vm_area_struct *vma);
noinline int nvidia_mmap(struct file *file, struct vm_area_struct *vma)
{
	if (iminor(file_inode(file)) == MINOR_CTL)
		return -EINVAL;
	return map_zeros(vma, zeros);
}

ENTRY __poll_t nvidia_poll(struct file *file, poll_table *wait)
{
	return EPOLLIN | EPOLLPRI;
}

#ifdef OLD
/* Up to branch 535, the driver has one more layer. */
static int (*volatile open_below)(struct inode *, struct file *) = nvidia_open;
static int (*volatile close_below)(struct inode *, struct file *) = nvidia_close;
static int (*volatile mmap_below)(struct file *, struct vm_area_struct *) = nvidia_mmap;
static __poll_t (*volatile poll_below)(struct file *, poll_table *) = nvidia_poll;

noinline int nvidia_frontend_open(struct inode *inode, struct file *file);
noinline int nvidia_frontend_open(struct inode *inode, struct file *file)
{
	return open_below(inode, file);
}

noinline int nvidia_frontend_close(struct inode *inode, struct file *file);
noinline int nvidia_frontend_close(struct inode *inode, struct file *file)
{
	return close_below(inode, file);
}

noinline int nvidia_frontend_mmap(struct file *file, struct vm_area_struct *vma);
noinline int nvidia_frontend_mmap(struct file *file, struct vm_area_struct *vma)
{
	return mmap_below(file, vma);
}

noinline __poll_t nvidia_frontend_poll(struct file *file, poll_table *wait);
noinline __poll_t nvidia_frontend_poll(struct file *file, poll_table *wait)
{
	return poll_below(file, wait);
}

noinline long nvidia_frontend_unlocked_ioctl(struct file *file, unsigned int cmd,
					     unsigned long arg);
noinline long nvidia_frontend_unlocked_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return nvidia_ioctl(file_inode(file), file, cmd, arg);
}

static const struct file_operations nvidia_fops = {
	.owner = THIS_MODULE,
	.open = nvidia_frontend_open,
	.release = nvidia_frontend_close,
	.unlocked_ioctl = nvidia_frontend_unlocked_ioctl,
	.compat_ioctl = nvidia_frontend_unlocked_ioctl,
	.mmap = nvidia_frontend_mmap,
	.poll = nvidia_frontend_poll,
};
#else
ENTRY long nvidia_unlocked_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return nvidia_ioctl(file_inode(file), file, cmd, arg);
}

static const struct file_operations nvidia_fops = {
	.owner = THIS_MODULE,
	.open = nvidia_open,
	.release = nvidia_close,
	.unlocked_ioctl = nvidia_unlocked_ioctl,
	.compat_ioctl = nvidia_unlocked_ioctl,
	.mmap = nvidia_mmap,
	.poll = nvidia_poll,
};
#endif

/* --- /proc/driver/nvidia --- */

static int show_version(struct seq_file *s, void *data)
{
	seq_printf(
		s,
		"NVRM version: NVIDIA UNIX %s  %s  Release Build  (stub@vm)  Thu Jan  1 00:00:00 UTC 1970\n",
		flavour, version);
	seq_puts(s, "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n");
	return 0;
}

/* "79 GPU has fallen off the bus." */
static ssize_t write_xid(struct file *file, const char __user *user, size_t size, loff_t *off)
{
	char buf[128] = "";
	unsigned int code;
	int at = 0;

	if (size >= sizeof(buf) || copy_from_user(buf, user, size))
		return -EINVAL;
	strim(buf);
	if (sscanf(buf, "%u %n", &code, &at) != 1)
		return -EINVAL;
	pr_err("NVRM: Xid (PCI:0000:3b:00): %u, %s\n", code, buf + at);
#ifndef OLD
	trace_nvidia_dev_xid("0000:3b:00.0", code, buf + at);
#endif
	return size;
}

static const struct proc_ops xid_ops = {.proc_write = write_xid};
static struct proc_dir_entry *proc;
static struct cdev gpu, ctl;

static int add(struct cdev *c, unsigned int minor, const char *name)
{
	int ret = register_chrdev_region(MKDEV(NV_MAJOR, minor), 1, name);

	if (ret)
		return ret;
	cdev_init(c, &nvidia_fops);
	return cdev_add(c, MKDEV(NV_MAJOR, minor), 1);
}

static int __init stub_init(void)
{
	int ret;

	zeros = alloc_page(GFP_KERNEL | __GFP_ZERO);
	proc = proc_mkdir("driver/nvidia", NULL);
	if (!zeros || !proc)
		return -ENOMEM;
	proc_create_single("version", 0444, proc, show_version);
	proc_create("xid", 0200, proc, &xid_ops);
	ret = add(&gpu, 0, "nvidia");
	return ret ? ret : add(&ctl, MINOR_CTL, "nvidiactl");
}

static void __exit stub_exit(void)
{
	cdev_del(&gpu);
	cdev_del(&ctl);
	unregister_chrdev_region(MKDEV(NV_MAJOR, 0), 1);
	unregister_chrdev_region(MKDEV(NV_MAJOR, MINOR_CTL), 1);
	proc_remove(proc);
	__free_page(zeros);
}

module_init(stub_init);
module_exit(stub_exit);
MODULE_DESCRIPTION("mock for NVIDIA's driver, for tests of cudatrace");
MODULE_LICENSE("GPL");
MODULE_VERSION(NV_VERSION);
