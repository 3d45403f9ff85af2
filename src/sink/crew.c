/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Batches of events go round: the caller fills one, any thread words it, and whichever thread finds
 * the oldest unwritten batch worded writes it: the caller, too, when it would have to wait. All of
 * that under one lock, which is taken three times a batch. Waking takes microseconds: the caller
 * wakes a thread only for what those that are awake will not take next, and who leaves work wakes
 * another. With --gpu-time a batch that is full waits before anybody may word it; its calls are the
 * caller's meanwhile.
 */
#include "crew.h"

#include "held.h"
#include "items.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "model/gpu.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/out.h"
#include "util/rights.h"

#define THREADS_MAX 16
/* One is filled, one is written, and two for each thread. */
#define BATCHES_EACH 2
/* Of those that wait (--gpu-time). */
#define HELD_MAX (HELD_SZ_MAX / ITEMS_SZ)
/* A batch that is not full waits, too, when it is so old. */
#define PART_NS 250000000ull

struct batch {
	struct items items;
	uint64_t filled_ns;
	bool worded;
};

struct crew {
	struct sink *s;
	struct sink *own; /* the caller's: words what is not copied */
	pthread_t threads[THREADS_MAX];
	unsigned thread_cnt, ready_cnt, batch_cnt, words_cnt;
	struct batch *batches;
	struct batch *filling;
	struct sink **words;	 /* of a batch its number modulo words_cnt: write into memory */
	struct held_calls *held; /* NULL: nothing waits */
	uint64_t filled;	 /* batches, ever; a batch is its number modulo batch_cnt */
	uint64_t filled_ns;	 /* when the last was */
	struct item_names names; /* in filling */
	pthread_mutex_t lock;
	pthread_cond_t work, room;
	uint64_t ready, taken, written; /* of filled */
	int awake; /* threads that will look for work; not who writes, which may take its time */
	bool writing, stop;
	bool failed; /* read without the lock */
	uint64_t lost_cnt;
};

unsigned crew__size(unsigned cpus)
{
	unsigned cnt = cpus / 4;

	return cnt < 2 ? 0 : cnt > 4 ? 3 : cnt - 1;
}

static void write_batch(struct crew *c, struct batch *b, struct sink *words)
{
	struct out *to = c->s->out, *from = words->out;

	if (to->failed) {
		c->lost_cnt += b->items.cnt;
	} else {
		out__write_all_of(to, from);
	}
	from->len = from->mark = 0;
	items__clear(&b->items);
	/* There is one for each 256 KiB that wait: seldom many. */
	if (c->held)
		items__free(&b->items);
	__atomic_store_n(&c->failed, to->failed, __ATOMIC_RELAXED);
}

/* With the lock, as what follows. */
static bool can_write(const struct crew *c)
{
	return !c->writing && c->written < c->taken && c->batches[c->written % c->batch_cnt].worded;
}

static bool can_take(const struct crew *c)
{
	return c->taken < c->ready && c->taken - c->written < c->words_cnt;
}

static bool has_work(const struct crew *c)
{
	return can_write(c) || can_take(c);
}

static void wake_next(struct crew *c)
{
	if (c->awake < (int)c->thread_cnt && has_work(c))
		pthread_cond_signal(&c->work);
}

/* Writes the oldest batch, or words one; false: there is nothing to do. */
static bool do_something(struct crew *c)
{
	struct batch *next = &c->batches[c->written % c->batch_cnt], *b;
	struct sink *words = c->words[c->written % c->words_cnt];

	if (can_write(c)) {
		c->writing = true;
		c->awake--;
		wake_next(c);
		pthread_mutex_unlock(&c->lock);
		write_batch(c, next, words);
		pthread_mutex_lock(&c->lock);
		c->awake++;
		next->worded = c->writing = false;
		c->written++;
		pthread_cond_signal(&c->room);
		return true;
	}
	if (!can_take(c))
		return false;
	words = c->words[c->taken % c->words_cnt];
	b = &c->batches[c->taken++ % c->batch_cnt];
	wake_next(c);
	pthread_mutex_unlock(&c->lock);
	items__word(&b->items, words);
	pthread_mutex_lock(&c->lock);
	b->worded = true;
	return true;
}

