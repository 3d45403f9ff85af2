/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Checks that the file still has what was written. Others may delete, move or truncate it
 * meanwhile, and writes to it would still succeed. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "out_priv.h"

void out_opened(struct out *o, bool named)
{
	struct stat st;

	o->is_file = !fstat(o->fd, &st) && S_ISREG(st.st_mode);
	/* Some file systems do not count links; a temporary file may never have had one. */
	o->had_link = o->is_file && st.st_nlink;
	o->named = named;
	o->end = 0;
}

void out_note_end(struct out *o)
{
	off_t pos = lseek(o->fd, 0, SEEK_CUR);
	struct stat st;

	/* Sizes are useless where writes become visible late (some FUSE). */
	if (!o->end)
		o->has_size = !fstat(o->fd, &st) && st.st_size >= pos;
	o->end = pos > 0 ? pos : 0;
}

/* Returns whether the name leads to another file, or to none. Unknown if it cannot be looked up. */
static bool is_moved(const struct out *o, const struct stat *st)
{
	struct stat named;

	if (stat(o->name, &named))
		return errno == ENOENT;
	return named.st_ino != st->st_ino || named.st_dev != st->st_dev;
}

static const char *external_change(const struct out *o, bool at_end)
{
	struct stat st;

	if (fstat(o->fd, &st))
		return errno == ESTALE ? "it was deleted" : NULL;
	if (o->had_link && !st.st_nlink)
		return "it was deleted";
	if (o->has_size && (uint64_t)st.st_size < o->end)
		return "it was truncated";
	/* Other descriptors of the file may belong to other programs. */
	if (o->has_size && o->named && !o->stale && (uint64_t)st.st_size > o->end)
		return "it was overwritten";
	if (at_end && o->named && is_moved(o, &st))
		return "it was moved or replaced";
	return NULL;
}

void out__check(struct out *o, bool at_end)
{
	if (!o->is_file || o->failed)
		return;
	o->external_change = external_change(o, at_end);
	if (!o->external_change)
		return;
	o->failed = true;
	o->error = o->error ?: ESTALE;
	err("%s is lost or damaged: %s by another program while it was written: do not let others change "
	    "outputs",
	    o->name, o->external_change);
}
