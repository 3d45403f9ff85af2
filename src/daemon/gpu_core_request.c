/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "gpu_core_request.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <grp.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/privs.h"

#define ENVIRON_MAX (1u << 20)
#define NAMES_MAX   65536 /* of a folder */
#define LOOK_MS	    200
#define SAME_LOOKS  4 /* a file whose size does not change for so long is complete */
/* The driver may not see a few bytes at once; a pipe holds 64 KiB. */
#define REQUEST_SZ (1u << 20)

struct process {
	pid_t pid;
	uint32_t own_pid; /* in its own PID namespace */
	uid_t uid;
	gid_t gid;
	int root, cwd; /* O_PATH */
	char *environ;
	size_t len;
};

static const char *variable(const struct process *p, const char *name)
{
	size_t n = strlen(name);

	for (const char *s = p->environ; s < p->environ + p->len; s += strlen(s) + 1)
		if (!strncmp(s, name, n) && s[n] == '=')
			return s + n + 1;
	return NULL;
}

static bool is_set(const struct process *p, const char *name)
{
	const char *value = variable(p, name);

	return value && !strcmp(value, "1");
}

static int open_of(pid_t pid, const char *name, int flags)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, flags | O_CLOEXEC);
}

static bool read_environ(struct process *p)
{
	int fd = open_of(p->pid, "environ", O_RDONLY);
	ssize_t n = 1;

	p->environ = calloc(1, ENVIRON_MAX + 1);
	while (fd >= 0 && p->environ && n > 0 && p->len < ENVIRON_MAX) {
		n = read(fd, p->environ + p->len, ENVIRON_MAX - p->len);
		p->len += n > 0 ? n : 0;
	}
	if (fd >= 0)
		close(fd);
	return p->len;
}

/* Whether all four ids of a line of status are the same: a set-uid program, which anybody can
 * execute with any environment, has different ones. */
static bool is_one_id(const char *ids, unsigned *id)
{
	unsigned other[3];

	return sscanf(ids, "%u %u %u %u", id, &other[0], &other[1], &other[2]) == 4 &&
	       other[0] == *id && other[1] == *id && other[2] == *id;
}

/* Call this last: environment and folders are then of the same program, or of an earlier one of
 * the same user. */
static bool read_status(struct process *p)
{
	int fd = open_of(p->pid, "status", O_RDONLY);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	unsigned found = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "Uid:", 4))
			found += is_one_id(line + 4, &p->uid);
		else if (!strncmp(line, "Gid:", 4))
			found += is_one_id(line + 4, &p->gid);
		/* The last one is its own. */
		if (!strncmp(line, "NSpid:", 6)) {
			line[strcspn(line, "\n")] = '\0';
			p->own_pid = strtoul(strrchr(line, '\t') ?: "", NULL, 10);
			found++;
		}
	}
	if (f)
		fclose(f);
	return found == 3;
}

/* Gives up all rights but those of the process's user. */
static bool become_user(const struct process *p)
{
	if (geteuid() != p->uid && (setgroups(0, NULL) || setresgid(p->gid, p->gid, p->gid) ||
				    setresuid(p->uid, p->uid, p->uid)))
		return false;
	privs_drop_thread();
	return true;
}

/* Opens below the process's root, or its working directory: no link leads out. */
static int open_in(const struct process *p, const char *path, int flags)
{
	const bool is_absolute = *path == '/';
	struct open_how how = {
		.flags = flags | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_NO_MAGICLINKS |
			   (is_absolute ? RESOLVE_IN_ROOT : RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS),
	};

	return syscall(SYS_openat2, is_absolute ? p->root : p->cwd, path, &how, sizeof(how));
}

/* Converts a name with %h, %p and %t to a glob. false: it is too long. */
static bool glob_of(const struct process *p, const char *name, char *glob, size_t size)
{
	size_t len = 0;
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", p->own_pid);
	for (; *name; name++) {
		char one[3] = {'\\', *name, '\0'};
		const char *text = one;

		if (*name == '%' && strchr("hpt%", name[1]) && name[1])
			text = *++name == 'h' ? "*"
			       : *name == 't' ? "[0-9]*"
			       : *name == 'p' ? pid
					      : "%";
		else if (isalnum((unsigned char)*name))
			text = one + 1;
		len += snprintf(glob + len, size - len, "%s", text);
		if (len >= size)
			return false;
	}
	return true;
}

struct wanted {
	const struct process *p;
	char folder[1024];
	char glob[512];
	mode_t type;
	int64_t since_s;
};

/* false: the template is not supported. */
static bool want(struct wanted *w, const struct process *p, const char *name, mode_t type,
		 int64_t since_s)
{
	const char *slash = strrchr(name, '/');
	size_t len = slash ? slash - name + 1 : 0;

	*w = (struct wanted){.p = p, .type = type, .since_s = since_s};
	if (len >= sizeof(w->folder))
		return false;
	snprintf(w->folder, sizeof(w->folder), "%.*s", (int)(len ?: 1), len ? name : ".");
	return !strchr(w->folder, '%') &&
	       glob_of(p, slash ? slash + 1 : name, w->glob, sizeof(w->glob));
}

