/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process's memory as --python reads it: code objects, strings, line tables, debug offsets. The
 * input is that memory, from address 0 on; memory after it does not exist.
 */
#include "fuzz.h"

#include <assert.h>

#include "model/python.c" /* its memory is read by the reading process; here it is passed directly */

static struct {
	const uint8_t *data;
	size_t size;
} memory;

int reader__memory(pid_t pid, struct reader_range *ranges, unsigned cnt, uint8_t *buf)
{
	(void)pid;
	assert(cnt && cnt <= READER_RANGES_MAX);
	for (unsigned i = 0; i < cnt; i++) {
		struct reader_range *r = &ranges[i];
		size_t left = r->addr < memory.size ? memory.size - r->addr : 0;

		assert(r->len <= READER_MEMORY_MAX);
		memset(buf, 0, r->len);
		r->got = r->len < left ? r->len : left;
		if (r->got)
			memcpy(buf, memory.data + r->addr, r->got);
		buf += r->len;
	}
	return 0;
}

/* Passes the same memory in a record. */
static void add_record(struct python_codes *c, size_t size)
{
	struct ct_python_code rec;
	size_t n = size < sizeof(rec) ? size : sizeof(rec);

	memset(&rec, 0, sizeof(rec));
	memcpy(&rec, memory.data, n);
	rec.file_sz %= sizeof(rec.file) + 1;
	rec.function_sz %= sizeof(rec.function) + 1;
	rec.table_sz %= sizeof(rec.table) + 1;
	python_codes__add_record(c, &rec);
	rec.code = 0;
	rec.id = 0;
	python_codes__add_record(c, &rec);
}

static void read_codes(const struct python_location *place, enum ct_redact redact, size_t size)
{
	struct ct_python_frame frames[8];
	struct python_codes *c = python_codes__new(1, place, redact, NULL);
	struct stack_frame f;

	assert(c);
	for (unsigned i = 0; i < 8; i++)
		frames[i] = (struct ct_python_frame){size * i / 8 & ~7ull, i, 2 * i};
	assert(python_codes__read(c, frames, 8) && python_codes__read(c, frames, 8));
	add_record(c, size);
	for (unsigned i = 0; i < 8; i++) {
		if (!python_codes__frame(c, &frames[i], &f))
			assert(!f.symbol && !f.module);
		else
			assert(redact ? !f.symbol : strlen(f.symbol) <= FUNCTION_SZ_MAX);
	}
	assert(python_codes__size(c) < 64u << 20);
	python_codes__free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct python_location place = {0};
	char why[128];

	memory.data = data;
	memory.size = size;
	if (!size)
		return 0;
	if (python_layout_of(8 + data[0] % 5, &place.layout))
		read_codes(&place, data[0] & 128 ? CT_REDACT_STRINGS : CT_REDACT_NOTHING, size);
	if (!python_layout_read(data, size, &place.layout, why, sizeof(why))) {
		assert(place.layout.bpf.frame_sz < CT_PYTHON_FRAME_SZ_MAX &&
		       place.layout.code_sz <= PYTHON_CODE_SZ_MAX);
		read_codes(&place, CT_REDACT_NOTHING, size);
	}
	return 0;
}
