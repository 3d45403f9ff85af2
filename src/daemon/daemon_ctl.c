/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Commands to a running daemon: status, level, burst, dump, dossier, inject, reload. */
#include "daemon_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spool.h"
#include "rules.h"
#include "report/losses.h"
#include "text/units.h"
#include "version.h"

#include "util/clock.h"

static void fail(struct json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct json *j, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	json_str(j, "error", text);
}

/* Reads a word that is a number above 0. */
static bool read_pid(const char *word, uint32_t *pid)
{
	char *end;
	long n = strtol(word, &end, 10);

	if (end == word || *end || n <= 0 || n > INT32_MAX)
		return false;
	*pid = n;
	return true;
}

/* Command lines may hold passwords: members of the group see only the program's name. */
static void put_command(struct json *j, const char *command, bool root)
{
	char name[256];
	const char *slash;

	if (root || !command) {
		/* Each byte of each process's command may become six. */
		snprintf(name, sizeof(name), "%s", command ?: "");
		json_str(j, "command", command ? name : NULL);
		return;
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(command, " "), command);
	slash = strrchr(name, '/');
	json_str(j, "command", slash ? slash + 1 : name);
}

static void put_proc(struct json *j, const struct daemon *d, const struct dproc *p, bool root)
{
	json_open(j, NULL);
	json_u64(j, "pid", p->pid);
	json_str(j, "comm", p->comm);
	put_command(j, p->command, root);
	json_u64(j, "uid", p->uid);
	json_sym(j, "level", proc_level_name(p->level));
	if (d->t.arbiter)
		json_sym(j, "seen",
			 arbiter__is_inproc(d->t.arbiter, p->pid) ? "inproc" : "uprobes");
	if (p->inject)
		json_str(j, "inject", p->inject);
	if (p->by_ctl)
		json_sym(j, "level_from", "ctl");
	else if (p->rule)
		json_u64(j, "level_from_line", p->rule);
	json_bool(j, "traced", dproc_is_traced(p));
	if (p->burst_until_ns > d->now)
		json_micro(j, "burst_left_ms", p->burst_until_ns - d->now);
	json_u64(j, "bursts", p->bursts);
	if (daemon__gpu_status(d, p->pid))
		json_str(j, "gpu_burst", daemon__gpu_status(d, p->pid));
	json_str(j, "namespace", p->labels.namespace);
	json_str(j, "pod", p->labels.pod);
	json_str(j, "container",
		 p->labels.container_name[0] ? p->labels.container_name : p->labels.container);
	json_str(j, "container_id", p->labels.container);
	json_str(j, "pod_uid", p->labels.pod_uid);
	json_str(j, "runtime", p->labels.runtime);
	json_str(j, "cgroup", p->labels.cgroup);
	if (d->t.o.attach.redact != CT_REDACT_ARGS) {
		json_u64(j, "device_bytes", p->mem.bytes[MEM_DEVICE]);
		json_u64(j, "host_bytes", p->mem.bytes[MEM_HOST]);
		json_u64(j, "managed_bytes", p->mem.bytes[MEM_MANAGED]);
	}
	json_close(j);
}

static void put_libs(struct json *j, const struct daemon *d)
{
	json_open_array(j, "libraries");
	for (unsigned i = 0; i < attach__lib_cnt(d->t.att); i++) {
		const struct attach_lib *lib = attach__lib_at(d->t.att, i);

		if (lib->ignored)
			continue;
		json_open(j, NULL);
		json_str(j, "path", lib->path);
		json_u64(j, "functions", lib->attached_cnt);
		if (d->t.arbiter)
			json_sym(j, "probes",
				 attach__covered_off(d->t.att, lib->id) ? "few" : "all");
		json_u64(j, "uid", lib->uid);
		json_close(j);
	}
	json_close_array(j);
}

/* Losses since the daemon started. */
static void put_losses(struct daemon *d, const struct metrics_files *f, struct json *j)
{
	struct trace_end end = {.lines_lost = f->dropped, .write_error = f->error};
	struct losses lost = d->lost;
	struct ct_totals sum;

	sources__totals(&d->t.sources, &sum);
	sources__fill_end(&d->t.sources, &end);
	memcpy(end.drops, sum.drops, sizeof(end.drops));
	for (int i = 0; i < QUOTA_CNT; i++)
		end.full[i] = d->t.quotas.of[i].full_cnt;
	losses__end(&lost, &end);
	losses_json(&lost, j);
}

