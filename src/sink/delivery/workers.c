/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Batches of events circulate: the caller fills one, and any thread formats it. Any thread that
 * finds the oldest unwritten batch formatted writes it, also the caller if it would have to wait.
 * With several writers, each goes through the batches separately. One lock protects all of this; it
 * is taken three times per batch. Waking takes microseconds: the caller wakes a thread only for
 * work that awake threads will not take next, and a thread that leaves work wakes another. With
 * --gpu-time a full batch waits before it may be formatted; its calls belong to the caller
 * meanwhile.
 */
#include "workers.h"

#include "pending.h"
#include "items.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "model/gpu.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/out.h"
#include "util/privs.h"

/* One batch is filled, one is written, and two for each thread. */
#define BATCHES_EACH 2
/* Limit of waiting batches (--gpu-time). */
#define PENDING_MAX (PENDING_SZ_MAX / ITEMS_SZ)
/* Age at which a batch that is not full is submitted, too. */
#define PART_NS 250000000ull

struct batch {
	struct items items;
	uint64_t filled_ns, given_ns;
	bool formatted;
};

struct writer {
	struct workers_writer w;
	uint64_t written; /* number of written batches */
	size_t at;	  /* position in the next one's text */
	bool writing;
	bool wants_main_thread; /* must run in the caller's thread */
};

struct workers {
	struct sink *s;
	struct sink *own; /* used by the caller: formats events that are not copied */
	pthread_t threads[WORKERS_THREADS_MAX];
	unsigned thread_cnt, ready_cnt, batch_cnt, formatter_cnt;
	struct batch *batches;
	struct batch *filling;
	struct writer writers[WORKERS_WRITERS_MAX];
	unsigned writer_cnt;
	struct sink **formatter; /* of a batch: its number modulo formatter_cnt; writes to memory */
	struct pending_calls *pending; /* NULL: calls do not wait */
	uint64_t filled;	       /* batches so far; a batch's index is its number modulo
					* batch_cnt */
	uint64_t filled_ns;	       /* time of the last */
	uint64_t given_ns;
	struct item_names names; /* of the batch being filled */
	pthread_mutex_t lock;
	pthread_cond_t work, room;
	uint64_t ready, taken, written; /* numbers of batches; written by all writers */
	int awake; /* threads that will look for work; not threads that write, which may take long
		    */
	bool stop;
	bool failed; /* read without the lock */
	uint64_t lost_cnt;
};

unsigned workers__copies(unsigned threads)
{
	return 2 + BATCHES_EACH * threads;
}

unsigned workers__size(unsigned cpus)
{
	unsigned cnt = cpus / 4;

	return cnt < 2 ? 0 : cnt > 4 ? 3 : cnt - 1;
}

uint64_t workers__max_bytes(unsigned threads)
{
	return threads ? (uint64_t)workers__copies(threads) * (ITEMS_SZ + ITEMS_TEXT_SZ) : 0;
}

/* Writes to s->out. */
static bool write_out(void *ctx, const struct workers_text *t, size_t *at, bool is_caller)
{
	struct workers *c = ctx;
	struct out *to = c->s->out;

	if (to->failed)
		c->lost_cnt += t->cnt;
	else
		out__write_all_of(to, t->formatter->out);
	__atomic_store_n(&c->failed, to->failed, __ATOMIC_RELAXED);
	return true;
}

/* The following functions need the lock. */
static bool can_write(const struct workers *c, const struct writer *w, bool is_caller)
{
	return !w->writing && w->written < c->taken && (is_caller || !w->wants_main_thread) &&
	       c->batches[w->written % c->batch_cnt].formatted;
}

static bool can_take(const struct workers *c)
{
	return c->taken < c->ready && c->taken - c->written < c->formatter_cnt;
}

