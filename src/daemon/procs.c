// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "procs.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "rules.h"
#include "sink/json.h"
#include "util/log.h"
#include "trace/tracer.h"
#include "util/reader.h"

/* Long enough for the command lines that rules look at. */
#define COMMAND_SZ 4096

#define SUM_CNT (offsetof(struct ct_count, hist) / sizeof(uint64_t))

/* A struct ct_count as it was read last, without the buckets that are 0 below and above: there are
 * as many of these as processes times functions. */
struct counted {
	uint32_t func_id;
	uint16_t first, cnt; /* buckets */
	uint64_t sums[SUM_CNT];
	uint64_t *hist;
	UT_hash_handle hh;
};

struct counted_error {
	struct {
		uint32_t func_id;
		int32_t result;
	} key;
	uint64_t was;
	UT_hash_handle hh;
};

/* Who it is */

static size_t read_file(uint32_t pid, const char *name, char *buf, size_t size)
{
	char path[64];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	f = fopen(path, "re");
	if (f) {
		n = fread(buf, 1, size - 1, f);
		fclose(f);
	}
	buf[n] = '\0';
	return n;
}

static void read_names(struct dproc *p, const char *comm)
{
	char buf[COMMAND_SZ], path[64];
	struct stat st;
	ssize_t got;
	size_t n;

	n = read_file(p->pid, "comm", buf, sizeof(buf));
	if (n)
		snprintf(p->comm, sizeof(p->comm), "%.*s", (int)strcspn(buf, "\n"), buf);
	else if (comm)
		snprintf(p->comm, sizeof(p->comm), "%.16s", comm);
	got = reader__take(reader__copy(p->pid, "cmdline", sizeof(buf) - 1), buf, sizeof(buf) - 1);
	n = got > 0 ? got : 0;
	buf[n] = '\0';
	for (size_t i = 0; i + 1 < n; i++) {
		if (!buf[i])
			buf[i] = ' ';
	}
	free(p->command);
	p->command = strdup(n ? buf : p->comm);
	snprintf(path, sizeof(path), "/proc/%u", p->pid);
	if (!stat(path, &st))
		p->uid = st.st_uid;
}

static void add_text(struct json *j, const char *name, const char *text)
{
	if (*text)
		json_str(j, name, text);
}

/* What each of its lines ends with. */
static void make_suffix(struct dproc *p)
{
	struct out *o = out__memory();
	struct json j;

	json__init(&j, o);
	j.comma = true;
	add_text(&j, "namespace", p->labels.namespace);
	add_text(&j, "pod", p->labels.pod[0] ? p->labels.pod : p->labels.pod_uid);
	add_text(&j, "container",
		 p->labels.container_name[0] ? p->labels.container_name : p->labels.container);
	free(p->suffix);
	p->suffix_len = o->len;
	p->suffix = malloc(o->len + 1);
	if (p->suffix)
		memcpy(p->suffix, o->buf, o->len);
	else
		p->suffix_len = 0;
	out__close(o);
}

/* Levels */

enum ct_proc_level dproc_kernel_level(enum proc_level level)
{
	static const enum ct_proc_level levels[LEVEL_CNT] = {
		[LEVEL_OFF] = CT_PROC_OFF,
		[LEVEL_METRICS] = CT_PROC_METRICS,
		[LEVEL_TRACE] = CT_PROC_TRACE,
		[LEVEL_SAMPLED] = CT_PROC_METRICS,
	};

	return levels[level];
}

static void apply_level(struct dprocs *ps, struct dproc *p)
{
	enum ct_proc_level level = p->burst_until_ns ? CT_PROC_TRACE : dproc_kernel_level(p->level);

	if (level == p->kernel_level)
		return;
	levels__set_proc(ps->att, p->pid, level);
	p->kernel_level = level;
	p->changes++;
}

