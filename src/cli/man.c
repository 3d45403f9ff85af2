// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The man page: sections of prose, and the options from their table. `cudatrace --man | man -l -`
 */
#include "opts_priv.h"

#include <string.h>

#include "decode/cuda.h"
#include "version.h"

/* When the prose was last changed. */
#define MAN_DATE "2026-11-21"

static const char head[] =
	".SH NAME\n"
	"cudatrace \\- show what CUDA programs ask of the GPU\n"
	".SH SYNOPSIS\n"
	".B cudatrace\n"
	"[\\fIOPTIONS\\fR] \\fB\\-p\\fR \\fIPID\\fR[,\\fIPID\\fR...]\n"
	".br\n"
	".B cudatrace\n"
	"[\\fIOPTIONS\\fR] \\fB\\-\\-\\fR \\fICOMMAND\\fR [\\fIARGS\\fR...]\n"
	".br\n"
	".B cudatrace\n"
	"[\\fIOPTIONS\\fR]\n"
	".br\n"
	".B cudatrace list\n"
	"[\\fB\\-\\-json\\fR] [\\fB\\-e\\fR \\fISET\\fR] [\\fB\\-\\-libcuda\\fR \\fIPATH\\fR]\n"
	".br\n"
	".B cudatrace list \\-\\-ioctls\n"
	"[\\fB\\-\\-json\\fR]\n"
	".br\n"
	".B cudatrace check\n"
	"[\\fB\\-\\-json\\fR]\n"
	".br\n"
	".B cudatrace report\n"
	"[\\fIOPTIONS\\fR] \\fIFILE\\fR...\n"
	".br\n"
	".B cudatrace daemon\n"
	"[\\fB\\-\\-config\\fR \\fIFILE\\fR] [\\fB\\-\\-check\\-config\\fR] "
	"[\\fB\\-\\-set\\fR \\fIKEY\\fR=\\fIVALUE\\fR]...\n"
	".br\n"
	".B cudatrace ctl\n"
	"status | level \\fIPID\\fR|\\fIPATTERN\\fR \\fILEVEL\\fR | burst [\\fIPID\\fR] "
	"[\\fISECONDS\\fR] | dump [\\fIFILE\\fR] | reload\n"
	".SH DESCRIPTION\n"
	".B cudatrace\n"
	"records each call that programs make into NVIDIA's driver library, libcuda.so.1: which\n"
	"function, when, how long it took, its result, and its arguments with their meaning: sizes,\n"
	"copy directions, kernel names, grids and blocks, streams, flags by name. PyTorch, JAX, Triton,\n"
	"CuPy and everything else that is built on the CUDA runtime end up in this library. The\n"
	"programs are not changed, restarted or slowed down by a debugger: the kernel sees the calls\n"
	"through uprobes.\n"
	".PP\n"
	"With\n"
	".B \\-p\n"
	"it attaches to running processes. With a command it starts that command and sees all calls\n"
	"from the first on. The\n"
	".B \\-\\-\n"
	"may be left out unless the command is called list or check; options of\n"
	".B cudatrace\n"
	"stand before the command. With neither, it traces every process that has libcuda loaded or\n"
	"loads it later. Children of traced processes are traced too. Ctrl-C ends the trace, and the\n"
	"files are complete then; a second Ctrl-C ends it at once.\n"
	".PP\n"
	".B cudatrace list\n"
	"prints the table of known functions: class, what a call does, whether it is traced by default,\n"
	"since which CUDA version it exists, whether a libcuda file has it, and its arguments; with\n"
	".B \\-\\-ioctls\n"
	"what is known of the kernel driver: escapes, controls, classes, UVM commands, statuses, Xids.\n"
	".B cudatrace check\n"
	"says what this kernel, this user and the drivers allow, what is lost where something is\n"
	"missing, and how to get it.\n"
	".B cudatrace report\n"
	"reads saved traces (JSON lines, packed by gzip or zstd or not) and says where the time went\n"
	"and what is slow.\n"
	".PP\n"
	".B cudatrace daemon\n"
	"traces every process of a node, for as long as it runs: it counts calls for Prometheus, traces\n"
	"in full what its configuration says, and keeps the last seconds in memory for when something\n"
	"fails. SIGHUP reads the configuration again, SIGTERM ends it.\n"
	".B cudatrace ctl\n"
	"asks the daemon what it sees, changes the level of a process or of the commands that a glob\n"
	"matches, takes a burst of full trace, writes the flight recorder to a file. docs/DAEMON.md\n"
	"describes both.\n";

