/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "job.h"

#include "util/reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Maximum bytes read of an environment: a process can make it as large as its memory. */
#define ENVIRON_SZ  (256 << 10)
#define RANK_DIGITS 7

/* torchrun and similar launchers set the first; they may run under those that set the others. */
static const char *const variables[] = {
	"RANK=",
	"SLURM_PROCID=",
	"OMPI_COMM_WORLD_RANK=",
	"PMI_RANK=",
};

static bool is_number(const char *text, uint32_t *n)
{
	size_t len = strlen(text);

	if (!len || len > RANK_DIGITS)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isdigit((unsigned char)text[i]))
			return false;
	*n = strtoul(text, NULL, 10);
	return true;
}

bool job_rank_in(const char *env, size_t len, uint32_t *rank)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		size_t n = strlen(variables[i]);

		for (const char *var = env; var < env + len; var += strlen(var) + 1)
			if (!strncmp(var, variables[i], n) && is_number(var + n, rank))
				return true;
	}
	return false;
}

bool job_rank_of(pid_t pid, uint32_t *rank)
{
	char *env = NULL;
	bool found = false;
	struct work w;
	ssize_t len;

	if (reader__begin(&w, pid, WORK_FILES))
		return false;
	env = malloc(ENVIRON_SZ + 1);
	len = env ? reader__take(reader__copy(pid, "environ", ENVIRON_SZ), env, ENVIRON_SZ) : 0;
	if (len > 0) {
		env[len] = '\0';
		found = job_rank_in(env, len, rank);
	}
	free(env);
	time_budget__end(&w);
	return found;
}
