/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers in human-readable form, and the live line. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/summary/progress.h"
#include "text/table.h"

static void numbers(void **state)
{
	static const struct {
		double ns;
		const char *text;
	} times[] = {{0, "0 ns"},	  {999, "999 ns"},    {999.6, "1.00 µs"},
		     {1250, "1.25 µs"},	  {99949, "99.9 µs"}, {99960, "100 µs"},
		     {999600, "1.00 ms"}, {3.21e9, "3.21 s"}, {1.2e12, "1200 s"}};
	static const struct {
		uint64_t bytes;
		const char *text;
	} sizes[] = {{0, "0 B"},
		     {1023, "1023 B"},
		     {1024, "1.00 KiB"},
		     {1536, "1.50 KiB"},
		     {1048575, "1.00 MiB"},
		     {80ull << 30, "80.0 GiB"},
		     {UINT64_MAX, "16.0 EiB"}};
	char cell[CELL_SZ];
	size_t i;

	for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		human_time(cell, times[i].ns);
		assert_string_equal(cell, times[i].text);
	}
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		human_bytes(cell, sizes[i].bytes);
		assert_string_equal(cell, sizes[i].text);
	}
	human_count(cell, 1234567);
	assert_string_equal(cell, "1,234,567");
	human_count(cell, 999);
	assert_string_equal(cell, "999");
	human_count(cell, UINT64_MAX);
	assert_string_equal(cell, "1.845e+19");
	human_share(cell, 1, 0);
	assert_string_equal(cell, "");
	human_rate(cell, 5e9, 1e9);
	assert_string_equal(cell, "5.00 GB/s");
	human_rate(cell, 5e6, 1e9);
	assert_string_equal(cell, "5.00 MB/s");
}

static void progress_line(void **state)
{
	struct summary_totals t = {.event_cnt = 1000, .device_bytes = 3 << 20};
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	struct progress *p = progress__new_width(f, 80);

	progress__update(p, 1000000000, &t, 0);
	fflush(f);
	assert_string_equal(text, "\r1,000 events  3.00 MiB on the device\033[K");
	t.event_cnt += 500;
	t.launch_cnt += 100;
	progress__update(p, 1200000000, &t, 0); /* too soon */
	assert_int_equal(len, strlen("\r1,000 events  3.00 MiB on the device\033[K"));
	progress__update(p, 1500000000, &t, 7);
	assert_non_null(strstr(text, "\r1,500 events  7 LOST  1,000/s  200 launches/s  "
				     "3.00 MiB on the device\033[K"));
	progress__clear(p);
	progress__clear(p);
	assert_string_equal(text + len - 4, "\r\033[K");
	progress__free(p);
	fclose(f);
	free(text);

	/* no line wraps */
	f = open_memstream(&text, &len);
	p = progress__new_width(f, 20);
	progress__update(p, 1, &t, 0);
	fflush(f);
	assert_string_equal(text, "\r1,500 events\033[K");
	progress__free(p);
	fclose(f);
	free(text);

	/* none without a terminal */
	assert_null(progress__new(tmpfile()));
	progress__update(NULL, 1, &t, 0);
	progress__clear(NULL);
	progress__free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(progress_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
