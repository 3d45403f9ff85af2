/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of RM objects: life of handles, a full table, ioctls as input, random operations. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "decode/nv/nv_decode.h"
#include "decode/nv/objects.h"
#include "util/limits.h"

#define C     0xc1d00001u
#define OWNER 42

static struct nv_objects_stats stats_of(const struct nv_objects *t)
{
	struct nv_objects_stats s;

	nv_objects__stats(t, &s);
	return s;
}

static void generation(void **state)
{
	struct nv_objects *t = nv_objects__new(16);
	const struct nv_object *o;

	assert_int_equal(nv_objects__add_client(t, OWNER, C, 0x41), 0);
	assert_int_equal(nv_objects__add(t, C, C, 0x10, 0x80), 0);
	assert_int_equal(nv_objects__add(t, C, 0x10, 0x11, 0xa06c), 0);
	assert_int_equal(nv_objects__add(t, C, 0x11, 0x12, 0xc86f), 0);
	o = nv_objects__find(t, C, 0x12);
	assert_int_equal(o->class, 0xc86f);
	assert_int_equal(o->parent, 0x11);
	assert_int_equal(nv_objects__find(t, C, 0x10)->parent, C);
	assert_null(nv_objects__find(t, C + 1, 0x12));
	/* Freeing the group frees its channel. */
	assert_int_equal(nv_objects__drop(t, C, 0x11), 0);
	assert_null(nv_objects__find(t, C, 0x12));
	assert_non_null(nv_objects__find(t, C, 0x10));
	assert_int_equal(nv_objects__drop(t, C, 0x11), -ENOENT);
	/* Freeing the root frees the client. */
	assert_int_equal(nv_objects__drop(t, C, C), 0);
	assert_int_equal(stats_of(t).live_cnt, 0);
	assert_int_equal(stats_of(t).unknown_cnt, 3);
	nv_objects__free(t);
	assert_null(nv_objects__new(0));
	nv_objects__free(NULL);
}

/* One process fills the table: others have room, and get its rows when it ends. */
static void share(void **state)
{
	struct quota q = {.table = QUOTA_OBJECTS, .max = 100, .share = 40};
	struct nv_objects *t = nv_objects__new(100);
	unsigned kept = 0;

	nv_objects__use_quota(t, &q);
	nv_objects__set_process(t, 1);
	for (uint32_t c = 1; c <= 1000; c++)
		kept += !nv_objects__add_client(t, OWNER + c, C + c, 0x41);
	assert_int_equal(kept, 40);
	assert_int_equal(stats_of(t).refused_cnt, 960);
	assert_int_equal(q.full_cnt, 960);
	nv_objects__set_process(t, 2);
	assert_int_equal(nv_objects__add_client(t, OWNER, C, 0x41), 0);
	for (uint32_t h = 1; h < 20; h++)
		assert_int_equal(nv_objects__add(t, C, C, h, 0x80), 0);
	assert_int_equal(q.used, 60);
	/* A closed file, and a process whose closes were not traced. */
	assert_int_equal(nv_objects__close(t, OWNER + 1), 1);
	assert_int_equal(q.used, 59);
	nv_objects__end_process(t, 1);
	assert_int_equal(q.used, 20);
	assert_int_equal(stats_of(t).live_cnt, 20);
	assert_non_null(nv_objects__find(t, C, 7));
	nv_objects__end_process(t, 3);
	nv_objects__free(t);
	assert_int_equal(q.used, 0);
}

static void dup_and_late(void **state)
{
	struct nv_objects *t = nv_objects__new(16);

	nv_objects__add_client(t, OWNER, C, 0x41);
	nv_objects__add(t, C, C, 0x10, 0x40);
	/* The other client is older than the trace. */
	assert_int_equal(nv_objects__dup(t, C + 1, 0x77, 0x20, C, 0x10), 0);
	assert_int_equal(nv_objects__find(t, C + 1, 0x20)->class, 0x40);
	assert_int_equal(nv_objects__find(t, C + 1, 0x77)->class, NV_CLASS_UNKNOWN);
	assert_int_equal(nv_objects__find(t, C + 1, C + 1)->class, NV_CLASS_UNKNOWN);
	assert_int_equal(nv_objects__dup(t, C + 1, C + 1, 0x21, C, 0x99), 0);
	assert_int_equal(nv_objects__find(t, C + 1, 0x21)->class, NV_CLASS_UNKNOWN);
	/* Freeing a source does not free its duplicate. */
	nv_objects__drop(t, C, C);
	assert_int_equal(nv_objects__find(t, C + 1, 0x20)->class, 0x40);
	nv_objects__free(t);
}

