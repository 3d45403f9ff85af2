/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of the kernel log: any process with write access can write anything. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace/kmsg.h"

/* Parses a copy in a block of exactly the record's size. */
static bool parse(const char *record, struct ct_xid *x)
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
	struct ct_xid x;

	assert_true(parse("6,1234,5678901,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, "
			  "GPU has fallen off the bus.\n",
			  &x));
	assert_int_equal(x.code, 79);
	assert_int_equal(x.rec.ts_ns, 5678901000);
	assert_string_equal(x.device, "PCI:0000:3b:00");
	assert_string_equal(x.msg, "pid=1234, name=python, GPU has fallen off the bus.");
	assert_true(parse("4,1,7,c,caller=T12;NVRM: Xid (PCI:0000:3b:00): 31, Ch 00000010\n", &x));
	assert_int_equal(x.code, 31);
	assert_string_equal(x.msg, "Ch 00000010");
	/* An old driver, without a message, without an end of line. */
	assert_true(parse("4,1,7,-;NVRM: Xid (0000:03:00): 13", &x));
	assert_int_equal(x.code, 13);
	assert_string_equal(x.device, "0000:03:00");
	assert_string_equal(x.msg, "");
	/* With MIG. */
	assert_true(parse("4,1,7,-;NVRM: Xid (PCI:0000:c1:00 GPU-I:05): 4294967295,", &x));
	assert_int_equal(x.code, UINT32_MAX);
	assert_string_equal(x.device, "PCI:0000:c1:00 GPU-I:05");
}

/* Continuation lines name the device, for programs: their text is not a message. */
static void dictionary(void **state)
{
	struct ct_xid x;

	assert_true(parse(
		"3,1,7,-;NVRM: Xid (PCI:0000:3b:00): 8, hung\n SUBSYSTEM=pci\n DEVICE=+pci:0\n",
		&x));
	assert_string_equal(x.msg, "hung");
	assert_false(
		parse("3,1,7,-;usb 1-1: new\n DEVICE=NVRM: Xid (PCI:0000:3b:00): 8, no\n", &x));
	assert_false(parse("3,1,7,-;NVRM: Xid (PCI:0000:3b:00\n DEVICE=): 8, no\n", &x));
	assert_false(parse("3,1,7,-;NVRM: Xid (PCI:0000:3b:00): \n 8, no\n", &x));
}

static void not_an_xid(void **state)
{
	static const char *const records[] = {
		"",
		";",
		"\n",
		"no semicolon NVRM: Xid (PCI:0000:3b:00): 8, x",
		"NVRM: Xid (PCI:0000:3b:00): 8; 6,1,2,-",
		"6,1;NVRM: Xid (PCI:0000:3b:00): 8",
		"6,1,;NVRM: Xid (PCI:0000:3b:00): 8",
		"a,b,c,-;NVRM: Xid (PCI:0000:3b:00): 8",
		"6,1,2,-;",
		"6,1,2,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
		"6,1,2,-;NVRM: Xid",
		"6,1,2,-;NVRM: Xid (",
		"6,1,2,-;NVRM: Xid ()",
		"6,1,2,-;NVRM: Xid (1): 8, x",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b): 8, x",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:0): 8, x",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00 x): 8, x",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00, x): 8, x",
		/* A file's name, a program's name, another prefix. */
		"6,1,2,-;x[123]: segfault at 0 ip 0 sp 0 error 6 in NVRM: Xid (PCI:0000:3b:00): 79, pid=1",
		"6,1,2,-;NVRM: Xid (PCI:[2674]: segfault at 0 ip 00): 79, x",
		"6,1,2,-;traps: NVRM: Xid (PCI:0000:3b:00): 79, x",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00)",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00):",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00): ",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00): x",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00):8",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00):  8",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00): -8, x",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00): +8, x",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 4294967296, x",
		"6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 99999999999999999999999999, x",
	};
	struct ct_xid x;

	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		if (parse(records[i], &x))
			fail_msg("taken for an Xid: %s", records[i]);
}

/* Each prefix of a record: no read past its end. */
static void truncated(void **state)
{
	static const char record[] =
		"6,18446744073709551615,18446744073709551615,-;NVRM: Xid (PCI:0000:3b:00): 79, "
		"pid='<unknown>', name=<unknown>\n SUBSYSTEM=pci\n";
	const char *number = strstr(record, ": 79") + 2;
	struct ct_xid x;
	char *part;

	for (size_t len = 0; len < sizeof(record); len++) {
		part = strndup(record, len);
		assert_non_null(part);
		assert_int_equal(parse(part, &x), record + len > number);
		free(part);
	}
}

/* Longer than the buffer. */
static void long_message(void **state)
{
	struct ct_xid x;
	char record[8192];
	size_t len;

	len = snprintf(record, sizeof(record), "6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 62, ");
	memset(record + len, 'm', sizeof(record) - len - 1);
	record[sizeof(record) - 1] = 0;
	assert_true(parse(record, &x));
	assert_int_equal(x.code, 62);
	assert_int_equal(strlen(x.msg), sizeof(x.msg) - 1);
	assert_int_equal(x.msg[0], 'm');
}

