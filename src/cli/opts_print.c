// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Help and version, from the option table. */
#include "opts_priv.h"

#include <string.h>

#include "version.h"

#define HELP_COLUMNS	 80
#define HELP_TEXT_COLUMN 27

static const char usage_trace[] =
	"Usage: cudatrace [OPTIONS] -p PID[,PID...]         running processes\n"
	"       cudatrace [OPTIONS] -- COMMAND [ARGS...]    a command, from its start\n"
	"       cudatrace [OPTIONS]                         every process that uses CUDA\n"
	"       cudatrace list [--json] [-e SET] [--libcuda PATH]\n"
	"       cudatrace check [--json]\n"
	"       cudatrace report [--format NAME] [-o FILE] FILE...\n"
	"       cudatrace diff [--format NAME] [-o FILE] OLD NEW\n"
	"       cudatrace daemon [--config FILE] [--set KEY=VALUE]...\n"
	"       cudatrace ctl status|level|burst|dump|reload ...\n"
	"\n"
	"Shows each call that CUDA programs make into the driver library, libcuda.so.1.\n"
	"The -- may be left out when COMMAND is not called list, check, report, diff,\n"
	"daemon or ctl.\n";

static const char usage_list[] =
	"Usage: cudatrace list [--json] [-e SET] [--libcuda PATH]\n"
	"\n"
	"Lists the CUDA driver functions that cudatrace knows: class, what a call does,\n"
	"whether it is traced by default, since which CUDA version it exists, whether the\n"
	"libcuda file of this machine has it, and its arguments. Needs no root.\n";

static const char usage_check[] =
	"Usage: cudatrace check [--json]\n"
	"\n"
	"Says what this kernel, this user and the drivers here allow, what is lost where\n"
	"something is missing, and how to get it.\n";

static const char usage_report[] =
	"Usage: cudatrace report [--format NAME] [-o FILE] [OPTIONS] FILE...\n"
	"\n"
	"Says what saved traces (JSON lines, also of gzip and zstd; - is stdin) tell: where\n"
	"the time went, what is slow and why. Needs no root and no GPU. Several files: one\n"
	"after another, in one report.\n";

static const char usage_diff[] =
	"Usage: cudatrace diff [OPTIONS] OLD NEW\n"
	"\n"
	"Says what changed between two saved traces: calls, kernels, memory, iterations, the\n"
	"largest change first. Counts are exact; times that differ by less than 10 % are\n"
	"noise. Exit status: 0 nothing changed, 1 something did, 2 trouble.\n";

static const char usage_daemon[] =
	"Usage: cudatrace daemon [--config FILE] [--check-config] [--set KEY=VALUE]...\n"
	"\n"
	"Traces every process that uses CUDA, now and later, in containers too: metrics for\n"
	"Prometheus, bursts of full trace, files that rotate, a flight recorder. Keys and\n"
	"levels are in docs/DAEMON.md. SIGHUP reads the configuration again.\n";

static const char usage_ctl[] =
	"Usage: cudatrace ctl status\n"
	"       cudatrace ctl level PID|PATTERN off|metrics|trace|sampled\n"
	"       cudatrace ctl level PID default\n"
	"       cudatrace ctl burst [PID] [SECONDS]\n"
	"       cudatrace ctl dump [FILE]\n"
	"       cudatrace ctl reload\n"
	"\n"
	"Asks a running daemon; the answer is JSON. For root and the members of ctl.group.\n"
	"PATTERN is a glob for commands, also of processes to come, until a reload. burst\n"
	"without a PID is for all processes at level metrics or sampled; a time alone needs its\n"
	"unit, as in burst 10s.\n";

static const char after[] =
	"\n"
	"SET is a list of function names (cuLaunchKernel), globs (cuMem*) and classes\n"
	"(launch, memory, transfer, ...; cudatrace list shows which), all or none:\n"
	"  -e launch,transfer    only these two classes\n"
	"  -e '!event,query'     all but these\n"
	"Without it, all but the chatty queries are traced.\n"
	"\n"
	"Exit status: the command's own, or 128 + the signal that ended it; else 0 when\n"
	"all went well, 1 when cudatrace failed, 2 when the command line is wrong.\n";

static void pad(FILE *f, size_t col)
{
	fprintf(f, "%*s", (int)col, "");
}

/* Words up to the last column, further lines indented to the column of the first. */
static void print_wrapped(FILE *f, const char *text)
{
	size_t col = HELP_TEXT_COLUMN;
	bool is_first = true;

	while (*text) {
		size_t len = strcspn(text, " ");

		if (!is_first && col + 1 + len >= HELP_COLUMNS) {
			fputc('\n', f);
			pad(f, HELP_TEXT_COLUMN);
			col = HELP_TEXT_COLUMN;
		} else if (!is_first) {
			fputc(' ', f);
			col++;
		}
		fwrite(text, 1, len, f);
		col += len;
		is_first = false;
		text += len + strspn(text + len, " ");
	}
	fputc('\n', f);
}

static void print_row(FILE *f, const struct opt_row *row)
{
	char left[64];
	int len;

	if (row->letter)
		len = snprintf(left, sizeof(left), "  -%c, --%s", row->letter, row->name);
	else
		len = snprintf(left, sizeof(left), "      --%s", row->name);
	if (row->arg)
		len += snprintf(left + len, sizeof(left) - (size_t)len, "%s%s",
				opt_needs_value(row) ? " " : "", row->arg);
	fputs(left, f);
	if (len + 2 > HELP_TEXT_COLUMN) {
		fputc('\n', f);
		len = 0;
	}
	pad(f, HELP_TEXT_COLUMN - (size_t)len);
	print_wrapped(f, row->help);
}

static void print_group(FILE *f, enum opt_group group, enum verb verb)
{
	const struct opt_row *rows;
	bool has_head = false;
	unsigned cnt;

	rows = opt_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		/* The general help shows the options of all verbs. */
		bool is_for = verb == VERB_TRACE || rows[i].verbs >> verb & 1;

		if (rows[i].hidden || rows[i].group != group || !is_for)
			continue;
		if (!has_head)
			fprintf(f, "\n%s:\n", opt_group_name(group));
		has_head = true;
		print_row(f, &rows[i]);
	}
}

void opts__print_help(enum verb verb, FILE *f)
{
	static const char *const usages[] = {
		[VERB_TRACE] = usage_trace,   [VERB_LIST] = usage_list,
		[VERB_CHECK] = usage_check,   [VERB_REPORT] = usage_report,
		[VERB_DAEMON] = usage_daemon, [VERB_CTL] = usage_ctl,
		[VERB_DIFF] = usage_diff,
	};

	fputs(usages[verb], f);
	for (enum opt_group g = 0; g < GROUP_CNT; g++)
		print_group(f, g, verb);
	if (verb == VERB_TRACE)
		fputs(after, f);
}

void opts__print_version(FILE *f)
{
	fprintf(f, "cudatrace %s\n", CUDATRACE_VERSION);
}