/* Opens the newest file that matches. -1: there is none. */
static int find(const struct wanted *w, int flags, char *path, size_t size)
{
	int at = open_in(w->p, w->folder, O_RDONLY | O_DIRECTORY), fd = -1;
	DIR *dir = at >= 0 ? fdopendir(at) : NULL;
	char newest[256] = "";
	int64_t newest_s = 0;
	struct dirent *de;
	struct stat st;

	for (unsigned i = 0; dir && i < NAMES_MAX && (de = readdir(dir)); i++) {
		if (fnmatch(w->glob, de->d_name, 0) ||
		    fstatat(at, de->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    (st.st_mode & S_IFMT) != w->type || st.st_uid != w->p->uid ||
		    st.st_mtime < w->since_s || (*newest && st.st_mtime < newest_s))
			continue;
		newest_s = st.st_mtime;
		snprintf(newest, sizeof(newest), "%s", de->d_name);
	}
	if (*newest)
		fd = openat(at, newest, flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) || (st.st_mode & S_IFMT) != w->type)) {
		close(fd);
		fd = -1;
	}
	if (fd >= 0)
		snprintf(path, size, "%s%s", strcmp(w->folder, ".") ? w->folder : "", newest);
	if (dir)
		closedir(dir);
	else if (at >= 0)
		close(at);
	return fd;
}

/* Its section headers are written last. */
static bool looks_whole(int fd, int64_t size)
{
	Elf64_Ehdr h;

	return pread(fd, &h, sizeof(h), 0) == sizeof(h) && !memcmp(h.e_ident, ELFMAG, SELFMAG) &&
	       h.e_shoff && h.e_shoff + (uint64_t)h.e_shnum * h.e_shentsize <= (uint64_t)size;
}

static int await_core(const struct wanted *w, unsigned wait_ms, char *path, size_t size)
{
	int64_t last = -1;
	unsigned same = 0;

	for (unsigned ms = 0; ms <= wait_ms; ms += LOOK_MS) {
		int fd = find(w, O_RDONLY, path, size);
		struct stat st;

		if (fd >= 0 && !fstat(fd, &st)) {
			same = st.st_size == last ? same + 1 : 0;
			last = st.st_size;
			if (same >= SAME_LOOKS && looks_whole(fd, last))
				return fd;
		}
		if (fd >= 0)
			close(fd);
		usleep(LOOK_MS * 1000);
	}
	return -1;
}

/* Writes until the driver has read something, or the pipe is full. */
static bool write_request(int fd)
{
	static const char zeros[4096];
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	size_t done = 0;

	while (done < REQUEST_SZ && poll(&p, 1, 1000) == 1 && p.revents == POLLOUT) {
		ssize_t n = write(fd, zeros, sizeof(zeros));

		if (n <= 0)
			break;
		done += n;
	}
	return done;
}

static const char *send_request(const struct process *p)
{
	const char *name = variable(p, "CUDA_COREDUMP_PIPE") ?: "corepipe.cuda.%h.%p";
	const char *flags = variable(p, "CUDA_COREDUMP_GENERATION_FLAGS");
	struct wanted w;
	char path[1300];
	bool written;
	int fd;

	if (!flags || !strstr(flags, "skip_abort"))
		return "not requested: without skip_abort in CUDA_COREDUMP_GENERATION_FLAGS the "
		       "driver would end the program";
	if (!want(&w, p, name, S_IFIFO, 0))
		return "not requested: CUDA_COREDUMP_PIPE is not supported";
	fd = find(&w, O_WRONLY, path, sizeof(path));
	if (fd < 0)
		return "not requested: the driver's pipe does not exist, or nobody reads it";
	signal(SIGPIPE, SIG_IGN);
	written = write_request(fd);
	close(fd);
	return written ? NULL : "not requested: the driver's pipe accepts nothing";
}

int gpu_core_request(pid_t pid, uid_t uid, bool may_request, int64_t since_s, unsigned wait_ms,
		     char *path, size_t size, const char **why)
{
	struct process p = {.pid = pid};
	const char *name;
	struct wanted core;
	int fd = -1;

	*why = NULL;
	if (!read_environ(&p) || (!is_set(&p, "CUDA_ENABLE_USER_TRIGGERED_COREDUMP") &&
				  !is_set(&p, "CUDA_ENABLE_COREDUMP_ON_EXCEPTION")))
		goto out;
	p.root = open_of(pid, "root", O_PATH | O_DIRECTORY);
	p.cwd = open_of(pid, "cwd", O_PATH | O_DIRECTORY);
	name = variable(&p, "CUDA_COREDUMP_FILE") ?: "core_%t_%h_%p.nvcudmp";
	*why = "the program's folders cannot be opened";
	if (p.root < 0 || p.cwd < 0)
		goto out;
	*why = "not requested: the program has ended, or has executed one of another user";
	if (!read_status(&p) || p.uid != uid)
		goto out;
	*why = "not requested: the daemon lacks CAP_SETUID and CAP_SETGID";
	if (!become_user(&p))
		goto out;
	*why = "CUDA_COREDUMP_FILE is not supported: a % in its folder";
	if (!want(&core, &p, name, S_IFREG, since_s))
		goto out;
	/* After a fault the driver may have made one by itself. */
	*why = NULL;
	fd = find(&core, O_RDONLY, path, size);
	if (fd < 0 && is_set(&p, "CUDA_ENABLE_USER_TRIGGERED_COREDUMP"))
		*why = may_request
			       ? send_request(&p)
			       : "not requested: neither dossier.gpu_core nor ctl dossier PID core";
	else if (fd < 0)
		*why = "the driver has made none";
	if (fd >= 0)
		close(fd);
	fd = -1;
	if (!*why) {
		fd = await_core(&core, wait_ms, path, size);
		*why = fd < 0 ? "the driver did not make it in time" : NULL;
	}
out:
	free(p.environ);
	return fd;
}
