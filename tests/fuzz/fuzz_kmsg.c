/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of the kernel log: a process that may write to it can write anything. */
#include "fuzz.h"

#include <assert.h>

#include "trace/kmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *record = as_string(data, size);
	struct ct_xid x;

	if (kmsg_parse_xid(record, &x)) {
		assert(strnlen(x.device, sizeof(x.device)) < sizeof(x.device));
		assert(strnlen(x.msg, sizeof(x.msg)) < sizeof(x.msg));
	}
	free(record);
	return 0;
}
