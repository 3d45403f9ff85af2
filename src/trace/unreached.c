/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "unreached.h"

#include "forked.h"

#include "attach/find/target.h"
#include "ct_shm.h"
#include "inject/inject.h"
#include "model/model.h"
#include "util/clock.h"
#include "util/log.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIBRARY "libcudatrace-inject"
/* The variable by which the driver loads it in cuInit(). */
#define INJECTION "CUDA_INJECTION64_PATH="
#define PRELOAD	  "LD_PRELOAD="

/* Processes that are known at a time; children of others are not looked for. */
#define PROCESSES_MAX 8192
#define COMM_SZ	      16
#define TURN_NS	      4000000ull
#define ROUND_NS      50000000ull
#define SHARE	      50 /* the search takes at most this part of the time */
#define LOOK_MIN_NS   40000000ull
#define LOOK_MAX_NS   10000000000ull

struct known {
	pid_t pid;
	char comm[COMM_SZ]; /* another name: it has executed another program */
	uint64_t since_ns;  /* of the program */
	uint64_t next_ns;   /* next look at its mappings; UINT64_MAX: it is reported */
};

struct unreached {
	struct known *known;
	unsigned cnt, room;
	/* Names that this tracer has given to the memory of connected processes and to its socket.
	 */
	char lost_name[INJECT_LOST_NAME_SZ + 1], socket[INJECT_LOST_NAME_SZ];
	unsigned filters;    /* seccomp filters of the command at its start */
	unsigned at;	     /* next one of this round */
	uint64_t not_before; /* time of the next look */
	unreached_fn fn;
	void *ctx;
};

static void add(struct unreached *u, pid_t pid)
{
	struct known *known = u->known;
	unsigned room = u->room ? 2 * u->room : 64;

	for (unsigned i = 0; i < u->cnt; i++)
		if (u->known[i].pid == pid)
			return;
	if (u->cnt == PROCESSES_MAX)
		return;
	if (u->cnt == u->room) {
		known = realloc(u->known, room * sizeof(*known));
		if (!known)
			return;
		u->known = known;
		u->room = room;
	}
	known[u->cnt++] = (struct known){.pid = pid};
}

/* Reads a file of /proc that never blocks. Returns its length; 0: the process is gone. */
static size_t read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 0;

	while (fd >= 0 && len < size - 1 && (n = read(fd, buf + len, size - 1 - len)) > 0)
		len += n;
	if (fd >= 0)
		close(fd);
	buf[len] = '\0';
	return len;
}

static void add_children_of(struct unreached *u, pid_t pid, const char *task)
{
	char path[64], pids[64 << 10];
	char *at = pids, *end;
	pid_t child;

	snprintf(path, sizeof(path), "/proc/%d/task/%.12s/children", pid, task);
	read_file(path, pids, sizeof(pids));
	for (; (child = strtol(at, &end, 10)) > 0 && *end == ' '; at = end)
		add(u, child);
}

/* Returns false if the process is gone. */
static bool add_children(struct unreached *u, pid_t pid)
{
	char path[32];
	struct dirent *de;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (de = readdir(dir)))
		if (isdigit((unsigned char)de->d_name[0]))
			add_children_of(u, pid, de->d_name);
	if (dir)
		closedir(dir);
	return dir;
}

/* The driver's library of a process. */
struct found {
	const struct api *api;
	char path[PATH_MAX];
};

static int is_driver(void *ctx, const struct map_line *m)
{
	struct found *f = ctx;

	if (m->api != api_at(API_CUDA))
		return 0;
	f->api = m->api;
	snprintf(f->path, sizeof(f->path), "%s", m->path);
	return 1;
}

/* Why a process that maps the driver is not traced. */
struct why {
	const char *text, *note;
};
static const struct why no_library = {
	"it has not loaded the in-process library (env -i, a static or set-user-ID program, "
	"another root directory)",
	"its process has not loaded the in-process library"};
static const struct why own_filter = {"it has a seccomp filter of its own",
				      "its process has a seccomp filter of its own"};
static const struct why no_connection = {
	"it can neither connect to cudatrace nor write to its files (a sandbox)",
	"its process cannot connect to cudatrace"};
static const struct why no_socket = {"its environment has no " CT_ENV_SOCKET
				     ", or that of another cudatrace",
				     "its process has another environment"};

/* Returns whether its environment has the library, but not our socket. A program that overwrites
 * its environment in /proc (setproctitle) has neither. */
static bool is_of_another(const struct unreached *u, pid_t pid)
{
	return (forked__has_variable(pid, PRELOAD, LIBRARY) == 1 ||
		forked__has_variable(pid, INJECTION, LIBRARY) == 1) &&
	       forked__has_variable(pid, CT_ENV_SOCKET "=", u->socket) == 0;
}

