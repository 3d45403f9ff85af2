/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "safe_open.h"

#include "privs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The same limit as the kernel's. */
#define LINKS_MAX 40

static struct {
	bool is_set;
	uid_t uid;
	gid_t gid;
	gid_t groups[64];
	int group_cnt;
} owner;

void safe_open_owner(uid_t uid, gid_t gid, const gid_t *groups, int group_cnt)
{
	owner.is_set = true;
	owner.uid = uid;
	owner.gid = gid;
	owner.group_cnt = group_cnt < 64 ? group_cnt : 64;
	memcpy(owner.groups, groups, owner.group_cnt * sizeof(*groups));
}

/* Input files. */
static struct {
	dev_t dev;
	ino_t ino;
} * kept;
static unsigned kept_cnt;

void safe_open_keep(dev_t dev, ino_t ino)
{
	void *grown;

	if (safe_open_is_kept(&(struct stat){.st_dev = dev, .st_ino = ino}))
		return;
	grown = reallocarray(kept, kept_cnt + 1, sizeof(*kept));
	if (!grown)
		return;
	kept = grown;
	kept[kept_cnt].dev = dev;
	kept[kept_cnt++].ino = ino;
}

bool safe_open_is_kept(const struct stat *st)
{
	for (unsigned i = 0; i < kept_cnt; i++)
		if (kept[i].ino == st->st_ino && kept[i].dev == st->st_dev)
			return true;
	return false;
}

/* The rights that the kernel uses for file access, while this file opens one. */
struct rights {
	gid_t groups[1024];
	int group_cnt;
};

/* Of this thread, as setfsuid(). setgroups() changes all threads, and aborts where some have
 * dropped their privileges (src/util/safe_close.c). */
static int set_groups(int cnt, const gid_t *groups)
{
	return (int)syscall(SYS_setgroups, cnt, groups);
}

static bool take_privs(struct rights *r)
{
	privs_lower();
	if (!owner.is_set)
		return true;
	r->group_cnt = getgroups(1024, r->groups);
	if (r->group_cnt < 0 || set_groups(owner.group_cnt, owner.groups))
		return false;
	setfsgid(owner.gid);
	setfsuid(owner.uid);
	return (uid_t)setfsuid(-1) == owner.uid;
}

static void give_privs_back(const struct rights *r)
{
	int keep = errno;

	privs_raise();
	if (!owner.is_set)
		return;
	setfsuid(geteuid());
	setfsgid(getegid());
	set_groups(r->group_cnt, r->groups);
	errno = keep;
}

static bool is_ours(uid_t uid)
{
	return uid == geteuid() || (owner.is_set && uid == owner.uid);
}

struct walk {
	int dir;	     /* directory of the next component */
	char rest[PATH_MAX]; /* remaining components */
	unsigned links;
	enum safe_open_why why;
};

static int fail(struct walk *w, enum safe_open_why why)
{
	w->why = why;
	return -1;
}

static int go_to(struct walk *w, int fd)
{
	if (fd < 0)
		return fail(w, SAFE_OPEN_ERRNO);
	if (w->dir >= 0)
		close(w->dir);
	w->dir = fd;
	return 0;
}

/* Removes the first component; false: none is left. */
static bool next_part(struct walk *w, char part[NAME_MAX + 1])
{
	char *p = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(p, "/");

	if (!len || len > NAME_MAX)
		return false;
	memcpy(part, p, len);
	part[len] = '\0';
	p += len;
	memmove(w->rest, p, strlen(p) + 1);
	return true;
}

static bool is_last(const struct walk *w)
{
	return !w->rest[strspn(w->rest, "/")];
}

/* Replaces the component by the target of the link, which is open (O_PATH). */
static int follow(struct walk *w, int link_fd)
{
	char target[PATH_MAX], joined[2 * PATH_MAX];
	struct stat st;
	ssize_t n;

	if (fstat(link_fd, &st))
		return fail(w, SAFE_OPEN_ERRNO);
	if (st.st_uid && !is_ours(st.st_uid))
		return fail(w, SAFE_OPEN_FOREIGN_LINK);
	n = readlinkat(link_fd, "", target, sizeof(target) - 1);
	errno = n < 0 ? errno : ELOOP;
	if (n <= 0 || ++w->links > LINKS_MAX)
		return fail(w, SAFE_OPEN_ERRNO);
	target[n] = '\0';
	if (snprintf(joined, sizeof(joined), "%s%s", target, w->rest) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return fail(w, SAFE_OPEN_ERRNO);
	}
	strcpy(w->rest, joined);
	return target[0] == '/' ? go_to(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) : 0;
}

