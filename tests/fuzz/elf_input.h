/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The input as the file of a library: another user's container may hold it. */
#ifndef TESTS_FUZZ_ELF_INPUT_H
#define TESTS_FUZZ_ELF_INPUT_H

#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "attach/find/elf.h"

/* Returns NULL if it is refused, with a reason; else the caller frees the result. */
static inline struct elf_lib *library_of(const uint8_t *data, size_t size, const char *name,
					 enum api_id api)
{
	static int fd = -1;
	struct elf_lib *lib;
	char err[256] = "";

	if (fd < 0)
		fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	lib = elf_lib__read(fd, api_at(api), err, sizeof(err));
	if (!lib && !err[0])
		abort();
	return lib;
}

#endif /* TESTS_FUZZ_ELF_INPUT_H */
