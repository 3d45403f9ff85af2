/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A new file, compressed as it is written, in frames of zstd or members of gzip. After
 * zfile__flush() everything so far can be read back, even if the writer is killed. */
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
/* lines: what data counts for in zfile__unwritten(). Returns 0 or -errno; after an error nothing
 * more is written, and the lines of that call do not count. */
int zfile__write(struct zfile *z, const void *data, size_t len, uint64_t lines);
/* As zfile__write(), for a zstd frame (zframe.h), in files that are COMPRESS_ZSTD. */
int zfile__frame(struct zfile *z, const void *data, size_t len, uint64_t lines);
/* Ends the frame. Returns 0 or -errno. */
int zfile__flush(struct zfile *z);
/* Lines of successful calls that are not in a complete frame. After an error they are lost. */
uint64_t zfile__unwritten(const struct zfile *z);
/* Size of the file, including unwritten output of the compressor. */
uint64_t zfile__size(const struct zfile *z);
/* false: another program has deleted or truncated the file. Writing then fails too (-ESTALE). */
bool zfile__is_there(const struct zfile *z);
/* Ends the frame, or cuts the file after its last complete one if writing has failed. Syncs, closes
 * and frees. Returns the first error. */
int zfile__close(struct zfile *z);

#endif /* UTIL_ZFILE_H */
