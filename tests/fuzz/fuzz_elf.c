/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The file that claims to be libcuda. */
#include "elf_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_lib *lib = library_of(data, size, "libcuda.so.1", API_CUDA);

	for (unsigned i = 0; lib && i < lib->sym_cnt; i++) {
		const char *name = lib->syms[i].name;

		/* __cudaLaunchKernel and the like may begin with underscores. */
		name += strncmp(name, "__", 2) ? 0 : 2;
		if (lib->syms[i].off >= size || strncmp(name, "cu", 2))
			abort();
	}
	elf_lib__free(lib);
	return 0;
}
