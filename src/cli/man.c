/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The man page: sections of prose, and the rows of verbs and options. `cudatrace --man | man -l
 * -` */
#include "opts_priv.h"

#include <string.h>

#include "decode/cuda.h"
#include "version.h"

/* Last change of the prose. */
#define MAN_DATE "2026-11-28"

static const char sets[] =
	".SH WHAT TO TRACE\nThe \\fISET\\fR of\n.B \\-\\-trace\nis a comma-separated list. An item is the "
	"name of a function (\\fBcuMemAlloc\\fR means all\nits versions, \\fBcuMemAlloc_v2\\fR only that "
	"one; also one that only a library of this\nmachine exports), a glob (\\fBcuMem*\\fR), a class,\n.B "
	"all\nor\n.BR none .\nA\n.B !\nin front of the list means all but these; in front of an item it "
	"removes the item:\nthe last item that matches applies. Without\n.B \\-\\-trace\neverything but the class\n.B query\nis "
	"traced: lookups that change nothing, of which some programs make hundreds of thousands.\nThe trace "
	"and the summary list the classes that are not traced. The classes:\n";

static const char examples[] =
	".SH EXAMPLES\n"
	"Trace a program from its start, to a file below traces/:\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"sudo cudatrace \\-\\- python transformer_inference.py\n"
	".EE\n"
	".RE\n"
	".PP\n"
	"Look at a running program for five seconds, and open the result in Perfetto:\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"sudo cudatrace \\-p 4242 \\-\\-duration 5 \\-\\-chrome trace.json\n"
	".EE\n"
	".RE\n"
	".PP\n"
	"Only memory and copies, as JSON lines to another program:\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"sudo cudatrace \\-e memory,transfer \\-\\-jsonl \\- \\-p 4242 | jq .size\n"
	".EE\n"
	".RE\n"
	".PP\n"
	"Calls of any process that take longer than a millisecond:\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"sudo cudatrace \\-a \\-\\-all \\-\\-min\\-duration 1000\n"
	".EE\n"
	".RE\n"
	".PP\n"
	"System calls into the kernel driver, below the CUDA calls that make them, in Perfetto:\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"sudo cudatrace \\-\\-kernel \\-\\-chrome trace.json \\-\\- python train.py\n"
	".EE\n"
	".RE\n"
	".PP\n"
	"Find out whether waits spin or sleep:\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"sudo cudatrace \\-\\-sched \\-e sync \\-\\-summary=full \\-p 4242\n"
	".EE\n"
	".RE\n"
	".PP\n"
	"Which functions launch kernels, and what they take:\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"cudatrace list \\-e launch\n"
	".EE\n"
	".RE\n"
	".PP\n"
	"Which commands of the kernel driver are known:\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"cudatrace list \\-\\-ioctls | grep UVM_\n"
	".EE\n"
	".RE\n";

static const char output[] =
	".SH OUTPUT\n"
	"JSON lines are the complete form: one object per line. The first is of type\n"
	".B header\n"
	"(versions, libcuda files, what is traced and what is not), the last of type\n"
	".B end\n"
	"(counts, losses, the overhead of tracing). Between them each event has\n"
	".B ts\n"
	"(milliseconds since the start of the trace),\n"
	".BR type ,\n"
	".BR name ,\n"
	".B pid\n"
	"and\n"
	".BR tid ;\n"
	"calls also have\n"
	".BR duration_us ,\n"
	".BR result ,\n"
	".B error\n"
	"when they failed, and\n"
	".BR args .\n"
	"Pointers and handles are hexadecimal strings, sizes and counts are numbers, enums are names.\n"
	"docs/SCHEMA.md describes every field, and so does\n"
	".BR \"cudatrace list \\-\\-schema\" .\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"jq \\-r .type trace.jsonl | sort | uniq \\-c\n"
	"jq \\(aqselect(.type==\"kernel\" and .op==\"launch\")\\(aq trace.jsonl\n"
	"jq \\(aqselect(.duration_us) | {name, duration_us}\\(aq trace.jsonl\n"
	".EE\n"
	".RE\n"
	".PP\n"
	"The Chrome form holds the same calls for a timeline: open it at ui.perfetto.dev or in\n"
	"chrome://tracing. That of \\-\\-perfetto is much smaller, and for ui.perfetto.dev alone.\n"
	"The trace goes to files or to stdout; messages and the summary go to\n"
	"stderr.\n";

