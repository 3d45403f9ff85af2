/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Failures planted with the mock driver, one per process: failures CASE [FILE]. A healthy kernel,
 * which has completed before, is submitted on another stream before the kernel that fails, and on
 * the same stream after it; in the cases alone_* it is not. In the case none the healthy kernel
 * runs alone, and the program ends. With FILE, the program waits for it, and makes calls meanwhile:
 * time to attach.
 *
 *   PLANT_LOG=FILE    the driver's message of a page fault is written to it, as to the kernel's log
 *   PLANT_PIDS=FILE   numbers of this process and another one are written to it, for the mock of
 * NVML PLANT_C10=FILE    library with the functions of PyTorch's allocator
 */
#ifdef C10
/* A library with the function of PyTorch's allocator that --torch records. */
struct device {
	signed char type, index;
};
void reports(void *p, long size, unsigned long allocated, unsigned long reserved,
	     struct device d) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
void reports(void *p, long size, unsigned long allocated, unsigned long reserved, struct device d)
{
	__asm__ volatile("" ::"r"(p), "r"(size), "r"(allocated), "r"(reserved), "m"(d));
}
void is_full(long size, unsigned long allocated, unsigned long reserved,
	     struct device d) __asm__("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
void is_full(long size, unsigned long allocated, unsigned long reserved, struct device d)
{
	__asm__ volatile("" ::"r"(size), "r"(allocated), "r"(reserved), "m"(d));
}
#else
#include <fcntl.h>

#include "cases/case.h"

#define MIB   (1ull << 20)
#define BLOCK (64 * MIB)

enum plant { NONE, FAULT, HANG, NEVER_RECORDED, OTHERS, FRAGMENTS };

static const struct planted {
	const char *name;
	enum plant plant;
	int result; /* FAULT */
	char at;    /* the address: f(reed), p(ast the end), far, n(ull), o(f a peer); 0: none */
} all[] = {
	{"use_after_free", FAULT, 700, 'f'},
	{"past_end_4_bytes", FAULT, 700, 'p'},
	{"past_end_1_gib", FAULT, 700, 'g'},
	{"null_pointer", FAULT, 700, 'n'},
	{"misaligned", FAULT, 716, 0},
	{"peer", FAULT, 700, 'o'},
	{"stack_overflow", FAULT, 714, 0},
	{"traps", FAULT, 719, 0},
	{"asserts", FAULT, 710, 0},
	{"endless", HANG, 0, 0},
	{"host_flag", HANG, 0, 0},
	{"never_recorded", NEVER_RECORDED, 0, 0},
	{"others_hold", OTHERS, 0, 0},
	{"fragments", FRAGMENTS, 0, 0},
	{"alone_traps", FAULT, 719, 0},
	{"alone_endless", HANG, 0, 0},
	{"none", NONE, 0, 0},
};

static handle module, healthy, side, stream;

static inline __attribute__((always_inline)) void launch(handle f, handle s, dptr a)
{
	uint32_t n = 0;
	void *params[] = {&a, &n};

	F(cuLaunchKernel)(f, 2, 1, 1, 32, 1, 1, 0, s, params, NULL);
}

/* As the CUDA runtime does: it looks a kernel up when it first launches it. */
static __attribute__((noinline)) void launches_bad(dptr a)
{
	handle f = NULL;

	must("cuModuleGetFunction", F(cuModuleGetFunction)(&f, module, "_Z3badPfj"), 0);
	launch(f, stream, a);
	__asm__ volatile("");
}

static __attribute__((noinline)) dptr allocates(uint64_t size)
{
	dptr p = 0;

	F(cuMemAlloc_v2)(&p, size);
	__asm__ volatile("" ::"m"(p));
	return p;
}

static void write_to(const char *variable, const char *text)
{
	const char *path = getenv(variable);
	int fd = path ? open(path, O_WRONLY | O_CREAT, 0666) : -1;

	if (fd >= 0 && write(fd, text, strlen(text)) < 0)
		perror(path);
	if (fd >= 0)
		close(fd);
}

static void log_fault(dptr address)
{
	char text[256];

	snprintf(
		text, sizeof(text),
		"<4>NVRM: Xid (PCI:0000:3b:00): 31, pid=%d, name=failures, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC0 "
		"GPCCLIENT_T1_0 faulted @ 0x%x_%08x. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE\n",
		getpid(), (unsigned)(address >> 32), (unsigned)address);
	write_to("PLANT_LOG", text);
}

struct device {
	int8_t type, index;
};

/* Two segments, of which every second piece is free. */
static void fragments(void *lib)
{
	void (*reports)(void *, long, size_t, size_t, struct device) =
		lib ? (void (*)(void *, long, size_t, size_t, struct device))dlsym(
			      lib, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")
		    : NULL;
	const struct device gpu = {1, 0};
	size_t used = 0;

	for (unsigned s = 1; s <= 2; s++) {
		dptr p = allocates(BLOCK);

		for (unsigned i = 0; reports && i < 8; i++)
			reports((void *)(p + i * 8 * MIB), 8 * MIB, used += 8 * MIB, s * BLOCK,
				gpu);
		for (unsigned i = 0; reports && i < 8; i += 2)
			reports((void *)(p + i * 8 * MIB), -8 * (long)MIB, used -= 8 * MIB,
				s * BLOCK, gpu);
	}
	allocates(1ull << 40);
}

static void holds_beside(void)
{
	char pids[64];

	allocates(BLOCK);
	snprintf(pids, sizeof(pids), "%d,1", getpid());
	write_to("PLANT_PIDS", pids);
	/* NVML's next samples show it. */
	case_sleep_ms(700);
	allocates(1ull << 40);
}

static void plant(const struct planted *x, dptr a, dptr b, handle event, void *lib)
{
	char fault[64];
	const dptr at = x->at == 'n'   ? 16
			: x->at == 'p' ? a + BLOCK + 4
			: x->at == 'g' ? a + BLOCK + (1 << 30)
			: x->at == 'o' ? b
				       : a + 4096;

	snprintf(fault, sizeof(fault), "_Z3badPfj:%d", x->result);
	switch (x->plant) {
	case NONE:
		break;
	case FAULT:
		setenv("FAKE_FAULT", fault, 1);
		setenv("FAKE_HANG", "_Z3badPfj:100", 1);
		if (x->at == 'f')
			F(cuMemFree_v2)(a);
		launches_bad(x->at == 'n' ? 0 : x->at == 'o' ? b : a);
		break;
	case HANG:
		setenv("FAKE_HANG", "_Z3badPfj", 1);
		launches_bad(a);
		break;
	case NEVER_RECORDED:
		setenv("FAKE_EVENT_HANG", "1", 1);
		F(cuEventSynchronize)(event);
		break;
	case OTHERS:
		holds_beside();
		break;
	case FRAGMENTS:
		fragments(lib);
		break;
	}
	if (x->at)
		log_fault(at);
}

/* A call by which the library can enter the process. */
static void wait_for(const char *path, handle event)
{
	while (access(path, F_OK)) {
		F(cuEventQuery)(event);
		case_sleep_ms(10);
	}
}

int main(int argc, char **argv)
{
	static const char ptx[] = PTX_HEAD PTX_KERNEL("_Z3badPfj") PTX_KERNEL("_Z7healthyPfj");
	const struct planted *x = NULL;
	dptr a, b;
	handle event;
	bool alone;
	void *c10;

	for (unsigned i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, argv[1]))
			x = &all[i];
	if (!x)
		return 2;
	case_quiet = true;
	alone = !strncmp(x->name, "alone", 5);
	printf("%s %d\n", x->name, getpid());
	fflush(stdout);
	c10 = getenv("PLANT_C10") ? dlopen(getenv("PLANT_C10"), RTLD_NOW) : NULL;
	case_open();
	case_context();
	module = case_module(ptx);
	healthy = case_function(module, "_Z7healthyPfj", NULL);
	stream = case_stream(1);
	side = case_stream(1);
	b = allocates(BLOCK);
	a = allocates(BLOCK);
	must("cuEventCreate", F(cuEventCreate)(&event, 0), 0);
	for (unsigned i = 0; i < 3; i++)
		launch(healthy, stream, b);
	must("cuCtxSynchronize", F(cuCtxSynchronize)(), 0);
	if (argc > 2)
		wait_for(argv[2], event);
	if (!alone)
		launch(healthy, side, b);
	plant(x, a, b, event, c10);
	if (!alone)
		launch(healthy, stream, b);
	F(cuCtxSynchronize)();
	if (x->plant == NONE)
		return 0;
	/* Its names are read from its memory. */
	printf("done %s\n", x->name);
	fflush(stdout);
	pause();
	return 0;
}
#endif
