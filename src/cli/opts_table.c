// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The option table, and what each option does with its value. */
#include "opts_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	int rc;

	if (!*text)
		opts__die(
			"--pid: a PID is missing; give numbers with commas between, as in -p 42,43");
	rc = opt_read_u64(text, &pid);
	if (rc == -EINVAL)
		opts__die("--pid '%s': not a process id; give a number above 0, as in -p 42", text);
	if (rc || pid > PID_LIMIT)
		opts__die("--pid %s: too large for a process id; the highest is %d", text,
			  PID_LIMIT);
	if (!pid)
		opts__die("--pid 0: no process has this id; leave -p out to trace every process");
	for (unsigned i = 0; i < o->trace.pid_cnt; i++) {
		if (o->trace.pids[i] == (pid_t)pid)
			return;
	}
	if (o->trace.pid_cnt == SESSION_MAX_PIDS)
		opts__die("--pid: more than %d processes; leave -p out to trace every process",
			  SESSION_MAX_PIDS);
	o->trace.pids[o->trace.pid_cnt++] = (pid_t)pid;
}

static void set_pid(struct opts *o, const struct opt_row *row, const char *arg)
{
	char *list = strdup(arg), *item, *rest = list;

	(void)row;
	if (!list)
		opts__die("out of memory while reading the command line");
	while ((item = strsep(&rest, ",")))
		add_pid(o, item);
	free(list);
}

static void need_text(const struct opt_row *row, const char *arg)
{
	if (!*arg)
		opts__die("--%s: %s is empty; give one or leave the option out", row->name,
			  row->arg);
}

static void set_libcuda(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	o->trace.libcuda = arg;
}

static void set_stop_on_load(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.stop_on_load = true;
}

static void set_force(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.force = true;
}

static void set_user(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	o->trace.user = arg;
}

static void set_no_follow(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.follow = false;
}

static void set_no_wait(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.wait = false;
}

static void set_jsonl(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	strv_add(&o->trace.jsonl, arg);
}

static void set_chrome(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	strv_add(&o->trace.chrome, arg);
}

static void set_report(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	strv_add(&o->trace.report, arg);
}

static void set_summary(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.summary = TRI_ON;
}

static void set_no_summary(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.summary = TRI_OFF;
}

static void set_quiet(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.quiet = true;
}

static void set_json(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.json = true;
}

