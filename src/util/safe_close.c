/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "safe_close.h"

#include "clock.h"
#include "privs.h"
#include "stray.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS /* Linux 6.16 */
#define SO_PASSRIGHTS 83
#endif

#define QUEUE_MAX 4096
#define BUSY	  256
/* A pending signal ends the wait of all sockets that one close() releases: the kernel releases them
 * before it delivers the signal (get_signal() begins with task_work_run(); Linux 5.11). */
#define LINGER_NS 100000
#define SIGNAL	  SIGSTKFLT
/* Wait for space in the queue. */
#define ROOM_NS 10000000

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake, room;
	int fds[QUEUE_MAX];
	unsigned cnt;
	pthread_t thread;
	bool started, ready, failed, stops;
} closer = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.wake = PTHREAD_COND_INITIALIZER,
	.room = PTHREAD_COND_INITIALIZER,
};

static void on_signal(int sig, siginfo_t *si, void *ctx)
{
	if (si->si_code != SI_TIMER)
		stray_note(sig, si->si_pid);
}

static bool make_timer(timer_t *timer)
{
	struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL};

	ev._sigev_un._tid = gettid();
	return !timer_create(CLOCK_MONOTONIC, &ev, timer);
}

/* Repeats the signal: one before the wait has no effect. */
static void close_timed(timer_t timer, int fd)
{
	const struct sigaction sa = {.sa_sigaction = on_signal,
				     .sa_flags = SA_RESTART | SA_SIGINFO};
	const struct itimerspec on = {{0, LINGER_NS}, {0, LINGER_NS}}, off = {0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	/* Here, because the daemon ignores all signals when it starts. */
	sigaction(SIGNAL, &sa, NULL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	timer_settime(timer, 0, &on, NULL);
	close(fd);
	timer_settime(timer, 0, &off, NULL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void *thread_main(void *arg)
{
	timer_t timer;

	privs_drop_thread();
	pthread_mutex_lock(&closer.lock);
	closer.failed = !make_timer(&timer);
	closer.ready = true;
	pthread_cond_broadcast(&closer.room);
	while (!closer.failed) {
		int fd;

		if (!closer.cnt && closer.stops)
			break;
		if (!closer.cnt) {
			pthread_cond_wait(&closer.wake, &closer.lock);
			continue;
		}
		fd = closer.fds[--closer.cnt];
		pthread_cond_signal(&closer.room);
		pthread_mutex_unlock(&closer.lock);
		close_timed(timer, fd);
		pthread_mutex_lock(&closer.lock);
	}
	pthread_mutex_unlock(&closer.lock);
	return NULL;
}

bool safe_close__start(void)
{
	sigset_t all, old;

	if (closer.started)
		return true;
	closer.ready = closer.failed = closer.stops = false;
	/* Signals are handled by the caller's thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	closer.started = !pthread_create(&closer.thread, NULL, thread_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!closer.started)
		return false;
	/* The system call filter, installed next, would not let the thread drop its privileges. */
	pthread_mutex_lock(&closer.lock);
	while (!closer.ready)
		pthread_cond_wait(&closer.room, &closer.lock);
	closer.started = !closer.failed;
	pthread_mutex_unlock(&closer.lock);
	if (closer.failed)
		pthread_join(closer.thread, NULL);
	return closer.started;
}

void safe_close__stop(void)
{
	if (!closer.started)
		return;
	pthread_mutex_lock(&closer.lock);
	closer.stops = true;
	pthread_cond_signal(&closer.wake);
	pthread_mutex_unlock(&closer.lock);
	pthread_join(closer.thread, NULL);
	closer.started = false;
}

void safe_close(int fd)
{
	struct timespec until;

	if (fd < 0)
		return;
	if (!closer.started) {
		close(fd);
		return;
	}
	/* Its peer does not wait for the thread. Fails if it is not a socket. */
	shutdown(fd, SHUT_RDWR);
	pthread_mutex_lock(&closer.lock);
	if (closer.cnt == QUEUE_MAX) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += ROOM_NS;
		until.tv_sec += until.tv_nsec / SEC_NS;
		until.tv_nsec %= SEC_NS;
		pthread_cond_timedwait(&closer.room, &closer.lock, &until);
	}
	if (closer.cnt < QUEUE_MAX)
		closer.fds[closer.cnt++] = fd;
	pthread_cond_signal(&closer.wake);
	pthread_mutex_unlock(&closer.lock);
}

bool safe_close__is_busy(void)
{
	bool busy;

	pthread_mutex_lock(&closer.lock);
	busy = closer.cnt >= BUSY;
	pthread_mutex_unlock(&closer.lock);
	return busy;
}

void safe_recv__refuse_fds(int listen_fd)
{
	const int off = 0;

	setsockopt(listen_fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

/* Peeking without space for descriptors reports them, and the queue keeps its references. */
ssize_t safe_recv(int fd, void *buf, size_t size)
{
	struct iovec iov = {buf, size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_PEEK);

	if (n >= 0 && msg.msg_flags & MSG_CTRUNC) {
		errno = EPERM;
		return -1;
	}
	/* 0: the end, or an empty message. After either, nothing is received. */
	return n > 0 ? recv(fd, buf, n, MSG_DONTWAIT) : n;
}
