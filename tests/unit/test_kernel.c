/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of kernels: interned, demangled in any form, read through handles while those are valid. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "model/kernel.h"

/* The BPF side has read this name through a handle. */
static void set_name(struct handles *h, uint64_t value, const char *name)
{
	handles__set_name(h, value, name, strlen(name) + 1);
}

static struct kernel_names *names;
static struct handles none;

static const struct kernel_name *intern(const char *s)
{
	return kernel_name__intern(&none, s, strlen(s));
}

static int setup(void **state)
{
	names = kernel_names__new(NULL);
	none = (struct handles){.names = names};
	return !names;
}

static int teardown(void **state)
{
	kernel_names__free(names);
	return 0;
}

static void test_intern(void **state)
{
	const struct kernel_name *a = intern("add_kernel"), *b;

	assert_string_equal(a->mangled, "add_kernel");
	assert_ptr_equal(a->mangled, a->demangled);
	assert_ptr_equal(intern("add_kernel"), a);
	assert_ptr_equal(kernel_name__intern(&none, "add_kernel_and_more", 10), a);
	b = intern("_Z10vector_addPfi");
	assert_string_equal(b->mangled, "_Z10vector_addPfi");
	assert_string_equal(b->demangled, "vector_add(float*, int)");
	assert_ptr_equal(intern("_Z10vector_addPfi"), b);
	assert_string_equal(intern("_ZN2at6native3addIfEEvT_")->demangled,
			    "void at::native::add<float>(float)");
	/* A NUL ends a name, whatever its length. */
	assert_ptr_equal(kernel_name__intern(&none, "add_kernel\0x", 12), a);
	assert_string_equal(kernel_name__intern(&none, "", 0)->mangled, "");
	assert_string_equal(kernel_name__intern(&none, "\0\0", 2)->mangled, "");
}

/* Many names: the pointers stay valid. */
static void test_intern_many(void **state)
{
	const struct kernel_name *first[256];
	char name[32];

	for (int i = 0; i < 20000; i++) {
		int len = snprintf(name, sizeof(name), "kernel_%d", i);
		const struct kernel_name *n = kernel_name__intern(&none, name, len);

		assert_string_equal(n->mangled, name);
		if (i < 256)
			first[i] = n;
	}
	for (int i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "kernel_%d", i);
		assert_ptr_equal(intern(name), first[i]);
	}
}

static void test_hostile(void **state)
{
	static const char *const names[] = {
		"_Z",
		"_ZN",
		"_ZNE",
		"_Z9999999999x",
		"_Z1",
		"_ZN1a",
		"_Z3fooIXadL_Z",
		"_ZZZZZZZZ",
		"_Z1fS_",
		"_Z1fT_",
		"_ZDTdt",
		"_Z\xff\xfe",
		"_ZUlvE_",
		"_Z1fS9999999999999_",
		"_Z-1f",
		"_Z1fA99999999999999999999_i",
		"_ZGVZ1fvE1x",
		"_ZThn99999999999_1f",
		"\x01\x02",
		"_Z1f\n",
	};
	char name[4000];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct kernel_name *n = intern(names[i]);

		assert_string_equal(n->mangled, names[i]);
		assert_non_null(n->demangled);
	}
	/* Deep nesting: pointers, namespaces, templates, functions. */
	for (int k = 0; k < 4; k++) {
		static const char *const piece[] = {"P", "N1a", "1aI", "PF"};
		size_t len = strlen(piece[k]), at = 4;

		strcpy(name, "_Z1f");
		for (; at + len < sizeof(name); at += len)
			memcpy(name + at, piece[k], len);
		name[at] = 0;
		assert_string_equal(intern(name)->mangled, name);
	}
	memset(name, 'S', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	memcpy(name, "_Z", 2);
	intern(name);
}

/* Types made of pairs of themselves: each level doubles the output. The first takes 27 bytes of the
 * name, each further one 8. */
static void doubling(char *name, size_t size, int levels)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t len = snprintf(name, size, "_Z1fSt4pairIiiE");

	for (int i = 0; i < levels && i < 36; i++)
		len += snprintf(name + len, size - len, "S_IS%c_S%c_E", digits[i], digits[i]);
}

static void test_bomb(void **state)
{
	char name[1024];
	const struct kernel_name *n;

	doubling(name, sizeof(name), 6);
	n = intern(name);
	assert_memory_equal(n->demangled, "f(std::pair<int, int>, ", 23);
	assert_true(strlen(n->demangled) > 1000);
	/* 2^36 pairs. */
	doubling(name, sizeof(name), 36);
	n = intern(name);
	assert_ptr_equal(n->mangled, n->demangled);
	/* It left no state behind. */
	assert_string_equal(intern("_Z1gv")->demangled, "g()");
}

