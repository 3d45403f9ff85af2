/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "await.h"

#include "clock.h"
#include "task.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* Interval between checks of the process. */
#define LOOK_MS 20
#define LOOK_NS (LOOK_MS * UINT64_C(1000000))

/* Returns whether the process could run, or is stopped. A throttled process could run. */
static bool has_no_wait(pid_t pid)
{
	char buf[4096], *at;

	if (!task_read(pid, pid, "status", buf, sizeof(buf)))
		return false;
	at = strstr(buf, "\nState:\t");
	return at && strchr("RT", at[8]);
}

/* Returns the processor time (proc(5): schedstat; UINT64_MAX: the kernel has no such file). */
static uint64_t cpu_of(pid_t pid)
{
	char buf[128];
	uint64_t ns;

	if (!task_read(pid, pid, "schedstat", buf, sizeof(buf)) ||
	    sscanf(buf, "%" SCNu64, &ns) != 1)
		return UINT64_MAX;
	return ns;
}

/* The part of step_ns that counts; cpu: used before and, on return, by now. */
static uint64_t counted(pid_t pid, uint64_t step_ns, uint64_t *cpu)
{
	uint64_t before = *cpu, ns;

	if (before == UINT64_MAX)
		return step_ns;
	*cpu = cpu_of(pid);
	ns = *cpu - before;
	return *cpu != UINT64_MAX && ns < step_ns && has_no_wait(pid) ? ns : step_ns;
}

bool await_answer(int fd, pid_t pid, unsigned ms, uint64_t *starved_ns)
{
	uint64_t start = now_ns(), last = start, used = 0, cpu = pid ? cpu_of(pid) : UINT64_MAX;
	const uint64_t max = ms * UINT64_C(1000000);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = 0;

	while (n <= 0 && used < max && last - start < AWAIT_MAX_MS * UINT64_C(1000000)) {
		uint64_t now, step;

		n = poll(&p, 1, ms < LOOK_MS ? (int)ms : LOOK_MS);
		if (n > 0 || (n < 0 && errno != EINTR))
			break;
		now = now_ns();
		step = now - last;
		last = now;
		/* This process may have waited for a processor, too. */
		used += counted(pid, step < LOOK_NS ? step : LOOK_NS, &cpu);
	}
	*starved_ns = last - start - used;
	return n > 0;
}
