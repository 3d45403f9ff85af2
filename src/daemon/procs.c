/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "procs_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "model/event_table.h"
#include "rules.h"
#include "text/json.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/reader.h"

/* Long enough for the command lines that rules match. */
#define COMMAND_SZ 4096
/* A process that was rejected by a limit is not tried again for this long. */
#define REFUSED_NS 1000000000ull
/* As in util/time_budget.h. */
#define TURN_NS 20000000ull

/* Includes its command line and its lines' suffix, of which each byte may become six. */
#define SUFFIX_SZ (6 * (2 * LABEL_NAME_SZ + 64) + 64)

_Static_assert(sizeof(struct dproc) + COMMAND_SZ + SUFFIX_SZ + 3 * 24 + HASH_TABLE_ROW_SZ <=
		       QUOTA_LABELS_SZ,
	       "includes the overhead of malloc() and the table");

/* Identity */

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
		/* A name may contain newlines; only the last one does not belong to it. */
		snprintf(p->comm, sizeof(p->comm), "%.*s", (int)n - 1, buf);
	else if (comm)
		snprintf(p->comm, sizeof(p->comm), "%.16s", comm);
	got = reader__take(reader__copy(p->pid, "cmdline", sizeof(buf) - 1), buf, sizeof(buf) - 1);
	p->unread = got == -ETIMEDOUT || got == -EBUSY;
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

/* Makes the suffix of each of its lines. */
static void make_suffix(struct dproc *p)
{
	struct out *o = out__memory();
	struct json j;

	if (!o)
		return;
	json__init(&j, o);
	j.comma = true;
	add_text(&j, "namespace", p->labels.namespace);
	add_text(&j, "pod", p->labels.pod[0] ? p->labels.pod : p->labels.pod_uid);
	add_text(&j, "container",
		 p->labels.container_name[0] ? p->labels.container_name : p->labels.container);
	free(p->suffix);
	p->suffix = o->len ? strndup(o->buf, o->len) : NULL;
	out__close(o);
}

/* Levels */

/* Records allocations, for live memory, and kernel names, for later bursts. */
bool dprocs__is_always(const struct dprocs *ps, enum ct_redact redact, const struct api_fn *fn)
{
	struct ct_spec spec;

	/* These calls have no arguments. */
	if (redact == CT_REDACT_ARGS)
		return false;
	if (fn->class == CLASS_MODULE && fn->op == OP_LOOKUP)
		return !redact;
	if (!ps->cfg->metrics.memory)
		return false;
	/* Contexts own memory, and free it. Calls that set a thread's context are not recorded:
	 * they are many, and few programs have two contexts. */
	if (fn->class == CLASS_INIT || fn->class == CLASS_CONTEXT)
		return fn->op == OP_INIT || fn->op == OP_CREATE || fn->op == OP_RETAIN ||
		       fn->op == OP_RELEASE || fn->op == OP_DESTROY;
	api_fn_spec(fn, &spec);
	return fn->class == CLASS_MEMORY && spec.flags & CT_SPEC_F_KEEP;
}

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
	sources__set_proc(ps->sources, p->pid, level);
	p->kernel_level = level;
	p->changes++;
}

/* The next time that the wall clock is at a multiple of sample.every, so that all machines sample
 * the same moments; 0: never. */
static uint64_t next_sample(const struct dprocs *ps, uint64_t now_ns)
{
	uint64_t every = ps->cfg->sample.every_ns;

	return every ? now_ns + every - (now_ns + (uint64_t)epoch_ns()) % every : 0;
}

static void set_level(struct dprocs *ps, struct dproc *p, enum proc_level level)
{
	p->level = level;
	p->burst_next_ns = level == LEVEL_SAMPLED ? next_sample(ps, now_ns()) : 0;
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

	p->wants_inject = r && r->inject;
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
	hash_each (p, &ps->by_pid)
		level_by_rules(ps, p);
}

/* Processes */

struct dproc *dprocs__find(const struct dprocs *ps, uint32_t pid)
{
	return dproc_table__find(&ps->by_pid, &pid);
}

/* Looks up a process for each event, with a cache. */
static struct dproc *find(struct dprocs *ps, uint32_t pid)
{
	struct dproc **recent = &ps->recent[pid % DPROCS_RECENT];

	if (!*recent || (*recent)->pid != pid)
		*recent = dprocs__find(ps, pid);
	return *recent;
}

static void find_target(struct dprocs *ps, struct dproc *p)
{
	static const struct labels none;
	char number[24];

	if (ps->by_process && p->target)
		return;
	if (p->target)
		metrics__put(ps->metrics, p->target);
	snprintf(number, sizeof(number), "%" PRIu64, ++ps->made);
	p->target = ps->by_process ? metrics__get(ps->metrics, &none, number)
				   : metrics__get(ps->metrics, &p->labels, p->comm);
}

