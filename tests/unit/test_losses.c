/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One list of everything missing: by end lines, by files, and by the limits of reports. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_check.h"
#include "model/losses.h"
#include "report/losses.h"
#include "saved/reader.h"
#include "text/losses_text.h"

#define HEADER                                                                                     \
	"{\"ts\":0,\"type\":\"header\",\"name\":\"cudatrace\",\"schema\":2,"                       \
	"\"clock_base_ns\":1000}\n"
#define PIECE(n)                                                                                   \
	"{\"ts\":0,\"type\":\"header\",\"name\":\"cudatrace\",\"schema\":2,"                       \
	"\"clock_base_ns\":1000,\"segment\":" n "}\n"
#define TEXT_OF(x) #x
#define TEXT(x)	   TEXT_OF(x)
/* Each call has another id. */
#define CALL CALL_ID(TEXT(__COUNTER__))
#define CALL_ID(id)                                                                                \
	"{\"ts\":1,\"type\":\"sync\",\"op\":\"sync\",\"name\":\"cuCtxSynchronize\","               \
	"\"symbol\":\"cuCtxSynchronize\",\"pid\":1,\"tid\":1,\"comm\":\"x\",\"id\":" id ","        \
	"\"duration_us\":1,\"result\":0,\"args\":{}}\n"
#define TOLD(n)                                                                                    \
	"{\"ts\":1,\"type\":\"tracer\",\"op\":\"lost\",\"name\":\"ring\",\"pid\":1,\"tid\":1,"     \
	"\"comm\":\"x\",\"events\":" n "}\n"
#define END(more) "{\"ts\":2,\"type\":\"end\",\"name\":\"cudatrace\",\"reason\":\"x\"" more "}\n"
/* The members that each end line has. */
#define ALL(n) ",\"events\":{\"sync\":" n "},\"drops\":{},\"calls\":" n ",\"bad_records\":0"
#define SPLIT  "{\"ts\":2,\"type\":\"end\",\"name\":\"cudatrace\",\"reason\":\"max-file\"}\n"

static struct reader *reader;
static struct losses lost;

static void on_event(void *ctx, const struct trace_event *ev)
{
	losses__event(&lost, ev);
}

static void on_end(void *ctx, const struct trace_info *info, const struct trace_end *end)
{
	losses__end(&lost, end);
}

/* Everything missing in a file with that text. */
static void read_text(const char *text, size_t len)
{
	static const struct reader_ops ops = {.event = on_event, .end = on_end};
	char path[] = "/tmp/cudatrace-losses.XXXXXX";
	int fd = mkstemp(path);
	struct saved_file f;

	reader__free(reader);
	reader = reader__new(&ops, NULL);
	lost = (struct losses){0};
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
	reader__file(reader, path, &f);
	unlink(path);
	losses__add(&lost, &f.lost);
}

/* "id N, id N" */
static const char *list(const struct losses *l)
{
	static char text[4096];
	struct loss_row row;
	size_t n = 0;

	*text = '\0';
	for (unsigned i = 0; losses__next(l, &i, &row);)
		n += snprintf(text + n, sizeof(text) - n, "%s%s%s %llu", n ? ", " : "", row.prefix,
			      row.id, (unsigned long long)row.cnt);
	return text;
}

/* The end lines here have only members that a test is about. Missing ones are a loss, too: their
 * number. */
static unsigned absent_members(const char *text)
{
	static const char *const needed[] = {
		",\"events\":", ",\"drops\":", ",\"calls\":", ",\"bad_records\":"};
	unsigned cnt = 0;

	for (const char *end; (text = strstr(text, "\"type\":\"end\"")); text = end) {
		end = strchr(text, '\n');
		if (memmem(text, end - text, "max-file", 8))
			continue;
		for (unsigned i = 0; i < 4; i++) {
			const char *at = strstr(text, needed[i]);

			cnt += !at || at > end;
		}
	}
	return cnt;
}

static void lacks(const char *text, const char *want)
{
	read_text(text, strlen(text));
	lost.cnt[LOSS_UNKNOWN_DROPS] -= absent_members(text);
	assert_string_equal(list(&lost), want);
	assert_int_equal(losses__any(&lost), *want != 0);
}

