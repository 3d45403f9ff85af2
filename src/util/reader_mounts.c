/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "reader_mounts.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLES_MAX 4
#define ROWS_MAX   131072

/* A line of mountinfo. */
struct mount_line {
	unsigned id, major, minor;
	const char *type, *options; /* of the file system */
};

/* ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS [TAG...] - TYPE SOURCE OPTIONS; blanks in names are
 * written as \040. */
static bool parse_mount(char *line, struct mount_line *m)
{
	char *type = strstr(line, " - "), *source, *options;

	if (!type || sscanf(line, "%u %*u %u:%u", &m->id, &m->major, &m->minor) != 3)
		return false;
	type += 3;
	source = strchr(type, ' ');
	options = source ? strchr(source + 1, ' ') : NULL;
	if (!options)
		return false;
	*source = '\0';
	m->type = type;
	m->options = options + 1;
	return true;
}

/* Trust in reads of a mount, which its server answers. */
enum mount_trust {
	TRUST_NOBODY,
	TRUST_MOUNTER, /* depends on who has mounted it */
	TRUST_ALWAYS,
};

struct row {
	unsigned id, major, minor;
	enum mount_trust trust;
};

/* The mounts of one namespace, seen from one root. The open file keeps the inode numbers of both
 * from being reused. */
struct table {
	FILE *f; /* its mountinfo; NULL: unused */
	struct statx ns, root;
	struct row *rows;
	unsigned cnt;
};

static struct table tables[TABLES_MAX];
static unsigned oldest;

/* A procfs has files whose content depends on the reader: us. FUSE: user_id= is the user of the
 * server, as numbered in its user namespace. An overlay accesses its lower file systems with the
 * rights of the user who mounted it, whichever process reads. */
static enum mount_trust trust_of(const struct mount_line *m)
{
	const char *user = strstr(m->options, "user_id=");
	bool fuse = !strncmp(m->type, "fuse", 4);
	unsigned long uid = user ? strtoul(user + strlen("user_id="), NULL, 10) : 0;

	if (!strcmp(m->type, "proc") || (fuse && uid && uid != geteuid()))
		return TRUST_NOBODY;
	return fuse || !strcmp(m->type, "overlay") ? TRUST_MOUNTER : TRUST_ALWAYS;
}

static void clear(struct table *t)
{
	if (t->f)
		fclose(t->f);
	free(t->rows);
	*t = (struct table){0};
}

static bool add_row(struct table *t, const struct row *row)
{
	struct row *rows;

	if (!(t->cnt & (t->cnt - 1))) {
		rows = reallocarray(t->rows, t->cnt ? 2 * t->cnt : 1, sizeof(*rows));
		if (!rows)
			return false;
		t->rows = rows;
	}
	t->rows[t->cnt++] = *row;
	return true;
}

static void read_rows(struct table *t)
{
	struct mount_line m;
	char *line = NULL;
	size_t size = 0;

	t->cnt = 0;
	rewind(t->f);
	while (t->cnt < ROWS_MAX && getline(&line, &size, t->f) >= 0) {
		if (!parse_mount(line, &m))
			continue;
		if (!add_row(t, &(struct row){m.id, m.major, m.minor, trust_of(&m)}))
			break;
	}
	free(line);
}

static bool has_changed(const struct table *t)
{
	struct pollfd p = {.fd = fileno(t->f), .events = POLLPRI};

	return poll(&p, 1, 0) != 0;
}

/* pid 0: ours */
static void proc_path(char path[64], pid_t pid, const char *name)
{
	if (pid)
		snprintf(path, 64, "/proc/%d/%s", (int)pid, name);
	else
		snprintf(path, 64, "/proc/self/%s", name);
}

/* Involves no server: the process may serve its own root. */
static bool stat_of(pid_t pid, const char *name, struct statx *st)
{
	char path[64];

	proc_path(path, pid, name);
	return !statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, st);
}

static bool is_same(const struct statx *a, const struct statx *b)
{
	return a->stx_ino == b->stx_ino && a->stx_dev_major == b->stx_dev_major &&
	       a->stx_dev_minor == b->stx_dev_minor;
}

/* NULL: the process has ended, or cannot be inspected. */
static struct table *table_of(pid_t pid)
{
	struct table *t = &tables[oldest];
	struct statx ns, root;
	char path[64];

	if (!stat_of(pid, "ns/mnt", &ns) || !stat_of(pid, "root", &root))
		return NULL;
	for (unsigned i = 0; i < TABLES_MAX; i++) {
		struct table *k = &tables[i];

		if (!k->f || !is_same(&k->ns, &ns) || !is_same(&k->root, &root))
			continue;
		if (has_changed(k))
			read_rows(k);
		return k;
	}
	proc_path(path, pid, "mountinfo");
	clear(t);
	t->f = fopen(path, "re");
	if (!t->f)
		return NULL;
	oldest = (oldest + 1) % TABLES_MAX;
	t->ns = ns;
	t->root = root;
	read_rows(t);
	return t;
}

/* A device that our own namespace has mounted was mounted by root. */
static bool is_mounted_here(unsigned major, unsigned minor)
{
	const struct table *t = table_of(0);

	for (unsigned i = 0; t && i < t->cnt; i++)
		if (t->rows[i].major == major && t->rows[i].minor == minor)
			return true;
	return false;
}

/* In a mount namespace of our user namespace only root can mount, and fusermount for users. */
static bool is_our_namespace(pid_t pid)
{
	struct stat own, theirs = {0};
	char path[64];
	int ns, user = -1;

	if (!pid)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns >= 0)
		user = ioctl(ns, NS_GET_USERNS);
	if (user < 0 || fstat(user, &theirs) || stat("/proc/self/ns/user", &own))
		own.st_ino = ~theirs.st_ino;
	if (user >= 0)
		close(user);
	if (ns >= 0)
		close(ns);
	return own.st_ino == theirs.st_ino;
}

int reader_mounts__are_safe(pid_t pid, unsigned long long id)
{
	const struct table *t = table_of(pid);
	struct row row;

	for (unsigned i = 0; t && i < t->cnt; i++) {
		if (t->rows[i].id != id)
			continue;
		row = t->rows[i]; /* the lookup of our own table may replace t */
		if (row.trust != TRUST_MOUNTER)
			return row.trust == TRUST_ALWAYS;
		return is_our_namespace(pid) || is_mounted_here(row.major, row.minor);
	}
	return -1;
}

void reader_mounts__forget(void)
{
	for (unsigned i = 0; i < TABLES_MAX; i++)
		clear(&tables[i]);
}
