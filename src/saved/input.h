/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The bytes of a file, a pipe or stdin; of what gzip or zstd packed, the bytes inside. Which it is
 * is seen by its first bytes. */
#ifndef SAVED_INPUT_H
#define SAVED_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct input;

/* "-": stdin. many: it is one of many, so it may not need a window of more than 8 MiB to unpack.
 * NULL: *why says what is wrong and what to do. */
struct input *input__open(const char *path, bool many, const char **why);
/* At most n bytes; 0 at the end; -1: *why. What came before is good. */
ssize_t input__read(struct input *in, char *buf, size_t n, const char **why);
/* Bytes taken from the file so far, and its size; 0: not known (a pipe). */
uint64_t input__pos(const struct input *in);
uint64_t input__size(const struct input *in);
void input__close(struct input *in);

#endif /* SAVED_INPUT_H */
