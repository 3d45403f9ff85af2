/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
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

bool kmsg_parse_xid(const char *record, struct kmsg_xid *x)
{
	const char *text = strchr(record, ';'), *p, *end;
	uint64_t us;
	int len;

	memset(x, 0, sizeof(*x));
	if (!text || sscanf(record, "%*u,%*u,%" SCNu64, &us) != 1)
		return false;
	p = strstr(text, "NVRM: Xid (");
	if (!p)
		return false;
	p += strlen("NVRM: Xid (");
	end = strchr(p, ')');
	if (!end || sscanf(end, "): %" SCNu32 "%n", &x->number, &len) != 1)
		return false;
	x->ts_ns = us * 1000;
	snprintf(x->gpu, sizeof(x->gpu), "%.*s", (int)(end - p), p);
	end += len;
	end += strspn(end, ", ");
	snprintf(x->message, sizeof(x->message), "%.*s", (int)strcspn(end, "\n"), end);
	return true;
}

void kmsg__read(int fd, void (*fn)(void *ctx, const struct event *ev), void *ctx)
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
		ev.start_ns = ev.end_ns = x.ts_ns;
		ev.number = x.number;
		ev.path = x.gpu;
		ev.note = x.message;
		fn(ctx, &ev);
	}
}
