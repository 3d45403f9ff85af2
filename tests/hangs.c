/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program that waits: hangs WHAT [PROGRAM]; on SIGUSR1 it executes the PROGRAM, which gets "60"
 *
 *   kernel   for the kernel spins, with two launches behind it
 *   block    for the kernel spins, with an address in a block as parameter
 *   alone    for the kernel spins, the only work
 *   beside   for the kernel spins of one stream, while another stream runs the kernel forever
 *   event    in a stream that waits for the kernel spins of another stream
 *   host     for a host function that waits for its own stream
 *   sleeps   for a host function that sleeps for two seconds
 *   never    for an event that was not recorded
 *   recorded for one that was, after the kernel
 *   free     in a call that frees memory, behind the kernel spins: delayed by the mock driver
 *   copy     in a copy to the host, behind the kernel spins
 */
#include <signal.h>

#include "cases/case.h"

static handle context, spins, forever, quick, stream, other;

/* The parameter of kernels. */
static dptr param;

static void launch(handle f, handle s)
{
	dptr a = param;
	uint32_t n = 0;
	void *params[] = {&a, &n};

	must("cuLaunchKernel", F(cuLaunchKernel)(f, 2, 1, 1, 32, 1, 1, 0, s, params, NULL), 0);
}

static void sync_stream(handle s)
{
	must("cuStreamSynchronize", F(cuStreamSynchronize)(s), 0);
}

/* CUDA forbids this. */
static __attribute__((noinline)) void calls_cuda(void *arg)
{
	must("cuCtxSetCurrent", F(cuCtxSetCurrent)(context), 0);
	sync_stream(arg);
	__asm__ volatile("");
}

static void sleeps(void *arg)
{
	(void)arg;
	case_sleep_ms(2000);
}

static void run(const char *what)
{
	handle e = NULL;
	dptr p = case_alloc(4096);
	static char buf[4096];

	if (!strcmp(what, "block"))
		param = p + 64;
	must("cuEventCreate", F(cuEventCreate)(&e, 0), 0);
	launch(quick, stream);
	must("cuCtxSynchronize", F(cuCtxSynchronize)(), 0);
	if (!strcmp(what, "host"))
		F(cuLaunchHostFunc)(stream, calls_cuda, stream);
	else if (!strcmp(what, "sleeps"))
		F(cuLaunchHostFunc)(stream, sleeps, NULL);
	else if (!strcmp(what, "beside"))
		launch(forever, other);
	else if (!strcmp(what, "never"))
		F(cuEventSynchronize)(e);
	if (!strcmp(what, "event")) {
		launch(spins, other);
		F(cuEventRecord)(e, other);
		F(cuStreamWaitEvent)(stream, e, 0);
		launch(quick, stream);
	} else if (strcmp(what, "host") != 0 && strcmp(what, "sleeps") != 0) {
		launch(spins, stream);
	}
	if (!strcmp(what, "kernel")) {
		launch(quick, stream);
		launch(quick, stream);
	}
	if (!strcmp(what, "recorded")) {
		F(cuEventRecord)(e, stream);
		F(cuEventSynchronize)(e);
	}
	if (!strcmp(what, "free"))
		case_free(p);
	else if (!strcmp(what, "copy"))
		must("cuMemcpyDtoH", F(cuMemcpyDtoH_v2)(buf, p, sizeof(buf)), 0);
	else
		sync_stream(stream);
}

static char *program;

static void executes(int sig)
{
	(void)sig;
	execl(program, program, "60", NULL);
}

int main(int argc, char **argv)
{
	static const char ptx[] = PTX_HEAD PTX_KERNEL("_Z5spinsPVi") PTX_KERNEL("_Z7foreverPVi")
		PTX_KERNEL("_Z5quickPi");
	handle m;

	program = argc > 2 ? argv[2] : NULL;
	if (program)
		signal(SIGUSR1, executes);
	case_quiet = true;
	case_open();
	context = case_context();
	m = case_module(ptx);
	spins = case_function(m, "_Z5spinsPVi", "spins(int volatile*)");
	forever = case_function(m, "_Z7foreverPVi", "forever(int volatile*)");
	quick = case_function(m, "_Z5quickPi", "quick(int*)");
	/* Blocking streams: a copy by the default stream waits for them. */
	stream = case_stream(argc > 1 && !strcmp(argv[1], "copy") ? 0 : 1);
	other = case_stream(1);
	run(argc > 1 ? argv[1] : "");
	return 0;
}
