/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The processes on a device: their memory, and their share of its time. */
#include "sampler.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct user {
	unsigned pid;
	bool has_memory, has_util;
	unsigned long long memory;
	unsigned cnt, sm, encoder, decoder, memory_util; /* sums over cnt samples */
};

struct users {
	struct user of[PROCESSES_MAX];
	unsigned cnt;
};

static struct user *user_of(struct users *u, unsigned pid)
{
	for (unsigned i = 0; i < u->cnt; i++)
		if (u->of[i].pid == pid)
			return &u->of[i];
	if (!pid || u->cnt == PROCESSES_MAX)
		return NULL;
	u->of[u->cnt] = (struct user){.pid = pid};
	return &u->of[u->cnt++];
}

static void add_memory(struct users *u, const struct nvml_process *p, unsigned cnt)
{
	for (unsigned i = 0; i < cnt && i < PROCESSES_MAX; i++) {
		struct user *x = user_of(u, p[i].pid);

		if (!x || p[i].used == NVML_NO_VALUE)
			continue;
		/* A process that computes and draws is in both lists, with the same memory. */
		x->has_memory = true;
		if (p[i].used > x->memory)
			x->memory = p[i].used;
	}
}

static void read_memory(struct sampler *s, struct device *d, struct users *u)
{
	static struct nvml_process list[PROCESSES_MAX];
	unsigned cnt = PROCESSES_MAX;
	int ret;

	/* With more processes than the array holds, NVML returns none. */
	ret = ASK(&s->n, processes, d->handle, &cnt, list);
	if (ret == NVML_INSUFFICIENT_SIZE || answered(s, d, ret))
		add_memory(u, list, ret ? 0 : cnt);
	cnt = PROCESSES_MAX;
	ret = ASK(&s->n, graphics, d->handle, &cnt, list);
	if (!ret)
		add_memory(u, list, cnt);
}

/* Requests samples since the newest that was read; older ones would be returned again. The first
 * request returns all samples that the driver kept, also of the time before the trace. Not
 * supported with MIG. */
static void read_util(struct sampler *s, struct device *d, struct users *u)
{
	static struct nvml_process_util list[PROCESSES_MAX];
	unsigned long long seen = d->util_stamp;
	unsigned cnt = PROCESSES_MAX;
	bool is_first = !d->util_read;

	d->util_read = true;

	/* NOT_FOUND: no process has used the device since. */
	if (ASK(&s->n, process_util, d->handle, list, &cnt, seen))
		return;
	for (unsigned i = 0; i < cnt && i < PROCESSES_MAX; i++) {
		const struct nvml_process_util *p = &list[i];
		struct user *x;

		if (p->stamp <= seen || p->sm > 100 || p->memory > 100 || p->encoder > 100 ||
		    p->decoder > 100)
			continue;
		if (p->stamp > d->util_stamp)
			d->util_stamp = p->stamp;
		x = is_first ? NULL : user_of(u, p->pid);
		if (!x)
			continue;
		x->has_util = true;
		x->cnt++;
		x->sm += p->sm;
		x->memory_util += p->memory;
		x->encoder += p->encoder;
		x->decoder += p->decoder;
	}
}

static void read_comm(unsigned pid, char *comm, size_t size)
{
	char path[32];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, comm, size - 1);
		close(fd);
	}
	comm[n > 0 ? n : 0] = 0;
	comm[strcspn(comm, "\n")] = 0;
}

void sample_processes(struct sampler *s, struct device *d)
{
	static struct users users;

	users.cnt = 0;
	read_memory(s, d, &users);
	if (!d->parent)
		read_util(s, d, &users);
	for (unsigned i = 0; i < users.cnt; i++) {
		struct ct_gpu rec = record_of(d, CT_GPU_PROCESS);
		const struct user *x = &users.of[i];

		rec.rec.pid = rec.rec.tid = x->pid;
		read_comm(x->pid, rec.name, 16);
		if (x->has_memory)
			put(&rec, CT_GPU_MEMORY_USED, x->memory);
		if (x->has_util) {
			put(&rec, CT_GPU_SM_UTIL, x->sm * 1000 / x->cnt);
			put(&rec, CT_GPU_MEMORY_UTIL, x->memory_util * 1000 / x->cnt);
			put(&rec, CT_GPU_ENCODER_UTIL, x->encoder * 1000 / x->cnt);
			put(&rec, CT_GPU_DECODER_UTIL, x->decoder * 1000 / x->cnt);
		}
		send_record(s, &rec);
	}
}
