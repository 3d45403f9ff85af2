/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "python.h"

#include "elf_file.h"

#include "util/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAPS_SZ_MAX (64u << 20)
/* Candidate files of a process. */
#define LINES_AT_ONCE 256
#define FILES_MAX     8
#define DELETED	      " (deleted)"

int python_parse_map_line(char *line, const char *program, struct python_map *m)
{
	size_t len, suffix = strlen(DELETED);
	char perms[5], name[64], *path;
	int at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %*u %n", &m->start,
		   &m->end, perms, &m->off, &at) != 4)
		return 0;
	if (!at || m->start >= m->end || line[at] != '/')
		return 0;
	path = line + at;
	len = strlen(path);
	if (len > suffix && !strcmp(path + len - suffix, DELETED))
		path[len - suffix] = '\0';
	m->path = path;
	return python_name_of_file(path, name, sizeof(name)) || !strcmp(path, program);
}

/* A candidate file, and its mapping. */
struct candidate {
	struct python_map first;
	uint64_t end;
	char path[4096];
};

static void take_line(char *line, const char *program, struct candidate *c, unsigned *cnt)
{
	struct python_map m;
	unsigned i = 0;

	if (!python_parse_map_line(line, program, &m) || strlen(m.path) >= sizeof(c->path))
		return;
	while (i < *cnt && strcmp(c[i].path, m.path))
		i++;
	if (i == FILES_MAX)
		return;
	if (i == *cnt) {
		c[i].first = m;
		strcpy(c[i].path, m.path);
		(*cnt)++;
	}
	c[i].end = m.end;
}

static unsigned find_candidates(pid_t pid, struct candidate *c)
{
	int fd = reader__copy(pid, "maps", MAPS_SZ_MAX);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	char *line = NULL, program[4096];
	size_t size = 0, suffix = strlen(DELETED);
	unsigned cnt = 0;
	ssize_t n;

	if (!f)
		return 0;
	n = reader__link(pid, "exe", program, sizeof(program));
	if (n > (ssize_t)suffix && !strcmp(program + n - suffix, DELETED))
		program[n - suffix] = '\0';
	for (unsigned i = 1; getline(&line, &size, f) >= 0; i++) {
		if (!(i % LINES_AT_ONCE) && !time_budget__has_time())
			break;
		take_line(line, program, c, &cnt);
	}
	free(line);
	fclose(f);
	return cnt;
}

/* Reads the file's bytes at an address. Returns false if there are none. */
static bool read_at(struct elf_file *f, uint64_t vaddr, void *buf, size_t len)
{
	const Elf64_Phdr *p = elf_file_segment(f, vaddr, len, 0);

	return p && !elf_file_read_at(f, vaddr - p->p_vaddr + p->p_offset, buf, len, "Python");
}

/* From 3.13 on the runtime contains its layout, from 3.11 on its version. Before, the file name has
 * the version. */
static int read_layout(struct elf_file *f, const Elf64_Sym *runtime, const char *path,
		       struct python_layout *l, char *why, size_t why_size)
{
	const Elf64_Sym *sym = elf_file_symbol(f, "Py_Version");
	uint8_t debug[PYTHON_DEBUG_SZ];
	uint64_t version = 0;
	int minor;

	if (read_at(f, runtime->st_value, debug, sizeof(debug)) && !memcmp(debug, "xdebugpy", 8))
		return python_layout_read(debug, sizeof(debug), l, why, why_size);
	if (sym && read_at(f, sym->st_value, &version, sizeof(version))) {
		minor = version >> 24 == 3 ? (int)(version >> 16 & 255) : -1;
		if ((version & 0xff) < 0xc0)
			minor = -1;
	} else {
		minor = python_minor_of_file(path);
		if (minor > 10)
			minor = -1;
	}
	if (minor >= 0 && python_layout_of(minor, l))
		return 0;
	if (minor >= 0)
		snprintf(why, why_size, "Python 3.%d is not supported (CPython 3.8 to 3.14 is)",
			 minor);
	else
		snprintf(why, why_size, "its version of Python cannot be found");
	return -EINVAL;
}

/* Returns the file offset of the function that frees code objects: PyTypeObject.tp_dealloc of
 * PyCode_Type, at offset 48 in all versions. Uses only the file, because a process's memory is
 * untrusted and the probe goes into the file. 0: not found. */
#define TP_DEALLOC 48
static uint64_t find_free(struct elf_file *f)
{
	const Elf64_Sym *type = elf_file_symbol(f, "PyCode_Type");
	uint64_t at = type ? elf_file_word(f, type->st_value + TP_DEALLOC) : 0;
	const Elf64_Phdr *p = at ? elf_file_segment(f, at, 1, PF_X) : NULL;

	return p ? at - p->p_vaddr + p->p_offset : 0;
}

/* Finds the runtime in a file whose byte at first->off is mapped at first->start. */
static int read_file(int fd, const char *path, const struct python_map *first,
		     struct python_location *place, char *why, size_t why_size)
{
	struct elf_file *f = calloc(1, sizeof(*f));
	const Elf64_Sym *runtime;
	char err[256];
	uint64_t bias;
	int ret = -ENOENT;

	if (!f)
		return -ENOENT;
	*f = (struct elf_file){.fd = fd, .program = true, .err = err, .err_size = sizeof(err)};
	if (!elf_file__read(f)) {
		runtime = elf_file_symbol(f, "_PyRuntime");
		if (runtime && elf_file_bias(f, first->start, first->off, &bias)) {
			ret = read_layout(f, runtime, path, &place->layout, why, why_size);
			place->layout.bpf.runtime = bias + runtime->st_value;
			place->free_off = find_free(f);
		}
	}
	if (!ret && !place->free_off) {
		snprintf(why, why_size, "the function that frees its code is not found");
		ret = -EINVAL;
	}
	elf_file__free(f);
	return ret;
}

static int open_candidate(pid_t pid, const struct candidate *c)
{
	char path[sizeof(c->path) + 64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid,
		 c->first.start, c->first.end);
	fd = reader__open(pid, path, 0);
	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, c->path);
	return reader__open(pid, path, 0);
}

/* No file has a CPython runtime (3.7 is the first with one). Checks by name whether one of the
 * files is another interpreter. A file named like a CPython with a runtime could not be read. */
static int find_other(const struct candidate *c, unsigned cnt, char *why, size_t why_size)
{
	char name[64];

	for (unsigned i = 0; i < cnt; i++) {
		if (!python_name_of_file(c[i].path, name, sizeof(name)) ||
		    !strcmp(name, "Python 3") || python_minor_of_file(c[i].path) > 6)
			continue;
		snprintf(why, why_size, "%s is not supported (CPython 3.8 to 3.14 is)", name);
		return -EINVAL;
	}
	return -ENOENT;
}

int python__find(pid_t pid, struct python_location *place, int *file, char *why, size_t why_size)
{
	struct candidate *c = calloc(FILES_MAX, sizeof(*c));
	unsigned cnt = c ? find_candidates(pid, c) : 0;
	int ret = -ENOENT, fd;

	memset(place, 0, sizeof(*place));
	for (unsigned i = 0; i < cnt && ret == -ENOENT; i++) {
		fd = open_candidate(pid, &c[i]);
		if (fd < 0)
			continue;
		ret = read_file(fd, c[i].path, &c[i].first, place, why, why_size);
		place->start = c[i].first.start;
		place->end = c[i].end;
		if (!ret && file)
			*file = fd;
		else
			close(fd);
	}
	if (ret == -ENOENT)
		ret = find_other(c, cnt, why, why_size);
	free(c);
	return ret;
}
