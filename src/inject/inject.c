/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "inject_priv.h"
#include "late_server.h"
#include "library.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/safe_close.h"
#include "util/time_budget.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NONE UINT64_MAX
/* Poll intervals of the rings, because a full ring does not wake us: FAST_MS if one would be full
 * soon, SLOW_MS with any clients, IDLE_MS otherwise. An idle process does not signal that it
 * starts. GPT-2 fills half of a 1 MiB ring in SLOW_MS. So with smaller rings the interval is
 * shorter until the last record is AWAKE_NS old. */
#define FAST_MS	 1
#define SLOW_MS	 10
#define IDLE_MS	 500
#define AWAKE_NS 1000000000ull
#define BEAT_NS	 500000000ull
/* Records read from all processes per round, if all users may connect. Each user gets an equal
 * part, divided by its processes, but at least TURN_MIN each. A process that writes faster than
 * this loses its own records. */
#define TURN	 8192
#define TURN_MIN 16
/* Maximum records of a process that has ended. */
#define REST_MAX 65536
/* Maximum total wait for a process; time reduces it. A thread writes a record in less than a
 * microsecond, unless it is preempted. */
#define WAITED_MAX_NS  20000000ull
#define WAITED_FORGETS 20 /* one part of the elapsed time */
/* Maximum time for counting rejected threads, over all processes. */
#define LEFT_OUT_NS 2000000ull
/* inject__stop(): maximum wait for records being written. */
#define STOP_MAX_NS 20000000ull

/* Parts of a ring. */
#define FAST_PARTS 32

/* Event data of the timer in epoll_fd; the others have none. */
#define THE_TIMER 1

static int open_all(struct inject *in)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = THE_TIMER};
	int ret = safe_close__start() ? settings__open(&in->settings, &in->o) : -EAGAIN;

	if (ret)
		return ret;
	in->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	in->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (in->epoll_fd < 0 || in->timer_fd < 0 ||
	    epoll_ctl(in->epoll_fd, EPOLL_CTL_ADD, in->timer_fd, &ev))
		return -errno;
	return listener__open(in);
}

struct inject *inject__open(const struct inject_opts *o)
{
	struct inject *in = calloc(1, sizeof(*in));
	int ret;

	if (!in) {
		err("out of memory");
		return NULL;
	}
	in->o = *o;
	in->settings.fd = in->listen_fd = in->epoll_fd = in->timer_fd = in->lost_fd = -1;
	in->late_sock = -1;
	in->next_ns = NONE;
	in->slot_room.max = o->slots_max;
	in->count_room.max = o->counts_max;
	shares__open(in);
	in->library = o->name ? NULL : library__put(LIBRARY_INJECT, o->folder);
	if (in->library && o->read_frames)
		in->o.reads_frames = o->read_frames(o->ctx, in->library);
	ret = in->library || o->name ? open_all(in) : -EACCES;
	if (!ret && !o->folder && !o->name)
		lost__open_file(in);
	if (!ret)
		return in;
	if (in->library || o->name)
		err("cannot listen for traced programs: %s", strerror(-ret));
	inject__free(in);
	return NULL;
}

void inject__free(struct inject *in)
{
	if (!in)
		return;
	late_server__end(in);
	listener__close(in);
	clients__free(in);
	owners__free(in);
	lost__close_file(in);
	for (unsigned i = 0; i < in->file_cnt; i++)
		free(in->files[i].path);
	settings__close(&in->settings);
	if (in->epoll_fd >= 0)
		close(in->epoll_fd);
	if (in->timer_fd >= 0)
		close(in->timer_fd);
	free(in->library);
	free(in);
}

int inject__fd(const struct inject *in)
{
	return in->epoll_fd;
}

static void set_timer(struct inject *in, unsigned ms)
{
	struct itimerspec t = {{0, ms * 1000000}, {0, ms * 1000000}};

	if (ms == in->timer_ms)
		return;
	in->timer_ms = ms;
	timerfd_settime(in->timer_fd, 0, &t, NULL);
}

static void beat(struct inject *in, uint64_t now)
{
	struct ct_shm_set *set = in->settings.set;

	if (now - set->beat_ns >= BEAT_NS)
		__atomic_store_n(&set->beat_ns, now, __ATOMIC_RELAXED);
}

/* Handles events on descriptors. */
static void look_outside(struct inject *in, uint64_t now)
{
	struct epoll_event ev[8];
	int cnt = epoll_wait(in->epoll_fd, ev, 8, 0);
	bool is_news = in->conn_cnt || in->stopped;
	uint64_t ticks;

	if (cnt <= 0)
		return;
	(void)!read(in->timer_fd, &ticks, sizeof(ticks));
	beat(in, now);
	for (int i = 0; i < cnt; i++)
		is_news |= ev[i].data.u32 != THE_TIMER;
	/* accept() creates a socket before it finds the queue empty. */
	if (is_news)
		listener__poll(in);
	late_server__look(in);
	clients__look(in, now);
	quiet__look(in, now);
	lost__look(in);
}

