/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The option table, and the functions that check and store option values. */
#include "opts_priv.h"

#include "model/gpu.h"
#include "model/stalls.h"
#include "sink/delivery/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* PID_MAX_LIMIT of 64-bit kernels. */
#define PID_LIMIT 4194304

void strv_add(struct strv *v, const char *s)
{
	const char **grown = realloc(v->v, (v->cnt + 1) * sizeof(*grown));

	if (!grown)
		opts__die("out of memory while reading the command line");
	v->v = grown;
	v->v[v->cnt++] = s;
}

static void add_pid(struct opts *o, const char *text)
{
	uint64_t pid;
	int ret;

	if (!*text)
		opts__die(
			"--pid: a PID is missing; give numbers with commas between, as in -p 42,43");
	ret = opt_read_u64(text, &pid);
	if (ret == -EINVAL)
		opts__die(
			"--pid '%s': not a process id; give a number above 0: pgrep NAME prints that of a program",
			text);
	if (ret || pid > PID_LIMIT)
		opts__die("--pid %s: too large for a process id; the highest is %d", text,
			  PID_LIMIT);
	if (!pid)
		opts__die("--pid 0: no process has this id; use -a instead to trace every process");
	for (unsigned i = 0; i < o->trace.pid_cnt; i++) {
		if (o->trace.pids[i] == (pid_t)pid)
			return;
	}
	if (o->trace.pid_cnt == SESSION_MAX_PIDS)
		opts__die("--pid: more than %d processes; use -a instead to trace every process",
			  SESSION_MAX_PIDS);
	o->trace.pids[o->trace.pid_cnt++] = (pid_t)pid;
}

static void set_pid(struct opts *o, const struct opt_row *row, const char *arg)
{
	static const char blanks[] = " \t\n";
	char *list = strdup(arg), *item, *rest = list, *save, *pid;

	if (!list)
		opts__die("out of memory while reading the command line");
	/* Blanks and newlines separate numbers, too: pidof and pgrep print them. */
	while ((item = strsep(&rest, ","))) {
		pid = strtok_r(item, blanks, &save);
		do
			add_pid(o, pid ?: "");
		while (pid && (pid = strtok_r(NULL, blanks, &save)));
	}
	free(list);
}

void need_text(const struct opt_row *row, const char *arg)
{
	if (!*arg)
		opts__die("--%s: %s is empty; give one or leave the option out", row->name,
			  row->arg);
}

static void set_summary(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (arg && strcmp(arg, "full") != 0)
		opts__die("--summary '%s': unknown; write --summary or --summary=full", arg);
	o->trace.summary = TRI_ON;
	o->trace.full_summary = arg;
}

static void set_no_summary(struct opts *o, const struct opt_row *row, const char *arg)
{
	o->trace.summary = TRI_OFF;
}

static void need_set(const struct opt_row *row, const char *arg, const char *example)
{
	if (!arg[strspn(arg, " ,!")])
		opts__die("--%s '%s': names nothing; give functions, globs or classes, as in %s",
			  row->name, arg, example);
}

static void set_trace(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_set(row, arg, "-e launch,memory");
	strv_add(&o->trace.select, arg);
}

static void set_detail(struct opts *o, const struct opt_row *row, const char *arg)
{
	int d = detail_by_name(arg);

	if (d < 0)
		opts__die("--detail '%s': unknown; choose one of: %s", arg, row->words);
	o->trace.detail = d;
}

static void set_all(struct opts *o, const struct opt_row *row, const char *arg)
{
	o->trace.detail = DETAIL_ALL;
}

static void set_count(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_set(row, arg, "--count query");
	strv_add(&o->trace.count, arg);
}

static void set_entry_only(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_set(row, arg, "--entry-only launch");
	strv_add(&o->trace.entry_only, arg);
}

static void set_stack(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_set(row, arg ? arg : "all", "--stack=memory,sync");
	strv_add(&o->trace.stack, arg ? arg : "all");
}

