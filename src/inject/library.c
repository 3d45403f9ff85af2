/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files of libraries. cudatrace embeds them, so that it can be copied as one file, and writes them
 * where programs can load them. They stay there. Otherwise a child that outlives the trace and
 * starts another program would get an error about a missing library.
 */
#include "library.h"

#include "util/log.h"
#include "util/own_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The Makefile has these dependencies. */
#define CARRY(name, file)                                                                          \
	__asm__(".pushsection .rodata\n"                                                           \
		".balign 8\n" #name "_bytes: .incbin \"" file "\"\n" #name "_end:\n"               \
		".popsection\n");                                                                  \
	extern const char name##_bytes[] __attribute__((visibility("hidden")));                    \
	extern const char name##_end[] __attribute__((visibility("hidden")))
CARRY(inject, INJECT_LIBRARY);
CARRY(nvtx, NVTX_LIBRARY);

static const struct library {
	const char *name, *file; /* contains the version, so that several can coexist */
	const char *bytes, *end;
} libraries[] = {
	[LIBRARY_INJECT] = {"libcudatrace-inject.so", "libcudatrace-inject-%016llx.so",
			    inject_bytes, inject_end},
	/* Has the suffix of a version, so that it is recognised by name: decode/apis.def. */
	[LIBRARY_NVTX] = {"libcudatrace-nvtx.so", "libcudatrace-nvtx.so.%llu", nvtx_bytes,
			  nvtx_end},
};

static size_t library_sz(const struct library *l)
{
	return l->end - l->bytes;
}

const char *library__bytes(enum library_id id, size_t *size)
{
	*size = library_sz(&libraries[id]);
	return libraries[id].bytes;
}

/* FNV-1a */
static uint64_t hash(const struct library *l)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < library_sz(l); i++)
		h = (h ^ (uint8_t)l->bytes[i]) * 0x100000001b3;
	return h;
}

void library__name(enum library_id id, char *name, size_t size)
{
	snprintf(name, size, libraries[id].file, (unsigned long long)hash(&libraries[id]));
}

/* Creates a directory that only we can write to, and all can read. Returns false if another user
 * could replace the library. */
static bool make_folder(const char *path)
{
	struct stat st;
	bool is_safe;
	int fd;

	/* By default, the daemon's files are private. */
	if (mkdir(path, 0755) ? errno != EEXIST : chmod(path, 0755))
		return false;
	fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	is_safe = !fstat(fd, &st) && st.st_uid == geteuid() && folder__is_ours(fd, false);
	close(fd);
	return is_safe;
}

static bool is_whole(const struct library *l, int fd)
{
	size_t size = library_sz(l);
	struct stat st;
	char *mem;
	bool same;

	if (fstat(fd, &st) || (size_t)st.st_size != size)
		return false;
	/* Maps it as the loader does, which fails if the file system is mounted noexec. */
	mem = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (mem == MAP_FAILED)
		return false;
	same = !memcmp(mem, l->bytes, size);
	munmap(mem, size);
	return same;
}

static bool is_there(const struct library *l, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	bool whole = fd >= 0 && is_whole(l, fd);

	if (fd >= 0)
		close(fd);
	return whole;
}

static bool write_file(const struct library *l, const char *path)
{
	char tmp[4096 + 16];
	bool ok;
	int fd;

	snprintf(tmp, sizeof(tmp), "%s.%d", path, getpid());
	unlink(tmp);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0755);
	if (fd < 0)
		return false;
	ok = write(fd, l->bytes, library_sz(l)) == (ssize_t)library_sz(l) && !fchmod(fd, 0755);
	ok = !close(fd) && ok && !rename(tmp, path);
	if (!ok)
		unlink(tmp);
	return ok;
}

/* Returns NULL if it cannot be written. */
static char *put(const struct library *l, const char *path)
{
	return is_there(l, path) || (write_file(l, path) && is_there(l, path)) ? strdup(path)
									       : NULL;
}

char *library__put(enum library_id id, const char *folder)
{
	const struct library *l = &libraries[id];
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char folders[3][4000] = {"/run/cudatrace"};
	char path[4096], file[64], *put_at;

	if (folder) {
		snprintf(path, sizeof(path), "%s/%s", folder, l->name);
		put_at = make_folder(folder) ? put(l, path) : NULL;
		if (!put_at)
			err("cannot copy %s to %s: choose a directory that you own, below directories "
			    "that no other user may write to, on a file system without noexec",
			    l->name, folder);
		return put_at;
	}
	library__name(id, file, sizeof(file));
	if (geteuid() && runtime && runtime[0] == '/')
		snprintf(folders[0], sizeof(folders[0]), "%s/cudatrace", runtime);
	else if (geteuid())
		snprintf(folders[0], sizeof(folders[0]), "/run/user/%u/cudatrace", geteuid());
	snprintf(folders[1], sizeof(folders[1]), "/tmp/cudatrace-%u", geteuid());
	snprintf(folders[2], sizeof(folders[2]), "/var/tmp/cudatrace-%u", geteuid());
	for (int i = 0; i < 3; i++) {
		/* The loader splits LD_PRELOAD at blanks and colons, and replaces $ORIGIN. */
		if (strpbrk(folders[i], " \t\n:$") || !make_folder(folders[i]))
			continue;
		snprintf(path, sizeof(path), "%.4000s/%s", folders[i], file);
		put_at = put(l, path);
		if (put_at)
			return put_at;
	}
	err("cannot copy %s to a directory that programs can load it from: make %s, %s "
	    "or %s a directory that you own, below directories that no other user may "
	    "write to (/tmp needs the sticky bit), on a file system without noexec",
	    l->name, folders[0], folders[1], folders[2]);
	return NULL;
}
