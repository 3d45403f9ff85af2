/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The file that claims to be libnccl: the offset of the ranks in a communicator, as found in its
 * code, and its version. */
#include "elf_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_lib *lib = library_of(data, size, "libnccl.so.2", API_NCCL);

	/* Offsets that BPF adds to a pointer of the process. */
	if (lib && lib->comm.off > 64u << 20)
		abort();
	if (lib && lib->comm.version && !lib->comm.off)
		abort();
	elf_lib__free(lib);
	return 0;
}
