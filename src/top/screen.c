/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "screen.h"

#include "text/term.h"
#include "util/log.h"
#include "util/plain.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define NCURSES_NOMACROS
#include <curses.h>

/* Minimum width of the name column; columns of numbers are dropped to keep it. */
#define NAME_MIN 16
#define KEY_ESC	 27
#define RED	 1

static const char *const keys_text[] = {
	"q              quit; a command that was started continues",
	"Up Down k j    mark a line; Page Up, Page Down, Home, End",
	"Enter          the functions of the marked process",
	"Esc Backspace  back to all processes",
	"< >            sort by the previous or next column; 1 to 9: by that column",
	"r              reverse the order",
	"Space          pause the display until it is pressed again",
	"? h            this help",
};

/* A handler is reset when another program runs, an ignored signal is not. */
static void on_stop(int sig)
{
}

/* Continuing after a stop needs system calls that the sandbox forbids; and we could not detect that
 * the command stopped with us. */
static void ignore_stops(const struct tty *t)
{
	struct termios modes;

	signal(SIGTSTP, on_stop);
	if (tcgetattr(fileno(t->in), &modes))
		return;
	modes.c_cc[VSUSP] = modes.c_cc[VQUIT] = _POSIX_VDISABLE;
	tcsetattr(fileno(t->in), TCSANOW, &modes);
	def_prog_mode();
}

int screen__open(struct screen *s, struct tty *t)
{
	setlocale(LC_CTYPE, "");
	s->is_utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	s->order[0] = procs_order;
	s->order[1] = fns_order;
	s->tty = t;
	s->curses = newterm(NULL, t->out, t->in);
	if (!s->curses) {
		err("cannot draw on this terminal: use cudatrace top --once, which prints a table");
		return -ENOTTY;
	}
	cbreak();
	ignore_stops(t);
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	tty__taken(t);
	s->has_red = !getenv("NO_COLOR") && has_colors() && start_color() == OK &&
		     use_default_colors() == OK && init_pair(RED, COLOR_RED, -1) == OK;
	return 0;
}

void screen__close(struct screen *s)
{
	if (s->curses) {
		/* The terminal may no longer be ours, but has to be restored all the same. */
		signal(SIGTTOU, SIG_IGN);
		endwin();
		delscreen(s->curses);
	}
	s->curses = NULL;
	view__free(&s->view);
}

/* Draws our own text, in at most width columns. */
static void put(const struct screen *s, int y, int x, int width, const char *text)
{
	if (width <= 0 || move(y, x) == ERR)
		return;
	for (; *text && width; width--) {
		unsigned n = plain_len(text, strlen(text));

		if (n > 1 && s->is_utf8)
			addnstr(text, n);
		else /* the only such character in numbers is µ */
			addch(n == 1 ? *text : n ? 'u' : '?');
		text += n ?: 1;
	}
}

/* Draws a name from another program. */
static void put_name(int y, int x, int width, const char *name)
{
	if (width <= 0 || move(y, x) == ERR)
		return;
	for (; *name && width; name++, width--)
		addch(*name >= ' ' && *name <= '~' ? *name : '?');
}

static void put_line(const struct screen *s, int y, const char *text)
{
	put(s, y, 0, COLS, text);
}

/* Draws words in as many lines as needed. Returns the next line. */
static int put_words(const struct screen *s, int y, const char *text)
{
	int x = 0;

	while (*text) {
		size_t len = strcspn(text, " ");
		int width = term_columns(text, len);

		if (x && x + 1 + width > COLS) {
			x = 0;
			y++;
		}
		x += x > 0;
		put(s, y, x, width, text);
		x += width;
		text += len + strspn(text + len, " ");
	}
	return y + 1;
}

/* Number of lines available for the table. */
static int room_of(const struct screen *s)
{
	int room = LINES - s->above - 2;

	return room > 0 ? room : 0;
}

/* The columns that fit, as bits. */
static unsigned fitting(const struct view *view)
{
	unsigned shown = (1u << view->col_cnt) - 1;

	for (;;) {
		int width = NAME_MIN, spare = -1;

		for (unsigned c = 0; c < view->col_cnt; c++) {
			const struct view_col *col = &view->cols[c];

			if (!(shown >> c & 1))
				continue;
			width += col->width + 1;
			if (col->spare && (spare < 0 || col->spare > view->cols[spare].spare))
				spare = c;
		}
		if (width <= COLS || spare < 0)
			return shown;
		shown &= ~(1u << spare);
	}
}

