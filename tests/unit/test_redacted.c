/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Redacted page faults and migrations, from the record to the files. The BPF side does not read the
 * data; if a record has it, no sink writes it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ct_record.h"
#include "ct_nv.h"
#include "decode/fnset.h"
#include "record/check.h"
#include "model/model.h"
#include "sink/sink.h"

#define ADDRESS 0x7a5ec2e73000ull
#define BYTES	0x5ec2e7000ull

static struct sink *sink;

static void on_event(void *ctx, const struct trace_event *ev)
{
	sink__event(sink, ev);
}

/* A sink's output for a fault of the CPU, one of a GPU, and a migration. */
static char *written(enum sink_id kind, enum ct_redact redact)
{
	static const struct trace_info info = {.version = "1"};
	struct ct_uvm rec = {
		.rec = {.size = sizeof(rec), .kind = CT_REC_UVM, .ts_ns = 5, .pid = 7, .tid = 7},
		.address = ADDRESS,
		.bytes = BYTES};
	char path[] = "/tmp/cudatrace-redacted-XXXXXX", *text = calloc(1, 1 << 16);
	struct fnset *fns = fnset__new();
	struct model_opts opts = {
		.fns = fns, .fn = on_event, .redact = redact, .stub_func_id = CT_MAX_FUNCS - 1};
	struct model *m = model__new(&opts);
	struct raw raw;
	FILE *f;

	close(mkstemp(path));
	sink = sink__open(kind, path, &info);
	assert_true(m && fns && sink && text);
	for (unsigned i = 0; i < 3; i++) {
		rec.op = i < 2 ? CT_UVM_FAULT : CT_UVM_MIGRATION;
		rec.dst = i == 1;
		assert_int_equal(raw_check(&rec, sizeof(rec), 0, &raw), 0);
		model__record(m, &raw);
	}
	assert_int_equal(sink__close(sink, NULL), 0);
	model__free(m);
	fnset__free(fns);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
	fclose(f);
	unlink(path);
	return text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text++;
	}
	return n;
}

static void test_uvm(void **state)
{
	static const enum sink_id kinds[] = {SINK_JSONL, SINK_CHROME};

	for (int k = 0; k < 2; k++) {
		for (enum ct_redact redact = CT_REDACT_NOTHING; redact <= CT_REDACT_ARGS;
		     redact++) {
			char *text = written(kinds[k], redact);
			bool shown = redact != CT_REDACT_ARGS;

			assert_true(count(text, "fault") >= 2 && count(text, "migration"));
			assert_int_equal(
				count(text, "7a5ec2e73000") + count(text, "134547415445504") >= 3,
				shown);
			assert_int_equal(count(text, "25437302784") > 0, shown);
			free(text);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_uvm)};

	return cmocka_run_group_tests_name("redacted", tests, NULL, NULL);
}
