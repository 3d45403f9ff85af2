/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The packets of a Perfetto trace. All belong to one sequence, which writes each text once and each
 * time as the difference to the previous one. A unit of the output is a packet, or the two of a
 * slice.
 */
#ifndef SINK_FORMAT_PERFETTO_SEQ_H
#define SINK_FORMAT_PERFETTO_SEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/out.h"

struct intern;

/* Numbers of texts stay below, except for a few at the very end. */
#define PSEQ_TEXTS_MAX (1 << 16)

struct pseq {
	struct out *out;	   /* output for packets; not owned */
	struct out *packet, *news; /* the packet being made; what it interns */
	struct intern *texts;	   /* interned since the state was cleared */
	struct intern *tracks;
	unsigned cleared; /* how often the state was cleared */
	uint64_t last_ns;
	uint64_t lost; /* out->lost when the state was cleared */
	size_t event;  /* start of the packet's track event */
};

/* Units of out are packets from now on. 0 or -ENOMEM; call pseq__free() in both cases. */
int pseq__init(struct pseq *q, struct out *out);
void pseq__free(struct pseq *q);
/* Writes the first packet of a file: the clocks. Clears the state; numbers of tracks continue. */
void pseq__begin(struct pseq *q, uint64_t base_ns, uint64_t wall_ns);
/* To be called before an event: clears the state when packets were lost, or when too much is
 * interned. */
void pseq__ready(struct pseq *q);

/* Returns the number of a text of that field of InternedData, written as valid UTF-8. */
uint64_t pseq__text(struct pseq *q, unsigned field, const char *s, size_t len);
/* Returns a track's unique number. *is_new: the caller must describe it. */
uint64_t pseq__track(struct pseq *q, unsigned kind, const void *key, size_t len, bool *is_new);

/* Opens a packet with a message: its fields go to q->packet. */
void pseq__open(struct pseq *q, unsigned field, uint64_t ns);
/* Opens a track event; with_next: the next packet belongs to the same unit. */
void pseq__event(struct pseq *q, uint64_t ns, unsigned type, uint64_t track, bool with_next);
void pseq__close(struct pseq *q);
/* Ends the unit. */
void pseq__commit(struct pseq *q);

#endif /* SINK_FORMAT_PERFETTO_SEQ_H */
