/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The file that claims to be a GPU core dump: the traced program can write it. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "daemon/gpu_core.h"
#include "text/json.h"
#include "util/out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct out *o;
	static int fd = -1;
	const char *why;
	char text[160];
	struct json j;

	if (fd < 0) {
		fd = memfd_create("core", MFD_CLOEXEC);
		o = out__memory();
	}
	if (fd < 0 || !o || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	o->len = o->mark = 0;
	json__init(&j, o);
	json_open(&j, NULL);
	if (!gpu_core_read(fd, &j, text, sizeof(text), &why) != !why)
		abort();
	json_close(&j);
	return 0;
}
