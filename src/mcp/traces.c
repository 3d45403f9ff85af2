/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "traces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/memlimit.h"

#define TICKS 1024

void traces__drop(struct traces *t)
{
	report__free(t->report);
	t->report = NULL;
	end_sum__free(&t->ends);
	memset(&t->ends, 0, sizeof(t->ends));
	t->trace_cnt = 0;
	free(t->files);
	t->files = NULL;
	reader__free(t->reader);
	t->reader = NULL;
	/* Counts of what did not fit belong to one report. */
	memlimit_set(MEMLIMIT_SZ);
}

void traces__make_room(struct traces *t)
{
	if (memlimit_used() > MEMLIMIT_SZ / 4)
		traces__drop(t);
}

void traces__settle(struct traces *t)
{
	bool any = false;

	for (enum limit_table i = 0; i < LIMIT_TABLE_CNT; i++)
		any |= memlimit_rejected(i) != 0;
	if (any)
		traces__drop(t);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A name without its folders suffices if it is unique. */
int traces__find(const struct traces *t, const char *name, int *file, struct answer *a)
{
	unsigned cnt = 0;

	*file = -1;
	if (!name)
		return 0;
	for (unsigned i = 0; i < t->o->file_cnt; i++) {
		const char *path = t->o->files[i];

		if (!strcmp(path, name)) {
			*file = i;
			return 0;
		}
		if (strcmp(base_name(path), name))
			continue;
		*file = i;
		cnt++;
	}
	if (cnt == 1)
		return 0;
	answer__fail(a,
		     cnt ? "file '%.256s' is the name of several; give its path, as the tool "
			   "sections lists it"
			 : "file '%.256s' is not one that this server reads; the tool sections "
			   "lists them",
		     name);
	return -EINVAL;
}

void traces__tick(struct traces *t)
{
	if (++t->tick_cnt % TICKS || t->is_stopped || !t->is_cancelled(t->ctx))
		return;
	t->is_stopped = true;
	reader__stop(t->reading);
}

/* A FIFO in its place would be waited for. */
static bool is_regular(const char *path)
{
	struct stat st;

	return stat(path, &st) || S_ISREG(st.st_mode);
}

int traces__read(struct traces *t, int file, const struct reader_ops *ops, void *ctx,
		 struct reader **reader, struct saved_file *files, struct answer *a)
{
	const char *const *paths = t->o->files + (file < 0 ? 0 : file);
	unsigned cnt = file < 0 ? t->o->file_cnt : 1;
	int ret = -ENOMEM;

	for (unsigned i = 0; i < cnt; i++) {
		if (is_regular(paths[i]))
			continue;
		*reader = NULL;
		answer__fail(a, "%s is no longer a regular file", paths[i]);
		return -EINVAL;
	}

	t->reading = *reader = reader__new(ops, ctx);
	t->is_stopped = false;
	if (t->reading)
		ret = reader__files(t->reading, paths, cnt, files);
	if (ret && !t->is_stopped)
		answer__fail(a,
			     ret == -ENOMEM ? "out of memory: close other programs"
					    : "%s cannot be read: stderr of the server has the "
					      "reason",
			     paths[0]);
	return t->is_stopped ? -ECANCELED : ret;
}

/* --- the report --- */

static int on_begin(void *ctx, const char *path, const struct trace_info *info)
{
	struct traces *t = ctx;
	struct report_opts ro = t->o->report;

	t->trace_cnt++;
	if (!t->report) {
		ro.changes = t->changes;
		ro.change_cnt = t->change_cnt;
		t->report = report__new(&ro, info);
	}
	if (!t->report)
		return -ENOMEM;
	report__also(t->report, path, info);
	return 0;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	struct traces *t = ctx;

	if (t->report)
		report__event(t->report, ev);
	traces__tick(t);
}

static void on_end(void *ctx, const struct trace_info *info, const struct trace_end *end)
{
	struct traces *t = ctx;

	if (t->report)
		report__ended(t->report, info, end);
	end_sum__add(&t->ends, end, t->report ? t->report->base_ns : UINT64_MAX);
}

static bool is_made(const struct traces *t, int file, const struct step_change *changes,
		    unsigned change_cnt)
{
	if (!t->report || t->file != file || t->change_cnt != change_cnt)
		return false;
	for (unsigned i = 0; i < change_cnt; i++)
		if (strcmp(t->changes[i].text, changes[i].text))
			return false;
	return true;
}

int traces__report(struct traces *t, int file, const struct step_change *changes,
		   unsigned change_cnt, struct answer *a)
{
	static const struct reader_ops ops = {.begin = on_begin, .event = on_event, .end = on_end};
	unsigned cnt = file < 0 ? t->o->file_cnt : 1;
	int ret = -ENOMEM;

	if (is_made(t, file, changes, change_cnt))
		return 0;
	traces__drop(t);
	t->file = file;
	t->change_cnt = change_cnt;
	for (unsigned i = 0; i < change_cnt; i++)
		t->changes[i] = changes[i];
	t->files = calloc(cnt, sizeof(*t->files));
	if (t->files)
		ret = traces__read(t, file, &ops, t, &t->reader, t->files, a);
	if (!ret && !t->report)
		ret = -EINVAL;
	if (ret) {
		if (ret != -ECANCELED && !a->is_error)
			answer__fail(a, "the files cannot be read: stderr of the server has the "
					"reason");
		traces__drop(t);
		return ret;
	}
	report__finish(t->report, t->ends.cnt == t->trace_cnt ? &t->ends.end : NULL, t->files, cnt);
	return 0;
}
