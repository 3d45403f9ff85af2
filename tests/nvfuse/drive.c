/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes system calls into the mock driver (server.c) and prints the expected contents of its
 * trace, one JSON object per line. compare.py compares the two.
 *
 *   drive FOLDER                every command of the server, inside CUDA calls and outside
 *   drive FOLDER single         the same, without copied descriptors, whose effect only the kernel
 *                               detects
 *   drive FOLDER many N         N ioctls, nothing on stdout
 *   drive FOLDER wait [N]       a line from stdin, then N ioctls (1) with their expectations
 *   drive FOLDER objects N      a client, N objects, controls on the first and the last three; then
 *                               the client is freed, and the same with a new one and one object
 *   drive FOLDER block          an ioctl that does not return, in a CUDA call; "blocking PID"
 *   drive FOLDER sched MS       a call that sleeps MS milliseconds, one that spins, one in whose
 *                               ioctl the driver takes DELAY_MS; prints for each how long its
 *                               thread did not run
 *
 * libcuda.so.1 must be the one of tests/fake; many and wait do not need it. FOLDER may be
 * /dev, in a mount namespace, because cudatrace recognizes openat() of a device by its path.
 *
 * Members of the objects that begin with $ are for compare.py:
 *   "$id":"a"      call this CUDA call's id a        "$in":"a"   made inside the call called a
 *   "$parent":"a"  the call's parent                 null: in none
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto.h"

#define CALLS_MAX 32

/* A CUDA call that has returned or has not. */
struct call {
	const char *symbol;
	int tid, result;
	unsigned cnt; /* system calls into the driver, including those of nested calls */
	struct call *parent;
};

static struct call calls[CALLS_MAX];
static unsigned call_cnt;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct call *current;

static const char *folder;
static void *lib;
static void *gone; /* an unreadable address */
static bool quiet;

struct dev {
	const char *name;
	int fd;
};
static struct dev ctl = {"nvidiactl", -1}, gpu = {"nvidia0", -1}, uvm = {"nvidia-uvm", -1},
		  tools = {"nvidia-uvm-tools", -1};

