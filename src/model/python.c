/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "python.h"

#include "util/reader.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

/* Of a string or a line table that much is read at once; few are longer. */
#define TEXT_SZ	 256
#define TABLE_SZ 2048
/* In bytes. What is longer is cut; a line table that is has no lines. */
#define FUNCTION_SZ_MAX 1024
#define FILE_SZ_MAX	4096
#define TABLE_SZ_MAX	(256u << 10)
/* Code objects whose parts are read at once: three each. */
#define AT_ONCE 64

/* Where its parts are: what it is known by. */
struct code_ids {
	uint64_t file, function, table;
	int32_t first_line;
	uint32_t pad;
};

struct code_row {
	uint64_t addr;
	struct code_ids ids;
	bool is_read;
	char *function, *file; /* NULL: could not be read, or are hidden */
	uint8_t *table;
	size_t table_sz;
	UT_hash_handle hh;
};

struct python_codes {
	uint32_t pid;
	struct python_place place;
	enum ct_hide hide;
	struct code_row *rows;
	size_t bytes;
};

struct python_codes *python_codes__new(uint32_t pid, const struct python_place *place,
				       enum ct_hide hide)
{
	struct python_codes *c = calloc(1, sizeof(*c));

	if (c)
		*c = (struct python_codes){.pid = pid, .place = *place, .hide = hide};
	return c;
}

void python_codes__clear(struct python_codes *c)
{
	struct code_row *row, *next;

	HASH_ITER (hh, c->rows, row, next) {
		HASH_DEL(c->rows, row);
		free(row->function);
		free(row->file);
		free(row->table);
		free(row);
	}
	c->bytes = 0;
}

void python_codes__free(struct python_codes *c)
{
	if (!c)
		return;
	python_codes__clear(c);
	free(c);
}

size_t python_codes__size(const struct python_codes *c)
{
	return c->bytes;
}

bool python_codes__is_interpreter(const struct python_codes *c, uint64_t ip)
{
	return ip >= c->place.start && ip < c->place.end;
}

static struct code_row *find(const struct python_codes *c, uint64_t addr)
{
	struct code_row *row;

	HASH_FIND(hh, c->rows, &addr, sizeof(addr), row);
	return row;
}

static uint64_t word_at(const uint8_t *p, size_t off)
{
	uint64_t word;

	memcpy(&word, p + off, sizeof(word));
	return word;
}

static void ids_of(const struct python_layout *l, const uint8_t *code, struct code_ids *ids)
{
	memset(ids, 0, sizeof(*ids));
	ids->file = word_at(code, l->filename);
	ids->function = word_at(code, l->qualname ? l->qualname : l->name);
	ids->table = word_at(code, l->table);
	memcpy(&ids->first_line, code + l->first_line, sizeof(ids->first_line));
}

/* One part of a code object. */
struct part {
	struct reader_range range;
	const uint8_t *data;
};

/* Reads one thing that is longer than what is read of all. Returns its bytes, to be freed. */
static uint8_t *read_long(const struct python_codes *c, uint64_t addr, size_t len)
{
	struct reader_range r = {.addr = addr, .len = len};
	uint8_t *buf = malloc(len);

	if (buf && !reader__memory(c->pid, &r, 1, buf) && r.got == len)
		return buf;
	free(buf);
	return NULL;
}

/* NULL: it is no string that can be read. */
static char *text_of(const struct python_codes *c, const struct part *p, size_t max)
{
	const struct python_layout *l = &c->place.layout;
	struct python_str str;
	uint8_t *more = NULL;
	const uint8_t *text;
	size_t want;
	char *out;

	if (!python_str_read(l, p->data, p->range.got, &str))
		return NULL;
	if (str.len > max)
		str.len = max;
	want = str.len * str.kind;
	text = p->data + str.off;
	if (str.off + want > p->range.got) {
		text = more = read_long(c, p->range.addr + str.off, want);
		if (!more)
			return NULL;
	}
	out = malloc(4 * str.len + 5);
	if (out)
		python_str_text(&str, text, want, out, 4 * str.len + 5);
	free(more);
	if (out && strlen(out) > max)
		out[max] = '\0';
	return out;
}

static void take_table(const struct python_codes *c, struct code_row *row, const struct part *p)
{
	uint64_t len;

	if (!python_bytes_len(p->data, p->range.got, &len) || len > TABLE_SZ_MAX)
		return;
	if (PYTHON_BYTES_SZ + len > p->range.got) {
		row->table = read_long(c, p->range.addr + PYTHON_BYTES_SZ, len);
	} else {
		row->table = malloc(len + 1);
		if (row->table)
			memcpy(row->table, p->data + PYTHON_BYTES_SZ, len);
	}
	row->table_sz = row->table ? len : 0;
}