static void status(struct daemon *d, bool root, struct json *j)
{
	struct recorder_stats r = {0};
	struct metrics_files f;

	daemon__read_counts(d);
	formatter__wait_idle(d->formatter);
	rotate__stats(d->rotate, &f);
	if (d->recorder)
		recorder__stats(d->recorder, &r);
	put_losses(d, &f, j);
	json_str(j, "version", CUDATRACE_VERSION);
	json_str(j, "mechanism", mechanism_name(attach__mechanism(d->t.att)));
	json_sym(j, "level", proc_level_name(d->cfg->level));
	if (d->t.info.redacted)
		json_sym(j, "redacted", d->t.info.redacted);
	put_libs(j, d);
	json_open_array(j, "processes");
	hash_each (p, &d->procs.by_pid)
		put_proc(j, d, p, root);
	json_close_array(j);
	json_open(j, "files");
	json_str(j, "directory", d->cfg->files.directory);
	json_u64(j, "lines", f.lines);
	json_u64(j, "dropped", f.dropped);
	json_u64(j, "finished", f.files);
	json_u64(j, "disk_bytes", f.disk_bytes);
	json_str(j, "error", f.error);
	json_close(j);
	json_open(j, "metrics");
	json_str(j, "listen", d->cfg->metrics.listen);
	json_str(j, "error", d->listen_error ? strerror(-d->listen_error) : NULL);
	json_close(j);
	json_open(j, "recorder");
	json_u64(j, "lines", r.lines);
	json_u64(j, "bytes", r.bytes);
	json_u64(j, "dumps", d->dumps);
	json_close(j);
	json_u64(j, "bursts", d->procs.bursts);
	json_u64(j, "bursts_planned", d->procs.planned_cnt);
	json_u64(j, "reloads", d->reloads);
	json_u64(j, "reload_failures", d->reload_failures);
}

/* hint: another possible meaning of the command. */
static struct dproc *find_pid(struct daemon *d, uint32_t pid, const char *hint, struct json *j)
{
	struct dproc *p;

	tracer__drain_for(&d->t, DRAIN_MAX_NS);
	p = dprocs__find(&d->procs, pid);
	if (!p)
		fail(j,
		     "process %u does not use CUDA, or does not exist; cudatrace ctl status lists those that do%s",
		     pid, hint);
	return p;
}

/* Limit of patterns, and of those set by members: each process is compared with all of them. */
#define PATTERNS_MAX	 256
#define PATTERNS_MEMBERS (PATTERNS_MAX / 2)
/* A comparison takes up to this times the length of the name. */
#define PATTERN_LEN_MAX 64

/* Removes an earlier rule with the same pattern. */
static void drop_rule(struct config *c, const char *pattern, bool name_only)
{
	for (unsigned i = 0; i < c->rule_cnt; i++) {
		struct rule *r = &c->rules[i];

		if (!r->by_ctl || r->name_only != name_only || strcmp(r->command, pattern))
			continue;
		free(r->command);
		memmove(r, r + 1, (--c->rule_cnt - i) * sizeof(*r));
		return;
	}
}

static bool has_room(const struct config *c, bool name_only)
{
	unsigned all = 0, members = 0;

	for (unsigned i = 0; i < c->rule_cnt; i++) {
		all += c->rules[i].by_ctl;
		members += c->rules[i].by_ctl && c->rules[i].name_only;
	}
	return all < PATTERNS_MAX && (!name_only || members < PATTERNS_MEMBERS);
}

/* Applies to later processes too, until the configuration is read again. */
static bool add_rule(struct config *c, const char *pattern, bool name_only, enum proc_level level)
{
	struct rule *grown = realloc(c->rules, (c->rule_cnt + 1) * sizeof(*grown));
	char *copy = strdup(pattern);

	if (grown)
		c->rules = grown;
	if (!grown || !copy) {
		free(copy);
		return false;
	}
	memmove(grown + 1, grown, c->rule_cnt * sizeof(*grown));
	grown[0] = (struct rule){
		.command = copy, .name_only = name_only, .by_ctl = true, .level = level};
	c->rule_cnt++;
	return true;
}

/* Patterns of the group's members match names only: matching whole command lines would reveal their
 * contents. */
static void level_of_pattern(struct daemon *d, const char *pattern, bool root, int level,
			     struct json *j)
{
	uint64_t cnt = 0;

