/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Identity of files in overlay mounts. Each mount shows a file of a shared layer with another
 * device, and differently in each container. Probes are on the file of the layer, so one attachment
 * covers all of them. stat() data is the layer's.
 */
#ifndef ATTACH_FIND_LAYER_H
#define ATTACH_FIND_LAYER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct layer_file {
	uint64_t ino, size;
	struct timespec mtime, ctime;
	bool overlay; /* seen through an overlay */
};

/* Leaves f unchanged on failure. */
int layer_file__read(struct layer_file *f, int fd);
/* Two files that are not on an overlay must be compared by device by the caller. */
bool layer_file__same(const struct layer_file *a, const struct layer_file *b);
/* For one file at two times: returns whether it was not written in between. */
bool layer_file__same_content(const struct layer_file *a, const struct layer_file *b);

#endif /* ATTACH_FIND_LAYER_H */
