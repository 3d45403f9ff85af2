/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mangled names of kernels: a module, or the memory behind a handle, may hold anything. The
 * demangler is instrumented only with FUZZ_LIBRARIES; otherwise tests/fuzz/names.c tests it. */
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
