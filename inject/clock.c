/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads CLOCK_MONOTONIC faster than clock_gettime() (23 ns, twice per call). If the kernel derives
 * the clock from the processor's time stamp counter, this file reads that counter (10 ns) and
 * converts it, relative to a recent clock_gettime() in the same thread. The error stays within
 * nanoseconds, because the factor is measured again each second. If the clocks diverge
 * nevertheless, clock_gettime() is used from then on.
 */
#include "inject.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

/* From the clock of the time namespace to the machine's, as set by the tracer. */
static int64_t offset_ns;

void clock_set_offset(int64_t ns)
{
	offset_ns = ns;
}

cold uint64_t inject_now(void)
{
	struct timespec ts;

	/* libc's function usually makes no system call. */
	if (!inject_libc.clock || inject_libc.clock(CLOCK_MONOTONIC, &ts))
		sys(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec - offset_ns;
}

#ifdef __x86_64__
/* Both counters must be read within this many cycles; otherwise the measurement is discarded. */
#define TOGETHER 400
/* The factor is known after the first time, and measured again at the second interval. */
#define FIRST_NS 20000000ull
#define AGAIN_NS 1000000000ull
/* Maximum error of a converted time. */
#define WRONG_NS 2000

bool clock_setup(struct process *p)
{
	int fd = sys(SYS_openat, AT_FDCWD,
		     "/sys/devices/system/clocksource/clocksource0/current_clocksource",
		     O_RDONLY | O_CLOEXEC),
	    allowed = 0;
	char name[8] = "";

	if (fd < 0)
		return false;
	if (sys(SYS_read, fd, name, sizeof(name) - 1) != 4)
		name[0] = 0;
	sys(SYS_close, fd);
	p->tsc_ok = !strcmp(name, "tsc\n") && !sys(SYS_prctl, PR_GET_TSC, &allowed) &&
		    allowed == PR_TSC_ENABLE;
	return p->tsc_ok;
}

/* Both counters, read a second time. */
static void measure(struct process *p, uint64_t tsc, uint64_t ns)
{
	uint64_t since = ns - p->cal_ns, cycles = tsc - p->cal_tsc;

	if (since < (p->mult ? AGAIN_NS : FIRST_NS) ||
	    __atomic_exchange_n(&p->measuring, 1, __ATOMIC_ACQUIRE))
		return;
	if (p->cal_ns && cycles >> 20)
		p->mult = ((unsigned __int128)since << 32) / cycles;
	p->cal_ns = ns;
	p->cal_tsc = tsc;
	__atomic_store_n(&p->measuring, 0, __ATOMIC_RELEASE);
}

cold uint64_t clock_anchor(struct process *p, struct thread *t)
{
	uint64_t before, ns, tsc, predicted = 0;
	int64_t off;

	before = __builtin_ia32_rdtsc();
	ns = inject_now();
	tsc = __builtin_ia32_rdtsc();
	if (p->tsc_ok && tsc - before < TOGETHER) {
		tsc = before + (tsc - before) / 2;
		if (p->mult && t->ns0 && tsc - t->tsc0 < 4 * CLOCK_SPAN)
			predicted = t->ns0 + ((tsc - t->tsc0) * p->mult >> 32);
		off = predicted - ns;
		if (predicted && (off > WRONG_NS || off < -WRONG_NS))
			p->tsc_ok = p->mult = 0;
		else
			measure(p, tsc, ns);
		t->tsc0 = tsc;
		t->ns0 = ns;
	}
	t->mult = p->mult;
	/* Another thread may have found that the clocks diverge: this thread's last time may be
	 * ahead. */
	if (ns < t->last_ns)
		ns = t->last_ns;
	t->last_ns = ns;
	return ns;
}
#else
bool clock_setup(struct process *p)
{
	return false;
}

cold uint64_t clock_anchor(struct process *p, struct thread *t)
{
	return inject_now();
}
#endif
