/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The target controls the text of /proc/PID/maps and the files that it names. Files are opened
 * through the target's root, which also finds those of a container and replaced ones.
 */
#include "modules.h"

#include "perf_map.h"

#include "util/clock.h"
#include "util/demangle.h"
#include "util/hash_table.h"
#include "util/limits.h"
#include "util/order.h"
#include "util/reader.h"
#include "util/symbols.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX     1024 /* each has an open descriptor */
#define MAPS_MAX      65536
#define MAPS_SZ_MAX   (64u << 20)
#define LINES_AT_ONCE 256
/* If an address is not mapped even after reading the mappings again, the next try for its page
 * waits: code without frame pointers has arbitrary addresses, usually the same one. After VAIN_MAX
 * such pages, all others wait too. */
#define AGAIN_NS   1000000000ull
#define VAIN_MAX   8
#define PAGE_SHIFT 12
#define DELETED	   " (deleted)"

struct path {
	struct hash_link link;
	char text[];
};
HASH_TABLE_TYPE(path);
HASH_TABLE_BYTES(path, text);

/* Identity of a file, which changes when it is overwritten. */
struct file_id {
	uint64_t dev, ino, size, sec, nsec;
};

struct file {
	struct hash_link link;
	struct file_id id;
	struct symbols *symbols;
	unsigned refs; /* modules that have used it; at 0 it stays until memory is needed */
};
HASH_TABLE(file, id);

struct module_files {
	enum ct_redact redact;
	struct file_table by_id;
	struct quotas *quotas;
};

struct map {
	uint64_t start, end, off, ino;
	const char *path; /* "[anon]" and similar names have no leading / */
	const struct file *file;
	bool is_file;
	bool tried; /* opening it was tried */
};

struct modules {
	struct module_files *files;
	uint32_t pid;	  /* 0: its memory cannot be read */
	struct map *maps; /* by address */
	unsigned cnt, cap;
	uint64_t read_ns; /* CLOCK_MONOTONIC; 0: never */
	uint64_t wait_ns; /* no retry before then */
	/* Pages that are not mapped, with the time before which they are not retried. */
	struct {
		uint64_t page, wait_ns;
	} vain[VAIN_MAX];
	unsigned vain_cnt; /* since all pages waited last */
	struct perf_map *perf;
	struct demangle_share demangling;
	struct path_table paths;
	struct quota_share paths_share;
	struct quota_share symbols_share; /* for all files that it uses */
	struct file **used;		  /* each once */
	unsigned used_cnt, used_cap;
};

struct module_files *module_files__new(struct quotas *q, enum ct_redact redact)
{
	struct module_files *f = calloc(1, sizeof(*f));

	if (f)
		*f = (struct module_files){.quotas = q, .redact = redact};
	return f;
}

static void free_file(struct module_files *f, struct file *file)
{
	file_table__del(&f->by_id, file);
	quota__give(quotas__get(f->quotas, QUOTA_SYMBOLS), NULL, symbols__size(file->symbols));
	symbols__free(file->symbols);
	free(file);
}

void module_files__free(struct module_files *f)
{
	if (!f)
		return;
	hash_each (file, &f->by_id)
		free_file(f, file);
	free(f);
}

struct modules *modules__new(struct module_files *files, uint32_t pid)
{
	struct modules *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->files = files;
	m->pid = pid;
	m->perf = perf_map__new(pid, quotas__get(files->quotas, QUOTA_PERF_MAPS));
	if (m->perf)
		return m;
	free(m);
	return NULL;
}

void modules__free(struct modules *m)
{
	if (!m)
		return;
	perf_map__free(m->perf);
	path_table__free(&m->paths);
	quota__give(quotas__get(m->files->quotas, QUOTA_PATHS), &m->paths_share,
		    m->paths_share.used);
	for (unsigned i = 0; i < m->used_cnt; i++)
		m->used[i]->refs--;
	free(m->used);
	free(m->maps);
	free(m);
}