static void set_python(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_set(row, arg ? arg : "all", "--python=launch,memory");
	strv_add(&o->trace.python, arg ? arg : "all");
}

static void set_gpu_stats(struct opts *o, const struct opt_row *row, const char *arg)
{
	uint64_t ms = GPU_STATS_MS;

	if (arg && (opt_read_u64(arg, &ms) || ms < GPU_STATS_MIN_MS || ms > GPU_STATS_MAX_MS))
		opts__die(
			"--gpu-stats=%s: not a time between samples; give milliseconds from %d to %d, "
			"as in --gpu-stats=200",
			arg, GPU_STATS_MIN_MS, GPU_STATS_MAX_MS);
	o->trace.gpu_stats_ms = ms;
}

static void set_gpu_metrics(struct opts *o, const struct opt_row *row, const char *arg)
{
	uint64_t hz = GPU_METRICS_HZ;

	if (arg && (opt_read_u64(arg, &hz) || !hz || hz > GPU_METRICS_MAX_HZ))
		opts__die("--gpu-metrics=%s: not a rate; give samples per second from 1 to %d, as "
			  "in --gpu-metrics=1000",
			  arg, GPU_METRICS_MAX_HZ);
	o->trace.gpu_metrics_hz = hz;
}

static void check_number(int ret, uint64_t val, const struct opt_row *row, const char *arg,
			 const char *example)
{
	if (ret == -ERANGE)
		opts__die("--%s %s: too large; give a smaller number or leave the option out",
			  row->name, arg);
	if (ret)
		opts__die("--%s '%s': not a number above 0; write it as in --%s %s", row->name, arg,
			  row->name, example);
	if (!val)
		opts__die("--%s %s: must be above 0; leave the option out for no limit", row->name,
			  arg);
}

static uint64_t read_moment(const struct opt_row *row, const char *arg)
{
	uint64_t ns = 0;

	if (opt_read_moment(arg, &ns))
		opts__die("--%s '%s': not a time in UTC; write it as in --%s "
			  "2026-01-31T12:00:00Z or --%s @1769860800",
			  row->name, arg, row->name, row->name);
	return ns;
}

static void set_start_at(struct opts *o, const struct opt_row *row, const char *arg)
{
	o->trace.start_at_ns = read_moment(row, arg);
}

static void set_at(struct opts *o, const struct opt_row *row, const char *arg)
{
	read_moment(row, arg);
	o->ctl_at = arg;
}

static void set_start_every(struct opts *o, const struct opt_row *row, const char *arg)
{
	int ret = opt_read_time(arg, 1000000000, &o->trace.start_every_ns);

	if (!ret && o->trace.start_every_ns > 86400 * 1000000000ull)
		ret = -ERANGE;
	check_number(ret, o->trace.start_every_ns, row, arg, "10 (seconds), 500ms or 2m");
}

static void set_duration(struct opts *o, const struct opt_row *row, const char *arg)
{
	int ret = opt_read_time(arg, 1000000000, &o->trace.duration_ns);

	/* Leave space for adding it to a clock. */
	if (!ret && o->trace.duration_ns > INT64_MAX / 4)
		ret = -ERANGE;
	check_number(ret, o->trace.duration_ns, row, arg, "2.5 (seconds), 100ms or 2m");
}

static void set_start_after(struct opts *o, const struct opt_row *row, const char *arg)
{
	int ret = opt_read_time(arg, 1000000000, &o->trace.start_after_ns);

	/* Leave space for adding it and --duration to a clock. */
	if (!ret && o->trace.start_after_ns > INT64_MAX / 4)
		ret = -ERANGE;
	check_number(ret, o->trace.start_after_ns, row, arg, "2.5 (seconds), 100ms or 2m");
}

