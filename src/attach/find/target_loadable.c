/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Libraries that a running process could load: where its dynamic linker would search. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif
#include "target.h"

#include "ld_cache.h"

#include "util/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Limits of the files that a process can make us attach to and check: it controls its environment
 * and root. */
#define FILES_MAX      16
#define LOOKS_MAX      (128 * (API_CNT + 1))
#define ENVIRON_SZ_MAX (2u << 20)

struct search {
	struct target_libs *list;
	pid_t pid;
	unsigned files, looks;
	bool busy; /* its file system does not respond */
};

/* path: as the process sees it. */
static void try(struct search *s, const struct api *api, const char *path)
{
	unsigned before = s->list->cnt;
	char *own, *name;
	int ret;

	if (*path != '/' || s->busy || s->files == FILES_MAX || s->looks++ == LOOKS_MAX)
		return;
	if (asprintf(&own, "/proc/%d/root%s", (int)s->pid, path) < 0)
		return;
	ret = target_libs__add_path_of(s->list, api, s->pid, own);
	s->busy = ret == -ETIMEDOUT || ret == -EBUSY;
	free(own);
	if (ret || s->list->cnt == before)
		return;
	s->files++;
	name = strdup(path);
	if (!name)
		return;
	free(s->list->libs[before].path);
	s->list->libs[before].path = name;
	s->list->libs[before].pid = s->pid;
}

static void try_folder(struct search *s, const char *dir, size_t len)
{
	char path[4096 + 64];
	const struct api *api;
	const char *name;
	size_t name_len;

	for (unsigned i = 0; len && len < 4096 && (name = api_any_file(i, &api, &name_len)); i++) {
		snprintf(path, sizeof(path), "%.*s/%.*s", (int)len, dir, (int)name_len, name);
		try(s, api, path);
	}
}

/* Reads up to max bytes and adds a NUL. Returns NULL if there is nothing. */
static char *take_all(int fd, size_t max, size_t *size)
{
	struct stat st;
	size_t room = fd >= 0 && !fstat(fd, &st) && st.st_size > 0 ? (size_t)st.st_size : 0;
	char *buf = room && room <= max ? malloc(room + 1) : NULL;
	ssize_t n;

	if (!buf) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	n = reader__take(fd, buf, room);
	*size = n > 0 ? n : 0;
	buf[*size] = '\0';
	return buf;
}

static void try_library_path(struct search *s)
{
	static const char want[] = "LD_LIBRARY_PATH=";
	size_t size = 0, len;
	char *env =
		take_all(reader__copy(s->pid, "environ", ENVIRON_SZ_MAX), ENVIRON_SZ_MAX, &size);

	for (const char *p = env; p && p < env + size; p += strlen(p) + 1) {
		if (strncmp(p, want, sizeof(want) - 1) != 0)
			continue;
		for (p += sizeof(want) - 1; *p; p += len + (p[len] != '\0')) {
			len = strcspn(p, ":;");
			try_folder(s, p, len);
		}
		break;
	}
	free(env);
}

static bool on_cached(void *ctx, const char *name, const char *path)
{
	const struct api *api = api_of_file(name);
	struct search *s = ctx;

	if (api)
		try(s, api, path);
	return !s->busy;
}

static void try_cache(struct search *s)
{
	char path[64], *buf;
	size_t size = 0;

	snprintf(path, sizeof(path), "/proc/%d/root/etc/ld.so.cache", (int)s->pid);
	buf = take_all(reader__open(s->pid, path, 0), LD_CACHE_SZ_MAX, &size);
	if (buf)
		ld_cache__each(buf, size, on_cached, s);
	free(buf);
}

void target_libs__add_loadable(struct target_libs *list, pid_t pid)
{
	/* Directories of the dynamic linkers and of driver installations. No patterns: listing a
	 * directory of the process may never end. */
	static const char *const folders[] = {
		"/usr/lib/x86_64-linux-gnu",
		"/usr/lib/aarch64-linux-gnu",
		"/usr/lib64",
		"/usr/lib",
		"/usr/lib/x86_64-linux-gnu/nvidia/current",
		"/usr/lib/aarch64-linux-gnu/nvidia/current",
		"/usr/local/nvidia/lib64",
		"/usr/local/nvidia/lib",
		"/usr/local/cuda/compat",
		"/usr/lib/wsl/lib",
		"/run/opengl-driver/lib",
	};
	struct search s = {.list = list, .pid = pid};

	try_library_path(&s);
	try_cache(&s);
	for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		try_folder(&s, folders[i], strlen(folders[i]));
}
