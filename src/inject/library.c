/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The library's file. The program carries it, so that one file is all there is to copy, and puts it
 * where programs can load it. It stays there: a child that outlives the trace and starts another
 * program would be told of a library that is missing.
 */
#include "inject_priv.h"

#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The Makefile knows that this depends on it. */
__asm__(".pushsection .rodata\n"
	".balign 8\n"
	"library_bytes: .incbin \"" INJECT_LIBRARY "\"\n"
	"library_end:\n"
	".popsection\n");
extern const char library_bytes[] __attribute__((visibility("hidden")));
extern const char library_end[] __attribute__((visibility("hidden")));

static size_t library_sz(void)
{
	return library_end - library_bytes;
}

/* FNV-1a: versions lie side by side. */
static uint64_t hash(void)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < library_sz(); i++)
		h = (h ^ (uint8_t)library_bytes[i]) * 0x100000001b3;
	return h;
}

/* A folder that only we can write to, and all can look into. */
static bool make_folder(const char *path)
{
	struct stat st;

	/* The daemon's files are nobody else's by default. */
	if (mkdir(path, 0755) ? errno != EEXIST : chmod(path, 0755))
		return false;
	return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 022);
}

static bool is_whole(int fd)
{
	size_t size = library_sz();
	struct stat st;
	char *mem;
	bool same;

	if (fstat(fd, &st) || (size_t)st.st_size != size)
		return false;
	/* As the loader does: fails where the file system is mounted noexec. */
	mem = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (mem == MAP_FAILED)
		return false;
	same = !memcmp(mem, library_bytes, size);
	munmap(mem, size);
	return same;
}

static bool is_there(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	bool whole = fd >= 0 && is_whole(fd);

	if (fd >= 0)
		close(fd);
	return whole;
}

static bool write_file(const char *path)
{
	char tmp[4096 + 16];
	bool ok;
	int fd;

	snprintf(tmp, sizeof(tmp), "%s.%d", path, getpid());
	unlink(tmp);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0755);
	if (fd < 0)
		return false;
	ok = write(fd, library_bytes, library_sz()) == (ssize_t)library_sz() && !fchmod(fd, 0755);
	ok = !close(fd) && ok && !rename(tmp, path);
	if (!ok)
		unlink(tmp);
	return ok;
}

/* NULL: it cannot be. */
static char *put(const char *path)
{
	return is_there(path) || (write_file(path) && is_there(path)) ? strdup(path) : NULL;
}

char *library__put(const char *folder)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char folders[3][4000] = {"/run/cudatrace"};
	char path[4096], *put_at;

	if (folder) {
		snprintf(path, sizeof(path), "%s/libcudatrace-inject.so", folder);
		put_at = make_folder(folder) ? put(path) : NULL;
		if (!put_at)
			err("cannot put libcudatrace-inject.so into %s: it must be a folder of yours on a "
			    "file system without noexec",
			    folder);
		return put_at;
	}
	if (geteuid() && runtime && runtime[0] == '/')
		snprintf(folders[0], sizeof(folders[0]), "%s/cudatrace", runtime);
	else if (geteuid())
		snprintf(folders[0], sizeof(folders[0]), "/run/user/%u/cudatrace", geteuid());
	snprintf(folders[1], sizeof(folders[1]), "/tmp/cudatrace-%u", geteuid());
	snprintf(folders[2], sizeof(folders[2]), "/var/tmp/cudatrace-%u", geteuid());
	for (int i = 0; i < 3; i++) {
		if (!make_folder(folders[i]))
			continue;
		snprintf(path, sizeof(path), "%.4000s/libcudatrace-inject-%016llx.so", folders[i],
			 (unsigned long long)hash());
		put_at = put(path);
		if (put_at)
			return put_at;
	}
	err("cannot put libcudatrace-inject.so anywhere that programs could load it from: %s, %s or "
	    "%s must be a folder of yours on a file system without noexec",
	    folders[0], folders[1], folders[2]);
	return NULL;
}
