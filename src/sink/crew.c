/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Batches of events go round: the caller fills one, any thread words it, and whichever thread finds
 * the oldest unwritten batch worded writes it. All of that under one lock, which is taken three
 * times a batch.
 */
#include "crew.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/out.h"
#include "util/rights.h"

#define THREADS_MAX 16
/* Some hundred events, which stay in a processor's own cache. */
#define BATCH_SZ (512 << 10)
/* One is filled, one is written, and two for each thread. */
#define BATCHES_EACH 2

/* What follows it: a copy of all that the event points to, or a line as it is. */
struct item {
	size_t size;	 /* with what follows */
	size_t text_len; /* not 0: a line */
	struct trace_event ev;
};

struct batch {
	char *items;
	size_t len;
	uint64_t item_cnt;
	struct sink *words; /* writes into memory */
	bool worded;
};

struct crew {
	struct sink *s;
	struct sink *own; /* the caller's: words what is not copied */
	pthread_t threads[THREADS_MAX];
	unsigned thread_cnt, ready_cnt, batch_cnt;
	struct batch *batches;
	struct batch *filling;
	pthread_mutex_t lock;
	pthread_cond_t work, room;
	/* Of batches, ever; a batch is its number modulo batch_cnt. */
	uint64_t filled, taken, written;
	bool writing, stop;
	bool failed; /* read without the lock */
	uint64_t lost_cnt;
};

unsigned crew__size(unsigned cpus)
{
	unsigned cnt = cpus / 4;

	return cnt < 2 ? 0 : cnt > 4 ? 3 : cnt - 1;
}

static struct sink *copy_of(const struct sink *s)
{
	struct sink *n = malloc(s->ops->size);

	if (!n)
		return NULL;
	memcpy(n, s, s->ops->size);
	n->crew = NULL;
	n->out = out__memory();
	n->ops->cloned(n);
	return n;
}

static void free_copy(struct sink *n)
{
	if (!n)
		return;
	out__close(n->out);
	free(n);
}

static void word(struct batch *b)
{
	struct out *o = b->words->out;
	const struct item *it;

	for (size_t at = 0; at < b->len; at += it->size) {
		it = (const struct item *)(b->items + at);
		if (it->text_len)
			out_bytes(o, (const char *)(it + 1), it->text_len);
		else
			b->words->ops->event(b->words, &it->ev);
	}
}

static void write_batch(struct crew *c, struct batch *b)
{
	struct out *to = c->s->out, *from = b->words->out;

	if (to->failed) {
		c->lost_cnt += b->item_cnt;
	} else {
		out_bytes(to, from->buf, from->len);
		out__commit(to);
	}
	from->len = from->mark = 0;
	b->len = b->item_cnt = 0;
	__atomic_store_n(&c->failed, to->failed, __ATOMIC_RELAXED);
}

/* With the lock, as what follows. */
static bool can_write(const struct crew *c)
{
	return !c->writing && c->written < c->taken && c->batches[c->written % c->batch_cnt].worded;
}

static bool has_work(const struct crew *c)
{
	return can_write(c) || c->taken < c->filled;
}

/* Writes the oldest batch, or words one; false: there is nothing to do. */
static bool do_something(struct crew *c)
{
	struct batch *next = &c->batches[c->written % c->batch_cnt], *b;

	if (can_write(c)) {
		c->writing = true;
		pthread_mutex_unlock(&c->lock);
		write_batch(c, next);
		pthread_mutex_lock(&c->lock);
		next->worded = c->writing = false;
		c->written++;
		pthread_cond_signal(&c->room);
		return true;
	}
	if (c->taken == c->filled)
		return false;
	b = &c->batches[c->taken++ % c->batch_cnt];
	pthread_mutex_unlock(&c->lock);
	word(b);
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
	pthread_cond_signal(&c->room);
	while (do_something(c) || !c->stop) {
		if (!has_work(c) && !c->stop)
			pthread_cond_wait(&c->work, &c->lock);
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
	c->batches = calloc(c->batch_cnt, sizeof(*c->batches));
	c->own = copy_of(c->s);
	if (!c->batches || !c->own)
		return false;
	for (unsigned i = 0; i < c->batch_cnt; i++) {
		c->batches[i].items = malloc(BATCH_SZ);
		c->batches[i].words = copy_of(c->s);
		if (!c->batches[i].items || !c->batches[i].words)
			return false;
	}
	c->filling = &c->batches[0];
	return true;
}

struct crew *crew__new(struct sink *s, unsigned threads)
{
	struct crew *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	if (threads > THREADS_MAX)
		threads = THREADS_MAX;
	c->s = s;
	c->batch_cnt = 2 + BATCHES_EACH * threads;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, NULL);
	pthread_cond_init(&c->room, NULL);
	if (make_batches(c) && !start_threads(c, threads))
		return c;
	crew__free(c);
	return NULL;
}

