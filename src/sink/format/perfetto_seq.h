/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The packets of a Perfetto trace. All are of one sequence, which says each text once and a time as
 * the distance from the one before. A unit of the output is a packet, or the two of a slice.
 */
#ifndef SINK_FORMAT_PERFETTO_SEQ_H
#define SINK_FORMAT_PERFETTO_SEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/out.h"

struct intern;

/* Numbers of texts are below, but for a few at the very end. */
#define PSEQ_TEXTS_MAX (1 << 16)

struct pseq {
	struct out *out;	   /* where packets go; not owned */
	struct out *packet, *news; /* the one that is made; what it interns */
	struct intern *texts;	   /* since the state was cleared */
	struct intern *tracks;
	unsigned cleared; /* how often the state was */
	uint64_t last_ns;
	uint64_t lost; /* of out, when the state was cleared */
	size_t event;  /* where the packet's track event begins */
};

/* Units of out are packets from now on. -ENOMEM or 0; pseq__free() either way. */
int pseq__init(struct pseq *q, struct out *out);
void pseq__free(struct pseq *q);
/* The first packet of a file: the clocks. Nothing said before counts; numbers of tracks go on. */
void pseq__begin(struct pseq *q, uint64_t base_ns, uint64_t wall_ns);
/* Before an event: begins anew when packets were lost, or when too much is interned. */
void pseq__ready(struct pseq *q);

/* Number of a text of that field of InternedData. Its characters are valid UTF-8 then. */
uint64_t pseq__text(struct pseq *q, unsigned field, const char *s, size_t len);
/* A track's number, which no other had. *is_new: it is to be described. */
uint64_t pseq__track(struct pseq *q, unsigned kind, const void *key, size_t len, bool *is_new);

/* A packet with a message that is not closed yet: q->packet is where its fields go. */
void pseq__open(struct pseq *q, unsigned field, uint64_t ns);
/* A track event; with_next: the packet that comes next belongs to the same unit. */
void pseq__event(struct pseq *q, uint64_t ns, unsigned type, uint64_t track, bool with_next);
void pseq__close(struct pseq *q);
/* Ends the unit. */
void pseq__commit(struct pseq *q);

#endif /* SINK_FORMAT_PERFETTO_SEQ_H */