static void die(const char *what)
{
	fprintf(stderr, "drive: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int my_tid(void)
{
	return syscall(SYS_gettid);
}

/* Writes a line at once, because threads share stdout. ' stands for ". */
static void print(const char *fmt, va_list ap, const char *head)
{
	char line[2048], format[1024];
	size_t i, len;

	for (i = 0; fmt[i] && i + 1 < sizeof(format); i++)
		format[i] = fmt[i] == '\'' ? '"' : fmt[i];
	format[i] = 0;
	len = snprintf(line, sizeof(line), "%s", head);
	len += vsnprintf(line + len, sizeof(line) - len, format, ap);
	len += snprintf(line + len, sizeof(line) - len, "}\n");
	if (write(STDOUT_FILENO, line, len) != (ssize_t)len)
		exit(1);
}

/* A system call into the driver. The decoder's members are compared exactly; the rest is here. */
static void expect(const char *op, const struct dev *d, int fd, const char *fmt, ...)
{
	char head[512], in[64] = "null", number[16] = "null";
	va_list ap;

	for (struct call *c = current; c && !strcmp(op, "ioctl"); c = c->parent)
		c->cnt++;
	if (quiet)
		return;
	if (current)
		snprintf(in, sizeof(in), "\"%d\",\"call\":\"%s\"", (int)(current - calls),
			 current->symbol);
	if (fd >= 0)
		snprintf(number, sizeof(number), "%d", fd);
	snprintf(
		head, sizeof(head),
		"{\"type\":\"kernel\",\"op\":\"%s\",\"pid\":%d,\"tid\":%d,\"device\":\"%s\",\"fd\":%s,"
		"\"$in\":%s",
		op, getpid(), my_tid(), d->name, number, in);
	va_start(ap, fmt);
	print(fmt, ap, head);
	va_end(ap);
}

static void expect_sched(const char *op, const char *fmt, ...)
{
	char head[512], in[64] = "null";
	va_list ap;

	if (current)
		snprintf(in, sizeof(in), "\"%d\",\"call\":\"%s\"", (int)(current - calls),
			 current->symbol);
	snprintf(head, sizeof(head),
		 "{\"type\":\"scheduler\",\"op\":\"%s\",\"pid\":%d,\"tid\":%d,"
		 "\"device\":\"nvidiactl\",\"$in\":%s",
		 op, getpid(), my_tid(), in);
	va_start(ap, fmt);
	print(fmt, ap, head);
	va_end(ap);
}

/* --- CUDA calls --- */

static void load_libcuda(void)
{
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (lib)
		return;
	fprintf(stderr, "drive: %s\n", dlerror());
	exit(1);
}

static void *symbol(const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		die(name);
	return p;
}

static struct call *call_begin(const char *sym)
{
	struct call *c;

	pthread_mutex_lock(&lock);
	if (call_cnt == CALLS_MAX)
		die("too many calls");
	c = &calls[call_cnt++];
	pthread_mutex_unlock(&lock);
	c->symbol = sym;
	c->tid = my_tid();
	c->parent = current;
	current = c;
	return c;
}

static void call_end(struct call *c, int result)
{
	c->result = result;
	current = c->parent;
}

/* Calls fn(arg) inside a CUDA call. */
static void inside(void (*fn)(void *), void *arg)
{
	struct call *c = call_begin("cuFakeCallback");
	int (*callback)(void (*)(void *), void *) = symbol("cuFakeCallback");

	call_end(c, callback(fn, arg));
}

static void print_calls(void)
{
	for (unsigned i = 0; i < call_cnt; i++) {
		const struct call *c = &calls[i];
		char parent[16] = "null", line[512];
		int len;

		if (c->parent)
			snprintf(parent, sizeof(parent), "\"%d\"", (int)(c->parent - calls));
		len = snprintf(line, sizeof(line),
			       "{\"symbol\":\"%s\",\"pid\":%d,\"tid\":%d,\"result\":%d,"
			       "\"ioctls\":%u,\"$id\":\"%u\",\"$parent\":%s}\n",
			       c->symbol, getpid(), c->tid, c->result, c->cnt, i, parent);
		if (write(STDOUT_FILENO, line, len) != len)
			exit(1);
	}
}

/* --- system calls --- */

static int do_ioctl(const struct dev *d, uint32_t cmd, void *arg)
{
	return ioctl(d->fd, cmd, arg) < 0 ? -errno : 0;
}

static void open_dev(struct dev *d)
{
	char path[512];

	/* On the stack, so that the path can be read when openat() begins. */
	snprintf(path, sizeof(path), "%s/%s", folder, d->name);
	d->fd = open(path, O_RDWR | O_CLOEXEC);
	if (d->fd < 0)
		die(path);
	if (!strncmp(path, "/dev/", 5))
		expect("open", d, d->fd, ",'name':'open','result':%d", d->fd);
}

static void close_dev(struct dev *d);

/* openat() of a path whose page the thread has not touched; NULL: cannot be made. */
static const char *untouched(const char *path)
{
	int fd = memfd_create("path", MFD_CLOEXEC);
	void *p = MAP_FAILED;

	if (fd >= 0 && write(fd, path, strlen(path) + 1) > 0 && !ftruncate(fd, 4096))
		p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static void open_other_ways(void)
{
	static const struct dev none = {"nvidia-other", -1};
	struct dev again = {"nvidiactl", -1};

	again.fd = open(untouched("/dev/nvidiactl"), O_RDWR | O_CLOEXEC);
	if (again.fd < 0)
		die("/dev/nvidiactl");
	expect("open", &again, again.fd, ",'name':'open','result':%d", again.fd);
	close_dev(&again);
	/* The device is not determined. */
	if (open(untouched("/dev/nvidia9"), O_RDWR) >= 0)
		die("/dev/nvidia9");
	expect("open", &none, -1, ",'name':'open','result':%d", -ENOENT);
	if (open(untouched("/dev/no-such-device"), O_RDWR) >= 0)
		die("/dev/no-such-device");
}

static void close_dev(struct dev *d)
{
	close(d->fd);
	expect("close", d, d->fd, ",'name':'close','result':0");
	d->fd = -1;
}

static const char *status_name(uint32_t status)
{
	switch (status) {
	case 0:
		return "NV_OK";
	case NV_ERR_INVALID_ARGUMENT:
		return "NV_ERR_INVALID_ARGUMENT";
	case NV_ERR_INVALID_OBJECT_HANDLE:
		return "NV_ERR_INVALID_OBJECT_HANDLE";
	case NV_ERR_INVALID_POINTER:
		return "NV_ERR_INVALID_POINTER";
	case NV_ERR_NO_MEMORY:
		return "NV_ERR_NO_MEMORY";
	default:
		errno = EINVAL;
		die("a status without name");
		return NULL;
	}
}

/* Adds the expectations of an RM_ALLOC's line; xfer: it was inside an XFER. */
static void expect_alloc(const struct dev *d, uint32_t cmd, const struct rm_alloc *a, bool is_short,
			 const char *class, bool xfer)
{
	expect("ioctl", d, d->fd,
	       ",'name':'NV_ESC_RM_ALLOC','escape':'NV_ESC_RM_ALLOC','cmd':'0x%x','params':'%s',"
	       "'params_size':%u,'class':'%s','client':'0x%x','parent':'0x%x','new':'0x%x',"
	       "'status':'%s','result':0%s",
	       cmd, is_short ? "NVOS21_PARAMETERS" : "NVOS64_PARAMETERS", a->params_size, class,
	       a->class == 0x41 ? a->new : a->root, a->parent, a->new, status_name(a->status),
	       xfer ? ",\"xfer\":true" : "");
}

static uint32_t alloc(const struct dev *d, uint32_t client, uint32_t parent, uint32_t handle,
		      uint32_t class, const char *class_name, uint32_t order)
{
	struct rm_alloc a = {
		.root = client, .parent = parent, .new = handle, .class = class, .flags = order};
	uint32_t cmd = RM(ESC_RM_ALLOC, sizeof(a));

	if (do_ioctl(d, cmd, &a))
		die("RM_ALLOC");
	expect_alloc(d, cmd, &a, false, class_name, false);
	return a.new;
}

/* The form of 32 bytes. */
static uint32_t alloc_short(const struct dev *d, uint32_t client, uint32_t parent, uint32_t class,
			    const char *class_name)
{
	struct rm_alloc_short s = {.root = client, .parent = parent, .class = class};
	struct rm_alloc a = {.root = client, .parent = parent, .class = class};
	uint32_t cmd = RM(ESC_RM_ALLOC, sizeof(s));

	if (do_ioctl(d, cmd, &s))
		die("short RM_ALLOC");
	a.new = s.new;
	a.status = s.status;
	expect_alloc(d, cmd, &a, true, class_name, false);
	return s.new;
}

struct control {
	uint32_t cmd;
	const char *name;   /* NULL: in no table */
	const char *params; /* name of its struct, or NULL */
};

static const struct control cpu_info = {0x102, "NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO",
					"NV0000_CTRL_SYSTEM_GET_CPU_INFO_PARAMS"};
static const struct control gpu_info = {0x20800102, "NV2080_CTRL_CMD_GPU_GET_INFO_V2",
					"NV2080_CTRL_GPU_GET_INFO_V2_PARAMS"};
static const struct control schedule = {0xa06c0101, "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE",
					"NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS"};
static const struct control set_slice = {0xa06c0103, "NVA06C_CTRL_CMD_SET_TIMESLICE",
					 "NVA06C_CTRL_SET_TIMESLICE_PARAMS"};
static const struct control get_slice = {CTRL_GET_TIMESLICE, "NVA06C_CTRL_CMD_GET_TIMESLICE",
					 "NVA06C_CTRL_GET_TIMESLICE_PARAMS"};
/* A number that no driver has, of a class that all have: 0x2080 is NV20_SUBDEVICE_0. */
static const struct control unknown = {0x20803eee, NULL, NULL};

static void expect_control(uint32_t cmd, const struct rm_control *c, const struct control *k,
			   const char *class, const char *more)
{
	char name[128], control[256] = "", object_class[128] = "";

	snprintf(name, sizeof(name), "%s", k->name ? k->name : "");
	if (!k->name)
		snprintf(name, sizeof(name), "NV20_SUBDEVICE_0 0x%04x", k->cmd & 0xffff);
	else
		snprintf(control, sizeof(control), ",\"control\":\"%s\"", k->name);
	if (class)
		snprintf(object_class, sizeof(object_class), ",\"object_class\":\"%s\"", class);
	expect("ioctl", &ctl, ctl.fd,
	       ",'name':'%s','escape':'NV_ESC_RM_CONTROL','cmd':'0x%x'%s,'control_cmd':'0x%x',"
	       "'params':'%s','params_size':%u,'client':'0x%x','object':'0x%x'%s%s",
	       name, cmd, control, k->cmd, k->params ? k->params : "NVOS54_PARAMETERS",
	       c->params_size, c->client, c->object, object_class, more);
}

/* class: of the object; NULL: unknown to the trace. */
static uint32_t control(uint32_t client, uint32_t object, const struct control *k, void *params,
			uint32_t size, uint32_t order, const char *class)
{
	struct rm_control c = {.client = client,
			       .object = object,
			       .cmd = k->cmd,
			       .flags = order,
			       .params = (uintptr_t)params,
			       .params_size = size,
			       .status = 0xdead};
	uint32_t cmd = RM(ESC_RM_CONTROL, sizeof(c));
	char more[64];
	int ret = do_ioctl(&ctl, cmd, &c);

	/* ioctl() failed: the driver has written no status. */
	if (ret)
		snprintf(more, sizeof(more), ",\"result\":%d", ret);
	else
		snprintf(more, sizeof(more), ",\"status\":\"%s\",\"result\":0",
			 status_name(c.status));
	expect_control(cmd, &c, k, class, more);
	return c.status;
}

static uint32_t sched_control(uint32_t client, uint32_t group, const struct control *k,
			      const char *op, void *params, uint32_t size, const char *values)
{
	struct rm_control c = {.client = client,
			       .object = group,
			       .cmd = k->cmd,
			       .params = (uintptr_t)params,
			       .params_size = size,
			       .status = 0xdead};
	uint32_t cmd = RM(ESC_RM_CONTROL, sizeof(c));
	char more[64];

	if (do_ioctl(&ctl, cmd, &c))
		die("RM_CONTROL");
	snprintf(more, sizeof(more), ",\"status\":\"%s\",\"result\":0", status_name(c.status));
	expect_sched(op,
		     ",'name':'%s','client':'0x%x','object':'0x%x',"
		     "'object_class':'KEPLER_CHANNEL_GROUP_A','status':'%s'%s%s%s",
		     k->name, client, group, status_name(c.status), values ? ",\"values\":\"" : "",
		     values ? values : "", values ? "\"" : "");
	expect_control(cmd, &c, k, "KEPLER_CHANNEL_GROUP_A", more);
	return c.status;
}

/* ioctl() fails, so the event must not look successful. */
static void sched_refused(uint32_t client, uint32_t group)
{
	expect_sched("schedule",
		     ",'name':'%s','client':'0x%x','object':'0x%x',"
		     "'object_class':'KEPLER_CHANNEL_GROUP_A','result':%d",
		     schedule.name, client, group, -EIO);
	control(client, group, &schedule, NULL, 0, ORDER | ORDER_FAIL, "KEPLER_CHANNEL_GROUP_A");
}

static void rm_free(uint32_t client, uint32_t object, const char *class, uint32_t order)
{
	struct rm_free f = {.root = client, .parent = order ? order : client, .object = object};
	uint32_t cmd = RM(ESC_RM_FREE, sizeof(f));

	if (do_ioctl(&ctl, cmd, &f))
		die("RM_FREE");
	expect("ioctl", &ctl, ctl.fd,
	       ",'name':'NV_ESC_RM_FREE','escape':'NV_ESC_RM_FREE','cmd':'0x%x',"
	       "'params':'NVOS00_PARAMETERS','client':'0x%x','parent':'0x%x','object':'0x%x',"
	       "'object_class':'%s','status':'%s','result':0",
	       cmd, client, f.parent, object, class, status_name(f.status));
}

static void hello(void)
{
	struct rm_version v = {.cmd = '2', .text = "595.45.04"};
	struct rm_card cards[32] = {0};
	int fd = ctl.fd;

	if (do_ioctl(&ctl, RM(ESC_CHECK_VERSION_STR, sizeof(v)), &v))
		die("CHECK_VERSION_STR");
	expect("ioctl", &ctl, fd,
	       ",'name':'NV_ESC_CHECK_VERSION_STR','escape':'NV_ESC_CHECK_VERSION_STR',"
	       "'cmd':'0x%x','params':'nv_ioctl_rm_api_version_t','version':'" DRIVER_VERSION
	       "','result':0",
	       RM(ESC_CHECK_VERSION_STR, sizeof(v)));
	if (do_ioctl(&ctl, RM(ESC_CARD_INFO, sizeof(cards)), cards))
		die("CARD_INFO");
	expect("ioctl", &ctl, fd,
	       ",'name':'NV_ESC_CARD_INFO','escape':'NV_ESC_CARD_INFO','cmd':'0x%x',"
	       "'params':'nv_ioctl_card_info_t','result':0",
	       RM(ESC_CARD_INFO, sizeof(cards)));
	if (do_ioctl(&gpu, RM(ESC_REGISTER_FD, sizeof(fd)), &fd))
		die("REGISTER_FD");
	expect("ioctl", &gpu, gpu.fd,
	       ",'name':'NV_ESC_REGISTER_FD','escape':'NV_ESC_REGISTER_FD','cmd':'0x%x',"
	       "'params':'nv_ioctl_register_fd_t','target_fd':%d,'result':0",
	       RM(ESC_REGISTER_FD, sizeof(fd)), fd);
}

static void dup_map_event(uint32_t client, uint32_t device, uint32_t object)
{
	struct rm_dup u = {.client = client,
			   .parent = device,
			   .src_client = client,
			   .src_object = object,
			   .status = 0xdead};
	struct rm_map m = {.client = client,
			   .device = device,
			   .memory = 0x5c0000aa,
			   .length = 0x10000,
			   .status = 0xdead,
			   .fd = gpu.fd};
	struct rm_os_event e = {.client = client, .device = device, .fd = gpu.fd, .status = 0xdead};

	if (do_ioctl(&ctl, RM(ESC_RM_DUP_OBJECT, sizeof(u)), &u))
		die("RM_DUP_OBJECT");
	expect("ioctl", &ctl, ctl.fd,
	       ",'name':'NV_ESC_RM_DUP_OBJECT','escape':'NV_ESC_RM_DUP_OBJECT','cmd':'0x%x',"
	       "'params':'NVOS55_PARAMETERS','client':'0x%x','parent':'0x%x','new':'0x%x',"
	       "'status':'NV_OK','result':0",
	       RM(ESC_RM_DUP_OBJECT, sizeof(u)), client, device, u.new);
	/* The copy is of the class of its source. */
	control(client, u.new, &gpu_info, NULL, 0, 0, "NV20_SUBDEVICE_0");
	if (do_ioctl(&ctl, RM(ESC_RM_MAP_MEMORY, sizeof(m)), &m))
		die("RM_MAP_MEMORY");
	expect("ioctl", &ctl, ctl.fd,
	       ",'name':'NV_ESC_RM_MAP_MEMORY','escape':'NV_ESC_RM_MAP_MEMORY','cmd':'0x%x',"
	       "'params':'nv_ioctl_nvos33_parameters_with_fd','client':'0x%x','parent':'0x%x',"
	       "'object':'0x5c0000aa','address':'0x%llx','length':65536,'target_fd':%d,"
	       "'status':'NV_OK','result':0",
	       RM(ESC_RM_MAP_MEMORY, sizeof(m)), client, device, (unsigned long long)m.address,
	       gpu.fd);
	if (do_ioctl(&ctl, RM(ESC_ALLOC_OS_EVENT, sizeof(e)), &e))
		die("ALLOC_OS_EVENT");
	expect("ioctl", &ctl, ctl.fd,
	       ",'name':'NV_ESC_ALLOC_OS_EVENT','escape':'NV_ESC_ALLOC_OS_EVENT','cmd':'0x%x',"
	       "'params':'nv_ioctl_alloc_os_event_t','client':'0x%x','parent':'0x%x',"
	       "'target_fd':%d,'status':'NV_OK','result':0",
	       RM(ESC_ALLOC_OS_EVENT, sizeof(e)), client, device, gpu.fd);
}

/* Requests to the scheduler of the kernel driver. */
static void sched(uint32_t client, uint32_t group)
{
	uint8_t enable[3] = {1, 0, 0};
	uint64_t slice = 5000;

	sched_control(client, group, &schedule, "schedule", enable, sizeof(enable),
		      "bEnable=1 bSkipSubmit=0");
	sched_control(client, group, &set_slice, "timeslice", &slice, sizeof(slice),
		      "timesliceUs=5000");
	/* Written by the driver. */
	sched_control(client, group, &get_slice, "timeslice-query", &slice, sizeof(slice),
		      "timesliceUs=2000");
	sched_refused(client, group);
	/* Parameters that cannot be read. */
	sched_control(client, group, &get_slice, "timeslice-query", gone, sizeof(slice), NULL);
}

static void uvm_commands(uint32_t client)
{
	static struct uvm_map_ext m;
	struct uvm_init i = {.status = 0xdead};
	struct uvm_free f = {.base = 0x7e5700000000 | NV_ERR_INVALID_ARGUMENT, .status = 0xdead};
	int ret;

	if (do_ioctl(&uvm, UVM_INITIALIZE, &i))
		die("UVM_INITIALIZE");
	expect("ioctl", &uvm, uvm.fd,
	       ",'name':'UVM_INITIALIZE','uvm':'UVM_INITIALIZE','cmd':'0x30000001',"
	       "'params':'UVM_INITIALIZE_PARAMS','status':'NV_OK','result':0");
	for (int n = 0; n < 2; n++) {
		m = (struct uvm_map_ext){.base = 0x7e5700000000 | (n ? NV_ERR_NO_MEMORY : 0),
					 .length = 0x200000,
					 .rm_fd = ctl.fd,
					 .client = client,
					 .memory = 0x5c0000bb,
					 .status = 0xdead};
		if (do_ioctl(&uvm, UVM_MAP_EXT, &m))
			die("UVM_MAP_EXTERNAL_ALLOCATION");
		expect("ioctl", &uvm, uvm.fd,
		       ",'name':'UVM_MAP_EXTERNAL_ALLOCATION','uvm':'UVM_MAP_EXTERNAL_ALLOCATION',"
		       "'cmd':'0x21','params':'UVM_MAP_EXTERNAL_ALLOCATION_PARAMS',"
		       "'client':'0x%x','object':'0x5c0000bb','address':'0x%llx',"
		       "'length':2097152,'target_fd':%d,'status':'%s','result':0",
		       client, (unsigned long long)m.base, ctl.fd,
		       n ? "NV_ERR_NO_MEMORY" : "NV_OK");
	}
	if (do_ioctl(&uvm, UVM_FREE, &f))
		die("UVM_FREE");
	expect("ioctl", &uvm, uvm.fd,
	       ",'name':'UVM_FREE','uvm':'UVM_FREE','cmd':'0x22','params':'UVM_FREE_PARAMS',"
	       "'address':'0x%llx','status':'NV_ERR_INVALID_ARGUMENT','result':0",
	       (unsigned long long)f.base);
	/* An unreadable argument; and a number that no driver has. */
	ret = do_ioctl(&uvm, UVM_FREE, gone);
	expect("ioctl", &uvm, uvm.fd,
	       ",'name':'UVM_FREE','uvm':'UVM_FREE','cmd':'0x22','params':'UVM_FREE_PARAMS',"
	       "'result':%d",
	       ret);
	ret = do_ioctl(&uvm, 0x270f, &f);
	expect("ioctl", &uvm, uvm.fd, ",'name':'ioctl 0x270f','cmd':'0x270f','result':%d", ret);
	ret = do_ioctl(&tools, 0x270e, NULL);
	expect("ioctl", &tools, tools.fd, ",'name':'ioctl 0x270e','cmd':'0x270e','result':%d", ret);
}

static void bad_escapes(void)
{
	uint8_t block[48] = {0};
	uint32_t cmd;
	int ret;

	cmd = RM(0x99, 16);
	ret = do_ioctl(&ctl, cmd, block);
	expect("ioctl", &ctl, ctl.fd, ",'name':'ioctl 0x99','cmd':'0x%x','result':%d", cmd, ret);
	/* A size that fits no form: no field can be decoded. */
	cmd = RM(ESC_RM_ALLOC, 40);
	ret = do_ioctl(&ctl, cmd, block);
	expect("ioctl", &ctl, ctl.fd,
	       ",'name':'NV_ESC_RM_ALLOC','escape':'NV_ESC_RM_ALLOC','cmd':'0x%x',"
	       "'params':'NVOS64_PARAMETERS','result':%d",
	       cmd, ret);
	for (unsigned size = 0; size < 32; size += 8) {
		cmd = RM(ESC_RM_CONTROL, size);
		ret = do_ioctl(&ctl, cmd, block);
		expect("ioctl", &ctl, ctl.fd,
		       ",'name':'NV_ESC_RM_CONTROL','escape':'NV_ESC_RM_CONTROL','cmd':'0x%x',"
		       "'params':'NVOS54_PARAMETERS','result':%d",
		       cmd, ret);
	}
	/* Not to be read. */
	cmd = RM(ESC_RM_CONTROL, 32);
	ret = do_ioctl(&ctl, cmd, gone);
	expect("ioctl", &ctl, ctl.fd,
	       ",'name':'NV_ESC_RM_CONTROL','escape':'NV_ESC_RM_CONTROL','cmd':'0x%x',"
	       "'params':'NVOS54_PARAMETERS','result':%d",
	       cmd, ret);
	/* Its last bytes are unreadable, because `gone` follows a readable page. */
	ret = do_ioctl(&ctl, cmd, (char *)gone - 16);
	expect("ioctl", &ctl, ctl.fd,
	       ",'name':'NV_ESC_RM_CONTROL','escape':'NV_ESC_RM_CONTROL','cmd':'0x%x',"
	       "'params':'NVOS54_PARAMETERS','result':%d",
	       cmd, ret);
	/* The driver examines only the number. */
	memset(block, 0, sizeof(block));
	cmd = (RM(ESC_REGISTER_FD, 4) & ~0xff00u) | 'z' << 8;
	ret = do_ioctl(&gpu, cmd, block);
	expect("ioctl", &gpu, gpu.fd,
	       ",'name':'NV_ESC_REGISTER_FD','escape':'NV_ESC_REGISTER_FD','cmd':'0x%x',"
	       "'params':'nv_ioctl_register_fd_t','target_fd':0,'result':%d",
	       cmd, ret);
}

static void xfers(uint32_t client, uint32_t device)
{
	struct rm_alloc a = {.root = client, .parent = device, .class = 0x2080};
	struct rm_control c = {.client = client,
			       .object = client,
			       .cmd = cpu_info.cmd,
			       .flags = ORDER | NV_ERR_NO_MEMORY};
	struct rm_xfer x = {.nr = ESC_RM_ALLOC, .size = sizeof(a), .ptr = (uintptr_t)&a};
	uint32_t cmd = RM(ESC_XFER, sizeof(x));
	int ret;

	if (do_ioctl(&ctl, cmd, &x))
		die("XFER of RM_ALLOC");
	expect_alloc(&ctl, cmd, &a, false, "NV20_SUBDEVICE_0", true);
	x = (struct rm_xfer){.nr = ESC_RM_CONTROL, .size = sizeof(c), .ptr = (uintptr_t)&c};
	if (do_ioctl(&ctl, cmd, &x))
		die("XFER of RM_CONTROL");
	expect_control(cmd, &c, &cpu_info, "NV01_ROOT_CLIENT",
		       ",\"xfer\":true,\"status\":\"NV_ERR_NO_MEMORY\",\"result\":0");
	/* The inner block does not exist. */
	x.ptr = (uintptr_t)gone;
	ret = do_ioctl(&ctl, cmd, &x);
	expect("ioctl", &ctl, ctl.fd,
	       ",'name':'NV_ESC_RM_CONTROL','escape':'NV_ESC_RM_CONTROL','cmd':'0x%x',"
	       "'params':'NVOS54_PARAMETERS','xfer':true,'result':%d",
	       cmd, ret);
	/* The outer one does not exist. */
	ret = do_ioctl(&ctl, cmd, gone);
	expect("ioctl", &ctl, ctl.fd,
	       ",'name':'NV_ESC_IOCTL_XFER_CMD','escape':'NV_ESC_IOCTL_XFER_CMD','cmd':'0x%x',"
	       "'params':'nv_ioctl_xfer_t','xfer':true,'result':%d",
	       cmd, ret);
	/* An invalid number; an XFER in an XFER, which the driver refuses. */
	x = (struct rm_xfer){.nr = 0x98, .size = 8, .ptr = (uintptr_t)&c};
	for (int i = 0; i < 2; i++) {
		ret = do_ioctl(&ctl, cmd, &x);
		expect("ioctl", &ctl, ctl.fd,
		       ",'name':'ioctl 0x%x','cmd':'0x%x','xfer':true,'result':%d", x.nr, cmd, ret);
		x.nr = ESC_XFER;
	}
}

static void mappings(const struct dev *d)
{
	size_t size = 8192;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 4096);

	if (p == MAP_FAILED)
		die("mmap");
	expect("mmap", d, d->fd, ",'name':'mmap','size':%zu,'ptr':'0x%llx'", size,
	       (unsigned long long)(uintptr_t)p);
	munmap(p, size);
	/* Refused by the kernel: no place for a page. */
	p = mmap((void *)1, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, d->fd, 0);
	expect("mmap", d, d->fd, ",'name':'mmap','size':4096,'result':%d", -EINVAL);
}

/* A second file: its clients go with it. */
static void second_file(void)
{
	struct dev second = {"nvidiactl", -1};
	uint32_t client;

	open_dev(&second);
	client = alloc(&second, 0, 0, 0, 0x41, "NV01_ROOT_CLIENT", 0);
	control(client, client, &cpu_info, NULL, 0, 0, "NV01_ROOT_CLIENT");
	close_dev(&second);
	control(client, client, &cpu_info, NULL, 0, ORDER | NV_ERR_INVALID_OBJECT_HANDLE, NULL);
}

/* Copies of its descriptor, here and in a child: the file is closed with the last of them. */
static void copies(void)
{
	struct dev file = {"nvidiactl", -1}, copy = file;
	uint32_t client;
	pid_t child;

	open_dev(&file);
	client = alloc(&file, 0, 0, 0, 0x41, "NV01_ROOT_CLIENT", 0);
	copy.fd = dup(file.fd);
	close_dev(&copy);
	control(client, client, &cpu_info, NULL, 1, 0, "NV01_ROOT_CLIENT");
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		close_dev(&file);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	control(client, client, &cpu_info, NULL, 2, 0, "NV01_ROOT_CLIENT");
	copy.fd = dup(file.fd);
	close_dev(&file);
	control(client, client, &cpu_info, NULL, 3, 0, "NV01_ROOT_CLIENT");
	close_dev(&copy);
	control(client, client, &cpu_info, NULL, 4, ORDER | NV_ERR_INVALID_OBJECT_HANDLE, NULL);
}

static uint32_t the_client;

static void three_controls(void *arg)
{
	const struct control *k = arg;

	for (uint32_t i = 0; i < 3; i++)
		control(the_client, the_client, k, NULL, i, i ? 0 : ORDER | ORDER_DELAY,
			"NV01_ROOT_CLIENT");
}

static void nested(void *arg)
{
	control(the_client, the_client, arg, NULL, 7, 0, "NV01_ROOT_CLIENT");
	inside(three_controls, arg);
	inside(three_controls, arg);
	mappings(&gpu);
	control(the_client, the_client, arg, NULL, 8, ORDER | NV_ERR_NO_MEMORY, "NV01_ROOT_CLIENT");
}

static void nothing(void *arg)
{
	(void)arg;
}

static void *other_thread(void *arg)
{
	for (uint32_t i = 0; i < 10; i++)
		control(the_client, the_client, arg, NULL, 100 + i, 0, "NV01_ROOT_CLIENT");
	inside(three_controls, arg);
	control(the_client, the_client, arg, NULL, 200, 0, "NV01_ROOT_CLIENT");
	return NULL;
}

/* A thread outside calls, while this one is in one. */
static void beside(void *arg)
{
	pthread_t t;

	if (pthread_create(&t, NULL, other_thread, arg))
		die("pthread_create");
	pthread_join(t, NULL);
	control(the_client, the_client, arg, NULL, 300, 0, "NV01_ROOT_CLIENT");
}

static void unknown_handle(uint32_t client, uint32_t handle)
{
	control(client, handle, &gpu_info, NULL, 0, ORDER | NV_ERR_INVALID_OBJECT_HANDLE, NULL);
}

static void everything(bool single)
{
	uint32_t client, device = 0x5c000000, group, channel = 0x5c000002, sub;

	if (!strcmp(folder, "/dev"))
		open_other_ways();
	hello();
	client = the_client = alloc(&ctl, 0, 0, 0, 0x41, "NV01_ROOT_CLIENT", 0);
	alloc(&ctl, client, client, device, 0x80, "NV01_DEVICE_0", 0);
	sub = alloc_short(&ctl, client, device, 0x2080, "NV20_SUBDEVICE_0");
	group = alloc(&gpu, client, device, 0, 0xa06c, "KEPLER_CHANNEL_GROUP_A", 0);
	alloc(&gpu, client, group, channel, 0xc86f, "HOPPER_CHANNEL_GPFIFO_A", 0);
	/* ioctl() returns 0 although RM refused: an object that was not created has no class. */
	alloc(&ctl, client, channel, 0x5c000003, 0xcbc0, "HOPPER_COMPUTE_A",
	      ORDER | NV_ERR_NO_MEMORY);
	unknown_handle(client, 0x5c000003);
	unknown_handle(client, 0x5c0000ff);
	unknown_handle(0xc1d0beef, 0x5c000000);
	control(client, client, &cpu_info, NULL, 0, 0, "NV01_ROOT_CLIENT");
	control(client, sub, &gpu_info, NULL, 12, ORDER | NV_ERR_INVALID_ARGUMENT,
		"NV20_SUBDEVICE_0");
	control(client, channel, &unknown, NULL, 0, 0, "HOPPER_CHANNEL_GPFIFO_A");
	control(client, client, &cpu_info, NULL, 0, ORDER | ORDER_FAIL, "NV01_ROOT_CLIENT");
	control(client, client, &cpu_info, gone, 108, 0, "NV01_ROOT_CLIENT");
	sched(client, group);
	dup_map_event(client, device, sub);
	uvm_commands(client);
	bad_escapes();
	xfers(client, device);
	mappings(&gpu);
	mappings(&uvm);
	second_file();
	if (!single)
		copies();
	inside(three_controls, (void *)&cpu_info);
	inside(nothing, NULL);
	inside(nested, (void *)&cpu_info);
	inside(beside, (void *)&cpu_info);
	/* First refused, so the channel still exists. Then it and all objects below the group are
	 * freed. */
	rm_free(client, channel, "HOPPER_CHANNEL_GPFIFO_A", ORDER | NV_ERR_INVALID_ARGUMENT);
	control(client, channel, &unknown, NULL, 0, 0, "HOPPER_CHANNEL_GPFIFO_A");
	rm_free(client, group, "KEPLER_CHANNEL_GROUP_A", 0);
	unknown_handle(client, channel);
	unknown_handle(client, group);
}

static void many(unsigned long cnt)
{
	struct rm_control c = {.cmd = cpu_info.cmd};

	for (unsigned long i = 0; i < cnt; i++)
		if (do_ioctl(&ctl, RM(ESC_RM_CONTROL, sizeof(c)), &c))
			die("RM_CONTROL");
}

static void quiet_alloc(uint32_t client, uint32_t handle, uint32_t class)
{
	struct rm_alloc a = {.root = client, .parent = client, .new = handle, .class = class};

	if (do_ioctl(&ctl, RM(ESC_RM_ALLOC, sizeof(a)), &a) || a.status)
		die("RM_ALLOC");
}

static void quiet_control(uint32_t client, uint32_t object)
{
	struct rm_control c = {.client = client, .object = object, .cmd = cpu_info.cmd};

	if (do_ioctl(&ctl, RM(ESC_RM_CONTROL, sizeof(c)), &c))
		die("RM_CONTROL");
}

static void objects(uint32_t cnt)
{
	uint32_t client = alloc(&ctl, 0, 0, 0, 0x41, "NV01_ROOT_CLIENT", 0);
	struct rm_free f = {.root = client, .object = client};

	for (uint32_t i = 0; i < cnt; i++)
		quiet_alloc(client, 0x5c000000 + i, 0x80);
	for (uint32_t i = 0; i < 3; i++)
		quiet_control(client, 0x5c000000 + i);
	for (uint32_t i = cnt - 3; i < cnt; i++)
		quiet_control(client, 0x5c000000 + i);
	if (do_ioctl(&ctl, RM(ESC_RM_FREE, sizeof(f)), &f) || f.status)
		die("RM_FREE");
	client = alloc(&ctl, 0, 0, 0, 0x41, "NV01_ROOT_CLIENT", 0);
	quiet_alloc(client, 0x5c000000, 0x80);
	quiet_control(client, 0x5c000000);
}

static void block(void *arg)
{
	struct rm_control c = {.client = 0xc1d00001,
			       .object = 0x5c000001,
			       .cmd = cpu_info.cmd,
			       .flags = ORDER | ORDER_BLOCK};

	(void)arg;
	printf("blocking %d\n", getpid());
	fflush(stdout);
	do_ioctl(&ctl, RM(ESC_RM_CONTROL, sizeof(c)), &c);
}

static void one_control(void *arg)
{
	(void)arg;
	control(0xc1d00001, 0xc1d00001, &cpu_info, NULL, 0, ORDER | ORDER_DELAY, NULL);
}

static void cu_sleep(void *arg)
{
	int (*sleep)(unsigned) = symbol("cuFakeSleep");

	sleep(*(unsigned *)arg * 1000);
}

static double clock_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static void spin(void *arg)
{
	double end = clock_us(CLOCK_MONOTONIC) + *(unsigned *)arg * 1000;

	while (clock_us(CLOCK_MONOTONIC) < end)
		;
}

static void cu_spin(void *arg)
{
	inside(spin, arg);
}

static void cu_ioctl(void *arg)
{
	inside(one_control, arg);
}

/* Measured by the thread's CPU time. */
static void off_cpu(void (*fn)(void *), void *arg)
{
	double wall = clock_us(CLOCK_MONOTONIC), cpu = clock_us(CLOCK_THREAD_CPUTIME_ID);

	fn(arg);
	wall = clock_us(CLOCK_MONOTONIC) - wall;
	cpu = clock_us(CLOCK_THREAD_CPUTIME_ID) - cpu;
	printf("{\"wall_us\":%.1f,\"off_cpu_us\":%.1f}\n", wall, wall - cpu);
	fflush(stdout);
}

static void sched_calls(unsigned ms)
{
	off_cpu(cu_sleep, &ms);
	off_cpu(cu_spin, &ms);
	off_cpu(cu_ioctl, NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[2] : "";
	unsigned long cnt = argc > 3 ? strtoul(argv[3], NULL, 0) : 1;
	int (*init)(unsigned);
	struct call *c;
	char *page;

	if (argc < 2)
		return 2;
	folder = argv[1];
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		die("mmap");
	memset(page, 0, 4096);
	gone = page + 4096;
	/* Not unmapped, because the next mmap() would reuse the address. */
	mprotect(gone, 4096, PROT_NONE);
	if (strcmp(mode, "many") && strcmp(mode, "wait") && strcmp(mode, "objects"))
		load_libcuda();
	quiet = !strcmp(mode, "many") || !strcmp(mode, "objects") || !strcmp(mode, "block") ||
		!strcmp(mode, "sched");
	if (!strcmp(mode, "wait")) {
		printf("ready\n");
		fflush(stdout);
		(void)!getchar();
	}
	open_dev(&ctl);
	if (lib) {
		init = symbol("cuInit");
		c = call_begin("cuInit");
		call_end(c, init(0));
	}
	open_dev(&gpu);
	open_dev(&uvm);
	open_dev(&tools);
	if (!strcmp(mode, "many"))
		many(cnt);
	else if (!strcmp(mode, "objects"))
		objects(cnt);
	else if (!strcmp(mode, "block"))
		inside(block, NULL);
	else if (!strcmp(mode, "sched"))
		sched_calls(cnt);
	else if (!strcmp(mode, "wait"))
		for (unsigned long i = 0; i < cnt; i++)
			control(0xc1d00001, 0x5c000001, &gpu_info, NULL, i, 0, NULL);
	else
		everything(!strcmp(mode, "single"));
	close_dev(&tools);
	close_dev(&uvm);
	close_dev(&gpu);
	close_dev(&ctl);
	if (!quiet)
		print_calls();
	return 0;
}