bool inject__is_over(struct inject *in)
{
	uint64_t now = now_ns();

	if (in->over || gpu__expects_more(in, now))
		return in->over;
	for (unsigned i = 0; i < in->client_cnt; i++)
		shm__end(&in->clients[i]->shm, now);
	return in->over = true;
}

/* Only records sent by now. */
static bool has_records(const struct client *p, uint64_t now)
{
	for (unsigned k = 0; k < p->shm.slot_cnt; k++)
		if (p->shm.slots[k].size && p->shm.slots[k].key <= now)
			return true;
	return false;
}

/* A round ends when no process with turns left has records. */
static void give_turns(struct inject *in, uint64_t now)
{
	unsigned users = 0;

	for (unsigned i = 0; i < in->owner_cnt; i++)
		in->owners[i]->with_records = 0;
	for (unsigned i = 0; i < in->client_cnt && in->o.folder; i++) {
		struct client *p = in->clients[i];

		if (!has_records(p, now))
			continue;
		if (p->turn)
			return;
		users += !p->shm.owner->with_records++;
	}
	for (unsigned i = 0; i < in->client_cnt; i++) {
		struct client *p = in->clients[i];
		unsigned cnt = p->shm.owner->with_records, turn = TURN;

		if (users)
			turn /= users * (cnt ? cnt : 1);
		p->turn = !in->o.folder ? UINT32_MAX : turn > TURN_MIN ? turn : TURN_MIN;
	}
}

/* A record is being made: returns whether the process may still be waited for. */
static bool is_waited_for(struct client *p)
{
	uint64_t now = now_ns(), less = (now - p->waited_at_ns) / WAITED_FORGETS;

	if (!p->wait_ns) {
		p->wait_ns = now;
		p->waited_ns -= less < p->waited_ns ? less : p->waited_ns;
		p->waited_at_ns = now;
	}
	return p->waited_ns + (now - p->wait_ns) < WAITED_MAX_NS;
}

static void is_whole(struct client *p)
{
	if (p->wait_ns)
		p->waited_ns += now_ns() - p->wait_ns;
	if (p->waited_ns > WAITED_MAX_NS)
		p->waited_ns = WAITED_MAX_NS;
	p->wait_ns = 0;
}

static void look_at(struct inject *in, struct client *p, uint64_t now, bool *whole,
		    uint64_t *filled, uint64_t *next)
{
	struct shm *m = &p->shm;
	bool of_it = true;

	shm__find_slots(m);
	if (gpu__is_used(in))
		gpu__look(in, p);
	if (in->o.stalls)
		stalls__look(in, p);
	for (unsigned k = 0; k < m->slot_cnt; k++) {
		uint64_t of;

		of_it &= shm__look(m, k, now);
		of = (m->slots[k].head - m->slots[k].released) * FAST_PARTS / m->ring_sz;
		*filled = of > *filled ? of : *filled;
		if (m->slots[k].size && m->slots[k].key < *next)
			*next = m->slots[k].key;
	}
	if (of_it || p->pidfd < 0)
		is_whole(p);
	else if (!in->o.folder || is_waited_for(p))
		*whole = false;
	if (m->broken_cnt >= SHM_BROKEN_MAX && !in->warned_broken) {
		in->warned_broken = true;
		warn("process %d sends invalid records: its calls are not read; further such "
		     "processes are only counted",
		     p->pid);
	}
}

/* filled: used part of the fullest ring, in units of 1/FAST_PARTS. */
static unsigned look_ms(const struct inject *in, uint64_t filled, uint64_t now)
{
	uint64_t slow_ms = SLOW_MS * in->o.ring_sz / CT_SHM_RING_SZ;

	if (!in->client_cnt && !in->conn_cnt)
		return IDLE_MS;
	/* At FAST_MS intervals, the arrivals are a tenth of those in SLOW_MS. */
	if (filled >= (in->timer_ms == FAST_MS ? 1 : FAST_PARTS / 4))
		return FAST_MS;
	if (slow_ms >= SLOW_MS || now - in->record_ns >= AWAKE_NS)
		return SLOW_MS;
	return slow_ms > FAST_MS ? slow_ms : FAST_MS;
}

bool inject__look(struct inject *in, uint64_t now)
{
	bool whole = true;
	uint64_t filled = 0, next = NONE;

	look_outside(in, now);
	/* Do not wait for processes that continue to write. */
	if (in->stopped)
		inject__is_over(in);
	for (unsigned i = 0; i < in->client_cnt; i++)
		look_at(in, in->clients[i], now, &whole, &filled, &next);
	if (in->synth_at < in->synth_cnt && in->synth[in->synth_at].key < next)
		next = in->synth[in->synth_at].key;
	in->next_ns = next;
	if (next != NONE)
		in->record_ns = now;
	give_turns(in, now);
	set_timer(in, look_ms(in, filled, now));
	return whole;
}

