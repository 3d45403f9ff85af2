/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Any file that a process maps: finds the function of an address in it. */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t offs[] = {0, 0x10, 0x1000, 0x1010, 0x2000, UINT64_MAX};
	static int fd = -1;
	uint64_t addr, start;
	struct symbols *s;
	char name[64];

	if (fd < 0)
		fd = memfd_create("mapped", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	s = symbols__read(fcntl(fd, F_DUPFD_CLOEXEC, 0));
	if (!s)
		return 0;
	if (strlen(symbols__build_id(s)) > 64)
		abort();
	for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
		if (!symbols__address(s, offs[i], &addr))
			addr = offs[i];
		if (symbols__find(s, addr, name, sizeof(name), &start) &&
		    (start > addr || strnlen(name, sizeof(name)) == sizeof(name)))
			abort();
	}
	symbols__free(s);
	return 0;
}
