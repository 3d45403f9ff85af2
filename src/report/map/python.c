/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Paths of Python functions, and passes through them. Twelve layers of a model are one function,
 * called from one line of a loop: frames do not show which layer it is. So passes are counted. A
 * function begins a new pass
 *
 *   - when its caller has begun one, or calls it from another line than before;
 *   - when another function was called from there in between;
 *   - when it is back at the line that its pass began with, from another one.
 *
 * The first two are certainly new calls of the function. The third is a new call or a round of a
 * loop in it. Lines do not show which, and both begin the same work again. One case is not
 * detected: two consecutive calls from one line count as one pass if each has calls in one line
 * only.
 * The first layer of a model may begin in another branch than the others, which have no earlier
 * output to add: lines 3, 9, 12, then 5, 9, 12. A line that is earlier than the second line of a
 * pass, and followed by it, is a first line, too. The first such pass is not detected yet.
 * Passes are numbered within one pass of the caller. A function that goes back to an earlier line
 * after a wait for the GPU begins a round of an iterating loop. Its callees are counted anew, and
 * it begins no pass.
 */
#include "map_priv.h"

#include <string.h>

/* A pass with more calls is a whole iteration: its next passes have the same number. */
#define PASS_CALLS 512

/* Frames that are irrelevant to the program: the end of a file's name, and a function without its
 * class (NULL: all of the file). */
static const struct {
	const char *file, *function;
} noise[] = {
	{"torch/nn/modules/module.py", "_call_impl"},
	{"torch/nn/modules/module.py", "inner"}, /* if it has hooks */
	{"torch/nn/modules/module.py", "_wrapped_call_impl"},
	{"torch/utils/_contextlib.py", NULL},
	{"torch/amp/autocast_mode.py", "decorate_autocast"},
	{"torch/_dynamo/external_utils.py", NULL},
	{"torch/autograd/graph.py", "_engine_run_backward"},
	{"accelerate/hooks.py", "new_forward"},
	{"transformers/modeling_layers.py", "__call__"},
	{"transformers/utils/generic.py", "wrapper"},
	{"transformers/utils/output_capturing.py", "wrapper"},
	{"transformers/utils/deprecation.py", "wrapped_func"},
	{"contextlib.py", "inner"},
	{"threading.py", "_bootstrap"},
	{"threading.py", "_bootstrap_inner"},
	{"threading.py", "run"},
	{"concurrent/futures/thread.py", NULL},
	{"runpy.py", NULL},
	{"<frozen runpy>", NULL},
	{"<frozen importlib._bootstrap>", NULL},
	{"<frozen importlib._bootstrap_external>", NULL},
	{"importlib/_bootstrap.py", NULL},
	{"importlib/__init__.py", NULL},
};

static bool ends_in(const char *s, const char *end)
{
	size_t len = strlen(s), n = strlen(end);

	return len >= n && !strcmp(s + len - n, end) && (len == n || s[len - n - 1] == '/');
}

bool map_is_noise(const struct stack_frame *f)
{
	const char *dot, *name;

	if (!f->symbol || !f->module)
		return false;
	dot = strrchr(f->symbol, '.');
	name = dot ? dot + 1 : f->symbol;

	for (size_t i = 0; i < sizeof(noise) / sizeof(noise[0]); i++)
		if (ends_in(f->module, noise[i].file) &&
		    (!noise[i].function || !strcmp(noise[i].function, name)))
			return true;
	return false;
}

/* Caches whether it is noise, as each frame of each stack is checked. NULL: limit reached. */
static struct map_code *code_of(struct map *m, const struct stack_frame *f)
{
	uint32_t cnt = m->code_keys.cnt, i;

	i = keys_row(&m->code_keys, pair_key((uintptr_t)f->symbol, (uintptr_t)f->module),
		     MEMLIMIT_MAP, m->codes, m->code_cap);
	if (i == KEYS_NONE)
		return NULL;
	if (i == cnt)
		m->codes[i] = (struct map_code){.is_noise = map_is_noise(f)};
	return &m->codes[i];
}

static uint32_t path_of(struct map *m, uint32_t parent, const char *name, const char *file,
			uint32_t number)
{
	uint64_t key =
		pair_key(pair_key(pair_key((uintptr_t)name, (uintptr_t)file), parent), number);
	struct map_path *paths;
	uint32_t i = keys_get(&m->path_keys, key, MEMLIMIT_MAP_MAX, MEMLIMIT_MAP);

	if (i == KEYS_NONE)
		return 0;
	/* index 0 is not a path */
	paths = grow(m->paths, &m->path_cap, i + 2, sizeof(*paths), MEMLIMIT_MAP);
	if (!paths) {
		keys__undo(&m->path_keys, i);
		return 0;
	}
	m->paths = paths;
	paths[i + 1] = (struct map_path){name, file, parent, number, paths[parent].depth + 1};
	return i + 1;
}

