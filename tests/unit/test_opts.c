/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command line. opts__parse() ends the program at an error, so such cases run in a child. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/opts_priv.h"

#define MAX_ARGS 16

/* Splits a line at blanks; '' is an empty word. Returns argc. */
static int split(char *line, char **argv)
{
	int argc = 0;
	char *word, *rest = line;

	argv[argc++] = "cudatrace";
	while ((word = strsep(&rest, " "))) {
		assert_true(argc < MAX_ARGS - 1);
		argv[argc++] = !strcmp(word, "''") ? "" : word;
	}
	if (argc == 2 && !*argv[1] && !*line)
		argc = 1;
	argv[argc] = NULL;
	return argc;
}

static struct opts parse(const char *line)
{
	/* Kept, since nothing else holds the lists in them. */
	static struct opts kept[64];
	static unsigned kept_cnt;
	static char copy[512];
	static char *argv[MAX_ARGS];
	int argc;

	snprintf(copy, sizeof(copy), "%s", line);
	argc = split(copy, argv);
	assert_true(kept_cnt < 64);
	opts__parse(&kept[kept_cnt], argc, argv);
	return kept[kept_cnt++];
}

/* Runs opts__parse in a child; returns its exit status (99: it came back) and what it wrote to fd.
 */
static int run(const char *line, int fd, char *buf, size_t buf_sz)
{
	size_t len = 0;
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(ends[1], fd);
		close(ends[0]);
		close(ends[1]);
		parse(line);
		_exit(99);
	}
	close(ends[1]);
	while (len < buf_sz - 1 && (n = read(ends[0], buf + len, buf_sz - 1 - len)) > 0)
		len += (size_t)n;
	buf[len] = 0;
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_defaults(void **state)
{
	struct opts o = parse("");

	assert_int_equal(o.verb, VERB_TRACE);
	assert_int_equal(o.trace.pid_cnt, 0);
	assert_null(o.trace.argv);
	assert_true(o.trace.follow);
	assert_true(o.trace.wait);
	assert_int_equal(o.trace.detail, DETAIL_UNSET);
	assert_int_equal(o.trace.summary, TRI_UNSET);
	assert_int_equal(o.trace.mechanism, MECH_AUTO);
	assert_int_equal(o.trace.buffer_sz, OPTS_BUFFER_ALL);
	assert_int_equal(parse("-p 1").trace.buffer_sz, OPTS_BUFFER_DEFAULT);
	assert_int_equal(o.trace.duration_ns, 0);
	assert_int_equal(o.trace.outputs[SINK_JSONL].cnt + o.trace.outputs[SINK_CHROME].cnt +
				 o.trace.select.cnt,
			 0);
}

/* Its value is optional: the next word is not taken as the value. */
static void test_stack(void **state)
{
	struct opts o = parse("--stack --stack=memory,sync -- prog");

	assert_int_equal(o.trace.stack.cnt, 2);
	assert_string_equal(o.trace.stack.v[0], "all");
	assert_string_equal(o.trace.stack.v[1], "memory,sync");
	assert_string_equal(o.trace.argv[0], "prog");
	o = parse("--stack prog");
	assert_int_equal(o.trace.stack.cnt, 1);
	assert_string_equal(o.trace.argv[0], "prog");
}

/* The calls that bound the parts are recorded, whatever else is. */
static void test_capture_range(void **state)
{
	struct opts o = parse("-e launch --capture-range=cudaProfilerApi -- prog");

	assert_int_equal(o.trace.capture, CAPTURE_PROFILER);
	assert_string_equal(o.trace.select.v[0], "launch,cuProfilerStart,cuProfilerStop");
	o = parse("--capture-range=cudaProfilerApi -- prog");
	assert_int_equal(o.trace.select.cnt, 0);
	o = parse("--capture-range=nvtx:a:b --start-after 2 -- prog");
	assert_true(o.trace.nvtx);
	assert_string_equal(o.trace.capture_name, "a:b");
	assert_int_equal(o.trace.start_after_ns, 2000000000);
	o = parse("run --budget b -- prog");
	assert_int_equal(o.runs, 5);
}

