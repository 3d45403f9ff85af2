/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The file that claims to be libtorch_cpu: its operators, their names, and their call frame
 * information. */
#include "elf_input.h"

#include "decode/torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_lib *lib = library_of(data, size, "libtorch_cpu.so", API_TORCH);

	for (unsigned i = 0; lib && lib->torch && i < lib->torch->operator_cnt; i++)
		if (!strstr(lib->torch->operators[i].name, "::"))
			abort();
	elf_lib__free(lib);
	return 0;
}