/* Up to AT_ONCE. */
static void read_parts(struct python_codes *c, struct code_row *const *rows, unsigned cnt)
{
	enum { FILE_PART, FUNCTION_PART, TABLE_PART, PARTS };
	static const uint32_t sizes[PARTS] = {PYTHON_STR_SZ + TEXT_SZ, PYTHON_STR_SZ + TEXT_SZ,
					      PYTHON_BYTES_SZ + TABLE_SZ};
	static uint8_t buf[AT_ONCE * (2 * (PYTHON_STR_SZ + TEXT_SZ) + PYTHON_BYTES_SZ + TABLE_SZ)];
	struct reader_range ranges[PARTS * AT_ONCE];
	const uint8_t *data = buf;

	for (unsigned i = 0; i < PARTS * cnt; i++) {
		const struct code_ids *ids = &rows[i / PARTS]->ids;
		const uint64_t addrs[PARTS] = {ids->file, ids->function, ids->table};
		bool wanted = !c->hide || i % PARTS == TABLE_PART;

		ranges[i] =
			(struct reader_range){addrs[i % PARTS], wanted ? sizes[i % PARTS] : 0, 0};
	}
	if (reader__memory(c->pid, ranges, PARTS * cnt, buf))
		return;
	for (unsigned i = 0; i < cnt; i++) {
		struct code_row *row = rows[i];
		struct part p[PARTS];

		for (unsigned k = 0; k < PARTS; k++) {
			p[k] = (struct part){ranges[PARTS * i + k], data};
			data += p[k].range.len;
		}
		take_table(c, row, &p[TABLE_PART]);
		row->is_read = c->hide && row->table;
		if (!c->hide) {
			row->file = text_of(c, &p[FILE_PART], FILE_SZ_MAX);
			row->function = text_of(c, &p[FUNCTION_PART], FUNCTION_SZ_MAX);
			row->is_read = row->file && row->function;
		}
		c->bytes += sizeof(*row) + row->table_sz + (row->file ? strlen(row->file) : 0) +
			    (row->function ? strlen(row->function) : 0);
	}
}

static struct code_row *add(struct python_codes *c, uint64_t addr, const uint8_t *code)
{
	struct code_row *row = calloc(1, sizeof(*row));

	if (!row)
		return NULL;
	row->addr = addr;
	if (code)
		ids_of(&c->place.layout, code, &row->ids);
	HASH_ADD(hh, c->rows, addr, sizeof(row->addr), row);
	return row;
}

/* Each once. */
static unsigned distinct(const struct ct_python_frame *frames, unsigned cnt,
			 struct reader_range *ranges, uint32_t size)
{
	unsigned n = 0, k;

	for (unsigned i = 0; i < cnt; i++) {
		for (k = 0; k < n && ranges[k].addr != frames[i].code; k++)
			;
		if (k == n)
			ranges[n++] = (struct reader_range){frames[i].code, size, 0};
	}
	return n;
}

bool python_codes__read(struct python_codes *c, const struct ct_python_frame *frames, unsigned cnt)
{
	uint32_t size = c->place.layout.code_sz;
	static uint8_t buf[CT_PYTHON_MAX * PYTHON_CODE_SZ_MAX];
	struct reader_range ranges[CT_PYTHON_MAX];
	struct code_row *fresh[AT_ONCE];
	unsigned n, fresh_cnt = 0;

	n = distinct(frames, cnt < CT_PYTHON_MAX ? cnt : CT_PYTHON_MAX, ranges, size);
	if (HASH_COUNT(c->rows) + n > PYTHON_CODES_MAX && HASH_COUNT(c->rows))
		return false;
	/* It has ended: what was known of it stays. */
	if (!n || reader__memory(c->pid, ranges, n, buf))
		return true;
	for (unsigned i = 0; i < n; i++) {
		const uint8_t *code = ranges[i].got == size ? buf + i * size : NULL;
		struct code_row *row = find(c, ranges[i].addr);
		struct code_ids ids;

		if (row) {
			if (!code)
				continue;
			ids_of(&c->place.layout, code, &ids);
			if (memcmp(&ids, &row->ids, sizeof(ids)))
				return false;
			continue;
		}
		row = add(c, ranges[i].addr, code);
		if (row && code)
			fresh[fresh_cnt++] = row;
		if (fresh_cnt == AT_ONCE || (fresh_cnt && i == n - 1)) {
			read_parts(c, fresh, fresh_cnt);
			fresh_cnt = 0;
		}
	}
	if (fresh_cnt)
		read_parts(c, fresh, fresh_cnt);
	return true;
}

bool python_codes__frame(const struct python_codes *c, const struct ct_python_frame *from,
			 struct stack_frame *to)
{
	const struct python_layout *l = &c->place.layout;
	const struct code_row *row = find(c, from->code);

	*to = (struct stack_frame){.python = 1};
	if (!row || !row->is_read) {
		to->ip = from->code;
		return false;
	}
	to->symbol = row->function;
	to->module = c->hide ? "[file]" : row->file;
	if (row->table)
		to->line = python_line(l, row->table, row->table_sz, row->ids.first_line,
				       python_offset(l, from->code, from->ip));
	return true;
}
