/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The verdict of the summary does not contradict that of the report: for each trace of the corpus,
 * with its GPU times and without them, it names the same limit or none. Runs in the top-level
 * folder.
 */
#include "summary_check.h"

#include <glob.h>
#include <string.h>

#include "report/advice/verdict_priv.h"
#include "saved/reader.h"

struct both {
	struct report *report;
	struct summary *summary;
	const struct trace_info *info;
	struct trace_end end;
	bool no_gpu;
	char text[16384]; /* the summary's lines, joined */
};

static int on_begin(void *ctx, const char *path, const struct trace_info *info)
{
	struct both *x = ctx;

	x->info = info;
	x->report = report__new(&(struct report_opts){.top = 10}, info);
	x->summary = summary__new();
	report__also(x->report, path, info);
	return 0;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	struct both *x = ctx;

	if (x->no_gpu && ev->kind == EVENT_GPU)
		return;
	report__event(x->report, ev);
	summary__event(x->summary, ev);
}

static void print_summary(struct both *x)
{
	FILE *f = fmemopen(x->text, sizeof(x->text), "w");
	char *to = x->text;

	summary__print_short(x->summary, f, x->info, &x->end, NULL, 0, 200, false);
	fclose(f);
	/* A row of several lines is one text. */
	for (const char *c = x->text; *c; c++) {
		if (*c == '\n' && c[1] == ' ')
			c += strspn(c, "\n ") - 1, *to++ = ' ';
		else
			*to++ = *c;
	}
	*to = '\0';
}

static void on_end(void *ctx, const struct trace_info *info, const struct trace_end *end)
{
	struct both *x = ctx;

	report__ended(x->report, info, end);
	x->end = *end;
	if (x->no_gpu)
		x->end.gpu.on = false;
	print_summary(x);
}

static unsigned known;

/* A limit that the summary names is in the report's sentence, and start-up is as long at least. */
static void compare(const char *path, bool no_gpu)
{
	static const struct reader_ops ops = {.begin = on_begin, .event = on_event, .end = on_end};
	struct both *x = calloc(1, sizeof(*x));
	struct reader *reader = reader__new(&ops, x);
	const struct verdict *v;
	struct saved_file f;
	char row[1024], claim[256];
	const char *at;

	x->no_gpu = no_gpu;
	assert_int_equal(reader__file(reader, path, &f), 0);
	report__finish(x->report, NULL, &f, 1);
	v = x->report->an[AN_VERDICT];
	at = strstr(x->text, "\nVerdict ");
	assert_non_null(at);
	snprintf(row, sizeof(row), "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
	snprintf(claim, sizeof(claim), "%s", row + TERM_LABEL);
	claim[strcspn(claim, ":")] = '\0';
	known += strcmp(claim, "Not known") != 0;
	if (strcmp(claim, "Not known") != 0 && !strstr(v->sentence, claim))
		fail_msg("%s: \"%s\" is not in: %s", path, claim, v->sentence);
	at = strstr(row, "at least ");
	if (at && v->whole_ns && strtod(at + 9, NULL) > 100.0 * v->startup_ns / v->whole_ns + 0.1)
		fail_msg("%s: %s, but start-up is shorter: %s", path, row, v->sentence);
	report__free(x->report);
	summary__free(x->summary);
	reader__free(reader);
	free(x);
}

static void corpus_agrees(void **state)
{
	glob_t found;

	assert_int_equal(glob("tests/corpus/*.jsonl.zst", 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		compare(found.gl_pathv[i], false);
		compare(found.gl_pathv[i], true);
	}
	globfree(&found);
	assert_true(known >= 20);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(corpus_agrees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