static void test_set_get(void **state)
{
	const struct kernel_name *a = intern("a"), *b = intern("b");
	struct handles h = {.names = names};

	assert_null(handles__get(&h, 0x10));
	handles__set(&h, 0x10, a);
	handles__set(&h, 0x20, b);
	assert_ptr_equal(handles__get(&h, 0x10)->name, a);
	assert_false(handles__get(&h, 0x10)->guessed);
	assert_ptr_equal(handles__get(&h, 0x20)->name, b);
	/* The handle now belongs to another kernel. */
	handles__set(&h, 0x10, b);
	assert_ptr_equal(handles__get(&h, 0x10)->name, b);
	/* Without a name or a handle nothing is set. */
	handles__set(&h, 0x30, NULL);
	handles__set(&h, 0, a);
	assert_null(handles__get(&h, 0x30));
	assert_null(handles__get(&h, 0));
	/* Names from the program outlive its modules. */
	handles__unloaded(&h);
	assert_ptr_equal(handles__get(&h, 0x20)->name, b);
	handles__clear(&h);
	assert_null(handles__get(&h, 0x20));
	handles__clear(&h);
}

static void test_reported(void **state)
{
	struct handles h = {.names = names};
	const struct handle *e;

	set_name(&h, 0x10, "_Z4goodv");
	set_name(&h, 0x20, "foo.isra.0");
	e = handles__get(&h, 0x10);
	assert_true(e->guessed);
	assert_string_equal(e->name->demangled, "good()");
	assert_string_equal(handles__get(&h, 0x20)->name->mangled, "foo.isra.0");
	/* The program confirms the name. */
	set_name(&h, 0x10, "_Z4goodv");
	handles__set(&h, 0x10, intern("_Z4goodv"));
	assert_int_equal(h.checked_ok, 1);
	assert_int_equal(h.checked_bad, 0);
	assert_false(handles__get(&h, 0x10)->guessed);
	/* A module was unloaded: names are read through handles again, since they may differ. */
	handles__unloaded(&h);
	assert_null(handles__get(&h, 0x20));
	assert_non_null(handles__get(&h, 0x10));
	set_name(&h, 0x20, "another");
	assert_string_equal(handles__get(&h, 0x20)->name->mangled, "another");
	/* The unload was not traced. */
	set_name(&h, 0x20, "a_third");
	assert_string_equal(handles__get(&h, 0x20)->name->mangled, "a_third");
	/* A name read before the unload is not compared with a later one from the program. */
	handles__set(&h, 0x10, intern("new"));
	assert_int_equal(h.checked_bad, 0);
	handles__clear(&h);
}

/* Handles that lead nowhere, or to something that is not a name. */
static void test_bad_values_reported(void **state)
{
	static const char *const bad[] = {"", "1kernel", "a b", "a\xc3\xa4", "a\nb"};
	static char huge[CT_NAME_SZ_MAX];
	struct handles h = {.names = names};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		set_name(&h, 0x10, bad[i]);
		assert_null(handles__get(&h, 0x10));
	}
	handles__set_name(&h, 0x10, NULL, 0);
	assert_null(handles__get(&h, 0x10));
	/* A name that fills the buffer may be truncated. */
	memset(huge, 'a', sizeof(huge) - 1);
	set_name(&h, 0x10, huge);
	assert_null(handles__get(&h, 0x10));
	set_name(&h, 0x10, huge + 1);
	assert_non_null(handles__get(&h, 0x10));
	set_name(&h, 0, "k");
	assert_null(handles__get(&h, 0));
	/* The program names it later. */
	set_name(&h, 8, "1kernel");
	handles__clear(&h);
	handles__set(&h, 8, intern("k"));
	assert_string_equal(handles__get(&h, 8)->name->mangled, "k");
	handles__clear(&h);
}

