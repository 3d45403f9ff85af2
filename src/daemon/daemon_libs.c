/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Detaches libraries that no process uses any more. */
#include "daemon_priv.h"

#include "util/clock.h"
#include "util/reader.h"
#include "util/time_budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A typical node has only a few. */
#define LIBS_MANY 16
/* A scan takes as many turns as the users' time budgets need, up to this limit. Then the remaining
 * processes count as unknown. */
#define LOOK_MAX_NS (30 * SEC_NS)

static bool is_on_disk(const struct attach_lib *lib)
{
	int fd = reader__open(0, lib->path, 0);
	struct stat st;
	int ret = fd < 0 ? fd : fstat(fd, &st);

	if (fd >= 0)
		close(fd);
	return !ret && st.st_ino == lib->key.ino && major(st.st_dev) == lib->key.dev_major &&
	       minor(st.st_dev) == lib->key.dev_minor;
}

static bool is_same(const struct ct_lib_key *a, const struct ct_lib_key *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static bool is_mapped(const struct libs_look *l, const struct ct_lib_key *key)
{
	for (unsigned i = 0; i < l->used_cnt; i++)
		if (is_same(&l->used[i], key))
			return true;
	return false;
}

/* A process may map many files, and each many times: only attached ones are stored. */
static int take_line(void *ctx, const struct map_line *m)
{
	struct daemon *d = ctx;
	struct libs_look *l = &d->libs_look;
	struct ct_lib_key *used;

	if (is_mapped(l, &m->key))
		return 0;
	for (unsigned i = 0; i < attach__lib_cnt(d->t.att); i++) {
		if (!is_same(&attach__lib_at(d->t.att, i)->key, &m->key))
			continue;
		used = reallocarray(l->used, l->used_cnt + 1, sizeof(*used));
		if (!used)
			return -ENOMEM;
		l->used = used;
		l->used[l->used_cnt++] = m->key;
		break;
	}
	return 0;
}

/* Its mappings are unknown: keep all libraries of its user. */
static void keep_user(struct libs_look *l, uid_t uid)
{
	for (unsigned i = 0; i < l->kept_cnt; i++)
		if (l->kept[i] == uid)
			return;
	if (l->kept_cnt < LIBS_KEPT_MAX)
		l->kept[l->kept_cnt++] = uid;
	else
		l->keep_all = true;
}

static bool is_used(void *ctx, const struct attach_lib *lib)
{
	const struct daemon *d = ctx;
	const struct libs_look *l = &d->libs_look;

	for (unsigned i = 0; i < l->kept_cnt; i++)
		if (l->kept[i] == lib->uid)
			return true;
	/* With too many libraries, unused ones on the disk are dropped, too. */
	return l->keep_all || is_mapped(l, &lib->key) ||
	       (d->t.quotas.of[QUOTA_LIBRARIES].used <= LIBS_MANY && is_on_disk(lib));
}

void daemon__drop_libs(struct daemon *d)
{
	struct libs_look *l = &d->libs_look;

	d->libs_ns = d->now;
	/* Detaching perf events would block everything for a minute. */
	if (l->on || attach__mechanism(d->t.att) == MECH_PERF || !attach__lib_cnt(d->t.att))
		return;
	/* Read records first, so that all mappings so far are known. */
	tracer__drain_for(&d->t, DRAIN_TURN_NS);
	*l = (struct libs_look){.on = true, .number = l->number + 1, .began_ns = d->now};
	daemon__look_at_libs(d);
}

/* Returns whether some processes were postponed, because their user has no time left. */
static bool look_at_processes(struct daemon *d, bool is_last)
{
	struct libs_look *l = &d->libs_look;
	bool wait = false;

	hash_each (p, &d->procs.by_pid) {
		int ret = -EAGAIN;

		if (p->libs_look == l->number)
			continue;
		if (!is_last && !time_budget__may(reader__user(p->pid))) {
			wait = true;
			continue;
		}
		if (!is_last)
			ret = target_each_mapped(p->pid, take_line, d);
		p->libs_look = l->number;
		if (ret && ret != -ESRCH)
			keep_user(l, reader__user(p->pid));
	}
	return wait;
}

void daemon__look_at_libs(struct daemon *d)
{
	struct libs_look *l = &d->libs_look;

	if (!l->on)
		return;
	if (look_at_processes(d, false) && d->now < l->began_ns + LOOK_MAX_NS)
		return;
	look_at_processes(d, true);
	/* The header of files lists libraries. */
	if (attach__drop_idle(d->t.att, is_used, d))
		tracer__fill_libs(&d->t);
	free(l->used);
	*l = (struct libs_look){.number = l->number};
}