static struct view_order *order_of(struct screen *s)
{
	return &s->order[s->dived != NULL];
}

static const struct top_row *row_of(const struct top_stats *r, const struct metrics_target *target)
{
	return target ? top_row_table__find(&r->all, &target) : NULL;
}

static void draw_heads(struct screen *s, unsigned shown)
{
	const struct view *view = &s->view;
	unsigned by = order_of(s)->col;
	int x = 0, y = s->above;

	attrset(A_REVERSE);
	mvhline(y, 0, ' ', COLS);
	for (unsigned c = 0; c < view->col_cnt; c++) {
		const struct view_col *col = &view->cols[c];
		int pad = col->is_text ? 0 : col->width - (int)strlen(col->head);

		if (!(shown >> c & 1))
			continue;
		attrset(c == by ? A_REVERSE | A_BOLD | A_UNDERLINE : A_REVERSE);
		put(s, y, x + pad, COLS - x - pad, col->head);
		x += col->width + 1;
	}
	attrset(by == view->col_cnt ? A_REVERSE | A_BOLD | A_UNDERLINE : A_REVERSE);
	put(s, y, x, COLS - x, view->name_head);
	attrset(A_NORMAL);
}

static void draw_row(struct screen *s, int y, const struct view_line *l, unsigned shown)
{
	int x = 0;

	attrset(l->key == s->picked	  ? A_REVERSE
		: l->is_over		  ? A_DIM
		: l->failed && s->has_red ? (attr_t)COLOR_PAIR(RED)
					  : A_NORMAL);
	mvhline(y, 0, ' ', COLS);
	for (unsigned c = 0; c < s->view.col_cnt; c++) {
		const struct view_col *col = &s->view.cols[c];
		int pad = col->width - (int)term_columns(l->cell[c], strlen(l->cell[c]));

		if (!(shown >> c & 1))
			continue;
		if (col->is_text)
			put_name(y, x, col->width, l->cell[c]);
		else /* wider than its column: use the gap before it */
			put(s, y, x + (pad < -1 ? -1 : pad), col->width + 1, l->cell[c]);
		x += col->width + 1;
	}
	put_name(y, x, COLS - x, l->name);
	attrset(A_NORMAL);
}

/* The selected line stays selected when it moves, and stays on the screen. */
static void follow_picked(struct screen *s, unsigned room)
{
	unsigned cnt = s->view.cnt, at = 0;

	while (at < cnt && s->view.lines[at].key != s->picked)
		at++;
	if (at < cnt)
		s->at = at;
	else if (s->at >= cnt)
		s->at = cnt ? cnt - 1 : 0;
	s->picked = cnt ? s->view.lines[s->at].key : NULL;
	if (s->first > s->at)
		s->first = s->at;
	if (room && s->at >= s->first + room)
		s->first = s->at - room + 1;
}

static void draw_title(struct screen *s, const struct top_stats *r, const struct top_row *row)
{
	char text[2048], cell[CELL_SZ];
	long waiting = tty__waiting(s->tty);
	bool lost;

	attrset(A_BOLD);
	put_line(s, 0, s->paused ? "cudatrace top  PAUSED" : "cudatrace top");
	attrset(A_NORMAL);
	if (row) {
		snprintf(text, sizeof(text), "process %u%s: ", row->pid,
			 row->ended ? " (ended)" : "");
		put(s, 0, 23, COLS - 23, text);
		put_name(0, 23 + strlen(text), COLS - 23 - strlen(text), row->command ?: "");
	}
	view_sums(r, text, sizeof(text));
	s->above = put_words(s, 1, text);
	lost = view_lost(r, text, sizeof(text));
	if (waiting) {
		size_t n = strlen(text);

		human_bytes(cell, waiting);
		snprintf(text + n, sizeof(text) - n, "; %s of output will be printed at exit",
			 cell);
	}
	attrset(lost ? A_BOLD | (s->has_red ? COLOR_PAIR(RED) : 0) : A_NORMAL);
	s->above = put_words(s, s->above, text);
	attrset(A_NORMAL);
}

