/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Exports that are not in the table: by name, six raw words, the result. */
#include "case.h"

int main(void)
{
	uint64_t w[6] = {1, 0x7f00000000ull, 3, 0xffffffffffffffffull, 5, 0x1000};
	int r;

	case_open();
	case_sym("cuFakeUndocumented");
	r = F(cuFakeUndocumented)(w[0], w[1], w[2], w[3], w[4], w[5]);
	expect("cuFakeUndocumented", r, "'type':'other'");
	for (int i = 0; i < 10; i++) {
		r = F(cuFakeUndocumented)((uint64_t)i, 0ull, 0ull, 0ull, 0ull, 0ull);
		expect("cuFakeUndocumented", r, "'type':'other'");
		must("cuFakeUndocumented", r, i % 7);
	}
	/* Excluded by the tests, or impossible to probe: called, but in no trace. */
	must("cuFakeLocked", F(cuFakeLocked)(), 0);
	return 0;
}
