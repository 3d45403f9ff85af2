/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "kmsg.h"

#include "tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel's longest record, CONSOLE_EXT_LOG_MAX. */
#define RECORD_SZ 8192

/* The number after "): " as the driver writes it, with digits that fit. NULL: anything else. */
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

/* Skips min to max hexadecimal digits. NULL: fewer, or p is NULL. */
static const char *skip_hex(const char *p, size_t min, size_t max)
{
	size_t n = p ? strspn(p, "0123456789abcdefABCDEF") : 0;

	return p && n >= min && n <= max ? p + n : NULL;
}

static const char *skip(const char *p, const char *text)
{
	return p && !strncmp(p, text, strlen(text)) ? p + strlen(text) : NULL;
}

/* Returns the end of a GPU's address as the driver writes it: domain, bus, device, and "GPU-I:"
 * with the instance under MIG. NULL: it is none. */
static const char *skip_address(const char *p)
{
	p = skip_hex(skip(p, "PCI:") ?: p, 4, 8);
	p = skip_hex(skip(p, ":"), 2, 2);
	p = skip_hex(skip(p, ":"), 2, 2);
	return skip_hex(skip(p, " GPU-I:"), 2, 2) ?: p;
}

/*
 * The text must begin as the driver's does. Users choose parts of other lines: their program's file
 * name comes late in a line about its segmentation fault, and its name of 15 bytes first, which is
 * too short for an address. Root can write such a line.
 */
bool kmsg_parse_xid(const char *record, struct ct_xid *x)
{
	const char *text = strchr(record, ';'), *p, *end, *line_end;
	uint64_t us;

	memset(x, 0, sizeof(*x));
	if (!text || sscanf(record, "%*u,%*u,%" SCNu64, &us) != 1)
		return false;
	/* Further lines of a record name its device. */
	line_end = text + strcspn(text, "\n");
	p = skip(text, ";NVRM: Xid (");
	end = p ? skip_address(p) : NULL;
	if (!end)
		return false;
	snprintf(x->device, sizeof(x->device), "%.*s", (int)(end - p), p);
	end = parse_number(end, &x->code);
	if (!end)
		return false;
	end += strspn(end, ", ");
	snprintf(x->msg, sizeof(x->msg), "%.*s", (int)(line_end - end), end);
	x->rec.size = sizeof(*x);
	x->rec.kind = CT_REC_XID;
	x->rec.ts_ns = us * 1000;
	return true;
}

struct source_kmsg {
	struct source s;
	int fd; /* -1: none */
	bool messages;
	uint64_t looked_ns;
	uint64_t gap_cnt, reported_cnt; /* records were overwritten before they were read */
	struct ct_xid xid;		/* the next record, unless there is none */
};

/* The log's clock is not adjusted as ours is, and drifts by seconds in weeks. An Xid gets the time
 * at which it is read, right after it was written. */
static void read_next(struct source_kmsg *k)
{
	char record[RECORD_SZ];
	ssize_t n;

	k->s.next_ns = SOURCE_NONE;
	/* EPIPE: records were overwritten; the next read continues after the gap. */
	while ((n = read(k->fd, record, sizeof(record) - 1)) > 0 || (n < 0 && errno == EPIPE)) {
		if (n < 0) {
			k->gap_cnt++;
			continue;
		}
		record[n] = 0;
		if (!kmsg_parse_xid(record, &k->xid))
			continue;
		k->xid.rec.ts_ns = k->s.next_ns = k->looked_ns;
		if (!k->messages)
			memset(k->xid.msg, 0, sizeof(k->xid.msg));
		return;
	}
}

void kmsg__use(struct source *s, int fd, bool messages)
{
	struct source_kmsg *k = (void *)s;

	k->fd = fd;
	k->messages = messages;
}

static int kmsg_open(struct source *s, struct tracer *t)
{
	bool wanted = t->o.xids || tracer__sees_driver(t);
	int fd = wanted && !attach__has_xid(t->att)
			 ? open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)
			 : -1;

	kmsg__use(s, fd, !t->o.attach.redact);
	if (fd < 0)
		return SOURCE_UNUSED;
	lseek(fd, 0, SEEK_END);
	return 0;
}

static int kmsg_fd(const struct source *s)
{
	return ((const struct source_kmsg *)s)->fd;
}

static bool kmsg_look(struct source *s, uint64_t now)
{
	struct source_kmsg *k = (void *)s;

	k->looked_ns = now;
	if (s->next_ns == SOURCE_NONE)
		read_next(k);
	return true;
}

static size_t kmsg_take(struct source *s, size_t max, uint64_t until)
{
	struct source_kmsg *k = (void *)s;
	size_t cnt = 0;

	for (; cnt < max && s->next_ns <= until; cnt++) {
		source__give(s, &k->xid, sizeof(k->xid));
		read_next(k);
	}
	return cnt;
}

static bool kmsg_was_full(struct source *s)
{
	struct source_kmsg *k = (void *)s;
	bool was = k->gap_cnt != k->reported_cnt;

	k->reported_cnt = k->gap_cnt;
	return was;
}

/* The number of Xids among missing records is unknown: a gap counts as one. */
static void kmsg_totals(struct source *s, struct ct_totals *sum)
{
	sum->drops[CT_DROP_NV] = ((struct source_kmsg *)s)->gap_cnt;
}

static void kmsg_close(struct source *s)
{
	if (kmsg_fd(s) >= 0)
		close(kmsg_fd(s));
}

const struct source_ops kmsg_source_ops = {
	.size = sizeof(struct source_kmsg),
	.name = "kernel log",
	.why = "it was overwritten before it was read: Xids may be missing",
	.open = kmsg_open,
	.fd = kmsg_fd,
	.look = kmsg_look,
	.take = kmsg_take,
	.was_full = kmsg_was_full,
	.totals = kmsg_totals,
	.close = kmsg_close,
};