/* Walks to the directory of the last component, and returns its name in part. */
static int walk(struct walk *w, const char *path, char part[NAME_MAX + 1])
{
	struct stat st;

	w->dir = -1;
	if (strlen(path) >= sizeof(w->rest)) {
		errno = ENAMETOOLONG;
		return fail(w, SAFE_OPEN_ERRNO);
	}
	strcpy(w->rest, path);
	if (go_to(w, open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC)))
		return -1;
	for (;;) {
		int fd, ret = 0;

		errno = is_last(w) ? EISDIR : ENAMETOOLONG;
		if (!next_part(w, part))
			return fail(w, SAFE_OPEN_ERRNO);
		fd = openat(w->dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return is_last(w) && errno == ENOENT ? 0 : fail(w, SAFE_OPEN_ERRNO);
		if (!fstat(fd, &st) && S_ISLNK(st.st_mode)) {
			ret = follow(w, fd);
			close(fd);
		} else if (is_last(w)) {
			close(fd);
			return 0;
		} else {
			errno = ENOTDIR;
			ret = S_ISDIR(st.st_mode) ? go_to(w, fd) : fail(w, SAFE_OPEN_ERRNO);
		}
		if (ret)
			return ret;
	}
}

/* Returns whether this file may be written to. Devices may belong to any user. */
static int check_there(struct walk *w, const struct stat *st)
{
	if (!S_ISREG(st->st_mode) && !S_ISFIFO(st->st_mode))
		return 0;
	if (safe_open_is_kept(st))
		return fail(w, SAFE_OPEN_INPUT);
	if (!is_ours(st->st_uid))
		return fail(w, SAFE_OPEN_FOREIGN_FILE);
	/* Any user may have linked a file of ours to this name, where fs.protected_hardlinks is
	 * 0. */
	if (S_ISREG(st->st_mode) && st->st_nlink > 1)
		return fail(w, SAFE_OPEN_HARD_LINK);
	return 0;
}

/* Opens it via an O_PATH descriptor, after its type was checked: opening a FIFO would wake its
 * reader. The caller waits if a FIFO has no reader (ENXIO). */
static int open_there(struct walk *w, int path_fd)
{
	struct stat st;
	char self[32];
	int fd;

	if (fstat(path_fd, &st))
		return fail(w, SAFE_OPEN_ERRNO);
	if (check_there(w, &st))
		return -1;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	fd = open(self, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd >= 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0)) {
		int keep = errno;

		close(fd);
		errno = keep;
		fd = -1;
	}
	return fd < 0 ? fail(w, SAFE_OPEN_ERRNO) : fd;
}

static int open_last(struct walk *w, const char *part)
{
	/* Another process may create and remove it repeatedly. */
	for (int tries = 0; tries < 16; tries++) {
		int there, fd = openat(w->dir, part,
				       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);

		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			break;
		there = openat(w->dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (there < 0 && errno == ENOENT)
			continue;
		if (there < 0)
			break;
		fd = open_there(w, there);
		close(there);
		return fd;
	}
	return fail(w, SAFE_OPEN_ERRNO);
}

int safe_open_fd(const char *path)
{
	static const char *const before[] = {"/dev/fd/", "/proc/self/fd/"};
	char *end;
	long n;

	if (!strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (int i = 0; i < 2; i++) {
		size_t len = strlen(before[i]);

		if (strncmp(path, before[i], len))
			continue;
		n = strtol(path + len, &end, 10);
		if (end > path + len && !*end && n >= 0 && n <= INT_MAX)
			return n;
	}
	return -1;
}

int safe_open(const char *path, enum safe_open_why *why)
{
	struct walk w = {.dir = -1};
	char part[NAME_MAX + 1];
	int fd = safe_open_fd(path);
	struct rights r;

	*why = SAFE_OPEN_ERRNO;
	if (fd >= 0)
		return fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (!take_privs(&r)) {
		give_privs_back(&r);
		return -1;
	}
	fd = -1;
	if (!walk(&w, path, part))
		fd = open_last(&w, part);
	if (w.dir >= 0)
		close(w.dir);
	give_privs_back(&r);
	*why = fd < 0 ? w.why : SAFE_OPEN_OK;
	return fd;
}

bool safe_mkdir(const char *path, enum safe_open_why *why)
{
	struct walk w = {.dir = -1};
	char part[NAME_MAX + 1];
	struct rights r;
	struct stat st;
	bool ok = false;

	*why = SAFE_OPEN_ERRNO;
	if (take_privs(&r) && !walk(&w, path, part)) {
		w.why = SAFE_OPEN_ERRNO;
		if (!mkdirat(w.dir, part, 0700))
			ok = true;
		else if (errno == EEXIST && !fstatat(w.dir, part, &st, AT_SYMLINK_NOFOLLOW))
			ok = !st.st_uid || is_ours(st.st_uid) ||
			     !(w.why = SAFE_OPEN_FOREIGN_FOLDER);
	}
	if (w.dir >= 0)
		close(w.dir);
	give_privs_back(&r);
	*why = ok ? SAFE_OPEN_OK : w.why;
	return ok;
}

bool safe_mkdtemp(char *path)
{
	struct rights r;
	bool ok = take_privs(&r) && mkdtemp(path);

	give_privs_back(&r);
	return ok;
}

void safe_remove(const char *path)
{
	struct walk w = {.dir = -1};
	char part[NAME_MAX + 1];
	struct rights r;

	if (take_privs(&r) && !walk(&w, path, part) && unlinkat(w.dir, part, 0))
		unlinkat(w.dir, part, AT_REMOVEDIR);
	if (w.dir >= 0)
		close(w.dir);
	give_privs_back(&r);
}