static void test_files(void **state)
{
	lacks(HEADER CALL END(), "");
	lacks(HEADER CALL END(",\"events\":{\"sync\":1}"), "");
	lacks(HEADER CALL CALL END(",\"events\":{\"sync\":5}"), "missing_lines 3");
	lacks(HEADER CALL "x\n" END(",\"events\":{\"sync\":2}"), "bad_lines 1");
	lacks(HEADER CALL, "end 1");
	lacks(HEADER CALL TOLD("4") TOLD("5"), "end 1, events 9");
	lacks(HEADER CALL TOLD("4") END(",\"drops\":{\"calls\":4}"), "calls 4");
	lacks(CALL END(), "header 1");
	lacks(HEADER CALL "{\"ts\":1", "end 1, cut_line 1");
	lacks(HEADER CALL HEADER CALL END(), "end 1");
	lacks(HEADER CALL SPLIT, "last_files 1");
	lacks(HEADER CALL SPLIT PIECE("1") CALL END(), "");
	lacks(HEADER CALL SPLIT PIECE("4") CALL END(), "middle_files 3");
	lacks(PIECE("2") CALL END(), "first_files 2");
	lacks(HEADER CALL PIECE("1") CALL END(), "end 1");
	lacks(HEADER CALL END(",\"write_error\":\"x\",\"lines_lost\":2,\"events\":{\"sync\":3}"),
	      "lines 2");
	lacks(HEADER CALL END(",\"write_error\":\"x\",\"lines_lost\":2,\"events\":{\"sync\":4}"),
	      "lines 2, missing_lines 1");
}

#define COUNTED(n) END(",\"events\":{\"sync\":" n "}")
#define BOOT(base)                                                                                 \
	"{\"ts\":0,\"type\":\"header\",\"name\":\"cudatrace\",\"schema\":2,"                       \
	"\"boot_id\":\"b\",\"clock_base_ns\":" base "}\n"

/* Lines that occur twice, also where others are missing. */
static void test_doubled(void **state)
{
#define A CALL_ID("3073")
#define B CALL_ID("18446744073709551615")
#define C CALL_ID("4096")
	lacks(HEADER A B C COUNTED("3"), "");
	lacks(HEADER A A B C COUNTED("3"), "doubled_calls 1");
	lacks(HEADER A B C A B C COUNTED("3"), "doubled_calls 3");
	/* As many other lines are missing. */
	lacks(HEADER A A B COUNTED("3"), "doubled_calls 1");
	lacks(HEADER A B C B COUNTED("4"), "doubled_calls 1");
	lacks(HEADER A B A COUNTED("5"), "missing_lines 2, doubled_calls 1");
	/* No calls, or calls without ids. */
	lacks(HEADER A TOLD("1") TOLD("1") END(",\"events\":{\"sync\":1,\"tracer\":1}"),
	      "surplus_lines 1");
	lacks(HEADER A COUNTED("0"), "surplus_lines 1");
	lacks(HEADER A B END(",\"events\":{}"), "surplus_lines 2");
	lacks(HEADER CALL_ID("0") CALL_ID("0") COUNTED("2"), "");
	/* An unreadable line is counted only once. */
	lacks(HEADER A "x\n" COUNTED("1"), "bad_lines 1");
	lacks(HEADER A A END(), "doubled_calls 1");
	/* Each file of a trace has an end. */
	lacks(HEADER A B SPLIT PIECE("1") C A COUNTED("2"), "doubled_calls 1");
	/* Calls of another run may have the same ids. */
	lacks(HEADER A COUNTED("1") HEADER A COUNTED("1"), "");
	lacks(BOOT("1000") A COUNTED("1") BOOT("1001") A COUNTED("1"), "");
	lacks(BOOT("1000") A COUNTED("1") BOOT("1000") A COUNTED("1"), "doubled_calls 1");
}

#define CALL_OF(more)                                                                              \
	"{\"ts\":1,\"type\":\"sync\",\"op\":\"sync\",\"name\":\"cuCtxSynchronize\","               \
	"\"symbol\":\"cuCtxSynchronize\",\"pid\":1,\"tid\":1,\"comm\":\"x\",\"id\":" TEXT(         \
		__COUNTER__) more "}\n"

