// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Mangled names of kernels: whatever a module, or memory behind a handle, holds. */
#include "fuzz.h"

#include "model/kernel.h"
#include "sink/kernel_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct handles h;
	const struct kernel_name *n;
	size_t len;

	if (!h.names)
		h.names = kernel_names__new(NULL);
	n = kernel_name__intern(&h, (const char *)data, size);
	if (n) {
		len = strlen(n->demangled);
		kernel_short_name(n->demangled, &len);
		if (len > strlen(n->demangled))
			abort();
	}
	kernel_names__collect(h.names);
	return 0;
}