static const char sets[] =
	".SH WHAT TO TRACE\n"
	"The \\fISET\\fR of\n"
	".B \\-\\-trace\n"
	"is a list with commas between. An item is the name of a function (\\fBcuMemAlloc\\fR means all\n"
	"its versions, \\fBcuMemAlloc_v2\\fR only that one), a glob (\\fBcuMem*\\fR), a class,\n"
	".B all\n"
	"or\n"
	".BR none .\n"
	"A\n"
	".B !\n"
	"in front of the list means all but these; in front of an item it takes the item out again:\n"
	"later items win. Without\n"
	".B \\-\\-trace\n"
	"everything but the class\n"
	".B query\n"
	"is traced: lookups that change nothing, which some programs make by the hundred thousand.\n"
	"What was left out is said in the trace and in the summary. The classes:\n";

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
	"sudo cudatrace \\-\\-all \\-\\-min\\-duration 1000\n"
	".EE\n"
	".RE\n"
	".PP\n"
	"What a program asks of the kernel driver, below the calls that ask it, in Perfetto:\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"sudo cudatrace \\-\\-kernel \\-\\-chrome trace.json \\-\\- python train.py\n"
	".EE\n"
	".RE\n"
	".PP\n"
	"Whether waits spin or sleep:\n"
	".PP\n"
	".RS 4\n"
	".EX\n"
	"sudo cudatrace \\-\\-sched \\-e sync \\-\\-summary \\-p 4242\n"
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
	"JSON lines are the complete form: one object a line. The first is of type\n"
	".B header\n"
	"(versions, libcuda files, what is traced and what is left out), the last of type\n"
	".B end\n"
	"(counts, what was lost, what tracing cost). Between them each event has\n"
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
	"docs/SCHEMA.md describes every field.\n"
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
	"chrome://tracing. The trace goes to files or to stdout; messages and the summary go to\n"
	"stderr.\n";

static const char rest[] =
	".SH EXIT STATUS\n"
	"With a command: the command\\(aqs own, or 128 plus the number of the signal that ended it.\n"
	"Otherwise:\n"
	".TP\n"
	".B 0\n"
	"all went well\n"
	".TP\n"
	".B 1\n"
	"cudatrace failed; a line on stderr says why\n"
	".TP\n"
	".B 2\n"
	"the command line is wrong\n"
	".SH NEEDS\n"
	"Linux 5.15 or later with uprobes and BTF; 6.6 or later attaches faster, and 6.13 or later\n"
	"traces at the least cost. Root, or a user with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE. An\n"
	"NVIDIA driver, since that is where libcuda comes from. A 64-bit x86 or Arm machine.\n"
	".B cudatrace check\n"
	"says what is there and what is missing.\n"
	".SH LIMITS\n"
	"It sees calls, not the GPU: a launch\\(aqs duration is the time that the program spent in the\n"
	"call, and the kernel runs later. How long it ran is known only to CUPTI and the profilers\n"
	"built on it.\n"
	".PP\n"
	"What makes no call into libcuda is not seen: kernels inside a graph (the graph\\(aqs launch is\n"
	"seen, and the capture that built it), launches made by kernels, loads and stores to mapped\n"
	"memory. Neither are other ways to the GPU: Vulkan, OpenGL, video encoders, calls through\n"
	"the undocumented tables of libcuda (cuGetExportTable); nor 32-bit programs.\n"
	".PP\n"
	"With\n"
	".B \\-\\-kernel\n"
	"system calls into the driver are seen too, but a launch makes none: it is a store to a page of\n"
	"the GPU. What the GPU\\(aqs scheduler decides is not to be seen from the kernel. By tracepoint,\n"
	"polls, closes at the end of a process and faults of managed memory are not seen. Controls that\n"
	"the driver hands to the GPU\\(aqs firmware under unpublished numbers stay numbers, and drivers\n"
	"newer than 595 are decoded as 595.\n"
	".PP\n"
	"Arguments behind pointers are copied up to a bounded length. When events come faster than\n"
	"they can be written, some are dropped; their number is in the trace and in the summary.\n"
	"A larger\n"
	".B \\-\\-buffer\\-size\n"
	"or a smaller\n"
	".B \\-\\-trace\n"
	"helps. Tracing costs the program about a microsecond or two a call; the summary says how much\n"
	"it was.\n"
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

/* Text as running text: hyphens that are typed stay hyphens, and no line is taken for a request. */
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
		fprintf(f, ".SS %s\n", opt_group_name(g));
		for (unsigned i = 0; i < cnt; i++) {
			if (rows[i].group == g && !rows[i].hidden)
				put_row(f, &rows[i]);
		}
	}
}

static void put_classes(FILE *f)
{
	for (enum cuda_class c = 0; c < CLASS_CNT; c++) {
		fprintf(f, ".TP\n.B %s\n", cuda_class_name(c));
		put_text(f, cuda_class_text(c));
		fputs("\n", f);
	}
}

void opts__print_man(FILE *f)
{
	fputs(".\\\" SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause\n"
	      ".\\\" Made by cudatrace --man; edit src/cli/man.c and src/cli/opts_table.c instead.\n",
	      f);
	fprintf(f, ".TH CUDATRACE 1 \"%s\" \"cudatrace %s\" \"User Commands\"\n", MAN_DATE,
		CUDATRACE_VERSION);
	fputs(head, f);
	put_options(f);
	fputs(sets, f);
	put_classes(f);
	fputs(examples, f);
	fputs(output, f);
	fputs(rest, f);
}
