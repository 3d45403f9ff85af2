/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The screen: all processes, or the functions of one; help. By ncurses. */
#ifndef TOP_SCREEN_H
#define TOP_SCREEN_H

#include "view.h"
#include "tty.h"

struct screen {
	struct tty *tty;
	void *curses; /* NULL: not drawn */
	bool is_utf8, has_red;
	bool paused, in_help;
	const void
		*dived; /* target of the process whose functions are shown; NULL: all processes */
	const void *picked;	    /* key of the selected line */
	unsigned at, first;	    /* line number of the selection, and of the first visible line
				     */
	int above;		    /* lines above the table */
	struct view_order order[2]; /* order of processes; of functions */
	struct view view;	    /* as last drawn */
};

/* 0, or -errno after reporting. */
int screen__open(struct screen *s, struct tty *t);
void screen__close(struct screen *s);
/* Handles pressed keys. false: quit. */
bool screen__keys(struct screen *s, const struct top_stats *r);
void screen__draw(struct screen *s, const struct top_stats *r);

#endif /* TOP_SCREEN_H */
