/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "privs.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned depth; /* nesting depth of privs_lower() */
static uint32_t lowered[2];

/* The kernel sets AT_SECURE for programs that get more than their user has. Root has everything
 * anyway. */
static bool are_ambient(void)
{
	return getauxval(AT_SECURE) && geteuid();
}

static bool get(struct __user_cap_data_struct caps[2])
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	return !syscall(SYS_capget, &head, caps);
}

/* Dropping capabilities cannot fail. If it does, end the process. */
static void set(const struct __user_cap_data_struct caps[2])
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	if (syscall(SYS_capset, &head, caps))
		_exit(1);
}

void privs_drop(void)
{
	const struct __user_cap_data_struct none[2] = {{0}};

	if (!are_ambient())
		return;
	/* Fails without CAP_SETPCAP: then no program gets more from us than its user has anyway. */
	for (int cap = 0; cap < 64; cap++)
		prctl(PR_CAPBSET_DROP, cap);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	set(none);
}

void privs_drop_thread(void)
{
	const struct __user_cap_data_struct none[2] = {{0}};

	set(none);
}

void privs_lower(void)
{
	struct __user_cap_data_struct caps[2];
	int keep = errno;

	if (depth++ || !are_ambient())
		return;
	if (!get(caps))
		_exit(1);
	for (int i = 0; i < 2; i++) {
		lowered[i] = caps[i].effective;
		caps[i].effective = 0;
	}
	set(caps);
	errno = keep;
}

void privs_raise(void)
{
	struct __user_cap_data_struct caps[2];
	int keep = errno;

	if (--depth || !are_ambient())
		return;
	if (!get(caps))
		_exit(1);
	/* Capabilities dropped for good meanwhile are not raised again. */
	for (int i = 0; i < 2; i++)
		caps[i].effective = lowered[i] & caps[i].permitted;
	set(caps);
	errno = keep;
}
