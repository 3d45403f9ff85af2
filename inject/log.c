/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Writes lines to the program's stderr. */
#include "inject.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

bool inject_verbose;

size_t put_number(char *to, unsigned long n, unsigned base)
{
	char digits[24];
	size_t len = 0;

	do
		digits[len++] = "0123456789abcdef"[n % base];
	while (n /= base);
	for (size_t i = 0; i < len; i++)
		to[i] = digits[len - 1 - i];
	to[len] = 0;
	return len;
}

/* Descriptor 2 when the library was loaded. A program without stderr may open a data file there. */
static struct {
	uint64_t dev, ino;
	bool is_stderr;
} at_load;

void log_at_load(bool preloaded)
{
	struct stat st;

	if (sys(SYS_newfstatat, 2, "", &st, AT_EMPTY_PATH))
		return;
	at_load.dev = st.st_dev;
	at_load.ino = st.st_ino;
	/* Before the program runs, every file there is meant as stderr. */
	at_load.is_stderr = preloaded || !S_ISREG(st.st_mode);
}

/* A write must neither wait for a reader nor signal the program: a pipe is opened again, to write
 * without waiting, and to be its reader meanwhile; a file's limit is compared. The dynamic loader
 * and libc make the same calls, so a filter permits them. A socket, and what belongs to another
 * user, cannot be opened again. */
static void put_line(const char *text, size_t len)
{
	struct pollfd ready = {.fd = 2, .events = POLLOUT};
	const struct timespec now = {0};
	struct rlimit max = {0};
	struct stat st;
	long fd;

	if (!at_load.is_stderr || sys(SYS_newfstatat, 2, "", &st, AT_EMPTY_PATH) ||
	    st.st_dev != at_load.dev || st.st_ino != at_load.ino)
		return;
	fd = sys(SYS_openat, AT_FDCWD, "/proc/thread-self/fd/2",
		 O_RDWR | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && (inject_sandboxed || sys(SYS_ppoll, &ready, 1, &now, NULL, 0) != 1 ||
		       ready.revents != POLLOUT))
		return;
	if (!S_ISREG(st.st_mode) ||
	    (!sys(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &max) && max.rlim_cur > len &&
	     (uint64_t)st.st_size < max.rlim_cur - len))
		sys(SYS_write, fd < 0 ? 2 : fd, text, len);
	if (fd >= 0)
		sys(SYS_close, fd);
}

void log_warn(const char *what, int err)
{
	char text[300] = "cudatrace: ";
	size_t n = strlen(text);

	for (; *what && n < sizeof(text) - 30; what++)
		text[n++] = *what;
	if (err) {
		strcpy(text + n, " (errno ");
		n += strlen(text + n);
		n += put_number(text + n, err, 10);
		text[n++] = ')';
	}
	text[n++] = '\n';
	put_line(text, n);
}

void log_debug(const char *what, int err)
{
	if (inject_verbose)
		log_warn(what, err);
}