static void identify(struct dprocs *ps, struct dproc *p, const char *comm)
{
	read_names(p, comm);
	labels__read(&p->labels, p->pid, ps->root);
	make_suffix(p);
	find_target(ps, p);
	level_by_rules(ps, p);
	p->known_ns = now_ns();
	dbg("process %u (%s): level %s", p->pid, p->comm, proc_level_name(p->level));
}

/* Reads the names again. On a busy machine they may not arrive in time, or other processes of the
 * user hang. */
static void read_again(struct dprocs *ps, struct dproc *p)
{
	read_names(p, p->comm);
	if (p->unread)
		return;
	level_by_rules(ps, p);
	dbg("process %u (%s): its command line could be read now: level %s", p->pid, p->comm,
	    proc_level_name(p->level));
}

static struct drefused *refusal(struct dprocs *ps, uint32_t pid)
{
	return &ps->refused[pid % DPROCS_REFUSED];
}

/* Checked for each of its calls. */
static bool was_refused(struct dprocs *ps, uint32_t pid)
{
	const struct drefused *r = refusal(ps, pid);

	return r->pid == pid && now_ns() - r->ns < REFUSED_NS;
}

struct dproc *dprocs__get(struct dprocs *ps, uint32_t pid, const char *comm)
{
	struct dproc *p = find(ps, pid);
	uid_t uid;

	if (p)
		return p;
	if (was_refused(ps, pid))
		return NULL;
	uid = reader__user(pid);
	if (!quota_owners__take(&ps->users, ps->quota, uid, 1)) {
		*refusal(ps, pid) = (struct drefused){pid, now_ns()};
		return NULL;
	}
	p = dproc_table__new(&ps->by_pid, &pid);
	if (!p) {
		quota_owners__give(&ps->users, ps->quota, uid, 1);
		return NULL;
	}
	p->owner = uid;
	identify(ps, p, comm);
	return p;
}

/* A child's first event is its fork, which also belongs to its parent. */
struct dproc *dprocs__of(struct dprocs *ps, const struct trace_event *ev)
{
	if (ev->kind == EVENT_LIBRARY && !ev->pid)
		return NULL;
	/* Executions on a GPU are reported when the process may have ended. */
	if (event_is(ev, NO_THREAD) || ev->kind == EVENT_GPU)
		return find(ps, ev->pid);
	if (ev->kind == EVENT_PROCESS)
		return find(ps, ev->pid) ?: find(ps, ev->process.parent_pid);
	return dprocs__get(ps, ev->pid, ev->comm);
}

void dproc__set_memory(struct dproc *p, const struct mem_totals *now)
{
	metrics__memory(p->target, &p->mem, now);
	p->mem = *now;
}

/* Returns what is needed of a process to add the remaining counts of its last program: its target
 * and its counts so far. NULL: its user has too many processes, or there is no memory. */
static struct dproc *last_program(struct dprocs *ps, struct dproc *p, ct_generation generation)
{
	struct dproc *last;

	if (!quota_owners__take(&ps->users, ps->quota, p->owner, 1))
		return NULL;
	last = calloc(1, sizeof(*last));
	if (!last) {
		quota_owners__give(&ps->users, ps->quota, p->owner, 1);
		return NULL;
	}
	last->pid = p->pid;
	last->generation = p->generation;
	last->owner = p->owner;
	last->kernel_level = p->kernel_level;
	last->target = metrics__get(ps->metrics, &p->labels, p->comm);
	/* Counts of the new program may have been read before this record. */
	if (!p->generation || p->generation == generation) {
		last->counts = p->counts;
		last->errors = p->errors;
		p->counts = (struct count_row_table){0};
		p->errors = (struct counted_error_table){0};
	}
	return last;
}

void dprocs__exec(struct dprocs *ps, struct dproc *p, ct_generation generation)
{
	static const struct mem_totals none;

	if (!dproc__take_counts(ps, p, generation - 1))
		dprocs__add_ended(ps, p->pid, generation - 1, last_program(ps, p, generation - 1));
	if (!p->generation || p->generation == generation - 1)
		dproc__forget_counts(p);
	p->generation = generation;
	p->dossiers = 0;
	p->live = (struct live_stage){0};
	dproc__set_memory(p, &none);
	p->by_ctl = false;
	/* The kernel side dropped the level with the old program. */
	p->kernel_level = CT_PROC_DEFAULT;
	identify(ps, p, NULL);
}

static void unlink_proc(struct dprocs *ps, struct dproc *p)
{
	dproc_table__del(&ps->by_pid, p);
	if (ps->recent[p->pid % DPROCS_RECENT] == p)
		ps->recent[p->pid % DPROCS_RECENT] = NULL;
}

void dprocs__free_proc(struct dprocs *ps, struct dproc *p)
{
	dproc__forget_counts(p);
	quota_owners__give(&ps->users, ps->quota, p->owner, 1);
	metrics__put(ps->metrics, p->target);
	free(p->command);
	free(p->suffix);
	free(p->inject);
	free(p);
}