/* NULL: it is traced, has not called the driver yet, or has reported by itself that it is not. */
static const struct why *why_unreached(const struct unreached *u, pid_t pid, struct found *f)
{
	if (target_each_mapped(pid, is_driver, f) != 1)
		return NULL;
	if (target_maps(pid, LIBRARY) == 0)
		return forked__has_variable(pid, INJECTION, LIBRARY) == 0 ? &no_library : NULL;
	if (target_maps(pid, u->lost_name) != 0)
		return NULL;
	if (inject__filters(pid) > u->filters)
		return &own_filter;
	if (is_of_another(u, pid))
		return &no_socket;
	return target_maps(pid, CT_SHM_MARK) == 1 ? &no_connection : NULL;
}

static void report(struct unreached *u, const struct known *k, const struct found *f,
		   const struct why *why, uint64_t now)
{
	static bool said;
	struct trace_event ev = {
		.kind = EVENT_LIBRARY,
		.type = TYPE_LIBRARY,
		.op = "failed",
		.name = api_lib_name(f->api),
		.comm = k->comm,
		.pid = k->pid,
		.tid = k->pid,
		.library = {.path = f->path, .note = why->note},
		.start_ns = now,
		.end_ns = now,
	};

	if (!said)
		warn("the CUDA calls of process %d (%s) are not traced: %s; use sudo cudatrace "
		     "--probe=uprobe -- COMMAND",
		     k->pid, k->comm, why->text);
	said = true;
	u->fn(u->ctx, &ev);
}

static uint64_t clamp(uint64_t ns, uint64_t min, uint64_t max)
{
	return ns < min ? min : ns > max ? max : ns;
}

/* The older the program, the less often. A busy machine must not delay it by more than its age. */
static uint64_t wait_for(uint64_t age, uint64_t took)
{
	uint64_t wait = clamp(age / 4, LOOK_MIN_NS, LOOK_MAX_NS);

	return clamp(took * SHARE, wait, age > wait ? age : wait);
}

/* Returns false if the process is gone. */
static bool read_name(pid_t pid, char name[COMM_SZ + 1])
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (!read_file(path, name, COMM_SZ + 1))
		return false;
	name[strcspn(name, "\n")] = '\0';
	return true;
}

static void look_at_maps(struct unreached *u, struct known *k, uint64_t now)
{
	struct found f = {0};
	const struct why *why = why_unreached(u, k->pid, &f);
	char name[COMM_SZ + 1];

	if (!why) {
		k->next_ns = now + wait_for(now - k->since_ns, now_ns() - now);
	} else if (!read_name(k->pid, name) || !strcmp(name, k->comm)) {
		report(u, k, &f, why, now);
		k->next_ns = UINT64_MAX;
	} /* else the mappings are those of another program, which the next look finds */
}

/* Returns false if the process is gone. */
static bool look_at(struct unreached *u, unsigned i, uint64_t now)
{
	struct known *k = &u->known[i];
	char name[COMM_SZ + 1];

	if (!read_name(k->pid, name))
		return false;
	if (strcmp(name, k->comm) != 0 || !k->since_ns) {
		snprintf(k->comm, sizeof(k->comm), "%.15s", name);
		k->since_ns = now;
		k->next_ns = 0;
	}
	if (now >= k->next_ns)
		look_at_maps(u, k, now);
	return add_children(u, u->known[i].pid);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

void unreached__look(struct unreached *u, uint64_t now)
{
	uint64_t end = now + TURN_NS, next = now + ROUND_NS, cpu;

	if (now < u->not_before)
		return;
	cpu = cpu_ns();
	while (u->at < u->cnt && now < end) {
		if (look_at(u, u->at, now))
			u->at++;
		else
			u->known[u->at] = u->known[--u->cnt];
		now = now_ns();
	}
	u->not_before = now + (cpu_ns() - cpu) * SHARE;
	if (u->at < u->cnt)
		return;
	if (u->not_before < next)
		u->not_before = next;
	u->at = 0;
}

uint64_t unreached__next_ns(const struct unreached *u)
{
	return u ? u->not_before : 0;
}

struct unreached *unreached__open(pid_t command, unreached_fn fn, void *ctx)
{
	struct unreached *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->fn = fn;
	u->ctx = ctx;
	u->filters = inject__filters(command);
	inject__lost_name(u->lost_name);
	strcat(u->lost_name, " "); /* other names begin with it */
	snprintf(u->socket, sizeof(u->socket), "=@cudatrace-%d-", getpid());
	add(u, command);
	return u;
}

void unreached__free(struct unreached *u)
{
	if (u)
		free(u->known);
	free(u);
}
