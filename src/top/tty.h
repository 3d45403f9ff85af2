/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The terminal while a screen is drawn on it. What we and the command would write there lies behind
 * the screen, in a file without a name, and comes out when it is gone; the command reads nothing.
 *
 * Whatever ends us, the terminal is put back before anybody else gets it: who was started becomes
 * "cudatrace-tty", which does nothing but wait for the tracer, its child, and has its exit status.
 */
#ifndef TOP_TTY_H
#define TOP_TTY_H

#include <stdbool.h>
#include <stdio.h>

struct tty {
	FILE *in, *out; /* the terminal */
	FILE *behind;
	long shown;    /* of behind */
	int kept[3];   /* standard descriptors as they were; -1: not changed */
	int keeper_fd; /* to cudatrace-tty */
};

/* stdin and stdout are a terminal. Returns in the tracer: 0, or -errno after reporting. */
int tty__open(struct tty *t);
/* It looks different from how it was, until tty__restore(). */
void tty__taken(struct tty *t);
/* It was put back: what lay behind the screen comes out. To be called once more at the end, for
 * what the command has written since. */
void tty__restore(struct tty *t);
/* Bytes that wait for that. */
long tty__waiting(struct tty *t);
/* The terminal is gone, or who looks after it. */
bool tty__is_lost(const struct tty *t);
void tty__close(struct tty *t);

#endif /* TOP_TTY_H */
