/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "time_budget.h"

#include "clock.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>

#define TURN_NS 20e6
/* A user's limit in a turn for small work that is not retried. */
#define SMALL_NS (10 * TURN_NS)
/* Limits of one piece of work: processor time, and wall time on a busy machine; 50 times that in a
 * trace. */
#define PIECE_CPU_NS  20e6
#define PIECE_WALL_NS 300e6
#define TRACE_TIMES   50
/* Use decays with this time constant: a share of it is what may be used at once. */
#define FORGET_NS 40e9
#define USER_NS	  (0.05 * FORGET_NS)
#define ALL_NS	  (0.20 * FORGET_NS)
/* One long piece locks a user out for at most half a minute. */
#define DEBT_TIMES 2
#define USERS_MAX  256
/* A user who has used less counts as idle. */
#define IDLE_NS 1e5

struct user {
	uid_t uid;
	double used_ns; /* at at_ns; it decays afterwards */
	uint64_t at_ns;
	uint64_t turn; /* the last turn with work */
	double turn_ns;
};

/* Further users share the last entry. */
static struct user users[USERS_MAX + 1];
static unsigned user_cnt;
static struct user everyone;
static bool limited;
static uint64_t turn;
static double turn_ns;
static uint64_t outer_begin_ns; /* start of work that is not nested; 0: none */
static uint64_t outer_cpu_ns, outer_excused_ns;
static enum work_kind outer_kind;
static struct time_budget_stats totals;

static const char *const names[WORK_CNT] = {
	[WORK_FILES] = "files", [WORK_LIBRARIES] = "libraries", [WORK_SYMBOLS] = "symbols",
	[WORK_TASKS] = "tasks", [WORK_RINGS] = "rings",		[WORK_HELLOS] = "hellos",
};

const char *work_name(enum work_kind kind)
{
	return names[kind];
}

static double used(struct user *u, uint64_t ns)
{
	u->used_ns *= exp(-(double)(ns - u->at_ns) / FORGET_NS);
	u->at_ns = ns;
	return u->used_ns;
}

void time_budget__start(void)
{
	limited = true;
}

void time_budget__turn(void)
{
	turn++;
	turn_ns = 0;
}

/* Returns the entry of the user; reuses that of an idle user if necessary. */
static struct user *get_user(uid_t uid, uint64_t ns)
{
	struct user *u = &users[USERS_MAX];

	for (unsigned i = 0; i < user_cnt; i++)
		if (users[i].uid == uid)
			return &users[i];
	if (user_cnt < USERS_MAX)
		u = &users[user_cnt++];
	for (unsigned i = 0; i < user_cnt && u == &users[USERS_MAX]; i++)
		if (used(&users[i], ns) < IDLE_NS)
			u = &users[i];
	if (u != &users[USERS_MAX])
		*u = (struct user){.uid = uid, .at_ns = ns};
	return u;
}

/* Half of the mean use of all users who are not idle. */
static double little(uint64_t ns)
{
	unsigned cnt = 1;

	for (unsigned i = 0; i < user_cnt; i++)
		cnt += used(&users[i], ns) >= IDLE_NS;
	return ALL_NS / cnt / 2;
}

static double most(const struct user *u)
{
	return u->uid ? USER_NS : ALL_NS;
}

static double used_in_turn(const struct user *u)
{
	return u->turn == turn ? u->turn_ns : 0;
}

/* For small work that is not retried (names and labels of a process), only the user's own work in
 * this turn counts. */
static bool fits_turn(const struct user *u, enum work_kind kind)
{
	if (kind == WORK_FILES || kind == WORK_SYMBOLS)
		return used_in_turn(u) < SMALL_NS;
	return turn_ns < TURN_NS;
}

static bool may(struct user *u, uint64_t ns)
{
	if (used(u, ns) >= most(u))
		return false;
	return used(&everyone, ns) < ALL_NS || u->used_ns < little(ns);
}

bool time_budget__needs_user(void)
{
	return limited && !outer_begin_ns;
}

bool time_budget__may(uid_t uid)
{
	uint64_t ns = now_ns();
	struct user *u;

	if (!limited || outer_begin_ns)
		return true;
	u = get_user(uid, ns);
	return fits_turn(u, WORK_LIBRARIES) && may(u, ns);
}

bool time_budget__may_half(uid_t uid)
{
	return time_budget__may(uid) &&
	       (!limited || used_in_turn(get_user(uid, now_ns())) < TURN_NS / 2);
}

void time_budget__refuse(enum work_kind kind)
{
	totals.refused[kind]++;
}

int time_budget__begin(struct work *w, uid_t uid, enum work_kind kind)
{
	uint64_t ns = now_ns();
	struct user *u;

	*w = (struct work){.begin_ns = ns};
	if (outer_begin_ns)
		return 0;
	u = get_user(uid, ns);
	if (limited && (!fits_turn(u, kind) || !may(u, ns))) {
		totals.refused[kind]++;
		return -EAGAIN;
	}
	w->user = u;
	outer_begin_ns = ns;
	outer_excused_ns = 0;
	outer_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	outer_kind = kind;
	return 0;
}

bool time_budget__has_time(void)
{
	const double more = limited ? 1 : TRACE_TIMES;

	if (!outer_begin_ns)
		return true;
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - outer_cpu_ns < more * PIECE_CPU_NS &&
	       now_ns() - outer_begin_ns - outer_excused_ns < more * PIECE_WALL_NS;
}

void time_budget__excuse(uint64_t ns)
{
	outer_excused_ns += ns;
}

void time_budget__end(struct work *w)
{
	struct user *u = w->user;
	uint64_t ns = now_ns();
	double took = ns - w->begin_ns - outer_excused_ns;

	if (!u)
		return;
	outer_begin_ns = 0;
	turn_ns += took;
	u->turn_ns = used_in_turn(u) + took;
	u->turn = turn;
	totals.seconds[outer_kind] += took / 1e9;
	used(&everyone, ns);
	everyone.used_ns = fmin(everyone.used_ns + took, DEBT_TIMES * ALL_NS);
	used(u, ns);
	u->used_ns = fmin(u->used_ns + took, DEBT_TIMES * most(u));
}

void time_budget__stats(struct time_budget_stats *stats)
{
	*stats = totals;
}
