/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "random.h"
#include "util/log.h"
#include "util/out.h"
#include "util/plain.h"

static void same(const char *text, size_t len, const char *want)
{
	char buf[64], *printed = NULL;
	size_t printed_len;
	FILE *f = open_memstream(&printed, &printed_len);

	memcpy(buf, text, len);
	plain_text(buf, len);
	assert_int_equal(len, strlen(want));
	assert_memory_equal(buf, want, len);
	assert_non_null(f);
	plain_print(f, text, len);
	fclose(f);
	assert_int_equal(printed_len, len);
	assert_memory_equal(printed, want, len);
	free(printed);
}
#define SAME(text, want) same(text, sizeof(text) - 1, want)

static void test_left_alone(void **state)
{
	SAME("", "");
	SAME("libcuda.so.1 ~!", "libcuda.so.1 ~!");
	SAME("3 \xc2\xb5s \xe2\x96\x88 \xf0\x9f\x98\x80",
	     "3 \xc2\xb5s \xe2\x96\x88 \xf0\x9f\x98\x80");
}

static void test_controls(void **state)
{
	SAME("a\033[2Jb\ac\r\n\t\x7f\0", "a?[2Jb?c?????");
	/* CSI as one byte, and as U+009B */
	SAME("\x9b"
	     "2J",
	     "?2J");
	SAME("\xc2\x9b"
	     "2J",
	     "??2J");
	SAME("\xc2\xa0", "\xc2\xa0");
}

static void test_directions(void **state)
{
	char text[8], want[8];

	/* U+202A to U+202E, U+2066 to U+2069 with their neighbours that are only text */
	SAME("a\xe2\x80\xae"
	     "b",
	     "a???b");
	SAME("\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa",
	     "\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa");
	for (unsigned c = 0x2028; c <= 0x2069; c = c == 0x202e ? 0x2066 : c + 1) {
		snprintf(text, sizeof(text), "%c%c%c", 0xe2, 0x80 | (c >> 6 & 0x3f),
			 0x80 | (c & 0x3f));
		same(text, 3, "???");
	}
	SAME("\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "????????");
	SAME("\xe2\x80\x8d\xd8\x9b", "\xe2\x80\x8d\xd8\x9b");
	/* All of C1. */
	for (unsigned c = 0x80; c <= 0xa0; c++) {
		snprintf(text, sizeof(text), "%c%c", 0xc2, c);
		strcpy(want, c < 0xa0 ? "??" : text);
		same(text, 2, want);
	}
}

static void test_json(void **state)
{
	static const char text[] =
		"\xc2\x9b\xc2\xa0\xe2\x80\xae\xd8\x9c\xe2\x81\xa9\xe2\x88\x91\033\xc2";
	struct out *o = out__memory();

	out_json_str(o, text, sizeof(text) - 1);
	out_char(o, '\0');
	assert_string_equal(
		o->buf, "\"\\u009b\xc2\xa0\\u202e\\u061c\\u2069\xe2\x88\x91\\u001b\xef\xbf\xbd\"");
	o->len = 0;
	plain_put(o, "a\xc2\x9b");
	out_char(o, '\0');
	assert_string_equal(o->buf, "a??");
	out__close(o);
}

static void test_lines(void **state)
{
	char *got = NULL;
	size_t len;
	FILE *f = open_memstream(&got, &len);

	plain_lines(f, "a\033\nb\tc");
	fclose(f);
	assert_string_equal(got, "a?\nb?c\n");
	free(got);
}

static void test_no_utf8(void **state)
{
	SAME("\xc2", "?");
	SAME("\xe2\x96", "??");
	SAME("\xe2\x96z", "??z");
	SAME("\xff\xfe", "??");
	/* ESC and U+009B in a longer form than they need */
	SAME("\xc0\x9b\xe0\x82\x9b", "?????");
	SAME("\xed\xa0\x80", "???");
}

static void test_messages(void **state)
{
	char got[256] = "";
	int fds[2], err_fd = dup(STDERR_FILENO);

	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	err("cannot read %s: no", "/tmp/\033]0;x\a\xc2\x9b/\xc3\xa9");
	dup2(err_fd, STDERR_FILENO);
	close(err_fd);
	close(fds[1]);
	assert_true(read(fds[0], got, sizeof(got) - 1) > 0);
	close(fds[0]);
	assert_string_equal(got, "cudatrace: cannot read /tmp/?]0;x???\x2f\xc3\xa9: no\n");
}

/* Reads back a name from plain_name(). */
static size_t read_name(const char *text, char *name)
{
	size_t len = 0;
	unsigned byte;

	while (*text) {
		if (text[0] == '\\' && text[1] == 'x' && strlen(text) >= 4 &&
		    strspn(text + 2, "0123456789abcdefABCDEF") >= 2) {
			assert_int_equal(sscanf(text, "\\x%2x", &byte), 1);
			name[len++] = (char)byte;
			text += 4;
		} else {
			name[len++] = *text++;
		}
	}
	return len;
}

/* A name can be read back, so no two are equal. The text has no control sequences and is UTF-8. */
static void test_names(void **state)
{
	static const char *const parts[] = {"\\",   "x",    "\\x",  "f0",   "F0",   "\n",   "\"",
					    "\xff", "\xe8", "\xae", "\xad", "\xc2", "\x9b", "训",
					    "\x01", "?",    "\xe2", "\x80", "\xa8", "\xef", "é"};
	char text[PLAIN_NAME_MAX(64)], back[64];

	for (unsigned round = 0; round < 20000; round++) {
		char name[64] = "";
		size_t len;

		for (unsigned n = rnd() % 10; n; n--)
			strcat(name, parts[rnd() % (sizeof(parts) / sizeof(parts[0]))]);
		len = plain_name(text, name);
		assert_int_equal(len, strlen(text));
		assert_int_equal(read_name(text, back), strlen(name));
		assert_memory_equal(back, name, strlen(name));
		for (size_t i = 0, n; text[i]; i += n) {
			n = plain_len(text + i, strlen(text + i));
			assert_int_not_equal(n, 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_left_alone), cmocka_unit_test(test_controls),
		cmocka_unit_test(test_directions), cmocka_unit_test(test_json),
		cmocka_unit_test(test_lines),	   cmocka_unit_test(test_no_utf8),
		cmocka_unit_test(test_messages),   cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests_name("plain", tests, NULL, NULL);
}
