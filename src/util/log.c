/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
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

static atomic_int wait_ms = -1;
/* The reader of stderr has not read for that time. */
static atomic_bool stuck;
static atomic_uint dropped;

void log_set_wait(int ms)
{
	wait_ms = ms;
	stuck = false;
}

/* When poll() reports a pipe as writable, it takes PIPE_BUF bytes, whatever its flags. */
static bool write_part(const char *text, size_t size)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	int ret;

	do
		ret = poll(&p, 1, stuck ? 0 : wait_ms);
	while (ret < 0 && errno == EINTR);
	stuck = ret == 0;
	if (ret)
		(void)!write(STDERR_FILENO, text, size);
	return ret != 0;
}

static void report_dropped(void)
{
	char line[128];
	unsigned cnt = dropped;
	int n = snprintf(line, sizeof(line),
			 "%scudatrace: warning: %u message%s dropped: the reader of stderr was too "
			 "slow\n",
			 journal ? "<4>" : "", cnt, cnt == 1 ? " was" : "s were");

	if (cnt && write_part(line, n))
		dropped -= cnt;
}

void log_write(const char *text, size_t size)
{
	report_dropped();
	for (size_t at = 0, part; at < size; at += part) {
		part = size - at < PIPE_BUF ? size - at : PIPE_BUF;
		if (!write_part(text + at, part)) {
			dropped++;
			return;
		}
	}
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
	/* The remedy does not depend on what could not be opened. */
	if (n < (int)sizeof(line) - 2 && strstr(line, strerror(EMFILE)) && !strstr(line, "ulimit"))
		n += snprintf(line + n, sizeof(line) - n - 1,
			      "; raise the limit of open files (ulimit -n)");
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	/* Names and paths may come from targets. */
	plain_text(line, n);
	line[n++] = '\n';
	/* A single write, so that lines of two processes do not mix. */
	log_write(line, n);
}

bool log_may(struct log_limit *l, char note[64])
{
	uint64_t now = now_ns();

	note[0] = '\0';
	if (l->last_ns && now - l->last_ns < SEC_NS) {
		l->dropped++;
		return false;
	}
	if (l->dropped)
		snprintf(note, 64, "; %u such message%s dropped", l->dropped,
			 l->dropped == 1 ? " was" : "s were");
	*l = (struct log_limit){.last_ns = now};
	return true;
}
