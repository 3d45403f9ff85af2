/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stray.h"

#include <stdint.h>

#define NOTED (1ull << 32)

/* By signal: NOTED with the sender's pid, or 0. Lock-free on x86-64 and arm64. */
static uint64_t noted[32];

void stray_note(int signo, pid_t sender)
{
	__atomic_store_n(&noted[signo], NOTED | (uint32_t)sender, __ATOMIC_RELAXED);
}

bool stray_take(int signo, siginfo_t *si)
{
	uint64_t note = __atomic_exchange_n(&noted[signo], 0, __ATOMIC_RELAXED);

	if (!note)
		return false;
	*si = (siginfo_t){.si_signo = signo, .si_code = SI_USER};
	si->si_pid = (pid_t)note;
	return true;
}
