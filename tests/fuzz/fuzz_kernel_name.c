/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mangled names of kernels: whatever a module, or memory behind a handle, holds. The demangler is
 * seen into with FUZZ_LIBRARIES only; without, tests/fuzz/names.c reaches it. */
#include "fuzz.h"

#include <assert.h>

#include "text/kernel_name.h"
#include "util/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = as_string(data, size), *clear = demangle(name, NULL);
	size_t len;

	assert(!clear || strlen(clear) <= DEMANGLED_MAX);
	kernel_short_name(clear ?: name, &len);
	assert(len <= strlen(clear ?: name));
	free(clear);
	free(name);
	return 0;
}
