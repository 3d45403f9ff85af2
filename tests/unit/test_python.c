/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CPython's memory: layouts by version, strings, lines, memory of a process. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/find/python.h"
#include "util/reader.h"

/* As in the file of 3.14.10. */
static const uint64_t debug_3_14[] = {
	0, /* "xdebugpy" */
	0x030e0af0, 0, 800, 600, 808,
	/* interpreter: size, id, next, threads, and twelve that are not read */
	20000, 7320, 7312, 7344, 7352, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	/* thread state: size, before, next, interpreter, frame, pthread_self(), number, chunk,
	   status */
	400, 0, 8, 16, 72, 152, 160, 168, 32,
	/* frame: size, back, code, instruction, locals, owner, stack, tlbc */
	88, 8, 0, 56, 80, 74, 64, 72,
	/* code: size, file, name, qualname, lines, first line, arguments, names, kinds, code */
	216, 112, 120, 128, 136, 68, 52, 96, 104, 208};

static void fill(uint8_t buf[PYTHON_DEBUG_SZ])
{
	memset(buf, 0, PYTHON_DEBUG_SZ);
	memcpy(buf, debug_3_14, sizeof(debug_3_14));
	memcpy(buf, "xdebugpy", 8);
}

static void set(uint8_t *buf, size_t i, uint64_t word)
{
	memcpy(buf + 8 * i, &word, sizeof(word));
}

static void reads_debug_offsets(void **state)
{
	uint8_t buf[PYTHON_DEBUG_SZ];
	struct python_layout l;
	char why[128];

	fill(buf);
	assert_int_equal(python_layout_read(buf, sizeof(buf), &l, why, sizeof(why)), 0);
	assert_int_equal(l.minor, 14);
	assert_int_equal(l.bpf.interpreters, 808);
	assert_int_equal(l.bpf.interpreter_next, 7312);
	assert_int_equal(l.bpf.threads, 7344);
	assert_int_equal(l.bpf.thread_next, 8);
	assert_int_equal(l.bpf.thread_frame, 72);
	assert_int_equal(l.bpf.frame_owner, 74);
	assert_int_equal(l.bpf.frame_sz, 80);
	assert_int_equal(l.bpf.owner_min, 3);
	assert_int_equal(l.qualname, 128);
	assert_int_equal(l.code, 208);
	assert_int_equal(l.code_sz, 144);
}

/* Unknown layouts are reported, not guessed. */
static void refuses(void **state)
{
	static const struct {
		size_t word;
		uint64_t value;
		const char *why;
	} bad[] = {
		{0, 7, "no debug offsets"},	  {1, 0x030f00f0, "3.15 is not supported"},
		{1, 0x040e00f0, "not supported"}, {1, 0x030e00b2, "pre-release"},
		{2, 1, "free-threaded"},	  {5, 1 << 30, "are invalid"},
		{26, 1 << 20, "are invalid"},	  {31, 56, "are invalid"}, /* a frame of 56 bytes */
		{33, 3, "are invalid"},		  {36, 200, "are invalid"},
		{43, 4089, "are invalid"}, /* past the part of a code object that is read */
		{40, UINT64_MAX, "are invalid"},
	};
	uint8_t buf[PYTHON_DEBUG_SZ];
	struct python_layout l;
	char why[128];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fill(buf);
		set(buf, bad[i].word, bad[i].value);
		assert_int_not_equal(python_layout_read(buf, sizeof(buf), &l, why, sizeof(why)), 0);
		if (!strstr(why, bad[i].why))
			fail_msg("%zu: %s, not %s", i, why, bad[i].why);
	}
	fill(buf);
	assert_int_not_equal(python_layout_read(buf, 100, &l, why, sizeof(why)), 0);
	assert_false(python_layout_of(7, &l));
	assert_false(python_layout_of(13, &l));
}

static void names_of_files(void **state)
{
	assert_int_equal(python_minor_of_file("/usr/lib/libpython3.9.so.1.0"), 9);
	assert_int_equal(python_minor_of_file("/opt/conda/bin/python3.10"), 10);
	assert_int_equal(python_minor_of_file("python3"), -1);
	assert_int_equal(python_minor_of_file("/x/libpython3.so"), -1);
	assert_int_equal(python_minor_of_file("/python3.99999999999999999999"), -1);
	assert_int_equal(python_minor_of_file(""), -1);
}

