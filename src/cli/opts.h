/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The command line. One table of options (opts_table.c): help, man page and shell completion are
 * printed from it.
 */
#ifndef CLI_OPTS_H
#define CLI_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach/attach.h"
#include "attach/mechanism.h"
#include "report/report.h"

enum verb {
	VERB_TRACE,  /* no verb given */
	VERB_LIST,   /* cudatrace list: the API table */
	VERB_CHECK,  /* cudatrace check: what this machine allows */
	VERB_REPORT, /* cudatrace report: what saved traces say */
	VERB_DIFF,   /* cudatrace diff: what changed between two of them */
	VERB_DAEMON, /* cudatrace daemon: traces the whole node */
	VERB_CTL,    /* cudatrace ctl: asks the daemon */
	VERB_LAST = VERB_CTL
};

enum tristate { TRI_UNSET = 0, TRI_ON, TRI_OFF };

struct strv {
	const char **v;
	unsigned cnt;
};

#define OPTS_MAX_PIDS 256

/* Ring buffer. At 500,000 calls a second the default is filled in about half a second. */
#define OPTS_BUFFER_MIN	    (64ull << 10)
#define OPTS_BUFFER_MAX	    (1ull << 30)
#define OPTS_WRITERS_MAX    15
#define OPTS_BUFFER_DEFAULT (32ull << 20)
/* When all processes are traced: a tracer that waits for days has its pages resident, twice each.
 */
#define OPTS_BUFFER_ALL (8ull << 20)

struct opts {
	enum verb verb;
	/* target */
	pid_t pids[OPTS_MAX_PIDS];
	unsigned pid_cnt;
	char **argv; /* command, NULL-terminated; NULL when none */
	int argc;
	bool follow;	     /* children too; default true, --no-follow */
	bool wait;	     /* wait for libcuda to be loaded; default true, --no-wait */
	const char *libcuda; /* --libcuda PATH */
	bool stop_on_load;   /* -p: a libcuda that was not known is attached before it is called */
	bool force;	     /* --force: files that others may write to, too */
	const char *user;    /* --user NAME or number */
	/* outputs */
	struct strv jsonl, chrome, report; /* FILE or "-" */
	enum tristate summary;		   /* unset: when stderr is a terminal */
	bool quiet;
	int verbose;
	bool json;   /* list, check, summary */
	bool ioctls; /* list: the driver's tables instead of the API's */
	bool names;  /* list: only the names that -e knows, for completion scripts (hidden) */
	/* report */
	struct strv files;	   /* traces; "-" is stdin. ctl: its words */
	const char *format;	   /* a name of report_formats(), "chrome" or "all" */
	const char *output;	   /* -o; NULL: none */
	unsigned top;		   /* rows of long tables */
	enum iter_mode iterations; /* how they are found */
	const char *marker;	   /* ITER_MARKER: the function */
	uint64_t gap_ns;	   /* ITER_GAP */
	/* daemon, ctl */
	const char *config; /* --config FILE */
	bool check_config;
	struct strv sets; /* --set KEY=VALUE, in order */
	/* what to trace */
	struct strv select; /* each -e, in order */
	bool all;
	struct strv count, no_return; /* sets, in order: the last counts */
	struct strv stack;	      /* --stack: the same */
	double max_overhead;	      /* share of the busiest thread's time, 0.01 is 1 %; 0: none */
	bool kernel;		      /* --kernel: system calls into the NVIDIA driver too */
	bool sched;		      /* --sched: off-CPU time, GPU interrupts */
	uint64_t duration_ns;	      /* 0: none */
	uint64_t max_events;	      /* 0: none */
	uint64_t min_duration_ns;
	/* tuning */
	uint64_t buffer_sz; /* ring buffer in bytes: a power of two, 64 KiB to 1 GiB */
	int writers;	    /* threads; -1: by the number of processors */
	enum mechanism mechanism;
	enum kernel_probe kernel_probe;
	enum ct_hide hide; /* --no-strings, --no-args */
	bool sandbox;	   /* give up what is not needed; default true, --no-sandbox */
};

/* report */
#define OPTS_GAP_DEFAULT 1000000ull

#define EXIT_USAGE 2

/*
 * Parses argv. On a usage error it prints one line that says what is wrong and what to do and exits
 * with EXIT_USAGE; --help and --version print and exit with 0. Whatever it stores points into argv
 * or is allocated for the life of the process.
 */
void opts__parse(struct opts *o, int argc, char **argv);

#endif /* CLI_OPTS_H */