static void test_all_layers(void **state)
{
	struct opts o = parse("--all-layers -- prog");

	assert_true(o.trace.nvtx && o.trace.torch);
	assert_int_equal(o.trace.python.cnt, 1);
	assert_string_equal(o.trace.python.v[0], "launch");
	assert_int_equal(o.trace.detail, DETAIL_NORMAL);
	assert_int_equal(o.trace.select.cnt, 1);
	assert_string_equal(o.trace.select.v[0], "cublas,cudnn");
	/* Options given besides stay. */
	o = parse("--python -e launch --all-layers -- prog");
	assert_true(o.trace.nvtx);
	assert_int_equal(o.trace.python.cnt, 1);
	assert_string_equal(o.trace.python.v[0], "all");
	assert_int_equal(o.trace.detail, DETAIL_UNSET);
	assert_int_equal(o.trace.select.cnt, 1);
	o = parse("--all-layers --all -- prog");
	assert_int_equal(o.trace.detail, DETAIL_ALL);
	assert_int_equal(o.trace.select.cnt, 1);
}

static void test_pids(void **state)
{
	struct opts o = parse("-p 1,22 --pid=333 -p22");

	assert_int_equal(o.trace.pid_cnt, 3);
	assert_int_equal(o.trace.pids[0], 1);
	assert_int_equal(o.trace.pids[1], 22);
	assert_int_equal(o.trace.pids[2], 333);
	o = parse("-p 4194304");
	assert_int_equal(o.trace.pids[0], 4194304);
}

static void test_command(void **state)
{
	struct opts o = parse("-q -- python -c x --help");

	assert_int_equal(o.trace.argc, 4);
	assert_string_equal(o.trace.argv[0], "python");
	assert_string_equal(o.trace.argv[3], "--help");
	assert_null(o.trace.argv[4]);
	assert_true(o.trace.quiet);

	/* As in strace: the first word that is not an option begins the command. */
	o = parse("--jsonl x.jsonl ./prog -p 1 --version -- list");
	assert_int_equal(o.trace.argc, 6);
	assert_string_equal(o.trace.argv[0], "./prog");
	assert_string_equal(o.trace.argv[4], "--");
	assert_int_equal(o.trace.pid_cnt, 0);
	assert_int_equal(o.verb, VERB_TRACE);

	o = parse("-- -p");
	assert_string_equal(o.trace.argv[0], "-p");
	o = parse("-- list --json");
	assert_int_equal(o.verb, VERB_TRACE);
	assert_string_equal(o.trace.argv[0], "list");
	assert_false(o.trace.json);
	o = parse("prog list");
	assert_int_equal(o.verb, VERB_TRACE);
}

static void test_verbs(void **state)
{
	struct opts o = parse("list --json -e launch -e !query --libcuda ./libcuda.so.1");

	assert_int_equal(o.verb, VERB_LIST);
	assert_true(o.trace.json);
	assert_int_equal(o.trace.select.cnt, 2);
	assert_string_equal(o.trace.select.v[1], "!query");
	assert_string_equal(o.trace.libcuda, "./libcuda.so.1");
	o = parse("check -vv --json");
	assert_int_equal(o.verb, VERB_CHECK);
	assert_int_equal(o.verbose, 2);
	assert_true(parse("list --names").names);
	o = parse("top --interval 2.5 --tables 3 -p 7");
	assert_int_equal(o.verb, VERB_TOP);
	assert_int_equal(o.top_opts.interval_ns, 2500000000);
	assert_int_equal(o.top_opts.tables, 3);
	assert_int_equal(o.trace.pids[0], 7);
	/* The rest is a command, whatever its name. */
	o = parse("top --once list -p 8");
	assert_int_equal(o.verb, VERB_TOP);
	assert_int_equal(o.top_opts.tables, 1);
	assert_int_equal(o.trace.argc, 3);
	assert_string_equal(o.trace.argv[0], "list");
	assert_int_equal(parse("top").top_opts.interval_ns, OPTS_INTERVAL_DEFAULT);
}

static void test_values(void **state)
{
	struct opts o = parse("--duration 2.5 --min-duration 0.5 --max-events 12 --buffer-size 64K "
			      "--mechanism=perf --user nobody --no-follow --no-wait --all");

	assert_int_equal(o.trace.duration_ns, 2500000000);
	assert_int_equal(o.trace.min_duration_ns, 500);
	assert_int_equal(o.trace.max_events, 12);
	assert_int_equal(o.trace.buffer_sz, 65536);
	assert_int_equal(o.trace.mechanism, MECH_PERF);
	assert_string_equal(o.trace.user, "nobody");
	assert_false(o.trace.follow);
	assert_false(o.trace.wait);
	assert_int_equal(o.trace.detail, DETAIL_ALL);
	assert_int_equal(parse("--all --detail=low").trace.detail, DETAIL_LOW);
	assert_int_equal(parse("list --detail high").trace.detail, DETAIL_HIGH);
	assert_int_equal(parse("--mechanism session").trace.mechanism, MECH_SESSION);
	assert_int_equal(parse("--mechanism multi").trace.mechanism, MECH_MULTI);
	assert_int_equal(parse("--summary").trace.summary, TRI_ON);
	assert_int_equal(parse("--summary --no-summary").trace.summary, TRI_OFF);
	assert_int_equal(parse("--max-events 18446744073709551615").trace.max_events, UINT64_MAX);
	/* Names may be abbreviated. */
	assert_int_equal(parse("--dur 1").trace.duration_ns, 1000000000);
}