static void names_of_interpreters(void **state)
{
	static const struct {
		const char *file, *name;
	} files[] = {
		{"/usr/lib/x86_64-linux-gnu/libpypy3.9-c.so", "PyPy 3.9"},
		{"/opt/pypy3.10-v7.3.17/bin/libpypy3.10-c.so", "PyPy 3.10"},
		{"/usr/bin/pypy3", "PyPy 3"},
		{"libpypy-c.so", "PyPy"},
		{"/x/bin/graalpy", "GraalPy"},
		{"/x/lib/libpythonvm.so", "GraalPy"},
		{"/usr/bin/micropython", "MicroPython"},
		{"/x/lib/libpython2.7.so.1.0", "Python 2.7"},
		{"/x/lib/libpython3.6m.so.1.0", "Python 3.6"},
		{"/usr/bin/python3.11", "Python 3.11"},
		{"/usr/bin/sample", NULL},
		{"/opt/pypy/bin/app", NULL},
		{"", NULL},
	};
	char name[64];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		bool is_one = python_name_of_file(files[i].file, name, sizeof(name));

		assert_int_equal(is_one, files[i].name != NULL);
		if (is_one)
			assert_string_equal(name, files[i].name);
	}
}

static void maps(void **state)
{
	char line[] =
		"7f0000001000-7f0000002000 r-xp 00001000 08:01 77    /a b/libpython3.9.so.1.0 (deleted)\n";
	char other[] = "7f0000001000-7f0000002000 r-xp 00001000 08:01 77    /a/app\n";
	struct python_map m;

	assert_int_equal(python_parse_map_line(line, "/a/app", &m), 1);
	assert_int_equal(m.start, 0x7f0000001000);
	assert_int_equal(m.off, 0x1000);
	assert_string_equal(m.path, "/a b/libpython3.9.so.1.0");
	assert_int_equal(python_parse_map_line(other, "/a/ap", &m), 0);
	strcpy(other, "7f0000002000-7f0000001000 r-xp 00001000 08:01 77    /a/app\n");
	assert_int_equal(python_parse_map_line(other, "/a/app", &m), 0);
}

static unsigned line(unsigned minor, const char *table, size_t len, uint64_t off)
{
	struct python_layout l = {.minor = minor};

	return python_line(&l, (const uint8_t *)table, len, 10, off);
}

static void lines(void **state)
{
	/* 6 bytes of line 10, 4 of 11, then of 9. */
	static const char lnotab[] = {6, 1, 4, -2};
	/* 6 bytes of line 10, 4 without a line, 300 of 12. */
	static const char ranges[] = {6, 0, 4, -128, (char)254, 2, 46, 0};
	/* One unit of line 11, with columns; three of 13, long form; two without a line; one of 12,
	 * no columns. */
	static const char locs[] = {(char)(0x80 | 11 << 3),
				    0,
				    4,
				    (char)(0x80 | 14 << 3 | 2),
				    4,
				    1,
				    1,
				    2,
				    (char)(0x80 | 15 << 3 | 1),
				    (char)(0x80 | 13 << 3),
				    3};

	assert_int_equal(line(9, lnotab, 4, 0), 10);
	assert_int_equal(line(9, lnotab, 4, 6), 11);
	assert_int_equal(line(8, lnotab, 4, 1000), 9);
	assert_int_equal(line(8, lnotab, 0, 7), 10);
	assert_int_equal(line(10, ranges, 8, 5), 10);
	assert_int_equal(line(10, ranges, 8, 6), 0);
	assert_int_equal(line(10, ranges, 8, 309), 12);
	assert_int_equal(line(10, ranges, 8, 310), 0);
	assert_int_equal(line(11, locs, sizeof(locs), 0), 11);
	assert_int_equal(line(12, locs, sizeof(locs), 2), 13);
	assert_int_equal(line(13, locs, sizeof(locs), 7), 13);
	assert_int_equal(line(13, locs, sizeof(locs), 8), 0);
	assert_int_equal(line(14, locs, sizeof(locs), 12), 12);
	assert_int_equal(line(14, locs, sizeof(locs), 14), 0);
	for (size_t cut = 0; cut < sizeof(locs); cut++)
		line(12, locs, cut, 12);
	/* A number without an end. */
	assert_int_equal(line(12, "\xf0\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f", 9, 0), 0);
}

