/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"
#include "util/clock.h"

static struct config_errors errors;

static struct config *read_text(const char *text)
{
	struct config *c = config__new();

	assert_non_null(c);
	memset(&errors, 0, sizeof(errors));
	config__read_text(c, "c.yaml", text, strlen(text), &errors);
	return c;
}

static void good(const char *text, void (*check)(const struct config *c))
{
	struct config *c = read_text(text);

	assert_string_equal(errors.text, "");
	assert_true(config__check(c, "c.yaml", &errors));
	check(c);
	config__free(c);
}

/* Expects exactly these messages. */
static void bad(const char *text, const char *want)
{
	struct config *c = read_text(text);

	if (!errors.cnt)
		config__check(c, "c.yaml", &errors);
	assert_string_equal(errors.text, want);
	config__free(c);
}

static void presets(const struct config *c)
{
	assert_int_equal(c->level, LEVEL_METRICS);
	assert_int_equal(c->sample.trace_ns, 5000000000);
	assert_int_equal(c->sample.every_ns, 300000000000);
	assert_true(c->sample.on.error);
	assert_int_equal(c->files.total_size, 4ull << 30);
	assert_int_equal(c->files.compress, COMPRESS_ZSTD);
	assert_string_equal(c->metrics.listen, "127.0.0.1:9464");
	assert_int_equal(c->rule_cnt, 0);
	assert_int_equal(c->trace.detail, DETAIL_UNSET);
}

static void defaults(void **state)
{
	good("", presets);
	good("# nothing\n", presets);
	good("---\n", presets);
	good("sample:\n", presets);
}

static void check_all(const struct config *c)
{
	assert_int_equal(c->level, LEVEL_OFF);
	assert_int_equal(c->rule_cnt, 2);
	assert_string_equal(c->rules[0].namespace, "kube-system");
	assert_null(c->rules[0].command);
	assert_int_equal(c->rules[0].level, LEVEL_OFF);
	assert_string_equal(c->rules[1].command, "*vllm*");
	assert_string_equal(c->rules[1].user, "inference");
	assert_int_equal(c->rules[1].level, LEVEL_SAMPLED);
	assert_int_equal(c->sample.every_ns, 0);
	assert_int_equal(c->sample.on.sync_above_ns, 500000000);
	assert_int_equal(c->sample.on.memory_above, 60ull << 30);
	assert_false(c->sample.on.xid);
	assert_string_equal(c->files.on_rotate, "cp \"$1\" /srv");
	assert_string_equal(c->metrics.listen, "");
	assert_int_equal(c->trace.detail, DETAIL_LOW);
}

static void everything(void **state)
{
	good("level: off\n"
	     "rules:\n"
	     "  - match: {namespace: kube-system}\n"
	     "    level: off\n"
	     "  - match:\n"
	     "      command: \"*vllm*\"\n"
	     "      user: inference\n"
	     "    level: sampled\n"
	     "sample:\n"
	     "  every: 0\n"
	     "  on: {xid: false, sync_above: 500ms, memory_above: 60G}\n"
	     "files: {on_rotate: cp \"$1\" /srv}\n"
	     "trace: {detail: low}\n"
	     "metrics: {listen: \"\"}\n",
	     check_all);
}

static void no_check(const struct config *c)
{
}

/* libyaml's time grows with the square of the depth, and of the number of anchors: 1 MiB of either
 * took minutes. */
static void limited_time(void **state)
{
	static const struct {
		const char *unit, *why;
	} texts[] = {
		{"[", "c.yaml:1: not YAML: more than 100 [ and { are open at once\n"},
		{"{a: ", "c.yaml:1: not YAML: more than 100 [ and { are open at once\n"},
		{"- &a x\n", "c.yaml:1: not read: more than 10000 anchors (&), aliases (*) and "
			     "directives (%)\n"},
		{"- ", "c.yaml: must have keys, as in \"level: metrics\"\n"},
	};
	static char text[1 << 20];

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		size_t n = strlen(texts[i].unit);

		memset(text, 0, sizeof(text));
		for (size_t at = 0; at + n < sizeof(text); at += n)
			memcpy(text + at, texts[i].unit, n);
		bad(text, texts[i].why);
		assert_true(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin < 10 * SEC_NS);
	}
}

