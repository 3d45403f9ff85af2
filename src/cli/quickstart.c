/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 *	You     user 1000, not root: can only trace programs that you start, in-process
 *	Kernel  6.12.95, x86_64: has uprobes, which need root
 *	GPU     NVIDIA driver 580.159.04 (open kernel modules): nvidia0 nvidiactl nvidia-uvm
 *	Start   cudatrace -- COMMAND; with sudo also -p PID (a running program) and -a (all)
 *	More    cudatrace check: what is missing, and how to get it; cudatrace --help
 */
#include "quickstart.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach/allow/caps.h"
#include "verbs.h"

#define say(...) fprintf(stderr, __VA_ARGS__)

/* The first obstacle to uprobes; NULL: none. */
static const struct cap *first_missing(bool privileges)
{
	for (int id = 0; id < CAP_CNT; id++) {
		const struct cap *c = caps__get(id);
		bool is_privilege = id == CAP_PRIV_BPF || id == CAP_PRIV_PERFMON;

		/* If it could not be tried, another row has the reason. */
		if (c->need == CAP_NEEDED && c->state == CAP_NO && is_privilege == privileges)
			return c;
	}
	return NULL;
}

static void print_user(const char *missing)
{
	say("You     ");
	if (!missing)
		say("%s: can trace any program\n",
		    geteuid() ? "a user with the privileges of this file or shell" : "root");
	else if (caps__in_user_namespace())
		say("root of a user namespace or less: can only trace programs that you start\n");
	else if (first_missing(true))
		say("user %u, not root: can only trace programs that you start, in-process\n",
		    geteuid());
	else
		say("user %u: this kernel also requires CAP_SYS_ADMIN\n", geteuid());
}

static void print_kernel(const char *missing, const struct cap *lacks)
{
	say("Kernel  %s: ", caps__get(CAP_KERNEL)->detail);
	if (lacks)
		say("no uprobes: %s: %s\n", lacks->what,
		    lacks->detail[0] ? lacks->detail : "missing");
	else if (missing)
		say("has uprobes, which need root\n");
	else
		say("calls are traced by %s\n", mechanism_name(caps__best_mechanism()));
}

static void print_gpu(void)
{
	const struct cap *driver = caps__get(CAP_NV_DRIVER), *devices = caps__get(CAP_NV_DEVICES);

	if (devices->state != CAP_YES && driver->state != CAP_YES)
		say("GPU     none: the NVIDIA driver is not loaded\n");
	else if (devices->state != CAP_YES)
		say("GPU     NVIDIA driver %s, but no device in /dev: %s\n", driver->detail,
		    devices->fix);
	else if (driver->state != CAP_YES)
		say("GPU     /dev/%s exists, but the driver version cannot be read\n",
		    devices->detail);
	else
		say("GPU     NVIDIA driver %s: %s\n", driver->detail, devices->detail);
}

static void print_start(void)
{
	if (caps__get(CAP_NV_DEVICES)->state == CAP_YES)
		say("Start   cudatrace -- COMMAND; with sudo also -p PID (a running program) and -a "
		    "(all)\n");
	else
		say("Start   make demo, in the source tree: a sample program on a mock driver\n");
}

int quickstart__print(void)
{
	const char *missing = caps__missing_privilege();
	const struct cap *lacks = first_missing(false);

	say("Usage:\n");
	for (enum verb v = 0; v < VERB_CNT; v++)
		verb__print_first(stderr, v);
	say("\n");
	print_user(missing);
	print_kernel(missing, lacks);
	print_gpu();
	print_start();
	say("More    cudatrace check: what is missing, and how to get it; cudatrace --help\n");
	return EXIT_FAILURE;
}
