/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "same_file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The same limit as the kernel's. */
#define LINKS_MAX 40

struct place {
	char path[PATH_MAX];
	const char *name; /* name of a missing file in the directory st; NULL: st is the file */
	struct stat st;
};

/* Replaces the link at path by its target; false: it is not a link. */
static bool follow(char path[PATH_MAX])
{
	char target[PATH_MAX], joined[2 * PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	const char *slash = strrchr(path, '/');

	if (n <= 0)
		return false;
	target[n] = '\0';
	snprintf(joined, sizeof(joined), "%.*s%s",
		 slash && *target != '/' ? (int)(slash + 1 - path) : 0, path, target);
	if (strlen(joined) >= PATH_MAX)
		return false;
	strcpy(path, joined);
	return true;
}

static bool find(struct place *p, const char *path)
{
	char folder[PATH_MAX];
	const char *slash;

	p->name = NULL;
	if (!strcmp(path, "-"))
		return !fstat(STDOUT_FILENO, &p->st);
	if (!stat(path, &p->st))
		return true;
	if (strlen(path) >= sizeof(p->path))
		return false;
	strcpy(p->path, path);
	for (int links = 0; links < LINKS_MAX && follow(p->path); links++)
		;
	slash = strrchr(p->path, '/');
	p->name = slash ? slash + 1 : p->path;
	snprintf(folder, sizeof(folder), "%.*s", (int)(p->name - p->path), p->path);
	return !stat(*folder ? folder : ".", &p->st);
}

bool same_file(const char *a, const char *b)
{
	struct place pa, pb;

	if (!find(&pa, a) || !find(&pb, b) || pa.st.st_dev != pb.st.st_dev ||
	    pa.st.st_ino != pb.st.st_ino)
		return false;
	if (pa.name && pb.name)
		return !strcmp(pa.name, pb.name);
	return !pa.name && !pb.name && S_ISREG(pa.st.st_mode);
}