static void test_times(void **state)
{
	assert_int_equal(parse("--duration 100ms").trace.duration_ns, 100000000);
	assert_int_equal(parse("--duration 5s").trace.duration_ns, 5000000000);
	assert_int_equal(parse("--start-every 10s").trace.start_every_ns, 10000000000);
	assert_int_equal(parse("--start-at @1769860800").trace.start_at_ns, 1769860800000000000);
	assert_int_equal(parse("--start-at 2026-01-31T12:00:00Z").trace.start_at_ns,
			 1769860800000000000);
	assert_true(parse("-- x").trace.wait_ns == UINT64_MAX);
	assert_true(parse("--wait all -- x").trace.wait_ns == UINT64_MAX);
	assert_false(parse("--summary -- x").trace.full_summary);
	assert_true(parse("--summary=full -- x").trace.full_summary);
	assert_int_equal(parse("--summary=full -- x").trace.summary, TRI_ON);
	assert_int_equal(parse("--wait=main -- x").trace.wait_ns, 0);
	assert_int_equal(parse("--wait 0 -- x").trace.wait_ns, 0);
	assert_int_equal(parse("--wait=1.5 -- x").trace.wait_ns, 1500000000);
	assert_int_equal(parse("--wait=2m -- x").trace.wait_ns, 120000000000);
	assert_int_equal(parse("--duration 2m").trace.duration_ns, 120000000000);
	assert_int_equal(parse("--duration 1.5h").trace.duration_ns, 5400000000000);
	assert_int_equal(parse("--duration .25").trace.duration_ns, 250000000);
	assert_int_equal(parse("--duration 0.000000001").trace.duration_ns, 1);
	assert_int_equal(parse("--duration 1.0000000009").trace.duration_ns, 1000000000);
	assert_int_equal(parse("--min-duration 1ms").trace.min_duration_ns, 1000000);
	assert_int_equal(parse("--min-duration 0.001").trace.min_duration_ns, 1);
	assert_int_equal(parse("--hang-after 5").trace.hang_after_ns, 5000000000);
	assert_int_equal(parse("--hang-after 500ms").trace.hang_after_ns, 500000000);
}

static void test_sizes(void **state)
{
	assert_int_equal(parse("--buffer-size 65536").trace.buffer_sz, 65536);
	assert_int_equal(parse("--buffer-size 16M").trace.buffer_sz, 16 << 20);
	assert_int_equal(parse("--buffer-size 16MiB").trace.buffer_sz, 16 << 20);
	assert_int_equal(parse("--buffer-size 1g").trace.buffer_sz, 1 << 30);
	assert_int_equal(parse("--buffer-size 1G").trace.buffer_sz, 1 << 30);
}

static void test_outputs(void **state)
{
	struct opts o = parse("--jsonl a --jsonl - --chrome b --chrome c");

	assert_int_equal(o.trace.outputs[SINK_JSONL].cnt, 2);
	assert_string_equal(o.trace.outputs[SINK_JSONL].v[0], "a");
	assert_string_equal(o.trace.outputs[SINK_JSONL].v[1], "-");
	assert_int_equal(o.trace.outputs[SINK_CHROME].cnt, 2);
	assert_string_equal(o.trace.outputs[SINK_CHROME].v[1], "c");
}