/* The number of a pass that begins within the caller's pass. */
static uint32_t next_number(struct map *m, uint32_t thread, const struct map_frame *caller,
			    struct map_frame *f)
{
	uint64_t key = pair_key(pair_key((uintptr_t)f->name, (uintptr_t)f->file), thread);
	uint32_t i;

	key = pair_key(key, caller ? caller->path : 0);
	i = keys_row(&m->family_keys, key, MEMLIMIT_MAP, m->families, m->family_cap);
	if (i == KEYS_NONE)
		return MAP_PASSES + 1;
	f->family = i;
	/* The outermost function is called once, or its thread starts again. */
	if (!caller)
		return 1;
	if (m->families[i].serial != caller->serial)
		m->families[i] = (struct map_family){.serial = caller->serial};
	if (m->families[i].cnt <= MAP_PASSES && m->families[i].calls <= PASS_CALLS)
		m->families[i].cnt++;
	return m->families[i].cnt ?: 1;
}

/* The functions from index at on have returned, or are called anew. */
static void end_passes(struct map *m, const struct map_python *p, unsigned at)
{
	for (; at < p->cnt; at++) {
		const struct map_frame *f = &p->frames[at];

		if (f->family != MAP_NONE)
			m->families[f->family].calls = p->calls - f->calls;
	}
}

static void begin_pass(struct map *m, uint32_t thread, struct map_python *p, unsigned at,
		       const struct stack_frame *f)
{
	struct map_frame *caller = at ? &p->frames[at - 1] : NULL, *to = &p->frames[at];
	uint32_t number;

	*to = (struct map_frame){.name = f->symbol,
				 .file = f->module,
				 .serial = ++m->serial,
				 .line = f->line,
				 .first_line = f->line,
				 .calls = p->calls,
				 .waits = p->waits,
				 .family = MAP_NONE};
	number = next_number(m, thread, caller, to);
	to->path = path_of(m, caller ? caller->path : 0, f->symbol, f->module, number);
}

/* A round of an iterating loop: passes in it are counted anew, but it begins no pass. */
static void begin_round(struct map *m, const struct map_python *p, struct map_frame *f)
{
	f->serial = ++m->serial;
	f->waits = p->waits;
	f->calls = p->calls;
}

/* Returns true if the function, which moved to this line, can have begun there. */
static bool is_first_line(struct map_frame *f, struct map_code *code, uint32_t line)
{
	if (line == f->first_line)
		return true;
	if (!f->second_line) {
		f->second_line = line;
		return false;
	}
	if (!code)
		return false;
	if (line < f->second_line)
		return line == code->first_line;
	if (line == f->second_line && f->line < line)
		code->first_line = f->line;
	return false;
}

static bool is_same(const struct map_frame *a, const struct stack_frame *f)
{
	return a->name == f->symbol && a->file == f->module;
}

uint32_t map_path_of(struct map *m, uint32_t thread, const struct stack *stack, uint32_t *new_cnt)
{
	struct map_python *p = m->threads[thread].python;
	unsigned n = 0, was = p ? p->cnt : 0, first_new = MAP_DEPTH;
	bool same = true;

	*new_cnt = 0;
	if (p)
		p->calls++;
	if (!stack || !stack->frame_cnt || !stack->frames[stack->frame_cnt - 1].python)
		return 0;
	if (p && p->stack == stack && p->cnt)
		return p->frames[p->cnt - 1].path;
	if (!p) {
		p = memlimit_new(MEMLIMIT_MAP, sizeof(*p));
		if (!p)
			return 0;
		m->threads[thread].python = p;
	}
	for (unsigned i = stack->frame_cnt; i-- && stack->frames[i].python;) {
		const struct stack_frame *f = &stack->frames[i];
		struct map_frame *at = &p->frames[n];
		struct map_code *code;
		bool moved, again;

		if (!f->symbol || !f->module) {
			m->unnamed_frames++;
			continue;
		}
		code = code_of(m, f);
		if (code ? code->is_noise : map_is_noise(f))
			continue;
		if (n == MAP_DEPTH) {
			m->cut_frames++;
			break;
		}
		same &= n < was && is_same(at, f);
		moved = same && at->line != f->line;
		if (moved && f->line < at->line && p->waits != at->waits)
			begin_round(m, p, at);
		again = moved && is_first_line(at, code, f->line) && at->calls != p->calls;
		if (same && !again) {
			at->line = f->line;
		} else {
			if (first_new > n) {
				first_new = n;
				end_passes(m, p, n);
			}
			begin_pass(m, thread, p, n, f);
		}
		/* its callees from another line are new calls */
		same &= !moved;
		n++;
	}
	if (first_new > n)
		end_passes(m, p, n);
	p->cnt = n;
	p->stack = stack;
	*new_cnt = n > first_new ? n - first_new : 0;
	return n ? p->frames[n - 1].path : 0;
}
