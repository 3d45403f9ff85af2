/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "guard.h"

#include "attach_priv.h"
#include "map_rows.h"

#include "util/heartbeat.h"
#include "util/log.h"
#include "util/sandbox.h"
#include "util/task.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
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

/* After this number of checks without progress of the tracer, its stopped processes continue. */
#define STILL_LOOKS   3
#define STILL_WAIT_MS 1000

/* The tracer does not run: its terminal does not accept output, or a signal has stopped it. It
 * stops later processes again. */
static void let_go_on_meanwhile(void *ctx, const void *key, const void *val)
{
	struct ct_pid p = *(const struct ct_pid *)val;

	if (!(p.flags & CT_PID_F_STOPPED))
		return;
	p.flags &= ~CT_PID_F_STOPPED;
	bpf_map_update_elem(*(int *)ctx, key, &p, BPF_EXIST);
	heartbeat__act();
	kill(*(const uint32_t *)key, SIGCONT);
}

/* Returns when the tracer has ended. */
static void watch_tracer(int dead_fd, int map_fd)
{
	struct pollfd dead = {.fd = dead_fd, .events = POLLIN};
	uint64_t beats = heartbeat__cnt();
	unsigned looks = 0;

	for (int ret; (ret = poll(&dead, 1, STILL_WAIT_MS)) <= 0;) {
		uint64_t now = heartbeat__cnt();

		if (ret < 0)
			continue;
		looks = now == beats ? looks + 1 : 0;
		beats = now;
		if (looks >= STILL_LOOKS)
			map_rows__each(map_fd, sizeof(uint32_t), sizeof(struct ct_pid),
				       let_go_on_meanwhile, &map_fd);
	}
}

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

/* A stop signal that was sent to a process that had stopped; SIGCONT would delete it. 0: none.
 */
static int other_stop(pid_t pid)
{
	static const int sigs[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
	char text[4096], *state, *pending;

	if (!task_read(pid, pid, "status", text, sizeof(text)))
		return 0;
	state = strstr(text, "\nState:\tT");
	pending = strstr(text, "\nShdPnd:");
	for (size_t i = 0; state && pending && i < sizeof(sigs) / sizeof(sigs[0]); i++)
		if (strtoull(pending + strlen("\nShdPnd:"), NULL, 16) >> (sigs[i] - 1) & 1)
			return sigs[i];
	return 0;
}

void attach__go_on(struct attach *a, pid_t pid)
{
	int fd = bpf_map__fd(a->skel->maps.pids), again = other_stop(pid);
	uint32_t key = pid;
	struct ct_pid p;

	kill(pid, SIGCONT);
	if (again)
		kill(pid, again);
	/* Otherwise the guard would end a stop that is not ours. */
	if (bpf_map_lookup_elem(fd, &key, &p))
		return;
	p.flags &= ~CT_PID_F_STOPPED;
	bpf_map_update_elem(fd, &key, &p, BPF_EXIST);
}

/* Keeps only two of the tracer's descriptors: any other would keep probes alive. */
static void guard_run(int dead_fd, int map_fd, bool sandbox)
{
	struct timespec wait = {.tv_nsec = LOOK_WAIT_NS};
	sigset_t all;

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
	if (sandbox)
		sandbox__enter_guard();
	watch_tracer(0, 1);
	for (int i = 0; i < LOOKS; i++) {
		go_on_all(1);
		nanosleep(&wait, NULL);
	}
	_exit(0);
}

int guard__start(struct guard *g, const struct attach *a, bool sandbox)
{
	int fds[2] = {-1, -1}, ret;

	if (heartbeat__start() || pipe2(fds, O_CLOEXEC))
		goto fail;
	g->pid = fork();
	if (!g->pid)
		guard_run(fds[0], bpf_map__fd(a->skel->maps.pids), sandbox);
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
