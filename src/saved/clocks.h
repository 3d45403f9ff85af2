/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The clocks of the machines whose traces are read together. Each is compared with the others by
 * the collectives of their ranks: no rank leaves one before the last has entered it. All times are
 * then those of one machine, the reference.
 */
#ifndef SAVED_CLOCKS_H
#define SAVED_CLOCKS_H

#include "clock_fit.h"
#include "clock_scan.h"
#include "model/trace.h"

/* Machines; further ones are aligned by wall clocks. */
#define CLOCK_UNITS_MAX 1024

/* Files whose times have the same clock: those of one boot, unless their wall clocks show that a
 * container's clock is shifted. */
struct clock_unit {
	struct trace_info info; /* of its first file */
	enum trace_alignment place;
	int64_t wall_ns;      /* added to its times, by wall clocks */
	struct clock_fit fit; /* further difference, if place is TRACE_BY_COLLECTIVES */
	uint64_t collectives; /* that the fit is from */
};

struct clocks {
	struct clock_unit *units; /* the first is the reference */
	unsigned cnt;
};

/* Returns the unit with this header, or NULL. */
const struct clock_unit *clocks__find(const struct clocks *c, const struct trace_info *info);
/* Adds a unit, if this header is of another one. Returns its number, or CLOCK_UNITS_MAX. */
uint32_t clocks__add(struct clocks *c, const struct trace_info *info);
/* Compares the clocks. Sorts seen. */
void clocks__compare(struct clocks *c, struct clock_seen *seen, unsigned cnt);
/* Whether collectives have placed any unit. */
bool clocks__any(const struct clocks *c);
/* Returns the reference's time at a time of the unit's clock. */
uint64_t clock_unit__time(const struct clock_unit *u, uint64_t own_ns);
/* Copies what is known of the unit's clock. */
void clock_unit__describe(const struct clock_unit *u, struct trace_info *info);
void clocks__free(struct clocks *c);

#endif /* SAVED_CLOCKS_H */