static const char *keep_path(struct modules *m, const char *text)
{
	struct quota *q = quotas__get(m->files->quotas, QUOTA_PATHS);
	size_t len = strlen(text);
	struct path *path = path_table__find(&m->paths, text, len);

	if (path)
		return path->text;
	if (!quota__take(q, &m->paths_share, sizeof(*path) + len + 1))
		return "[too many files]";
	path = malloc(sizeof(*path) + len + 1);
	if (path) {
		memcpy(path->text, text, len + 1);
		if (!path_table__add(&m->paths, path, len))
			return path->text;
	}
	free(path);
	quota__give(q, &m->paths_share, sizeof(*path) + len + 1);
	return "[too many files]";
}

/* The kernel writes a newline in a name as \012. */
static void clean_path(char *s)
{
	size_t len = strlen(s), suffix = strlen(DELETED);
	char *p = s;

	if (len > suffix && !strcmp(s + len - suffix, DELETED))
		s[len - suffix] = '\0';
	while ((p = strstr(p, "\\012"))) {
		*p = '\n';
		memmove(p + 1, p + 4, strlen(p + 4) + 1);
	}
}

static const char hidden_path[] = "[file]";

/* /dev/zero is anonymous memory that children share. */
static bool is_file(const char *path)
{
	return *path == '/' && strncmp(path, "/dev/zero", strlen("/dev/zero"));
}

/* Names in brackets are the kernel's, except [anon:...], which the program chooses. */
static const char *name_of(struct modules *m, char *path)
{
	static const char *const own[] = {"[vdso]", "[vsyscall]", "[uprobes]", "[stack]", "[heap]"};

	if (is_file(path)) {
		if (m->files->redact)
			return hidden_path;
		clean_path(path);
		return keep_path(m, path);
	}
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!strcmp(path, own[i]))
			return own[i];
	return "[anon]";
}

static bool parse(struct modules *m, char *line, struct map *map)
{
	char perms[5];
	int at = 0;

	line[strcspn(line, "\n")] = '\0';
	*map = (struct map){0};
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n",
		   &map->start, &map->end, perms, &map->off, &map->ino, &at) != 5)
		return false;
	if (!at || !strchr(perms, 'x') || map->start >= map->end)
		return false;
	map->path = name_of(m, line + at);
	map->is_file = *map->path == '/' || map->path == hidden_path;
	return true;
}

static void give_maps(struct modules *m, struct map *maps, unsigned cap)
{
	quota__give(quotas__get(m->files->quotas, QUOTA_PATHS), &m->paths_share,
		    cap * sizeof(*maps));
	free(maps);
}

/* Doubles the capacity. Returns false at the limit. */
static bool grow_maps(struct modules *m, struct map **maps, unsigned *cap)
{
	unsigned more = *cap ? *cap : 64;
	struct quota *q = quotas__get(m->files->quotas, QUOTA_PATHS);
	struct map *grown;

	if (!quota__take(q, &m->paths_share, more * sizeof(*grown)))
		return false;
	grown = reallocarray(*maps, *cap + more, sizeof(*grown));
	if (!grown) {
		quota__give(q, &m->paths_share, more * sizeof(*grown));
		return false;
	}
	*maps = grown;
	*cap += more;
	return true;
}

static void read_maps(struct modules *m)
{
	/* Read the clock first: a call that ends during the reading may refer to newer mappings. */
	uint64_t began = now_ns();
	int fd = m->pid ? reader__copy(m->pid, "maps", MAPS_SZ_MAX) : -ENOENT;
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	bool is_gone = f || fd == -ENOENT || fd == -ESRCH;
	unsigned cnt = 0, cap = 0;
	struct map *maps = NULL, map;
	char *line = NULL;
	size_t size = 0;

	m->read_ns = began;
	/* Without time left, the first mappings are used. */
	for (unsigned i = 1; f && cnt < MAPS_MAX && getline(&line, &size, f) >= 0; i++) {
		if (!(i % LINES_AT_ONCE) && !time_budget__has_time())
			break;
		if (!parse(m, line, &map))
			continue;
		if (cnt == cap && !grow_maps(m, &maps, &cap))
			break;
		maps[cnt++] = map;
	}
	free(line);
	if (f)
		fclose(f);
	/* Keep the old mappings: the process has ended, or the file could not be read now. */
	if (!cnt) {
		give_maps(m, maps, cap);
		m->wait_ns = is_gone ? UINT64_MAX : began + AGAIN_NS;
		return;
	}
	give_maps(m, m->maps, m->cap);
	m->maps = maps;
	m->cnt = cnt;
	m->cap = cap;
}

