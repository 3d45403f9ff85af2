/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Closes rings of processes that have gone away. The last close of a memory file frees its pages,
 * which takes a second for some gigabytes. So a thread does it.
 */
#include "inject_priv.h"

#include "util/privs.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct closer {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int fds[CLIENTS_MAX];
	unsigned cnt;
	bool ready, stop;
};

static void *thread_main(void *arg)
{
	struct closer *c = arg;

	privs_drop_thread();
	pthread_mutex_lock(&c->lock);
	c->ready = true;
	pthread_cond_broadcast(&c->wake);
	while (c->cnt || !c->stop) {
		int fd;

		if (!c->cnt) {
			pthread_cond_wait(&c->wake, &c->lock);
			continue;
		}
		fd = c->fds[--c->cnt];
		pthread_mutex_unlock(&c->lock);
		close(fd);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

struct closer *closer__new(void)
{
	struct closer *c = calloc(1, sizeof(*c));
	sigset_t all, old;
	int ret;

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->wake, NULL);
	/* Signals are handled by the caller's thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&c->thread, NULL, thread_main, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret) {
		free(c);
		return NULL;
	}
	/* The system call filter, installed next, would not let the thread drop its privileges. */
	pthread_mutex_lock(&c->lock);
	while (!c->ready)
		pthread_cond_wait(&c->wake, &c->lock);
	pthread_mutex_unlock(&c->lock);
	return c;
}

void closer__close(struct closer *c, int fd)
{
	bool given = false;

	if (fd < 0)
		return;
	if (c) {
		pthread_mutex_lock(&c->lock);
		given = c->cnt < CLIENTS_MAX;
		if (given)
			c->fds[c->cnt++] = fd;
		pthread_cond_signal(&c->wake);
		pthread_mutex_unlock(&c->lock);
	}
	if (!given)
		close(fd);
}

void closer__free(struct closer *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
