/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "report_tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "opts_priv.h"
#include "report/section_csv.h"
#include "util/log.h"
#include "util/out.h"
#include "util/plural.h"
#include "util/safe_open.h"

struct tables {
	const struct opts *o;
	const struct report *r;
	const char *to;	  /* the folder; the file of a single table */
	const char *name; /* to look for */
	char words[1024];
	unsigned cnt;
	bool is_file;
};

/* Returns whether arg names the table or its section. */
static bool names(const char *arg, const char *table)
{
	size_t len = strlen(arg);

	return !strncmp(arg, table, len) &&
	       (!table[len] || (table[len] == '.' && !strchr(arg, '.')));
}

static bool is_wanted(const struct opts *o, const struct section_path *p)
{
	/* --section=map.TABLE sets o->map, too */
	bool map = o->map && !(o->sections >> AN_MAP & 1), any = !o->tables.cnt;

	if (map || o->serving)
		any = (map && names("map", p->name)) || (o->serving && names("serving", p->name));
	for (unsigned i = 0; i < o->tables.cnt; i++)
		any |= names(o->tables.v[i], p->name);
	return any;
}

static int count_table(void *ctx, const struct section_path *p)
{
	struct tables *t = ctx;

	t->cnt += is_wanted(t->o, p);
	return 0;
}

static int is_named(void *ctx, const struct section_path *p)
{
	return !strcmp(p->name, ((struct tables *)ctx)->name);
}

/* Adds the table to the words if it belongs to the section. */
static int list_table(void *ctx, const struct section_path *p)
{
	struct tables *t = ctx;
	size_t len = strcspn(t->name, "."), n = strlen(t->words);

	if (!strncmp(t->name, p->name, len) && (!p->name[len] || p->name[len] == '.'))
		snprintf(t->words + n, sizeof(t->words) - n, " %s", p->name);
	return 0;
}

void report_tables_check(const struct opts *o)
{
	for (unsigned i = 0; i < o->tables.cnt; i++) {
		struct tables t = {.o = o, .name = o->tables.v[i]};

		if (!strchr(t.name, '.'))
			continue;
		if (strcmp(o->format, "csv"))
			opts__die(
				"--section '%s' is a table, which only --format=csv writes alone; "
				"give its section, %.*s",
				t.name, (int)strcspn(t.name, "."), t.name);
		if (section_tables(is_named, &t))
			continue;
		section_tables(list_table, &t);
		opts__die("--section '%s': there is no such table; choose one of:%s", t.name,
			  t.words);
	}
}

/* A folder always has the table of what is missing. */
static bool is_lost(const struct section_path *p)
{
	return !strcmp(p->name, "lost");
}

static int count_lost(void *ctx, const struct section_path *p)
{
	struct tables *t = ctx;

	t->cnt += is_lost(p) && !is_wanted(t->o, p);
	return 0;
}

static int write_table(void *ctx, const struct section_path *p)
{
	struct tables *t = ctx;
	char *path = NULL;
	struct out *out;
	int ret;

	if (!is_wanted(t->o, p) && (t->is_file || !is_lost(p)))
		return 0;
	if (t->is_file)
		path = strdup(t->to);
	else if (asprintf(&path, "%s/%s.csv", t->to, p->name) < 0)
		path = NULL;
	if (!path)
		return -ENOMEM;
	out = out__open(path);
	free(path);
	if (!out)
		return -EIO;
	ret = section_csv(t->r, p, out);
	return out__close(out) ? -EIO : ret;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

int report_tables(const struct opts *o, const struct report *r, const char *dir)
{
	struct tables t = {.o = o, .r = r, .to = dir};
	enum safe_open_why why;
	int ret;

	section_tables(count_table, &t);
	if (t.cnt == 1 && !(o->output && is_folder(o->output))) {
		t.to = o->output ?: "-";
		t.is_file = true;
	} else if (!strcmp(dir, "-")) {
		err("%u tables need a folder: give one with -o, or one table with --section",
		    t.cnt);
		return -EINVAL;
	} else if (!safe_mkdir(dir, &why)) {
		err("cannot write tables to the folder %s: %s; give another one with -o", dir,
		    why == SAFE_OPEN_ERRNO	    ? strerror(errno)
		    : why == SAFE_OPEN_FOREIGN_LINK ? "a symbolic link in its path belongs to "
						      "another user"
						    : "it belongs to another user");
		return -EACCES;
	}
	if (!t.is_file)
		section_tables(count_lost, &t);
	ret = section_tables(write_table, &t);
	if (!ret && (!t.is_file || o->output))
		info("wrote %u table%s to %s", t.cnt, plural(t.cnt), t.to);
	return ret;
}
