/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace list --schema=budget: the JSON Schema of a budget, from the rows of limits.def. */
#include "list.h"

#include <stdio.h>
#include <string.h>

#include "budget/perf_budget.h"
#include "util/out.h"

/* The definition for the values of each unit. YAML readers read some values as numbers and others
 * as text. */
static const char *const forms[] = {
	[BUDGET_COUNT] = "count",
	[BUDGET_BYTES] = "bytes",
	[BUDGET_TIME] = "time",
	[BUDGET_SHARE] = "share",
};

static const char defs[] =
	"\"$defs\":{\n"
	"\"count\":{\"anyOf\":[{\"type\":\"integer\",\"minimum\":0},"
	"{\"type\":\"string\",\"pattern\":\"^([0-9]+|[+][0-9]+([.][0-9]+)?%?)$\"}]},\n"
	"\"bytes\":{\"anyOf\":[{\"type\":\"integer\",\"minimum\":0},"
	"{\"type\":\"string\",\"pattern\":\"^([+]?[0-9]+([KMG](i?B)?)?|[+][0-9]+([.][0-9]+)?%)$\"}]},\n"
	"\"time\":{\"anyOf\":[{\"const\":0},"
	"{\"type\":\"string\",\"pattern\":\"^[+]?([0-9]+([.][0-9]+)?(us|ms|s|m|h)|0|[0-9]+([.][0-9]+)?%)$\"}]},\n"
	"\"share\":{\"anyOf\":[{\"type\":\"number\",\"minimum\":0},"
	"{\"type\":\"string\",\"pattern\":\"^[0-9]+([.][0-9]+)?%?$\"}]}}";

static void put_words(struct out *out, const char *words)
{
	for (bool first = true; *words; first = false) {
		size_t len = strcspn(words, " ");

		out_str(out, first ? "\"" : ",\"");
		out_bytes(out, words, len);
		out_char(out, '"');
		words += len + (words[len] == ' ');
	}
}

/* Entries with this value of `per`. */
static void put_scope(struct out *out, enum budget_scope scope)
{
	const struct budget_row *rows;
	bool first = true;
	unsigned cnt;

	out_lit(out,
		"{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\n\"per\":{\"const\":\"");
	out_str(out, budget_scope_name(scope));
	out_lit(out, "\"}");
	if (budget_has_name(scope))
		out_lit(out, ",\n\"name\":{\"type\":\"string\",\"minLength\":1}");
	if (budget_has_statistic(scope)) {
		out_lit(out, ",\n\"of\":{\"enum\":[");
		put_words(out, BUDGET_STATISTICS);
		out_lit(out, "]}");
	}
	rows = budget_rows(&cnt);
	for (unsigned i = 0; i < cnt; i++) {
		if (rows[i].scope != scope)
			continue;
		out_lit(out, ",\n\"");
		out_str(out, rows[i].name);
		out_lit(out, "\":{\"description\":");
		out_json_str(out, rows[i].text, strlen(rows[i].text));
		out_lit(out, ",\"$ref\":\"#/$defs/");
		out_str(out, forms[rows[i].unit]);
		out_lit(out, "\"}");
	}
	/* `per: run` may be left out. */
	out_lit(out, "},\n\"required\":[");
	put_words(out, scope == BUDGET_RUN ? "" : budget_has_name(scope) ? "per name" : "per");
	out_lit(out, "],\"anyOf\":[");
	for (unsigned i = 0; i < cnt; i++) {
		if (rows[i].scope != scope)
			continue;
		out_str(out, first ? "{\"required\":[\"" : ",{\"required\":[\"");
		out_str(out, rows[i].name);
		out_lit(out, "\"]}");
		first = false;
	}
	out_lit(out, "]}");
}

void budget_schema(struct out *out)
{
	out_lit(out,
		"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\n"
		"\"title\":\"a budget of cudatrace\",\n\"type\":\"object\",\"additionalProperties\":false,"
		"\"required\":[\"limits\"],\n\"properties\":{\"allow_losses\":{\"type\":\"boolean\"},\n"
		"\"limits\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"oneOf\":[\n");
	for (enum budget_scope s = 0; s < BUDGET_SCOPE_CNT; s++) {
		put_scope(out, s);
		out_str(out, s + 1 < BUDGET_SCOPE_CNT ? ",\n" : "]}}},\n");
	}
	out_str(out, defs);
	out_lit(out, "}\n");
}
