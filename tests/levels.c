/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * levels LIBRARY: attaches to the library for all processes and uses src/attach/levels.h like a
 * daemon: one command per line of stdin, each answered with one line on stdout.
 *
 *   default LEVEL               trace, metrics or off
 *   proc PID LEVEL              the same, or default
 *   fn SYMBOL LEVEL ONE_OF      trace, sample, count, entries or off
 *   read PID SYMBOL             records since the last read, and counts: calls, errors,
 *                               entered, sum of the histogram below its middle and above
 *   take PID SYMBOL             the same, and deletes the counts of the process
 *   rows PID SYMBOL             number of rows with counts
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/levels.h"
#include "record/check.h"
#include "record/ring.h"

static struct fnset *fns;
static struct attach *att;
static long records;
static uint32_t want_pid, want_fn;

static void die(const char *what)
{
	fprintf(stderr, "levels: %s\n", what);
	exit(1);
}

static void on_record(void *ctx, const void *rec, size_t size)
{
	struct raw raw;

	(void)ctx;
	if (!raw_check(rec, size, 0, &raw) && raw.rec->kind == CT_REC_CALL &&
	    raw.rec->pid == want_pid && raw.call.call->func_id == want_fn)
		records++;
}

static enum ct_proc_level proc_level(const char *name)
{
	static const char *const names[] = {"default", "trace", "metrics", "off"};

	for (int i = 0; i < 4; i++)
		if (!strcmp(name, names[i]))
			return i;
	die("no such level of a process");
	return 0;
}

static struct fn_level fn_level(const char *name, unsigned one_of)
{
	static const char *const names[] = {"trace", "sample", "count", "off"};
	struct fn_level l = {.level = CT_LEVEL_COUNT, .one_of = one_of, .entry_only = true};

	if (!strcmp(name, "entries"))
		return l;
	l.entry_only = false;
	for (int i = 0; i < 4; i++) {
		l.level = i;
		if (!strcmp(name, names[i]))
			return l;
	}
	die("no such level of a function");
	return l;
}

static void sum_up(void *ctx, const struct ct_count_key *key, const struct ct_count *c)
{
	struct ct_count *sum = ctx;

	if (key->pid != want_pid || key->func_id != want_fn)
		return;
	sum->errors += c->errors;
	sum->entered += c->entered;
	if (c->max_ns > sum->max_ns)
		sum->max_ns = c->max_ns;
	for (unsigned i = 0; i < CT_HIST_CNT; i++)
		sum->hist[i] += c->hist[i];
}

static void count_row(void *ctx, const struct ct_count_key *key, const struct ct_count *c)
{
	(void)c;
	*(unsigned *)ctx += key->pid == want_pid && key->func_id == want_fn;
}

/* Checks how many durations are possible: none exceeds the longest. */
static void answer(struct ring *ring, const char *verb)
{
	struct ct_count sum = {0};
	uint64_t wrong = 0;
	unsigned rows = 0;

	if (!strcmp(verb, "rows")) {
		levels__read(att, count_row, &rows);
		printf("rows %u\n", rows);
		return;
	}
	while (ring__drain(ring, 1000))
		;
	if (!strcmp(verb, "take"))
		levels__take(att, want_pid, 0, sum_up, &sum);
	else
		levels__read(att, sum_up, &sum);
	for (unsigned i = ct_hist_index(sum.max_ns) + 1; i < CT_HIST_CNT; i++)
		wrong += sum.hist[i];
	printf("records %ld calls %llu errors %llu entered %llu wrong %llu\n", records,
	       (unsigned long long)ct_count_calls(&sum), (unsigned long long)sum.errors,
	       (unsigned long long)sum.entered, (unsigned long long)wrong);
	records = 0;
}

static void open_all(const char *path)
{
	struct attach_opts o = {.ring_sz = 4 << 20};
	struct target_libs list = {0};
	const struct attach_lib *lib;
	char why[256];

	fns = fnset__new();
	if (!fns || fnset__select(fns, "cuMemAlloc,cuMemFree,cuDriverGetVersion", why, sizeof(why)))
		die("no functions");
	o.fns = fns;
	att = attach__open(&o);
	if (!att || target_libs__add_path(&list, api_at(API_CUDA), path) || !list.cnt ||
	    attach__lib(att, &list.libs[0], &lib))
		die("cannot attach to the library");
	target_libs__clear(&list);
}

int main(int argc, char **argv)
{
	char line[256], word[128], level[32];
	const int *ring_fds;
	unsigned ring_cnt;
	size_t ring_sz;
	struct ring *ring;
	struct fn_level l;
	unsigned n;

	if (argc != 2)
		die("usage: levels LIBRARY");
	open_all(argv[1]);
	ring_fds = attach__ring_fds(att, &ring_cnt, &ring_sz);
	ring = ring__open(ring_fds, ring_cnt, ring_sz, on_record, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (ring && fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "default %31s", level) == 1) {
			levels__set_default(att, proc_level(level));
			printf("0\n");
		} else if (sscanf(line, "proc %u %31s", &n, level) == 2) {
			printf("%d\n", levels__set_proc(att, n, proc_level(level)));
		} else if (sscanf(line, "fn %127s %31s %u", word, level, &n) == 3) {
			l = fn_level(level, n);
			printf("%d\n", levels__set_fn(att, fnset__id(fns, word), &l));
		} else if (sscanf(line, "%31s %u %127s", level, &n, word) == 3) {
			want_pid = n;
			want_fn = fnset__id(fns, word);
			answer(ring, level);
		} else {
			die("what?");
		}
	}
	ring__free(ring);
	attach__free(att);
	fnset__free(fns);
	return 0;
}
