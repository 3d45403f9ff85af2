/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "targets.h"
#include "tracer.h"

#include "attach/allow/caps.h"
#include "attach/guard.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often a mapping is looked at again: the timer fires every 50 ms under load. */
#define MAX_TRIES 20

#define HANGS	"its file, or its process, did not answer"
#define REFUSED "its process may not be looked into"

static void lib_event(struct libs *l, const char *op, const struct ct_lib_map *rec,
		      const struct attach_lib *lib, const char *note)
{
	char comm[sizeof(rec->comm) + 1] = {0};
	const struct api *api = lib ? lib->api : api_of_file(rec->name);
	struct trace_event ev = {
		.kind = EVENT_LIBRARY,
		.type = TYPE_LIBRARY,
		.op = op,
		.name = api_lib_name(api ? api : api_at(API_CUDA)),
		.comm = comm,
		.library =
			{
				.path = lib   ? lib->path
					: rec ? rec->name
					      : NULL,
				.build_id = lib ? lib->build_id : NULL,
				.note = note
						?: lib && lib->ifuncs[0] ? lib->ifuncs
									 : NULL,
			},
		.lib_id = lib ? lib->id : 0,
		.start_ns = rec ? rec->rec.ts_ns : now_ns(),
		.end_ns = now_ns(),
	};

	if (rec) {
		memcpy(comm, rec->comm, sizeof(rec->comm));
		ev.pid = rec->rec.pid;
		ev.tid = rec->rec.tid;
	}
	if (rec && lib && l->both)
		both__maps(l->both, ev.pid, comm, lib);
	l->fn(l->ctx, &ev);
}

/* One line for people: what was attached and what it took. */
static void tell(const struct attach_lib *lib)
{
	if (lib->ignored)
		return;
	dbg("%s: %u of %u functions attached in %.1f ms%s", lib->path, lib->attached_cnt,
	    lib->wanted_cnt, lib->attach_ns / 1e6,
	    lib->shifted_cnt ? ", behind the entry check of older drivers" : "");
}

/* What came of looking at files. */
struct found {
	bool gone;     /* there is no such file at that path any more */
	bool too_many; /* it is left out */
	bool busy;     /* somebody writes to it */
	bool late;     /* libs__tick() will say more */
	bool hangs;    /* what it lies on, or its process, does not answer */
};

static bool is_hanging(int ret)
{
	return ret == -ETIMEDOUT || ret == -EBUSY;
}

static const struct attach_lib *attach_one(struct libs *l, const struct target_lib *t,
					   struct found *f)
{
	unsigned before = attach__newest_lib(l->att);
	const struct attach_lib *lib = NULL;
	int ret;

	if (!fnset__wants_api(l->fns, t->api))
		return NULL;
	ret = attach__lib(l->att, t, &lib);
	f->gone |= ret == -ENOENT;
	f->too_many |= ret == -ENOSPC;
	f->busy |= ret == -ETXTBSY;
	f->late |= ret == -EINPROGRESS;
	f->hangs |= is_hanging(ret);
	if (ret)
		return NULL;
	if (attach__newest_lib(l->att) > before)
		tell(lib);
	return lib->ignored ? NULL : lib;
}

/*
 * Returns how many real drivers were attached, or will be: without one there is nothing to trace
 * yet. Of files that nobody maps yet only libcuda's are attached to: what uses another family
 * brings a copy of its own as a rule, and has it attached to when it is loaded.
 */
static unsigned attach_list(struct libs *l, const struct target_libs *list, bool mapped)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < list->cnt; i++) {
		const struct target_lib *t = &list->libs[i];
		const struct attach_lib *lib;
		struct found f = {0};

		if (t->api->id != API_CUDA && !(mapped && t->pid))
			continue;
		lib = attach_one(l, t, &f);
		if (t->api->id == API_CUDA)
			cnt += lib || f.late || f.busy;
	}
	return cnt;
}

/* Looks at one process of -p. Negative: it cannot be traced. */
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
		targets__say_refused(pid, ret);
		return ret;
	}
	if (cnt)
		return 0;
	if (!l->wait) {
		err("process %d has not loaded libcuda: leave out --no-wait to wait for it", pid);
		return -ENOENT;
	}
	/* Its first calls come sooner than we could attach to what it maps. */
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

/* Also one that is known and ignored. */
static bool has_driver(const struct libs *l)
{
	for (unsigned i = 0; i < attach__lib_cnt(l->att); i++)
		if (attach__lib_at(l->att, i)->api->id == API_CUDA)
			return true;
	return false;
}

