/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parsed command line. Its verbs are rows of verbs.def, its options rows of options.def. Help,
 * man page and shell completion are generated from them.
 */
#ifndef CLI_OPTS_H
#define CLI_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "report/report.h"
#include "top/top.h"
#include "trace/session_opts.h"

enum verb {
#define VERB(id, name, flags, brief, usages, help, man) VERB_##id,
#include "verbs.def"
#undef VERB
	VERB_CNT
};

/* Size of the ring buffer. 500,000 calls per second fill the default in about half a second. */
#define OPTS_BUFFER_MIN (64ull << 10)
#define OPTS_BUFFER_MAX (1ull << 30)
/* Space for a header, an end with the counts of all functions, and some events. */
#define OPTS_FILE_MIN	    (1ull << 20)
#define OPTS_BUFFER_DEFAULT (32ull << 20)
/* With --system: a tracer that waits for days keeps these pages resident, twice each. */
#define OPTS_BUFFER_ALL (8ull << 20)

struct opts {
	enum verb verb;
	bool bare;		   /* no arguments */
	bool system;		   /* --system: every process */
	struct session_opts trace; /* also holds what other verbs share with it */
	bool all_layers;	   /* --all-layers; the options that it implies are in trace too */
	int verbose;
	bool ioctls;	       /* list: the tables of the driver instead of the API */
	bool schema;	       /* list: a JSON Schema */
	const char *schema_of; /* list: what the JSON Schema is of; NULL: a JSONL line */
	bool names;	       /* list: only the names for -e, for completion scripts (hidden) */
	/* report */
	struct strv files;   /* traces; "-" is stdin. ctl: its words */
	const char *format;  /* a name of report_formats(), "csv", "chrome", "perfetto" or "all" */
	const char *output;  /* -o; NULL: none */
	unsigned top;	     /* rows of long tables */
	enum map_weight map; /* --map; MAP_BY_NONE: without */
	enum iter_mode iterations; /* how to find iterations */
	const char *marker;	   /* ITER_MARKER: the function */
	uint64_t gap_ns;	   /* ITER_GAP */
	double kwh_price, gpu_hour_price;
	bool serving; /* print the section on serving even if it is empty */
	bool full;    /* --full: all sections */
	struct step_change changes[CHANGES_MAX]; /* --what-if */
	unsigned change_cnt;
	const char *budget; /* --budget */
	bool make_budget;
	unsigned runs;	      /* --runs: files, of each side in diff; 0: the files are one trace */
	struct strv baseline; /* --baseline: old traces */
	uint64_t sections;    /* --section: bits of report_section(); 0: all */
	struct strv tables;   /* --section: its names; report_tables.h */
	int width;	      /* --width: columns; 0: the output's own */
	struct top_opts top_opts;
	/* daemon, ctl */
	const char *config; /* --config FILE */
	const char *ctl_at; /* --at TIME */
	bool check_config;
	struct strv sets; /* --set KEY=VALUE, in order */
};

/* report, diff, run */
#define RUNS_MAX	 100
#define RUNS_DEFAULT	 5
#define OPTS_GAP_DEFAULT 1000000ull
/* top */
#define OPTS_INTERVAL_DEFAULT 1000000000ull
#define OPTS_INTERVAL_MIN     100000000ull
#define OPTS_INTERVAL_MAX     (86400ull * 1000000000)

/*
 * Parses argv. On a usage error it prints one line with the error and the remedy, and exits with
 * EXIT_USAGE; --help and --version print and exit with 0. Stored strings point into argv or are
 * allocated for the life of the process.
 */
void opts__parse(struct opts *o, int argc, char **argv);

#endif /* CLI_OPTS_H */
