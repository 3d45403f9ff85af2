/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "command.h"

#include "ct_nvtx.h"

#include "util/inherited.h"
#include "util/log.h"
#include "util/privs.h"
#include "util/safe_open.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_program(const char *path, int *why)
{
	struct stat st;

	if (stat(path, &st))
		*why = errno;
	else if (S_ISDIR(st.st_mode))
		*why = EISDIR;
	else if (!S_ISREG(st.st_mode) || access(path, X_OK))
		*why = EACCES;
	else
		return true;
	return false;
}

static const char *run_hint(int why)
{
	switch (why) {
	case EACCES:
		return "it is not executable: chmod +x it if it is a program";
	case EISDIR:
		return "it is a directory: name a program in it";
	case ENOENT:
	case ENOTDIR:
		return "there is no such file: check the path";
	default:
		return strerror(why);
	}
}

/* Writes the next candidate path of name in PATH to full; false: there are no more. */
static bool next_place(const char **path, const char *name, char *full, size_t size)
{
	int len;

	if (!*path)
		return false;
	len = (int)strcspn(*path, ":");
	snprintf(full, size, "%.*s/%s", len ? len : 1, len ? *path : ".", name);
	*path = (*path)[len] ? *path + len + 1 : NULL;
	return true;
}

static const char *search_path(void)
{
	const char *path = getenv("PATH");

	return path ? path : "/usr/bin:/bin";
}

/* A hint if the words are meant for a shell and no program has that name; else NULL. */
static const char *shell_hint(const char *name)
{
	if (strcspn(name, "=") < strcspn(name, "/ "))
		return "to set a variable: cudatrace -- env NAME=VALUE COMMAND";
	if (strpbrk(name, " \t|&;<>"))
		return "remove the quotes, or run a shell command: cudatrace -- sh -c 'LINE'";
	return NULL;
}

static const char *not_found_hint(const char *name)
{
	/* Subcommands of other tracers and profilers. */
	static const struct {
		const char *word, *hint;
	} habits[] = {
		{"record", "tracing needs no subcommand: cudatrace -- COMMAND"},
		{"profile", "tracing needs no subcommand: cudatrace -- COMMAND"},
		{"run", "tracing needs no subcommand: cudatrace -- COMMAND"},
		{"start", "tracing needs no subcommand: cudatrace -- COMMAND"},
		{"launch", "tracing needs no subcommand: cudatrace -- COMMAND"},
		{"attach", "to trace a running process: cudatrace -p PID"},
		{"stats", "to read a trace: cudatrace report FILE"},
		{"analyze", "to read a trace: cudatrace report FILE"},
		{"script", "to read a trace: cudatrace report FILE"},
		{"version", "the version is cudatrace --version"},
		{"status", "to control a daemon: cudatrace ctl"},
		{"level", "to control a daemon: cudatrace ctl"},
		{"burst", "to control a daemon: cudatrace ctl"},
		{"dump", "to control a daemon: cudatrace ctl"},
		{"reload", "to control a daemon: cudatrace ctl"},
	};

	for (size_t i = 0; i < sizeof(habits) / sizeof(habits[0]); i++)
		if (!strcmp(name, habits[i].word))
			return habits[i].hint;
	if (shell_hint(name))
		return shell_hint(name);
	return geteuid() ? "give its path" : "give its path (sudo may use another PATH)";
}

static int check_command(char **argv)
{
	const char *path = search_path(), *name = argv[0];
	char full[4096];
	int why = ENOENT;

	if (!*name) {
		err("the command is empty: cudatrace [OPTIONS] -- COMMAND [ARGS...]");
		return -ENOENT;
	}
	if (strchr(name, '/')) {
		if (is_program(name, &why))
			return 0;
		err("cannot run %s: %s", name,
		    (why == ENOENT || why == ENOTDIR ? shell_hint(name) : NULL) ?: run_hint(why));
		return -why;
	}
	while (next_place(&path, name, full, sizeof(full)))
		if (is_program(full, &why))
			return 0;
	err("cannot run %s: no such command in PATH: %s", name, not_found_hint(name));
	return -ENOENT;
}

int command__check(char **argv)
{
	int ret;

	privs_lower();
	ret = check_command(argv);
	privs_raise();
	return ret;
}

/* Reads /etc/passwd and accepts numbers. It does not use NSS, so a static binary behaves like any
 * other. */
