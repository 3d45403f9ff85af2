/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The kernel's longest record, CONSOLE_EXT_LOG_MAX. */
#define RECORD_SZ 8192

int kmsg__open(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	lseek(fd, 0, SEEK_END);
	return fd;
}

/* The number behind "): " as the driver writes it: digits that fit. NULL: something else. */
static const char *parse_number(const char *p, uint32_t *number)
{
	unsigned long v;
	char *end;

	if (strncmp(p, "): ", 3) || p[3] < '0' || p[3] > '9')
		return NULL;
	errno = 0;
	v = strtoul(p + 3, &end, 10);
	if (errno || v > UINT32_MAX)
		return NULL;
	*number = v;
	return end;
}

/* Anybody who may write to the log can write what looks like an Xid, and the rest of it. */
bool kmsg_parse_xid(const char *record, struct kmsg_xid *x)
{
	const char *text = strchr(record, ';'), *p, *end, *line_end;
	uint64_t us;

	memset(x, 0, sizeof(*x));
	if (!text || sscanf(record, "%*u,%*u,%" SCNu64, &us) != 1)
		return false;
	/* Further lines of a record are what device it is about, not its text. */
	line_end = text + strcspn(text, "\n");
	p = strstr(text, "NVRM: Xid (");
	if (!p || p > line_end)
		return false;
	p += strlen("NVRM: Xid (");
	end = p + strcspn(p, ")\n");
	snprintf(x->gpu, sizeof(x->gpu), "%.*s", (int)(end - p), p);
	end = parse_number(end, &x->number);
	if (!end)
		return false;
	x->ts_ns = us * 1000;
	end += strspn(end, ", ");
	snprintf(x->message, sizeof(x->message), "%.*s", (int)(line_end - end), end);
	return true;
}

/* The log's clock is not adjusted as ours is, and goes seconds wrong in weeks: an Xid is given the
 * time at which it is read, which is right after it was written. */
static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

void kmsg__read(int fd, bool messages, void (*fn)(void *ctx, const struct event *ev), void *ctx)
{
	char record[RECORD_SZ];
	struct kmsg_xid x;
	ssize_t n;

	/* EPIPE: records were overwritten before we read them; the next read goes on behind them.
	 */
	while ((n = read(fd, record, sizeof(record) - 1)) > 0 || (n < 0 && errno == EPIPE)) {
		struct event ev = {
			.kind = EVENT_XID,
			.type = TYPE_XID,
			.op = "xid",
			.name = "xid",
			.comm = "",
			.is_error = true,
		};

		if (n < 0)
			continue;
		record[n] = 0;
		if (!kmsg_parse_xid(record, &x))
			continue;
		ev.start_ns = ev.end_ns = now_ns();
		ev.xid.xid = x.number;
		ev.xid.gpu = x.gpu;
		ev.xid.message = messages ? x.message : NULL;
		fn(ctx, &ev);
	}
}
