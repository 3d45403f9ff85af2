/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the mapping of an address. */
#include "inject.h"

#include <fcntl.h>
#include <linux/ioctl.h>

/* struct procmap_query of Linux 6.11: one answer instead of a text with one line per mapping. */
struct query {
	uint64_t size, flags, addr, lo, hi, what, rest[7];
};
_Static_assert(sizeof(struct query) == 104, "struct procmap_query");
#define QUERY	    _IOWR('f', 17, struct query)
#define QUERY_WRITE 2

static const char *hex(const char *s, uintptr_t *n)
{
	*n = 0;
	for (;; s++) {
		unsigned digit = *s >= 'a' ? *s - 'a' + 10u : *s - '0' + 0u;

		if (digit > 15)
			return s;
		*n = *n << 4 | digit;
	}
}

static bool line_has(const char *line, uintptr_t addr, struct mapping *m)
{
	line = hex(line, &m->lo);
	if (*line != '-')
		return false;
	line = hex(line + 1, &m->hi);
	m->write = *line == ' ' && line[2] == 'w';
	return addr >= m->lo && addr < m->hi;
}

static bool find_line(int fd, uintptr_t addr, struct mapping *m)
{
	char buf[4096], line[64];
	size_t len = 0;
	long n;

	while ((n = sys(SYS_read, fd, buf, sizeof(buf))) > 0)
		for (long i = 0; i < n; i++) {
			if (buf[i] != '\n') {
				line[len] = buf[i];
				len += len < sizeof(line) - 1;
				continue;
			}
			line[len] = 0;
			len = 0;
			if (line_has(line, addr, m))
				return true;
		}
	return false;
}

bool maps_find(uintptr_t addr, struct mapping *m)
{
	struct query q = {.size = sizeof(q), .addr = addr};
	/* /proc/self has no maps once the first thread has ended. */
	int fd = sys(SYS_openat, AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
	bool found;

	if (fd < 0)
		return false;
	if (!sys(SYS_ioctl, fd, QUERY, &q)) {
		*m = (struct mapping){q.lo, q.hi, q.what & QUERY_WRITE};
		found = true;
	} else {
		found = find_line(fd, addr, m);
	}
	sys(SYS_close, fd);
	return found;
}
