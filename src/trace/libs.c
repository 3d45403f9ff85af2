/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "libs_priv.h"
#include "tracer.h"

#include "attach/allow/caps.h"
#include "attach/guard.h"

#include "util/clock.h"
#include "util/heartbeat.h"
#include "util/log.h"
#include "util/task.h"
#include "util/time_budget.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Interval and time limit of retries for a mapping. */
#define AGAIN_NS     50000000ull
#define AGAIN_MAX_NS SEC_NS
/* A mapping waits this long for its user's time budget (util/time_budget.h). */
#define WAIT_MAX_NS (60 * SEC_NS)
/* Limit of one user's pending mappings. */
#define PENDING_SHARE 128

#define HANGS	 "its file, or its process, did not respond"
#define REFUSED	 "its process cannot be inspected"
#define TOO_MANY "too many libraries"
#define WRITTEN	 "it is being written to"

/* Functions of a library that a process maps have no probe: their calls are missing. */
static void report_ifuncs(struct libs *l, struct trace_event *ev, const char *ifuncs)
{
	if (!ifuncs[0])
		return;
	ev->op = "failed";
	ev->library.note = ifuncs;
	l->fn(l->ctx, ev);
}

void libs_event(struct libs *l, const char *op, const struct ct_lib_map *rec,
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
				.note = note,
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
	if (rec && !lib)
		dbg("process %u (%s): %.64s is not traced: %s", ev.pid, comm, rec->name, note);
	if (rec && lib && l->arbiter)
		arbiter__maps(l->arbiter, ev.pid, comm, lib);
	l->fn(l->ctx, &ev);
	if (rec && lib && strcmp(op, "detached") != 0)
		report_ifuncs(l, &ev, lib->ifuncs);
}

/* Logs one line: what was attached, and the time taken. */
static void log_attached(const struct attach_lib *lib)
{
	if (lib->ignored)
		return;
	dbg("%s: %u of %u functions attached in %.1f ms%s", lib->path, lib->attached_cnt,
	    lib->wanted_cnt, lib->attach_ns / 1e6,
	    lib->shifted_cnt ? ", behind the entry check of older drivers" : "");
}

static bool is_hanging(int ret)
{
	return ret == -ETIMEDOUT || ret == -EBUSY || ret == -EAGAIN;
}

const struct attach_lib *libs_attach_one(struct libs *l, const struct target_lib *t,
					 struct lib_state *f)
{
	unsigned before = attach__newest_lib(l->att);
	const struct attach_lib *lib = NULL;
	struct work w;
	int ret;

	if (!fnset__wants_api(l->fns, t->api))
		return NULL;
	/* Otherwise the caller has begun the work already, for the user of the process. */
	if (time_budget__begin(&w, 0, WORK_LIBRARIES))
		return NULL;
	ret = attach__lib(l->att, t, &lib);
	time_budget__end(&w);
	f->missing |= ret == -ENOENT;
	f->late |= ret == -EINPROGRESS;
	f->hangs |= is_hanging(ret);
	if (ret && ret != -ENOENT && ret != -EINPROGRESS && !is_hanging(ret))
		f->error = ret;
	if (ret)
		return NULL;
	if (attach__newest_lib(l->att) > before)
		log_attached(lib);
	return lib->ignored ? NULL : lib;
}

static bool has_file(const struct target_libs *list, const struct ct_lib_map *rec)
{
	for (unsigned i = 0; i < list->cnt; i++) {
		const char *base = strrchr(list->libs[i].path, '/');

		if (list->libs[i].key.ino == rec->ino || (base && !strcmp(base + 1, rec->name)))
			return true;
	}
	return false;
}

/* Finds the file that the process maps or is about to map, among any number of others. The order
 * matters: a file that is closed in between is mapped by then. */
