/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Short kernel names. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "text/kernel_name.h"

static void kernel_names(void **state)
{
	static const char *const names[][2] = {
		{"void at::native::vec_kernel<4, at::add<float>, std::array<char*, 3ul> >(int, float)",
		 "at::native::vec_kernel"},
		{"void at::native::(anonymous namespace)::fill<int>(int)", "at::native::fill"},
		{"ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"},
		{"f(int)", "f"},
		{"void cutlass::Kernel<cutlass_80::G<(int)3>>(cutlass_80::G<(int)3>::Params)",
		 "cutlass::Kernel"},
		{"void S::operator()<int>(int) const", "S::operator()"},
		{"bool S::operator<(S const&)", "S::operator<"},
		{"void S::operator<< <int>(S const&)", "S::operator<<"},
		{"my_operator<4>(int)", "my_operator"},
		{"f(int) [clone .kd]", "f"},
		{"f [clone .kd]", "f"},
		{"<<<", "<<<"},
		{"", ""},
		{"(", "("},
		{"a<b", "a"},
		{"unsigned long ns::g(int)", "ns::g"},
	};
	char got[512];
	size_t i, len;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *s = kernel_short_name(names[i][0], &len);

		assert_true(len < sizeof(got));
		memcpy(got, s, len);
		got[len] = '\0';
		assert_string_equal(got, names[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
