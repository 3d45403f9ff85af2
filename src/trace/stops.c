/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stops.h"

#include "attach/find/target.h"

#include "util/task.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* A parent detects the stop when it gets a processor, which may take seconds. */
#define WATCHED_NS 20000000000ull

/* Programs that stop themselves when a child is stopped. Another one that is stopped was stopped by
 * another process. */
static const char *const names[] = {"su",      "runuser", "sudo", "script", "nsenter",
				    "unshare", "newgrp",  "sg",	  "login"};

static bool stops_itself(pid_t pid)
{
	char comm[32];

	if (!task_read(pid, pid, "comm", comm, sizeof(comm)))
		return false;
	comm[strcspn(comm, "\n")] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(comm, names[i]))
			return true;
	return false;
}

void stops__note(struct stops *s, pid_t pid, uint64_t now)
{
	unsigned long long start;
	struct stop x = {.child = pid, .end_ns = now + WATCHED_NS};

	if (target_stat(pid, &x.parent, &start) && x.parent > 1 && x.parent != getpid() &&
	    target_stat(x.parent, &(pid_t){0}, &x.parent_start) && stops_itself(x.parent))
		s->of[s->cnt++ % STOPS_MAX] = x;
}

void stops__tick(struct stops *s, uint64_t now)
{
	for (unsigned i = 0; i < STOPS_MAX && i < s->cnt; i++) {
		struct stop *x = &s->of[i];
		unsigned long long start;

		if (now < x->end_ns && target_state(x->parent) == 'T' &&
		    target_state(x->child) != 'T' && target_stat(x->parent, &(pid_t){0}, &start) &&
		    start == x->parent_start)
			kill(x->parent, SIGCONT);
	}
}
