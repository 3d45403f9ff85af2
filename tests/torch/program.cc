/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What PyTorch's operators do to a thread: they are in each other, follow each other, throw, are
 * left by longjmp(), run in threads. Driver calls (cuCtxGetLimit and the like would be many:
 * allocations, whose sizes say which they are) are made in and between them. Argument: what to do.
 */
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

typedef void (*Work)(void *);
#define NOINLINE __attribute__((noinline))

namespace at
{
class TensorBase;
namespace _ops
{
struct outer {
	static void call(Work, void *);
};
struct inner_Tensor {
	static void call(Work, void *);
};
struct add__Scalar {
	static void call(Work, void *);
};
struct empty_memory_format {
	static void call(Work, void *);
};
} // namespace _ops
namespace sequence_number
{
uint64_t get_and_increment();
}
} // namespace at
namespace c10
{
struct Device {
	int8_t type, index;
};
void reportMemoryUsageToProfiler(void *, long, size_t, size_t, Device);
void reportOutOfMemoryToProfiler(long, size_t, size_t, Device) __attribute__((weak));
} // namespace c10
void THPVariable_Wrap(const at::TensorBase &);
extern "C" void run_node(uint64_t node, uint64_t seq, Work work, void *arg);

using namespace at::_ops;

static int (*mem_alloc)(uint64_t *, size_t);

/* A driver call that its number identifies. */
static NOINLINE void allocate(long n)
{
	uint64_t p;

	mem_alloc(&p, 1000 + n);
	__asm__ volatile("" ::"m"(p) : "memory");
}

/* The last call is not a tail call: then no later call shows that the previous operator has ended.
 */
#define STAYS() __asm__ volatile("" ::: "memory")

/* The same in a much deeper frame, most of which is not written: an operator was there before.
 */
static NOINLINE void deep(long n)
{
	volatile char room[1024];

	room[0] = 0;
	allocate(n);
	room[1] = 0;
	STAYS();
}

static void wrap()
{
	THPVariable_Wrap(*(const at::TensorBase *)"");
}

static void start_driver()
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *ctx;

	((int (*)(unsigned))dlsym(lib, "cuInit"))(0);
	((int (*)(void **, int))dlsym(lib, "cuDevicePrimaryCtxRetain"))(&ctx, 0);
	((int (*)(void *))dlsym(lib, "cuCtxSetCurrent"))(ctx);
	mem_alloc = (int (*)(uint64_t *, size_t))dlsym(lib, "cuMemAlloc_v2");
}

/* outer { 1, inner { 2 }, inner { add_ { 3 } }, 4 }, 5 */
static void nested()
{
	outer::call(
		[](void *) {
			allocate(1);
			at::sequence_number::get_and_increment();
			inner_Tensor::call(
				[](void *) {
					allocate(2);
					STAYS();
				},
				nullptr);
			inner_Tensor::call(
				[](void *) {
					add__Scalar::call(
						[](void *) {
							allocate(3);
							STAYS();
						},
						nullptr);
				},
				nullptr);
			allocate(4);
			STAYS();
		},
		nullptr);
	wrap();
	allocate(5);
	STAYS();
}

/* The same call site again and again; a call between them, and one behind, deeper than they were.
 */
static void siblings()
{
	outer::call(
		[](void *) {
			for (long i = 0; i < 10; i++) {
				empty_memory_format::call(nullptr, nullptr);
				deep(10 + i);
			}
		},
		nullptr);
	deep(20);
	STAYS();
}

static void throws()
{
	for (long i = 0; i < 10; i++) {
		try {
			outer::call(
				[](void *n) {
					inner_Tensor::call(
						[](void *n) {
							allocate(30 + (long)n);
							throw std::runtime_error("it broke");
						},
						n);
				},
				(void *)i);
		} catch (const std::runtime_error &) {
			deep(40 + i);
		}
	}
}

static jmp_buf back;

static void jumps()
{
	if (!setjmp(back))
		outer::call(
			[](void *) {
				inner_Tensor::call(
					[](void *) {
						allocate(50);
						longjmp(back, 1);
					},
					nullptr);
			},
			nullptr);
	deep(51);
}

static void backward()
{
	run_node(
		0, 100,
		[](void *) {
			inner_Tensor::call(
				[](void *) {
					allocate(60);
					STAYS();
				},
				nullptr);
		},
		nullptr);
	run_node(
		1, UINT64_MAX,
		[](void *) {
			allocate(61);
			STAYS();
		},
		nullptr);
	wrap();
	/* Nodes that cannot be read, or are none. */
	run_node(
		0x10, 0,
		[](void *) {
			allocate(62);
			STAYS();
		},
		nullptr);
	run_node((uint64_t)mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 0,
		 [](void *) {
			 allocate(63);
			 STAYS();
		 },
		 nullptr);
	static uint64_t nonsense[4] = {0x4142434445464748, 1, 2, 3};
	run_node((uint64_t)nonsense, 0,
		 [](void *) {
			 allocate(64);
			 STAYS();
		 },
		 nullptr);
	wrap();
}