static void *thread_main(void *arg)
{
	struct crew *c = arg;

	rights_drop_thread();
	pthread_mutex_lock(&c->lock);
	c->ready_cnt++;
	c->awake++;
	pthread_cond_signal(&c->room);
	while (do_something(c) || !c->stop) {
		if (has_work(c) || c->stop)
			continue;
		c->awake--;
		pthread_cond_wait(&c->work, &c->lock);
		c->awake++;
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int start_threads(struct crew *c, unsigned cnt)
{
	sigset_t all, old;
	int ret = 0;

	/* Signals are for the caller. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (c->thread_cnt < cnt && !ret) {
		ret = pthread_create(&c->threads[c->thread_cnt], NULL, thread_main, c);
		c->thread_cnt += !ret;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	/* A filter of system calls, which comes next, would not let them give up anything. */
	pthread_mutex_lock(&c->lock);
	while (c->ready_cnt < c->thread_cnt)
		pthread_cond_wait(&c->room, &c->lock);
	pthread_mutex_unlock(&c->lock);
	return -ret;
}

static bool make_batches(struct crew *c)
{
	size_t size = c->batch_cnt * sizeof(*c->batches);

	c->batches = aligned_alloc(_Alignof(struct batch), size);
	if (!c->batches)
		return false;
	memset(c->batches, 0, size);
	c->words = calloc(c->words_cnt, sizeof(struct sink *));
	c->own = sink__copy(c->s);
	if (!c->words || !c->own)
		return false;
	for (unsigned i = 0; i < c->words_cnt; i++) {
		c->words[i] = sink__copy(c->s);
		if (!c->words[i])
			return false;
	}
	c->filling = &c->batches[0];
	return true;
}

struct crew *crew__new(struct sink *s, unsigned threads, bool wait)
{
	struct crew *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	if (threads > THREADS_MAX)
		threads = THREADS_MAX;
	c->s = s;
	c->words_cnt = 2 + BATCHES_EACH * threads;
	c->batch_cnt = c->words_cnt + (wait ? HELD_MAX : 0);
	c->held = wait ? held__new() : NULL;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, NULL);
	pthread_cond_init(&c->room, NULL);
	if ((c->held || !wait) && make_batches(c) && !start_threads(c, threads))
		return c;
	crew__free(c);
	return NULL;
}

/* Batches up to that number are the others' from now on. */
static void make_ready(struct crew *c, uint64_t number)
{
	for (uint64_t i = c->ready; c->held && i < number; i++)
		items__let_go(&c->batches[i % c->batch_cnt].items, c->held);
	pthread_mutex_lock(&c->lock);
	c->ready = number;
	if ((int64_t)(c->ready - c->taken) > c->awake)
		pthread_cond_signal(&c->work);
	/* Without room there is nothing better to do than the others' work. */
	while (c->filled - c->written == c->batch_cnt) {
		if (!do_something(c))
			pthread_cond_wait(&c->room, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
}

/* The first that waits for the GPU. */
static uint64_t first_waiting(const struct crew *c, uint64_t now)
{
	uint64_t i = c->ready;

	while (i < c->filled && (c->filled - i > HELD_MAX ||
				 c->batches[i % c->batch_cnt].filled_ns + HELD_NS <= now))
		i++;
	return i;
}

static void submit(struct crew *c)
{
	c->filled++;
	if (c->held) {
		c->filled_ns = c->filling->filled_ns = now_ns();
		make_ready(c, first_waiting(c, c->filled_ns));
	} else {
		make_ready(c, c->filled);
	}
	c->filling = &c->batches[c->filled % c->batch_cnt];
	memset(&c->names, 0, sizeof(c->names));
}

/* Room for what the batch has none for, in another; false: nor has an empty one. */
static bool more_room(struct crew *c)
{
	if (!c->filling->items.len)
		return items__get_room(&c->filling->items);
	submit(c);
	return true;
}

static bool put_line(struct crew *c, const struct trace_event *ev)
{
	struct out *o = c->own->out;
	bool put;

	c->own->ops->event(c->own, ev);
	do
		put = items__put_line(&c->filling->items, o->buf, o->len);
	while (!put && more_room(c));
	o->len = o->mark = 0;
	return put;
}

static bool put_call(struct crew *c, const struct trace_event *ev)
{
	struct held_calls *held = c->held && gpu_is_wanted(ev) ? c->held : NULL;

	while (!items__put_call(&c->filling->items, &c->names, ev, held))
		if (!more_room(c))
			return false;
	return true;
}

void crew__event(struct crew *c, const struct trace_event *ev)
{
	bool is_call = ev->kind == EVENT_CALL && ev->fn && !ev->text;

	if (c->held && ev->kind == EVENT_GPU && ev->gpu.call_id)
		c->s->late_cnt += !held__executed(c->held, ev);
	if (is_call ? put_call(c, ev) : put_line(c, ev))
		return;
	/* A stack of long names: whoever chose them shall not choose our memory. */
	crew__wait(c);
	c->s->ops->event(c->s, ev);
}

/* Until what is ready is in s->out. */
static void write_ready(struct crew *c)
{
	pthread_mutex_lock(&c->lock);
	while (c->written != c->ready) {
		if (!do_something(c))
			pthread_cond_wait(&c->room, &c->lock);
	}
	c->s->lost_cnt += c->lost_cnt;
	c->lost_cnt = 0;
	pthread_mutex_unlock(&c->lock);
}

void crew__wait(struct crew *c)
{
	if (c->filling->items.len)
		submit(c);
	if (c->ready != c->filled)
		make_ready(c, c->filled);
	write_ready(c);
}

void crew__tick(struct crew *c)
{
	uint64_t now;

	if (!c->held) {
		crew__wait(c);
		return;
	}
	now = now_ns();
	if (c->filling->items.len && now - c->filled_ns >= PART_NS)
		submit(c);
	else
		make_ready(c, first_waiting(c, now));
	write_ready(c);
}

bool crew__failed(const struct crew *c)
{
	return __atomic_load_n(&c->failed, __ATOMIC_RELAXED);
}

void crew__free(struct crew *c)
{
	if (!c)
		return;
	if (c->filling)
		crew__wait(c);
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->work);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->thread_cnt; i++)
		pthread_join(c->threads[i], NULL);
	for (unsigned i = 0; c->batches && i < c->batch_cnt; i++)
		items__free(&c->batches[i].items);
	for (unsigned i = 0; c->words && i < c->words_cnt; i++)
		sink__free_copy(c->words[i]);
	sink__free_copy(c->own);
	free(c->words);
	free(c->batches);
	held__free(c->held);
	free(c);
}