void modules__read(struct modules *m)
{
	struct work w;

	if (reader__begin(&w, (pid_t)m->pid, WORK_SYMBOLS))
		return;
	read_maps(m);
	time_budget__end(&w);
}

static struct map *map_at(const struct modules *m, uint64_t addr)
{
	unsigned n = COUNT_LEADING(i, m->cnt, m->maps[i].end <= addr);

	return n < m->cnt && m->maps[n].start <= addr ? &m->maps[n] : NULL;
}

static bool was_in_vain(const struct modules *m, uint64_t addr, uint64_t ns)
{
	for (unsigned i = 0; i < VAIN_MAX; i++)
		if (m->vain[i].page == addr >> PAGE_SHIFT && ns < m->vain[i].wait_ns)
			return true;
	return false;
}

static void note_vain(struct modules *m, uint64_t addr, uint64_t ns)
{
	m->vain[m->vain_cnt].page = addr >> PAGE_SHIFT;
	m->vain[m->vain_cnt].wait_ns = ns + AGAIN_NS;
	if (++m->vain_cnt < VAIN_MAX)
		return;
	m->vain_cnt = 0;
	m->wait_ns = ns + AGAIN_NS;
}

/* Finds the mapping of addr, reading the mappings again if needed. */
static struct map *find_map(struct modules *m, uint64_t addr, uint64_t ns)
{
	struct map *map = map_at(m, addr);

	if (map || (m->read_ns && ns <= m->read_ns) || ns < m->wait_ns || was_in_vain(m, addr, ns))
		return map;
	modules__read(m);
	map = map_at(m, addr);
	if (!map && m->wait_ns != UINT64_MAX)
		note_vain(m, addr, ns);
	return map;
}

/* Opens the file if its inode is ino (0: any). Devices are not compared: maps and stat() disagree
 * on some file systems. */
static int open_as(const struct modules *m, const char *path, uint64_t ino, struct stat *st)
{
	int fd = reader__open(m->pid, path, 0);

	if (fd < 0)
		return -1;
	if (!fstat(fd, st) && (!ino || st->st_ino == ino))
		return fd;
	close(fd);
	return -1;
}

static int open_map(const struct modules *m, const struct map *map, struct stat *st)
{
	char path[4096 + 64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, m->pid, map->start,
		 map->end);
	fd = open_as(m, path, 0, st);
	if (fd >= 0 || m->files->redact)
		return fd;
	snprintf(path, sizeof(path), "/proc/%u/root%s", m->pid, map->path);
	fd = open_as(m, path, map->ino, st);
	return fd >= 0 ? fd : open_as(m, map->path, map->ino, st);
}

/* Drops files that no module uses. */
static void drop_unused(struct module_files *f)
{
	hash_each (file, &f->by_id)
		if (!file->refs)
			free_file(f, file);
}

static struct file *use(struct modules *m, struct file *file)
{
	for (unsigned i = 0; i < m->used_cnt; i++)
		if (m->used[i] == file)
			return file;
	if (m->used_cnt == m->used_cap) {
		unsigned cap = m->used_cap ? 2 * m->used_cap : 16;
		struct file **used = reallocarray(m->used, cap, sizeof(*used));

		if (!used)
			return NULL;
		m->used = used;
		m->used_cap = cap;
	}
	m->used[m->used_cnt++] = file;
	m->symbols_share.used += symbols__size(file->symbols);
	file->refs++;
	return file;
}

