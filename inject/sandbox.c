/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs that put a filter on their own system calls (seccomp): it may end the program at any
 * that it does not expect. The library sees it come in prctl() and syscall() (thunk.S); the tracer
 * looks each second for one that came in another way (ct_shm.quiet); and before the library
 * connects, it looks itself whether there is one that was not there when the command was started.
 */
#include "inject.h"

#include <fcntl.h>
#include <string.h>

uint32_t inject_sandboxed;

/* Behind "NAME:\t" at the beginning of a line. */
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

/* Filters of this thread; before Linux 5.9: whether there is one. */
static unsigned filters(void)
{
	int fd = sys(SYS_openat, AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
	char text[4096];
	const char *at;
	long n;

	if (fd < 0)
		return 0;
	n = sys(SYS_read, fd, text, sizeof(text) - 1);
	sys(SYS_close, fd);
	text[n > 0 ? n : 0] = 0;
	at = line_of(text, "Seccomp_filters:");
	return at ? number(at) : number(line_of(text, "Seccomp:")) == 2;
}

void sandbox_keep(void)
{
	char cnt[16];

	put_number(cnt, filters(), 10);
	env_set(CT_ENV_FILTERS, cnt);
}

bool sandbox_has_come(void)
{
	const char *before = env_get(CT_ENV_FILTERS);

	if (!inject_sandboxed && before && filters() > number(before)) {
		inject_sandboxed = 1;
		tell("not traced in the process, which has a seccomp filter of its own; as root, "
		     "--probe=uprobe traces it",
		     0);
	}
	return inject_sandboxed;
}

/* thunk.S calls this before prctl() or seccomp() disables the time stamp counter: seccomp's strict
 * mode and PR_SET_TSC do, on x86 (Linux, disable_TSC()). No call can be recorded without a time. */
cold void inject_clock_off(void)
{
	if (!inject_process || !inject_process->alive)
		return;
	tell("no longer traced in the process, which disables the time stamp counter; as root, "
	     "--probe=uprobe traces it",
	     0);
	process_end();
}
