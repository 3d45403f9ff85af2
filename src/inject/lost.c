/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes that report by shared memory that their library does not record them (ct_shm.h). */
#include "inject_priv.h"

#include "util/log.h"
#include "util/safe_close.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const why[CT_SHM_LOST_CNT] = {
	[CT_SHM_LOST_ANSWER] = "it cannot connect to cudatrace",
	[CT_SHM_LOST_FILTER] = "it has a seccomp filter of its own",
	[CT_SHM_LOST_CLOCK] = "it disables the time stamp counter",
};

void inject__lost_name(char name[INJECT_LOST_NAME_SZ])
{
	snprintf(name, INJECT_LOST_NAME_SZ, CT_SHM_LOST_NAME "-%d", getpid());
}

int lost__open(struct owner *o)
{
	char name[INJECT_LOST_NAME_SZ];
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	inject__lost_name(name);
	o->lost_fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (o->lost_fd < 0)
		return -errno;
	o->lost = MAP_FAILED;
	if (!ftruncate(o->lost_fd, CT_SHM_LOST_SZ) && !fcntl(o->lost_fd, F_ADD_SEALS, seals))
		o->lost = mmap(NULL, sizeof(*o->lost), PROT_READ | PROT_WRITE, MAP_SHARED,
			       o->lost_fd, 0);
	if (o->lost != MAP_FAILED)
		return 0;
	safe_close(o->lost_fd);
	return -ENOMEM;
}

/* A larger file is emptied; each line is a program that could not connect. */
#define FILE_MAX (1 << 20)

void lost__open_file(struct inject *in)
{
	const char *slash = strrchr(in->library, '/');
	struct stat st;

	if (asprintf(&in->lost_path, "%.*s/lost", (int)(slash - in->library), in->library) < 0) {
		in->lost_path = NULL;
		return;
	}
	in->lost_fd = open(in->lost_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (in->lost_fd >= 0 && !fstat(in->lost_fd, &st) &&
	    (st.st_size < FILE_MAX || !ftruncate(in->lost_fd, 0)) &&
	    lseek(in->lost_fd, 0, SEEK_END) >= 0)
		return;
	warn("cannot open %s: %s: programs that cannot connect to cudatrace are not counted",
	     in->lost_path, strerror(errno));
	lost__close_file(in);
}

static void add(struct inject *in, enum ct_shm_lost_why reason, uint64_t cnt, int error)
{
	bool answer = reason == CT_SHM_LOST_ANSWER;

	in->lost_cnt += cnt;
	if (in->warned_lost[reason])
		return;
	in->warned_lost[reason] = true;
	warn("a process is not traced in-process: %s%s%s; further such processes are only counted",
	     why[reason], answer ? ": " : "",
	     answer ? strerror(error < 0 && error > -4096 ? -error : EIO) : "");
}

/* A process may write any number: it never decreases, and its sum does not overflow. */
static void look_at(struct inject *in, struct owner *o)
{
	for (unsigned i = 0; i < CT_SHM_LOST_CNT; i++) {
		uint64_t cnt = __atomic_load_n(&o->lost->cnt[i], __ATOMIC_ACQUIRE);

		if (cnt <= o->lost_cnt[i])
			continue;
		add(in, i, cnt - o->lost_cnt[i], o->lost->error);
		o->lost_cnt[i] = cnt;
	}
}

void lost__turn(struct inject *in)
{
	for (unsigned i = 0; i < in->owner_cnt && !in->stopped; i++)
		__atomic_fetch_add(&in->owners[i]->lost->turn, 1, __ATOMIC_RELAXED);
}

static void read_file(struct inject *in)
{
	struct ct_shm_lost_line line;

	while (in->lost_fd >= 0 && read(in->lost_fd, &line, sizeof(line)) == sizeof(line))
		if (line.why < CT_SHM_LOST_CNT &&
		    !strncmp(line.socket, in->socket_name, sizeof(line.socket)))
			add(in, line.why, 1, line.error);
}

void lost__look(struct inject *in)
{
	lost__turn(in);
	for (unsigned i = 0; i < in->owner_cnt && !in->stopped; i++)
		look_at(in, in->owners[i]);
	if (!in->stopped)
		read_file(in);
}

void lost__close_file(struct inject *in)
{
	if (!in->stopped)
		read_file(in);
	free(in->lost_path);
	in->lost_path = NULL;
	safe_close(in->lost_fd);
	in->lost_fd = -1;
}

void lost__close(struct inject *in, struct owner *o)
{
	if (!in->stopped)
		look_at(in, o);
	munmap(o->lost, sizeof(*o->lost));
	safe_close(o->lost_fd);
}
