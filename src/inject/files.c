/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Library files of processes: their exports, so that each function has an id. */
#include "inject_priv.h"

#include "attach/find/elf.h"
#include "attach/find/target.h"
#include "util/log.h"
#include "util/task.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct elf_lib *read_file(const struct target_lib *t)
{
	int fd = target_lib__open(t);
	struct elf_lib *elf;
	char why[256];

	if (fd < 0) {
		/* The process was killed before its first call, or no longer maps the file. */
		if (fd == -ENOENT && (!task_living(t->pid) || strstr(t->open_path, "/map_files/")))
			return NULL;
		warn("cannot read %s: %s", t->path, strerror(-fd));
		return NULL;
	}
	elf = elf_lib__read(fd, t->api, why, sizeof(why));
	close(fd);
	if (!elf)
		warn("%s: %s", t->path, why);
	return elf;
}

/* Drops a file that no process uses, because each container may bring files of its own. */
static void drop_unused(struct inject *in)
{
	for (unsigned i = in->file_cnt; i-- > 0;) {
		bool used = false;

		for (unsigned k = 0; k < in->client_cnt; k++)
			used |= in->clients[k]->lib_id == in->files[i].id;
		if (used)
			continue;
		free(in->files[i].path);
		in->files[i] = in->files[--in->file_cnt];
	}
}

static struct lib_file *add(struct inject *in, const struct target_lib *t)
{
	struct elf_lib *elf;
	struct lib_file *l;

	for (unsigned i = 0; i < in->file_cnt; i++)
		if (!memcmp(&in->files[i].key, &t->key, sizeof(t->key)))
			return &in->files[i];
	/* Only with probes: without them, ids are assigned here, and must stay unique. */
	if (in->file_cnt == FILES_MAX && in->o.probes)
		drop_unused(in);
	if (in->file_cnt == FILES_MAX)
		return NULL;
	elf = read_file(t);
	if (!elf)
		return NULL;
	l = &in->files[in->file_cnt];
	l->path = strdup(t->path);
	if (!l->path) {
		elf_lib__free(elf);
		return NULL;
	}
	l->id = ++in->file_cnt;
	l->key = t->key;
	l->api = t->api;
	l->comm_layout = elf->comm;
	memcpy(l->build_id, elf->build_id, sizeof(l->build_id));
	for (unsigned i = 0; i < elf->sym_cnt; i++) {
		int id = fnset__id(in->o.fns, elf->syms[i].name);

		l->wanted_cnt += id >= 0 && fnset__wanted(in->o.fns, id);
	}
	if (elf_lib_ifuncs(elf, in->o.fns, l->ifuncs, sizeof(l->ifuncs)) && !in->o.probes)
		warn("%s: %s: these calls are not traced", l->path, l->ifuncs);
	elf_lib__free(elf);
	settings__fill(&in->settings);
	return l;
}

const struct lib_file *files__by_id(const struct inject *in, unsigned id)
{
	for (unsigned i = 0; i < in->file_cnt; i++)
		if (in->files[i].id == id)
			return &in->files[i];
	return NULL;
}

struct lib_file *files__of(struct inject *in, enum api_id api, pid_t pid, const char *path,
			   int *why)
{
	struct target_libs list = {0};
	const struct target_lib *found = NULL;
	struct lib_file *l = NULL;
	int ret = target_libs__add_pid(&list, pid);

	if (!ret) {
		for (unsigned i = 0; i < list.cnt; i++)
			if (list.libs[i].api->id == api &&
			    (!found || !strcmp(list.libs[i].path, path)))
				found = &list.libs[i];
		l = found ? add(in, found) : NULL;
		if (l && in->o.probes)
			l->id = in->o.probes->lib_id(in->o.ctx, found);
	}
	*why = l || !task_living(pid) ? 0 : ret ?: found ? -EIO : -ENOENT;
	target_libs__clear(&list);
	return l;
}
