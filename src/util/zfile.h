/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A new file, compressed as it is written. After zfile__flush() everything so far can be read back,
 * even if the writer is killed. */
#ifndef UTIL_ZFILE_H
#define UTIL_ZFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum compression { COMPRESS_NONE, COMPRESS_GZIP, COMPRESS_ZSTD, COMPRESS_CNT };

const char *compression_name(enum compression c);   /* "none", "gzip", "zstd" */
const char *compression_suffix(enum compression c); /* "", ".gz", ".zst" */

struct zfile;

/* Takes ownership of fd, also on error. Returns NULL when out of memory. */
struct zfile *zfile__new(int fd, enum compression c);
/* Returns 0 or -errno; after an error nothing more is written. */
int zfile__write(struct zfile *z, const void *data, size_t len);
/* The same for a zstd frame (zframe.h), in files that are COMPRESS_ZSTD. */
int zfile__frame(struct zfile *z, const void *data, size_t len);
int zfile__flush(struct zfile *z);
/* Size of the file, including unwritten output of the compressor. */
uint64_t zfile__size(const struct zfile *z);
/* false: another program has deleted or truncated the file. Writing then fails too (-ESTALE). */
bool zfile__is_there(const struct zfile *z);
/* Ends the compressed stream, syncs, closes and frees. Returns the first error. */
int zfile__close(struct zfile *z);

#endif /* UTIL_ZFILE_H */
