/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Each overlay mount shows a file of a shared layer as a file of its own: other device, and in each
 * container another. Probes are on the file of the layer, so one attachment is enough for all of
 * them. What stat() says of it is the layer's.
 */
#ifndef ATTACH_FIND_LAYER_H
#define ATTACH_FIND_LAYER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct layer_file {
	uint64_t ino, size;
	struct timespec mtime, ctime;
	bool overlay; /* seen through one */
};

/* Leaves f alone when it fails. */
int layer_file__read(struct layer_file *f, int fd);
/* Two that are no overlay's are told apart by their devices, and not here. */
bool layer_file__same(const struct layer_file *a, const struct layer_file *b);
/* Of one file, at two times: nothing was written to it meanwhile. */
bool layer_file__same_content(const struct layer_file *a, const struct layer_file *b);

#endif /* ATTACH_FIND_LAYER_H */
