/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Libraries that nobody uses any more. */
#include "daemon_priv.h"

#include "util/reader.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A node has one, or a few. */
#define LIBS_MANY 16

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

struct look {
	struct target_libs used;
	bool many; /* what is on the disk and nobody uses is too much, too */
};

static bool is_used(void *ctx, const struct attach_lib *lib)
{
	const struct look *l = ctx;

	for (unsigned i = 0; i < l->used.cnt; i++)
		if (!memcmp(&l->used.libs[i].key, &lib->key, sizeof(lib->key)))
			return true;
	return !l->many && is_on_disk(lib);
}

void daemon__drop_libs(struct daemon *d)
{
	const struct quota *q = &d->t.quotas.of[QUOTA_LIBRARIES];
	struct look l = {.many = q->used > LIBS_MANY};
	bool known = true; /* what everybody maps */

	d->libs_ns = d->now;
	/* By perf events that would hold up everything for a minute. */
	if (attach__mechanism(d->t.att) == MECH_PERF || !attach__lib_cnt(d->t.att))
		return;
	/* Who has mapped one by now is known then. */
	tracer__drain_for(&d->t, DRAIN_MAX_NS);
	for (const struct dproc *p = d->procs.by_pid; p; p = p->hh.next) {
		int ret = target_libs__add_pid(&l.used, p->pid);

		known &= ret != -ETIMEDOUT && ret != -EBUSY;
	}
	/* What is in the header of files goes with them. */
	if (known && attach__drop_idle(d->t.att, is_used, &l))
		tracer__fill_libs(&d->t);
	target_libs__clear(&l.used);
}