static void again_and_odd(void **state)
{
	struct nv_objects *t = nv_objects__new(16);

	nv_objects__add_client(t, OWNER, C, 0x41);
	nv_objects__add(t, C, C, 0x10, 0x80);
	nv_objects__add(t, C, 0x10, 0x11, 0x2080);
	/* Allocated again: the free was missed, and its children were freed with it. */
	assert_int_equal(nv_objects__add(t, C, C, 0x10, 0x81), 0);
	assert_null(nv_objects__find(t, C, 0x11));
	assert_int_equal(stats_of(t).replaced_cnt, 1);
	/* An object that claims to be its own parent, or below its own child. */
	assert_int_equal(nv_objects__add(t, C, 0x12, 0x12, 1), 0);
	assert_int_equal(nv_objects__find(t, C, 0x12)->parent, C);
	nv_objects__add(t, C, 0x12, 0x13, 1);
	assert_int_equal(nv_objects__add(t, C, 0x13, 0x12, 2), 0);
	assert_int_equal(nv_objects__find(t, C, 0x13)->class, NV_CLASS_UNKNOWN);
	assert_int_equal(nv_objects__add(t, C, C, C, 2), -EINVAL);
	nv_objects__add_client(t, OWNER, C, 0x41);
	assert_int_equal(stats_of(t).live_cnt, 1);
	nv_objects__free(t);
}

static void full(void **state)
{
	struct nv_objects *t = nv_objects__new(4);

	nv_objects__add_client(t, OWNER, C, 0x41);
	for (uint32_t h = 1; h <= 3; h++)
		assert_int_equal(nv_objects__add(t, C, C, h, 1), 0);
	assert_int_equal(nv_objects__add(t, C, C, 4, 1), -ENOSPC);
	assert_int_equal(nv_objects__add_client(t, OWNER, C + 1, 1), -ENOSPC);
	assert_int_equal(stats_of(t).refused_cnt, 2);
	assert_null(nv_objects__find(t, C, 4));
	nv_objects__drop(t, C, 2);
	assert_int_equal(nv_objects__add(t, C, C, 4, 1), 0);
	assert_int_equal(stats_of(t).live_cnt, 4);
	nv_objects__free(t);
}

static void closed_file(void **state)
{
	struct nv_objects *t = nv_objects__new(16);

	nv_objects__add_client(t, 1, C, 0x41);
	nv_objects__add_client(t, 2, C + 1, 0x41);
	nv_objects__add_client(t, 1, C + 2, 0x41);
	nv_objects__add(t, C, C, 0x10, 1);
	nv_objects__add(t, C + 1, C + 1, 0x10, 1);
	assert_int_equal(nv_objects__close(t, 1), 2);
	assert_int_equal(nv_objects__close(t, 1), 0);
	assert_int_equal(nv_objects__close(t, 0), 0);
	assert_non_null(nv_objects__find(t, C + 1, 0x10));
	assert_int_equal(stats_of(t).live_cnt, 2);
	nv_objects__free(t);
}

static struct nv_ioctl ioctl_of(uint32_t nr, uint32_t status)
{
	struct nv_ioctl io = {.dev = CT_NV_CTL, .nr = nr};

	io.f[NV_R_STATUS] = (struct nv_value){status, NV_AT_EXIT};
	return io;
}

static void set(struct nv_ioctl *io, enum nv_role role, uint32_t v)
{
	io->f[role] = (struct nv_value){v, NV_AT_EXIT};
}