static void set_capture_range(struct opts *o, const struct opt_row *row, const char *arg)
{
	struct session_opts *t = &o->trace;

	t->capture_name = NULL;
	if (!strcmp(arg, "none")) {
		t->capture = CAPTURE_NONE;
	} else if (!strcmp(arg, "cudaProfilerApi")) {
		t->capture = CAPTURE_PROFILER;
	} else if (!strncmp(arg, "nvtx:", 5) && arg[5]) {
		t->capture = CAPTURE_NVTX;
		t->capture_name = arg + 5;
		t->nvtx = true;
	} else {
		opts__die("--capture-range '%s': unknown; give cudaProfilerApi, nvtx:NAME or none",
			  arg);
	}
}

static void set_wait(struct opts *o, const struct opt_row *row, const char *arg)
{
	uint64_t *ns = &o->trace.wait_ns;

	if (!strcmp(arg, "all"))
		*ns = UINT64_MAX;
	else if (!strcmp(arg, "main"))
		*ns = 0;
	else if (opt_read_time(arg, 1000000000, ns))
		opts__die(
			"--wait '%s': unknown; give all, main, or how long, as in --wait=30 (seconds) "
			"or --wait=2m",
			arg);
}

static void set_max_events(struct opts *o, const struct opt_row *row, const char *arg)
{
	int ret = opt_read_u64(arg, &o->trace.max_events);

	check_number(ret, o->trace.max_events, row, arg, "100000");
}

static void set_min_duration(struct opts *o, const struct opt_row *row, const char *arg)
{
	int ret = opt_read_time(arg, 1000, &o->trace.min_duration_ns);

	check_number(ret, o->trace.min_duration_ns, row, arg, "2.5 (microseconds) or 1ms");
}

static void set_hang_after(struct opts *o, const struct opt_row *row, const char *arg)
{
	int ret = opt_read_time(arg, 1000000000, &o->trace.hang_after_ns);

	if (!ret && o->trace.hang_after_ns > INT64_MAX / 2)
		ret = -ERANGE;
	check_number(ret, o->trace.hang_after_ns, row, arg, "5 (seconds), 500ms or 2m");
}

static void set_max_overhead(struct opts *o, const struct opt_row *row, const char *arg)
{
	int ret = opt_read_percent(arg, &o->trace.max_overhead);

	if (ret || o->trace.max_overhead <= 0 || o->trace.max_overhead > 1)
		opts__die(
			"--max-overhead '%s': not a percentage; give a number above 0, at most 100, "
			"as in --%s 2",
			arg, row->name);
}

static void set_buffer_size(struct opts *o, const struct opt_row *row, const char *arg)
{
	char below[32], above[32];
	uint64_t sz, low;
	int ret;

	ret = opt_read_size(arg, &sz);
	if (ret == -EINVAL)
		opts__die("--buffer-size '%s': not a size; give a power of two from 64K to 1G, "
			  "as in --buffer-size 16M",
			  arg);
	if (ret || sz > OPTS_BUFFER_MAX)
		opts__die("--buffer-size %s: too large; the largest is 1G", arg);
	if (sz < OPTS_BUFFER_MIN)
		opts__die("--buffer-size %s: too small; the smallest is 64K", arg);
	if (sz & (sz - 1)) {
		low = 1ull << (63 - __builtin_clzll(sz));
		opt_write_size(low, below, sizeof(below));
		opt_write_size(low * 2, above, sizeof(above));
		opts__die("--buffer-size %s: not a power of two; the nearest are %s and %s", arg,
			  below, above);
	}
	o->trace.buffer_sz = sz;
}

static void set_max_file(struct opts *o, const struct opt_row *row, const char *arg)
{
	int ret = opt_read_size(arg, &o->trace.max_file);

	if (ret == -EINVAL)
		opts__die("--max-file '%s': not a size; give 1M or more, as in --max-file 256M",
			  arg);
	if (ret)
		opts__die("--max-file %s: too large; leave the option out for one file", arg);
	if (o->trace.max_file < OPTS_FILE_MIN)
		opts__die("--max-file %s: too small; the smallest is 1M", arg);
}

