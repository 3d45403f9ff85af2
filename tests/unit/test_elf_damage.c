/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reading damaged libcuda files does no harm. */
#include "elf_image.h"
#include "random.h"

static void survives_every_truncation(void **state)
{
	int fd = memfd_create("libcuda", MFD_CLOEXEC);
	struct image img;
	size_t len;

	MAKE(&img, plain, true);
	assert_int_equal(write(fd, img.bytes, img.size), img.size);
	for (len = img.size; len-- > 0;) {
		assert_int_equal(ftruncate(fd, (off_t)len), 0);
		msg[0] = '\0';
		if (elf_lib__read(fd, api_at(API_CUDA), msg, sizeof(msg)))
			fail_msg("accepted when cut to %zu bytes", len);
		assert_true(msg[0]);
	}
	close(fd);
}

/* The result must be consistent for any bytes. */
static void check_sane(const struct image *img, struct elf_lib *lib)
{
	unsigned i;

	if (!lib) {
		assert_true(msg[0]);
		return;
	}
	for (i = 0; i < lib->sym_cnt; i++) {
		assert_true(lib->syms[i].off < img->size + 16);
		assert_memory_equal(lib->syms[i].name, "cu", 2);
		assert_true(strlen(lib->syms[i].name) < 128);
		assert_true(!i || lib->syms[i].off >= lib->syms[i - 1].off ||
			    lib->syms[i - 1].shift);
	}
	assert_true(strlen(lib->build_id) <= 40);
	elf_lib__free(lib);
}

static void survives_random_damage(void **state)
{
	struct image good, bad;
	unsigned round, i;

	for (round = 0; round < 20000; round++) {
		if (round % 2 == 0)
			MAKE(&good, plain, round % 4 == 0);
		bad = good;
		for (i = rnd() % 8 + 1; i--;) {
			/* Half of the damage goes into headers and tables, which are sparse. */
			size_t at = rnd() % (round % 2 ? bad.size : 0x130);

			bad.bytes[at] = (unsigned char)rnd();
		}
		check_sane(&bad, read_image(&bad));
	}
}

/* Sets every word of headers, hash, note and dynamic section to values that break arithmetic. */
static void survives_nasty_words(void **state)
{
	static const struct {
		size_t from, to;
	} parts[] = {{16, 0x130}, {SYM_AT, SYM_AT + 0x60}, {HASH_AT, TEXT_AT}};
	static const uint64_t values[] = {
		0,
		1,
		2,
		7,
		0xff,
		0xffff,
		0x10000,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000,
		0x7fffffffffffffff,
		0x8000000000000000,
		UINT64_MAX - 7,
		UINT64_MAX,
		TEXT_AT,
		TEXT_AT + GAP - 1,
	};
	struct image good, bad;
	size_t p, at, v, size;
	int gnu;

	for (gnu = 0; gnu < 2; gnu++) {
		MAKE(&good, plain, gnu);
		for (p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
			for (at = parts[p].from; at < parts[p].to; at += 4) {
				for (v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
					for (size = 2; size <= 8; size *= 2) {
						bad = good;
						memcpy(bad.bytes + at, &values[v], size);
						check_sane(&bad, read_image(&bad));
					}
				}
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(survives_every_truncation),
		cmocka_unit_test(survives_random_damage),
		cmocka_unit_test(survives_nasty_words),
	};

	return cmocka_run_group_tests_name("elf_damage", tests, NULL, NULL);
}