static void set_level(struct dprocs *ps, struct dproc *p, enum proc_level level)
{
	uint64_t every = ps->cfg->sample.every_ns;

	p->level = level;
	p->burst_next_ns = level == LEVEL_SAMPLED && every ? now_ns() + every : 0;
	if (level == LEVEL_OFF || level == LEVEL_TRACE)
		p->burst_until_ns = 0;
	apply_level(ps, p);
}

static void level_by_rules(struct dprocs *ps, struct dproc *p)
{
	const struct rule_subject who = {
		.uid = p->uid,
		.comm = p->comm,
		.command = p->command ?: p->comm,
		.labels = &p->labels,
	};
	const struct rule *r = rules__find(ps->cfg, &who);

	if (p->by_ctl) {
		apply_level(ps, p);
		return;
	}
	p->rule = r ? r->line : 0;
	set_level(ps, p, r ? r->level : ps->cfg->level);
}

void dprocs__set_level(struct dprocs *ps, struct dproc *p, int level)
{
	p->by_ctl = level >= 0;
	if (p->by_ctl)
		set_level(ps, p, level);
	else
		level_by_rules(ps, p);
}

void dprocs__reload(struct dprocs *ps)
{
	for (struct dproc *p = ps->by_pid; p; p = p->hh.next)
		level_by_rules(ps, p);
}

/* Processes */

struct dproc *dprocs__find(const struct dprocs *ps, uint32_t pid)
{
	struct dproc *p;

	HASH_FIND(hh, ps->by_pid, &pid, sizeof(pid), p);
	return p;
}

static void identify(struct dprocs *ps, struct dproc *p, const char *comm)
{
	read_names(p, comm);
	labels__read(&p->labels, p->pid, ps->root);
	make_suffix(p);
	if (p->target)
		metrics__put(ps->metrics, p->target);
	p->target = metrics__get(ps->metrics, &p->labels, p->comm);
	level_by_rules(ps, p);
	p->known_ns = now_ns();
	dbg("process %u (%s): level %s", p->pid, p->comm, proc_level_name(p->level));
}

struct dproc *dprocs__get(struct dprocs *ps, uint32_t pid, const char *comm)
{
	struct dproc *p = dprocs__find(ps, pid);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	HASH_ADD(hh, ps->by_pid, pid, sizeof(p->pid), p);
	identify(ps, p, comm);
	return p;
}

void dproc__set_memory(struct dproc *p, const struct mem_totals *now)
{
	metrics__memory(p->target, &p->mem, now);
	p->mem = *now;
}

static void forget_counts(struct dproc *p)
{
	struct counted_error *e, *e2;
	struct counted *c, *c2;

	HASH_ITER (hh, p->counts, c, c2) {
		HASH_DEL(p->counts, c);
		free(c->hist);
		free(c);
	}
	HASH_ITER (hh, p->errors, e, e2) {
		HASH_DEL(p->errors, e);
		free(e);
	}
}

/* Counts */

/* Whose numbers are read. One that is not known by its life yet is the one that is counted. Those
 * of the next program with this id are left for when the last one's end has been read. NULL: not
 * now. */
static struct dproc *counted_proc(struct dprocs *ps, uint32_t pid, ct_life life)
{
	struct dproc *p = dprocs__get(ps, pid, NULL);

	if (p && !p->life)
		p->life = life;
	return p && p->life == life ? p : NULL;
}

static void add_errors(struct dprocs *ps, struct dproc *p, const struct ct_error_key *k,
		       uint64_t cnt)
{
	const struct cuda_fn *fn = fnset__fn(ps->fns, k->func_id);

	if (!fn || !cnt)
		return;
	metrics__errors(ps->metrics, p->target, fn, k->result, cnt);
	ps->caused(ps->ctx, p, CAUSE_ERROR, 0);
}

