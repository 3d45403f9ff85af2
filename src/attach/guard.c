/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "guard.h"

#include "attach_priv.h"
#include "map_rows.h"

#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The kernel detaches a killed tracer's programs a moment after closing its descriptors. Until then
 * a running program may still stop a process. */
#define LOOKS	     25
#define LOOK_WAIT_NS 20000000

static void let_go_on(void *ctx, const void *key, const void *val)
{
	struct ct_pid p = *(const struct ct_pid *)val;

	if (p.flags & CT_PID_F_STOPPED)
		kill(*(const uint32_t *)key, SIGCONT);
	if (!(p.flags & CT_PID_F_STOP_ON_LIB))
		return;
	p.flags &= ~CT_PID_F_STOP_ON_LIB;
	bpf_map_update_elem(*(int *)ctx, key, &p, BPF_EXIST);
}

static void go_on_all(int map_fd)
{
	map_rows__each(map_fd, sizeof(uint32_t), sizeof(struct ct_pid), let_go_on, &map_fd);
}

void attach__go_on_all(struct attach *a)
{
	if (a)
		go_on_all(bpf_map__fd(a->skel->maps.pids));
}

void attach__go_on(struct attach *a, pid_t pid)
{
	int fd = bpf_map__fd(a->skel->maps.pids);
	uint32_t key = pid;
	struct ct_pid p;

	kill(pid, SIGCONT);
	/* Otherwise the guard would end a stop that is not ours. */
	if (bpf_map_lookup_elem(fd, &key, &p))
		return;
	p.flags &= ~CT_PID_F_STOPPED;
	bpf_map_update_elem(fd, &key, &p, BPF_EXIST);
}

/* Keeps only two of the tracer's descriptors: any other would keep probes alive. */
static void guard_run(int dead_fd, int map_fd)
{
	struct timespec wait = {.tv_nsec = LOOK_WAIT_NS};
	sigset_t all;
	char byte;

	if (dup2(dead_fd, 0) < 0 || dup2(map_fd, 1) < 0)
		_exit(1);
	if (syscall(SYS_close_range, 2u, ~0u, 0u))
		for (int fd = sysconf(_SC_OPEN_MAX); fd >= 2; fd--)
			close(fd);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "cudatrace-guard");
	(void)!chdir("/");
	while (read(0, &byte, 1) < 0 && errno == EINTR)
		;
	for (int i = 0; i < LOOKS; i++) {
		go_on_all(1);
		nanosleep(&wait, NULL);
	}
	_exit(0);
}

int guard__start(struct guard *g, const struct attach *a)
{
	int fds[2] = {-1, -1}, ret;

	if (pipe2(fds, O_CLOEXEC))
		goto fail;
	g->pid = fork();
	if (!g->pid)
		guard_run(fds[0], bpf_map__fd(a->skel->maps.pids));
	if (g->pid < 0)
		goto fail;
	close(fds[0]);
	g->alive = fds[1];
	return 0;
fail:
	ret = -errno;
	err("cannot start the guard process: %s: raise the limits of processes and open files "
	    "(ulimit -u, -n)",
	    strerror(errno));
	g->pid = 0;
	if (fds[0] >= 0) {
		close(fds[0]);
		close(fds[1]);
	}
	return ret;
}

void guard__end(struct guard *g)
{
	if (!g->pid)
		return;
	kill(g->pid, SIGKILL);
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(g->alive);
	g->pid = 0;
}