int libs__attach_system(struct libs *l, bool running)
{
	struct target_libs list = {0};
	unsigned cnt = 0;

	if (running)
		target_libs__add_all(&list);
	target_libs__add_system(&list);
	cnt = attach_list(l, &list, true);
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

/* What the process is about to map or maps. In this order: a file that it has closed by now is
 * mapped, and would be in neither the other way round. */
static int find_libs(struct target_libs *list, pid_t pid)
{
	int ret = target_libs__add_open(list, pid);

	ret = ret ?: target_libs__add_pid(list, pid);
	return ret && !task_living(pid) ? -ESRCH : ret;
}

/* Attaches what is new of the process's libraries. false: one of them is nowhere at this moment. */
static bool attach_found(struct libs *l, const struct ct_lib_map *rec,
			 const struct target_libs *list, bool *hangs)
{
	struct ct_lib_key key = {rec->ino, rec->dev_major, rec->dev_minor};
	const struct attach_lib *lib, *known = NULL;
	struct found f = {0};
	bool found = false;

	for (unsigned i = 0; i < list->cnt; i++) {
		unsigned before = attach__newest_lib(l->att);

		lib = attach_one(l, &list->libs[i], &f);
		if (!lib)
			continue;
		if (attach__newest_lib(l->att) == before) {
			known = lib;
			continue;
		}
		found = true;
		attach__know(l->att, &key, lib->id, rec->rec.pid);
		lib_event(l, "attach", rec, lib,
			  rec->rec.flags & CT_LIB_F_STOPPED
				  ? NULL
				  : "calls made before duration_us had passed were not seen");
	}
	*hangs |= f.hangs;
	/* A process may have several: the one that is new is meant, if there is one. */
	if (!found && (f.too_many || f.busy)) {
		lib_event(l, "missed", rec, NULL,
			  f.busy ? "it is being written to" : "too many libraries");
		return true;
	}
	if (f.late)
		return true;
	if (found || f.gone || !known)
		return found;
	attach__know(l->att, &key, known->id, rec->rec.pid);
	lib_event(l, "map", rec, known, NULL);
	return true;
}

/* Once for people; the trace has each. */
static void say_refused(uint32_t pid, const char *comm)
{
	static bool said;

	if (!said)
		warn("cannot look into process %u (%.16s), whose CUDA calls are not traced: %s",
		     pid, comm, caps__why_refused());
	said = true;
}

/* true: done, or never will be. hangs: else, why not. */
static bool attach_mapped(struct libs *l, const struct ct_lib_map *rec, bool *hangs)
{
	struct ct_lib_key key = {rec->ino, rec->dev_major, rec->dev_minor};
	const struct attach_lib *lib = attach__lib_by_key(l->att, &key);
	bool found = false;

	if (lib) {
		l->written |= attach__is_written(l->att, lib);
		if (!lib->ignored)
			lib_event(l, "map", rec, lib, NULL);
		return true;
	}
	*hangs = false;
	/* What it has closed between our looking and our opening is mapped by now. */
	for (int i = 0; i < 2 && !found; i++) {
		struct target_libs list = {0};
		int ret = find_libs(&list, rec->rec.pid);

		*hangs |= is_hanging(ret);
		if (ret == -ESRCH) {
			target_libs__clear(&list);
			lib_event(l, "missed", rec, NULL,
				  "the process ended before it could be traced");
			return true;
		}
		if (ret == -EACCES || ret == -EPERM) {
			target_libs__clear(&list);
			say_refused(rec->rec.pid, rec->comm);
			lib_event(l, "missed", rec, NULL, REFUSED);
			return true;
		}
		found = attach_found(l, rec, &list, hangs);
		target_libs__clear(&list);
	}
	return found;
}

static void give_up(struct libs *l, const struct ct_lib_map *rec, bool hangs)
{
	if (hangs)
		lib_event(l, "missed", rec, NULL, HANGS);
	else
		dbg("process %u closed %.64s before it was mapped", rec->rec.pid, rec->name);
}

static void go_on(struct libs *l, const struct ct_lib_map *rec)
{
	if (rec->rec.flags & CT_LIB_F_STOPPED)
		attach__go_on(l->att, rec->rec.pid);
}

void libs__on_map(struct libs *l, const struct ct_lib_map *rec)
{
	struct pending_lib *p;
	unsigned mine = 0;
	bool hangs;

	if (rec->rec.flags & CT_LIB_F_COMPAT) {
		warn("process %u (%.16s) is a 32-bit program: its CUDA calls cannot be traced",
		     rec->rec.pid, rec->comm);
		lib_event(l, "missed", rec, NULL, "32-bit program");
		return;
	}
	if (attach_mapped(l, rec, &hangs)) {
		go_on(l, rec);
		return;
	}
	if (rec->rec.flags & CT_LIB_F_STOPPED) {
		give_up(l, rec, hangs);
		go_on(l, rec);
		return;
	}
	for (unsigned i = 0; i < l->pending_cnt; i++)
		mine += l->pending[i].rec.rec.pid == rec->rec.pid;
	/* Nobody has more of them than he leaves over. */
	if (mine + l->pending_cnt >= LIBS_MAX_PENDING) {
		lib_event(l, "missed", rec, NULL, "too many libraries at once");
		return;
	}
	p = &l->pending[l->pending_cnt++];
	p->rec = *rec;
	p->tries = 0;
}

bool libs__on_inject(struct libs *l, const struct inject_lib *lib)
{
	char note[128];
	struct trace_event ev = {
		.kind = EVENT_LIBRARY,
		.type = TYPE_LIBRARY,
		.op = "attach",
		.name = api_lib_name(lib->api),
		.comm = lib->comm,
		.pid = lib->pid,
		.tid = lib->pid,
		.library = {.path = lib->path, .build_id = lib->build_id},
		.lib_id = lib->id,
		.start_ns = lib->since_ns,
		.end_ns = now_ns(),
	};

	if (lib->ifuncs[0])
		ev.library.note = lib->ifuncs;
	else if (lib->hooked_cnt < lib->wanted_cnt) {
		snprintf(note, sizeof(note), "%u of %u functions %s",
			 lib->wanted_cnt - lib->hooked_cnt, lib->wanted_cnt,
			 l->both ? "are seen by uprobes" : "cannot be seen from inside");
		ev.library.note = note;
	}
	if (l->both && !both__inside(l->both, lib))
		return false;
	l->fn(l->ctx, &ev);
	return true;
}

void libs__on_missed(struct libs *l, const struct inject_lib *lib, int why)
{
	struct trace_event ev = {
		.kind = EVENT_LIBRARY,
		.type = TYPE_LIBRARY,
		.op = "missed",
		.name = api_lib_name(lib->api),
		.comm = lib->comm,
		.pid = lib->pid,
		.tid = lib->pid,
		.library = {.path = lib->path, .note = strerror(-why)},
		.start_ns = lib->since_ns,
		.end_ns = now_ns(),
	};

	if (is_hanging(why))
		ev.library.note = HANGS;
	if (why == -EACCES || why == -EPERM) {
		ev.library.note = REFUSED;
		say_refused(lib->pid, lib->comm);
	}
	l->fn(l->ctx, &ev);
}

static void on_late(void *ctx, const struct attach_lib *lib)
{
	struct libs *l = ctx;

	tell(lib);
	info("%s has its probes now", lib->path);
	lib_event(l, "attach", NULL, lib,
		  "late: the kernel waited for a lock; calls made before were not seen");
}

bool libs__tick(struct libs *l, uint64_t now, bool drained)
{
	if (l->both)
		both__tick(l->both, now, drained);
	for (unsigned i = l->pending_cnt; i-- > 0;) {
		struct pending_lib *p = &l->pending[i];
		bool hangs;

		if (!attach_mapped(l, &p->rec, &hangs) && ++p->tries < MAX_TRIES)
			continue;
		if (p->tries == MAX_TRIES)
			give_up(l, &p->rec, hangs);
		l->pending[i] = l->pending[--l->pending_cnt];
	}
	if (attach__late(l->att, on_late, l))
		return true;
	err("somebody has ended cudatrace-links, and with it all probes: start cudatrace anew");
	return false;
}

static void on_write(void *ctx, const struct attach_lib *lib, bool on)
{
	if (on)
		tell(lib);
	lib_event(ctx, on ? "attach" : "detach", NULL, lib,
		  on ? "its contents are new" : "it is being written to");
}

void libs__follow_writes(struct libs *l)
{
	l->written = false;
	attach__follow_writes(l->att, on_write, l);
}

bool libs__is_waiting(const struct libs *l)
{
	return l->pending_cnt || l->written || attach__off_cnt(l->att) || attach__is_late(l->att);
}
