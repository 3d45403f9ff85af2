/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds libcupti: by the loader, in the toolkit's directories, or in those of pip's packages of the
 * traced command's Python and of the machine's.
 */
#include "sampler.h"
#include "start.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_SZ 4096

static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64",
				      "/opt/cuda/extras/CUPTI/lib64"};
/* Below a folder lib. */
static const char *const packages[] = {
	"site-packages/nvidia/cu13/lib", "site-packages/nvidia/cuda_cupti/lib",
	"dist-packages/nvidia/cu13/lib", "dist-packages/nvidia/cuda_cupti/lib"};

/* CUPTI loads libnvperf_host by its name: the one beside it comes first. */
static void *open_file(const char *path)
{
	const char *slash = strrchr(path, '/');
	char beside[PATH_SZ];
	void *lib;

	if (access(path, R_OK))
		return NULL;
	if (slash && snprintf(beside, sizeof(beside), "%.*slibnvperf_host.so",
			      (int)(slash + 1 - path), path) < PATH_SZ)
		lib_open(beside, RTLD_NOW);
	lib = lib_open(path, RTLD_NOW);
	return lib;
}

static void *open_in(const char *folder)
{
	char path[PATH_SZ];
	void *lib = NULL;

	for (unsigned i = 0; !lib && i < sizeof(names) / sizeof(*names); i++)
		if (snprintf(path, sizeof(path), "%s/%s", folder, names[i]) < PATH_SZ)
			lib = open_file(path);
	return lib;
}

/* prefix: the folder above lib. */
static void *open_below(const char *prefix)
{
	char path[PATH_SZ];
	struct dirent *e;
	void *lib = NULL;
	DIR *dir;

	if (snprintf(path, sizeof(path), "%s/lib", prefix) >= PATH_SZ)
		return NULL;
	dir = opendir(path);
	while (dir && !lib && (e = readdir(dir))) {
		if (strncmp(e->d_name, "python3", 7))
			continue;
		for (unsigned i = 0; !lib && i < sizeof(packages) / sizeof(*packages); i++)
			if (snprintf(path, sizeof(path), "%s/lib/%s/%s", prefix, e->d_name,
				     packages[i]) < PATH_SZ)
				lib = open_in(path);
	}
	if (dir)
		closedir(dir);
	return lib;
}

/* A command bin/python3 of a virtual environment has its packages beside bin. */
static void *open_beside(const char *program)
{
	const char *folder = strchr(program, '/') ? program : getenv("PATH") ?: "", *end;
	char path[PATH_SZ];

	if (folder == program) {
		snprintf(path, sizeof(path), "%.*s/..", (int)(strrchr(program, '/') - program),
			 program);
		return open_below(path);
	}
	for (; *program && *folder; folder = end + (*end == ':')) {
		end = strchrnul(folder, ':');
		if (snprintf(path, sizeof(path), "%.*s/%s", (int)(end - folder), folder, program) >=
			    PATH_SZ ||
		    access(path, X_OK))
			continue;
		snprintf(path, sizeof(path), "%.*s/..", (int)(end - folder), folder);
		return open_below(path);
	}
	return NULL;
}

void *find_cupti(const char *path, const char *program)
{
	const char *prefixes[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"), "/usr/local",
				  "/usr", "/opt/conda"};
	void *lib;

	if (*path)
		return open_file(path);
	lib = open_beside(program);
	for (unsigned i = 0; !lib && i < sizeof(names) / sizeof(*names); i++)
		lib = lib_open(names[i], RTLD_NOW);
	for (unsigned i = 0; !lib && i < sizeof(folders) / sizeof(*folders); i++)
		lib = open_in(folders[i]);
	for (unsigned i = 0; !lib && i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (prefixes[i] && *prefixes[i])
			lib = open_below(prefixes[i]);
	return lib;
}