static void set_names(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->names = true;
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

static void set_count(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_set(row, arg, "--count query");
	strv_add(&o->trace.count, arg);
}

static void set_no_return(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_set(row, arg, "--no-return launch");
	strv_add(&o->trace.no_return, arg);
}

static void set_stack(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_set(row, arg ? arg : "all", "--stack=memory,sync");
	strv_add(&o->trace.stack, arg ? arg : "all");
}

static void set_all(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.all = true;
}

static void set_kernel(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.kernel = true;
}

static void set_sched(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.sched = true;
}

static void set_ioctls(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->ioctls = true;
}

static void check_number(int rc, uint64_t val, const struct opt_row *row, const char *arg,
			 const char *example)
{
	if (rc == -ERANGE)
		opts__die("--%s %s: too large; give a smaller number or leave the option out",
			  row->name, arg);
	if (rc)
		opts__die("--%s '%s': not a number above 0; write it as in --%s %s", row->name, arg,
			  row->name, example);
	if (!val)
		opts__die("--%s %s: must be above 0; leave the option out for no limit", row->name,
			  arg);
}

static void set_duration(struct opts *o, const struct opt_row *row, const char *arg)
{
	int rc = opt_read_time(arg, 1000000000, &o->trace.duration_ns);

	/* Room for adding it to a clock. */
	if (!rc && o->trace.duration_ns > INT64_MAX / 2)
		rc = -ERANGE;
	check_number(rc, o->trace.duration_ns, row, arg, "2.5 (seconds), 100ms or 2m");
}

static void set_max_events(struct opts *o, const struct opt_row *row, const char *arg)
{
	int rc = opt_read_u64(arg, &o->trace.max_events);

	check_number(rc, o->trace.max_events, row, arg, "100000");
}

static void set_min_duration(struct opts *o, const struct opt_row *row, const char *arg)
{
	int rc = opt_read_time(arg, 1000, &o->trace.min_duration_ns);

	check_number(rc, o->trace.min_duration_ns, row, arg, "2.5 (microseconds) or 1ms");
}

static void set_max_overhead(struct opts *o, const struct opt_row *row, const char *arg)
{
	int rc = opt_read_percent(arg, &o->trace.max_overhead);

	if (rc || o->trace.max_overhead <= 0 || o->trace.max_overhead > 1)
		opts__die(
			"--max-overhead '%s': not a share of a thread's time; give percent above 0, "
			"at most 100, as in --%s 2",
			arg, row->name);
}

static void set_buffer_size(struct opts *o, const struct opt_row *row, const char *arg)
{
	char below[32], above[32];
	uint64_t sz, low;
	int rc;

	(void)row;
	rc = opt_read_size(arg, &sz);
	if (rc == -EINVAL)
		opts__die("--buffer-size '%s': not a size; give a power of two from 64K to 1G, "
			  "as in --buffer-size 16M",
			  arg);
	if (rc || sz > OPTS_BUFFER_MAX)
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

static void set_writers(struct opts *o, const struct opt_row *row, const char *arg)
{
	uint64_t cnt;

	(void)row;
	if (opt_read_u64(arg, &cnt) || cnt > OPTS_WRITERS_MAX)
		opts__die("--writers '%s': not a number of threads; give 0 to %d", arg,
			  OPTS_WRITERS_MAX);
	o->trace.writers = cnt;
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
	opts__die("--mechanism '%s': there is no such mechanism; choose one of: %s", arg,
		  row->words);
}

static void set_kernel_probe(struct opts *o, const struct opt_row *row, const char *arg)
{
	for (enum kernel_probe k = KERNEL_PROBE_AUTO; k <= KERNEL_PROBE_TRACEPOINT; k++) {
		if (!strcmp(arg, kernel_probe_name(k))) {
			o->trace.kernel_probe = k;
			return;
		}
	}
	opts__die("--kernel-probe '%s': there is no such way; choose one of: %s", arg, row->words);
}

static void set_no_strings(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	if (o->trace.hide == CT_HIDE_NOTHING)
		o->trace.hide = CT_HIDE_STRINGS;
}

static void set_no_args(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.hide = CT_HIDE_ARGS;
}

static void set_no_sandbox(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->trace.sandbox = false;
}

static void set_verbose(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->verbose++;
}

static void set_version(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)o, (void)row, (void)arg;
	opts__print_version(stdout);
	exit(0);
}

static void set_help(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	opts__print_help(o->verb, stdout);
	exit(0);
}

static void set_format(struct opts *o, const struct opt_row *row, const char *arg)
{
	const char *word = row->words, *at = strstr(word, arg);
	size_t len = strlen(arg);

	if (!len || !at || (at > word && at[-1] != ' ') || (at[len] && at[len] != ' '))
		opts__die("--format '%s': unknown; choose one of: %s", arg, word);
	o->format = arg;
}

static void set_output(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	o->output = arg;
}

static void set_top(struct opts *o, const struct opt_row *row, const char *arg)
{
	uint64_t n;

	(void)row;
	if (opt_read_u64(arg, &n) || !n || n > 100000)
		opts__die("--top '%s': not a number of rows; give 1 to 100000", arg);
	o->top = n;
}

static void set_marker(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	o->marker = arg;
	o->iterations = ITER_MARKER;
}

static void set_iterations(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (!strcmp(arg, "auto"))
		o->iterations = ITER_AUTO;
	else if (!strcmp(arg, "sync"))
		o->iterations = ITER_SYNC;
	else if (!strcmp(arg, "gap"))
		o->iterations = ITER_GAP;
	else
		opts__die("--iterations '%s': unknown; choose one of: %s", arg, row->words);
	if (o->iterations == ITER_GAP && !o->gap_ns)
		o->gap_ns = OPTS_GAP_DEFAULT;
}

static void set_gap(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row;
	if (opt_read_time(arg, 1000, &o->gap_ns) || !o->gap_ns)
		opts__die("--gap '%s': not a time; give microseconds, or a unit: 500, 2ms", arg);
	o->iterations = ITER_GAP;
}

static void set_config(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	o->config = arg;
}

static void set_check_config(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)row, (void)arg;
	o->check_config = true;
}