/* A wrong command line, and a text that its message must contain. */
static const struct {
	const char *line, *message;
} wrong[] = {
	{"-p 1 -- ls", "both -p and a command ('ls')"},
	{"-p 1 ls", "both -p and a command"},
	{"-p x", "--pid 'x': not a process id; give a number above 0: pgrep NAME"},
	{"-p 1x", "--pid '1x': not a process id"},
	{"-p +1", "not a process id"},
	{"-p 0x10", "not a process id"},
	{"-p 0", "--pid 0: no process has this id"},
	{"-p -5", "--pid '-5': not a process id"},
	{"-p 4194305", "the highest is 4194304"},
	{"-p 99999999999999999999999", "too large for a process id"},
	{"-p 99999999999999999999999x", "not a process id"},
	{"-p 1,,2", "a PID is missing"},
	{"-p ''", "a PID is missing"},
	{"-p", "--pid: PID[,PID...] is missing"},
	{"--start-at noon", "--start-at 'noon': not a time in UTC"},
	{"--start-at 2026-01-31T12:00:00", "--start-at '2026-01-31T12:00:00': not a time in UTC"},
	{"--start-at @9999999999999", "--start-at '@9999999999999': not a time in UTC"},
	{"--start-at @x", "--start-at '@x': not a time in UTC"},
	{"--start-every 0", "--start-every 0: must be above 0"},
	{"--start-every x", "--start-every 'x': not a number above 0"},
	{"--start-every 90000", "--start-every 90000: too large"},
	{"--duration 0", "--duration 0: must be above 0"},
	{"--start-after 0", "--start-after 0: must be above 0"},
	{"--start-after soon", "--start-after 'soon': not a number"},
	{"--capture-range x", "--capture-range 'x': unknown; give cudaProfilerApi"},
	{"--capture-range=cudaProfilerApi --max-overhead 1 -- x", "leave out --max-overhead"},
	{"--capture-range=nvtx:x --no-args -- x", "leave out --no-args"},
	{"report --runs 0 x", "--runs '0': not a number of runs; give 1 to 100"},
	{"report --budget b --runs 2 x", "--runs 2: give 2 traces"},
	{"run -- x", "run compares with a budget"},
	{"run --budget b", "COMMAND is missing"},
	{"run --budget b --jsonl - -- x", "run makes a file of each trace"},
	{"report --baseline x y", "--baseline has no meaning for cudatrace report"},
	{"list --schema=x", "--schema=x: unknown; choose one of: report diff budget"},
	{"--summary=short -- x", "--summary 'short': unknown; write --summary or --summary=full"},
	{"--wait=primary -- x", "--wait 'primary': unknown; give all, main, or how long"},
	{"--wait= -- x", "--wait '': unknown; give all, main, or how long"},
	{"--wait -1 -- x", "--wait '-1': unknown; give all, main, or how long"},
	{"--wait 1x -- x", "--wait '1x': unknown; give all, main, or how long"},
	{"--wait=main -p 1", "--wait needs a COMMAND"},
	{"--duration -1", "--duration '-1': not a number above 0"},
	{"--duration 1x", "not a number above 0"},
	{"--duration 1e3", "not a number above 0"},
	{"--duration 1.", "not a number above 0"},
	{"--duration .", "not a number above 0"},
	{"--duration ''", "not a number above 0"},
	{"--duration inf", "not a number above 0"},
	{"--duration 99999999999", "too large"},
	{"--duration 99999999999999999999999", "too large"},
	{"--duration 0.0000000001", "must be above 0"},
	{"--max-events 0", "must be above 0"},
	{"--max-events -3", "not a number above 0"},
	{"--max-events 1.5", "not a number above 0"},
	{"--max-events 18446744073709551616", "too large"},
	{"--hang-after 0", "must be above 0"},
	{"--hang-after soon", "not a number above 0"},
	{"--hang-after 200000000000", "too large"},
	{"--min-duration 0", "must be above 0"},
	{"--min-duration -0.5", "not a number above 0"},
	{"--buffer-size 3M", "the nearest are 2M and 4M"},
	{"--buffer-size 100000", "the nearest are 64K and 128K"},
	{"--buffer-size 32K", "the smallest is 64K"},
	{"--buffer-size 0", "the smallest is 64K"},
	{"--buffer-size 2G", "the largest is 1G"},
	{"--buffer-size 99999999999G", "the largest is 1G"},
	{"--buffer-size 16Q", "not a size"},
	{"--buffer-size -1", "not a size"},
	{"--detail medium", "choose one of: low normal high all"},
	{"--detail ''", "choose one of: low normal high all"},
	{"--mechanism kprobe", "choose one of: auto session multi perf"},
	{"--jsonl - --chrome -", "two outputs to stdout"},
	{"--jsonl - --jsonl -", "two outputs to stdout"},
	{"--jsonl x --chrome x", "two outputs to 'x'"},
	{"--jsonl ''", "FILE is empty"},
	{"--jsonl --chrome x", "'--chrome' looks like an option"},
	{"--jsonl", "--jsonl: FILE is missing"},
	{"--libcuda ''", "PATH is empty"},
	{"--user ''", "NAME is empty"},
	{"-e ''", "names nothing"},
	{"-e !", "names nothing"},
	{"-e ,,", "names nothing"},
	{"-e", "--trace: SET is missing"},
	{"-qe", "--trace: SET is missing"},
	{"--durration 3", "unknown option --durration; did you mean --duration?"},
	{"--sumary", "did you mean --summary?"},
	{"--max-event=3 --no-folow", "did you mean --no-follow?"},
	{"--kernels", "did you mean --kernel"},
	{"--kernel-probe=usb", "choose one of: auto kprobe.multi fentry kprobe tracepoint"},
	{"-duration 3", "did you mean --duration?"},
	{"--xyzzyxyzzy", "cudatrace --help=all"},
	{"check --foo", "unknown option --foo; cudatrace --help=all"},
	{"ctl --socket x", "unknown option --socket; cudatrace --help=all"},
	{"ctl --libcuda x status", "--libcuda has no meaning for cudatrace ctl"},
	{"help nothing-like-it",
	 "unknown topic 'nothing-like-it'; give an option or one of: which"},
	{"help report diff", "help: only one topic can be printed; leave out 'diff'"},
	{"help report --json", "only help which can be printed as JSON"},
	{"-a -- x", "--system traces every process; leave it out, or leave out the command"},
	{"-a -p 1", "--system traces every process; leave it out, or leave out -p"},
	{"-Z", "unknown option -Z"},
	{"-qZ", "unknown option -Z"},
	{"--m 3",
	 "could be any of: --max-file, --max-events, --min-duration, --make-budget, --map, --marker, "
	 "--max-overhead, --mechanism"},
	{"--all=yes", "--all takes no value"},
	{"--", "COMMAND is missing after --"},
	{"-q --", "COMMAND is missing after --"},
	{"''", "COMMAND is empty"},
	{"list x", "list takes no arguments: 'x'"},
	{"list -- x", "list takes no arguments: 'x'"},
	{"list --chrome x", "--chrome has no meaning for cudatrace list"},
	{"check -e launch", "--trace has no meaning for cudatrace check"},
	{"-p 1 list", "--pid has no meaning for cudatrace list"},
	{"--stop-on-load", "only named processes are stopped"},
	{"--stop-on-load -- true", "a command's processes are stopped anyway"},
	{"--names", "--names belongs to cudatrace list"},
	{"--completion=tcsh", "choose one of: bash zsh fish"},
};

