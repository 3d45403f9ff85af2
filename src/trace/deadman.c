/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "deadman.h"

#include "util/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* Time to write what remains after the program has ended. */
#define END_S	20
#define BEAT_NS 1000000000ull
#define WAIT_MS 10
/* For a thread to end. */
#define THREAD_S 2

static timer_t timer;
static uint64_t beat_ns; /* of the last one; 0: there is no timer */

static bool set_timer(void)
{
	const struct itimerspec end = {.it_value.tv_sec = END_S};

	return !timer_settime(timer, 0, &end, NULL);
}

/* SIGALRM ends the process: no other call is needed for that. */
static bool start_timer(void)
{
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
	struct itimerspec left = {0};
	sigset_t alarms, blocked;

	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigfillset(&blocked);
	return signal(SIGALRM, SIG_DFL) != SIG_ERR && !sigprocmask(SIG_UNBLOCK, &alarms, NULL) &&
	       !sigprocmask(SIG_BLOCK, NULL, &blocked) && !sigismember(&blocked, SIGALRM) &&
	       !timer_create(CLOCK_MONOTONIC, &ev, &timer) && set_timer() &&
	       !timer_gettime(timer, &left) && left.it_value.tv_sec > 0;
}

static bool waits(void)
{
	uint64_t begin = now_ns();

	return !poll(NULL, 0, WAIT_MS) && now_ns() - begin > WAIT_MS * 1000000 / 2;
}

static void *nothing(void *arg)
{
	return arg;
}

/* A thread whose exit() is refused would never end. */
static bool threads_end(void)
{
	struct timespec until;
	pthread_t thread;

	if (pthread_create(&thread, NULL, nothing, NULL))
		return false;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += THREAD_S;
	return !pthread_timedjoin_np(thread, NULL, &until);
}

/* No process has the largest number. */
static bool sees_ends(void)
{
	return kill(INT_MAX, 0) && errno == ESRCH;
}

const char *deadman__start(void)
{
	if (!start_timer())
		return "timers or signals";
	beat_ns = now_ns();
	if (!waits())
		return "poll()";
	if (!sees_ends())
		return "kill()";
	return threads_end() ? NULL : "threads";
}

void deadman__beat(void)
{
	uint64_t now = beat_ns ? now_ns() : 0;

	if (now - beat_ns < BEAT_NS)
		return;
	beat_ns = now;
	set_timer();
}
