/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of the kernel log: anybody who may write to it can write anything. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trace/kmsg.h"

/* Parses a copy that is exactly as long as the record. */
static bool parse(const char *record, struct kmsg_xid *x)
{
	size_t size = strlen(record) + 1;
	char *copy = malloc(size);
	bool ret;

	assert_non_null(copy);
	memcpy(copy, record, size);
	memset(x, 0xee, sizeof(*x));
	ret = kmsg_parse_xid(copy, x);
	free(copy);
	return ret;
}

static void as_the_driver_writes(void **state)
{
	struct kmsg_xid x;

	(void)state;
	assert_true(parse("6,1234,5678901,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, "
			  "GPU has fallen off the bus.\n",
			  &x));
	assert_int_equal(x.number, 79);
	assert_int_equal(x.ts_ns, 5678901000);
	assert_string_equal(x.gpu, "PCI:0000:3b:00");
	assert_string_equal(x.message, "pid=1234, name=python, GPU has fallen off the bus.");
	assert_true(parse("4,1,7,c,caller=T12;NVRM: Xid (PCI:0000:3b:00): 31, Ch 00000010\n", &x));
	assert_int_equal(x.number, 31);
	assert_string_equal(x.message, "Ch 00000010");
	/* Behind another prefix, without a message, without an end of line. */
	assert_true(parse("4,1,7,-;[drm] NVRM: Xid (0000:03:00): 13", &x));
	assert_int_equal(x.number, 13);
	assert_string_equal(x.gpu, "0000:03:00");
	assert_string_equal(x.message, "");
	assert_true(parse("4,1,7,-;NVRM: Xid (a): 4294967295,", &x));
	assert_int_equal(x.number, UINT32_MAX);
}

/* Lines that follow say which device, for programs: their text is no message. */
static void dictionary(void **state)
{
	struct kmsg_xid x;

	(void)state;
	assert_true(
		parse("3,1,7,-;NVRM: Xid (PCI:1): 8, hung\n SUBSYSTEM=pci\n DEVICE=+pci:0\n", &x));
	assert_string_equal(x.message, "hung");
	assert_false(parse("3,1,7,-;usb 1-1: new\n DEVICE=NVRM: Xid (PCI:1): 8, no\n", &x));
	assert_false(parse("3,1,7,-;NVRM: Xid (PCI:1\n DEVICE=): 8, no\n", &x));
	assert_false(parse("3,1,7,-;NVRM: Xid (PCI:1): \n 8, no\n", &x));
}

static void not_an_xid(void **state)
{
	static const char *const records[] = {
		"",
		";",
		"\n",
		"no semicolon NVRM: Xid (PCI:1): 8, x",
		"NVRM: Xid (PCI:1): 8; 6,1,2,-",
		"6,1;NVRM: Xid (PCI:1): 8",
		"6,1,;NVRM: Xid (PCI:1): 8",
		"a,b,c,-;NVRM: Xid (PCI:1): 8",
		"6,1,2,-;",
		"6,1,2,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
		"6,1,2,-;NVRM: Xid",
		"6,1,2,-;NVRM: Xid (",
		"6,1,2,-;NVRM: Xid ()",
		"6,1,2,-;NVRM: Xid (PCI:1",
		"6,1,2,-;NVRM: Xid (PCI:1)",
		"6,1,2,-;NVRM: Xid (PCI:1):",
		"6,1,2,-;NVRM: Xid (PCI:1): ",
		"6,1,2,-;NVRM: Xid (PCI:1): x",
		"6,1,2,-;NVRM: Xid (PCI:1):8",
		"6,1,2,-;NVRM: Xid (PCI:1):  8",
		"6,1,2,-;NVRM: Xid (PCI:1): -8, x",
		"6,1,2,-;NVRM: Xid (PCI:1): +8, x",
		"6,1,2,-;NVRM: Xid (PCI:1): 4294967296, x",
		"6,1,2,-;NVRM: Xid (PCI:1): 99999999999999999999999999, x",
	};
	struct kmsg_xid x;

	(void)state;
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		if (parse(records[i], &x))
			fail_msg("taken for an Xid: %s", records[i]);
}

/* Every beginning of a record: never more than is there. */
static void truncated(void **state)
{
	static const char record[] =
		"6,18446744073709551615,18446744073709551615,-;NVRM: Xid (PCI:0000:3b:00): 79, "
		"pid='<unknown>', name=<unknown>\n SUBSYSTEM=pci\n";
	const char *number = strstr(record, ": 79") + 2;
	struct kmsg_xid x;
	char *part;

	(void)state;
	for (size_t len = 0; len < sizeof(record); len++) {
		part = strndup(record, len);
		assert_non_null(part);
		assert_int_equal(parse(part, &x), record + len > number);
		free(part);
	}
}

/* Longer than there is room for. */
static void long_parts(void **state)
{
	struct kmsg_xid x;
	char record[8192];
	size_t len;

	(void)state;
	len = snprintf(record, sizeof(record), "6,1,2,-;NVRM: Xid (");
	memset(record + len, 'g', 3000);
	len += 3000;
	len += snprintf(record + len, sizeof(record) - len, "): 62, ");
	memset(record + len, 'm', sizeof(record) - len - 1);
	record[sizeof(record) - 1] = 0;
	assert_true(parse(record, &x));
	assert_int_equal(x.number, 62);
	assert_int_equal(strlen(x.gpu), sizeof(x.gpu) - 1);
	assert_int_equal(strlen(x.message), sizeof(x.message) - 1);
	assert_int_equal(x.message[0], 'm');
	assert_int_equal(x.gpu[30], 'g');
}

static void any_bytes(void **state)
{
	uint32_t seed = 1;
	struct kmsg_xid x;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		char record[] = "6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n D=1\n";

		for (int i = 0; i < 1 + round % 5; i++) {
			seed = seed * 1664525 + 1013904223;
			record[(seed >> 8) % (sizeof(record) - 1)] = seed >> 24;
		}
		if (!parse(record, &x))
			continue;
		assert_true(memchr(x.gpu, 0, sizeof(x.gpu)));
		assert_true(memchr(x.message, 0, sizeof(x.message)));
		assert_null(strchr(x.gpu, '\n'));
		assert_null(strchr(x.message, '\n'));
	}
}

static void note(void *ctx, const struct event *ev)
{
	snprintf(ctx, 64, "%u %s %s", (unsigned)ev->xid.xid, ev->xid.gpu,
		 ev->xid.message ?: "none");
}

/* The driver's text may name a process: with anything hidden it is in no event. */
static void hidden(void **state)
{
	static const char record[] = "6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, name=secret\n";
	char said[64];
	int fds[2];

	(void)state;
	for (int shown = 0; shown < 2; shown++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
		assert_int_equal(write(fds[1], record, sizeof(record) - 1), sizeof(record) - 1);
		kmsg__read(fds[0], shown, note, said);
		assert_string_equal(said, shown ? "79 PCI:0000:3b:00 name=secret"
						: "79 PCI:0000:3b:00 none");
		close(fds[0]);
		close(fds[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_driver_writes),
		cmocka_unit_test(dictionary),
		cmocka_unit_test(not_an_xid),
		cmocka_unit_test(truncated),
		cmocka_unit_test(long_parts),
		cmocka_unit_test(any_bytes),
		cmocka_unit_test(hidden),
	};

	return cmocka_run_group_tests_name("kmsg", tests, NULL, NULL);
}