static void test_wrong(void **state)
{
	char text[1024];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int status = run(wrong[i].line, STDERR_FILENO, text, sizeof(text));

		if (status != EXIT_USAGE || !strstr(text, wrong[i].message) ||
		    strncmp(text, "cudatrace: ", 11) || strchr(text, '\n') != strrchr(text, '\n'))
			fail_msg("'%s': status %d, wrote: %s", wrong[i].line, status, text);
	}
}

static void test_most_pids(void **state)
{
	static char list[4096];
	char *argv[] = {"cudatrace", "-p", list, NULL};
	struct opts o;
	size_t n = 0;

	for (int i = 1; i <= SESSION_MAX_PIDS; i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%d", i > 1 ? "," : "", i);
	opts__parse(&o, 3, argv);
	assert_int_equal(o.trace.pid_cnt, SESSION_MAX_PIDS);
	/* The same ids again do not count. */
	argv[1] = "-p";
	opts__parse(&o, 3, argv);
	assert_int_equal(o.trace.pid_cnt, SESSION_MAX_PIDS);
}

/* Counts lines that begin, after blanks, with the option as the help writes it. */
static unsigned count_entries(const char *text, const struct opt_row *row)
{
	char long_form[64], both_forms[64];
	unsigned cnt = 0;
	size_t indent;

	snprintf(long_form, sizeof(long_form), "--%s", row->name);
	snprintf(both_forms, sizeof(both_forms), "-%c, --%s", row->letter, row->name);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *want = row->letter ? both_forms : long_form;

		line += strspn(line, "\n");
		indent = strspn(line, " ");
		line += indent;
		/* Text is indented further. */
		if (indent <= 6 && !strncmp(line, want, strlen(want)) &&
		    strchr(" [\n", line[strlen(want)]))
			cnt++;
	}
	return cnt;
}