void dprocs__remove(struct dprocs *ps, struct dproc *p, ct_generation generation)
{
	static const struct mem_totals none;

	bool taken = dproc__take_counts(ps, p, generation);

	dproc__set_memory(p, &none);
	/* The level may have been set while the process ended, and its pid will be reused. */
	if (!target_exists(p->pid))
		sources__set_proc(ps->sources, p->pid, CT_PROC_DEFAULT);
	unlink_proc(ps, p);
	if (taken)
		dprocs__free_proc(ps, p);
	else
		dprocs__add_ended(ps, p->pid, generation, p);
}

bool dprocs__sweep(struct dprocs *ps, void (*gone)(void *ctx, uint32_t pid), void *ctx)
{
	uint64_t begin_ns = now_ns();

	hash_each (p, &ps->by_pid) {
		if (!target_has_ended(p->pid)) {
			if (p->unread)
				read_again(ps, p);
			continue;
		}
		gone(ctx, p->pid);
		dprocs__remove(ps, p, p->generation);
		if (now_ns() - begin_ns >= TURN_NS)
			return false;
	}
	return true;
}

void dprocs__free(struct dprocs *ps)
{
	struct ended_program *e;

	hash_each (p, &ps->by_pid) {
		unlink_proc(ps, p);
		dprocs__free_proc(ps, p);
	}
	while ((e = ended_program_table__pop(&ps->ended))) {
		if (e->p)
			dprocs__free_proc(ps, e->p);
		free(e);
	}
}

/* Bursts */

void dprocs__burst(struct dprocs *ps, struct dproc *p, uint64_t now_ns, uint64_t ns)
{
	if (!p->burst_until_ns) {
		p->bursts++;
		ps->bursts++;
		log_seldom(LOG_INFO, "process %u (%s): traced for %.1f s", p->pid, p->comm,
			   ns / 1e9);
	}
	if (p->burst_until_ns < now_ns + ns)
		p->burst_until_ns = now_ns + ns;
	apply_level(ps, p);
}

uint64_t dprocs__burst_of(struct dprocs *ps, uint32_t pid, uint64_t now_ns, uint64_t ns)
{
	uint64_t cnt = 0;

	hash_each (p, &ps->by_pid) {
		if (pid ? p->pid != pid : p->level == LEVEL_OFF || p->level == LEVEL_TRACE)
			continue;
		dprocs__burst(ps, p, now_ns, ns);
		cnt++;
	}
	return cnt;
}

bool dprocs__plan(struct dprocs *ps, const struct planned_burst *b)
{
	unsigned members = 0;

	for (unsigned i = 0; i < ps->planned_cnt; i++)
		members += !ps->planned[i].root;
	if (ps->planned_cnt == PLANNED_MAX || (!b->root && members >= PLANNED_MEMBERS))
		return false;
	ps->planned[ps->planned_cnt++] = *b;
	return true;
}

static void begin_planned(struct dprocs *ps, uint64_t now_ns)
{
	for (unsigned i = 0; i < ps->planned_cnt;) {
		struct planned_burst b = ps->planned[i];

		if (now_ns + (uint64_t)epoch_ns() < b.at_ns) {
			i++;
			continue;
		}
		dprocs__burst_of(ps, b.pid, now_ns, b.ns);
		ps->planned[i] = ps->planned[--ps->planned_cnt];
	}
}

uint64_t dprocs__next_ns(const struct dprocs *ps, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < ps->planned_cnt; i++) {
		int64_t in_ns = (int64_t)ps->planned[i].at_ns - epoch_ns() - (int64_t)now_ns;
		uint64_t at_ns = now_ns + (in_ns > 0 ? in_ns : 0);

		next = at_ns < next ? at_ns : next;
	}
	hash_each (p, &ps->by_pid)
		if (p->burst_next_ns && p->burst_next_ns < next)
			next = p->burst_next_ns;
	return next;
}

bool dprocs__clock(struct dprocs *ps, uint64_t now_ns)
{
	bool ended = false;

	begin_planned(ps, now_ns);
	hash_each (p, &ps->by_pid) {
		if (p->burst_until_ns && now_ns >= p->burst_until_ns) {
			p->burst_until_ns = 0;
			apply_level(ps, p);
			ended = true;
		}
		if (p->burst_next_ns && now_ns >= p->burst_next_ns) {
			p->burst_next_ns = next_sample(ps, now_ns);
			dprocs__burst(ps, p, now_ns, ps->cfg->sample.trace_ns);
		}
	}
	return ended && !dprocs__any_burst(ps);
}

bool dprocs__any_burst(const struct dprocs *ps)
{
	hash_each (p, &ps->by_pid)
		if (p->burst_until_ns)
			return true;
	return false;
}