static void applied(void **state)
{
	struct nv_objects *t = nv_objects__new(16);
	struct nv_ioctl io = ioctl_of(0x2b, 0);

	set(&io, NV_R_CLIENT, C);
	set(&io, NV_R_NEW, C);
	set(&io, NV_R_CLASS, 0x41);
	io.notes = NV_NOTE_NEW_CLIENT;
	assert_int_equal(nv_objects__apply(t, OWNER, &io), 0);
	io = ioctl_of(0x2b, 0);
	set(&io, NV_R_CLIENT, C);
	set(&io, NV_R_PARENT, C);
	set(&io, NV_R_NEW, 0x10);
	set(&io, NV_R_CLASS, 0x80);
	assert_int_equal(nv_objects__apply(t, OWNER, &io), 0);
	assert_int_equal(nv_objects__find(t, C, 0x10)->class, 0x80);
	/* Refused, of unknown outcome, or without a handle: no object was made. */
	set(&io, NV_R_NEW, 0x11);
	set(&io, NV_R_STATUS, 0x51);
	nv_objects__apply(t, OWNER, &io);
	io.f[NV_R_STATUS] = (struct nv_value){0, NV_AT_UNREADABLE};
	nv_objects__apply(t, OWNER, &io);
	set(&io, NV_R_STATUS, 0);
	io.f[NV_R_NEW] = (struct nv_value){0, NV_AT_UNREADABLE};
	nv_objects__apply(t, OWNER, &io);
	assert_int_equal(stats_of(t).live_cnt, 2);
	io = ioctl_of(0x34, 0);
	set(&io, NV_R_CLIENT, C);
	set(&io, NV_R_PARENT, C);
	set(&io, NV_R_NEW, 0x12);
	set(&io, NV_R_SRC_CLIENT, C);
	set(&io, NV_R_SRC_OBJECT, 0x10);
	nv_objects__apply(t, OWNER, &io);
	assert_int_equal(nv_objects__find(t, C, 0x12)->class, 0x80);
	io = ioctl_of(0x29, 0);
	set(&io, NV_R_CLIENT, C);
	set(&io, NV_R_OBJECT, C);
	assert_int_equal(nv_objects__apply(t, OWNER, &io), 0);
	assert_int_equal(stats_of(t).live_cnt, 0);
	nv_objects__free(t);
}

/* Few handles, many operations: the table must stay consistent and be empty at the end. */
static void abuse(void **state)
{
	struct nv_objects *t = nv_objects__new(24);
	uint32_t seed = 12345;

	for (int i = 0; i < 200000; i++) {
		uint32_t a, b, c;

		seed = seed * 1664525 + 1013904223;
		a = seed >> 8 & 3;
		b = seed >> 12 & 15;
		c = seed >> 16 & 15;
		switch (seed >> 28) {
		case 0:
			nv_objects__drop(t, a, b);
			break;
		case 1:
			nv_objects__add_client(t, a + 1, a, 0x41);
			break;
		case 2:
			nv_objects__close(t, a + 1);
			break;
		case 3:
			nv_objects__dup(t, a, b, c, a ^ 1, b);
			break;
		default:
			nv_objects__add(t, a, b, c, i);
			break;
		}
		assert_true(stats_of(t).live_cnt <= 24);
	}
	for (uint32_t a = 0; a < 4; a++)
		nv_objects__drop(t, a, a);
	assert_int_equal(stats_of(t).live_cnt, 0);
	assert_true(stats_of(t).refused_cnt > 0);
	nv_objects__free(t);
}

/* A tree as deep as the table: freeing it must not recurse. */
static void deep(void **state)
{
	struct nv_objects *t = nv_objects__new(200000);

	nv_objects__add_client(t, OWNER, C, 0x41);
	for (uint32_t h = 1; h < 199999; h++)
		assert_int_equal(nv_objects__add(t, C, h == 1 ? C : h - 1, h, 1), 0);
	nv_objects__drop(t, C, 1);
	assert_int_equal(stats_of(t).live_cnt, 1);
	nv_objects__free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share),	cmocka_unit_test(generation),
		cmocka_unit_test(dup_and_late), cmocka_unit_test(again_and_odd),
		cmocka_unit_test(full),		cmocka_unit_test(closed_file),
		cmocka_unit_test(applied),	cmocka_unit_test(abuse),
		cmocka_unit_test(deep),
	};

	return cmocka_run_group_tests_name("nv_objects", tests, NULL, NULL);
}
