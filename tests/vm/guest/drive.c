/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Uses the mock driver of tests/vm/stub as libcuda uses the real one, and prints the expected
 * trace: a JSON line for each system call that reaches the driver, in cudatrace's format
 * (docs/SCHEMA.md), in the order in which each thread made them. tests/vm/compare.py compares.
 *
 * - -n N: rounds (1)
 * - -t N: threads, each with its own files and rounds
 * - -c: in a CUDA call (cuFakeCallback of the mock libcuda.so.1): rounds 0, 2, 4..., -s, -f
 * - -d 535: the driver's branch, because layouts differ (580)
 * - -u: first page faults and migrations of managed memory
 * - -s MS: at the end an ioctl that takes that long
 * - -f N: at the end N RM_CONTROLs without pauses, printed as one line with "_repeat"
 * - -w: waits for a line on stdin before it begins
 *
 * Members that are not compared begin with _. null: the trace must not have the member. "only": the
 * mechanism that records it (probes on the driver's functions, or tracepoints of system calls);
 * without it, both do.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef STATIC
#include <dlfcn.h>
#endif

#define RM(nr, size) (0xc0004600u | (uint32_t)(size) << 16 | (nr))
#define WISH_STATUS  0xc7570000u /* see stub.h */
#define WISH_ERRNO   0xc7580000u
#define WISH_SLEEP   0xc7590000u

/* See stub/uvm_events.h. */
#define STUB_EVENT 0x7e570001
struct stub_event {
	uint32_t id, is_migration;
	uint64_t address, bytes;
	uint32_t src, dst, cause, is_write;
};

static struct {
	int rounds, threads, branch, sleep_ms, fast;
	bool in_call, wait, events;
} opt = {.rounds = 1, .threads = 1, .branch = 580};

static int (*callback)(void (*fn)(void *), void *arg);
static __thread const char *call; /* the CUDA call that this thread is in */

static void die(const char *what)
{
	fprintf(stderr, "drive: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void must(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

static void expect(const char *op, const char *device, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void expect(const char *op, const char *device, const char *fmt, ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	va_list ap;

	pthread_mutex_lock(&lock);
	printf("{\"type\":\"kernel\",\"op\":\"%s\",\"device\":\"%s\",\"pid\":%d,\"tid\":%d", op,
	       device, getpid(), (int)syscall(SYS_gettid));
	if (call)
		printf(",\"call\":\"%s\"", call);
	else
		printf(",\"call\":null,\"call_id\":null");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("}\n");
	pthread_mutex_unlock(&lock);
}

/* --- a file --- */

struct dev {
	const char *name;
	int fd;
};

static struct dev dev__open(const char *name)
{
	struct dev d = {.name = name};
	char path[64];

	snprintf(path, sizeof(path), "/dev/%s", name);
	d.fd = open(path, O_RDWR | O_CLOEXEC);
	must(d.fd >= 0, path);
	expect("open", name, ",\"fd\":%d", d.fd);
	return d;
}

static void dev__close(struct dev *d)
{
	must(!close(d->fd), d->name);
	expect("close", d->name, ",\"fd\":%d,\"result\":0", d->fd);
}

/* result: the required result, 0 or -errno. The rest is further expected members of the trace. */
#define do_ioctl(d, cmd, arg, want, ...)                                                           \
	do {                                                                                       \
		uint32_t cmd_ = (cmd);                                                             \
		int ret_ = ioctl((d)->fd, (unsigned long)cmd_, (arg)) < 0 ? -errno : 0;            \
                                                                                                   \
		errno = -ret_;                                                                     \
		must(ret_ == (want), "an ioctl does not answer as wished");                        \
		expect_ioctl(d, cmd_, ret_, __VA_ARGS__);                                          \
	} while (0)

static void expect_ioctl(const struct dev *d, uint32_t cmd, int ret, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void expect_ioctl(const struct dev *d, uint32_t cmd, int ret, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	expect("ioctl", d->name, ",\"fd\":%d,\"cmd\":\"0x%x\",\"result\":%d%s", d->fd, cmd, ret,
	       text);
}

/* --- escapes --- */

struct nvos64 {
	uint32_t client, parent, object, class;
	uint64_t params, rights;
	uint32_t params_size, flags, status, pad;
};
struct nvos21 {
	uint32_t client, parent, object, class;
	uint64_t params;
	uint32_t params_size, status;
};
struct nvos54 {
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t params_size, status;
};

static const char *status_name(uint32_t status)
{
	static const struct {
		uint32_t status;
		const char *name;
	} names[] = {
		{0, "NV_OK"},
		{0x1f, "NV_ERR_INVALID_ARGUMENT"},
		{0x51, "NV_ERR_NO_MEMORY"},
		{0x56, "NV_ERR_NOT_SUPPORTED"},
		{0x57, "NV_ERR_OBJECT_NOT_FOUND"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].status == status)
			return names[i].name;
	abort();
}

#define HAS_CLASS(name) ",\"class\":\"" name "\""

/* Returns the handle. object 0: the driver makes one. */
static uint32_t rm_alloc(struct dev *d, uint32_t client, uint32_t parent, uint32_t object,
			 uint32_t class, const char *class_name, uint32_t status)
{
	struct nvos64 a = {client, parent, object, class, .status = WISH_STATUS | status};
	uint32_t cmd = RM(0x2b, sizeof(a));

	must(!ioctl(d->fd, (unsigned long)cmd, &a), "RM_ALLOC");
	must(a.status == status, "RM_ALLOC has another status");
	expect_ioctl(d, cmd, 0,
		     ",\"escape\":\"NV_ESC_RM_ALLOC\",\"class\":\"%s\",\"client\":\"0x%x\","
		     "\"parent\":\"0x%x\",\"new\":\"0x%x\",\"status\":\"%s\"",
		     class_name, client ? client : a.object, parent, a.object, status_name(status));
	return a.object;
}

static void rm_alloc_short(struct dev *d, uint32_t client, uint32_t parent, uint32_t object)
{
	struct nvos21 a = {client, parent, object, 0xc8b5, .status = WISH_STATUS | 0x1f};

	do_ioctl(d, RM(0x2b, sizeof(a)), &a, 0,
		 ",\"escape\":\"NV_ESC_RM_ALLOC\",\"class\":\"HOPPER_DMA_COPY_A\",\"new\":\"0x%x\","
		 "\"status\":\"NV_ERR_INVALID_ARGUMENT\"",
		 object);
}

static void rm_alloc_xfer(struct dev *d, uint32_t client, uint32_t parent, uint32_t object)
{
	struct nvos64 a = {client, parent, object, 0xcbc0};
	struct {
		uint32_t nr, size;
		uint64_t addr;
	} x = {0x2b, sizeof(a), (uintptr_t)&a};

	do_ioctl(d, RM(0xd3, sizeof(x)), &x, 0,
		 ",\"escape\":\"NV_ESC_RM_ALLOC\",\"xfer\":true,\"class\":\"HOPPER_COMPUTE_A\","
		 "\"new\":\"0x%x\",\"status\":\"NV_OK\"",
		 object);
}

/* name NULL: a control that is in no table. */
static void rm_control(struct dev *d, uint32_t client, uint32_t object, const char *object_class,
		       uint32_t cmd, const char *name, void *params, uint32_t size, uint32_t status)
{
	struct nvos54 c = {client, object, cmd, WISH_STATUS | status, (uintptr_t)params,
			   size,   0x77};
	char text[256];

	if (name)
		snprintf(text, sizeof(text), ",\"control\":\"%s\",\"name\":\"%s\"", name, name);
	else
		snprintf(text, sizeof(text), ",\"control\":null");
	if (object_class)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 ",\"object_class\":\"%s\"", object_class);
	do_ioctl(d, RM(0x2a, sizeof(c)), &c, 0,
		 ",\"escape\":\"NV_ESC_RM_CONTROL\",\"control_cmd\":\"0x%x\",\"client\":\"0x%x\","
		 "\"object\":\"0x%x\",\"params_size\":%u,\"status\":\"%s\"%s",
		 cmd, client, object, size, status_name(status), text);
}

static void rm_free(struct dev *d, uint32_t client, uint32_t parent, uint32_t object)
{
	uint32_t f[4] = {client, parent, object, 0x77};

	do_ioctl(d, RM(0x29, sizeof(f)), f, 0,
		 ",\"escape\":\"NV_ESC_RM_FREE\",\"client\":\"0x%x\",\"object\":\"0x%x\","
		 "\"status\":\"NV_OK\"",
		 client, object);
}

static void greet(struct dev *ctl)
{
	struct {
		uint32_t cmd, reply;
		char text[64];
	} v = {.cmd = '2'};
	uint8_t cards[32 * 72] = {0};
	uint64_t block = 0;

	/* The trace must show the driver's answer. */
	must(!ioctl(ctl->fd, (unsigned long)RM(0xd2, sizeof(v)), &v), "CHECK_VERSION_STR");
	expect_ioctl(ctl, RM(0xd2, sizeof(v)), 0,
		     ",\"escape\":\"NV_ESC_CHECK_VERSION_STR\",\"version\":\"%s\"", v.text);
	do_ioctl(ctl, RM(0xd6, sizeof(block)), &block, 0, ",\"escape\":\"NV_ESC_SYS_PARAMS\"");
	do_ioctl(ctl, RM(0xc8, sizeof(cards)), cards, 0, ",\"escape\":\"NV_ESC_CARD_INFO\"");
}

static void map(struct dev *ctl, struct dev *gpu, uint32_t client, uint32_t device)
{
	struct {
		uint32_t client, device, memory, pad;
		uint64_t offset, length, address;
		uint32_t status, flags;
		int32_t fd, pad2;
	} m = {client, device, 0x5c000030, .length = 0x10000, .status = 0x77, .fd = gpu->fd};
	void *p;

	must(!ioctl(ctl->fd, (unsigned long)RM(0x4e, sizeof(m)), &m), "RM_MAP_MEMORY");
	expect_ioctl(
		ctl, RM(0x4e, sizeof(m)), 0,
		",\"escape\":\"NV_ESC_RM_MAP_MEMORY\",\"object\":\"0x5c000030\","
		"\"address\":\"0x%llx\",\"length\":65536,\"target_fd\":%d,\"status\":\"NV_OK\"",
		(unsigned long long)m.address, gpu->fd);
	p = mmap(NULL, 0x10000, PROT_READ | PROT_WRITE, MAP_SHARED, gpu->fd, 0);
	must(p != MAP_FAILED, "mmap");
	expect("mmap", gpu->name, ",\"fd\":%d,\"size\":65536,\"ptr\":\"0x%lx\"", gpu->fd,
	       (unsigned long)p);
	munmap(p, 0x10000);
	/* The control device cannot be mapped. */
	must(mmap(NULL, 4096, PROT_READ, MAP_SHARED, ctl->fd, 0) == MAP_FAILED, "mmap must fail");
	expect("mmap", ctl->name, ",\"fd\":%d,\"size\":4096,\"result\":%d", ctl->fd, -EINVAL);
}

static void failures(struct dev *ctl)
{
	struct nvos54 c = {0xc1d00000, 1, 0x00000102, .flags = WISH_ERRNO | EBUSY};
	uint32_t words[4] = {0};

	/* ioctl() fails: there is no status. The type byte does not matter. */
	do_ioctl(ctl, RM(0x99, sizeof(words)), words, -EINVAL, ",\"escape\":null,\"status\":null");
	do_ioctl(
		ctl, RM(0x2a, sizeof(c)), &c, -EBUSY,
		",\"escape\":\"NV_ESC_RM_CONTROL\",\"control\":\"NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO\","
		"\"status\":null");
	do_ioctl(ctl, RM(0x2a, sizeof(c)), NULL, -EFAULT,
		 ",\"escape\":\"NV_ESC_RM_CONTROL\",\"status\":null");
	c.flags = WISH_STATUS | 0x57;
	do_ioctl(ctl, 0x0020002au, &c, 0,
		 ",\"escape\":\"NV_ESC_RM_CONTROL\",\"status\":\"NV_ERR_OBJECT_NOT_FOUND\"");
}

static void waits(struct dev *gpu)
{
	struct pollfd p = {.fd = gpu->fd, .events = POLLIN};

	must(poll(&p, 1, 0) == 1, "poll");
	expect("poll", gpu->name, ",\"only\":\"probe\"");
}

static void rm(struct dev *ctl)
{
	uint32_t client, device = 0x5c000001, tsg = 0x5c000002, channel = 0x5c000003, token = 0;
	struct dev gpu;
	int32_t ctl_fd = ctl->fd;
	uint8_t schedule[3] = {1, 0, 0}; /* bEnable */
	uint32_t dup[7] = {0}, event[4] = {0};
	uint8_t heap[184] = {0};

	greet(ctl);
	client = rm_alloc(ctl, 0, 0, 0, 0x41, "NV01_ROOT_CLIENT", 0);
	rm_alloc(ctl, client, client, device, 0x80, "NV01_DEVICE_0", 0);
	gpu = dev__open("nvidia0");
	do_ioctl(&gpu, RM(0xc9, 4), &ctl_fd, 0,
		 ",\"escape\":\"NV_ESC_REGISTER_FD\",\"target_fd\":%d", ctl_fd);
	rm_alloc(ctl, client, device, tsg, 0xa06c, "KEPLER_CHANNEL_GROUP_A", 0);
	rm_alloc(ctl, client, tsg, channel, 0xc86f, "HOPPER_CHANNEL_GPFIFO_A", 0);
	rm_alloc(ctl, client, device, 0x5c000004, 0xc86f, "HOPPER_CHANNEL_GPFIFO_A", 0x51);
	rm_alloc_short(ctl, client, channel, 0x5c000005);
	rm_alloc_xfer(ctl, client, channel, 0x5c000006);
	rm_control(ctl, client, tsg, "KEPLER_CHANNEL_GROUP_A", 0xa06c0101,
		   "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", schedule, opt.branch < 545 ? 2 : 3, 0);
	rm_control(ctl, client, channel, "HOPPER_CHANNEL_GPFIFO_A", 0xc36f0108,
		   "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN", &token, 4, 0);
	must(token == 0x1234, "no work submit token");
	rm_control(ctl, client, device, "NV01_DEVICE_0", 0x00800201,
		   "NV0080_CTRL_CMD_GPU_GET_CLASSLIST", NULL, 16, 0x56);
	rm_control(ctl, client, 0x5c0000ff, NULL, 0x7fff7fff, NULL, NULL, 0, 0x56);

	dup[0] = client;
	dup[1] = device;
	dup[3] = client;
	dup[4] = channel;
	must(!ioctl(ctl->fd, (unsigned long)RM(0x34, sizeof(dup)), dup), "RM_DUP_OBJECT");
	expect_ioctl(ctl, RM(0x34, sizeof(dup)), 0,
		     ",\"escape\":\"NV_ESC_RM_DUP_OBJECT\",\"new\":\"0x%x\",\"status\":\"NV_OK\"",
		     dup[2]);
	event[0] = client;
	event[2] = gpu.fd;
	do_ioctl(&gpu, RM(0xce, sizeof(event)), event, 0,
		 ",\"escape\":\"NV_ESC_ALLOC_OS_EVENT\",\"target_fd\":%d,\"status\":\"NV_OK\"",
		 gpu.fd);
	memcpy(heap, &client, 4);
	heap[8] = 2; /* ALLOC_SIZE */
	do_ioctl(ctl, RM(0x4a, sizeof(heap)), heap, 0,
		 ",\"escape\":\"NV_ESC_RM_VID_HEAP_CONTROL\",\"function\":\"ALLOC_SIZE\","
		 "\"status\":\"NV_OK\"");
	map(ctl, &gpu, client, device);
	waits(&gpu);
	failures(ctl);
	rm_free(ctl, client, tsg, channel);
	/* Its number is free again, so the handle now refers to another object. */
	rm_alloc(ctl, client, device, channel, 0x2080, "NV20_SUBDEVICE_0", 0);
	rm_control(ctl, client, channel, "NV20_SUBDEVICE_0", 0x20800102,
		   "NV2080_CTRL_CMD_GPU_GET_INFO_V2", NULL, 0, 0);
	rm_free(ctl, client, client, client);
	dev__close(&gpu);
}

static void uvm_cmd(struct dev *d, uint32_t cmd, const char *name, void *arg, uint32_t status_off,
		    uint32_t status, const char *more)
{
	uint32_t wish = WISH_STATUS | status;

	memcpy((char *)arg + status_off, &wish, sizeof(wish));
	do_ioctl(d, cmd, arg, 0, ",\"uvm\":\"%s\",\"status\":\"%s\"%s", name, status_name(status),
		 more);
}

static void uvm(void)
{
	struct dev d = dev__open("nvidia-uvm"), tools;
	uint64_t b[9264 / 8];
	uint32_t size = opt.branch < 550 ? 1200 : 9264; /* MAP_EXTERNAL_ALLOCATION */
	char text[64];
	void *p;

	memset(b, 0, sizeof(b));
	uvm_cmd(&d, 0x30000001, "UVM_INITIALIZE", b, 8, 0, "");
	memset(b, 0, sizeof(b));
	memset(b, 0xab, 16); /* UUID */
	uvm_cmd(&d, 37, "UVM_REGISTER_GPU", b, 36, 0, "");
	memset(b, 0, sizeof(b));
	b[0] = 0x7f0000000000;
	b[1] = 0x200000;
	uvm_cmd(&d, 33, "UVM_MAP_EXTERNAL_ALLOCATION", b, size - 4, 0,
		",\"address\":\"0x7f0000000000\",\"length\":2097152");
	uvm_cmd(&d, 51, "UVM_MIGRATE", b, 72, 0x1f,
		",\"address\":\"0x7f0000000000\",\"length\":2097152");
	uvm_cmd(&d, 34, "UVM_FREE", b, 16, 0, ",\"address\":\"0x7f0000000000\",\"length\":2097152");
	do_ioctl(&d, 99, b, -EINVAL, ",\"uvm\":null,\"status\":null");
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd, 0);
	must(p != MAP_FAILED, "mmap");
	snprintf(text, sizeof(text), ",\"fd\":%d,\"size\":8192,\"ptr\":\"0x%lx\"", d.fd,
		 (unsigned long)p);
	expect("mmap", d.name, "%s", text);
	munmap(p, 8192);
	tools = dev__open("nvidia-uvm-tools");
	memset(b, 0, sizeof(b));
	uvm_cmd(&tools, 57, "UVM_TOOLS_SET_NOTIFICATION_THRESHOLD", b, 4, 0, "");
	dev__close(&tools);
	dev__close(&d);
}

static void expect_uvm(const char *op, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void expect_uvm(const char *op, const char *fmt, ...)
{
	va_list ap;

	printf("{\"type\":\"uvm\",\"op\":\"%s\",\"name\":\"%s\",\"only\":\"probe\",\"pid\":%d,\"tid\":%d",
	       op, op, getpid(), (int)syscall(SYS_gettid));
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("}\n");
}

static void uvm_event(struct dev *d, const struct stub_event *e)
{
	do_ioctl(d, STUB_EVENT, (void *)e, 0, ",\"uvm\":null,\"status\":null");
}

static void fault(struct dev *d, uint32_t id, uint32_t processor, uint64_t address, bool is_write)
{
	struct stub_event e = {
		.id = id, .dst = processor, .address = address, .is_write = is_write};

	uvm_event(d, &e);
	if (processor)
		expect_uvm("fault",
			   ",\"ptr\":\"0x%llx\",\"processor\":\"GPU%u\",\"write\":null,"
			   "\"size\":null,\"from\":null,\"cause\":null",
			   (unsigned long long)address, processor - 1);
	else
		expect_uvm("fault", ",\"ptr\":\"0x%llx\",\"processor\":\"CPU\",\"write\":%s",
			   (unsigned long long)address, is_write ? "true" : "false");
}

/* cause_name as JSON has it. */
static void migration(struct dev *d, uint32_t id, const struct stub_event *e, const char *op,
		      const char *from, const char *to, const char *cause_name)
{
	struct stub_event copy = *e;

	copy.id = id;
	copy.is_migration = 1;
	uvm_event(d, &copy);
	expect_uvm(op,
		   ",\"ptr\":\"0x%llx\",\"size\":%llu,\"from\":\"%s\",\"to\":\"%s\","
		   "\"cause\":%s,\"processor\":null,\"write\":null",
		   (unsigned long long)e->address, (unsigned long long)e->bytes, from, to,
		   cause_name);
}

/* uvm_perf_event_t has one event less before these until branch 525. */
static void uvm_events(void)
{
	static const char *const causes[] = {
		"\"replayable fault\"",
		"\"non-replayable fault\"",
		"\"access counter\"",
		"\"prefetch\"",
		NULL,
		"\"tools\"",
		"\"migrate call\"",
		"\"set range group\"",
		"\"hint\"",
		"9",
	};
	uint32_t fault_id = opt.branch < 530 ? 5 : 6, migration_id = fault_id + 1;
	struct stub_event to_gpu = {.address = 0x7f5500200000, .bytes = 65536, .src = 0, .dst = 1},
			  to_cpu = {.address = 0x7f5500400000, .bytes = 5ull << 32, .src = 3};
	struct dev d = dev__open("nvidia-uvm");

	fault(&d, fault_id, 0, 0x7f5500000123, true);
	fault(&d, fault_id, 0, 0x7f5500000456, false);
	fault(&d, fault_id, 1, 0x7f5500001000, false);
	fault(&d, fault_id, 8, 0xffff5500002000, true);
	for (uint32_t cause = 0; cause < 10; cause++) {
		to_gpu.cause = cause;
		if (causes[cause])
			migration(&d, migration_id, &to_gpu, "migration", "CPU", "GPU0",
				  causes[cause]);
	}
	to_cpu.cause = 4;
	migration(&d, migration_id, &to_cpu, "eviction", "GPU2", "CPU", "\"eviction\"");
	/* Other events: there are ten, and may be more. */
	for (uint32_t id = 0; id < 12; id++) {
		struct stub_event other = {.id = id, .address = 0xbad};

		if (id != fault_id && id != migration_id)
			uvm_event(&d, &other);
	}
	dev__close(&d);
}

static void modeset(void)
{
	struct dev d = dev__open("nvidia-modeset");
	struct {
		uint32_t cmd, size;
		uint64_t addr;
	} k = {0};

	do_ioctl(&d, 0xc0106d00u, &k, 0, "%s", "");
	dev__close(&d);
}

static void round_of(void *arg)
{
	struct dev *ctl = arg;

	rm(ctl);
	uvm();
	modeset();
}

static void in_call(void (*fn)(void *), struct dev *ctl)
{
	int ret;

	call = "cuFakeCallback";
	ret = callback(fn, ctl);
	must(!ret, call);
	call = NULL;
}

static void last(void *arg)
{
	struct dev *ctl = arg;
	struct nvos54 c = {0xc1d00000, 1, 0x00000102};

	if (opt.sleep_ms) {
		c.flags = WISH_SLEEP | opt.sleep_ms;
		do_ioctl(ctl, RM(0x2a, sizeof(c)), &c, 0,
			 ",\"escape\":\"NV_ESC_RM_CONTROL\",\"status\":\"NV_OK\",\"_min_us\":%d",
			 /* Emulated timer ticks come late and then too fast. */
			 opt.sleep_ms * 500);
	}
	c.flags = 0;
	for (int i = 0; i < opt.fast; i++)
		must(!ioctl(ctl->fd, (unsigned long)RM(0x2a, sizeof(c)), &c), "RM_CONTROL");
	if (opt.fast)
		expect_ioctl(
			ctl, RM(0x2a, sizeof(c)), 0,
			",\"escape\":\"NV_ESC_RM_CONTROL\",\"status\":\"NV_OK\",\"_repeat\":%d",
			opt.fast);
}

static void *work(void *arg)
{
	struct dev ctl = dev__open("nvidiactl");

	if (opt.events)
		uvm_events();
	for (int i = 0; i < opt.rounds; i++) {
		if (opt.in_call && i % 2 == 0)
			in_call(round_of, &ctl);
		else
			round_of(&ctl);
	}
	if (opt.in_call)
		in_call(last, &ctl);
	else
		last(&ctl);
	dev__close(&ctl);
	return NULL;
}

static void load_cuda(void)
{
#ifdef STATIC
	errno = ENOSYS;
	die("-c: a static program cannot load libcuda");
#else
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned);

	if (!lib) {
		fprintf(stderr, "drive: %s\n", dlerror());
		exit(1);
	}
	*(void **)&init = dlsym(lib, "cuInit");
	*(void **)&callback = dlsym(lib, "cuFakeCallback");
	must(init && callback, "no mock libcuda.so.1");
	must(!init(0), "cuInit");
#endif
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int o;

	while ((o = getopt(argc, argv, "n:t:d:s:f:cuw")) != -1) {
		switch (o) {
		case 'n':
			opt.rounds = atoi(optarg);
			break;
		case 't':
			opt.threads = atoi(optarg);
			break;
		case 'd':
			opt.branch = atoi(optarg);
			break;
		case 's':
			opt.sleep_ms = atoi(optarg);
			break;
		case 'f':
			opt.fast = atoi(optarg);
			break;
		case 'c':
			opt.in_call = true;
			break;
		case 'u':
			opt.events = true;
			break;
		case 'w':
			opt.wait = true;
			break;
		default:
			return 2;
		}
	}
	if (opt.in_call)
		load_cuda();
	if (opt.wait && getchar() == EOF)
		return 1;
	if (opt.threads < 2) {
		work(NULL);
		return 0;
	}
	for (int i = 0; i < opt.threads && i < 64; i++)
		must(!pthread_create(&threads[i], NULL, work, NULL), "pthread_create");
	for (int i = 0; i < opt.threads && i < 64; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
