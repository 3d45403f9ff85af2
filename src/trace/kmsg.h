/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Xids from the kernel log, for drivers that have no trace point for them (before 575). */
#ifndef TRACE_KMSG_H
#define TRACE_KMSG_H

#include "model/event.h"

/* Opens the log at its end. -errno when it may not be read. */
int kmsg__open(void);
/* Reads what is new and calls fn for each Xid. */
void kmsg__read(int fd, bool messages, void (*fn)(void *ctx, const struct event *ev), void *ctx);

struct kmsg_xid {
	uint64_t ts_ns; /* since boot, the kernel's own clock */
	uint32_t number;
	char gpu[32]; /* "PCI:0000:3b:00" */
	char message[256];
};
/* One record of /dev/kmsg ("6,1234,5678901,-;NVRM: Xid (PCI:0000:3b:00): 79, ..."). */
bool kmsg_parse_xid(const char *record, struct kmsg_xid *x);

#endif /* TRACE_KMSG_H */
