/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "perf_map.h"

#include "util/quota.h"
#include "util/reader.h"

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
/* Overhead of malloc() per name. */
#define ROW_NAME_SZ 16

struct row {
	uint64_t start, size;
	char *name;
};

struct perf_map {
	uint32_t pid;
	FILE *f; /* stays readable after the process has ended */
	size_t bytes;
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

/* Anyone can create a file in /tmp, so the file must belong to the process's user. */
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

/* The program appends whole lines, but the last may be incomplete. */
static void read_more(struct perf_map *m)
{
	char line[4096];
	size_t len;

	clearerr(m->f);
	while (!m->full && m->cnt < ROWS_MAX && m->bytes < BYTES_MAX &&
	       fgets(line, sizeof(line), m->f)) {
		len = strlen(line);
		if (!len || line[len - 1] != '\n') {
			if (feof(m->f)) {
				fseek(m->f, -(long)len, SEEK_CUR);
				return;
			}
			m->bytes += len;
			continue;
		}
		m->bytes += len;
		line[len - 1] = '\0';
		take_line(m, line);
	}
}

const char *perf_map__find(struct perf_map *m, uint64_t addr, uint64_t *start)
{
	if (!m->f)
		open_file(m);
	if (!m->f)
		return NULL;
	read_more(m);
	/* Use the last entry for an address, because memory is reused. */
	for (size_t i = m->cnt; i-- > 0;) {
		if (addr < m->rows[i].start || addr - m->rows[i].start >= m->rows[i].size)
			continue;
		*start = m->rows[i].start;
		return m->rows[i].name;
	}
	return NULL;
}