uint64_t inject__next_ns(const struct inject *in)
{
	return in->next_ns;
}

struct merge_head {
	struct client *client; /* NULL: a record of our own */
	unsigned slot;
	uint64_t key, others; /* and the key of the next oldest record in another slot */
};

static struct merge_head find_oldest(const struct inject *in)
{
	struct merge_head o = {.key = NONE, .others = NONE};

	for (unsigned i = 0; i < in->client_cnt; i++) {
		struct client *p = in->clients[i];

		for (unsigned k = 0; p->turn && k < p->shm.slot_cnt; k++) {
			const struct shm_slot *s = &p->shm.slots[k];

			if (!s->size)
				continue;
			if (s->key < o.key) {
				o.others = o.key;
				o.client = p;
				o.slot = k;
				o.key = s->key;
			} else if (s->key < o.others) {
				o.others = s->key;
			}
		}
	}
	/* Our own records come last, because they report the end of others. */
	if (in->synth_at < in->synth_cnt && in->synth[in->synth_at].key < o.key) {
		o.others = o.key;
		o.client = NULL;
		o.key = in->synth[in->synth_at].key;
	} else if (in->synth_at < in->synth_cnt && in->synth[in->synth_at].key < o.others) {
		o.others = in->synth[in->synth_at].key;
	}
	return o;
}

static void give(struct inject *in, const struct merge_head *o)
{
	union {
		struct ct_rec rec;
		uint64_t align;
		uint8_t bytes[CT_SHM_REC_MAX];
	} buf;
	size_t size;

	if (!o->client) {
		const struct synth_record *m = &in->synth[in->synth_at++];

		in->o.fn(in->o.ctx, &m->rec, m->size);
		return;
	}
	o->client->turn -= o->client->turn && in->o.folder;
	size = shm__take(&o->client->shm, o->slot, &buf);
	if (!clients__own(in, o->client, o->slot, &buf, size))
		o->client->shm.bad_cnt++;
	else if (!gpu__is_late(in, &buf.rec))
		in->o.fn(in->o.ctx, &buf, size);
}

/* A thread's records usually arrive in runs: check the other slots once per run. */
size_t inject__take(struct inject *in, size_t max, uint64_t until)
{
	size_t cnt = 0;

	while (cnt < max) {
		struct merge_head o = find_oldest(in);

		in->next_ns = o.key;
		if (o.key > until || o.key == NONE)
			break;
		do {
			give(in, &o);
			cnt++;
		} while (cnt < max && o.client && o.client->turn &&
			 o.client->shm.slots[o.slot].size &&
			 o.client->shm.slots[o.slot].key <= until &&
			 o.client->shm.slots[o.slot].key < o.others);
	}
	if (cnt == max)
		in->next_ns = find_oldest(in).key;
	for (unsigned i = 0; i < in->client_cnt; i++)
		for (unsigned k = 0; k < in->clients[i]->shm.slot_cnt; k++)
			shm__release(&in->clients[i]->shm, k);
	return cnt;
}

bool inject__was_full(struct inject *in)
{
	bool was = false;

	for (unsigned i = 0; i < in->client_cnt; i++) {
		was |= in->clients[i]->shm.was_full;
		in->clients[i]->shm.was_full = false;
	}
	return was;
}

void inject__totals(struct inject *in, struct ct_totals *sum)
{
	uint64_t now = now_ns();

	*sum = in->ended;
	sum->drops[CT_DROP_PROCESSES] += in->refused_cnt;
	sum->drops[in->o.folder ? CT_DROP_INPROC : CT_DROP_PROCESSES] += in->lost_cnt;
	for (unsigned i = 0; i < in->client_cnt; i++) {
		shm__read_totals(&in->clients[i]->shm, now, now + LEFT_OUT_NS);
		clients__add_totals(in, in->clients[i], sum);
	}
}

uint64_t inject__bad_records(const struct inject *in)
{
	uint64_t cnt = in->gone_bad_cnt;

	for (unsigned i = 0; i < in->client_cnt; i++)
		cnt += in->clients[i]->shm.bad_cnt;
	return cnt;
}

void inject__gpu_totals(const struct inject *in, struct ct_shm_gpu *sum)
{
	uint64_t now = now_ns();

	*sum = in->gone_gpu;
	for (unsigned i = 0; i < in->client_cnt; i++) {
		gpu__read_totals(in->clients[i], now);
		gpu__add_totals(in->clients[i], sum);
	}
}

