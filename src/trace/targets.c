/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "targets.h"

#include "attach/allow/caps.h"
#include "attach/find/target.h"
#include "util/log.h"
#include "util/task.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool is_missing(pid_t pid)
{
	return !target_exists(pid);
}

static bool is_ourselves(pid_t pid)
{
	return pid == getpid();
}

static bool is_32bit(pid_t pid)
{
	return target_is_64bit(pid) == 0;
}

/* Checked in this order. */
static const struct refusal {
	bool (*applies)(pid_t pid);
	int ret;
	const char *text; /* %d: the process id */
} refusals[] = {
	{is_missing, -ESRCH,
	 "there is no process %d: it has ended, or has another number outside its container: see "
	 "ps -e"},
	{is_ourselves, -EINVAL, "process %d is this cudatrace: name the process that calls CUDA"},
	{task_is_kernel, -EINVAL,
	 "process %d is a kernel thread, which makes no CUDA calls: give the PID of "
	 "the program (pgrep NAME)"},
	{target_has_ended, -ESRCH,
	 "process %d has ended and waits for its parent (a zombie): it cannot be traced"},
	{is_32bit, -EINVAL,
	 "process %d is a 32-bit program: only NVIDIA's 64-bit driver API can be traced"},
};

static int check_one(pid_t pid)
{
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (!refusals[i].applies(pid))
			continue;
		err(refusals[i].text, pid);
		return refusals[i].ret;
	}
	return 0;
}

static bool is_named(const pid_t *pids, unsigned cnt, pid_t pid)
{
	for (unsigned i = 0; i < cnt; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

int targets__check(pid_t *pids, unsigned *cnt)
{
	unsigned all = *cnt;

	*cnt = 0;
	for (unsigned i = 0; i < all; i++) {
		pid_t pid = task_process(pids[i]);
		int ret;

		if (pid != pids[i])
			info("%d is a thread of process %d: tracing the whole process", pids[i],
			     pid);
		ret = check_one(pid);
		if (ret)
			return ret;
		if (!is_named(pids, *cnt, pid))
			pids[(*cnt)++] = pid;
	}
	return 0;
}

void targets__report_refused(pid_t pid, int ret)
{
	if (ret == -EACCES || ret == -EPERM)
		err("cannot inspect process %d: %s", pid, caps__why_refused());
	else
		err("cannot inspect process %d: %s: try again, or start it as a command: "
		    "cudatrace -- COMMAND",
		    pid, strerror(-ret));
}