/* Each counter of the end line is compared with the lines. */
static void test_end_counters(void **state)
{
	/* By type: the sum is right. */
	lacks(HEADER CALL CALL END(",\"events\":{\"sync\":1,\"kernel\":1}"),
	      "missing_lines 1, surplus_lines 1");
	lacks(HEADER CALL END(",\"events\":{\"sync\":1,\"future\":4}"), "missing_lines 4");
	lacks(HEADER CALL END(",\"events\":{\"sync\":9223372036854775809,"
			      "\"kernel\":9223372036854775809}"),
	      "missing_lines 18446744073709551615");
	/* Calls, whatever `events` counts. */
	lacks(HEADER CALL END(",\"calls\":4"), "missing_lines 3");
	lacks(HEADER CALL END(",\"events\":{\"sync\":1},\"calls\":4"), "missing_lines 3");
	lacks(HEADER CALL CALL END(",\"calls\":1"), "surplus_lines 1");
	lacks(HEADER CALL END(",\"events\":{\"sync\":3},\"calls\":3,\"entries\":3"),
	      "missing_lines 2");
	/* A start has a line, or is counted as left out. */
	lacks(HEADER CALL END(ALL("1") ",\"entries\":3"), "missing_lines 2");
	lacks(HEADER CALL END(",\"entries\":3,\"filtered\":2"), "");
	lacks(HEADER CALL END(",\"entries\":3,\"nvtx_calls\":1,\"torch_calls\":1"), "");
	lacks(HEADER CALL END(",\"entries\":9,\"counted\":{\"cuInit\":{\"calls\":5,"
			      "\"unfinished\":2,\"abandoned\":1}}"),
	      "");
	lacks(HEADER CALL END(",\"entries\":3,\"drops\":{\"calls\":1},"
			      "\"events\":{\"sync\":1},\"calls\":1,\"bad_records\":0"),
	      "calls 1, missing_lines 1");
	lacks(HEADER CALL END(",\"entries\":1,\"drops\":{\"calls\":1}"), "calls 1");
	lacks(HEADER CALL "{\"ts\":2,\"type\":\"end\",\"reason\":\"max-events\",\"entries\":7}\n",
	      "");
	/* Calls without an end. */
	lacks(HEADER CALL_OF(",\"unfinished\":true") END(",\"unfinished\":1,\"abandoned\":0"), "");
	lacks(HEADER CALL END(ALL("1") ",\"unfinished\":1"), "missing_lines 1");
	lacks(HEADER CALL_OF(",\"abandoned\":true") END(ALL("1") ",\"abandoned\":3"),
	      "missing_lines 2");
	/* Lines that are known to be lost, or are invalid. */
	lacks(HEADER CALL END(",\"write_error\":\"x\",\"lines_lost\":2,\"calls\":3,\"entries\":3"),
	      "lines 2");
	lacks(HEADER CALL "x\n" END(",\"calls\":2,\"entries\":2"), "bad_lines 1");
	/* Each file of a trace, and each of several traces. */
	lacks(HEADER CALL
	      "{\"ts\":2,\"type\":\"end\",\"reason\":\"max-file\",\"calls\":2}\n" PIECE("1")
		      CALL END(",\"calls\":1"),
	      "missing_lines 1");
	lacks(HEADER CALL
	      "{\"ts\":2,\"type\":\"end\",\"reason\":\"max-file\",\"calls\":1}\n" PIECE("1")
		      CALL END(",\"calls\":2"),
	      "missing_lines 1");
	lacks(HEADER CALL END(",\"calls\":1") HEADER CALL END(",\"calls\":3"), "missing_lines 2");
}

static void test_unseen(void **state)
{
	lacks(HEADER END(",\"unseen\":\"no process has connected\""), "unseen 1");
	/* It is about that library. */
	lacks(HEADER "{\"ts\":1,\"type\":\"library\",\"op\":\"failed\",\"name\":\"libcuda\","
		     "\"pid\":1,\"tid\":1,\"comm\":\"x\"}\n" END(",\"unseen\":\"a library\""),
	      "failed_libraries 1");
}

/* A file truncated anywhere. */
static void test_cut(void **state)
{
	static const char text[] = HEADER CALL CALL END(ALL("2"));

	for (size_t n = strlen(HEADER); n + 2 < sizeof(text); n++) {
		read_text(text, n);
		assert_true(losses__any(&lost));
	}
	read_text(text, sizeof(text) - 2);
	assert_false(losses__any(&lost));
}

/* Each counter of an end line has a row, and there is no other row. */
static void test_each_counter(void **state)
{
	struct trace_end end;
	char want[128];

	for (int i = 0; i < CT_DROP_CNT; i++) {
		end = (struct trace_end){0};
		end.drops[i] = 3;
		lost = (struct losses){0};
		losses__end(&lost, &end);
		snprintf(want, sizeof(want), "%s 3", drop_name(i));
		assert_string_equal(list(&lost), want);
	}
	for (int i = 0; i < QUOTA_CNT; i++) {
		end = (struct trace_end){0};
		end.full[i] = 4;
		lost = (struct losses){0};
		losses__end(&lost, &end);
		snprintf(want, sizeof(want), "limits_hit.%s 4", limit_name(i));
		assert_string_equal(list(&lost), want);
	}
	for (int i = QUOTA_CNT; i < LIMIT_TABLE_CNT; i++) {
		memlimit_set(MEMLIMIT_SZ);
		memlimit_reject(i);
		lost = (struct losses){0};
		assert_false(losses__any(&lost));
		lost.of_report = true;
		snprintf(want, sizeof(want), "rejected.%s 1", limit_name(i));
		assert_string_equal(list(&lost), want);
	}
	memlimit_set(MEMLIMIT_SZ);
}

