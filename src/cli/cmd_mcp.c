/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace mcp FILE...: answers an assistant's questions about saved traces, on stdin and stdout.
 */
#include "cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mcp/mcp.h"
#include "util/log.h"

#define CHECK_MAX (1u << 20)
/* Rows of long tables, of which an answer has a page. */
#define TOP 1000

/* Reads all that fits. */
static void read_all(int fd, struct out *to)
{
	ssize_t n;

	do {
		char *room = out_reserve(to, 4096);

		n = read(fd, room, 4096);
		if (n > 0)
			to->len += n;
	} while ((n > 0 && to->len < CHECK_MAX) || (n < 0 && errno == EINTR));
}

/*
 * A process of its own: it may gain the privileges of our executable file, which this one, which
 * reads untrusted traces, has dropped. Its status is that of the machine: 1 if nothing can be
 * traced.
 */
static bool check(struct out *json)
{
	char *const argv[] = {"cudatrace", "check", "--json", NULL};
	posix_spawn_file_actions_t files;
	int ends[2], status = -1;
	pid_t pid = 0;

	if (pipe2(ends, O_CLOEXEC))
		return false;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
	if (posix_spawn(&pid, "/proc/self/exe", &files, NULL, argv, environ))
		pid = 0;
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	if (pid)
		read_all(ends[0], json);
	close(ends[0]);
	while (pid && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid && WIFEXITED(status) && json->len && json->len < CHECK_MAX;
}

/* Files are read once for each answer. */
static bool can_be_read_again(const char *path)
{
	struct stat st;

	if (!strcmp(path, "-"))
		err("mcp: - cannot be read: stdin has the assistant's messages; give a file");
	else if (stat(path, &st) || access(path, R_OK))
		err("mcp: cannot read %s: %s; give a saved trace", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		err("mcp: %s is not a regular file, which is read more than once: save it first",
		    path);
	else
		return true;
	return false;
}

int cmd_mcp(const struct opts *o)
{
	const struct mcp_opts mo = {
		.files = o->files.v,
		.file_cnt = o->files.cnt,
		.budget = o->budget,
		.report = {.top = TOP,
			   .iter = o->iterations,
			   .marker = o->marker,
			   .gap_ns = o->gap_ns},
		.check = check,
	};

	for (unsigned i = 0; i < o->files.cnt; i++)
		if (!can_be_read_again(o->files.v[i]))
			return EXIT_FAILURE;
	if (o->budget && !can_be_read_again(o->budget))
		return EXIT_FAILURE;
	if (isatty(STDIN_FILENO))
		info("waiting for an assistant's messages on stdin, which a terminal rarely has: see "
		     "docs/ASSISTANTS.md; Ctrl-D ends");
	return mcp__run(&mo, STDIN_FILENO, STDOUT_FILENO) ? EXIT_FAILURE : EXIT_SUCCESS;
}