static int find_file(struct target_libs *list, const struct ct_lib_map *rec)
{
	const struct ct_lib_key key = {rec->ino, rec->dev_major, rec->dev_minor};
	int ret;

	if (!target_exists(rec->rec.pid))
		return -ESRCH;
	ret = target_libs__add_open(list, rec->rec.pid, rec->fd, rec->name);
	if (is_hanging(ret) || has_file(list, rec))
		return ret;
	ret = target_libs__add_mapped(list, rec->rec.pid, &key, rec->name);
	return ret && !task_living(rec->rec.pid) ? -ESRCH : ret;
}

/* Warns once; the trace contains each. */
static void report_refused(uint32_t pid, const char *comm)
{
	static bool said;

	if (!said)
		warn("cannot inspect process %u (%.16s), its CUDA calls are not traced: %s", pid,
		     comm, caps__why_refused());
	said = true;
}

/* The library that the process maps has no probes. */
static void report_failed(struct libs *l, const struct ct_lib_map *rec, int error)
{
	const char *why = strerror(-error);

	if (error == -EACCES) {
		report_refused(rec->rec.pid, rec->comm);
		why = REFUSED;
	} else if (error == -ETXTBSY) {
		why = WRITTEN;
	} else if (error == -ENOEXEC) {
		why = "its file is damaged, or not such a library";
	} else if (error == -ENOSPC) {
		why = TOO_MANY;
	}
	libs_event(l, "failed", rec, NULL, why);
}

/* Attaches new libraries of the process. false: one of them was not found at this moment. */
static bool attach_found(struct libs *l, const struct ct_lib_map *rec,
			 const struct target_libs *list, bool *hangs)
{
	struct ct_lib_key key = {rec->ino, rec->dev_major, rec->dev_minor};
	const struct attach_lib *lib, *known = NULL;
	struct lib_state f = {0};
	bool found = false;

	for (unsigned i = 0; i < list->cnt; i++) {
		unsigned before = attach__newest_lib(l->att);

		lib = libs_attach_one(l, &list->libs[i], &f);
		attach__mapped(l->att, &list->libs[i].key, rec->rec.ts_ns);
		if (!lib)
			continue;
		if (attach__newest_lib(l->att) == before) {
			known = lib;
			continue;
		}
		found = true;
		attach__know(l->att, &key, lib->id, rec->rec.pid);
		libs_event(l, "attached", rec, lib,
			   rec->rec.flags & CT_LIB_F_STOPPED
				   ? NULL
				   : "calls before duration_us had passed were not recorded");
	}
	*hangs |= f.hangs;
	/* A process may have several: the new one is preferred. */
	if (!found && f.error) {
		report_failed(l, rec, f.error);
		if (f.error == -ENOSPC)
			refused_libs__add(&l->refused, &key, rec->uid, now_ns());
		return true;
	}
	if (f.late)
		return true;
	if (found || f.missing || !known)
		return found;
	attach__know(l->att, &key, known->id, rec->rec.pid);
	libs_event(l, "mapped", rec, known, NULL);
	return true;
}

enum scan_result { LOOK_DONE /* or never will be */, LOOK_AGAIN, LOOK_NO_TIME };

/* hangs: its filesystem or its process does not respond. */
static enum scan_result look_at_file(struct libs *l, const struct ct_lib_map *rec, bool *hangs)
{
	bool found = false;

	*hangs = false;
	/* A file that was closed between the check and the open is mapped by now. */
	for (int i = 0; i < 2 && !found; i++) {
		struct target_libs list = {0};
		int ret = find_file(&list, rec);

		*hangs |= is_hanging(ret);
		if (ret == -ESRCH) {
			target_libs__clear(&list);
			libs_event(l, "failed", rec, NULL,
				   "the process ended before it could be traced");
			return LOOK_DONE;
		}
		if (ret == -EACCES || ret == -EPERM) {
			target_libs__clear(&list);
			report_failed(l, rec, -EACCES);
			return LOOK_DONE;
		}
		found = attach_found(l, rec, &list, hangs);
		target_libs__clear(&list);
	}
	return found ? LOOK_DONE : LOOK_AGAIN;
}

