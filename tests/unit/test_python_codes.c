/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of code objects: from records, and from memory, which is valid only while they exist. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ct_record.h"
#include "model/python.h"

/* As in CPython 3.12. */
static struct object {
	uint64_t refs, type, len, hash;
	uint32_t state, pad;
	char text[3000];
} file, function;
static struct bytes {
	uint64_t refs, type, len, hash;
	uint8_t data[3000];
} table;
static uint64_t code[32];
static struct python_location place;
static bool there;

static bool is_there(void *ctx, uint32_t pid, uint64_t addr, uint32_t id)
{
	assert_int_equal(pid, getpid());
	assert_int_equal(addr, (uintptr_t)code);
	assert_int_equal(id, 7);
	return there;
}

static const struct python_check check = {is_there, NULL};

static void name(struct object *o, size_t len)
{
	*o = (struct object){.len = len, .state = 0x64}; /* compact, ASCII, one byte each */
	memset(o->text, 'a', len);
}

static int setup(void **state)
{
	name(&file, 20);
	name(&function, 10);
	/* Two units of line 11, then line 13 repeatedly. */
	table = (struct bytes){.len = 2000};
	for (size_t i = 0; i < table.len; i += 2) {
		table.data[i] = 0x80 | 13 << 3;
		table.data[i + 1] = i ? 0 : 2;
	}
	assert_true(python_layout_of(12, &place.layout));
	memset(code, 0, sizeof(code));
	code[place.layout.filename / 8] = (uintptr_t)&file;
	code[place.layout.qualname / 8] = (uintptr_t)&function;
	code[place.layout.table / 8] = (uintptr_t)&table;
	memcpy((uint8_t *)code + place.layout.first_line, &(int){10}, sizeof(int));
	there = true;
	return 0;
}

static void copy(uint8_t *to, uint32_t *size, size_t max, const void *from, size_t len)
{
	*size = len < max ? len : max;
	memcpy(to, from, *size);
}

static struct ct_python_code *example_code(void)
{
	static struct ct_python_code r;

	memset(&r, 0, sizeof(r));
	r.rec = (struct ct_rec){.size = sizeof(r), .kind = CT_REC_PYTHON};
	r.code = (uintptr_t)code;
	r.id = 7;
	r.first_line = 10;
	r.file_at = (uintptr_t)&file;
	r.function_at = (uintptr_t)&function;
	r.table_at = (uintptr_t)&table;
	copy(r.file, &r.file_sz, sizeof(r.file), &file, 40 + file.len);
	copy(r.function, &r.function_sz, sizeof(r.function), &function, 40 + function.len);
	copy(r.table, &r.table_sz, sizeof(r.table), &table, 32 + table.len);
	return &r;
}

static const struct ct_python_frame frame = {(uintptr_t)code, 7, 4};

static struct python_codes *make(void)
{
	struct python_codes *c = python_codes__new(getpid(), &place, CT_REDACT_NOTHING, &check);

	assert_non_null(c);
	return c;
}

/* The process may be gone: complete data in the record is enough. */
static void by_record(void **state)
{
	struct python_codes *c = make();
	struct stack_frame f;

	table.len = 100;
	assert_int_equal(python_codes__add_record(c, example_code()), 0);
	there = false;
	memset(code, 0xff, sizeof(code));
	file.text[0] = 'x';
	assert_true(python_codes__read(c, &frame, 1));
	assert_true(python_codes__frame(c, &frame, &f));
	assert_string_equal(f.module, "aaaaaaaaaaaaaaaaaaaa");
	assert_string_equal(f.symbol, "aaaaaaaaaa");
	assert_int_equal(f.line, 11);
	/* The same again; then another code object at that address. */
	assert_int_equal(python_codes__add_record(c, example_code()), 0);
	assert_false(python_codes__frame(c, &(struct ct_python_frame){frame.code, 8, 4}, &f));
	python_codes__free(c);
}

/* The rest is read while the process exists; otherwise a truncated name or line is missing. */
static void cut(void **state)
{
	struct stack_frame f;

	for (int i = 0; i < 2; i++) {
		struct python_codes *c = make();

		there = !i;
		assert_int_equal(python_codes__add_record(c, example_code()), 0);
		assert_true(python_codes__frame(c, &frame, &f));
		assert_string_equal(f.symbol, "aaaaaaaaaa");
		assert_int_equal(f.line, i ? 0 : 11);
		python_codes__free(c);
	}
	name(&function, 1000);
	for (int i = 0; i < 2; i++) {
		struct python_codes *c = make();

		there = !i;
		assert_int_equal(python_codes__add_record(c, example_code()), 0);
		assert_int_equal(python_codes__frame(c, &frame, &f), !i);
		if (!i)
			assert_int_equal(strlen(f.symbol), 1000);
		python_codes__free(c);
	}
}

/* Without a record the memory is read; if it changed meanwhile, it belongs to another object. */
static void by_memory(void **state)
{
	struct python_codes *c = make();
	struct stack_frame f;

	there = false;
	assert_true(python_codes__read(c, &frame, 1));
	assert_false(python_codes__frame(c, &frame, &f));
	assert_int_equal(f.ip, (uintptr_t)code);
	/* The BPF side could read it later. */
	assert_int_equal(python_codes__add_record(c, example_code()), 1);
	assert_true(python_codes__frame(c, &frame, &f));
	python_codes__clear(c);
	assert_int_equal(python_codes__size(c), 0);
	there = true;
	assert_true(python_codes__read(c, &frame, 1));
	assert_true(python_codes__frame(c, &frame, &f));
	assert_int_equal(f.line, 11);
	python_codes__free(c);
}

/* Without a known number it is read each time. */
static void of_those_that_wait(void **state)
{
	const struct ct_python_frame frames[2] = {{frame.code, 0, 4}, {frame.code, 0, 4}};
	struct python_codes *c = make();
	struct stack_frame f;

	assert_true(python_codes__read(c, frames, 2));
	function.text[0] = 'x';
	assert_true(python_codes__read(c, frames, 2));
	assert_true(python_codes__frame(c, frames, &f));
	assert_string_equal(f.symbol, "xaaaaaaaaa");
	python_codes__free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(by_record, setup),
		cmocka_unit_test_setup(cut, setup),
		cmocka_unit_test_setup(by_memory, setup),
		cmocka_unit_test_setup(of_those_that_wait, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