static void test_chosen(void **state)
{
	struct trace_end end = {0};

	end.stats[CT_STAT_FILTERED] = 5;
	end.stats[CT_STAT_COUNTED] = 6;
	lost = (struct losses){0};
	losses__end(&lost, &end);
	assert_false(losses__any(&lost));
	assert_true(lost.chosen[CHOSEN_FILTERED] == 5 && lost.chosen[CHOSEN_COUNTED] == 6);
}

/* The daemon removes its oldest files. */
static void test_rotated(void **state)
{
	lacks(PIECE("7") CALL "{\"ts\":2,\"type\":\"end\",\"reason\":\"rotated\"}\n" PIECE("8") CALL
	      "{\"ts\":3,\"type\":\"end\",\"reason\":\"stopped\"}\n",
	      "");
	assert_int_equal(lost.chosen[CHOSEN_REMOVED], 7);
	lacks(PIECE("7") CALL "{\"ts\":2,\"type\":\"end\",\"reason\":\"rotated\"}\n" PIECE("9") CALL
	      "{\"ts\":3,\"type\":\"end\",\"reason\":\"stopped\"}\n",
	      "middle_files 1");
	lacks(PIECE("7") CALL, "end 1, first_files 7");
}

/* The sum of two huge numbers does not wrap to 0. */
static void test_sums(void **state)
{
	lacks(HEADER CALL END(",\"drops\":{\"calls\":9223372036854775808}")
		      HEADER CALL END(",\"drops\":{\"calls\":9223372036854775808}"),
	      "calls 18446744073709551615");
}

/* Any contents of the file. */
static void test_text(void **state)
{
	struct term term = {.width = 80};
	struct out *out = out__memory();
	char *text = NULL, line[32];
	size_t len = 0;
	struct json j;

	lacks(HEADER CALL END(",\"write_error\":\"\\u001b[2J\\\"<b>\\u202e\",\"lines_lost\":1"),
	      "lines 1");
	json__init(&j, out);
	json_open(&j, NULL);
	losses_json(&lost, &j);
	json_close(&j);
	assert_true(json_valid(out->buf, out->len));
	out__close(out);
	term.f = open_memstream(&text, &len);
	losses_print(&lost, &term, "x");
	fclose(term.f);
	assert_non_null(strstr(text, "\nINCOMPLETE: x\n  1 line of the output: "));
	assert_null(strchr(text, '\033'));
	free(text);
	assert_true(losses_line(&lost, line, sizeof(line)));
	assert_string_equal(line, "1 line of the output");
	for (int i = 0; i < LOSS_CNT; i++)
		lost.cnt[i] = UINT64_MAX;
	assert_true(losses_line(&lost, line, sizeof(line)));
	assert_int_equal(strlen(line), sizeof(line) - 1);
	lost = (struct losses){0};
	assert_false(losses_line(&lost, line, sizeof(line)));
}

/* The remedy must be for the reason in the end line. */
static void test_remedies(void **state)
{
	static const struct {
		const char *why, *how;
	} rows[] = {
		{"No space left on device", "free space on the disk"},
		{"File too large", "ulimit -f"},
		{"Disk quota exceeded", "quota"},
		{OUT_READER_SLOW, "read the output faster"},
		{"Input/output error", "check the device"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct losses l = {.cnt = {[LOSS_LINES] = 2}, .write_error = rows[i].why};
		struct loss_row row;

		assert_true(losses__row(&l, LOSS_LINES, &row));
		assert_string_equal(row.why, rows[i].why);
		assert_non_null(strstr(row.how_to_avoid, rows[i].how));
		assert_int_equal(!strcmp(rows[i].why, OUT_READER_SLOW),
				 strstr(row.how_to_avoid, "faster") != NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),	     cmocka_unit_test(test_cut),
		cmocka_unit_test(test_doubled),	     cmocka_unit_test(test_each_counter),
		cmocka_unit_test(test_chosen),	     cmocka_unit_test(test_sums),
		cmocka_unit_test(test_rotated),	     cmocka_unit_test(test_text),
		cmocka_unit_test(test_end_counters), cmocka_unit_test(test_unseen),
		cmocka_unit_test(test_remedies),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	reader__free(reader);
	return failed;
}