static void any_bytes(void **state)
{
	uint32_t seed = 1;
	struct ct_xid x;

	for (int round = 0; round < 20000; round++) {
		char record[] = "6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n D=1\n";

		for (int i = 0; i < 1 + round % 5; i++) {
			seed = seed * 1664525 + 1013904223;
			record[(seed >> 8) % (sizeof(record) - 1)] = seed >> 24;
		}
		if (!parse(record, &x))
			continue;
		assert_true(memchr(x.device, 0, sizeof(x.device)));
		assert_true(memchr(x.msg, 0, sizeof(x.msg)));
		assert_null(strchr(x.device, '\n'));
		assert_null(strchr(x.msg, '\n'));
	}
}

/* Reads of the log for which records had been overwritten. */
static unsigned gaps;

ssize_t read(int fd, void *buf, size_t size)
{
	if (gaps) {
		gaps--;
		errno = EPIPE;
		return -1;
	}
	return syscall(SYS_read, fd, buf, size);
}

static void note(void *ctx, const struct raw *raw)
{
	const struct ct_xid *x = (const void *)raw->rec;
	size_t len = strlen(ctx);

	assert_int_equal(raw->rec->kind, CT_REC_XID);
	snprintf((char *)ctx + len, 128 - len, "%llu: %u %s %s\n",
		 (unsigned long long)raw->rec->ts_ns, x->code, x->device,
		 *x->msg ? x->msg : "none");
}

/* A log that holds what is written to fds[1]. */
static struct source *open_log(int fds[2], bool messages, char *said)
{
	struct source *s = calloc(1, kmsg_source_ops.size);

	assert_non_null(s);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	*s = (struct source){
		.ops = &kmsg_source_ops, .next_ns = SOURCE_NONE, .fn = note, .ctx = said};
	kmsg__use(s, fds[0], messages);
	assert_int_equal(source__fd(s), fds[0]);
	return s;
}

static void close_log(struct source *s, int fds[2])
{
	s->ops->close(s);
	close(fds[1]);
	free(s);
}

static void write_log(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* The driver's text may name a process: if anything is redacted, no record has it. */
static void redacted(void **state)
{
	int fds[2];

	for (int shown = 0; shown < 2; shown++) {
		char said[128] = "";
		struct source *s = open_log(fds, shown, said);

		write_log(fds[1], "6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, name=secret\n");
		assert_true(s->ops->look(s, 5));
		assert_int_equal(s->ops->take(s, 10, 5), 1);
		assert_string_equal(said, shown ? "5: 79 PCI:0000:3b:00 name=secret\n"
						: "5: 79 PCI:0000:3b:00 none\n");
		close_log(s, fds);
	}
}

/* Returns as many records as requested, with the time at which each was found. */
static void one_after_the_other(void **state)
{
	char said[128] = "";
	int fds[2];
	struct source *s = open_log(fds, true, said);

	assert_true(s->ops->look(s, 5));
	assert_int_equal(s->next_ns, SOURCE_NONE);
	write_log(fds[1], "6,1,2,-;usb 1-1: new\n");
	for (int i = 1; i < 5; i++) {
		char text[64];

		snprintf(text, sizeof(text), "6,1,2,-;NVRM: Xid (0000:0a:00): %d, x\n", i);
		write_log(fds[1], text);
	}
	assert_true(s->ops->look(s, 6));
	assert_int_equal(s->next_ns, 6);
	assert_int_equal(s->ops->take(s, 10, 5), 0);
	assert_int_equal(s->ops->take(s, 2, 6), 2);
	assert_true(s->ops->look(s, 7));
	assert_int_equal(s->next_ns, 6);
	assert_int_equal(s->ops->take(s, 10, 7), 2);
	assert_int_equal(s->next_ns, SOURCE_NONE);
	assert_string_equal(said, "6: 1 0000:0a:00 x\n6: 2 0000:0a:00 x\n6: 3 0000:0a:00 x\n"
				  "7: 4 0000:0a:00 x\n");
	close_log(s, fds);
}

/* Overwritten records are a loss, not an end. */
static void overwritten(void **state)
{
	struct ct_totals sum = {0};
	char said[128] = "";
	int fds[2];
	struct source *s = open_log(fds, true, said);

	assert_true(s->ops->look(s, 1));
	assert_false(source__was_full(s));
	assert_int_equal(source__lost(s), 0);
	write_log(fds[1], "6,1,2,-;NVRM: Xid (0000:0a:00): 1, x\n");
	gaps = 2;
	assert_true(s->ops->look(s, 2));
	assert_int_equal(s->ops->take(s, 10, 2), 1);
	assert_string_equal(said, "2: 1 0000:0a:00 x\n");
	assert_true(source__was_full(s));
	assert_false(source__was_full(s));
	s->ops->totals(s, &sum);
	assert_int_equal(sum.drops[CT_DROP_NV], 2);
	assert_int_equal(source__lost(s), 2);
	close_log(s, fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_driver_writes),
		cmocka_unit_test(dictionary),
		cmocka_unit_test(not_an_xid),
		cmocka_unit_test(truncated),
		cmocka_unit_test(long_message),
		cmocka_unit_test(any_bytes),
		cmocka_unit_test(redacted),
		cmocka_unit_test(one_after_the_other),
		cmocka_unit_test(overwritten),
	};

	return cmocka_run_group_tests_name("kmsg", tests, NULL, NULL);
}
