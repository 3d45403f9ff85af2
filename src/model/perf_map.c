/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "perf_map.h"

#include "util/limits.h"
#include "util/reader.h"
#include "util/time_budget.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Python with PyTorch has some 20,000 functions. */
#define ROWS_MAX    262144
#define BYTES_MAX   (64u << 20)
#define NAME_MAX_SZ 512
/* Start, size and name; the rest of a longer line is dropped. */
#define LINE_SZ	 640
#define CHUNK_SZ 65536
/* Overhead of malloc() per name. */
#define ROW_NAME_SZ 16

struct row {
	uint64_t start, size;
	char *name;
};

struct perf_map {
	uint32_t pid;
	FILE *f;      /* stays readable after the process has ended */
	size_t bytes; /* read so far, holes of the file included */
	char line[LINE_SZ];
	size_t line_len; /* of the unfinished last line */
	struct row *rows;
	size_t cnt, cap;
	struct quota *quota;
	struct quota_share share;
	bool full; /* the limit is reached: nothing more is read */
};

struct perf_map *perf_map__new(uint32_t pid, struct quota *quota)
{
	struct perf_map *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->pid = pid;
	m->quota = quota;
	return m;
}

void perf_map__free(struct perf_map *m)
{
	if (!m)
		return;
	if (m->f)
		fclose(m->f);
	for (size_t i = 0; i < m->cnt; i++)
		free(m->rows[i].name);
	free(m->rows);
	quota__give(m->quota, &m->share, m->share.used);
	free(m);
}

/* Reads the process's user, and its ID in its own namespace. */
static bool read_status(uint32_t pid, uid_t *uid, uint32_t *own_pid)
{
	unsigned found = 0, id;
	char line[256];
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%u/status", pid);
	f = fopen(line, "re");
	if (!f)
		return false;
	*own_pid = pid;
	while (fgets(line, sizeof(line), f)) {
		const char *last = strrchr(line, '\t');

		if (sscanf(line, "Uid:\t%*u\t%u", &id) == 1) {
			*uid = id;
			found++;
		} else if (!strncmp(line, "NSpid:", 6) && last) {
			*own_pid = strtoul(last, NULL, 10);
		}
	}
	fclose(f);
	return found == 1;
}

/* Any user can create a file in /tmp, so the file must belong to the process's user. */
static void open_file(struct perf_map *m)
{
	char path[96];
	struct stat st;
	uint32_t own;
	uid_t uid;
	int fd;

	if (!read_status(m->pid, &uid, &own))
		return;
	snprintf(path, sizeof(path), "/proc/%u/root/tmp/perf-%u.map", m->pid, own);
	fd = reader__open(m->pid, path, O_NOFOLLOW);
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && st.st_uid == uid && !(st.st_mode & 022))
		m->f = fdopen(fd, "r");
	if (!m->f)
		close(fd);
}

static void take_line(struct perf_map *m, const char *line)
{
	uint64_t start, size;
	struct row *rows;
	int at = 0;

	if (sscanf(line, "%" SCNx64 " %" SCNx64 " %n", &start, &size, &at) != 2 || !at || !line[at])
		return;
	/* Charge twice the row, because the array doubles. */
	if (!quota__take(m->quota, &m->share,
			 2 * sizeof(*rows) + ROW_NAME_SZ + strnlen(line + at, NAME_MAX_SZ))) {
		m->full = true;
		return;
	}
	if (m->cnt == m->cap) {
		size_t cap = m->cap ? 2 * m->cap : 256;

		rows = reallocarray(m->rows, cap, sizeof(*rows));
		if (!rows)
			return;
		m->rows = rows;
		m->cap = cap;
	}
	m->rows[m->cnt].start = start;
	m->rows[m->cnt].size = size;
	m->rows[m->cnt].name = strndup(line + at, NAME_MAX_SZ);
	m->cnt += m->rows[m->cnt].name != NULL;
}

static void take_bytes(struct perf_map *m, const char *at, size_t len)
{
	const char *end = at + len;

	while (at < end && !m->full) {
		const char *newline = memchr(at, '\n', end - at);
		size_t part = (newline ? newline : end) - at, room = LINE_SZ - 1 - m->line_len;

		memcpy(m->line + m->line_len, at, part < room ? part : room);
		m->line_len += part < room ? part : room;
		at += part;
		if (!newline)
			return;
		at++;
		m->line[m->line_len] = '\0';
		m->line_len = 0;
		take_line(m, m->line);
	}
}

/* The program appends to the file; its last line may be incomplete. The program chooses the sizes
 * of the file, its holes and its lines: reading stops at a size, and continues in the next call
 * when the time is used up. */
static void read_more(struct perf_map *m)
{
	static char buf[CHUNK_SZ];
	size_t len;

	clearerr(m->f);
	while (!m->full && time_budget__has_time() &&
	       (len = fread(buf, 1, sizeof(buf), m->f)) > 0) {
		take_bytes(m, buf, len);
		m->bytes += len;
		if (!m->full && (m->bytes >= BYTES_MAX || m->cnt >= ROWS_MAX)) {
			quota__full(m->quota);
			m->full = true;
		}
	}
}

/* Use the last entry for an address, because memory is reused. */
static const struct row *last_row(const struct perf_map *m, uint64_t addr)
{
	for (size_t i = m->cnt; i-- > 0;)
		if (addr >= m->rows[i].start && addr - m->rows[i].start < m->rows[i].size)
			return &m->rows[i];
	return NULL;
}

const char *perf_map__find(struct perf_map *m, uint64_t addr, uint64_t *start)
{
	const struct row *row;
	struct work w;

	if (reader__begin(&w, (pid_t)m->pid, WORK_SYMBOLS))
		return NULL;
	if (!m->f)
		open_file(m);
	if (m->f)
		read_more(m);
	row = last_row(m, addr);
	time_budget__end(&w);
	if (!row)
		return NULL;
	*start = row->start;
	return row->name;
}
