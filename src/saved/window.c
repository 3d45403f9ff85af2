/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "saved_value.h"

/* Limit of calls whose ends and parents are known, by id: the number of 300-byte lines in a window.
 */
#define CALLS_MAX (1u << 17)
/* Maximum number of enclosing calls that are examined for a call. */
#define DEPTH_MAX 8
/* GPUs of processes, by a hash. */
#define DEVICES_MAX 1024

/* Order of lines with equal ends. */
enum rank { RANK_STACK, RANK_FORK, RANK_EXEC, RANK_OTHER, RANK_CALL, RANK_EXIT, RANK_GPU };

struct waiting {
	int64_t end_ns, begin_ns;
	uint64_t id; /* of a call; of a GPU line: its call's */
	uint64_t pid, device;
	enum rank rank;
	bool is_timed; /* a call that returned: its position is known */
	struct window_line line;
};

struct place {
	int64_t end_ns; /* a copy of the key: the heap reads it without the line */
	struct waiting *l;
};

struct known_call {
	uint64_t id, parent;
	int64_t end_ns;
};

struct window {
	struct place *heap;
	size_t cnt, cap;
	size_t bytes, bytes_max;
	struct known_call *calls;
	struct known_call devices[DEVICES_MAX]; /* id: hash; when its line was written */
	int64_t taken_ns;
	struct waiting *taken;
	uint8_t name_of[EVENT_FIELD_CNT + 1]; /* by key: 1 + the index in names */
};

/* The members that decide the order. */
static const char *const names[] = {"ts", "type",   "op",  "duration_us", "elapsed_us",
				    "id", "parent", "pid", "device",	  "call_id"};
enum { TS, TYPE, OP, DURATION, ELAPSED, ID, PARENT, PID, DEVICE, CALL_ID, NAME_CNT };

struct window *window__new(size_t bytes_max)
{
	struct window *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->bytes_max = bytes_max;
	window__begin(w);
	for (unsigned i = 0; i < NAME_CNT; i++)
		w->name_of[parse_key(names[i])] = i + 1;
	return w;
}

void window__begin(struct window *w)
{
	w->taken_ns = INT64_MIN;
	memset(w->devices, 0, sizeof(w->devices));
	free(w->calls);
	w->calls = NULL;
}

void window__free(struct window *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->cnt; i++)
		free(w->heap[i].l);
	free(w->taken);
	free(w->heap);
	free(w->calls);
	free(w);
}

/* Enclosing calls come later: a shorter call with the same end is nested, or of another thread. */
static bool precedes(const struct place *a, const struct place *b)
{
	const struct waiting *x = a->l, *y = b->l;

	if (a->end_ns != b->end_ns)
		return a->end_ns < b->end_ns;
	if (x->rank != y->rank)
		return x->rank < y->rank;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns > y->begin_ns;
	if (x->id != y->id)
		return x->id > y->id;
	return strcmp(x->line.text, y->line.text) < 0;
}

