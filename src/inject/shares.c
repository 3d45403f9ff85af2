/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shares of resources when processes of all users connect: docs/LIMITS.md. */
#include "inject_priv.h"

#include "util/log.h"

#include <stdlib.h>
#include <unistd.h>

/* Limit of a process's rings: RINGS_MIN, plus per thread its ring and one MIB for its counts. */
#define MIB	       (1ull << 20)
#define RINGS_MIN      (16 * MIB)
#define USER_BYTES_MIN (1024 * MIB)
/* Maximum part of the machine's memory for the rings of one user. */
#define USER_PART 8
/* Each check covers 1/ROUND of all processes. */
#define ROUND 16

struct owner *owner__get(struct inject *in, uid_t uid)
{
	struct owner *o = NULL;

	for (unsigned i = 0; i < in->owner_cnt && !o; i++)
		if (in->owners[i]->uid == uid)
			o = in->owners[i];
	if (!o && in->owner_cnt < CLIENTS_MAX) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return NULL;
		o->uid = uid;
		if (lost__open(o)) {
			free(o);
			return NULL;
		}
		in->owners[in->owner_cnt++] = o;
	}
	if (o)
		o->clients++;
	return o;
}

void owner__put(struct inject *in, struct owner *o)
{
	/* One user's children may report long after their parents have ended. */
	if (!o || --o->clients || !in->o.folder)
		return;
	for (unsigned i = 0; i < in->owner_cnt; i++)
		if (in->owners[i] == o) {
			in->owners[i] = in->owners[--in->owner_cnt];
			break;
		}
	lost__close(in, o);
	free(o);
}

void owners__free(struct inject *in)
{
	while (in->owner_cnt) {
		struct owner *o = in->owners[--in->owner_cnt];

		lost__close(in, o);
		free(o);
	}
}

bool shares__has_room(const struct inject *in, uid_t uid, pid_t pid)
{
	unsigned max = in->o.folder ? INJECT_OPEN_MAX : CLIENTS_MAX, of_pid = 0, of_user = 0;

	for (unsigned i = 0; i < in->client_cnt; i++) {
		of_pid += in->clients[i]->pid == pid;
		of_user += in->clients[i]->uid == uid;
	}
	return in->client_cnt < max && of_pid < CLIENTS_OF_ONE_MAX &&
	       (!in->o.folder || of_user < max / 2);
}

/* Returns the limit for its threads, including those that were rejected. */
static uint64_t allowed(const struct inject *in, const struct client *p)
{
	uint64_t slots = p->shm.rejected ? CT_SHM_SLOTS : p->shm.slot_cnt;

	return RINGS_MIN + slots * (in->o.ring_sz + SLOT_SZ + MIB);
}

static void release_conn(struct inject *in, struct client *p, uint64_t bytes, uint64_t now)
{
	if (!in->warned_memory)
		warn("process %d is no longer traced in-process: its ring buffers take %llu MiB "
		     "(docs/LIMITS.md); further such processes are only counted",
		     p->pid, (unsigned long long)(bytes / MIB));
	in->warned_memory = true;
	in->refused_cnt++;
	if (in->o.probes)
		in->o.probes->on_lost(in->o.ctx, p->pid);
	clients__leave(in, p, now);
}

void shares__open(struct inject *in)
{
	uint64_t part = (uint64_t)sysconf(_SC_PHYS_PAGES) * PAGE / USER_PART;

	in->user_bytes_max = part > USER_BYTES_MIN ? part : USER_BYTES_MIN;
}

void shares__look(struct inject *in, uint64_t now)
{
	unsigned round = in->memory_round++ % ROUND;

	if (!in->o.folder)
		return;
	for (unsigned i = round; i < in->client_cnt; i += ROUND) {
		struct client *p = in->clients[i];
		struct owner *o = p->shm.owner;
		uint64_t bytes = shm__allocated(&p->shm);

		o->bytes += bytes - p->bytes;
		p->bytes = bytes;
		if (p->pidfd < 0)
			continue;
		/* Drop one of the largest. */
		if (bytes > allowed(in, p) ||
		    (o->bytes > in->user_bytes_max && bytes >= o->bytes / o->clients))
			release_conn(in, p, bytes, now);
	}
}