static void test_help(void **state)
{
	static char text[65536];
	const struct opt_row *rows;
	unsigned cnt;

	rows = opt_rows(&cnt);
	assert_int_equal(run("--help=all", STDOUT_FILENO, text, sizeof(text)), 0);
	for (unsigned i = 0; i < cnt; i++) {
		if (count_entries(text, &rows[i]) != (rows[i].show != HIDDEN))
			fail_msg("--%s: %u times in --help", rows[i].name,
				 count_entries(text, &rows[i]));
	}
	for (enum opt_group g = 0; g < GROUP_CNT; g++)
		assert_non_null(strstr(text, opt_group_row(g)->title));
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		if (strcspn(line, "\n") > 80)
			fail_msg("wider than 80 columns: %.*s", (int)strcspn(line, "\n"), line);
	}
	assert_int_equal(run("-?", STDOUT_FILENO, text, sizeof(text)), 0);
	assert_int_equal(run("-V", STDOUT_FILENO, text, sizeof(text)), 0);
	assert_int_equal(strncmp(text, "cudatrace ", 10), 0);
}

/* It fits a screen: five forms of a command, twelve options, the place of the rest. */
static void test_short_help(void **state)
{
	static const char *const same[] = {"help", "-h", "trace --help"};
	static char text[65536], other[65536];
	const struct opt_row *rows;
	unsigned cnt, lines = 0, forms = 0, first = 0;

	assert_int_equal(run("--help", STDOUT_FILENO, text, sizeof(text)), 0);
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1, lines++) {
		assert_true(strcspn(line, "\n") <= 80);
		forms += !strncmp(line, "  cudatrace ", 12);
	}
	assert_true(lines <= 24);
	assert_int_equal(forms, 5);
	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		first += rows[i].show == FIRST;
		assert_int_equal(count_entries(text, &rows[i]), rows[i].show == FIRST);
	}
	assert_int_equal(first, 12);
	for (enum opt_group g = 0; g < GROUP_CNT; g++)
		assert_non_null(strstr(text, opt_group_row(g)->topic));
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		assert_int_equal(run(same[i], STDOUT_FILENO, other, sizeof(other)), 0);
		assert_string_equal(text, other);
	}
}

/* Each topic has the options of its group, and nothing else. */
static void test_topics(void **state)
{
	static char text[65536], other[65536];
	const struct opt_row *rows;
	unsigned cnt;
	char line[64];

	rows = opt_rows(&cnt);
	for (enum opt_group g = 0; g < GROUP_CNT; g++) {
		const char *topic = opt_group_row(g)->topic;

		snprintf(line, sizeof(line), "help %s", topic);
		assert_int_equal(run(line, STDOUT_FILENO, text, sizeof(text)), 0);
		for (unsigned i = 0; i < cnt; i++)
			if (rows[i].group == g &&
			    count_entries(text, &rows[i]) != (rows[i].show != HIDDEN))
				fail_msg("--%s is not in help %s", rows[i].name, topic);
		for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
			assert_true(strcspn(at, "\n") <= 80);
	}
	for (unsigned i = 0; i < cnt; i++) {
		/* `help --json` is about the short help. */
		snprintf(line, sizeof(line), "help %s%s", strcmp(rows[i].name, "json") ? "--" : "",
			 rows[i].name);
		assert_int_equal(run(line, STDOUT_FILENO, text, sizeof(text)), 0);
		assert_int_equal(count_entries(text, &rows[i]), 1);
	}
	assert_int_equal(run("help all", STDOUT_FILENO, text, sizeof(text)), 0);
	assert_int_equal(run("--help=all", STDOUT_FILENO, other, sizeof(other)), 0);
	assert_string_equal(text, other);
	assert_int_equal(run("help --report", STDOUT_FILENO, text, sizeof(text)), 0);
	assert_int_equal(run("help report", STDOUT_FILENO, other, sizeof(other)), 0);
	assert_string_not_equal(text, other);
}