static struct writer *can_any_write(struct workers *c, bool is_caller)
{
	for (unsigned i = 0; i < c->writer_cnt; i++)
		if (can_write(c, &c->writers[i], is_caller))
			return &c->writers[i];
	return NULL;
}

/* Work for a thread other than the caller. */
static bool has_work(struct workers *c)
{
	return can_any_write(c, false) || can_take(c);
}

static void wake_next(struct workers *c)
{
	if (c->awake < (int)c->thread_cnt && has_work(c))
		pthread_cond_signal(&c->work);
}

/* Empties batches that all writers have written. */
static void take_back(struct workers *c)
{
	uint64_t all = c->taken;
	struct batch *b;

	for (unsigned i = 0; i < c->writer_cnt; i++)
		if (c->writers[i].written < all)
			all = c->writers[i].written;
	for (; c->written < all; c->written++) {
		struct out *o = c->formatter[c->written % c->formatter_cnt]->out;

		b = &c->batches[c->written % c->batch_cnt];
		o->len = o->mark = 0;
		b->formatted = false;
		items__clear(&b->items);
		/* Each 256 KiB of pending calls need a batch, but that many are rarely used. */
		if (c->pending)
			items__free(&b->items);
	}
}

/* Writes the oldest batch that the writer has not written. */
static void write_batch(struct workers *c, struct writer *w, bool is_caller)
{
	const struct batch *b = &c->batches[w->written % c->batch_cnt];
	const struct workers_text text = {c->formatter[w->written % c->formatter_cnt], b->items.cnt,
					  b->given_ns};
	bool done;

	w->writing = true;
	c->awake--;
	wake_next(c);
	pthread_mutex_unlock(&c->lock);
	done = w->w.write(w->w.ctx, &text, &w->at, is_caller);
	pthread_mutex_lock(&c->lock);
	c->awake++;
	w->writing = false;
	w->wants_main_thread = !done;
	if (done) {
		w->at = 0;
		w->written++;
		take_back(c);
	}
	pthread_cond_signal(&c->room);
}

/* Writes or formats a batch; false: there is nothing to do. */
static bool do_something(struct workers *c, unsigned thread)
{
	bool is_caller = thread == WORKERS_CALLER;
	struct writer *w = can_any_write(c, is_caller);
	struct sink *formatter;
	struct batch *b;

	if (w) {
		write_batch(c, w, is_caller);
		return true;
	}
	if (!can_take(c))
		return false;
	formatter = c->formatter[c->taken % c->formatter_cnt];
	b = &c->batches[c->taken++ % c->batch_cnt];
	wake_next(c);
	pthread_mutex_unlock(&c->lock);
	items__format(&b->items, formatter);
	sink_formatted(formatter, thread);
	pthread_mutex_lock(&c->lock);
	b->formatted = true;
	return true;
}

