/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Library files that exist before anything is traced. */
#include "libs_priv.h"
#include "targets.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/reader.h"
#include "util/task.h"
#include "util/time_budget.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time limit for processes whose inspection was postponed. */
#define LATER_MAX_NS (300 * SEC_NS)

/* Its failure is reported when the outputs are open. */
static void look_again_later(struct libs *l, const struct target_lib *t)
{
	const char *base = strrchr(t->path, '/');
	struct ct_lib_map rec = {
		.rec = {.pid = t->pid, .tid = t->pid, .ts_ns = now_ns()},
		.ino = t->key.ino,
		.dev_major = t->key.dev_major,
		.dev_minor = t->key.dev_minor,
		.fd = -1,
		.uid = reader__user(t->pid),
	};

	task_read(t->pid, t->pid, "comm", rec.comm, sizeof(rec.comm));
	rec.comm[strcspn(rec.comm, "\n")] = '\0';
	snprintf(rec.name, sizeof(rec.name), "%s", base ? base + 1 : t->path);
	libs_put_off(l, &rec);
}

/*
 * Returns the number of real drivers that were or will be attached: without one there is nothing to
 * trace yet. If no process maps a file, it is attached only if it is a libcuda. Programs usually
 * bring their own copy of other libraries, which is attached when it is loaded.
 */
static unsigned attach_from(struct libs *l, const struct target_libs *list, unsigned from,
			    bool mapped)
{
	unsigned cnt = 0;

	for (unsigned i = from; i < list->cnt; i++) {
		const struct target_lib *t = &list->libs[i];
		const struct attach_lib *lib;
		struct lib_state f = {0};

		if (t->api->id != API_CUDA && !(mapped && t->pid))
			continue;
		lib = libs_attach_one(l, t, &f);
		if (mapped && t->pid)
			attach__mapped(l->att, &t->key, 0);
		if (mapped && t->pid && (f.error || (lib && lib->ifuncs[0])))
			look_again_later(l, t);
		if (t->api->id == API_CUDA)
			cnt += lib || f.late || f.error == -ETXTBSY;
	}
	return cnt;
}

static unsigned attach_list(struct libs *l, const struct target_libs *list, bool mapped)
{
	return attach_from(l, list, 0, mapped);
}

/* Inspects one process of -p. Negative: it cannot be traced. */
static int attach_pid(struct libs *l, pid_t pid)
{
	struct target_libs list = {0};
	unsigned cnt = 0;
	int ret;

	ret = target_libs__add_pid(&list, pid);
	if (!ret)
		cnt = attach_list(l, &list, true);
	target_libs__clear(&list);
	if (ret == -ESRCH || !task_living(pid)) {
		err("process %d ended while attaching: start it as a command instead: cudatrace -- "
		    "COMMAND",
		    pid);
		return -ESRCH;
	}
	if (ret) {
		targets__report_refused(pid, ret);
		return ret;
	}
	if (cnt)
		return 0;
	if (!l->wait) {
		err("process %d has not loaded libcuda: leave out --no-wait to wait for it", pid);
		return -ENOENT;
	}
	/* Its first calls come before a mapped file could be attached. */
	target_libs__add_loadable(&list, pid);
	attach_list(l, &list, false);
	target_libs__clear(&list);
	info("process %d has not loaded libcuda yet: waiting for it", pid);
	return 0;
}

int libs__attach_pids(struct libs *l, const pid_t *pids, unsigned cnt)
{
	int ret = 0;

	for (unsigned i = 0; i < cnt && !ret; i++)
		ret = attach_pid(l, pids[i]);
	return ret;
}

/* Includes drivers that are known and ignored. */
static bool has_driver(const struct libs *l)
{
	for (unsigned i = 0; i < attach__lib_cnt(l->att); i++)
		if (attach__lib_at(l->att, i)->api->id == API_CUDA)
			return true;
	return false;
}

/* Attaches new libraries of the process. false: there is no time for it now. */
static bool attach_process(struct libs *l, pid_t pid, struct target_libs *list, unsigned *cnt)
{
	unsigned before = list->cnt;
	struct work w;

	if (!time_budget__may(reader__user(pid)) ||
	    time_budget__begin(&w, reader__user(pid), WORK_LIBRARIES))
		return false;
	target_libs__add_pid(list, pid);
	*cnt += attach_from(l, list, before, true);
	time_budget__end(&w);
	return true;
}

struct scan_ctx {
	struct libs *l;
	struct target_libs *list;
	unsigned cnt;
};

/* A user may have started many processes that are slow to inspect before the daemon started. */
static bool look_at_running(void *ctx, pid_t pid)
{
	struct scan_ctx *r = ctx;
	struct libs *l = r->l;
	pid_t *later;

	time_budget__turn();
	if (attach_process(l, pid, r->list, &r->cnt) || l->later_cnt == LIBS_MAX_LATER)
		return true;
	later = reallocarray(l->later, l->later_cnt + 1, sizeof(*later));
	if (!later)
		return true;
	l->later = later;
	l->later[l->later_cnt++] = pid;
	return true;
}

void libs_look_at_later(struct libs *l, uint64_t now)
{
	unsigned before, left = 0, cnt = 0;

	if (!l->later_cnt)
		return;
	before = attach__newest_lib(l->att);
	if (!l->later_end_ns)
		l->later_end_ns = now + LATER_MAX_NS;
	for (unsigned i = 0; i < l->later_cnt && now < l->later_end_ns; i++) {
		struct target_libs list = {0};

		if (target_exists(l->later[i]) && !attach_process(l, l->later[i], &list, &cnt))
			l->later[left++] = l->later[i];
		target_libs__clear(&list);
	}
	l->later_cnt = left;
	for (unsigned i = 0; i < attach__lib_cnt(l->att); i++) {
		const struct attach_lib *lib = attach__lib_at(l->att, i);

		if (lib->id > before && !lib->ignored)
			libs_event(l, "attached", NULL, lib,
				   "late: its user's processes are slow to inspect");
	}
}

int libs__attach_system(struct libs *l, bool running)
{
	struct target_libs list = {0};
	struct scan_ctx r = {.l = l, .list = &list};
	unsigned cnt;

	if (running)
		target_each(look_at_running, &r);
	time_budget__turn();
	cnt = list.cnt;
	target_libs__add_system(&list);
	cnt = r.cnt + attach_from(l, &list, cnt, true);
	target_libs__clear(&list);
	if (!running || cnt || has_driver(l))
		return 0;
	if (!l->wait) {
		err("no process has loaded libcuda, and none is installed: leave out --no-wait to "
		    "wait for one");
		return -ENOENT;
	}
	info("no libcuda found yet: waiting for a process that loads one");
	return 0;
}

int libs__attach_file(struct libs *l, const char *path)
{
	struct target_libs list = {0};
	int ret = target_libs__add_file(&list, path);

	if (!ret && !attach_list(l, &list, true)) {
		const struct attach_lib *lib = attach__lib_at(l->att, 0);

		if (lib && lib->ignored)
			err("%s is a stub for linking, not a driver; give the path of the driver's "
			    "libcuda.so.1",
			    path);
		ret = -ENOEXEC;
	}
	target_libs__clear(&list);
	return ret;
}
