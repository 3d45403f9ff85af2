/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The file that claims to be libtorch_cpu: its operators, their names, and their call frame
 * information. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "attach/find/elf.h"
#include "decode/torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct elf_lib *lib;
	char err[256];

	if (fd < 0)
		fd = memfd_create("libtorch_cpu.so", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	lib = elf_lib__read(fd, api_at(API_TORCH), err, sizeof(err));
	if (!lib && !err[0])
		abort(); /* a refusal says why */
	for (unsigned i = 0; lib && lib->torch && i < lib->torch->operator_cnt; i++)
		if (!strstr(lib->torch->operators[i].name, "::"))
			abort();
	elf_lib__free(lib);
	return 0;
}