static enum scan_result attach_mapped(struct libs *l, const struct ct_lib_map *rec, bool *hangs)
{
	struct ct_lib_key key = {rec->ino, rec->dev_major, rec->dev_minor};
	const struct attach_lib *lib = attach__lib_by_key(l->att, &key);
	enum scan_result ret;
	struct work w;

	if (lib) {
		l->written |= attach__is_written(l->att, lib);
		attach__mapped(l->att, &lib->key, rec->rec.ts_ns);
		if (lib->error && lib->error != -EINPROGRESS)
			report_failed(l, rec, lib->error);
		else if (!lib->ignored)
			libs_event(l, "mapped", rec, lib, NULL);
		return LOOK_DONE;
	}
	if (refused_libs__has(&l->refused, &key, now_ns())) {
		libs_event(l, "failed", rec, NULL, TOO_MANY);
		return LOOK_DONE;
	}
	if (time_budget__begin(&w, rec->uid, WORK_LIBRARIES))
		return LOOK_NO_TIME;
	ret = look_at_file(l, rec, hangs);
	time_budget__end(&w);
	return ret;
}

static void give_up(struct libs *l, const struct ct_lib_map *rec, bool hangs)
{
	if (hangs)
		libs_event(l, "failed", rec, NULL, HANGS);
	else
		dbg("process %u closed %.64s before it was mapped", rec->rec.pid, rec->name);
}

static void go_on(struct libs *l, const struct ct_lib_map *rec)
{
	if (!(rec->rec.flags & CT_LIB_F_STOPPED))
		return;
	if (heartbeat__has_acted())
		libs_event(l, "detached", rec, NULL,
			   "the tracer did not run, so the process was continued before its probes "
			   "were attached: its first calls are not traced");
	attach__go_on(l->att, rec->rec.pid);
	stops__note(&l->stops, rec->rec.pid, now_ns());
}

static void on_missed(void *ctx, const struct attach_lib *lib)
{
	char changed[128];

	snprintf(
		changed, sizeof(changed),
		"process %d has changed code or runs under valgrind: some functions are not traced",
		(int)lib->changed_by);
	libs_event(ctx, "detached", NULL, lib,
		   lib->changed_by
			   ? changed
			   : "its probes are not attached yet: calls until then are not traced");
}

void libs_put_off(struct libs *l, const struct ct_lib_map *rec)
{
	unsigned mine = 0;

	for (unsigned i = 0; i < l->pending_cnt; i++)
		mine += l->pending[i].rec.uid == rec->uid;
	if (mine >= PENDING_SHARE || l->pending_cnt >= LIBS_MAX_PENDING) {
		libs_event(l, "failed", rec, NULL, "too many libraries at once");
		return;
	}
	l->pending[l->pending_cnt] = (struct pending_lib){.rec = *rec};
	l->pending[l->pending_cnt++].rec.rec.flags &= ~CT_LIB_F_STOPPED;
}

void libs__on_map(struct libs *l, const struct ct_lib_map *rec)
{
	enum scan_result looked;
	bool hangs;

	if (rec->rec.flags & CT_LIB_F_COMPAT) {
		warn("process %u (%.16s) is a 32-bit program: its CUDA calls cannot be traced",
		     rec->rec.pid, rec->comm);
		libs_event(l, "failed", rec, NULL, "32-bit program");
		return;
	}
	if (rec->rec.flags & CT_LIB_F_RUNS)
		libs_event(
			l, "detached", rec, NULL,
			"its first calls are not traced: stopping it would stop its parent, too");
	looked = attach_mapped(l, rec, &hangs);
	/* A record may be read after the last tick. */
	attach__missed(l->att, on_missed, l);
	if (looked != LOOK_DONE)
		libs_put_off(l, rec);
	go_on(l, rec);
}

