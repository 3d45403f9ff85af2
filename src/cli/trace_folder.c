/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "trace_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "opts_priv.h"
#include "util/log.h"

static int is_trace(const struct dirent *d)
{
	static const char *const endings[] = {".jsonl", ".jsonl.gz", ".jsonl.zst"};
	size_t len = strlen(d->d_name);

	for (unsigned i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		size_t n = strlen(endings[i]);

		if (len > n && !strcmp(d->d_name + len - n, endings[i]) && d->d_name[0] != '.')
			return 1;
	}
	return 0;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return strcmp(path, "-") && !stat(path, &st) && S_ISDIR(st.st_mode);
}

static void add_folder(struct strv *to, const char *path)
{
	struct dirent **names;
	int cnt = scandir(path, &names, is_trace, alphasort);
	unsigned before = to->cnt;
	struct stat st;
	char *file;

	if (cnt < 0)
		opts__die("report: cannot read folder %s: %s", path, strerror(errno));
	if (cnt > TRACE_FOLDER_MAX)
		opts__die("report: folder %s has %d traces; give at most %d", path, cnt,
			  TRACE_FOLDER_MAX);
	for (int i = 0; i < cnt; i++) {
		if (asprintf(&file, "%s/%s", path, names[i]->d_name) < 0)
			opts__die("out of memory: close other programs");
		/* A FIFO would be waited for. */
		if (!stat(file, &st) && !S_ISREG(st.st_mode)) {
			warn("report: %s is not a regular file: it is left out", file);
			free(file);
		} else {
			strv_add(to, file);
		}
		free(names[i]);
	}
	free(names);
	if (to->cnt == before)
		opts__die(
			"report: folder %s has no traces (*.jsonl, *.jsonl.gz, *.jsonl.zst); give "
			"the folder that cudatrace --jsonl wrote to",
			path);
}

void trace_folder__expand(struct strv *files)
{
	struct strv all = {0};

	for (unsigned i = 0; i < files->cnt; i++) {
		if (is_folder(files->v[i]))
			add_folder(&all, files->v[i]);
		else
			strv_add(&all, files->v[i]);
	}
	free(files->v);
	*files = all;
}