static void set_format_threads(struct opts *o, const struct opt_row *row, const char *arg)
{
	uint64_t cnt;

	if (opt_read_u64(arg, &cnt) || cnt > WORKERS_THREADS_MAX)
		opts__die("--format-threads '%s': not a number of threads; give 0 to %d", arg,
			  WORKERS_THREADS_MAX);
	o->trace.format_threads = cnt;
}

static void set_mechanism(struct opts *o, const struct opt_row *row, const char *arg)
{
	static const struct {
		const char *name;
		enum mechanism m;
	} known[] = {
		{"auto", MECH_AUTO},
		{"session", MECH_SESSION},
		{"multi", MECH_MULTI},
		{"perf", MECH_PERF},
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!strcmp(arg, known[i].name)) {
			o->trace.mechanism = known[i].m;
			return;
		}
	}
	opts__die("--mechanism '%s': unknown; choose one of: %s", arg, row->words);
}

static void set_probe(struct opts *o, const struct opt_row *row, const char *arg)
{
	static const char *const names[] = {
		[PROBE_AUTO] = "auto", [PROBE_UPROBE] = "uprobe", [PROBE_INJECT] = "inject"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(arg, names[i])) {
			o->trace.probe = i;
			return;
		}
	}
	opts__die("--probe '%s': unknown; choose one of: %s", arg, row->words);
}

static void set_collect(struct opts *o, const struct opt_row *row, const char *arg)
{
	char *end;
	long pid = strtol(arg, &end, 10);

	if (pid <= 0 || *end != ':' || end[1] != '@' || strlen(end + 1) > INJECT_NAME_MAX)
		opts__die("--collect '%s': only libcudatrace-inject.so may use this option", arg);
	o->trace.collect = end + 1;
	o->trace.collect_for = pid;
}

static void set_kernel_args(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (arg && strcmp(arg, "on") && strcmp(arg, "off"))
		opts__die("--kernel-args '%s': unknown; choose one of: %s", arg, row->words);
	o->trace.kernel_args = arg && !strcmp(arg, "off") ? TRI_OFF : TRI_ON;
}

static void set_gpu_time(struct opts *o, const struct opt_row *row, const char *arg)
{
	int mode = arg ? gpu_time_by_name(arg) : CT_GPU_TIME_GRAPHS;

	if (mode < 0)
		opts__die("--gpu-time '%s': unknown; choose one of: graphs nodes", arg);
	o->trace.gpu_time = mode;
}

static void set_stalls(struct opts *o, const struct opt_row *row, const char *arg)
{
	int period = arg ? stalls_period(arg) : CT_STALLS_PERIOD_DEFAULT;

	if (period < 0)
		opts__die(
			"--stalls '%s': give an exponent from %d to %d, or that power of two, as in "
			"--stalls=18",
			arg, CT_STALLS_PERIOD_MIN, CT_STALLS_PERIOD_MAX);
	o->trace.stalls = period;
}

static void set_kernel_probe(struct opts *o, const struct opt_row *row, const char *arg)
{
	for (enum nv_probe k = NV_PROBE_AUTO; k <= NV_PROBE_TRACEPOINT; k++) {
		if (!strcmp(arg, nv_probe_name(k))) {
			o->trace.kernel_probe = k;
			return;
		}
	}
	opts__die("--kernel-probe '%s': unknown; choose one of: %s", arg, row->words);
}

static void set_gpu_ctxsw(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (arg && strcmp(arg, row->words))
		opts__die("--gpu-ctxsw '%s': write --gpu-ctxsw, or --gpu-ctxsw=%s", arg,
			  row->words);
	o->trace.gpu_ctxsw = arg ? GPU_CTXSW_FORCE : GPU_CTXSW_ON;
}

static void set_schema(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (arg && strcmp(arg, "report") && strcmp(arg, "diff") && strcmp(arg, "budget"))
		opts__die("--schema=%s: unknown; choose one of: %s", arg, row->words);
	o->schema = true;
	o->schema_of = arg;
}

