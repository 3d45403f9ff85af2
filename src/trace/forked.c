/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "forked.h"

#include "attach/find/target.h"
#include "ct_shm.h"
#include "decode/cuda.h"
#include "util/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRON_SZ_MAX (256 << 10)

struct search {
	char variable[sizeof(CT_ENV_SOCKET) + 128];
	pid_t *pids;
	unsigned max, cnt;
};

static bool has_variable(const struct search *s, pid_t pid)
{
	char *env = malloc(ENVIRON_SZ_MAX + 1);
	ssize_t n = env ? reader__take(reader__copy(pid, "environ", ENVIRON_SZ_MAX), env,
				       ENVIRON_SZ_MAX)
			: 0;
	bool found = false;

	if (n > 0)
		env[n] = '\0';
	for (const char *p = env; n > 0 && p < env + n && !found; p += strlen(p) + 1)
		found = !strcmp(p, s->variable);
	free(env);
	return found;
}

static int is_driver(void *ctx, const struct map_line *m)
{
	return m->api == api_at(API_CUDA);
}

static bool look(void *ctx, pid_t pid)
{
	struct search *s = ctx;
	struct work w;
	bool found;

	if (reader__user(pid) != getuid() || target_has_ended(pid) ||
	    reader__begin(&w, pid, WORK_FILES))
		return true;
	found = has_variable(s, pid);
	time_budget__end(&w);
	if (!found || target_each_mapped(pid, is_driver, NULL) != 1)
		return true;
	if (s->cnt < s->max)
		s->pids[s->cnt] = pid;
	s->cnt++;
	return true;
}

unsigned forked__find(const char *socket, pid_t *pids, unsigned max)
{
	struct search s = {.pids = pids, .max = max};

	snprintf(s.variable, sizeof(s.variable), CT_ENV_SOCKET "=%s", socket);
	target_each(look, &s);
	return s.cnt;
}
