/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs that filter their own system calls (seccomp): a filter may kill the program at any
 * unexpected one. The library detects a new filter in prctl() and syscall() (thunk.S). The tracer
 * checks each second for filters installed in other ways (ct_shm.quiet). At the program's start and
 * before connecting, the library checks for a filter that was not there when the command was
 * started.
 */
#include "inject.h"

#include "ct_late.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>

uint32_t inject_sandboxed;
/* Since its start; not reported yet. */
static bool is_foreign;
/* A thread of the program has disabled the time stamp counter. */
static bool clock_off;

/* Reads the value after "NAME:\t" at the start of a line. */
static const char *line_of(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (; *text; text++) {
		if (!strncmp(text, name, len))
			return text + len;
		while (*text && *text != '\n')
			text++;
		if (!*text)
			break;
	}
	return NULL;
}

static unsigned number(const char *s)
{
	unsigned n = 0;

	while (s && (*s == '\t' || *s == ' '))
		s++;
	for (; s && *s >= '0' && *s <= '9'; s++)
		n = n * 10 + (*s - '0');
	return n;
}

static char status[4096]; /* one thread at a time, and a stack may have no space for it */

/* The dynamic loader makes the same calls. */
static bool read_status(void)
{
	int fd = sys(SYS_openat, AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
	long n;

	if (fd < 0)
		return false;
	n = sys(SYS_read, fd, status, sizeof(status) - 1);
	sys(SYS_close, fd);
	status[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* Number of this thread's filters; before Linux 5.9, whether there is one. */
static unsigned filters(void)
{
	const char *at;

	if (!read_status())
		return 0;
	at = line_of(status, "Seccomp_filters:");
	return at ? number(at) : number(line_of(status, "Seccomp:")) == 2;
}

bool sandbox_is_filtered(void)
{
	return filters() > 0;
}

void sandbox_keep(void)
{
	char cnt[16];

	put_number(cnt, filters(), 10);
	env_set(CT_ENV_FILTERS, cnt);
}

void sandbox_at_start(char comm[16])
{
	const char *before = env_get(CT_ENV_FILTERS), *name;
	unsigned cnt = filters();

	name = line_of(status, "Name:\t");
	for (unsigned i = 0; name && i < 15 && name[i] != '\n'; i++)
		comm[i] = name[i];
	/* Before it loads the library into a running program, the tracer checks the filters. */
	if (name && (!strcmp(comm, LATE_THREAD_NAME) || cnt <= (before ? number(before) : 0)))
		return;
	/* Without /proc there may be a filter. */
	is_foreign = (name && before) || !trial_passes();
	inject_sandboxed = is_foreign;
	if (!name && !is_foreign)
		sys(SYS_prctl, PR_GET_NAME, comm);
}

void sandbox_report(void)
{
	if (__atomic_exchange_n(&is_foreign, false, __ATOMIC_RELAXED))
		log_warn(
			"not traced in the process, which has a seccomp filter of its own; as root, "
			"--probe=uprobe traces it",
			0);
}

bool sandbox_has_come(void)
{
	const char *before = env_get(CT_ENV_FILTERS);

	if (!inject_sandboxed && before && filters() > number(before)) {
		inject_sandboxed = 1;
		is_foreign = true;
		sandbox_report();
	}
	return inject_sandboxed;
}

bool clock_is_off(void)
{
	int allowed = PR_TSC_ENABLE;

	/* Only x86 has this request; others return -EINVAL. */
	return clock_off || (!sys(SYS_prctl, PR_GET_TSC, &allowed) && allowed != PR_TSC_ENABLE);
}

/* thunk.S calls this before prctl() or seccomp() disables the time stamp counter: seccomp's strict
 * mode and PR_SET_TSC do so on x86 (Linux, disable_TSC()). Without time, no call can be recorded. A
 * process that is not connected yet does not connect any more. */
cold void inject_clock_off(void)
{
	clock_off = true;
	if (!inject_process->alive)
		return;
	log_warn("no longer traced in the process, which disables the time stamp counter; as root, "
		 "--probe=uprobe traces it",
		 0);
	/* From then on, probes record its calls to functions that have probes. */
	if (!inject_process->set->probed)
		process_lose(CT_SHM_LOST_CLOCK, 0);
	process_end();
}
