/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Xids from the kernel log, for drivers that have no tracepoint for them (before 575). */
#ifndef TRACE_KMSG_H
#define TRACE_KMSG_H

#include "source.h"

#include "ct_nv.h"

extern const struct source_ops kmsg_source_ops;

/* Uses an opened log, or a test's substitute, as the source's input. messages: whether records
 * carry the text. */
void kmsg__use(struct source *s, int fd, bool messages);

/* Parses one record of /dev/kmsg ("6,1234,5678901,-;NVRM: Xid (PCI:0000:3b:00): 79, ..."). Strings
 * end with a NUL; the time is the log's own, since boot. */
bool kmsg_parse_xid(const char *record, struct ct_xid *x);

#endif /* TRACE_KMSG_H */
