/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Library files that are written in place: see watch.h. */
#include "attach_priv.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/time_budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Limits attaching when a file is opened for writing again and again. From the fourth time on we
 * wait, twice as long each time, up to a minute. */
#define WRITES_FREE 3
#define WAIT_MAX_NS (64 * SEC_NS)
#define CALM_NS	    (600 * SEC_NS)

static void set_off(struct attach *a, struct lib_entry *e, bool off)
{
	a->off_cnt += off - e->off;
	e->off = off;
}

/* Where writes are noticed only afterwards, other users must not be able to write at all. They
 * could crash every program that loads the file, only because it is traced. */
static int refuse(const struct attach *a, const struct lib_entry *e)
{
	if (a->force || !file_watch__is_open_to_others(&e->watch))
		return 0;
	err("%s: not traced: its group or all users may write to it, and its file system "
	    "(or a missing CAP_LEASE) gives no warning of a write: run chmod go-w, or "
	    "add --force",
	    e->lib.path);
	return -EPERM;
}

static uint64_t how_long(struct lib_entry *e, uint64_t now)
{
	uint64_t wait = SEC_NS;

	if (now - e->written_ns > CALM_NS)
		e->writes = 0;
	e->written_ns = now;
	if (++e->writes <= WRITES_FREE)
		return 0;
	for (unsigned i = WRITES_FREE + 1; i < e->writes && wait < WAIT_MAX_NS; i++)
		wait *= 2;
	return wait;
}

static void take_off(struct attach *a, struct lib_entry *e)
{
	if (!e->off && e->writes < WRITES_FREE)
		warn("%s is being written: it is traced as soon as the writer closes it",
		     e->lib.path);
	/* Must come first, because processes that map it from now on must be checked. */
	attach_lib__forget_keys(a, e);
	/* The kernel may be waiting for another process. */
	e->closing = attach_lib__take_off(a, e) == -EINPROGRESS;
	if (e->sites)
		probe_sites__free(e->sites);
	e->sites = NULL;
	e->lib.attached_cnt = e->lib.wanted_cnt = 0;
	e->due_ns = now_ns() + how_long(e, now_ns());
	e->late = e->watch.notify >= 0;
	e->seen_ns = now_ns();
	layer_file__read(&e->watch.seen, e->watch.fd);
	set_off(a, e, true);
	if (!e->closing)
		file_watch__release(&e->watch, &a->watch);
}

void attach_lib__closed(struct attach *a, struct lib_entry *e)
{
	e->closing = false;
	file_watch__release(&e->watch, &a->watch);
}

/* The end of writing is not signalled. Writing counts as over when the file has not changed for a
 * second. */
static bool still_changes(struct lib_entry *e)
{
	struct layer_file now;

	if (!e->late || layer_file__read(&now, e->watch.fd))
		return false;
	if (layer_file__same_content(&now, &e->watch.seen) && now_ns() - e->seen_ns > SEC_NS)
		return false;
	if (!layer_file__same_content(&now, &e->watch.seen))
		e->seen_ns = now_ns();
	e->watch.seen = now;
	return true;
}

static void forget(struct attach *a, struct lib_entry *e)
{
	attach_lib__give_ids(a, e);
	for (unsigned i = 0; i < e->lib.refused_cnt; i++)
		free(e->lib.refused[i]);
	free(e->lib.refused);
	e->lib.refused = NULL;
	e->lib.refused_cnt = e->lib.shifted_cnt = 0;
	e->warned_refused = false;
	e->lib.ignored = e->lib.idle = false;
	e->lib.id = ++a->newest_lib;
	/* The time since the write is such a period already. */
	e->missed = MISSED_REPORTED;
	e->late_ns = 0;
}

int attach_lib__hold(struct attach *a, struct lib_entry *e, int fd)
{
	bool again = e->off;
	int ret;

	if (again && (e->closing || now_ns() < e->due_ns || still_changes(e)))
		return -ETXTBSY;
	ret = again ? file_watch__hold(&e->watch, &a->watch)
		    : file_watch__open(&e->watch, &a->watch, fd);
	if (ret == -ETXTBSY) {
		if (!again)
			warn("%s is open for writing: it is traced as soon as the writer closes it",
			     e->lib.path);
		set_off(a, e, true);
		return ret;
	}
	set_off(a, e, false);
	if (again)
		forget(a, e);
	if (ret > 0)
		ret = refuse(a, e);
	if (!ret)
		ret = attach_lib__put_on(a, e);
	layer_file__read(&e->file, e->watch.fd);
	return ret;
}

int attach__watch_fd(const struct attach *a)
{
	return a ? a->watch.fd : -1;
}

unsigned attach__off_cnt(const struct attach *a)
{
	return a ? a->off_cnt : 0;
}

bool attach__is_written(const struct attach *a, const struct attach_lib *lib)
{
	const struct lib_entry *e = attach_lib__find(a, &lib->key);

	return e && !e->off && file_watch__is_written(&e->watch);
}

void attach__follow_writes(struct attach *a,
			   void (*fn)(void *ctx, const struct attach_lib *lib, bool on), void *ctx)
{
	struct work w;

	if (a->watch.fd >= 0)
		watch__read(&a->watch);
	attach_python__follow_writes(a);
	for (unsigned i = 0; i < a->lib_cnt; i++) {
		struct lib_entry *e = a->libs[i];

		if (e->off || !file_watch__is_written(&e->watch))
			continue;
		take_off(a, e);
		fn(ctx, &e->lib, false);
	}
	for (unsigned i = 0; i < a->lib_cnt && a->off_cnt; i++) {
		struct lib_entry *e = a->libs[i];

		/* Each attempt to reattach is charged to the file's user. */
		if (!e->off || !time_budget__may(e->lib.uid) ||
		    time_budget__begin(&w, e->lib.uid, WORK_LIBRARIES))
			continue;
		e->lib.error = attach_lib__hold(a, e, -1);
		time_budget__end(&w);
		if (e->lib.error == -ETXTBSY)
			continue;
		attach_lib__announce(a, &e->lib.key, e->lib.id);
		if (!e->lib.error && !e->lib.ignored)
			fn(ctx, &e->lib, true);
	}
}
