/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads a file, a pipe or stdin, and uncompresses gzip and zstd, which it detects by the first
 * bytes. */
#ifndef SAVED_INPUT_H
#define SAVED_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct input;

/* path "-" is stdin. many: one of several files, whose zstd window may be at most 8 MiB. Returns
 * NULL on error: *why: what failed, and what to do. */
struct input *input__open(const char *path, bool many, const char **why);
/* Reads at most n bytes. Returns 0 at the end, and -1 on error (*why). The bytes before an error
 * are valid. */
ssize_t input__read(struct input *in, char *buf, size_t n, const char **why);
/* Bytes consumed of the file so far, and its size; size 0: unknown (a pipe). */
uint64_t input__pos(const struct input *in);
uint64_t input__size(const struct input *in);
void input__close(struct input *in);

#endif /* SAVED_INPUT_H */
