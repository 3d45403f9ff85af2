/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace run: traces a command several times, and compares the runs with a budget. */
#include "cmd.h"
#include "report_budget.h"

#include "budget/perf_budget.h"
#include "trace/command.h"
#include "trace/session.h"
#include "util/log.h"
#include "util/privs.h"
#include "util/safe_close.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct run_cmd {
	const struct opts *o;
	struct strv traces; /* a path for each run */
	char *dir;	    /* temporary folder of the traces; NULL: the user keeps them */
};

/* The tracer of the current run; 0: none. */
static volatile pid_t tracer;
/* A signal to end; 0: none. The current run is the last one. */
static volatile sig_atomic_t received;

/* The terminal sends it to the tracer, too. */
static void take_note(int sig)
{
	received = sig;
}

static void pass_on(int sig)
{
	received = sig;
	if (tracer > 0)
		kill(tracer, sig);
}

static void take_signals(bool mine)
{
	static const int to_all[] = {SIGINT, SIGQUIT}, to_us[] = {SIGTERM, SIGHUP};

	for (unsigned i = 0; i < 2; i++) {
		signal(to_all[i], mine ? take_note : SIG_DFL);
		signal(to_us[i], mine ? pass_on : SIG_DFL);
	}
}

/* A folder that the user who called sudo may write to, as the tracer does. */
static char *make_dir(void)
{
	const char *tmp = getenv("TMPDIR");
	struct command_user u = {0};
	char *dir;

	if (asprintf(&dir, "%s/cudatrace-run.XXXXXX", tmp && *tmp ? tmp : "/tmp") < 0)
		return NULL;
	if (!mkdtemp(dir) || command_user__find(&u, NULL) ||
	    (u.change && chown(dir, u.uid, u.gid))) {
		err("cannot create the folder %s: %s: set TMPDIR, or keep the traces with --jsonl",
		    dir, strerror(errno));
		free(dir);
		dir = NULL;
	}
	command_user__free(&u);
	return dir;
}

/* x.jsonl is x-1.jsonl, and x is x-1: cudatrace report reads a name with .1 as part of one trace.
 */
static char *path_of(const struct run_cmd *c, unsigned run)
{
	const struct strv *keep = &c->o->trace.outputs[SINK_JSONL];
	const char *name = keep->cnt ? keep->v[0] : NULL, *dot;
	char *path;
	int ret;

	if (!name) {
		ret = asprintf(&path, "%s/run-%u.jsonl", c->dir, run);
	} else {
		dot = strchr(strrchr(name, '/') ?: name, '.') ?: name + strlen(name);
		ret = asprintf(&path, "%.*s-%u%s", (int)(dot - name), name, run, dot);
	}
	return ret < 0 ? NULL : path;
}

static void __attribute__((noreturn)) trace_once(const struct opts *o, const char *path)
{
	struct session_opts of = o->trace;
	int status;

	take_signals(false);
	/* It ends with us. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	of.outputs[SINK_JSONL] = (struct strv){.v = &path, .cnt = 1};
	of.summary = TRI_OFF;
	status = session__run(&of);
	safe_close__stop();
	exit(status);
}

/* Returns the status of the command, or that of the tracer. */
static int run_once(const struct run_cmd *c, unsigned run)
{
	const char *path = c->traces.v[run];
	int status = 0;
	pid_t pid;

	info("run %u of %u", run + 1, c->o->runs);
	fflush(NULL);
	pid = fork();
	if (!pid)
		trace_once(c->o, path);
	if (pid < 0) {
		err("cannot start a process: %s: raise the limit of processes (ulimit -u)",
		    strerror(errno));
		return EXIT_FAILURE;
	}
	tracer = pid;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	tracer = 0;
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (status)
		err("run %u of %u ended with status %d: no run is compared with the budget",
		    run + 1, c->o->runs, status);
	return status;
}

static int run_all(struct run_cmd *c, struct perf_budget *b)
{
	const struct opts *o = c->o;
	int status = 0;

	for (unsigned i = 0; i < o->runs; i++) {
		c->traces.v[i] = path_of(c, i + 1);
		if (!c->traces.v[i]) {
			err("out of memory: close other programs");
			return EXIT_FAILURE;
		}
		c->traces.cnt++;
	}
	take_signals(true);
	for (unsigned i = 0; i < o->runs && !status && !received; i++)
		status = run_once(c, i);
	take_signals(false);
	if (!status && received) {
		err("ended by signal %d: no run is compared with the budget", received);
		status = 128 + received;
	}
	if (status)
		return status;
	/* Reading traces needs no rights. */
	privs_drop();
	return budget_of_runs(o, b, &o->baseline, &c->traces);
}

static void release(struct run_cmd *c)
{
	for (unsigned i = 0; i < c->traces.cnt; i++) {
		if (c->dir)
			unlink(c->traces.v[i]);
		free((char *)c->traces.v[i]);
	}
	if (c->dir)
		rmdir(c->dir);
	free(c->traces.v);
	free(c->dir);
}

int cmd_run(const struct opts *o)
{
	struct perf_budget *b = perf_budget__read(o->budget);
	struct run_cmd c = {.o = o};
	int status = EXIT_FAILURE;

	if (!b)
		return EXIT_USAGE;
	if (b->change_line && !o->baseline.cnt) {
		err("%s:%u: a limit on a change needs older traces: add --baseline FILE", b->path,
		    b->change_line);
		status = EXIT_USAGE;
		goto out;
	}
	if (command_user__owns_files())
		goto out;
	c.traces.v = calloc(o->runs, sizeof(*c.traces.v));
	if (!c.traces.v) {
		err("out of memory: close other programs");
		goto out;
	}
	if (!o->trace.outputs[SINK_JSONL].cnt)
		c.dir = make_dir();
	if (c.dir || o->trace.outputs[SINK_JSONL].cnt)
		status = run_all(&c, b);
out:
	release(&c);
	perf_budget__free(b);
	return status;
}
