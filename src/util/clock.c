/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "clock.h"

#include "reader.h"

#include <stdio.h>
#include <unistd.h>

/* Readings at most this far apart are accurate enough. */
#define CLOSE_NS 20000

/* include/linux/proc_ns.h: inode of the initial time namespace on every machine */
#define PROC_TIME_INIT_INO 0xEFFFFFFAU

static int64_t own_offset_ns;

/* Returns 0 if unknown, as before Linux 5.6, which added time namespaces. */
static ino_t time_namespace(pid_t pid, const char *name)
{
	char path[32], text[64];
	unsigned long ino;

	snprintf(path, sizeof(path), "ns/%s", name);
	reader__link(pid, path, text, sizeof(text));
	/* namespaces(7): "time:[4026531834]" */
	return sscanf(text, "%*[^[][%lu]", &ino) == 1 ? ino : 0;
}

/* Lines are "monotonic SECONDS NANOSECONDS" (time_namespaces(7)); seconds may be negative. */
static bool read_offset(pid_t pid, int64_t *ns)
{
	long long sec, nsec;
	int fd = reader__copy(pid, "timens_offsets", 4096);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char line[128];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "monotonic %lld %lld", &sec, &nsec) == 2;
	if (f)
		fclose(f);
	if (found)
		*ns = sec * (int64_t)SEC_NS + nsec;
	return found;
}

/* The file is about the namespace for children: before Linux 6.3 a process that has created one
 * stays in the old one when it executes another program. */
bool clock_offset_of(pid_t pid, int64_t *ns)
{
	ino_t in = time_namespace(pid, "time"), children = time_namespace(pid, "time_for_children");

	*ns = 0;
	if (in == PROC_TIME_INIT_INO)
		return true;
	if (in == children)
		return read_offset(pid, ns) || !in;
	if (in != time_namespace(getpid(), "time"))
		return false;
	*ns = own_offset_ns;
	return true;
}

bool clock__open(void)
{
	return clock_offset_of(getpid(), &own_offset_ns);
}

int64_t clock_own_offset(void)
{
	return own_offset_ns;
}

uint64_t machine_ns(clockid_t clock)
{
	return clock_ns(clock) - own_offset_ns;
}

uint64_t now_ns(void)
{
	return machine_ns(CLOCK_MONOTONIC);
}

/* Two clocks cannot be read at the same moment: keep the closest of several readings. */
int64_t epoch_ns(void)
{
	uint64_t before, wall, after;

	for (int i = 0; i < 8; i++) {
		before = now_ns();
		wall = clock_ns(CLOCK_REALTIME);
		after = now_ns();
		if (after - before < CLOSE_NS)
			break;
	}
	return (int64_t)(wall - (before + (after - before) / 2));
}
