/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* LD_PRELOAD: offsets the wall clock of a program by the seconds in the first 8 bytes of the file
 * $CLOCK_OFF, which a test changes while the program runs. No other clock changes. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t zero, *off = &zero;
static int (*real)(clockid_t, struct timespec *);

static void __attribute__((constructor)) begin(void)
{
	const char *path = getenv("CLOCK_OFF");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *p = fd >= 0 ? mmap(NULL, sizeof(*off), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (p == MAP_FAILED || !real)
		abort();
	off = p;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = real(clock, ts);

	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		ts->tv_sec += *off;
	return ret;
}

time_t time(time_t *t)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (t)
		*t = ts.tv_sec;
	return ts.tv_sec;
}

int gettimeofday(struct timeval *tv, void *tz)
{
	struct timespec ts;

	(void)tz;
	clock_gettime(CLOCK_REALTIME, &ts);
	*tv = (struct timeval){ts.tv_sec, ts.tv_nsec / 1000};
	return 0;
}
