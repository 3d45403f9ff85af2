/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that submit work to streams, each with the expected event. */
#ifndef CASES_WORK_CALLS_H
#define CASES_WORK_CALLS_H

#include "case.h"

/* A successful call whose members are tested elsewhere; its arguments have 64 bits. */
#define WORK(type, sym, ...)                                                                       \
	do {                                                                                       \
		int r_ = F(sym)(__VA_ARGS__);                                                      \
                                                                                                   \
		expect(#sym, r_, "'type':'" type "'");                                             \
		must(#sym, r_, 0);                                                                 \
	} while (0)

UNUSED static handle work_event(void)
{
	handle e = NULL;

	WORK("event", cuEventCreate, &e, 2);
	return e;
}

UNUSED static void work_wait_for(handle stream, handle other, handle event)
{
	WORK("event", cuEventRecord, event, other);
	WORK("stream", cuStreamWaitEvent, stream, event, 0);
}

#endif /* CASES_WORK_CALLS_H */
