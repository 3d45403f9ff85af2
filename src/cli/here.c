/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 *	You     user 1000, without CAP_BPF and CAP_PERFMON: programs are traced from inside
 *	Kernel  6.12.95, x86_64: has uprobes, which need root
 *	GPU     NVIDIA driver 580.159.04 (open kernel modules): nvidia0 nvidiactl nvidia-uvm
 *	Start   cudatrace -- COMMAND (sudo cudatrace -p PID: one that runs)
 *	More    cudatrace check: what is missing, and how to get it; cudatrace --help
 */
#include "here.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach/allow/caps.h"

/* What is in the way of uprobes, first of all; NULL: nothing. */
static const struct cap *first_missing(bool privileges)
{
	for (int id = 0; id < CAP_CNT; id++) {
		const struct cap *c = caps__get(id);
		bool is_privilege = id == CAP_PRIV_BPF || id == CAP_PRIV_PERFMON;

		/* What could not be tried has its reason in another row. */
		if (c->need == CAP_NEEDED && c->state == CAP_NO && is_privilege == privileges)
			return c;
	}
	return NULL;
}

static void print_user(const char *missing)
{
	if (!missing)
		printf("You     %s, which is enough to trace any program\n",
		       geteuid() ? "a user with the privileges of this file or shell" : "root");
	else if (caps__in_user_namespace())
		printf("You     root of a user namespace or less: only programs that you start are "
		       "traced\n");
	else if (first_missing(true))
		printf("You     user %u, not root: programs that you start are traced, from "
		       "inside\n",
		       geteuid());
	else
		printf("You     user %u: this kernel asks for CAP_SYS_ADMIN, too\n", geteuid());
}

static void print_kernel(const char *missing, const struct cap *lacks)
{
	printf("Kernel  %s: ", caps__get(CAP_KERNEL)->detail);
	if (lacks)
		printf("no uprobes: %s: %s\n", lacks->what,
		       lacks->detail[0] ? lacks->detail : "missing");
	else if (missing)
		printf("has uprobes, which need root\n");
	else
		printf("calls are seen by %s\n", mechanism_name(caps__best_mechanism()));
}

static void print_gpu(void)
{
	const struct cap *driver = caps__get(CAP_NV_DRIVER), *devices = caps__get(CAP_NV_DEVICES);

	if (devices->state != CAP_YES && driver->state != CAP_YES)
		printf("GPU     none: the NVIDIA driver is not loaded\n");
	else if (devices->state != CAP_YES)
		printf("GPU     NVIDIA driver %s, but no device in /dev: %s\n", driver->detail,
		       devices->fix);
	else if (driver->state != CAP_YES)
		printf("GPU     %s, of a driver whose version cannot be read here\n",
		       devices->detail);
	else
		printf("GPU     NVIDIA driver %s: %s\n", driver->detail, devices->detail);
}

static bool has_gpu(void)
{
	return caps__get(CAP_NV_DEVICES)->state == CAP_YES;
}

static void print_start(void)
{
	if (has_gpu())
		printf("Start   cudatrace -- COMMAND (with sudo also -p PID, for one that runs)\n");
	else
		printf("Start   make demo, in the source tree: a sample program on a stand-in for "
		       "the driver\n");
}

bool here__can_trace(void)
{
	return has_gpu() && !caps__missing_privilege() && !first_missing(false);
}

int here__print(void)
{
	const char *missing = caps__missing_privilege();
	const struct cap *lacks = first_missing(false);

	print_user(missing);
	print_kernel(missing, lacks);
	print_gpu();
	print_start();
	printf("More    cudatrace check: what is missing, and how to get it; cudatrace --help\n");
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
