/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Libraries that a program started from here could load. None of the paths has to exist. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif
#include "target.h"

#include "ld_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Finding nothing is not an error; only memory can run out. */
static int add_candidate(struct target_libs *list, const struct api *api, const char *path)
{
	return target_libs__add_path(list, api, path) == -ENOMEM ? -ENOMEM : 0;
}

static int add_folder(struct target_libs *list, const char *dir, size_t len)
{
	const struct api *api;
	const char *name;
	size_t name_len;
	int ret = 0;

	for (unsigned i = 0; !ret && (name = api_any_file(i, &api, &name_len)); i++) {
		char *path;

		/* To the dynamic linker, an empty entry is the current directory. */
		if (asprintf(&path, "%.*s%s%.*s", (int)len, dir, len ? "/" : "", (int)name_len,
			     name) < 0)
			return -ENOMEM;
		ret = add_candidate(list, api, path);
		free(path);
	}
	return ret;
}

static int add_library_path(struct target_libs *list)
{
	const char *p = getenv("LD_LIBRARY_PATH");
	int ret = 0;

	while (p && *p && !ret) {
		size_t len = strcspn(p, ":;");

		if (len < 4096)
			ret = add_folder(list, p, len);
		p += len;
		p += *p != '\0';
	}
	return ret;
}

/* Returns NULL if it is unavailable. */
static char *read_cache(size_t *size)
{
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *buf = NULL;
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= LD_CACHE_SZ_MAX)
		buf = malloc((size_t)st.st_size + 1);
	if (buf)
		n = read(fd, buf, (size_t)st.st_size);
	close(fd);
	if (n < 0) {
		free(buf);
		return NULL;
	}
	*size = (size_t)n;
	return buf;
}

struct cache_ctx {
	struct target_libs *list;
	int ret;
};

static bool on_cached(void *ctx, const char *name, const char *path)
{
	const struct api *api = api_of_file(name);
	struct cache_ctx *c = ctx;

	if (api)
		c->ret = add_candidate(c->list, api, path);
	return !c->ret;
}

static int add_cache(struct target_libs *list)
{
	struct cache_ctx c = {.list = list};
	size_t size = 0;
	char *buf = read_cache(&size);

	if (buf)
		ld_cache__each(buf, size, on_cached, &c);
	free(buf);
	return c.ret;
}

static int add_usual_folders(struct target_libs *list)
{
	static const char *const folders[] = {
		/* the dynamic linker's own */
		"/usr/lib/x86_64-linux-gnu",
		"/lib/x86_64-linux-gnu",
		"/usr/lib/aarch64-linux-gnu",
		"/lib/aarch64-linux-gnu",
		"/usr/lib64",
		"/lib64",
		"/usr/lib",
		"/lib",
		/* driver installations: Debian, containers, forward compatibility, WSL, NixOS */
		"/usr/lib/*-linux-gnu/nvidia/current",
		"/usr/lib/nvidia*",
		"/usr/local/nvidia/lib64",
		"/usr/local/cuda*/compat",
		"/usr/lib/wsl/lib",
		"/run/opengl-driver/lib",
	};
	unsigned i;
	int ret = 0;

	for (i = 0; !ret && i < sizeof(folders) / sizeof(*folders); i++) {
		glob_t g = {0};
		size_t k;

		if (!glob(folders[i], GLOB_NOSORT, NULL, &g)) {
			for (k = 0; !ret && k < g.gl_pathc; k++)
				ret = add_folder(list, g.gl_pathv[k], strlen(g.gl_pathv[k]));
		}
		globfree(&g);
	}
	return ret;
}

int target_libs__add_system(struct target_libs *list)
{
	int ret = add_library_path(list);

	ret = ret ?: add_cache(list);
	return ret ?: add_usual_folders(list);
}