static const char rest[] =
	".SH EXIT STATUS\n"
	"With a command: the command\\(aqs own, or 128 plus the number of the signal that ended it.\n"
	"Otherwise:\n"
	".TP\n"
	".B 0\n"
	"no error\n"
	".TP\n"
	".B 1\n"
	"cudatrace failed; a line on stderr gives the reason\n"
	".TP\n"
	".B 2\n"
	"the command line is wrong\n"
	".SH NEEDS\n"
	"Linux 5.15 or later with uprobes and BTF; 6.6 or later attaches faster, and 6.13 or later\n"
	"traces at the lowest cost. Root, or a user with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE. An\n"
	"NVIDIA driver, which provides libcuda. A 64-bit x86 or Arm machine.\n"
	".B cudatrace check\n"
	"shows what is there and what is missing.\n"
	".SH LIMITS\n"
	"A trace contains calls: the duration of a launch is the time that the program spent in the\n"
	"call, and the kernel runs later. The run times of kernels are recorded with\n"
	".BR \\-\\-gpu\\-time .\n"
	".PP\n"
	"Work without a call into libcuda is not traced: kernels inside a graph (the launch of the graph\n"
	"is traced, and the capture that built it), launches made by kernels, loads and stores to mapped\n"
	"memory. Other ways to the GPU are not traced either: Vulkan, OpenGL, video encoders, calls through\n"
	"the undocumented tables of libcuda (cuGetExportTable); nor 32-bit programs.\n"
	".PP\n"
	"With\n"
	".B \\-\\-kernel\n"
	"system calls into the driver are traced too, but a launch makes none: it is a store to a page of\n"
	"the GPU. What the GPU\\(aqs scheduler decides is recorded with\n"
	".BR \\-\\-gpu\\-ctxsw .\n"
	"By tracepoint,\n"
	"polls, closes at the end of a process and faults of managed memory are not traced. Controls that\n"
	"the driver hands to the GPU\\(aqs firmware under unpublished numbers stay numbers, and drivers\n"
	"newer than 595 are decoded as 595.\n"
	".PP\n"
	"Arguments behind pointers are copied up to a bounded length. When events come faster than\n"
	"they can be written, some are dropped; their number is in the trace and in the summary.\n"
	"A larger\n"
	".B \\-\\-buffer\\-size\n"
	"or a smaller\n"
	".B \\-\\-trace\n"
	"helps. Tracing costs the program about one or two microseconds per call; the summary reports the\n"
	"overhead.\n"
	".SH FILES\n"
	".TP\n"
	".I traces/trace_TIME.jsonl\n"
	"where the trace goes when no output is named\n"
	".TP\n"
	".I libcuda.so.1\n"
	"found where a process has it mapped, or as the dynamic linker would find it; also in\n"
	"containers, and when it was replaced on disk\n"
	".SH SEE ALSO\n"
	".BR strace (1),\n"
	".BR ltrace (1),\n"
	".BR perf (1),\n"
	".BR bpftrace (8),\n"
	".BR nvidia\\-smi (1)\n";

/* Text as running text: typed hyphens stay hyphens, and no line is taken for a request. */
static void put_text(FILE *f, const char *s)
{
	if (*s == '.' || *s == '\'')
		fputs("\\&", f);
	for (; *s; s++) {
		if (*s == '\\')
			fputs("\\e", f);
		else if (*s == '-')
			fputs("\\-", f);
		else if (*s == '\'')
			fputs("\\(aq", f);
		else
			fputc(*s, f);
	}
}

static void put_sentence(FILE *f, const char *s)
{
	char first[2] = {*s, 0};

	if (*s >= 'a' && *s <= 'z')
		first[0] = (char)(*s - 'a' + 'A');
	put_text(f, first);
	if (*s)
		put_text(f, s + 1);
	fputs(".\n", f);
}

