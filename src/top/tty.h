/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The terminal while a screen is drawn on it. Meanwhile all output, also of the command, goes to an
 * unnamed file, which is printed when the screen is closed. The command reads nothing.
 *
 * The terminal is restored before another program gets it, however we end. For that, the initial
 * process becomes "cudatrace-tty", which only waits for the tracer, its child, and returns its exit
 * status.
 */
#ifndef TOP_TTY_H
#define TOP_TTY_H

#include <stdbool.h>
#include <stdio.h>

struct tty {
	FILE *in, *out; /* the terminal */
	FILE *behind;
	long shown;    /* part of behind that was printed */
	int kept[3];   /* original standard descriptors; -1: not changed */
	int keeper_fd; /* to cudatrace-tty */
};

/* stdin and stdout are a terminal. Returns in the tracer: 0, or -errno after reporting. */
int tty__open(struct tty *t);
/* Marks the terminal as changed, until tty__restore(). */
void tty__taken(struct tty *t);
/* The terminal was restored: prints the output collected behind the screen. To be called again at
 * the end, for what the command has written since. */
void tty__restore(struct tty *t);
/* Bytes of that output. */
long tty__waiting(struct tty *t);
/* Returns whether the terminal or its keeper is gone. */
bool tty__is_lost(const struct tty *t);
void tty__close(struct tty *t);

#endif /* TOP_TTY_H */
