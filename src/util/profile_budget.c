/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "profile_budget.h"

#include "clock.h"

#define PART   100
#define MAX_NS ((int64_t)SEC_NS / 10)

static bool started;
static unsigned depth;
static uint64_t begun_ns, paid_ns, spent_ns;
static int64_t left_ns;

static uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void profile_budget__start(void)
{
	started = true;
	paid_ns = now_ns();
	left_ns = MAX_NS;
}

void profile_budget__spend(uint64_t ns)
{
	spent_ns += ns;
	left_ns -= (int64_t)ns;
}

void profile_budget__spend_within(uint64_t ns)
{
	if (depth)
		profile_budget__spend(ns);
}

void profile_budget__begin(void)
{
	if (started && !depth++)
		begun_ns = cpu_ns();
}

void profile_budget__end(void)
{
	if (depth && !--depth)
		profile_budget__spend(cpu_ns() - begun_ns);
}

static int64_t left(void)
{
	uint64_t now = now_ns();

	left_ns += (int64_t)((now - paid_ns) / PART);
	/* The rest of the division counts the next time. */
	paid_ns = now - (now - paid_ns) % PART;
	if (left_ns > MAX_NS)
		left_ns = MAX_NS;
	return left_ns;
}

bool profile_budget__has_time(void)
{
	return !started || left() > (depth ? (int64_t)(cpu_ns() - begun_ns) : 0);
}

bool profile_budget__has_much(void)
{
	return left() >= MAX_NS / 2;
}

uint64_t profile_budget__spent_ns(void)
{
	return spent_ns;
}