static void set_set(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (!strchr(arg, '=') || *arg == '=')
		opts__die("--set '%s': not KEY=VALUE; write it as in --set level=trace", arg);
	(void)row;
	strv_add(&o->sets, arg);
}

static void set_man(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)o, (void)row, (void)arg;
	opts__print_man(stdout);
	exit(0);
}

static void set_completion(struct opts *o, const struct opt_row *row, const char *arg)
{
	(void)o;
	if (strcmp(arg, "bash") && strcmp(arg, "zsh") && strcmp(arg, "fish"))
		opts__die("--completion '%s': unknown shell; choose one of: %s", arg, row->words);
	opts__print_completion(arg, stdout);
	exit(0);
}

/* Those of report_formats(), and two that are no rows there. */
#define REPORT_FORMATS "ascii json html chrome flamegraph svg all"

/* Texts: no capital at the start, no full stop at the end; no quotes or backslashes, since they
 * stand in shell scripts too (completion.c). */
static const struct opt_row rows[] = {
	{"pid", 'p', false, GROUP_TARGET, FOR_TRACE, COMP_PID, "PID[,PID...]", NULL,
	 "trace these running processes; may be repeated", set_pid},
	{"no-follow", 0, false, GROUP_TARGET, FOR_TRACE, COMP_NONE, NULL, NULL,
	 "leave out the children of traced processes", set_no_follow},
	{"no-wait", 0, false, GROUP_TARGET, FOR_TRACE, COMP_NONE, NULL, NULL,
	 "fail when no traced process has libcuda loaded, do not wait for it", set_no_wait},
	{"libcuda", 0, false, GROUP_TARGET, FOR_ALL, COMP_FILE, "PATH", NULL,
	 "the libcuda file, for when it is not found by itself", set_libcuda},
	{"stop-on-load", 0, false, GROUP_TARGET, FOR_TRACE, COMP_NONE, NULL, NULL,
	 "with -p: stop the process for a moment (SIGSTOP) when it loads a libcuda that was not "
	 "found beforehand, so that no call is missed; commands are always",
	 set_stop_on_load},
	{"force", 0, false, GROUP_TARGET, FOR_TRACE | FOR_DAEMON, COMP_NONE, NULL, NULL,
	 "attach also to a libcuda that others may write to on a file system without leases, where "
	 "a write would crash who loads it",
	 set_force},
	{"user", 0, false, GROUP_TARGET, FOR_TRACE, COMP_USER, "NAME", NULL,
	 "with a COMMAND: run it as this user; else: trace only processes of this user", set_user},

	{"jsonl", 0, false, GROUP_OUTPUT, FOR_TRACE, COMP_FILE, "FILE", NULL,
	 "write JSON lines, one event a line; - is stdout; may be repeated (with no output given: "
	 "traces/trace_TIME.jsonl)",
	 set_jsonl},
	{"chrome", 0, false, GROUP_OUTPUT, FOR_TRACE, COMP_FILE, "FILE", NULL,
	 "write a Chrome trace, for Perfetto or chrome://tracing; - is stdout; may be repeated",
	 set_chrome},
	{"report", 0, false, GROUP_OUTPUT, FOR_TRACE, COMP_FILE, "FILE", NULL,
	 "write a report at the end, as cudatrace report would: a page when FILE ends in .html, "
	 "JSON when in .json, else text; - is stdout; may be repeated",
	 set_report},
	{"summary", 0, false, GROUP_OUTPUT, FOR_TRACE, COMP_NONE, NULL, NULL,
	 "print a summary to stderr at the end; the default on a terminal", set_summary},
	{"no-summary", 0, false, GROUP_OUTPUT, FOR_TRACE, COMP_NONE, NULL, NULL, "print no summary",
	 set_no_summary},
	{"quiet", 'q', false, GROUP_OUTPUT, FOR_TRACE | FOR_REPORT, COMP_NONE, NULL, NULL,
	 "print only warnings and errors, no summary unless asked for", set_quiet},
	{"json", 0, false, GROUP_OUTPUT, FOR_ALL, COMP_NONE, NULL, NULL,
	 "print the summary, or what list and check say, as JSON", set_json},
	{"names", 0, true, GROUP_OUTPUT, FOR_LIST, COMP_NONE, NULL, NULL,
	 "list: print only class and function names, one a line", set_names},

	{"trace", 'e', false, GROUP_TRACE, FOR_TRACE | FOR_LIST, COMP_SET, "SET", NULL,
	 "what to trace: function names, globs and classes, commas between; a ! in front means "
	 "all but these; the last -e counts",
	 set_trace},
	{"all", 0, false, GROUP_TRACE, FOR_TRACE, COMP_NONE, NULL, NULL,
	 "trace every function, also the chatty queries that are left out by default", set_all},
	{"count", 0, false, GROUP_TRACE, FOR_TRACE, COMP_SET, "SET", NULL,
	 "only count calls of these, also where -e leaves them out: cheaper, no lines; as in "
	 "--count query",
	 set_count},
	{"no-return", 0, false, GROUP_TRACE, FOR_TRACE, COMP_SET, "SET", NULL,
	 "look only at the entry of these: cheaper, no durations, no results", set_no_return},
	{"stack", 0, false, GROUP_TRACE, FOR_TRACE, COMP_NONE, "[=SET]", NULL,
	 "record who made the call, by frame pointers: of all, or of these, as in --stack=memory",
	 set_stack},

	{"kernel", 0, false, GROUP_TRACE, FOR_TRACE, COMP_NONE, NULL, NULL,
	 "trace also what reaches the NVIDIA kernel driver: ioctls, mmaps, opens", set_kernel},
	{"sched", 0, false, GROUP_TRACE, FOR_TRACE, COMP_NONE, NULL, NULL,
	 "say for each call how long its thread was off the CPU; trace GPU interrupts", set_sched},
	{"ioctls", 0, false, GROUP_TRACE, FOR_LIST, COMP_NONE, NULL, NULL,
	 "list: the tables of the kernel driver: escapes, RM controls, classes, UVM commands",
	 set_ioctls},

	{"no-strings", 0, false, GROUP_TRACE, FOR_TRACE, COMP_NONE, NULL, NULL,
	 "for secrecy: read no strings from the program, no names of files and kernels either",
	 set_no_strings},
	{"no-args", 0, false, GROUP_TRACE, FOR_TRACE, COMP_NONE, NULL, NULL,
	 "for secrecy: read no arguments at all; functions, times and results are left",
	 set_no_args},

	{"duration", 0, false, GROUP_LIMITS, FOR_TRACE, COMP_NONE, "SECONDS", NULL,
	 "stop after this time; decimals and units are fine: 2.5, 100ms, 2m", set_duration},
	{"max-events", 0, false, GROUP_LIMITS, FOR_TRACE, COMP_NONE, "N", NULL,
	 "stop after this many events", set_max_events},
	{"min-duration", 0, false, GROUP_LIMITS, FOR_TRACE, COMP_NONE, "US", NULL,
	 "leave out calls that took less than this many microseconds", set_min_duration},

	{"format", 0, false, GROUP_REPORT, FOR_REPORT, COMP_WORDS, "NAME", REPORT_FORMATS,
	 "report: how it is written: ascii (the default), json, html (a page), chrome (a Chrome "
	 "trace), flamegraph (folded stacks; svg when -o ends in .svg), svg (a flame graph), or all "
	 "of them in files of their own",
	 set_format},
	{"output", 'o', false, GROUP_REPORT, FOR_REPORT, COMP_FILE, "FILE", NULL,
	 "report: where to, instead of stdout; with --format=all: what the files are named after",
	 set_output},
	{"top", 0, false, GROUP_REPORT, FOR_REPORT | FOR_DIFF, COMP_NONE, "N", NULL,
	 "report: rows of long tables (default 10)", set_top},
	{"marker", 0, false, GROUP_REPORT, FOR_REPORT | FOR_DIFF, COMP_NONE, "FUNCTION", NULL,
	 "report: each call of this function begins an iteration", set_marker},
	{"iterations", 0, false, GROUP_REPORT, FOR_REPORT | FOR_DIFF, COMP_WORDS, "HOW",
	 "auto sync gap",
	 "report: how iterations are found: auto (the default: by what repeats), sync (a "
	 "synchronisation ends one), gap (a time without calls ends one)",
	 set_iterations},
	{"gap", 0, false, GROUP_REPORT, FOR_REPORT | FOR_DIFF, COMP_NONE, "US", NULL,
	 "report: so many microseconds without a call end an iteration (default 1000)", set_gap},

	{"config", 0, false, GROUP_DAEMON, FOR_DAEMON | FOR_CTL, COMP_FILE, "FILE", NULL,
	 "daemon: its configuration (default /etc/cudatrace/daemon.yaml, when it is there)",
	 set_config},
	{"check-config", 0, false, GROUP_DAEMON, FOR_DAEMON, COMP_NONE, NULL, NULL,
	 "daemon: say what is wrong with the configuration, or what is in force, and end",
	 set_check_config},
	{"set", 0, false, GROUP_DAEMON, FOR_DAEMON | FOR_CTL, COMP_NONE, "KEY=VALUE", NULL,
	 "daemon: a key of the configuration, over what the file says; may be repeated", set_set},

	{"buffer-size", 0, false, GROUP_TUNING, FOR_TRACE, COMP_NONE, "SIZE", NULL,
	 "ring buffers between kernel and cudatrace, one for each processor, together: a power of two "
	 "from 64K to 1G (default 32M, 8M when all processes are traced; a ring has 1M at least, or "
	 "SIZE when that is less); larger when events are dropped",
	 set_buffer_size},
	{"writers", 0, false, GROUP_TUNING, FOR_TRACE, COMP_NONE, "N", NULL,
	 "threads that put the lines of a JSONL file together, besides the one that reads the events "
	 "(default 0 below 8 processors, 1 to 3 above)",
	 set_writers},
	{"max-overhead", 0, false, GROUP_TUNING, FOR_TRACE, COMP_NONE, "PCT", NULL,
	 "keep what tracing costs under this many percent of the time of the busiest thread: the "
	 "functions called most are then only counted",
	 set_max_overhead},
	{"mechanism", 0, false, GROUP_TUNING, FOR_TRACE | FOR_DAEMON, COMP_WORDS, "NAME",
	 "auto session multi perf",
	 "how probes are attached: auto (the default, best that this kernel has), session (Linux "
	 "6.13 and later), multi (6.6), perf (any). All but session end a program that calls CUDA on "
	 "another stack, above, in the middle of a call (coroutines): --no-return",
	 set_mechanism},
	{"kernel-probe", 0, false, GROUP_TUNING, FOR_TRACE, COMP_WORDS, "NAME",
	 "auto kprobe.multi fentry kprobe tracepoint",
	 "how --kernel sees the driver: auto (the default: the first that works here), "
	 "kprobe.multi, fentry, kprobe, tracepoint (of all system calls)",
	 set_kernel_probe},

	{"no-sandbox", 0, false, GROUP_TUNING, FOR_TRACE | FOR_DAEMON, COMP_NONE, NULL, NULL,
	 "keep all privileges and system calls while tracing, for odd systems", set_no_sandbox},

	{"verbose", 'v', false, GROUP_OTHER, FOR_ALL, COMP_NONE, NULL, NULL,
	 "say more about what is done; given twice: also what libbpf says", set_verbose},
	{"version", 'V', false, GROUP_OTHER, FOR_ALL, COMP_NONE, NULL, NULL, "print the version",
	 set_version},
	{"help", 'h', false, GROUP_OTHER, FOR_ALL, COMP_NONE, NULL, NULL,
	 "print this help; -? does too", set_help},
	{"man", 0, true, GROUP_OTHER, FOR_ALL, COMP_NONE, NULL, NULL, "print the man page in roff",
	 set_man},
	{"completion", 0, true, GROUP_OTHER, FOR_ALL, COMP_WORDS, "SHELL", "bash zsh fish",
	 "print a completion script", set_completion},
};

const struct opt_row *opt_rows(unsigned *cnt)
{
	*cnt = sizeof(rows) / sizeof(rows[0]);
	return rows;
}

const char *opt_group_name(enum opt_group g)
{
	static const char *const names[GROUP_CNT] = {
		[GROUP_TARGET] = "Target",	 [GROUP_OUTPUT] = "Output",
		[GROUP_TRACE] = "What to trace", [GROUP_LIMITS] = "Limits",
		[GROUP_REPORT] = "Report",	 [GROUP_DAEMON] = "Daemon",
		[GROUP_TUNING] = "Tuning",	 [GROUP_OTHER] = "Other",
	};

	return names[g];
}
