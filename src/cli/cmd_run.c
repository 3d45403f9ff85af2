/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace run: traces a command several times, and compares the runs with a budget. */
#include "cmd.h"
#include "report_budget.h"

#include "budget/perf_budget.h"
#include "trace/command.h"
#include "trace/session.h"
#include "trace/witness.h"
#include "util/inherited.h"
#include "util/log.h"
#include "util/privs.h"
#include "util/relay.h"
#include "util/safe_close.h"
#include "util/safe_open.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct run_cmd {
	const struct opts *o;
	struct strv traces; /* a path for each run */
	char *dir;	    /* temporary folder of the traces; NULL: the user keeps them */
	struct witness witness;
	bool is_leader;
	sigset_t taken, blocked_before;
	int ended_by; /* a signal: the current run is the last one; 0: none */
};

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define END_CNT (sizeof(ends) / sizeof(ends[0]))

/* From now on signals are blocked and read by wait_for(), so that none gets lost between two runs.
 * The tracer has our name and our line, and so has the witness. */
static void block_signals(struct run_cmd *c)
{
	/* As in src/trace/signals.c. */
	static const int left_alone[] = {SIGTTIN, SIGTTOU, SIGSYS};

	/* A full pipe would block us, and signals with us. */
	log_set_wait(LOG_WAIT_MS);
	c->is_leader = getsid(0) == getpid();
	sigfillset(&c->taken);
	for (unsigned i = 0; i < sizeof(left_alone) / sizeof(left_alone[0]); i++)
		sigdelset(&c->taken, left_alone[i]);
	sigprocmask(SIG_BLOCK, &c->taken, &c->blocked_before);
	witness__start(&c->witness, NULL, 0, c->o->trace.sandbox);
}

/* In a child. Signals without a meaning for its start stay blocked: a command that it starts
 * receives them. */
static void unblock_signals(const struct run_cmd *c)
{
	static const int others[] = {SIGPIPE, SIGTSTP};
	sigset_t set;

	sigemptyset(&set);
	for (unsigned i = 0; i < END_CNT; i++)
		sigaddset(&set, ends[i]);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		sigaddset(&set, others[i]);
	for (int signo = 1; signo <= SIGRTMAX; signo++)
		if (sigismember(&c->blocked_before, signo) > 0)
			sigdelset(&set, signo);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void note_end(struct run_cmd *c, int signo)
{
	for (unsigned i = 0; i < END_CNT; i++)
		if (signo == ends[i] && !inherited_ignores(signo))
			c->ended_by = signo;
}

/* Returns whether a signal ended the runs, also one that arrived after the last run. */
static bool has_ended(struct run_cmd *c)
{
	const struct timespec now = {0};
	siginfo_t si;
	sigset_t set;

	sigemptyset(&set);
	for (unsigned i = 0; i < END_CNT; i++)
		if (!inherited_ignores(ends[i]))
			sigaddset(&set, ends[i]);
	while (sigtimedwait(&set, &si, &now) > 0)
		note_end(c, si.si_signo);
	return c->ended_by;
}

static void take_signal(struct run_cmd *c, pid_t child)
{
	siginfo_t si;

	/* The kernel reports the end of a child. */
	if (sigwaitinfo(&c->taken, &si) < 0 || (si.si_signo == SIGCHLD && si.si_code > 0))
		return;
	witness__relay(&c->witness, &si, child, c->is_leader);
	if (si.si_signo == SIGTSTP)
		relay_stop_too();
	else
		note_end(c, si.si_signo);
}

/* Passes signals on to the child until it ends. Returns its status. */
static int wait_for(struct run_cmd *c, pid_t child)
{
	int status = 0;

	while (!waitpid(child, &status, WNOHANG))
		take_signal(c, child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Returns 0 in the child, which ends with us. -1: no child, after reporting. */
static pid_t start_child(struct run_cmd *c)
{
	pid_t us = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		err("cannot start a process: %s: raise the limit of processes (ulimit -u)",
		    strerror(errno));
	if (pid)
		return pid;
	if (c->witness.pid)
		close(c->witness.sock);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != us)
		_exit(EXIT_FAILURE);
	unblock_signals(c);
	return 0;
}

/* A folder of the user who called sudo: the tracer writes to it with that user's rights. */
static char *make_dir(void)
{
	const char *tmp = getenv("TMPDIR");
	char *dir;

	if (asprintf(&dir, "%s/cudatrace-run.XXXXXX", tmp && *tmp ? tmp : "/tmp") < 0) {
		err("out of memory: close other programs");
		return NULL;
	}
	if (safe_mkdtemp(dir))
		return dir;
	err("cannot create the folder %s: %s: set TMPDIR, or keep the traces with --jsonl", dir,
	    strerror(errno));
	free(dir);
	return NULL;
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

	of.outputs[SINK_JSONL] = (struct strv){.v = &path, .cnt = 1};
	of.summary = TRI_OFF;
	status = session__run(&of);
	safe_close__stop();
	exit(status);
}

/* Returns the status of the command, or that of the tracer. */
static int run_once(struct run_cmd *c, unsigned run)
{
	int status;
	pid_t pid;

	info("run %u of %u", run + 1, c->o->runs);
	pid = start_child(c);
	if (!pid)
		trace_once(c->o, c->traces.v[run]);
	if (pid < 0)
		return EXIT_FAILURE;
	status = wait_for(c, pid);
	if (status)
		err("run %u of %u ended with status %d: no run is compared with the budget",
		    run + 1, c->o->runs, status);
	return status;
}

/* In a child, so that a signal which ends it leaves no temporary folder. */
static int compare(struct run_cmd *c, struct perf_budget *b)
{
	pid_t pid = start_child(c);

	if (!pid) {
		/* Reading traces needs no rights. */
		privs_drop();
		exit(budget_of_runs(c->o, b, &c->o->baseline, &c->traces));
	}
	return pid < 0 ? EXIT_FAILURE : wait_for(c, pid);
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
	for (unsigned i = 0; i < o->runs && !status && !has_ended(c); i++)
		status = run_once(c, i);
	if (!status && has_ended(c)) {
		err("ended by signal %d: no run is compared with the budget", c->ended_by);
		status = 128 + c->ended_by;
	}
	return status ?: compare(c, b);
}

static void release(struct run_cmd *c)
{
	witness__end(&c->witness);
	for (unsigned i = 0; i < c->traces.cnt; i++) {
		if (c->dir)
			safe_remove(c->traces.v[i]);
		free((char *)c->traces.v[i]);
	}
	if (c->dir)
		safe_remove(c->dir);
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
	block_signals(&c);
	if (!o->trace.outputs[SINK_JSONL].cnt)
		c.dir = make_dir();
	if (c.dir || o->trace.outputs[SINK_JSONL].cnt)
		status = run_all(&c, b);
out:
	release(&c);
	perf_budget__free(b);
	return status;
}
