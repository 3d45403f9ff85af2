/* SPDX-License-Identifier: GPL-2.0-only */
/* A mock for nvidia-uvm.ko: /dev/nvidia-uvm and /dev/nvidia-uvm-tools, at a major number that
 * the kernel chooses. See stub.h. */
#include "stub.h"
#include "uvm_events.h"

#include <linux/cdev.h>

#define ARG_MAX_SIZE 9264

#ifdef OLD
#define MAP_EXTERNAL_SIZE 1200 /* until 550 */
#else
#define MAP_EXTERNAL_SIZE 9264
#endif

/* Size of the parameters, and offset of rmStatus: as in driver 580, and in 535 if it has the
 * command.
 */
static const struct {
	u32 cmd;
	u16 size, status;
} cmds[] =
	{
		{0x30000001, 16, 8},				/* INITIALIZE */
		{23, 16, 8},					/* CREATE_RANGE_GROUP */
		{25, 32, 28},					/* REGISTER_GPU_VASPACE */
		{27, 56, 48},					/* REGISTER_CHANNEL */
		{33, MAP_EXTERNAL_SIZE, MAP_EXTERNAL_SIZE - 4}, /* MAP_EXTERNAL_ALLOCATION */
		{34, 24, 16},					/* FREE */
		{37, 40, 36},					/* REGISTER_GPU */
		{38, 20, 16},					/* UNREGISTER_GPU */
		{39, 8, 4},					/* PAGEABLE_MEM_ACCESS */
		{42, 40, 36},					/* SET_PREFERRED_LOCATION */
		{51, 80, 72},					/* MIGRATE */
		{72, 24, 16},					/* VALIDATE_VA_RANGE */
		{73, 24, 16},					/* CREATE_EXTERNAL_RANGE */
		{75, 8, 4},					/* MM_INITIALIZE */
},
  tools_cmds[] = {
	  {56, 56, 48}, /* TOOLS_INIT_EVENT_TRACKER */
	  {57, 8, 4},	/* TOOLS_SET_NOTIFICATION_THRESHOLD */
	  {58, 16, 8},	/* TOOLS_EVENT_QUEUE_ENABLE_EVENTS */
};

static struct page *zeros;

static noinline long answer(u32 size, u32 at, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	u8 *b = kzalloc(ARG_MAX_SIZE, GFP_KERNEL);
	long ret = 0;
	u32 status = 0;

	if (!b)
		return -ENOMEM;
	if (copy_from_user(b, user, size)) {
		ret = -EFAULT;
	} else {
		take_wish(get32(b, at), &status, &ret);
		put32(b, at, status);
		if (!ret && copy_to_user(user, b, size))
			ret = -EFAULT;
	}
	kfree(b);
	return ret;
}

static noinline __used long uvm_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	int i;

	if (cmd == STUB_EVENT)
		return stub_event((void __user *)arg);
	for (i = 0; i < ARRAY_SIZE(cmds); i++)
		if (cmds[i].cmd == cmd)
			return answer(cmds[i].size, cmds[i].status, arg);
	return -EINVAL;
}

ENTRY int uvm_open_entry(struct inode *inode, struct file *file)
{
	return 0;
}

ENTRY int uvm_release_entry(struct inode *inode, struct file *file)
{
	return 0;
}

ENTRY int uvm_mmap_entry(struct file *file, struct vm_area_struct *vma)
{
	return map_zeros(vma, zeros);
}

ENTRY long uvm_unlocked_ioctl_entry(struct file *file, unsigned int cmd, unsigned long arg)
{
	return uvm_ioctl(file, cmd, arg);
}

ENTRY int uvm_tools_open_entry(struct inode *inode, struct file *file)
{
	return 0;
}

ENTRY int uvm_tools_release_entry(struct inode *inode, struct file *file)
{
	return 0;
}

ENTRY __poll_t uvm_tools_poll_entry(struct file *file, poll_table *wait)
{
	return EPOLLIN;
}

ENTRY long uvm_tools_unlocked_ioctl_entry(struct file *file, unsigned int cmd, unsigned long arg)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(tools_cmds); i++)
		if (tools_cmds[i].cmd == cmd)
			return answer(tools_cmds[i].size, tools_cmds[i].status, arg);
	return -EINVAL;
}

static const struct file_operations uvm_fops = {
	.owner = THIS_MODULE,
	.open = uvm_open_entry,
	.release = uvm_release_entry,
	.mmap = uvm_mmap_entry,
	.unlocked_ioctl = uvm_unlocked_ioctl_entry,
	.compat_ioctl = uvm_unlocked_ioctl_entry,
};

static const struct file_operations uvm_tools_fops = {
	.owner = THIS_MODULE,
	.open = uvm_tools_open_entry,
	.release = uvm_tools_release_entry,
	.poll = uvm_tools_poll_entry,
	.unlocked_ioctl = uvm_tools_unlocked_ioctl_entry,
	.compat_ioctl = uvm_tools_unlocked_ioctl_entry,
};

static struct cdev uvm, tools;
static dev_t first;

static int __init stub_init(void)
{
	int ret;

	zeros = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!zeros)
		return -ENOMEM;
	ret = alloc_chrdev_region(&first, 0, 2, "nvidia-uvm");
	if (ret)
		return ret;
	cdev_init(&uvm, &uvm_fops);
	cdev_init(&tools, &uvm_tools_fops);
	ret = cdev_add(&uvm, first, 1);
	return ret ? ret : cdev_add(&tools, first + 1, 1);
}

static void __exit stub_exit(void)
{
	cdev_del(&uvm);
	cdev_del(&tools);
	unregister_chrdev_region(first, 2);
	__free_page(zeros);
}

module_init(stub_init);
module_exit(stub_exit);
MODULE_DESCRIPTION("mock for NVIDIA's UVM driver, for tests of cudatrace");
MODULE_LICENSE("GPL");
MODULE_VERSION(NV_VERSION);