static void submit(struct crew *c)
{
	pthread_mutex_lock(&c->lock);
	c->filled++;
	pthread_cond_signal(&c->work);
	while (c->filled - c->written == c->batch_cnt)
		pthread_cond_wait(&c->room, &c->lock);
	pthread_mutex_unlock(&c->lock);
	c->filling = &c->batches[c->filled % c->batch_cnt];
}

/* With so many bytes behind it. NULL: it is too large for any batch. */
static struct item *new_item(struct crew *c, size_t extra)
{
	size_t size = (sizeof(struct item) + extra + 7) & ~(size_t)7;
	struct item *it;

	if (size > BATCH_SZ)
		return NULL;
	if (c->filling->len + size > BATCH_SZ)
		submit(c);
	it = (struct item *)(c->filling->items + c->filling->len);
	it->size = size;
	it->text_len = 0;
	c->filling->len += size;
	c->filling->item_cnt++;
	return it;
}

static bool put_text(struct crew *c, const struct trace_event *ev)
{
	struct out *o = c->own->out;
	struct item *it;

	c->own->ops->event(c->own, ev);
	it = new_item(c, o->len);
	if (it) {
		it->text_len = o->len;
		memcpy(it + 1, o->buf, o->len);
	}
	o->len = o->mark = 0;
	return it;
}

static size_t room_of(const char *s)
{
	return s ? strlen(s) + 1 : 0;
}

static const char *put_string(char **p, const char *s, size_t size)
{
	char *at = *p;

	*p += size;
	return size ? memcpy(at, s, size) : NULL;
}

/* What JSON of a call shows. */
static bool put_call(struct crew *c, const struct trace_event *ev)
{
	size_t comm = room_of(ev->comm), kernel = room_of(ev->launch.kernel);
	size_t mangled = room_of(ev->launch.kernel_mangled),
	       words = ev->word_cnt * sizeof(*ev->words);
	size_t caps = 0, stack = ev->stack ? sizeof(*ev->stack) : 0;
	struct item *it;
	char *p;

	for (unsigned i = 0; i < ev->cap_cnt; i++)
		caps += ev->caps[i].len > 0 ? (ev->caps[i].len + 7) & ~7 : 0;
	it = new_item(c, words + caps + stack + comm + kernel + mangled);
	if (!it)
		return false;
	it->ev = *ev;
	p = (char *)(it + 1);
	it->ev.words = words ? memcpy(p, ev->words, words) : NULL;
	p += words;
	for (unsigned i = 0; i < ev->cap_cnt; i++) {
		if (ev->caps[i].len <= 0)
			continue;
		it->ev.caps[i].data = memcpy(p, ev->caps[i].data, ev->caps[i].len);
		p += (ev->caps[i].len + 7) & ~7;
	}
	/* Its id. */
	it->ev.stack = stack ? memcpy(p, ev->stack, stack) : NULL;
	p += stack;
	it->ev.comm = put_string(&p, ev->comm, comm);
	it->ev.launch.kernel = put_string(&p, ev->launch.kernel, kernel);
	it->ev.launch.kernel_mangled = put_string(&p, ev->launch.kernel_mangled, mangled);
	return true;
}

void crew__event(struct crew *c, const struct trace_event *ev)
{
	bool is_call = ev->kind == EVENT_CALL && ev->fn && !ev->text;

	if (is_call ? put_call(c, ev) : put_text(c, ev))
		return;
	/* A stack of long names: whoever chose them shall not choose our memory. */
	crew__wait(c);
	c->s->ops->event(c->s, ev);
}

void crew__wait(struct crew *c)
{
	if (c->filling->len)
		submit(c);
	pthread_mutex_lock(&c->lock);
	while (c->written != c->filled)
		pthread_cond_wait(&c->room, &c->lock);
	c->s->lost_cnt += c->lost_cnt;
	c->lost_cnt = 0;
	pthread_mutex_unlock(&c->lock);
}

bool crew__failed(const struct crew *c)
{
	return __atomic_load_n(&c->failed, __ATOMIC_RELAXED);
}

void crew__free(struct crew *c)
{
	if (!c)
		return;
	if (c->thread_cnt)
		crew__wait(c);
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->work);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->thread_cnt; i++)
		pthread_join(c->threads[i], NULL);
	for (unsigned i = 0; c->batches && i < c->batch_cnt; i++) {
		free(c->batches[i].items);
		free_copy(c->batches[i].words);
	}
	free_copy(c->own);
	free(c->batches);
	free(c);
}