void inject__stalls_totals(const struct inject *in, struct ct_shm_stalls *sum)
{
	uint64_t now = now_ns();

	*sum = in->gone_stalls;
	for (unsigned i = 0; i < in->client_cnt; i++) {
		stalls__read_totals(in->clients[i], now);
		stalls__add_totals(in->clients[i], sum);
	}
}

void inject__drop_owners(struct inject *in, void (*fn)(void *ctx, uint32_t pid), void *ctx)
{
	for (unsigned i = 0; i < in->client_cnt; i++) {
		struct client *p = in->clients[i];
		struct ct_totals sum = {0};
		uint64_t drops;

		clients__add_totals(in, p, &sum);
		drops = drops_sum(sum.drops);
		if (drops > p->drops)
			fn(ctx, p->pid);
		p->drops = drops;
	}
}

/* A thread that has begun a record completes it. Then it detects that tracing has ended. */
static bool is_busy(const struct inject *in)
{
	for (unsigned i = 0; i < in->client_cnt; i++)
		for (unsigned k = 0; in->clients[i]->pidfd >= 0 && k < in->clients[i]->shm.slot_cnt;
		     k++)
			if (__atomic_load_n(&shm__slot(&in->clients[i]->shm, k)->busy,
					    __ATOMIC_ACQUIRE))
				return true;
	return false;
}

void inject__stop(struct inject *in)
{
	const struct timespec ms = {0, 1000000};
	uint64_t begin = now_ns();

	/* Receive the messages of programs that ended at once. */
	listener__poll(in);
	gpu__end(in);
	/* Later children cannot connect, and are not part of the trace. */
	lost__look(in);
	in->stopped = true;
	in->stopped_ns = begin;
	__atomic_store_n(&in->settings.set->ended, 1, __ATOMIC_SEQ_CST);
	settings__changed(&in->settings);
	/* At least once: stores that a processor had not published yet are visible afterwards. */
	do
		nanosleep(&ms, NULL);
	while (is_busy(in) && now_ns() - begin < STOP_MAX_NS);
	inject__is_over(in);
	/* No more messages are sent, but ended processes are still reported. */
	listener__close(in);
}

static void give_synth(struct inject *in)
{
	while (in->synth_at < in->synth_cnt) {
		const struct synth_record *m = &in->synth[in->synth_at++];

		in->o.fn(in->o.ctx, &m->rec, m->size);
	}
}

/* Reads the rest of a process that has used its turns, before its end is reported. */
static void give_rest(struct inject *in, struct client *p)
{
	struct work w;

	if (time_budget__begin(&w, p->uid, WORK_RINGS))
		return;
	for (unsigned n = 0; n < REST_MAX && time_budget__has_time(); n++) {
		struct merge_head o = {.client = p, .key = NONE};

		for (unsigned k = 0; k < p->shm.slot_cnt; k++) {
			if (!p->shm.slots[k].size || p->shm.slots[k].key >= o.key)
				continue;
			o.key = p->shm.slots[k].key;
			o.slot = k;
		}
		if (o.key == NONE)
			break;
		give(in, &o);
	}
	time_budget__end(&w);
}

void inject__left(struct inject *in, pid_t pid, ct_generation generation, uint64_t now)
{
	clients__left(in, pid, generation, now);
	for (unsigned i = 0; i < in->client_cnt; i++)
		if (in->clients[i]->pid == pid && in->clients[i]->pidfd < 0 &&
		    !in->clients[i]->turn)
			give_rest(in, in->clients[i]);
	give_synth(in);
}

void inject__unfinished(struct inject *in)
{
	uint64_t now = now_ns();

	for (unsigned i = 0; i < in->client_cnt; i++)
		if (in->clients[i]->pidfd >= 0)
			clients__give_up(in, in->clients[i], now);
	give_synth(in);
}

static void give_thread(const struct client *p, unsigned slot, thread_fn fn, void *ctx)
{
	const struct ct_shm_slot *s = shm__slot(&p->shm, slot);
	const uint64_t age = shm__age(&p->shm, now_ns());
	struct ct_frame frames[CT_MAX_DEPTH];
	const struct seen_thread seen = {
		.pid = p->pid,
		.tid = p->shm.slots[slot].tid,
		.spent_ns = s->cost_ns < age ? s->cost_ns : age,
		.frames = frames,
		.depth = p->pidfd >= 0 ? shm__depth(&p->shm, slot) : 0,
	};

	shm_copy(frames, s->frames, seen.depth * sizeof(frames[0]));
	fn(ctx, &seen);
}

void inject__each_thread(struct inject *in, thread_fn fn, void *ctx)
{
	for (unsigned i = 0; i < in->client_cnt; i++)
		for (unsigned k = 0; k < in->clients[i]->shm.slot_cnt; k++)
			give_thread(in->clients[i], k, fn, ctx);
}
