/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "dossier_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dossier_store.h"
#include "dossier_verdict.h"
#include "gpu_core.h"
#include "gpu_core_request.h"
#include "text/json.h"
#include "util/child.h"
#include "util/clock.h"
#include "util/inherited.h"
#include "util/log.h"
#include "util/out.h"
#include "util/pass_fd.h"
#include "util/privs.h"
#include "util/sandbox.h"

#define REPORT_S   60
#define REPORT_MEM (512ul << 20)
#define CORE_S	   60
#define CORE_MEM   (2048ul << 20)
/* The largest result is some 600 KiB. */
#define CORE_TEXT_MAX (4u << 20)
#define FILE_MAX      (64ul << 20)
/* Sections of verdict.txt that a failure needs. */
#define SECTIONS "failure,failures,waits,communication,memory,gpu_stats,driver"

struct dossier_worker {
	int fd; /* -1: it has ended */
};

static void limit(int which, rlim_t max)
{
	setrlimit(which, &(struct rlimit){max, max});
}

/* The daemon must not be killed for the memory of the report. */
static void be_killed_first(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		(void)!write(fd, "1000", 4);
		close(fd);
	}
}

/* Without descriptors, privileges or output of ours. */
static void exec_report(int folder, const char *format, const char *to)
{
	const char *argv[] = {"cudatrace", "report", "-q",	    format, "--section=" SECTIONS,
			      "-o",	   to,	     DOSSIER_CALLS, NULL};
	int null = open("/dev/null", O_RDWR);

	inherited_restore();
	umask(077);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_CPU, REPORT_S);
	limit(RLIMIT_FSIZE, FILE_MAX);
#ifndef __SANITIZE_ADDRESS__
	limit(RLIMIT_AS, REPORT_MEM);
#endif
	be_killed_first();
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	if (!fchdir(folder) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		privs_drop_thread();
		execv("/proc/self/exe", (char *const *)argv);
	}
	_exit(127);
}

/* Waits for the child at most until end_ns, then kills its group. Returns its status; -1: it was
 * killed for its time, or does not end. */
static int await_child(pid_t pid, uint64_t end_ns)
{
	int status;

	while (now_ns() < end_ns) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		usleep(10000);
	}
	kill(-pid, SIGKILL);
	usleep(100000);
	waitpid(pid, &status, WNOHANG);
	return -1;
}

/* Returns why it failed; NULL: it has not. */
static const char *run_report(int folder, const char *format, const char *to, uint64_t end_ns)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		setsid();
		setpriority(PRIO_PROCESS, 0, 10);
		exec_report(folder, format, to);
	}
	if (pid < 0)
		return strerror(errno);
	status = await_child(pid, end_ns);
	if (status < 0)
		return "the report took too long";
	if (WIFSIGNALED(status))
		return "the report was killed";
	return WEXITSTATUS(status) ? "the report failed" : NULL;
}

/* Reads the verdict in a process of its own, because it is made from texts of the program. */
static void read_verdict(int folder, uint32_t pid, struct dossier_result *res, uint64_t end_ns)
{
	int fds[2];
	pid_t child;

	if (pipe2(fds, O_CLOEXEC))
		return;
	child = fork();
	if (!child) {
		limit(RLIMIT_CPU, REPORT_S);
		be_killed_first();
		privs_drop_thread();
		dossier_verdict_read(folder, DOSSIER_VERDICT_JSON, pid, res);
		/* Less than a pipe holds. */
		_exit(write(fds[1], res, sizeof(*res)) != sizeof(*res));
	}
	close(fds[1]);
	if (child > 0 && !await_child(child, end_ns))
		(void)!read(fds[0], res, sizeof(*res));
	close(fds[0]);
}

/* The answer of the process that reads a GPU core dump: this, then the text of its file. */
struct core_answer {
	char state[sizeof(((struct dossier_result *)0)->core)];
};

/* Runs in a process of its own, which ends as the program's user. */
static void make_core(const struct dossier_job *job, int to)
{
	struct core_answer a = {.state = ""};
	struct out *text = out__memory();
	char path[1300], kernels[160];
	const char *why;
	struct json j;
	int fd;

	if (!text)
		return;
	fd = gpu_core_request((pid_t)job->pid, job->uid, job->may_request, job->since_s,
			      CORE_S * 1000 / 2, path, sizeof(path), &why);
	json__init(&j, text);
	json_open(&j, NULL);
	if (fd >= 0) {
		json_str(&j, "file", path);
		if (!gpu_core_read(fd, &j, kernels, sizeof(kernels), &why))
			snprintf(a.state, sizeof(a.state), "resident: %s", kernels);
	}
	if (why)
		snprintf(a.state, sizeof(a.state), "%s", why);
	json_close(&j);
	out_char(text, '\n');
	if (write(to, &a, sizeof(a)) == sizeof(a) && fd >= 0 && !why)
		for (size_t done = 0; done < text->len;) {
			ssize_t n = write(to, text->buf + done, text->len - done);

			if (n <= 0)
				return;
			done += n;
		}
}