/* Returns whether the entry is finished. */
static bool look_again(struct libs *l, struct pending_lib *p, uint64_t now)
{
	bool hangs;

	if (now > p->rec.rec.ts_ns + WAIT_MAX_NS) {
		libs_event(l, "failed", &p->rec, NULL,
			   "its user's processes have taken too much of the tracer's time");
		return true;
	}
	if (now < p->next_ns || !time_budget__may(p->rec.uid))
		return false;
	switch (attach_mapped(l, &p->rec, &hangs)) {
	case LOOK_DONE:
		return true;
	case LOOK_NO_TIME:
		return false;
	default:
		if (!p->end_ns)
			p->end_ns = now + AGAIN_MAX_NS;
		p->next_ns = now + AGAIN_NS;
		if (now < p->end_ns)
			return false;
		give_up(l, &p->rec, hangs);
		return true;
	}
}

bool libs__on_inject(struct libs *l, const struct inject_lib *lib)
{
	char note[128];
	struct trace_event ev = {
		.kind = EVENT_LIBRARY,
		.type = TYPE_LIBRARY,
		.op = "attached",
		.name = api_lib_name(lib->api),
		.comm = lib->comm,
		.pid = lib->pid,
		.tid = lib->pid,
		.library = {.path = lib->path, .build_id = lib->build_id},
		.lib_id = lib->id,
		.start_ns = lib->since_ns,
		.end_ns = now_ns(),
	};

	if (!lib->ifuncs[0] && lib->hooked_cnt < lib->wanted_cnt) {
		snprintf(note, sizeof(note), "%u of %u functions %s",
			 lib->wanted_cnt - lib->hooked_cnt, lib->wanted_cnt,
			 l->arbiter ? "are traced by uprobes" : "cannot be traced in-process");
		ev.library.note = note;
	}
	if (l->arbiter && !arbiter__inproc(l->arbiter, lib))
		return false;
	l->fn(l->ctx, &ev);
	if (!l->arbiter)
		report_ifuncs(l, &ev, lib->ifuncs);
	return true;
}

void libs__on_missed(struct libs *l, const struct inject_lib *lib, int why)
{
	struct trace_event ev = {
		.kind = EVENT_LIBRARY,
		.type = TYPE_LIBRARY,
		.op = "failed",
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
		report_refused(lib->pid, lib->comm);
	}
	l->fn(l->ctx, &ev);
}

static void on_late(void *ctx, const struct attach_lib *lib)
{
	struct libs *l = ctx;

	log_attached(lib);
	info("%s is traced now", lib->path);
	libs_event(l, "attached", NULL, lib, "late: the kernel waited for a lock");
}

static void on_again(void *ctx, const struct attach_lib *lib)
{
	struct libs *l = ctx;

	info("%s is traced completely now: no process has changed its code any more", lib->path);
	libs_event(l, "attached", NULL, lib, "late: a process had changed its code");
}

void libs__look_again(struct libs *l, uint64_t now)
{
	attach__look_again(l->att, now, true, on_again, l);
}

bool libs__tick(struct libs *l, uint64_t now, bool drained)
{
	unsigned left = 0;

	if (l->arbiter)
		arbiter__tick(l->arbiter, now, drained);
	/* Oldest first. */
	for (unsigned i = 0; i < l->pending_cnt; i++) {
		if (look_again(l, &l->pending[i], now))
			continue;
		l->pending[left++] = l->pending[i];
	}
	l->pending_cnt = left;
	stops__tick(&l->stops, now);
	libs_look_at_later(l, now);
	attach__look_again(l->att, now, false, on_again, l);
	attach__missed(l->att, on_missed, l);
	if (attach__late(l->att, on_late, l))
		return true;
	err("cudatrace-links has ended, and all probes with it: start cudatrace again");
	return false;
}

static void on_write(void *ctx, const struct attach_lib *lib, bool on)
{
	if (on)
		log_attached(lib);
	libs_event(ctx, on ? "attached" : "detached", NULL, lib,
		   on ? "its contents have changed" : WRITTEN);
}

void libs__follow_writes(struct libs *l)
{
	l->written = false;
	attach__follow_writes(l->att, on_write, l);
}

bool libs__is_waiting(const struct libs *l)
{
	return l->pending_cnt || l->later_cnt || l->written || attach__off_cnt(l->att) ||
	       attach__is_late(l->att);
}
