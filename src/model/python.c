/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "python.h"

#include "util/hash_table.h"
#include "util/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a string or a line table that are read at once; few are longer. */
#define TEXT_SZ	 256
#define TABLE_SZ 2048
/* In bytes. Longer strings are cut; a longer line table is not used. */
#define FUNCTION_SZ_MAX 1024
#define FILE_SZ_MAX	4096
#define TABLE_SZ_MAX	(256u << 10)
/* Number of code objects that are read together: three parts each. */
#define AT_ONCE 64

/* Parts of a code object. */
enum { FILE_PART, FUNCTION_PART, TABLE_PART, PARTS };

struct code_key {
	uint64_t addr;
	uint32_t id, pad;
};

struct code_row {
	struct hash_link link;
	struct code_key key;
	uint64_t at[PARTS];
	int32_t first_line;
	bool is_read;
	char *function, *file; /* NULL: could not be read, or redacted */
	uint8_t *table;
	size_t table_sz;
};
HASH_TABLE(code_row, key);

struct python_codes {
	uint32_t pid;
	struct python_location place;
	enum ct_redact redact;
	const struct python_check *check;
	struct code_row_table rows;
	size_t bytes;
};

struct python_codes *python_codes__new(uint32_t pid, const struct python_location *place,
				       enum ct_redact redact, const struct python_check *check)
{
	struct python_codes *c = calloc(1, sizeof(*c));

	if (c)
		*c = (struct python_codes){
			.pid = pid, .place = *place, .redact = redact, .check = check};
	return c;
}

/* Frees what was read. */
static void clear_row(struct python_codes *c, struct code_row *row)
{
	c->bytes -= row->table_sz + (row->file ? strlen(row->file) : 0) +
		    (row->function ? strlen(row->function) : 0);
	free(row->function);
	free(row->file);
	free(row->table);
	row->function = row->file = NULL;
	row->table = NULL;
	row->table_sz = 0;
	row->is_read = false;
}

static void drop(struct python_codes *c, struct code_row *row)
{
	code_row_table__del(&c->rows, row);
	clear_row(c, row);
	c->bytes -= sizeof(*row);
	free(row);
}

void python_codes__clear(struct python_codes *c)
{
	hash_each (row, &c->rows)
		drop(c, row);
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

const struct python_location *python_codes__place(const struct python_codes *c)
{
	return &c->place;
}

static struct code_row *find(const struct python_codes *c, uint64_t addr, uint32_t id)
{
	struct code_key key = {.addr = addr, .id = id};

	return code_row_table__find(&c->rows, &key);
}

static struct code_row *add(struct python_codes *c, uint64_t addr, uint32_t id)
{
	struct code_key key = {.addr = addr, .id = id};
	struct code_row *row = code_row_table__new(&c->rows, &key);

	if (row)
		c->bytes += sizeof(*row);
	return row;
}

/* Returns whether everything read from memory so far belongs to this code object. */
static bool is_there(const struct python_codes *c, const struct code_row *row)
{
	return !row->key.id || !c->check || !c->check->is_there ||
	       c->check->is_there(c->check->ctx, c->pid, row->key.addr, row->key.id);
}

static uint64_t word_at(const uint8_t *p, size_t off)
{
	uint64_t word;

	memcpy(&word, p + off, sizeof(word));
	return word;
}

static void take_code(const struct python_layout *l, const uint8_t *code, struct code_row *row)
{
	row->at[FILE_PART] = word_at(code, l->filename);
	row->at[FUNCTION_PART] = word_at(code, l->qualname ? l->qualname : l->name);
	row->at[TABLE_PART] = word_at(code, l->table);
	memcpy(&row->first_line, code + l->first_line, sizeof(row->first_line));
}

/* One part of a code object. */
struct part {
	struct reader_range range;
	const uint8_t *data;
};

/* Reads a part that is longer than the size read for all. The caller frees the result. */
static uint8_t *read_long(const struct python_codes *c, const struct code_row *row, uint64_t addr,
			  size_t len)
{
	struct reader_range r = {.addr = addr, .len = len};
	uint8_t *buf = malloc(len);

	if (buf && !reader__memory(c->pid, &r, 1, buf) && r.got == len && is_there(c, row))
		return buf;
	free(buf);
	return NULL;
}

/* Returns NULL if it is not a readable string. */
static char *text_of(const struct python_codes *c, const struct code_row *row, const struct part *p,
		     size_t max)
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
		text = more = read_long(c, row, p->range.addr + str.off, want);
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
		row->table = read_long(c, row, p->range.addr + PYTHON_BYTES_SZ, len);
	} else {
		row->table = malloc(len + 1);
		if (row->table)
			memcpy(row->table, p->data + PYTHON_BYTES_SZ, len);
	}
	row->table_sz = row->table ? len : 0;
}

static void take_parts(struct python_codes *c, struct code_row *row, const struct part p[PARTS])
{
	take_table(c, row, &p[TABLE_PART]);
	row->is_read = c->redact && row->table;
	if (!c->redact) {
		row->file = text_of(c, row, &p[FILE_PART], FILE_SZ_MAX);
		row->function = text_of(c, row, &p[FUNCTION_PART], FUNCTION_SZ_MAX);
		row->is_read = row->file && row->function;
	}
	c->bytes += row->table_sz + (row->file ? strlen(row->file) : 0) +
		    (row->function ? strlen(row->function) : 0);
}

