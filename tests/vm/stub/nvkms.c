/* SPDX-License-Identifier: GPL-2.0-only */
/* A mock for nvidia-modeset.ko: /dev/nvidia-modeset. All its commands are one ioctl, whose argument
 * has the command. */
#include "stub.h"

#include <linux/cdev.h>

#define NVKMS_DEV   MKDEV(195, 254)
#define NVKMS_IOCTL 0xc0106d00u

ENTRY int nvkms_open(struct inode *inode, struct file *file)
{
	return 0;
}

ENTRY int nvkms_close(struct inode *inode, struct file *file)
{
	return 0;
}

ENTRY int nvkms_mmap(struct file *file, struct vm_area_struct *vma)
{
	return -EPERM;
}

ENTRY __poll_t nvkms_poll(struct file *file, poll_table *wait)
{
	return EPOLLIN;
}

ENTRY long nvkms_unlocked_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct {
		u32 cmd, size;
		u64 addr;
	} params;

	if (cmd != NVKMS_IOCTL)
		return -ENOTTY;
	return copy_from_user(&params, (void __user *)arg, sizeof(params)) ? -EFAULT : 0;
}

static const struct file_operations nvkms_fops = {
	.owner = THIS_MODULE,
	.open = nvkms_open,
	.release = nvkms_close,
	.mmap = nvkms_mmap,
	.poll = nvkms_poll,
	.unlocked_ioctl = nvkms_unlocked_ioctl,
	.compat_ioctl = nvkms_unlocked_ioctl,
};

static struct cdev nvkms;

static int __init stub_init(void)
{
	int ret = register_chrdev_region(NVKMS_DEV, 1, "nvidia-modeset");

	if (ret)
		return ret;
	cdev_init(&nvkms, &nvkms_fops);
	return cdev_add(&nvkms, NVKMS_DEV, 1);
}

static void __exit stub_exit(void)
{
	cdev_del(&nvkms);
	unregister_chrdev_region(NVKMS_DEV, 1);
}

module_init(stub_init);
module_exit(stub_exit);
MODULE_DESCRIPTION("mock for NVIDIA's mode setting driver, for tests of cudatrace");
MODULE_LICENSE("GPL");
MODULE_VERSION(NV_VERSION);
