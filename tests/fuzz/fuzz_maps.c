/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lines of /proc/PID/maps, in which the target chooses the file's name. */
#include "fuzz.h"

#include "attach/find/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = as_string(data, size);
	struct map_line out;

	api_of_file(line);
	if (target_parse_map_line(line, &out) == 1 &&
	    (out.path < line || out.path > line + size || out.start > out.end))
		abort();
	free(line);
	return 0;
}