/* Reads the answer, and writes its text to a file. */
static void take_core(int from, int folder, struct dossier_result *res, uint64_t end_ns)
{
	struct pollfd p = {.fd = from, .events = POLLIN};
	struct out *text = out__memory();
	struct core_answer a;
	ssize_t n = 1;

	while (text && n > 0 && now_ns() < end_ns && text->len < CORE_TEXT_MAX) {
		if (poll(&p, 1, 100) != 1)
			continue;
		n = read(from, out_reserve(text, 65536), 65536);
		text->len += n > 0 ? n : 0;
	}
	if (text && text->len >= sizeof(a)) {
		memcpy(&a, text->buf, sizeof(a));
		snprintf(res->core, sizeof(res->core), "%.*s", (int)sizeof(a.state) - 1, a.state);
		text->len -= sizeof(a);
		memmove(text->buf, text->buf + sizeof(a), text->len);
		if (text->len)
			dossier_store__write(folder, DOSSIER_CORE_JSON, text);
	} else {
		snprintf(res->core, sizeof(res->core), "it could not be read in time");
	}
	out__close(text);
}

static void get_core(int folder, const struct dossier_job *job, struct dossier_result *res)
{
	uint64_t end_ns = now_ns() + CORE_S * SEC_NS;
	int fds[2];
	pid_t child;

	if (pipe2(fds, O_CLOEXEC))
		return;
	child = fork();
	if (!child) {
		setsid();
		setpriority(PRIO_PROCESS, 0, 10);
		limit(RLIMIT_CPU, CORE_S);
		limit(RLIMIT_CORE, 0);
#ifndef __SANITIZE_ADDRESS__
		limit(RLIMIT_AS, CORE_MEM);
#endif
		be_killed_first();
		make_core(job, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	if (child > 0) {
		take_core(fds[0], folder, res, end_ns);
		await_child(child, now_ns() + SEC_NS / 10);
	}
	close(fds[0]);
}

static void work(int folder, const struct dossier_job *job, struct dossier_result *res)
{
	uint64_t end_ns;
	const char *why = "no calls were recorded";

	get_core(folder, job, res);
	end_ns = now_ns() + REPORT_S * SEC_NS;
	if (job->has_calls)
		why = run_report(folder, "--format=ascii", DOSSIER_VERDICT_TEXT, end_ns)
			      ?: run_report(folder, "--format=json", DOSSIER_VERDICT_JSON, end_ns);
	if (!why)
		read_verdict(folder, job->pid, res, end_ns);
	snprintf(res->failed, sizeof(res->failed), "%s", why ?: "");
}

/* Runs until the daemon has ended, in whatever way. */
static void serve(int sock, bool sandbox)
{
	struct dossier_result res;
	struct dossier_job job;
	sigset_t all;
	int folder;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	privs_drop();
	if (sandbox)
		sandbox__enter_dossiers();
	while (pass_fd__take(sock, S_IFDIR, &folder) && folder >= 0 &&
	       recv(sock, &job, sizeof(job), 0) == sizeof(job)) {
		memset(&res, 0, sizeof(res));
		work(folder, &job, &res);
		close(folder);
		if (send(sock, &res, sizeof(res), MSG_NOSIGNAL) != sizeof(res))
			break;
	}
	_exit(0);
}

struct dossier_worker *dossier_worker__new(bool sandbox)
{
	struct dossier_worker *w = calloc(1, sizeof(*w));
	int fds[2] = {-1, -1};
	pid_t pid = -1;

	if (w && !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		pid = fork();
	if (!pid) {
		child_begin(fds[1], "cudatrace-doss");
		serve(CHILD_SOCK, sandbox);
	}
	if (fds[1] >= 0)
		close(fds[1]);
	if (pid > 0) {
		w->fd = fds[0];
		return w;
	}
	err("cannot start the process for dossiers: %s: raise the limits of processes and open "
	    "files (ulimit -u, -n)",
	    strerror(errno));
	if (fds[0] >= 0)
		close(fds[0]);
	free(w);
	return NULL;
}

static void is_gone(struct dossier_worker *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}

/* The socket is empty: it holds both messages. */
bool dossier_worker__start(struct dossier_worker *w, int folder, const struct dossier_job *job)
{
	if (w->fd >= 0 && pass_fd__send(w->fd, folder) &&
	    send(w->fd, job, sizeof(*job), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(*job))
		return true;
	is_gone(w);
	return false;
}

bool dossier_worker__ended(struct dossier_worker *w, struct dossier_result *res)
{
	ssize_t n = w->fd < 0 ? 0 : recv(w->fd, res, sizeof(*res), MSG_DONTWAIT);

	if (n == sizeof(*res)) {
		res->verdict[sizeof(res->verdict) - 1] = '\0';
		res->failed[sizeof(res->failed) - 1] = '\0';
		res->core[sizeof(res->core) - 1] = '\0';
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	is_gone(w);
	*res = (struct dossier_result){
		.failed = "the process that makes the report has ended: restart the daemon"};
	return true;
}

void dossier_worker__free(struct dossier_worker *w)
{
	if (!w)
		return;
	is_gone(w);
	free(w);
}