static void set_no_strings(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (o->trace.redact == CT_REDACT_NOTHING)
		o->trace.redact = CT_REDACT_STRINGS;
}

static void set_no_args(struct opts *o, const struct opt_row *row, const char *arg)
{
	o->trace.redact = CT_REDACT_ARGS;
}

static void set_verbose(struct opts *o, const struct opt_row *row, const char *arg)
{
	o->verbose++;
}

static void set_version(struct opts *o, const struct opt_row *row, const char *arg)
{
	opts__print_version(stdout);
	exit(0);
}

static void set_help(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (arg)
		opts__help_topic(arg, o->trace.json);
	if (o->verb)
		opts__print_help(o->verb, stdout);
	else
		opts__print_short(stdout);
	exit(0);
}

static void set_once(struct opts *o, const struct opt_row *row, const char *arg)
{
	o->top_opts.tables = 1;
}

static void set_tables(struct opts *o, const struct opt_row *row, const char *arg)
{
	int ret = opt_read_u64(arg, &o->top_opts.tables);

	check_number(ret, o->top_opts.tables, row, arg, "5");
}

static void set_interval(struct opts *o, const struct opt_row *row, const char *arg)
{
	uint64_t *ns = &o->top_opts.interval_ns;
	int ret = opt_read_time(arg, 1000000000, ns);

	if (ret)
		check_number(ret, *ns, row, arg, "2.5 (seconds) or 500ms");
	if (*ns < OPTS_INTERVAL_MIN || *ns > OPTS_INTERVAL_MAX)
		opts__die("--interval %s: give 0.1 seconds to a day", arg);
}

static void set_set(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (!strchr(arg, '=') || *arg == '=')
		opts__die("--set '%s': not KEY=VALUE; write it as in --set level=trace", arg);
	strv_add(&o->sets, arg);
}

static void set_man(struct opts *o, const struct opt_row *row, const char *arg)
{
	opts__print_man(stdout);
	exit(0);
}

static void set_completion(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (strcmp(arg, "bash") && strcmp(arg, "zsh") && strcmp(arg, "fish"))
		opts__die("--completion '%s': unknown shell; choose one of: %s", arg, row->words);
	opts__print_completion(arg, stdout);
	exit(0);
}

/* Those of report_formats(), four that are not rows there, and those of --budget only. */
#define MAP_WEIGHTS "wall host gpu launches calls"
#define REPORT_FORMATS                                                                             \
	"ascii json csv html chrome perfetto flamegraph svg pprof markdown all junit github gitlab"

static void set_flag(struct opts *o, const struct opt_row *row, const char *arg)
{
	*(bool *)((char *)o + row->at) = row->value;
}

static void set_text(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	*(const char **)((char *)o + row->at) = arg;
}

static void set_files(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	strv_add((struct strv *)((char *)o + row->at), arg);
}

/* Offset of a member, checked for its type. */
#define AT(type, member)                                                                           \
	(offsetof(struct opts, member) + _Generic(((struct opts *)0)->member, type : 0))
#define FLAG(member, value) set_flag, AT(bool, member), value
#define TEXT(member)	    set_text, AT(const char *, member)
#define FILES(member)	    set_files, AT(struct strv, member)
#define OPT(name_, ...)	    {.name = name_, __VA_ARGS__},
static const struct opt_row rows[] = {
#include "options.def"
};

_Static_assert(sizeof(rows) / sizeof(rows[0]) <= OPTS_MAX, "make OPTS_MAX larger");

const struct opt_row *opt_rows(unsigned *cnt)
{
	*cnt = sizeof(rows) / sizeof(rows[0]);
	return rows;
}

const struct opt_row *opt_row_by_name(const char *name)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

const struct opt_group_row *opt_group_row(enum opt_group g)
{
#define GROUP(id, topic, title, text) [GROUP_##id] = {#topic, title, text},
	static const struct opt_group_row groups[GROUP_CNT] = {
#include "groups.def"
	};
#undef GROUP

	return &groups[g];
}
