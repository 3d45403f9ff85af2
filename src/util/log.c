/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plain.h"

static enum log_level level = LOG_INFO;

static bool journal;

void log_set_journal(bool on)
{
	journal = on;
}

void log_set_level(enum log_level l)
{
	level = l;
}

enum log_level log_level(void)
{
	return level;
}

void log_msg(enum log_level l, const char *fmt, ...)
{
	static const char *const tags[] = {"", "warning: ", "", "debug: "};
	static const char *const priorities[] = {"<3>", "<4>", "<6>", "<7>"};
	char line[2048];
	va_list ap;
	int n, m;

	if (l > level)
		return;
	n = snprintf(line, sizeof(line), "%scudatrace: %s", journal ? priorities[l] : "", tags[l]);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	va_end(ap);
	n += m < 0 ? 0 : m;
	/* The remedy is the same for whatever could not be opened. */
	if (n < (int)sizeof(line) - 2 && strstr(line, strerror(EMFILE)) && !strstr(line, "ulimit"))
		n += snprintf(line + n, sizeof(line) - n - 1,
			      "; raise the limit of open files (ulimit -n)");
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	/* Names and paths may come from targets. */
	plain_text(line, n);
	line[n++] = '\n';
	/* A single write, so that lines of two processes do not mix. */
	(void)!write(STDERR_FILENO, line, n);
}