static void sift_up(struct window *w, size_t i, struct place p)
{
	for (; i && precedes(&p, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = p;
}

/* Puts p where the first line was. */
static void sift_down(struct window *w, struct place p)
{
	size_t i = 0, child;

	while ((child = 2 * i + 1) < w->cnt) {
		child += child + 1 < w->cnt && precedes(&w->heap[child + 1], &w->heap[child]);
		if (!precedes(&w->heap[child], &p))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = p;
}

static bool has_text(const struct member *m, const char *text)
{
	return m && m->val == VAL_STRING && m->len == strlen(text) &&
	       !memcmp(m->text, text, m->len);
}

static enum rank rank_of(const struct member *const *at)
{
	if (has_text(at[TYPE], "stack"))
		return RANK_STACK;
	if (has_text(at[TYPE], "gpu"))
		return RANK_GPU;
	if (has_text(at[TYPE], "process") && has_text(at[OP], "fork"))
		return RANK_FORK;
	if (has_text(at[TYPE], "process") && has_text(at[OP], "exec"))
		return RANK_EXEC;
	if (has_text(at[TYPE], "process") && has_text(at[OP], "exit"))
		return RANK_EXIT;
	return at[ID] ? RANK_CALL : RANK_OTHER;
}

static uint64_t number(const struct member *m)
{
	return m ? member_u64(m) : 0;
}

static int64_t length_ns(const struct member *m)
{
	uint64_t ns = m ? member_fixed(m, 3, NULL) : 0;

	return ns < SAVED_NS_MAX ? (int64_t)ns : 0;
}

static uint64_t device_key(const struct waiting *l)
{
	return l->pid << 32 | l->device << 1 | 1;
}

static struct known_call *device_of(struct window *w, const struct waiting *l)
{
	return &w->devices[(l->pid * 31 + l->device) % DEVICES_MAX];
}

/* A GPU line belongs after its call, the calls around that, and the line that describes its GPU. */
static int64_t end_on_gpu(struct window *w, const struct waiting *l)
{
	const struct known_call *d = device_of(w, l);
	int64_t end_ns = l->end_ns;
	uint64_t id = l->id;

	if (d->id == device_key(l) && d->end_ns > end_ns)
		end_ns = d->end_ns;
	for (unsigned i = 0; id && w->calls && i < DEPTH_MAX; i++) {
		const struct known_call *c = &w->calls[id % CALLS_MAX];

		if (c->id != id)
			break;
		end_ns = c->end_ns > end_ns ? c->end_ns : end_ns;
		id = c->parent;
	}
	return end_ns;
}

static bool note_call(struct window *w, const struct known_call *c)
{
	w->calls = w->calls ?: calloc(CALLS_MAX, sizeof(*w->calls));
	if (w->calls)
		w->calls[c->id % CALLS_MAX] = *c;
	return w->calls;
}

/* Records the data that GPU lines wait for. A GPU's description is repeated when more is known: the
 * last one counts. */
static bool note(struct window *w, const struct waiting *l, const struct member *const *at)
{
	struct known_call *d = device_of(w, l);

	if (l->rank == RANK_CALL)
		return note_call(w, &(struct known_call){l->id, number(at[PARENT]), l->end_ns});
	if (has_text(at[TYPE], "gpu_device") && (d->id != device_key(l) || l->end_ns > d->end_ns))
		*d = (struct known_call){.id = device_key(l), .end_ns = l->end_ns};
	return true;
}

static bool read_place(struct waiting *l, const struct member *const *at)
{
	bool negative;
	uint64_t ns;

	if (!at[TS] || at[TS]->val != VAL_NUMBER)
		return false;
	ns = member_fixed(at[TS], 6, &negative);
	if (ns > SAVED_NS_MAX)
		return false;
	l->rank = rank_of(at);
	l->begin_ns = negative ? -(int64_t)ns : (int64_t)ns;
	l->end_ns = l->begin_ns + length_ns(at[DURATION]) + length_ns(at[ELAPSED]);
	/* Stacks come before the calls that have them. */
	if (l->rank == RANK_STACK)
		l->begin_ns = l->end_ns = INT64_MIN;
	l->id = number(at[l->rank == RANK_GPU ? CALL_ID : ID]);
	l->pid = number(at[PID]);
	l->device = number(at[DEVICE]);
	l->is_timed = l->rank == RANK_CALL && at[DURATION];
	return true;
}

static int make_room(struct window *w)
{
	size_t cap = w->cap ? w->cap * 2 : 1024;
	struct place *grown;

	if (w->cnt < w->cap)
		return 0;
	grown = realloc(w->heap, cap * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	w->heap = grown;
	w->cap = cap;
	return 0;
}

enum window_added window__add(struct window *w, const struct json_value *p, const char *line,
			      size_t len, uint64_t number)
{
	const struct member *at[NAME_CNT + 1] = {NULL};
	struct waiting read = {.line = {.number = number, .len = len}}, *l;

	for (const struct member *m = p->m; p->is_object && m < p->m + p->cnt; m++)
		at[w->name_of[m->key]] = m;
	if (has_text(at[1 + TYPE], "header") || has_text(at[1 + TYPE], "end"))
		return WINDOW_BORDER;
	if (!read_place(&read, at + 1))
		return WINDOW_NO_PLACE;
	l = malloc(sizeof(*l) + len + 1 + PARSE_SLACK);
	if (!l || make_room(w) || !note(w, &read, at + 1)) {
		free(l);
		return WINDOW_NO_MEMORY;
	}
	*l = read;
	l->line.text = (char *)(l + 1);
	memcpy(l->line.text, line, len);
	memset(l->line.text + len, 0, 1 + PARSE_SLACK);
	w->bytes += sizeof(*l) + len;
	sift_up(w, w->cnt++, (struct place){l->end_ns, l});
	return WINDOW_ADDED;
}

bool window__is_full(const struct window *w)
{
	return w->bytes >= w->bytes_max;
}

bool window__is_empty(const struct window *w)
{
	return !w->cnt;
}

const struct window_line *window__take(struct window *w, uint64_t *late_ns)
{
	struct waiting *l;
	int64_t end_ns;

	free(w->taken);
	w->taken = NULL;
	*late_ns = 0;
	while (w->cnt && (l = w->heap[0].l)->rank == RANK_GPU &&
	       (end_ns = end_on_gpu(w, l)) > w->heap[0].end_ns)
		sift_down(w, (struct place){end_ns, l});
	if (!w->cnt)
		return NULL;
	w->taken = l = w->heap[0].l;
	w->cnt--;
	if (w->cnt)
		sift_down(w, w->heap[w->cnt]);
	w->bytes -= sizeof(*l) + l->line.len;
	/* Unfinished calls are written at the end of the trace. */
	if (l->is_timed && l->end_ns < w->taken_ns)
		*late_ns = w->taken_ns - l->end_ns;
	else if (l->is_timed)
		w->taken_ns = l->end_ns;
	return &l->line;
}