static void what_is_wrong(void **state)
{
	bad("sample:\n  evry: 5m\n",
	    "c.yaml:2: sample.evry: there is no such key; did you mean sample.every?\n");
	bad("qqqqqqqqqqqqqqqqqq: 1\n",
	    "c.yaml:1: qqqqqqqqqqqqqqqqqq: there is no such key; "
	    "cudatrace daemon --check-config --config /dev/null lists all\n");
	bad("\nlevel: all\n",
	    "c.yaml:2: level: 'all' is not understood; write one of off, metrics, "
	    "trace, sampled\n");
	bad("sample: {trace: 5}\n",
	    "c.yaml:1: sample.trace: '5' is not understood; write a time with "
	    "its unit, as in 500ms, 5s, 10m, 1h\n");
	bad("recorder: {memory: 4K}\n",
	    "c.yaml:1: recorder.memory: 4K is too small; the default is 32M\n");
	bad("files: {compress: lz4}\n",
	    "c.yaml:1: files.compress: 'lz4' is not understood; write one "
	    "of none, gzip, zstd\n");
	bad("metrics:\n  listen: [1]\n", "c.yaml:2: metrics.listen: must be a text\n");
	bad("sample: 5\n", "c.yaml:1: sample: must have keys, indented below it\n");
	bad("a: b: c\n",
	    "c.yaml:1: not YAML: mapping values are not allowed in this context; look at "
	    "the indentation and quotes there\n");
	bad("- 1\n", "c.yaml: must have keys, as in \"level: metrics\"\n");
	bad("rules: {}\n", "c.yaml:1: rules: must be a list, each with match and level\n");
	bad("rules:\n- level: off\n", "c.yaml:2: rules: this rule has no match\n");
	bad("rules:\n- match: {image: x}\n  level: off\n",
	    "c.yaml:2: rules: match has no key 'image'; use user, command, cgroup, container, pod "
	    "or namespace\n");
	bad("rules:\n- match: {pod: x}\n  levle: off\n",
	    "c.yaml:3: rules: there is no key 'levle'; a rule has match, level and inject\n"
	    "c.yaml:2: rules: this rule has no level\n");
	bad("metrics: {listen: localhost}\n",
	    "c.yaml: metrics.listen: 'localhost' has no port; write it as 127.0.0.1:9464\n");
	bad("otlp: {endpoint: \"https://x\"}\n",
	    "c.yaml: otlp.endpoint: 'https://x': https is not supported; name a collector on this node "
	    "by http://, which forwards by TLS\n");
	bad("files: {rotate_size: 3G}\n",
	    "c.yaml: files.rotate_size must be at most half of files.total_size\n");
	bad("trace: {redact: all}\n",
	    "c.yaml:1: trace.redact: 'all' is not understood; write one of none, strings, "
	    "arguments\n");
	bad("trace: {detail: quiet}\n",
	    "c.yaml:1: trace.detail: 'quiet' is not understood; write one of low, normal, high, all\n");
	bad("trace: {redact: arguments}\nsample: {on: {memory_above: 1G}}\n",
	    "c.yaml: memory_above needs sizes, and trace.redact: arguments hides them; set one of the "
	    "two to 0 or none\n");
	bad("files: {total_size: 32M, rotate_size: 4M}\n",
	    "c.yaml: recorder.memory (32M) and a file (files.rotate_size, 4M, and 192 KiB) do not fit into "
	    "files.total_size (32M): lower recorder.memory, or set recorder.seconds to 0\n");
	bad("recorder: {memory: 3840M}\n",
	    "c.yaml: recorder.memory (3840M) and a file (files.rotate_size, 256M, and 192 KiB) do not fit "
	    "into files.total_size (4G): lower recorder.memory, or set recorder.seconds to 0\n");
	good("files: {total_size: 64M, rotate_size: 4M}\nrecorder: {memory: 48M}\n", no_check);
	good("files: {total_size: 64M, rotate_size: 4M}\nrecorder: {seconds: 0}\n", no_check);
	bad("level: off\nmetrics: {memory: true}\nlevel: trace\n",
	    "c.yaml:3: the key 'level' is there twice: remove one\n");
	bad("files:\n  compress: none\nmetrics: {memory: true}\nfiles: {rotate_size: 4M}\n",
	    "c.yaml:4: the key 'files' is there twice: remove one\n");
	bad("rules:\n- match: {pod: x,\n    pod: y}\n  level: off\n",
	    "c.yaml:3: the key 'pod' is there twice: remove one\n");
	/* two errors at once: both are printed */
	bad("level: x\ntrace: {kernel: maybe}\n",
	    "c.yaml:1: level: 'x' is not understood; write one of off, metrics, trace, sampled\n"
	    "c.yaml:2: trace.kernel: 'maybe' is not understood; write true or false\n");
}

static void command_line(void **state)
{
	struct config *c = config__new();

	memset(&errors, 0, sizeof(errors));
	assert_true(config__set(c, "level=trace", &errors));
	assert_int_equal(c->level, LEVEL_TRACE);
	assert_true(config__set(c, "files.on_rotate=a=b", &errors));
	assert_string_equal(c->files.on_rotate, "a=b");
	assert_false(config__set(c, "level", &errors));
	assert_false(config__set(c, "=x", &errors));
	assert_false(config__set(c, "levle=off", &errors));
	assert_string_equal(errors.text,
			    "--set: 'level': write KEY=VALUE, as in --set level=trace\n"
			    "--set: '=x': write KEY=VALUE, as in --set level=trace\n"
			    "--set: levle: there is no such key; did you mean level?\n");
	config__free(c);
}

/* The number of messages is limited. */
static void many_errors(void **state)
{
	char *text = malloc(100000);
	struct config *c;

	text[0] = '\0';
	for (int i = 0; i < 2000; i++)
		strcat(text, "level: x\n");
	c = read_text(text);
	assert_true(strlen(errors.text) < sizeof(errors.text));
	config__free(c);
	free(text);
}

static void collect(void *ctx, const char *key, const char *val)
{
	char *text = ctx;

	if (!strcmp(key, "sample.every") || !strcmp(key, "files.total_size"))
		sprintf(text + strlen(text), "%s=%s;", key, val);
}

static void printing(void **state)
{
	struct config *c = config__new();
	char text[256] = "";

	config__print(c, collect, text);
	assert_string_equal(text, "sample.every=300s;files.total_size=4G;");
	config__free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),	 cmocka_unit_test(everything),
		cmocka_unit_test(what_is_wrong), cmocka_unit_test(limited_time),
		cmocka_unit_test(command_line),	 cmocka_unit_test(many_errors),
		cmocka_unit_test(printing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