static void on_error(void *ctx, const struct ct_error_key *k, uint64_t cnt)
{
	struct dprocs *ps = ctx;
	struct dproc *p = counted_proc(ps, k->pid, k->life);
	struct counted_error *e, key;

	memset(&key, 0, sizeof(key));
	key.key.func_id = k->func_id;
	key.key.result = k->result;
	if (!p)
		return;
	HASH_FIND(hh, p->errors, &key.key, sizeof(key.key), e);
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return;
		e->key = key.key;
		HASH_ADD(hh, p->errors, key, sizeof(e->key), e);
	}
	if (cnt <= e->was)
		return;
	add_errors(ps, p, k, cnt - e->was);
	e->was = cnt;
}

/* Of a life that nothing was read of before. */
static void on_old_error(void *ctx, const struct ct_error_key *k, uint64_t cnt)
{
	struct dprocs *ps = ctx;
	struct dproc *p = dprocs__find(ps, k->pid);

	if (p && p->life == k->life)
		on_error(ps, k, cnt);
	else if (p)
		add_errors(ps, p, k, cnt);
}

/* All its members but the longest are sums. */
static void subtract(struct ct_count *delta, const struct ct_count *now, const struct ct_count *was)
{
	const uint64_t *a = (const uint64_t *)now, *b = (const uint64_t *)was;
	uint64_t *d = (uint64_t *)delta;

	for (unsigned i = 0; i < sizeof(*delta) / sizeof(*d); i++)
		d[i] = a[i] - b[i];
}

static void recall(const struct counted *c, struct ct_count *was)
{
	memset(was, 0, sizeof(*was));
	memcpy(was, c->sums, sizeof(c->sums));
	if (c->cnt)
		memcpy(was->hist + c->first, c->hist, c->cnt * sizeof(*c->hist));
}

/* false: out of memory, nothing is changed. */
static bool keep(struct counted *c, const struct ct_count *now)
{
	unsigned first = 0, end = CT_HIST_CNT;
	uint64_t *hist = c->hist;

	while (first < end && !now->hist[first])
		first++;
	while (end > first && !now->hist[end - 1])
		end--;
	if (end - first != c->cnt)
		hist = realloc(hist, (end - first) * sizeof(*hist));
	if (!hist && end > first)
		return false;
	c->hist = hist;
	c->first = first;
	c->cnt = end - first;
	memcpy(c->sums, now, sizeof(c->sums));
	if (c->cnt)
		memcpy(hist, now->hist + first, c->cnt * sizeof(*hist));
	return true;
}

/* A single long one shows only in its bucket of the histogram: at least its floor. */
static void look_for_sync(struct dprocs *ps, struct dproc *p, const struct ct_count *delta)
{
	for (unsigned i = CT_HIST_CNT; i-- > 0;) {
		if (!delta->hist[i])
			continue;
		ps->caused(ps->ctx, p, CAUSE_SYNC, ct_hist_floor(i));
		return;
	}
}

static void add_counts(struct dprocs *ps, struct dproc *p, uint32_t func_id,
		       const struct ct_count *delta)
{
	const struct cuda_fn *fn = fnset__fn(ps->fns, func_id);

	if (!fn)
		return;
	metrics__counts(ps->metrics, p->target, fn, delta);
	if (fn->class == CLASS_SYNC)
		look_for_sync(ps, p, delta);
}

static void on_count(void *ctx, const struct ct_count_key *key, const struct ct_count *now)
{
	struct dprocs *ps = ctx;
	struct dproc *p = counted_proc(ps, key->pid, key->life);
	struct ct_count delta, was;
	struct counted *c;

	if (!p)
		return;
	HASH_FIND(hh, p->counts, &key->func_id, sizeof(key->func_id), c);
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return;
		c->func_id = key->func_id;
		HASH_ADD(hh, p->counts, func_id, sizeof(c->func_id), c);
	}
	recall(c, &was);
	if (!memcmp(&was, now, sizeof(*now)) || !keep(c, now))
		return;
	subtract(&delta, now, &was);
	add_counts(ps, p, key->func_id, &delta);
}