static int find_passwd(struct command_user *u, const char *name, uid_t uid)
{
	FILE *f = fopen("/etc/passwd", "re");
	struct passwd *pw;
	int ret = -ENOENT;

	while (f && (pw = fgetpwent(f))) {
		if (name ? strcmp(pw->pw_name, name) : pw->pw_uid != uid)
			continue;
		u->uid = pw->pw_uid;
		u->gid = pw->pw_gid;
		u->name = strdup(pw->pw_name);
		u->home = strdup(pw->pw_dir);
		ret = u->name && u->home ? 0 : -ENOMEM;
		break;
	}
	if (f)
		fclose(f);
	return ret;
}

static bool parse_id(const char *s, uid_t *id)
{
	char *end;
	unsigned long n = strtoul(s, &end, 10);

	*id = n;
	return *s >= '0' && *s <= '9' && !*end && n < UINT32_MAX;
}

int command_user__find(struct command_user *u, const char *name)
{
	const char *sudo_uid = getenv("SUDO_UID"), *sudo_gid = getenv("SUDO_GID");
	uid_t uid, gid;

	memset(u, 0, sizeof(*u));
	if (name) {
		u->change = true;
		if (!find_passwd(u, name, 0))
			return 0;
		if (!parse_id(name, &uid)) {
			err("--user: there is no user %s in /etc/passwd: give its number", name);
			return -ENOENT;
		}
		u->uid = u->gid = uid;
		find_passwd(u, NULL, uid);
		return 0;
	}
	if (geteuid() || !sudo_uid || !sudo_gid || !parse_id(sudo_uid, &uid) ||
	    !parse_id(sudo_gid, &gid) || !uid)
		return 0;
	u->change = true;
	u->uid = uid;
	find_passwd(u, NULL, uid);
	u->gid = gid;
	return 0;
}

void command_user__free(struct command_user *u)
{
	free(u->name);
	free(u->home);
}

#define GROUPS_MAX 1024

/* Reads the user's groups from /etc/group. Returns their number. */
static int find_groups(const struct command_user *u, gid_t groups[GROUPS_MAX])
{
	FILE *f = fopen("/etc/group", "re");
	struct group *gr;
	int cnt = 0;

	groups[cnt++] = u->gid;
	while (f && u->name && cnt < GROUPS_MAX && (gr = fgetgrent(f)))
		for (char **m = gr->gr_mem; *m; m++)
			if (!strcmp(*m, u->name) && gr->gr_gid != u->gid) {
				groups[cnt++] = gr->gr_gid;
				break;
			}
	if (f)
		fclose(f);
	return cnt;
}

int command_user__owns_files(void)
{
	gid_t groups[GROUPS_MAX];
	struct command_user u;

	if (command_user__find(&u, NULL))
		return -ENOENT;
	if (u.change)
		safe_open_owner(u.uid, u.gid, groups, find_groups(&u, groups));
	command_user__free(&u);
	return 0;
}

static int become(const struct command_user *u)
{
	char number[16];
	gid_t groups[GROUPS_MAX];

	if (!u->change)
		return 0;
	if (setgroups(find_groups(u, groups), groups) || setresgid(u->gid, u->gid, u->gid) ||
	    setresuid(u->uid, u->uid, u->uid))
		return -errno;
	/* A numeric user without a name has no home; root's must not be used. */
	snprintf(number, sizeof(number), "%u", u->uid);
	setenv("USER", u->name ?: number, 1);
	setenv("LOGNAME", u->name ?: number, 1);
	setenv("HOME", u->home ?: "/", 1);
	return 0;
}

/* Unlike execvp(), does not run a file that is not a program with sh. Returns -errno. */
static int exec_command(char **argv)
{
	const char *path = search_path();
	char full[4096];
	int ret = -ENOENT;

	if (strchr(argv[0], '/')) {
		execv(argv[0], argv);
		return -errno;
	}
	while (next_place(&path, argv[0], full, sizeof(full))) {
		execv(full, argv);
		if (errno == EACCES)
			ret = -EACCES;
		else if (errno != ENOENT && errno != ENOTDIR)
			return -errno;
	}
	return ret;
}