/* `help which` has the options of each command, and its columns fit. */
static void test_which(void **state)
{
	static const struct {
		const char *question, *command, *root, *attach, *cost;
	} rows[] = {
#define CHOOSE(...) {__VA_ARGS__},
#include "cli/choose.def"
#undef CHOOSE
	};
	static char text[65536];
	char line[128];

	assert_int_equal(run("help which", STDOUT_FILENO, text, sizeof(text)), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *command = rows[i].command + strlen("cudatrace ");

		assert_non_null(strstr(text, rows[i].question));
		assert_non_null(strstr(text, rows[i].command));
		assert_true(strlen(rows[i].question) <= 80 && strlen(rows[i].command) <= 44);
		assert_true(strlen(rows[i].cost) <= 25);
		assert_true(!strcmp(rows[i].root, "yes") || !strcmp(rows[i].root, "no"));
		assert_null(strpbrk(rows[i].question, "\"\\"));
		snprintf(line, sizeof(line), "%s", command);
		/* PID stands for a number. */
		for (char *pid; (pid = strstr(line, "PID"));)
			memcpy(pid, "001", 3);
		if (run(line, STDERR_FILENO, text, sizeof(text)) != 99)
			fail_msg("%s: %s", rows[i].command, text);
		assert_int_equal(run("help which", STDOUT_FILENO, text, sizeof(text)), 0);
	}
}

static void test_verb_help(void **state)
{
	static char text[65536];

	assert_int_equal(run("list --help", STDOUT_FILENO, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "--libcuda"));
	assert_null(strstr(text, "--chrome"));
	assert_int_equal(run("check -h", STDOUT_FILENO, text, sizeof(text)), 0);
	assert_null(strstr(text, "--trace"));
}

/* Roff writes -- as \-\-. */
static void roff_name(const char *name, char *buf)
{
	buf += sprintf(buf, "\\fB\\-\\-");
	for (; *name; name++)
		buf += sprintf(buf, *name == '-' ? "\\-" : "%c", *name);
	strcpy(buf, "\\fR");
}

static void test_man(void **state)
{
	static const char *const sections[] = {
		"NAME",	       "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "OUTPUT",
		"EXIT STATUS", "NEEDS",	   "LIMITS",	  "FILES",   "SEE ALSO",
	};
	static char text[131072];
	const struct opt_row *rows;
	char want[128];
	unsigned cnt;

	rows = opt_rows(&cnt);
	assert_int_equal(run("--man", STDOUT_FILENO, text, sizeof(text)), 0);
	for (unsigned i = 0; i < cnt; i++) {
		roff_name(rows[i].name, want);
		if (rows[i].show != HIDDEN && !strstr(text, want))
			fail_msg("--%s is not in the man page", rows[i].name);
	}
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		snprintf(want, sizeof(want), "\n.SH %s\n", sections[i]);
		if (!strstr(text, want))
			fail_msg("no section %s in the man page", sections[i]);
	}
}

static void test_completion(void **state)
{
	static const char *const shells[] = {"bash", "zsh", "fish"};
	static char text[65536];
	const struct opt_row *rows;
	char line[64];
	unsigned cnt;

	rows = opt_rows(&cnt);
	for (size_t s = 0; s < 3; s++) {
		snprintf(line, sizeof(line), "--completion=%s", shells[s]);
		assert_int_equal(run(line, STDOUT_FILENO, text, sizeof(text)), 0);
		for (unsigned i = 0; i < cnt; i++) {
			char want[64];

			snprintf(want, sizeof(want), s == 2 ? "-l %s" : "--%s", rows[i].name);
			if (rows[i].show != HIDDEN && !strstr(text, want))
				fail_msg("%s is not in the script for %s", want, shells[s]);
		}
	}
}

/* Returns whether word is in text, between mark and end. */
static bool part_has(const char *text, const char *mark, const char *end, const char *word)
{
	static const char ends[] = " ()|',.\t\n";
	const char *from = strstr(text, mark), *to;
	size_t len = strlen(word);

	assert_non_null(from);
	to = strstr(from, end);
	assert_non_null(to);
	for (const char *at = from + 1; at < to; at++)
		if (!strncmp(at, word, len) && strchr(ends, at[-1]) && strchr(ends, at[len]))
			return true;
	return false;
}

/* Each verb has its own help. It is in the general help, in the man page's synopsis and
 * description, and in the shell completions. */
