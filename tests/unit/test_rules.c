/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "daemon/rules.h"

static struct config *config_of(const char *text)
{
	struct config_errors errors = {0};
	struct config *c = config__new();

	assert_non_null(c);
	if (!config__read_text(c, "test", text, strlen(text), &errors))
		fail_msg("%s", errors.text);
	return c;
}

static const struct labels in_pod = {
	.cgroup = "/kubepods/burstable/pod1/abc",
	.container = "abc",
	.container_name = "server",
	.pod = "vllm-0",
	.pod_uid = "1-2-3",
	.namespace = "llm",
};
static const struct labels none;

/* Line of the first rule that matches; 0: none. */
static unsigned found(const struct config *c, uid_t uid, const char *comm, const char *command,
		      const struct labels *l)
{
	const struct rule_subject s = {uid, comm, command, l};
	const struct rule *r = rules__find(c, &s);

	return r ? r->line : 0;
}

static void first_counts(void **state)
{
	struct config *c = config_of("rules:\n"
				     "  - match: {command: \"python*\", namespace: llm}\n"
				     "    level: trace\n"
				     "  - match: {command: \"python*\"}\n"
				     "    level: off\n");

	assert_int_equal(found(c, 0, "python3", "python3 x.py", &in_pod), 2);
	/* All patterns of a rule must match; unknown values match none. */
	assert_int_equal(found(c, 0, "python3", "python3 x.py", &none), 4);
	assert_int_equal(found(c, 0, "sh", "sh", &in_pod), 0);
	config__free(c);
}

static void commands(void **state)
{
	/* name, whole line, first word, its last part */
	assert_true(
		rule_command_matches("pt_main*", false, "pt_main_thread", "/usr/bin/python3 x.py"));
	assert_true(
		rule_command_matches("*vllm*", false, "python3", "python3 -m vllm.entrypoints"));
	assert_true(rule_command_matches("*/python3", false, "x", "/usr/bin/python3 x.py"));
	assert_true(rule_command_matches("python3", false, "x", "/usr/bin/python3 x.py"));
	assert_false(rule_command_matches("python", false, "x", "/usr/bin/python3 x.py"));
	assert_true(rule_command_matches("*--key=s*", false, "x", "/bin/serve --key=s3"));
	assert_false(rule_command_matches("*--key=s*", true, "x", "/bin/serve --key=s3"));
	assert_true(rule_command_matches("serv?", true, "x", "/bin/serve --key=s3"));
	assert_false(rule_command_matches("x.py", false, "x", "/usr/bin/python3 x.py"));
	assert_true(rule_command_matches("a", false, "a", ""));
}

static void labels_of_all_kinds(void **state)
{
	static const char *const matches[] = {
		"pod: vllm-*",	    "pod: 1-2-3",     "container: abc",
		"container: serv*", "namespace: llm", "cgroup: \"*burstable*\"",
		"user: \"0\"",	    "user: root",
	};
	static const char *const others[] = {
		"pod: \"x*\"", "container: ab", "namespace: ll", "user: nobody", "user: \"1\"",
	};
	char text[256];

	for (size_t i = 0; i < sizeof(matches) / sizeof(matches[0]); i++) {
		struct config *c;

		snprintf(text, sizeof(text), "rules:\n  - match: {%s}\n    level: off\n",
			 matches[i]);
		c = config_of(text);
		if (!found(c, 0, "a", "a b", &in_pod))
			fail_msg("%s", matches[i]);
		config__free(c);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct config *c;

		snprintf(text, sizeof(text), "rules:\n  - match: {%s}\n    level: off\n",
			 others[i]);
		c = config_of(text);
		if (found(c, 0, "a", "a b", &in_pod))
			fail_msg("%s", others[i]);
		config__free(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_counts),
		cmocka_unit_test(commands),
		cmocka_unit_test(labels_of_all_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