static void on_old_count(void *ctx, const struct ct_count_key *key, const struct ct_count *c)
{
	struct dprocs *ps = ctx;
	struct dproc *p = dprocs__find(ps, key->pid);

	if (p && p->life == key->life)
		on_count(ps, key, c);
	else if (p)
		add_counts(ps, p, key->func_id, c);
}

void dprocs__read_counts(struct dprocs *ps)
{
	levels__read(ps->att, on_count, ps);
}

void dprocs__read_errors(struct dprocs *ps)
{
	levels__read_errors(ps->att, on_error, ps);
}

/* What a program has counted that has ended; 0: all that is there of this process id. */
static void take_counts(struct dprocs *ps, struct dproc *p, ct_life life)
{
	levels__take(ps->att, p->pid, life, on_old_count, ps);
	levels__take_errors(ps->att, p->pid, life, on_old_error, ps);
	levels__forget_rows(ps->att, p->pid, life);
	if (!life || p->life == life)
		forget_counts(p);
}

void dprocs__exec(struct dprocs *ps, struct dproc *p, ct_life life)
{
	static const struct mem_totals none;

	take_counts(ps, p, life - 1);
	p->life = life;
	dproc__set_memory(p, &none);
	p->by_ctl = false;
	/* The kernel side has forgotten it with the old program. */
	p->kernel_level = CT_PROC_DEFAULT;
	identify(ps, p, NULL);
}

static void free_proc(struct dprocs *ps, struct dproc *p)
{
	HASH_DEL(ps->by_pid, p);
	forget_counts(p);
	metrics__put(ps->metrics, p->target);
	free(p->command);
	free(p->suffix);
	free(p);
}

void dprocs__remove(struct dprocs *ps, struct dproc *p, ct_life life)
{
	static const struct mem_totals none;

	take_counts(ps, p, life);
	dproc__set_memory(p, &none);
	/* It may have been told its level while it ended, and its number will be another's. */
	if (!target_exists(p->pid))
		levels__forget_proc(ps->att, p->pid);
	free_proc(ps, p);
}

void dprocs__sweep(struct dprocs *ps, void (*gone)(void *ctx, uint32_t pid), void *ctx)
{
	struct dproc *p, *next;

	HASH_ITER (hh, ps->by_pid, p, next) {
		char state = target_exists(p->pid) ? target_state(p->pid) : 'X';

		if (state != 'X' && state != 'Z')
			continue;
		gone(ctx, p->pid);
		dprocs__remove(ps, p, 0);
	}
}

void dprocs__free(struct dprocs *ps)
{
	struct dproc *p, *next;

	HASH_ITER (hh, ps->by_pid, p, next)
		free_proc(ps, p);
}

/* Bursts */

void dprocs__burst(struct dprocs *ps, struct dproc *p, uint64_t now_ns, uint64_t ns)
{
	if (!p->burst_until_ns) {
		p->bursts++;
		ps->bursts++;
		info("process %u (%s): traced for %.1f s", p->pid, p->comm, ns / 1e9);
	}
	if (p->burst_until_ns < now_ns + ns)
		p->burst_until_ns = now_ns + ns;
	apply_level(ps, p);
}

bool dprocs__clock(struct dprocs *ps, uint64_t now_ns)
{
	bool ended = false;

	for (struct dproc *p = ps->by_pid; p; p = p->hh.next) {
		if (p->burst_until_ns && now_ns >= p->burst_until_ns) {
			p->burst_until_ns = 0;
			apply_level(ps, p);
			ended = true;
		}
		if (p->burst_next_ns && now_ns >= p->burst_next_ns) {
			p->burst_next_ns = now_ns + ps->cfg->sample.every_ns;
			dprocs__burst(ps, p, now_ns, ps->cfg->sample.trace_ns);
		}
	}
	return ended && !dprocs__any_burst(ps);
}

bool dprocs__any_burst(const struct dprocs *ps)
{
	for (const struct dproc *p = ps->by_pid; p; p = p->hh.next)
		if (p->burst_until_ns)
			return true;
	return false;
}