static void test_each_verb(void **state)
{
	static const struct {
		const char *shell, *mark;
	} offers[] = {
		{"bash", "\ttrace) mapfile"}, {"bash", "\ttop|"}, /* words that are verbs */
		{"zsh", "verbs:verb:("},      {"fish", "__cudatrace_at trace' -f -a"},
		{"fish", "case top "},	      {"bash", "\thelp) mapfile"},
		{"zsh", "1:topic:("},	      {"fish", "__cudatrace_at help' -f -a"},
	};
	static const char *const subcommands[] = {"status",  "level",  "burst", "dump",
						  "dossier", "inject", "reload"};
	static const char *const ctl[][2] = {{"bash", "\tctl) mapfile"},
					     {"zsh", "subcommand:("},
					     {"fish", "__cudatrace_at ctl' -a"}};
	static char help[65536], man[131072], text[65536];
	char want[128];

	assert_int_equal(run("--help=all", STDOUT_FILENO, help, sizeof(help)), 0);
	assert_int_equal(run("--man", STDOUT_FILENO, man, sizeof(man)), 0);
	for (enum verb v = VERB_TRACE + 1; v < VERB_CNT; v++) {
		const char *name = verb_row(v)->name;

		snprintf(want, sizeof(want), "\n       cudatrace %s ", name);
		assert_non_null(strstr(help, want));
		assert_true(part_has(help, "The -- may be left out", "\n\n", name));
		snprintf(want, sizeof(want), "\n.B cudatrace %s\n", name);
		if (!strstr(man, want) || strstr(man, want) > strstr(man, ".SH DESCRIPTION"))
			fail_msg("%s is not in the man page's synopsis", name);
		if (!strstr(strstr(man, ".SH DESCRIPTION"), want))
			fail_msg("%s is not in the man page's description", name);
		snprintf(want, sizeof(want), "%s --help", name);
		assert_int_equal(run(want, STDOUT_FILENO, text, sizeof(text)), 0);
		snprintf(want, sizeof(want), "Usage: cudatrace %s ", name);
		assert_int_equal(strncmp(text, want, strlen(want)), 0);
		for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
			if (strcspn(line, "\n") > 80)
				fail_msg("%s: wider than 80 columns: %.*s", name,
					 (int)strcspn(line, "\n"), line);
	}
	for (size_t i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
		snprintf(want, sizeof(want), "--completion=%s", offers[i].shell);
		assert_int_equal(run(want, STDOUT_FILENO, text, sizeof(text)), 0);
		for (enum verb v = VERB_TRACE + 1; v < VERB_CNT; v++)
			if (!part_has(text, offers[i].mark, "\n", verb_row(v)->name))
				fail_msg("%s is not behind '%s' for %s", verb_row(v)->name,
					 offers[i].mark, offers[i].shell);
	}
	for (size_t i = 0; i < sizeof(ctl) / sizeof(ctl[0]); i++) {
		snprintf(want, sizeof(want), "--completion=%s", ctl[i][0]);
		assert_int_equal(run(want, STDOUT_FILENO, text, sizeof(text)), 0);
		for (size_t k = 0; k < sizeof(subcommands) / sizeof(subcommands[0]); k++)
			if (!part_has(text, ctl[i][1], "\n", subcommands[k]))
				fail_msg("%s: ctl offers no %s", ctl[i][0], subcommands[k]);
	}
}

/* Conditions that completion.c and argp need of the table. */
static void test_table(void **state)
{
	const struct opt_row *rows;
	unsigned cnt;

	rows = opt_rows(&cnt);
	assert_true(cnt <= OPTS_MAX);
	for (unsigned i = 0; i < cnt; i++) {
		const char *help = rows[i].help;

		assert_non_null(rows[i].set);
		assert_true(rows[i].verbs);
		if (strpbrk(help, "'\"\\`$") || help[strlen(help) - 1] == '.' ||
		    (help[0] >= 'A' && help[0] <= 'Z'))
			fail_msg("--%s: its text begins with a capital, ends with a full stop or "
				 "has a quote in it",
				 rows[i].name);
		assert_true((rows[i].complete == COMP_WORDS) == (rows[i].words != NULL));
		for (unsigned k = 0; k < i; k++) {
			assert_string_not_equal(rows[i].name, rows[k].name);
			assert_true(!rows[i].letter || rows[i].letter != rows[k].letter);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),      cmocka_unit_test(test_stack),
		cmocka_unit_test(test_capture_range), cmocka_unit_test(test_all_layers),
		cmocka_unit_test(test_pids),	      cmocka_unit_test(test_command),
		cmocka_unit_test(test_verbs),	      cmocka_unit_test(test_values),
		cmocka_unit_test(test_times),	      cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_outputs),	      cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_most_pids),     cmocka_unit_test(test_help),
		cmocka_unit_test(test_verb_help),     cmocka_unit_test(test_short_help),
		cmocka_unit_test(test_topics),	      cmocka_unit_test(test_which),
		cmocka_unit_test(test_man),	      cmocka_unit_test(test_completion),
		cmocka_unit_test(test_table),	      cmocka_unit_test(test_each_verb),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