static void draw_help(struct screen *s)
{
	char text[256];
	int y = s->above + 1;

	for (unsigned i = 0; i < sizeof(keys_text) / sizeof(keys_text[0]); i++)
		put_line(s, y++, keys_text[i]);
	y++;
	for (unsigned c = 0; c < s->view.col_cnt; c++) {
		snprintf(text, sizeof(text), "%u %-10s  %s", c + 1, s->view.cols[c].head,
			 s->view.cols[c].help);
		put_line(s, y++, text);
	}
}

static void draw_foot(struct screen *s)
{
	const struct view_order *o = order_of(s);
	char text[256];

	snprintf(text, sizeof(text),
		 "q quit  Enter functions  Esc back  < > sort: %s%s  r reverse  "
		 "Space pause  ? help",
		 o->col < s->view.col_cnt ? s->view.cols[o->col].head : s->view.name_head,
		 o->reversed ? " reversed" : "");
	attrset(A_DIM);
	put_line(s, LINES - 1, text);
	attrset(A_NORMAL);
}

void screen__draw(struct screen *s, const struct top_stats *r)
{
	const struct top_row *row = row_of(r, s->dived);
	unsigned shown;

	/* It has ended, and was already shown as ended. */
	if (!row)
		s->dived = NULL;
	if (row)
		view__of_fns(&s->view, r, row, *order_of(s));
	else
		view__of_procs(&s->view, r, *order_of(s));
	shown = fitting(&s->view);
	erase();
	draw_title(s, r, row);
	follow_picked(s, room_of(s));
	if (s->in_help) {
		draw_help(s);
	} else {
		draw_heads(s, shown);
		for (int i = 0; i < room_of(s) && s->first + i < s->view.cnt; i++)
			draw_row(s, s->above + 1 + i, &s->view.lines[s->first + i], shown);
	}
	draw_foot(s);
	refresh();
}

static void pick(struct screen *s, long to)
{
	long last = (long)s->view.cnt - 1;

	s->at = to > last ? (last > 0 ? last : 0) : to < 0 ? 0 : to;
	s->picked = s->view.cnt ? s->view.lines[s->at].key : NULL;
}

static void sort_by(struct screen *s, long col)
{
	if (col >= 0 && col <= (long)s->view.col_cnt)
		*order_of(s) = (struct view_order){.col = col};
}

static void dive(struct screen *s)
{
	const struct top_row *row = s->picked;

	if (!row || s->dived)
		return;
	s->dived = row->target;
	s->picked = NULL;
	s->at = s->first = 0;
}

static void back(struct screen *s, const struct top_stats *r)
{
	if (s->in_help) {
		s->in_help = false;
		return;
	}
	if (!s->dived)
		return;
	s->picked = row_of(r, s->dived);
	s->dived = NULL;
}

/* false: quit. */
static bool on_key(struct screen *s, const struct top_stats *r, int key)
{
	int page = room_of(s);

	switch (key) {
	case 'q':
		return false;
	case '?':
	case 'h':
		s->in_help = !s->in_help;
		break;
	case ' ':
		s->paused = !s->paused;
		break;
	case 'k':
	case KEY_UP:
		pick(s, (long)s->at - 1);
		break;
	case 'j':
	case KEY_DOWN:
		pick(s, (long)s->at + 1);
		break;
	case KEY_PPAGE:
		pick(s, (long)s->at - page);
		break;
	case KEY_NPAGE:
		pick(s, (long)s->at + page);
		break;
	case KEY_HOME:
		pick(s, 0);
		break;
	case KEY_END:
		pick(s, s->view.cnt);
		break;
	case '\r':
	case '\n':
	case KEY_ENTER:
		dive(s);
		break;
	case KEY_ESC:
	case KEY_BACKSPACE:
	case '\b':
	case 127:
		back(s, r);
		break;
	case '<':
		sort_by(s, (long)order_of(s)->col - 1);
		break;
	case '>':
		sort_by(s, (long)order_of(s)->col + 1);
		break;
	case 'r':
		order_of(s)->reversed = !order_of(s)->reversed;
		break;
	default:
		if (key >= '1' && key <= '9' && key - '1' < (int)s->view.col_cnt)
			sort_by(s, key - '1');
	}
	return true;
}

bool screen__keys(struct screen *s, const struct top_stats *r)
{
	int key;

	while ((key = getch()) != ERR) {
		if (!on_key(s, r, key))
			return false;
		screen__draw(s, r);
	}
	return true;
}