static void *thread_main(void *arg)
{
	struct workers *c = arg;
	unsigned thread;

	privs_drop_thread();
	pthread_mutex_lock(&c->lock);
	thread = c->ready_cnt++;
	c->awake++;
	pthread_cond_signal(&c->room);
	while (do_something(c, thread) || !c->stop) {
		if (has_work(c) || c->stop)
			continue;
		c->awake--;
		pthread_cond_wait(&c->work, &c->lock);
		c->awake++;
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int start_threads(struct workers *c, unsigned cnt)
{
	sigset_t all, old;
	int ret = 0;

	/* The caller receives the signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (c->thread_cnt < cnt && !ret) {
		ret = pthread_create(&c->threads[c->thread_cnt], NULL, thread_main, c);
		c->thread_cnt += !ret;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	/* Wait until the threads have dropped their privileges: the syscall filter that comes next
	 * would forbid it. */
	pthread_mutex_lock(&c->lock);
	while (c->ready_cnt < c->thread_cnt)
		pthread_cond_wait(&c->room, &c->lock);
	pthread_mutex_unlock(&c->lock);
	return -ret;
}

static bool make_batches(struct workers *c)
{
	size_t size = c->batch_cnt * sizeof(*c->batches);

	c->batches = aligned_alloc(_Alignof(struct batch), size);
	if (!c->batches)
		return false;
	memset(c->batches, 0, size);
	c->formatter = calloc(c->formatter_cnt, sizeof(struct sink *));
	c->own = sink__copy(c->s);
	if (!c->formatter || !c->own)
		return false;
	c->own->packs = true;
	for (unsigned i = 0; i < c->formatter_cnt; i++) {
		c->formatter[i] = sink__copy(c->s);
		if (!c->formatter[i])
			return false;
	}
	c->filling = &c->batches[0];
	return true;
}

static struct workers *new_workers(struct sink *s, unsigned threads, bool wait,
				   const struct workers_writer *writers, unsigned cnt)
{
	struct workers *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	if (threads > WORKERS_THREADS_MAX)
		threads = WORKERS_THREADS_MAX;
	c->s = s;
	while (c->writer_cnt < cnt) {
		c->writers[c->writer_cnt].w = writers[c->writer_cnt];
		c->writer_cnt++;
	}
	if (!cnt)
		c->writers[c->writer_cnt++].w = (struct workers_writer){write_out, c};
	c->formatter_cnt = workers__copies(threads);
	c->batch_cnt = c->formatter_cnt + (wait ? PENDING_MAX : 0);
	c->pending = wait ? pending__new() : NULL;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, NULL);
	pthread_cond_init(&c->room, NULL);
	if ((c->pending || !wait) && make_batches(c) && !start_threads(c, threads))
		return c;
	workers__free(c);
	return NULL;
}

struct workers *workers__new(struct sink *s, unsigned threads, bool wait)
{
	return new_workers(s, threads, wait, NULL, 0);
}

struct workers *workers__new_for(struct sink *s, unsigned threads,
				 const struct workers_writer *writers, unsigned cnt)
{
	return new_workers(s, threads, false, writers, cnt);
}

/* Serves writers that need the caller's thread. Needs the lock. */
static void answer(struct workers *c)
{
	for (unsigned i = 0; i < c->writer_cnt; i++)
		if (c->writers[i].wants_main_thread && can_write(c, &c->writers[i], true))
			write_batch(c, &c->writers[i], true);
	wake_next(c);
}

/* Hands batches up to that number to the threads. */
static void make_ready(struct workers *c, uint64_t number)
{
	for (uint64_t i = c->ready; c->pending && i < number; i++)
		items__release(&c->batches[i % c->batch_cnt].items, c->pending);
	pthread_mutex_lock(&c->lock);
	c->ready = number;
	if ((int64_t)(c->ready - c->taken) > c->awake)
		pthread_cond_signal(&c->work);
	answer(c);
	/* Without a free batch, help the threads. */
	while (c->filled - c->written == c->batch_cnt) {
		if (!do_something(c, WORKERS_CALLER))
			pthread_cond_wait(&c->room, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Returns the number of the first batch that waits for the GPU. */
static uint64_t first_waiting(const struct workers *c, uint64_t now)
{
	uint64_t i = c->ready;

	while (i < c->filled && (c->filled - i > PENDING_MAX ||
				 c->batches[i % c->batch_cnt].filled_ns + PENDING_NS <= now))
		i++;
	return i;
}

static void submit(struct workers *c)
{
	c->filled++;
	c->filling->given_ns = c->given_ns;
	if (c->pending) {
		c->filled_ns = c->filling->filled_ns = now_ns();
		make_ready(c, first_waiting(c, c->filled_ns));
	} else {
		make_ready(c, c->filled);
	}
	c->filling = &c->batches[c->filled % c->batch_cnt];
	memset(&c->names, 0, sizeof(c->names));
}

/* Continues in another batch; false: the event does not fit into an empty one either. */
static bool more_room(struct workers *c)
{
	if (!c->filling->items.len)
		return items__get_room(&c->filling->items);
	submit(c);
	return true;
}

static bool put_text(struct workers *c, const void *text, size_t len)
{
	while (!items__put_line(&c->filling->items, text, len))
		if (!more_room(c))
			return false;
	return true;
}

static bool put_call(struct workers *c, const struct trace_event *ev, const char *more)
{
	struct pending_calls *pending = c->pending && gpu_is_wanted(ev) ? c->pending : NULL;

	while (!items__put_call(&c->filling->items, &c->names, ev, more, pending))
		if (!more_room(c))
			return false;
	return true;
}

/* Writes a line that is longer than a batch. */
static void write_now(struct workers *c, const char *line, size_t len)
{
	/* Always the same sink, because it keeps that much memory. */
	struct sink *formatter = c->formatter[0];
	const struct workers_text text = {formatter, 1, c->given_ns};

	workers__wait(c);
	sink_put(formatter, line, len);
	sink_formatted(formatter, WORKERS_CALLER);
	for (unsigned i = 0; i < c->writer_cnt; i++) {
		struct workers_writer *w = &c->writers[i].w;
		size_t at = 0;

		w->write(w->ctx, &text, &at, true);
	}
	formatter->out->len = formatter->out->mark = 0;
}

void workers__clock(struct workers *c, uint64_t now_ns)
{
	c->given_ns = now_ns;
}

void workers__event(struct workers *c, const struct trace_event *ev, const char *more)
{
	bool is_call = ev->kind == EVENT_CALL && ev->fn && !ev->text;
	struct out *o = c->own->out;

	if (c->pending && ev->kind == EVENT_GPU && ev->gpu.call_id)
		c->s->late_cnt += !pending__executed(c->pending, ev);
	if (is_call && put_call(c, ev, more))
		return;
	c->own->more = more;
	c->own->ops->event(c->own, ev);
	/* A stack with long names: the traced process must not determine our memory use. */
	if (is_call || !put_text(c, o->buf, o->len))
		write_now(c, o->buf, o->len);
	o->len = o->mark = 0;
}

void workers__put(struct workers *c, const void *text, size_t len)
{
	put_text(c, text, len);
}

/* Waits until all ready batches are written. */
static void write_ready(struct workers *c)
{
	pthread_mutex_lock(&c->lock);
	while (c->written != c->ready) {
		if (!do_something(c, WORKERS_CALLER))
			pthread_cond_wait(&c->room, &c->lock);
	}
	c->s->lost_cnt += c->lost_cnt;
	c->lost_cnt = 0;
	pthread_mutex_unlock(&c->lock);
}

void workers__wait(struct workers *c)
{
	if (c->filling->items.len)
		submit(c);
	if (c->ready != c->filled)
		make_ready(c, c->filled);
	write_ready(c);
}

void workers__tick(struct workers *c)
{
	uint64_t now;

	if (!c->pending) {
		workers__wait(c);
		return;
	}
	now = now_ns();
	if (c->filling->items.len && now - c->filled_ns >= PART_NS)
		submit(c);
	else
		make_ready(c, first_waiting(c, now));
	write_ready(c);
}

bool workers__failed(const struct workers *c)
{
	return __atomic_load_n(&c->failed, __ATOMIC_RELAXED);
}

void workers__free(struct workers *c)
{
	if (!c)
		return;
	if (c->filling)
		workers__wait(c);
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->work);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->thread_cnt; i++)
		pthread_join(c->threads[i], NULL);
	for (unsigned i = 0; c->batches && i < c->batch_cnt; i++)
		items__free(&c->batches[i].items);
	for (unsigned i = 0; c->formatter && i < c->formatter_cnt; i++)
		sink__free_copy(c->formatter[i]);
	sink__free_copy(c->own);
	free(c->formatter);
	free(c->batches);
	pending__free(c->pending);
	free(c);
}
