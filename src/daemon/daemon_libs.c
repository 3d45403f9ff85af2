// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Libraries that nobody uses any more. */
#include "daemon_priv.h"

#include "util/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

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

static bool is_mapped(const struct target_libs *used, const struct attach_lib *lib)
{
	for (unsigned i = 0; i < used->cnt; i++)
		if (!memcmp(&used->libs[i].key, &lib->key, sizeof(lib->key)))
			return true;
	return false;
}

static bool grow_idle(struct daemon *d, unsigned cnt)
{
	bool *idle = realloc(d->lib_idle, cnt * sizeof(*idle));

	if (!idle)
		return false;
	memset(idle + d->lib_idle_cnt, 0, (cnt - d->lib_idle_cnt) * sizeof(*idle));
	d->lib_idle = idle;
	d->lib_idle_cnt = cnt;
	return true;
}

static void look_at(struct daemon *d, unsigned i, const struct target_libs *used)
{
	const struct attach_lib *lib = attach__lib_at(d->t.att, i);

	if (lib->dropped)
		return;
	if (is_mapped(used, lib) || is_on_disk(lib))
		d->lib_idle[i] = false;
	else if (d->lib_idle[i])
		attach__drop_lib(d->t.att, i);
	else
		d->lib_idle[i] = true;
}

void daemon__drop_libs(struct daemon *d)
{
	unsigned cnt = attach__lib_cnt(d->t.att);
	struct target_libs used = {0};
	bool known = true; /* what everybody maps */

	d->libs_ns = d->now;
	/* By perf events that would hold up everything for a minute. */
	if (attach__mechanism(d->t.att) == MECH_PERF || !cnt || !grow_idle(d, cnt))
		return;
	/* Who has mapped one by now is known then. */
	tracer__drain(&d->t);
	for (const struct dproc *p = d->procs.by_pid; p; p = p->hh.next) {
		int ret = target_libs__add_pid(&used, p->pid);

		known &= ret != -ETIMEDOUT && ret != -EBUSY;
	}
	for (unsigned i = 0; i < cnt && known; i++)
		look_at(d, i, &used);
	target_libs__clear(&used);
}
