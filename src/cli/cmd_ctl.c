/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace ctl: sends a request to a running daemon, and prints the JSON response as received. */
#include "cmd.h"

#include "daemon/ctl.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/plain.h"

/* Extracts the text of {"error":"..."}. */
static bool is_error(char *text)
{
	static const char head[] = "{\"error\":\"";
	char *from = text + sizeof(head) - 1, *to = text;

	if (strncmp(text, head, sizeof(head) - 1))
		return false;
	while (*from && *from != '"') {
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from++;
	}
	*to = '\0';
	return true;
}

/* A member of ctl.group may not have access to the file: then use the default. */
static char *socket_path(const struct opts *o)
{
	struct daemon_opts d = {
		.config = o->config,
		.sets = o->sets.v,
		.set_cnt = o->sets.cnt,
	};
	struct config_errors errors = {0};
	struct config *c = daemon_config(&d, &errors);
	char *path;

	if (!c && (o->config || o->sets.cnt)) {
		plain_lines(stderr, errors.text);
		return NULL;
	}
	c = c ?: config__new();
	path = c ? strdup(c->ctl.socket) : NULL;
	config__free(c);
	return path;
}

/* The daemon has another working directory: make the path of a file absolute. */
static void make_absolute(const char **word)
{
	char *dir, *path;

	if (**word == '/' || !strchr(*word, '/'))
		return;
	dir = realpath(".", NULL);
	if (dir && asprintf(&path, "%s/%s", dir, *word) >= 0)
		*word = path;
	free(dir);
}

int cmd_ctl(const struct opts *o)
{
	char *path = socket_path(o), *text;
	unsigned cnt = o->files.cnt;
	const char **words;
	int status;

	if (!path)
		return 1;
	if (o->files.cnt > 1 && !strcmp(o->files.v[0], "dump"))
		make_absolute(&o->files.v[1]);
	words = calloc(cnt + 3, sizeof(*words));
	if (words) {
		memcpy(words, o->files.v, cnt * sizeof(*words));
		if (o->ctl_at) {
			words[cnt++] = "at";
			words[cnt++] = o->ctl_at;
		}
		if (o->trace.gpu_time)
			words[cnt++] = "gpu-time";
	}
	text = words ? ctl_request(path, cnt, words) : NULL;
	free(words);
	free(path);
	if (!text)
		return 1;
	status = is_error(text);
	if (status)
		err("%s", text);
	else if (fputs(text, stdout) < 0 || fflush(stdout)) {
		err("cannot write the answer to standard output: %s", strerror(errno));
		status = 1;
	}
	free(text);
	return status;
}