	if (level < 0) {
		fail(j,
		     "default works with a process id only; cudatrace ctl reload removes patterns");
		return;
	}
	if (strlen(pattern) > PATTERN_LEN_MAX) {
		fail(j, "the pattern is longer than %d bytes: shorten it", PATTERN_LEN_MAX);
		return;
	}
	drop_rule(d->cfg, pattern, !root);
	if (!has_room(d->cfg, !root)) {
		fail(j,
		     "there are %u patterns already: use cudatrace ctl reload to remove them, or "
		     "rules in the configuration, which have no limit",
		     root ? PATTERNS_MAX : PATTERNS_MEMBERS);
		return;
	}
	if (!add_rule(d->cfg, pattern, !root, level)) {
		fail(j, "out of memory");
		return;
	}
	hash_each (p, &d->procs.by_pid)
		cnt += !p->by_ctl &&
		       rule_command_matches(pattern, !root, p->comm, p->command ?: p->comm);
	dprocs__reload(&d->procs);
	json_u64(j, "processes", cnt);
}

static void set_level(struct daemon *d, int argc, char **argv, bool root, struct json *j)
{
	int level = argc > 2 ? proc_level_by_name(argv[2]) : -1;
	struct dproc *p;
	uint32_t pid;

	if (argc != 3 || (level < 0 && strcmp(argv[2], "default"))) {
		fail(j,
		     "write level PID LEVEL or level PATTERN LEVEL; LEVEL is off, metrics, trace or sampled, and for a "
		     "PID also default");
		return;
	}
	if (!read_pid(argv[1], &pid)) {
		level_of_pattern(d, argv[1], root, level, j);
		return;
	}
	p = find_pid(d, pid, "", j);
	if (!p)
		return;
	dprocs__set_level(&d->procs, p, level);
	json_u64(j, "processes", 1);
	json_sym(j, "level", proc_level_name(p->level));
}

/* A burst uses space of files that other processes need. */
#define BURST_MAX_NS (3600 * SEC_NS)
/* A later time is a mistake. */
#define PLANNED_MAX_NS (7 * 86400 * SEC_NS)

static void plan_burst(struct daemon *d, const char *time, uint32_t pid, uint64_t ns, bool root,
		       struct json *j)
{
	uint64_t now = d->now + (uint64_t)epoch_ns();
	struct planned_burst b = {.pid = pid, .ns = ns, .root = root};

	if (opt_read_moment(time, &b.at_ns))
		fail(j,
		     "the time is not in UTC; write it as in burst at 2026-01-31T12:00:00Z or burst at @1769860800");
	else if (b.at_ns < now)
		fail(j, "this time is over since %.1f s: give a later one, in UTC",
		     (now - b.at_ns) / 1e9);
	else if (b.at_ns - now > PLANNED_MAX_NS)
		fail(j, "this time is more than a week away: give an earlier one, in UTC");
	else if (!dprocs__plan(&d->procs, &b))
		fail(j, "%u bursts wait already: wait until one has begun",
		     root ? PLANNED_MAX : PLANNED_MEMBERS);
	else
		json_micro(j, "begins_in_ms", b.at_ns - now);
}

static void burst_gpu(struct daemon *d, uint32_t pid, const char *time, uint64_t ns, bool root,
		      struct json *j)
{
	const char *why;

	if (!pid || time) {
		fail(j,
		     "gpu-time is of one process, and begins at once: write burst PID [SECONDS] gpu-time");
		return;
	}
	if (!root) {
		fail(j, "only root may request GPU times of a running process");
		return;
	}
	why = daemon__gpu_burst(d, dprocs__find(&d->procs, pid), ns);
	if (why) {
		fail(j, "no GPU times of process %u: %s", pid, why);
		return;
	}
	json_str(j, "gpu_burst", daemon__gpu_status(d, pid));
	json_micro(j, "ms", ns);
}

static void burst(struct daemon *d, int argc, char **argv, bool root, struct json *j)
{
	bool gpu = argc > 1 && !strcmp(argv[argc - 1], "gpu-time");
	const char *time;
	uint64_t ns = d->cfg->sample.trace_ns;
	uint32_t pid = 0;
	int at = 1;

	argc -= gpu;
	time = argc > 2 && !strcmp(argv[argc - 2], "at") ? argv[argc - 1] : NULL;
	if (time)
		argc -= 2;

	/* A single number is a process, if one has that id; a time has a unit or a point. */
	if (at < argc && read_pid(argv[at], &pid))
		at++;
	if (at < argc && (opt_read_time(argv[at++], 1000000000, &ns) || !ns || at < argc)) {
		fail(j, "write burst [PID] [SECONDS] [at TIME] [gpu-time], as in burst 4711 10s");
		return;
	}
	if (ns > BURST_MAX_NS && ns != d->cfg->sample.trace_ns) {
		fail(j, "a burst lasts at most an hour; for longer, set the level to trace");
		return;
	}
	if (pid &&
	    !find_pid(d, pid, argc == 2 ? "; a time needs its unit, as in burst 10s" : "", j))
		return;
	if (gpu) {
		burst_gpu(d, pid, time, ns, root, j);
		return;
	}
	if (time) {
		plan_burst(d, time, pid, ns, root, j);
		return;
	}
	json_u64(j, "processes", dprocs__burst_of(&d->procs, pid, d->now, ns));
	json_micro(j, "ms", ns);
}

