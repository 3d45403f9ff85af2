/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpus.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "NAME: \t VALUE\n" */
static void take(const char *line, const char *name, char *to, size_t size)
{
	size_t len = strlen(name);

	if (strncmp(line, name, len) || line[len] != ':')
		return;
	line += len + 1;
	line += strspn(line, " \t");
	snprintf(to, size, "%.*s", (int)strcspn(line, "\n"), line);
}

static void read_gpu(struct gpu *g, const char *dir, const char *bus)
{
	char path[512], line[256];
	FILE *f;

	memset(g, 0, sizeof(*g));
	snprintf(g->bus, sizeof(g->bus), "%s", bus);
	snprintf(path, sizeof(path), "%s/%s/information", dir, bus);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		take(line, "Model", g->model, sizeof(g->model));
		take(line, "GPU UUID", g->uuid, sizeof(g->uuid));
		take(line, "Device Minor", g->minor, sizeof(g->minor));
	}
	fclose(f);
	if (strchr(g->uuid, '?'))
		g->uuid[0] = '\0';
}

static int by_bus(const void *a, const void *b)
{
	return strcmp(((const struct gpu *)a)->bus, ((const struct gpu *)b)->bus);
}

unsigned gpus__read(const char *dir, struct gpu *gpus)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	unsigned cnt = 0;

	if (!d)
		return 0;
	while (cnt < GPUS_MAX && (de = readdir(d)))
		if (de->d_name[0] != '.')
			read_gpu(&gpus[cnt++], dir, de->d_name);
	closedir(d);
	qsort(gpus, cnt, sizeof(*gpus), by_bus);
	return cnt;
}

void gpus_bus(const char *name, char *bus, size_t size)
{
	bool is_message = !strncmp(name, "PCI:", 4);

	snprintf(bus, size, "%s%s", is_message ? name + 4 : name,
		 is_message && !strchr(name, '.') ? ".0" : "");
}