static void threads()
{
	std::thread t[4];

	for (long i = 0; i < 4; i++)
		t[i] = std::thread([i] {
			for (int n = 0; n < 50; n++)
				outer::call(
					[](void *n) {
						inner_Tensor::call(
							[](void *n) {
								allocate(70 + (long)n);
								STAYS();
							},
							n);
					},
					(void *)i);
		});
	for (auto &x : t)
		x.join();
}

static void allocator()
{
	outer::call(
		[](void *) {
			c10::reportMemoryUsageToProfiler((void *)0x7000, 512, 512, 2 << 20, {1, 0});
			c10::reportMemoryUsageToProfiler((void *)0x7200, 1024, 1536, 2 << 20,
							 {1, 0});
		},
		nullptr);
	wrap();
	c10::reportMemoryUsageToProfiler((void *)0x7000, -512, 1024, 2 << 20, {1, 0});
	c10::reportMemoryUsageToProfiler((void *)0x9000, 256, 256, 1 << 20, {1, 1});
	if (c10::reportOutOfMemoryToProfiler)
		c10::reportOutOfMemoryToProfiler(1L << 40, 1024, 2 << 20, {1, 0});
}

/* More in each other than are kept. */
static void fall(void *n)
{
	if (n)
		outer::call(fall, (void *)((long)n - 1));
}

static void too_deep()
{
	fall((void *)100);
	wrap();
	allocate(80);
}

/* In operators. */
static void dies()
{
	outer::call(
		[](void *) {
			inner_Tensor::call(
				[](void *) {
					allocate(6);
					kill(getpid(), SIGKILL);
				},
				nullptr);
		},
		nullptr);
}

#define FLOOD_THREADS 28
#define FLOOD_ROUNDS  300

/* More than the rings hold while no reader empties them: 1 in inner, 2 in add_, 3 in outer, 4 in
 * none.
 */
static void flood()
{
	std::thread t[FLOOD_THREADS];

	for (auto &x : t)
		x = std::thread([] {
			for (int i = 0; i < FLOOD_ROUNDS; i++) {
				outer::call(
					[](void *) {
						inner_Tensor::call(
							[](void *) {
								allocate(1);
								STAYS();
							},
							nullptr);
						add__Scalar::call(
							[](void *) {
								allocate(2);
								STAYS();
							},
							nullptr);
						allocate(3);
						STAYS();
					},
					nullptr);
				wrap();
				allocate(4);
			}
		});
	for (auto &x : t)
		x.join();
}

/* What a caller of an operator may be made of: calls that lead through stubs to nowhere, to
 * themselves, into the kernel, and to the caller itself; and another thread changes all of it. */
static void absurd()
{
	unsigned char *code = (unsigned char *)mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE,
						    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	std::atomic<bool> over{false};
	volatile uint64_t words[32];
	std::thread changer([&] {
		unsigned seed = 1;

		while (!over) {
			for (unsigned at = 0; at < 1 << 16; at += 32) {
				/* call; endbr64, bnd jmp *slot(%rip) */
				static const unsigned char call[] = {
					0xe8, 3,    0,	  0,	0,    0, 0, 0, 0xf3, 0x0f,
					0x1e, 0xfa, 0xf2, 0xff, 0x25, 5, 0, 0, 0};
				uint64_t slots[] = {0, (uint64_t)code + at, UINT64_MAX - 4095,
						    (uint64_t)&outer::call, (uint64_t)words};

				seed = seed * 1103515245 + 12345;
				memcpy(code + at, call, sizeof(call));
				memcpy(code + at + 24, &slots[(seed >> 16) % 5], 8);
			}
			for (auto &w : words)
				w = (uint64_t)code +
				    (seed = seed * 1103515245 + 12345) % (1 << 16) + 5;
		}
	});

	for (int i = 0; i < 20000; i++)
		outer::call(
			[](void *) {
				inner_Tensor::call(nullptr, nullptr);
				STAYS();
			},
			nullptr);
	over = true;
	changer.join();
	munmap(code, 1 << 16);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)();
	} does[] = {{"nested", nested},	      {"siblings", siblings}, {"throws", throws},
		    {"jumps", jumps},	      {"backward", backward}, {"threads", threads},
		    {"allocator", allocator}, {"too_deep", too_deep}, {"flood", flood},
		    {"absurd", absurd},	      {"dies", dies}};

	start_driver();
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "wait")) { /* until it is seen */
			puts("ready");
			fflush(stdout);
			getchar();
		}
		for (const auto &d : does)
			if (!strcmp(argv[i], d.name))
				d.fn();
	}
	return 0;
}
