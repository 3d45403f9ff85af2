/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cgroup paths: a container's owner chooses a part of them. */
#include "fuzz.h"

#include <assert.h>
#include <ctype.h>

#include "metrics/labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *path = as_string(data, size);
	struct labels l = {0};
	bool known;

	known = labels__from_cgroup(&l, path);
	assert(known == !!l.container[0]);
	assert(strnlen(l.cgroup, sizeof(l.cgroup)) < sizeof(l.cgroup));
	assert(strnlen(l.container, sizeof(l.container)) < sizeof(l.container));
	assert(strnlen(l.runtime, sizeof(l.runtime)) < sizeof(l.runtime));
	for (const char *p = l.pod_uid; *p; p++)
		assert(isxdigit((unsigned char)*p) || *p == '-');
	free(path);
	return 0;
}