static void dump(struct daemon *d, int argc, char **argv, bool root, struct json *j)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	char *path;
	int ret;

	if (argc > 2 || (name && (!*name || *name == '.'))) {
		fail(j, "write dump [FILE]");
		return;
	}
	if (!d->recorder) {
		fail(j, "there is no flight recorder: recorder.seconds is 0");
		return;
	}
	if (name && strchr(name, '/') && (!root || *name != '/')) {
		fail(j,
		     "only root may choose a directory: give a plain file name, the file is "
		     "written to %s",
		     d->cfg->files.directory);
		return;
	}
	if (name && *name != '/' && spool_dump_name_len(name) < 0) {
		fail(j, "a dump's name may have letters, digits, ., _ and -, at most %d",
		     SPOOL_DUMP_NAME_MAX);
		return;
	}
	tracer__drain_for(&d->t, DRAIN_MAX_NS);
	ret = daemon__dump(d, name, "requested", &path);
	if (ret)
		fail(j, "cannot write it: %s", strerror(-ret));
	else
		json_str(j, "file", path);
	free(path);
}

static void dossier(struct daemon *d, int argc, char **argv, bool root, struct json *j)
{
	const char *name, *why;
	struct dproc *p;
	uint32_t pid;
	char *path;

	bool core = argc == 3 && !strcmp(argv[2], "core");

	if ((argc != 2 && !core) || !read_pid(argv[1], &pid)) {
		fail(j, "write dossier PID, or dossier PID core");
		return;
	}
	if (!root) {
		fail(j, "only root may request a dossier: it has stacks and calls of the process");
		return;
	}
	p = find_pid(d, pid, "", j);
	if (!p)
		return;
	name = dossier__request(d, p, core, &why);
	if (!name)
		fail(j, "no dossier was made: %s", why);
	else if (asprintf(&path, "%s/%s", d->cfg->files.directory, name) >= 0) {
		json_str(j, "folder", path);
		free(path);
	}
}

static void inject(struct daemon *d, int argc, char **argv, bool root, struct json *j)
{
	struct dproc *p;
	const char *why;
	uint32_t pid;

	if (argc != 2 || !read_pid(argv[1], &pid)) {
		fail(j, "write inject PID");
		return;
	}
	if (!root) {
		fail(j, "only root may load the library into a running process");
		return;
	}
	p = find_pid(d, pid, "", j);
	if (!p)
		return;
	why = daemon__inject(d, p, false);
	if (why)
		fail(j, "process %u cannot be entered: %s", pid, why);
	else
		json_str(j, "inject", "requested");
}

static void reload(struct daemon *d, bool root, struct json *j)
{
	char why[512];

	if (!root && daemon__has_just_reloaded(d))
		fail(j, "the configuration was read less than a second ago: try again");
	else if (!daemon__reload(d, why, sizeof(why)))
		fail(j, "%s", why);
	else if (d->listen_error) {
		daemon__listen_problem(d, why, sizeof(why));
		fail(j, "the new configuration is in effect, but %s", why);
	} else
		json_u64(j, "reloads", d->reloads);
}

void daemon__command(void *ctx, int argc, char **argv, bool root, struct out *answer)
{
	const char *verb = argc ? argv[0] : "";
	struct daemon *d = ctx;
	struct json j;

	d->now = turn__begin(&d->turn);
	json__init(&j, answer);
	json_open(&j, NULL);
	if (!strcmp(verb, "status"))
		status(d, root, &j);
	else if (!strcmp(verb, "level"))
		set_level(d, argc, argv, root, &j);
	else if (!strcmp(verb, "burst"))
		burst(d, argc, argv, root, &j);
	else if (!strcmp(verb, "dump"))
		dump(d, argc, argv, root, &j);
	else if (!strcmp(verb, "dossier"))
		dossier(d, argc, argv, root, &j);
	else if (!strcmp(verb, "inject"))
		inject(d, argc, argv, root, &j);
	else if (!strcmp(verb, "reload"))
		reload(d, root, &j);
	else
		fail(&j,
		     "there is no command %s; use status, level, burst, dump, dossier, inject or reload",
		     verb);
	json_close(&j);
	out_char(answer, '\n');
}
