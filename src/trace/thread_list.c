/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "thread_list.h"

#include "thread_stacks.h"
#include "tracer.h"

#include "decode/fnset.h"
#include "model/stacks.h"
#include "text/stack.h"
#include "util/clock.h"
#include "util/out.h"
#include "util/plain.h"
#include "util/reader.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 256

struct threads {
	struct tracer *t;
	uint32_t pid;
	unsigned cnt, all; /* read; of the process */
	uint32_t tids[THREADS_MAX];
	struct {
		const struct api_fn *fn; /* the outermost call in flight; NULL: none */
		uint64_t start_ns;
	} calls[THREADS_MAX];
};

/* The main thread comes first, because its id is the lowest. */
static void find_threads(struct threads *l)
{
	char path[32];
	struct dirent *de;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/task", l->pid);
	dir = opendir(path);
	while (dir && (de = readdir(dir))) {
		uint32_t tid = strtoul(de->d_name, NULL, 10);

		if (!tid || l->all++ >= THREADS_MAX)
			continue;
		l->tids[l->cnt++] = tid;
	}
	if (dir)
		closedir(dir);
}

static void add_call(void *ctx, const struct seen_thread *seen)
{
	struct threads *l = ctx;

	if (seen->pid != l->pid || !seen->depth)
		return;
	for (unsigned i = 0; i < l->cnt; i++) {
		if (l->tids[i] != seen->tid)
			continue;
		l->calls[i].fn = fnset__fn(l->t->fns, seen->frames->func_id);
		l->calls[i].start_ns = seen->frames->start_ns;
	}
}

/* Writes a file of the thread as one plain line. */
static void put_value(const struct threads *l, uint32_t tid, const char *label, const char *file,
		      struct out *o)
{
	char name[48], text[256], plain[4 * sizeof(text)];
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "task/%u/%s", tid, file);
	fd = reader__copy((pid_t)l->pid, name, sizeof(text) - 1);
	n = fd < 0 ? -1 : reader__take(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (!*text || !strcmp(text, "0"))
		return;
	plain_name(plain, text);
	out_str(o, label);
	out_str(o, plain);
}

static char state_of(const struct threads *l, uint32_t tid)
{
	char path[48], line[128], state = '?';
	FILE *f;

	/* status never blocks. */
	snprintf(path, sizeof(path), "/proc/%u/task/%u/status", l->pid, tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "State: %c", &state) != 1)
		;
	if (f)
		fclose(f);
	return state;
}

static void put_head(const struct threads *l, unsigned i, uint64_t now, struct out *o)
{
	char text[192];

	snprintf(text, sizeof(text), "thread %u, state %c", l->tids[i], state_of(l, l->tids[i]));
	out_str(o, text);
	put_value(l, l->tids[i], ", name ", "comm", o);
	put_value(l, l->tids[i], ", sleeps in ", "wchan", o);
	if (l->calls[i].fn && now > l->calls[i].start_ns) {
		snprintf(text, sizeof(text), ", in %s for %.3f s", l->calls[i].fn->name,
			 (now - l->calls[i].start_ns) / 1e9);
		out_str(o, text);
	}
	out_char(o, '\n');
}

static void put_stack(const struct threads *l, const struct thread_stack *s, uint64_t now,
		      struct out *o)
{
	const struct stack_source from = {
		.ips = s->at.ips,
		.cnt = s->at.cnt,
		.inside = s->at.inside,
		.python = s->python,
		.python_cnt = s->python_cnt,
	};
	const struct stack *stack =
		s->at.cnt ? model__stack(l->t->model, l->pid, s->tid, &from, now) : NULL;
	char name[512], cut[600], plain[PLAIN_NAME_MAX(sizeof(cut))];

	for (unsigned i = 0; stack && i < stack->frame_cnt; i++) {
		const struct stack_frame *f = &stack->frames[i];
		const char *text = stack_frame_name(f, name, sizeof(name));

		snprintf(cut, sizeof(cut), "%s", text);
		plain_name(plain, cut);
		out_str(o, f->python ? "  python  " : "  ");
		out_str(o, plain);
		out_char(o, '\n');
	}
	if (!stack)
		out_lit(o, "  (stack unknown)\n");
	else if (!s->at.whole && !s->python_cnt)
		out_lit(o, "  (callers unknown)\n");
}

unsigned thread_list__print(struct tracer *t, uint32_t pid, uint64_t max_ns, struct out *o)
{
	static struct thread_stack stacks[CT_REGS_MAX];
	const uint64_t end_ns = now_ns() + max_ns;
	const struct ct_python *python;
	static struct threads l;
	char text[96];
	unsigned i = 0;

	l = (struct threads){.t = t, .pid = pid};
	find_threads(&l);
	if (!l.cnt)
		return 0;
	sources__each_thread(&t->sources, add_call, &l);
	quotas__with_stacks(&t->quotas);
	python = tracer__python_of(t, pid);
	while (i < l.cnt && now_ns() < end_ns) {
		unsigned cnt = l.cnt - i < CT_REGS_MAX ? l.cnt - i : CT_REGS_MAX;
		uint64_t now;

		memset(stacks, 0, cnt * sizeof(stacks[0]));
		for (unsigned k = 0; k < cnt; k++)
			stacks[k].tid = l.tids[i + k];
		thread_stacks__read(t->att, (pid_t)pid, python, stacks, cnt);
		now = now_ns();
		for (unsigned k = 0; k < cnt; k++, i++) {
			put_head(&l, i, now, o);
			put_stack(&l, &stacks[k], now, o);
		}
	}
	if (i < l.all) {
		snprintf(text, sizeof(text),
			 "%u of %u threads are missing: their stacks were not read in time\n",
			 l.all - i, l.all);
		out_str(o, text);
	}
	return i;
}