/* Reads the parts of at most AT_ONCE code objects. */
static void read_parts(struct python_codes *c, struct code_row *const *rows, unsigned cnt)
{
	static const uint32_t sizes[PARTS] = {PYTHON_STR_SZ + TEXT_SZ, PYTHON_STR_SZ + TEXT_SZ,
					      PYTHON_BYTES_SZ + TABLE_SZ};
	static uint8_t buf[AT_ONCE * (2 * (PYTHON_STR_SZ + TEXT_SZ) + PYTHON_BYTES_SZ + TABLE_SZ)];
	struct reader_range ranges[PARTS * AT_ONCE];
	const uint8_t *data = buf;

	for (unsigned i = 0; i < PARTS * cnt; i++) {
		bool wanted = !c->redact || i % PARTS == TABLE_PART;

		ranges[i] = (struct reader_range){rows[i / PARTS]->at[i % PARTS],
						  wanted ? sizes[i % PARTS] : 0, 0};
	}
	if (reader__memory(c->pid, ranges, PARTS * cnt, buf))
		return;
	for (unsigned i = 0; i < cnt; i++) {
		struct part p[PARTS];

		for (unsigned k = 0; k < PARTS; k++) {
			p[k] = (struct part){ranges[PARTS * i + k], data};
			data += p[k].range.len;
		}
		take_parts(c, rows[i], p);
		if (!is_there(c, rows[i]))
			clear_row(c, rows[i]);
	}
}

/* Collects the unknown code objects, each once. Those without a number are read each time. */
static unsigned missing(struct python_codes *c, const struct ct_python_frame *frames, unsigned cnt,
			struct code_row **rows)
{
	unsigned n = 0, k;

	for (unsigned i = 0; i < cnt; i++) {
		struct code_row *row = find(c, frames[i].code, frames[i].id);

		for (k = 0; k < n && rows[k] != row; k++)
			;
		if (row && (row->key.id || k < n))
			continue;
		if (row)
			drop(c, row);
		row = add(c, frames[i].code, frames[i].id);
		if (row)
			rows[n++] = row;
	}
	return n;
}

bool python_codes__read(struct python_codes *c, const struct ct_python_frame *frames, unsigned cnt)
{
	uint32_t size = c->place.layout.code_sz;
	static uint8_t buf[CT_PYTHON_MAX * PYTHON_CODE_SZ_MAX];
	struct reader_range ranges[CT_PYTHON_MAX];
	struct code_row *rows[CT_PYTHON_MAX], *fresh[AT_ONCE];
	unsigned n, fresh_cnt = 0;

	if (cnt > CT_PYTHON_MAX)
		cnt = CT_PYTHON_MAX;
	if (hash_cnt(&c->rows) + cnt > PYTHON_CODES_MAX)
		return false;
	n = missing(c, frames, cnt, rows);
	for (unsigned i = 0; i < n; i++)
		ranges[i] = (struct reader_range){rows[i]->key.addr, size, 0};
	if (!n || reader__memory(c->pid, ranges, n, buf))
		return true;
	for (unsigned i = 0; i < n; i++) {
		if (ranges[i].got == size) {
			take_code(&c->place.layout, buf + i * size, rows[i]);
			fresh[fresh_cnt++] = rows[i];
		}
		if (fresh_cnt == AT_ONCE || (fresh_cnt && i == n - 1)) {
			read_parts(c, fresh, fresh_cnt);
			fresh_cnt = 0;
		}
	}
	return true;
}

int python_codes__add_record(struct python_codes *c, const struct ct_python_code *rec)
{
	struct code_row *row = find(c, rec->code, rec->id);
	const struct part p[PARTS] = {
		[FILE_PART] = {{rec->file_at, sizeof(rec->file), rec->file_sz}, rec->file},
		[FUNCTION_PART] = {{rec->function_at, sizeof(rec->function), rec->function_sz},
				   rec->function},
		[TABLE_PART] = {{rec->table_at, sizeof(rec->table), rec->table_sz}, rec->table},
	};
	bool was_there = row;

	if (row && row->is_read)
		return 0;
	if (!row && hash_cnt(&c->rows) >= PYTHON_CODES_MAX)
		return -ENOSPC;
	row = row ?: add(c, rec->code, rec->id);
	if (!row)
		return -ENOMEM;
	clear_row(c, row);
	row->first_line = rec->first_line;
	take_parts(c, row, p);
	return was_there && row->is_read;
}

bool python_codes__frame(const struct python_codes *c, const struct ct_python_frame *from,
			 struct stack_frame *to)
{
	const struct python_layout *l = &c->place.layout;
	const struct code_row *row = find(c, from->code, from->id);

	*to = (struct stack_frame){.python = 1};
	if (!row || !row->is_read) {
		to->ip = from->code;
		return false;
	}
	to->symbol = row->function;
	to->module = c->redact ? "[file]" : row->file;
	if (row->table)
		to->line = python_line(l, row->table, row->table_sz, row->first_line,
				       python_offset(l, from->off));
	return true;
}