static void put_row(FILE *f, const struct opt_row *row)
{
	fputs(".TP\n", f);
	if (row->letter)
		fprintf(f, "\\fB\\-%c\\fR, ", row->letter);
	fputs("\\fB\\-\\-", f);
	put_text(f, row->name);
	fputs("\\fR", f);
	if (row->arg) {
		fputs(opt_needs_value(row) ? " \\fI" : "\\fI", f);
		put_text(f, row->arg);
		fputs("\\fR", f);
	}
	fputs("\n", f);
	put_sentence(f, row->help);
}

/* Literal words in bold, placeholders in italics. */
static void put_usage(FILE *f, const char *args)
{
	for (const char *at = args; *at;) {
		bool is_option = *at == '-' && (at == args || strchr("[ ", at[-1]));
		size_t len = is_option ? strspn(at, "-abcdefghijklmnopqrstuvwxyz")
				       : strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

		if (len)
			fprintf(f, "\\f%c", is_option ? 'B' : 'I');
		for (size_t i = 0; i < (len ?: 1); i++)
			fputs(at[i] == '-' ? "\\-" : (char[]){at[i], 0}, f);
		if (len)
			fputs("\\fR", f);
		at += len ?: 1;
	}
	fputs("\n", f);
}

static void put_verbs(FILE *f)
{
	const char *sep = "";

	fputs(".SH SYNOPSIS\n", f);
	for (enum verb v = 0; v < VERB_CNT; v++) {
		const struct verb_row *verb = verb_row(v);

		for (int i = 0; i < VERB_USAGES && verb->usages[i].args; i++) {
			fprintf(f, "%s.B cudatrace%s%s\n", sep, v ? " " : "", v ? verb->name : "");
			put_usage(f, verb->usages[i].args);
			sep = ".br\n";
		}
	}
	fputs(".SH DESCRIPTION\n", f);
	fputs(verb_row(VERB_TRACE)->man, f);
	fputs(".PP\nThe\n.B \\-\\-\nmay be left out unless the command is called ", f);
	verbs__print(f, ", ", " or ");
	fputs(";\noptions of\n.B cudatrace\nstand before the command.\n", f);
	for (enum verb v = VERB_TRACE + 1; v < VERB_CNT; v++)
		fputs(verb_row(v)->man, f);
}

static void put_options(FILE *f)
{
	const struct opt_row *rows;
	unsigned cnt;

	rows = opt_rows(&cnt);
	fputs(".SH OPTIONS\n"
	      "Long names may be shortened as long as they are clear. A value follows its option as the\n"
	      "next word, or after\n"
	      ".B =\n"
	      "for long names.\n",
	      f);
	for (enum opt_group g = 0; g < GROUP_CNT; g++) {
		fprintf(f, ".SS %s\n", opt_group_row(g)->title);
		for (unsigned i = 0; i < cnt; i++) {
			if (rows[i].group == g && rows[i].show != HIDDEN)
				put_row(f, &rows[i]);
		}
	}
}

static void put_classes(FILE *f)
{
	for (enum api_class c = 0; c < CLASS_CNT; c++) {
		fprintf(f, ".TP\n.B %s\n", api_class_name(c));
		put_text(f, api_class_text(c));
		fputs("\n", f);
	}
}

void opts__print_man(FILE *f)
{
	fputs(".\\\" SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause\n"
	      ".\\\" Made by cudatrace --man; edit src/cli/man.c, verbs.def and options.def instead.\n",
	      f);
	fprintf(f, ".TH CUDATRACE 1 \"%s\" \"cudatrace %s\" \"User Commands\"\n", MAN_DATE,
		CUDATRACE_VERSION);
	fputs(".SH NAME\ncudatrace \\- trace the CUDA driver calls of programs\n", f);
	put_verbs(f);
	put_options(f);
	fputs(sets, f);
	put_classes(f);
	fputs(examples, f);
	fputs(output, f);
	fputs(rest, f);
}