/* use() charges the process's share, so it does not depend on the process that loaded the file. */
static bool has_room(struct modules *m, size_t size)
{
	struct quota *q = quotas__get(m->files->quotas, QUOTA_SYMBOLS);
	struct quota_share s = m->symbols_share;

	if (q && q->max - q->used < s.used + size)
		drop_unused(m->files);
	return quota__take(q, &s, size);
}

static struct file *read_file(struct modules *m, const struct file_id *id, int fd)
{
	struct file *file = calloc(1, sizeof(*file));
	struct module_files *f = m->files;

	if (!file) {
		close(fd);
		return NULL;
	}
	file->id = *id;
	file->symbols = f->redact ? symbols__read_nameless(fd) : symbols__read(fd);
	if (!file->symbols) {
		free(file);
		return NULL;
	}
	if (!has_room(m, symbols__size(file->symbols)))
		goto err;
	if (!file_table__add(&f->by_id, file))
		return file;
	quota__give(quotas__get(f->quotas, QUOTA_SYMBOLS), NULL, symbols__size(file->symbols));
err:
	symbols__free(file->symbols);
	free(file);
	return NULL;
}

/* As in all tables, no process has more files than are left free. */
static bool has_place(const struct modules *m)
{
	return hash_cnt(&m->files->by_id) + m->used_cnt < FILES_MAX;
}

static void find_file(struct modules *m, struct map *map)
{
	struct module_files *files = m->files;
	struct file_id id;
	struct file *file;
	struct stat st;
	int fd;

	map->tried = true;
	fd = open_map(m, map, &st);
	if (fd < 0)
		return;
	memset(&id, 0, sizeof(id));
	id = (struct file_id){st.st_dev, st.st_ino, st.st_size, st.st_mtim.tv_sec,
			      st.st_mtim.tv_nsec};
	file = file_table__find(&files->by_id, &id);
	if (!file && !has_place(m))
		drop_unused(files);
	if (file || !has_place(m)) {
		close(fd);
		if (!file)
			quota__full(quotas__get(files->quotas, QUOTA_SYMBOLS));
	} else {
		file = read_file(m, &id, fd);
	}
	map->file = file ? use(m, file) : NULL;
}

static const struct file *file_of(struct modules *m, struct map *map)
{
	struct work w;

	if (map->tried || !map->is_file || reader__begin(&w, (pid_t)m->pid, WORK_SYMBOLS))
		return map->file;
	find_file(m, map);
	time_budget__end(&w);
	return map->file;
}

static void put_symbol(struct modules *m, char **symbol, const char *name, uint64_t off)
{
	char *clear = demangle(name, &m->demangling);

	if (asprintf(symbol, "%s+0x%" PRIx64, clear ? clear : name, off) < 0)
		*symbol = NULL;
	free(clear);
}

void modules__resolve(struct modules *m, struct stack_frame *frame, bool is_return, uint64_t ns,
		      char **symbol)
{
	/* Look up the call, not the return address, which may be the first byte of the next
	 * function. */
	uint64_t call = frame->ip - is_return, start, addr;
	const struct file *file;
	char name[1024];
	const char *made;
	struct map *map;

	*symbol = NULL;
	map = find_map(m, call, ns);
	if (!map)
		return;
	frame->module = map->path;
	frame->offset = frame->ip - map->start + map->off;
	file = file_of(m, map);
	if (file && symbols__address(file->symbols, call - map->start + map->off, &addr)) {
		frame->offset = addr + is_return;
		if (symbols__build_id(file->symbols)[0])
			frame->build_id = symbols__build_id(file->symbols);
		if (symbols__find(file->symbols, addr, name, sizeof(name), &start))
			put_symbol(m, symbol, name, frame->offset - start);
		return;
	}
	made = map->is_file || m->files->redact ? NULL : perf_map__find(m->perf, call, &start);
	if (made)
		put_symbol(m, symbol, made, frame->ip - start);
}
