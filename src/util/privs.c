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

static unsigned depth; /* of privs_lower() */
static uint32_t lowered[2];

/* The kernel says so to each program that it gives more than its user has. Root has all anyway. */
static bool are_ambient(void)
{
	return getauxval(AT_SECURE) && geteuid();
}

static bool get(struct __user_cap_data_struct caps[2])
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	return !syscall(SYS_capget, &head, caps);
}

/* Cannot fail for fewer capabilities than there are. If it does: better not to go on. */
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
	/* Fails without CAP_SETPCAP: then no program can get more by us than by its user anyway. */
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
	/* What was given up for good meanwhile does not come back. */
	for (int i = 0; i < 2; i++)
		caps[i].effective = lowered[i] & caps[i].permitted;
	set(caps);
	errno = keep;
}