/* If another tool's NVTX library is set, ours loads it. */
static void set_nvtx(const char *library)
{
	static const char env[] = "NVTX_INJECTION64_PATH";
	const char *other = getenv(env);

	if (other && *other && !strstr(other, "libcudatrace-nvtx"))
		setenv(CT_ENV_NVTX_CHAIN, other, 1);
	setenv(env, library, 1);
}

static void run_child(char **argv, const struct command_user *u, const struct sources *ss,
		      const char *nvtx, int go_fd, int err_fd)
{
	char byte;
	int ret;

	inherited_restore();
	sources__prepare_child(ss, argv[0]);
	if (nvtx)
		set_nvtx(nvtx);
	/* One byte releases the command, and selects its standard output. End of file: the tracer
	 * failed. */
	if (read(go_fd, &byte, 1) != 1)
		_exit(1);
	if (byte && dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		close(STDOUT_FILENO);
	ret = become(u);
	/* Before the search, so that it does not enter directories that the user may not read. */
	privs_lower();
	if (!ret)
		ret = exec_command(argv);
	ret = -ret;
	(void)!write(err_fd, &ret, sizeof(ret));
	_exit(127);
}

int command__fork(struct command *c, char **argv, const struct command_user *u,
		  const struct sources *ss, const char *nvtx)
{
	int go[2] = {-1, -1}, why[2] = {-1, -1};

	memset(c, 0, sizeof(*c));
	c->go_fd = c->err_fd = c->pidfd = -1;
	if (pipe2(go, O_CLOEXEC) || pipe2(why, O_CLOEXEC))
		goto fail;
	c->pid = fork();
	if (c->pid < 0)
		goto fail;
	if (!c->pid) {
		close(go[1]);
		run_child(argv, u, ss, nvtx, go[0], why[1]);
	}
	close(go[0]);
	close(why[1]);
	c->go_fd = go[1];
	c->err_fd = why[0];
	c->pidfd = syscall(SYS_pidfd_open, c->pid, 0);
	return 0;
fail:
	err("cannot start %s: %s", argv[0], strerror(errno));
	c->pid = 0;
	close(go[0]);
	close(go[1]);
	close(why[0]);
	close(why[1]);
	return -errno;
}

int command__go(struct command *c, const char *name, bool to_stderr)
{
	const char byte = to_stderr;
	int why = 0;
	ssize_t n;

	(void)!write(c->go_fd, &byte, 1);
	close(c->go_fd);
	c->go_fd = -1;
	/* Closed by a successful exec. */
	do
		n = read(c->err_fd, &why, sizeof(why));
	while (n < 0 && errno == EINTR);
	close(c->err_fd);
	c->err_fd = -1;
	if (n != sizeof(why))
		return 0;
	waitpid(c->pid, &c->wstatus, 0);
	c->exited = true;
	if (why == ENOEXEC)
		err("cannot run %s: it is neither a program for this machine nor a script with a "
		    "#! line: add one, or run the interpreter",
		    name);
	else if (why == ENOENT)
		err("cannot run %s: the interpreter that it names (#!, or an ELF file's loader) "
		    "does not exist: install it, or change the name",
		    name);
	else if (why == EPERM)
		err("cannot run %s: cudatrace may not change to that user: run cudatrace as root",
		    name);
	else if (why == EACCES)
		err("cannot run %s: permission denied: check that its user may read and execute "
		    "it and the directories above",
		    name);
	else
		err("cannot run %s: %s", name, strerror(why));
	return -why;
}

/* A stop is no end: the parent receives each signal to a command that called PTRACE_TRACEME. */
static void reap(struct command *c)
{
	pid_t pid = waitpid(c->pid, &c->wstatus, WNOHANG);

	if (pid < 0 ? errno != EINTR : pid && !WIFSTOPPED(c->wstatus))
		c->exited = true;
}

bool command__ended(struct command *c)
{
	if (c->pid && !c->exited)
		reap(c);
	return c->exited;
}

void command__cancel(struct command *c)
{
	if (c->pid && c->go_fd >= 0) {
		close(c->go_fd);
		c->go_fd = -1;
		waitpid(c->pid, &c->wstatus, 0);
		c->exited = true;
	}
	if (c->err_fd >= 0)
		close(c->err_fd);
	if (c->pidfd >= 0)
		close(c->pidfd);
}

int command__status(const struct command *c)
{
	if (WIFSIGNALED(c->wstatus))
		return 128 + WTERMSIG(c->wstatus);
	return WEXITSTATUS(c->wstatus);
}
