/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * marked LIBCUDA [DEVICES]: calls and system calls with marks (marks.h) in all that they take and
 * give. DEVICES: where tests/nvfuse/server.c serves; $MARKED_LIBRARY is library.c, for no command
 * line is redacted. Says "waiting" and waits for a line; then, from within the last call, which
 * does not return, libcuda says "stuck". SIGUSR1 ends it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../nvfuse/proto.h"
#include "marks.h"

typedef int (*fn_t)();

static void *lib;
static jmp_buf before;

#define CALL(name, ...) ((fn_t)dlsym(lib, #name))(__VA_ARGS__)

static void leave(void *data)
{
	longjmp(before, 1);
}

static void calls(void)
{
	uint64_t out, copy[16] = {0}, options[2] = {OPTION_VALUE, OPTION_VALUE};
	int keys[2] = {0, 0}, status; /* CU_JIT_MAX_REGISTERS */
	uint32_t config[16] = {CONFIG_GRID, 1, 1, 1, 1, 1, 0};
	char name[64];
	const char *text;
	void *fn, *parameters[] = {(void *)PARAMETER};

	CALL(cuInit, 0);
	CALL(cuDeviceGetName, name, 64, 0);
	CALL(cuGetErrorName, 2, &text);
	CALL(cuCtxCreate_v2, &out, 0, 0);
	CALL(cuMemAlloc_v2, &out, (size_t)ALLOC_SIZE);
	CALL(cuMemAlloc_v2, &out, (size_t)BIG_SIZE);
	CALL(cuModuleLoad, &out, MODULE_PATH);
	CALL(cuModuleLoadDataEx, &out, "image", 2, keys, options);
	CALL(cuModuleGetFunction, &out, (uint64_t)MODULE, KERNEL_NAME);
	CALL(cuGetProcAddress_v2, PROC_NAME, &fn, 13000, (uint64_t)0, &status);
	CALL(cuStreamCreate, &out, 0);
	for (int i = 0; i < 20; i++) {
		CALL(cuMemcpyHtoD_v2, (uint64_t)DEVICE_PTR, HOST_PTR, (size_t)COPY_SIZE);
		CALL(cuLaunchKernel, (uint64_t)FUNCTION, (unsigned)GRID, 1, 1, 32, 1, 1, 0,
		     (uint64_t)STREAM, parameters, NULL);
		CALL(cuStreamSynchronize, (uint64_t)STREAM);
		CALL(cuMemcpyDtoH_v2, HOST_PTR, (uint64_t)DEVICE_PTR, (size_t)COPY_SIZE);
	}
	*(uint64_t *)(config + 8) = STREAM;
	CALL(cuLaunchKernelEx, config, (uint64_t)FUNCTION, parameters, NULL);
	CALL(cuMemcpyHtoD_v2, (uint64_t)DEVICE_PTR, COPIED, strlen(COPIED));
	copy[0] = STRUCT_MEMBER; /* srcXInBytes */
	CALL(cuMemcpy2D_v2, copy);
	if (!setjmp(before))
		CALL(cuLaunchHostFunc, (uint64_t)STREAM, leave, (void *)JUMP_DATA);
}

/* A call from a library with a marked path and function, and one from code that only a perf map
 * knows. */
static void stacks(const char *path)
{
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
	void *library = dlopen(path, RTLD_NOW);
	fn_t sync = (fn_t)dlsym(lib, "cuStreamSynchronize");
	char name[64];
	FILE *f;
	void *p;

	if (library)
		((fn_t)dlsym(library, SYMBOL_NAME))(sync);
#ifdef __x86_64__
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		 0);
	memcpy(p, code, sizeof(code)); /* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
	snprintf(name, sizeof(name), "/tmp/perf-%d.map", getpid());
	unlink(name);
	umask(022);
	f = fopen(name, "w");
	fprintf(f, "%lx 100 %s\n", (unsigned long)p, PERF_NAME);
	fclose(f);
	((fn_t)p)(sync);
#endif
}

static void system_calls(const char *folder)
{
	struct rlimit files;
	struct rm_control c = {.client = RM_CLIENT,
			       .object = RM_OBJECT,
			       .cmd = 0x102,
			       .params_size = RM_PARAMS_SIZE};
	struct rm_xfer x = {.nr = ESC_RM_CONTROL, .size = sizeof(c), .ptr = (uintptr_t)&c};
	struct uvm_free u = {.base = UVM_BASE};
	static struct uvm_map_ext map = {.base = UVM_BASE, .length = UVM_LENGTH};
	struct rm_version v = {0};
	char path[256];
	int fd, uvm;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	snprintf(path, sizeof(path), "%s/nvidiactl", folder);
	fd = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/nvidia-uvm", folder);
	uvm = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || uvm < 0) {
		perror(path);
		exit(1);
	}
	fd = dup3(fd, DESCRIPTOR, O_CLOEXEC);
	if (fd < 0)
		perror("dup3");
	ioctl(fd, RM(ESC_CHECK_VERSION_STR, sizeof(v)), &v);
	ioctl(fd, RM(ESC_RM_CONTROL, sizeof(c)), &c);
	ioctl(fd, RM(ESC_XFER, sizeof(x)), &x);
	ioctl(uvm, UVM_FREE, &u);
	ioctl(uvm, UVM_MAP_EXT, &map);
	mmap(NULL, MAP_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	close(uvm);
}

static void end(int sig)
{
	_exit(0);
}

int main(int argc, char **argv)
{
	lib = dlopen(argv[1], RTLD_NOW);
	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	signal(SIGUSR1, end);
	printf("waiting\n");
	fflush(stdout);
	(void)!getchar();
	calls();
	stacks(getenv("MARKED_LIBRARY"));
	if (argc > 2)
		system_calls(argv[2]);
	CALL(cuMemcpyHtoD_v2, (uint64_t)STUCK_PTR, STUCK_HOST, (size_t)STUCK_SIZE);
	return 0;
}
