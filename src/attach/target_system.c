/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The libcuda files that a program started from here could load. No place is required. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Measured: 20 kB to 200 kB. */
#define CACHE_SZ_MAX (16 << 20)

#ifdef __aarch64__
#define CACHE_FLAGS 0x0a03 /* FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6 */
#else
#define CACHE_FLAGS 0x0303 /* FLAG_X8664_LIB64 | FLAG_ELF_LIBC6 */
#endif

/* /etc/ld.so.cache, from glibc's sysdeps/generic/dl-cache.h. Offsets count from the header. */
struct cache_header {
	char magic[20]; /* "glibc-ld.so.cache1.1" */
	uint32_t lib_cnt;
	uint32_t strings_sz;
	uint32_t unused[5];
};
_Static_assert(sizeof(struct cache_header) == 48, "glibc's struct cache_file_new");

struct cache_entry {
	int32_t flags;
	uint32_t name_off, path_off;
	uint32_t os_version;
	uint64_t hwcap;
};
_Static_assert(sizeof(struct cache_entry) == 24, "glibc's struct file_entry_new");

#define CACHE_MAGIC	"glibc-ld.so.cache1.1"
#define OLD_CACHE_MAGIC "ld.so-1.7.0"

/* Nothing found is no error; only memory can run out. */
static int add_candidate(struct target_libs *list, const char *path)
{
	return target_libs__add_path(list, path) == -ENOMEM ? -ENOMEM : 0;
}

static int add_folder(struct target_libs *list, const char *dir, size_t len)
{
	/* Programs ask for libcuda.so.1, a few (Numba) for libcuda.so. */
	static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
	unsigned i;
	int rc = 0;

	for (i = 0; !rc && i < sizeof(names) / sizeof(*names); i++) {
		char *path;

		/* To the dynamic linker, an empty entry is the current folder. */
		if (asprintf(&path, "%.*s%s%s", (int)len, dir, len ? "/" : "", names[i]) < 0)
			return -ENOMEM;
		rc = add_candidate(list, path);
		free(path);
	}
	return rc;
}

static int add_library_path(struct target_libs *list)
{
	const char *p = getenv("LD_LIBRARY_PATH");
	int rc = 0;

	while (p && *p && !rc) {
		size_t len = strcspn(p, ":;");

		if (len < 4096)
			rc = add_folder(list, p, len);
		p += len;
		p += *p != '\0';
	}
	return rc;
}

/* The whole file with a NUL behind it; NULL when it cannot be had. */
static char *read_cache(size_t *size)
{
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *buf = NULL;
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= CACHE_SZ_MAX)
		buf = malloc((size_t)st.st_size + 1);
	if (buf)
		n = read(fd, buf, (size_t)st.st_size);
	close(fd);
	if (n < 0) {
		free(buf);
		return NULL;
	}
	buf[n] = '\0';
	*size = (size_t)n;
	return buf;
}

/* glibc before 2.32 put the old format in front: 12 bytes of magic, a count, entries of 12 bytes,
 * then the new format at the next multiple of 8. */
static size_t skip_old_format(const char *buf, size_t size)
{
	uint32_t cnt;

	if (size < 16 || memcmp(buf, OLD_CACHE_MAGIC, sizeof(OLD_CACHE_MAGIC) - 1) != 0)
		return 0;
	memcpy(&cnt, buf + 12, sizeof(cnt));
	return (size_t)((16 + 12ULL * cnt + 7) & ~7ULL);
}

/* buf[size] is a NUL, so that every string ends. */
static int scan_cache(struct target_libs *list, const char *buf, size_t size)
{
	size_t start = skip_old_format(buf, size);
	struct cache_header h;
	struct cache_entry e;
	uint32_t i;
	int rc = 0;

	if (start > size || size - start < sizeof(h))
		return 0;
	buf += start;
	size -= start;
	memcpy(&h, buf, sizeof(h));
	if (memcmp(h.magic, CACHE_MAGIC, sizeof(h.magic)) != 0 ||
	    h.lib_cnt > (size - sizeof(h)) / sizeof(e))
		return 0;
	for (i = 0; !rc && i < h.lib_cnt; i++) {
		memcpy(&e, buf + sizeof(h) + i * sizeof(e), sizeof(e));
		if (e.flags == CACHE_FLAGS && e.name_off < size && e.path_off < size &&
		    target_is_libcuda_name(buf + e.name_off))
			rc = add_candidate(list, buf + e.path_off);
	}
	return rc;
}

static int add_cache(struct target_libs *list)
{
	size_t size = 0;
	char *buf = read_cache(&size);
	int rc = buf ? scan_cache(list, buf, size) : 0;

	free(buf);
	return rc;
}

static int add_usual_folders(struct target_libs *list)
{
	static const char *const folders[] = {
		/* the dynamic linker's own */
		"/usr/lib/x86_64-linux-gnu",
		"/lib/x86_64-linux-gnu",
		"/usr/lib/aarch64-linux-gnu",
		"/lib/aarch64-linux-gnu",
		"/usr/lib64",
		"/lib64",
		"/usr/lib",
		"/lib",
		/* driver installations: Debian, containers, forward compatibility, WSL, NixOS */
		"/usr/lib/*-linux-gnu/nvidia/current",
		"/usr/lib/nvidia*",
		"/usr/local/nvidia/lib64",
		"/usr/local/cuda*/compat",
		"/usr/lib/wsl/lib",
		"/run/opengl-driver/lib",
	};
	unsigned i;
	int rc = 0;

	for (i = 0; !rc && i < sizeof(folders) / sizeof(*folders); i++) {
		glob_t g = {0};
		size_t k;

		if (!glob(folders[i], GLOB_NOSORT, NULL, &g)) {
			for (k = 0; !rc && k < g.gl_pathc; k++)
				rc = add_folder(list, g.gl_pathv[k], strlen(g.gl_pathv[k]));
		}
		globfree(&g);
	}
	return rc;
}

int target_libs__add_system(struct target_libs *list)
{
	int rc = add_library_path(list);

	rc = rc ?: add_cache(list);
	return rc ?: add_usual_folders(list);
}
