/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of the driver's log of context switches. */
#include "fuzz.h"

#include <assert.h>

#include "gpu/fecs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct fecs_slice slice;
	uint64_t last = 0, end;
	struct fecs f;

	take(&in, &end, sizeof(end));
	fecs__init(&f, end);
	while (in.left) {
		uint8_t *record = malloc(FECS_RECORD_SZ);

		take(&in, record, FECS_RECORD_SZ);
		if (fecs__record(&f, record, &slice)) {
			assert(slice.start <= slice.end && slice.start >= last);
			last = slice.end;
		}
		free(record);
	}
	assert(f.bad_cnt + f.unpaired_cnt <= 2 * f.record_cnt);
	if (fecs__rest(&f, end, &slice))
		assert(slice.start <= slice.end && slice.start >= last);
	return 0;
}