static void strings(void **state)
{
	static const struct {
		unsigned minor, state, kind, off;
		bool ok;
	} strs[] = {
		{11, 0xe4, 1, 48, true},     /* interned no, one byte, compact, ascii, ready */
		{12, 0x65, 1, 40, true},     /* interned */
		{9, 0x28, 2, 72, true},	     /* two bytes */
		{13, 0x30, 4, 56, true},     /* four */
		{14, 0x190001, 1, 40, true}, /* in the form where interned has 16 bits */
		{12, 0x44, 1, 0, false},     /* not compact */
		{12, 0x6c, 3, 0, false},     /* three bytes */
		{12, 0, 0, 0, false},
	};
	uint8_t obj[PYTHON_STR_SZ] = {0};
	struct python_layout l;
	struct python_str s;

	for (size_t i = 0; i < sizeof(strs) / sizeof(strs[0]); i++) {
		assert_true(python_layout_of(strs[i].minor < 13 ? strs[i].minor : 12, &l));
		set(obj, 2, 5);
		set(obj, 4, strs[i].state);
		assert_int_equal(python_str_read(&l, obj, sizeof(obj), &s), strs[i].ok);
		if (!strs[i].ok)
			continue;
		assert_int_equal(s.kind, strs[i].kind);
		assert_int_equal(s.off, strs[i].off);
		assert_int_equal(s.len, 5);
	}
	set(obj, 4, 0xe4);
	set(obj, 2, UINT64_MAX);
	assert_false(python_str_read(&l, obj, sizeof(obj), &s));
	assert_false(python_str_read(&l, obj, 39, &s));
}

static void texts(void **state)
{
	static const uint8_t latin[] = {'a', 0xfc}, two[] = {0xe5, 0x65, 0xff, 0xdc};
	static const uint8_t four[] = {0, 0xf6, 1, 0, 0xff, 0xff, 0xff, 0xff};
	struct python_str s = {.len = 2, .kind = 1};
	char buf[64];

	python_str_text(&s, latin, 2, buf, sizeof(buf));
	assert_string_equal(buf, "aü");
	/* As much as fits. */
	python_str_text(&s, latin, 1, buf, sizeof(buf));
	assert_string_equal(buf, "a");
	assert_int_equal(python_str_text(&s, latin, 2, buf, 1), 0);
	s.kind = 2;
	python_str_text(&s, two, 4, buf, sizeof(buf));
	assert_string_equal(buf, "日\xef\xbf\xbd");
	s.kind = 4;
	python_str_text(&s, four, 8, buf, sizeof(buf));
	assert_string_equal(buf, "\xf0\x9f\x98\x80\xef\xbf\xbd");
}

/* Parts of memory, some of which are unmapped. */
static void memory(void **state)
{
	char *page =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct reader_range r[4];
	uint8_t buf[64];

	assert_ptr_not_equal(page, MAP_FAILED);
	memset(page, 'x', 3 * 4096);
	assert_int_equal(munmap(page + 4096, 4096), 0);
	r[0] = (struct reader_range){(uintptr_t)page, 8, 0};
	r[1] = (struct reader_range){(uintptr_t)page + 4092, 16, 0};
	r[2] = (struct reader_range){0, 8, 0};
	r[3] = (struct reader_range){(uintptr_t)page + 8192, 4, 0};
	assert_int_equal(reader__memory(getpid(), r, 4, buf), 0);
	assert_int_equal(r[0].got, 8);
	assert_int_equal(r[1].got, 4);
	assert_int_equal(r[2].got, 0);
	assert_int_equal(r[3].got, 4);
	assert_memory_equal(buf, "xxxxxxxxxxxx\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0xxxx", 36);
	r[0].addr = UINT64_MAX - 3;
	assert_int_equal(reader__memory(getpid(), r, 1, buf), 0);
	assert_int_equal(r[0].got, 0);
	assert_true(reader__memory(0x7fffffff, r, 1, buf) < 0);
	munmap(page, 4096);
	munmap(page + 8192, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_debug_offsets),
		cmocka_unit_test(refuses),
		cmocka_unit_test(names_of_files),
		cmocka_unit_test(names_of_interpreters),
		cmocka_unit_test(maps),
		cmocka_unit_test(lines),
		cmocka_unit_test(strings),
		cmocka_unit_test(texts),
		cmocka_unit_test(memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