/* After one contradiction no name read through handles is used. */
static void test_contradiction(void **state)
{
	struct handles h = {.names = names};

	set_name(&h, 0x10, "one");
	set_name(&h, 0x20, "two");
	handles__set(&h, 0x20, intern("other"));
	assert_int_equal(h.checked_bad, 1);
	assert_null(handles__get(&h, 0x10));
	set_name(&h, 0x30, "three");
	assert_null(handles__get(&h, 0x30));
	/* Names from the program are. */
	assert_string_equal(handles__get(&h, 0x20)->name->mangled, "other");
	handles__set(&h, 0x10, intern("uno"));
	assert_string_equal(handles__get(&h, 0x10)->name->mangled, "uno");
	/* Another program in the process starts without contradictions. */
	handles__clear(&h);
	set_name(&h, 0x10, "one");
	assert_non_null(handles__get(&h, 0x10));
	/* An unreadable handle that the program just received is a contradiction, too. */
	handles__set_name(&h, 8, NULL, 0);
	handles__set(&h, 8, intern("other"));
	assert_null(handles__get(&h, 0x10));
	handles__clear(&h);
}

/* A limited number of checks, and none where nothing was read. */
static void test_check_limit(void **state)
{
	struct handles h = {.names = names};

	for (int i = 0; i < 100; i++) {
		set_name(&h, 0x10, "one");
		handles__set(&h, 0x10, intern("one"));
	}
	assert_true(h.checked_ok >= 8 && h.checked_ok < 50);
	handles__clear(&h);
	handles__set(&h, 0x10, intern("other"));
	assert_int_equal(h.checked_bad, 0);
	handles__clear(&h);
}

/* Records hold 1023 bytes of a name; a whole name behind the handle is no contradiction. */
static void test_cut(void **state)
{
	static char whole[2001], other[2001];
	struct handles h = {.names = names};

	memset(whole, 'w', sizeof(whole) - 1);
	memset(other, 'o', sizeof(other) - 1);
	for (int i = 0; i < 100; i++) {
		set_name(&h, 0x10, whole);
		handles__set(&h, 0x10, kernel_name__intern(&none, whole, 1023));
		assert_string_equal(handles__get(&h, 0x10)->name->mangled, whole);
		assert_false(handles__get(&h, 0x10)->guessed);
	}
	assert_int_equal(h.checked_bad, 0);
	/* A short name is not truncated: a different name is a contradiction. */
	set_name(&h, 0x20, other);
	handles__set(&h, 0x20, kernel_name__intern(&none, whole, 1023));
	assert_int_equal(h.checked_bad, 1);
	assert_int_equal(strlen(handles__get(&h, 0x20)->name->mangled), 1023);
	handles__clear(&h);
	set_name(&h, 0x10, whole);
	handles__set(&h, 0x10, kernel_name__intern(&none, whole, 1000));
	assert_int_equal(h.checked_bad, 1);
	handles__clear(&h);
}

static void test_derive(void **state)
{
	struct handles h = {.names = names};

	handles__set(&h, 0x10, intern("said"));
	handles__derive(&h, 0x20, handles__get(&h, 0x10));
	assert_string_equal(handles__get(&h, 0x20)->name->mangled, "said");
	assert_false(handles__get(&h, 0x20)->guessed);
	handles__derive(&h, 0, handles__get(&h, 0x10));
	assert_null(handles__get(&h, 0));
	set_name(&h, 0x40, "one");
	handles__derive(&h, 0x30, handles__get(&h, 0x40));
	assert_true(handles__get(&h, 0x30)->guessed);
	/* Names derived from a guess are dropped with it. */
	handles__set_name(&h, 8, NULL, 0);
	handles__set(&h, 8, intern("other"));
	assert_null(handles__get(&h, 0x30));
	assert_non_null(handles__get(&h, 0x20));
	handles__clear(&h);
}

/* Processes use the same addresses. */
static void test_same_value(void **state)
{
	struct handles a = {.names = names}, b = {.names = names};

	for (int turn = 0; turn < 3; turn++) {
		for (uint64_t v = 1; v <= 300; v++) {
			handles__set(&a, v, intern(v % 2 ? "odd" : "even"));
			assert_null(handles__get(&b, v));
			assert_string_equal(handles__get(&a, v)->name->mangled,
					    v % 2 ? "odd" : "even");
		}
		handles__set(&b, 1, intern("other"));
		assert_string_equal(handles__get(&b, 1)->name->mangled, "other");
		assert_string_equal(handles__get(&a, 1)->name->mangled, "odd");
		handles__clear(&a);
		for (uint64_t v = 1; v <= 300; v++)
			assert_null(handles__get(&a, v));
		handles__clear(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_intern),
		cmocka_unit_test(test_intern_many),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_set_get),
		cmocka_unit_test(test_reported),
		cmocka_unit_test(test_bad_values_reported),
		cmocka_unit_test(test_contradiction),
		cmocka_unit_test(test_check_limit),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_derive),
		cmocka_unit_test(test_same_value),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
