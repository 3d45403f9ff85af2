/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "zfile.h"

#include "zframe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define OUT_SZ (128 << 10)
/* Written out early, or closing the file would wait for all of it. */
#define DISK_SZ (4 << 20)
/* A full disk loses the frame that does not fit. */
#define FRAME_SZ   (32 << 10)
#define GZIP_LEVEL 1

struct zfile {
	int fd, error;
	enum compression how;
	uint64_t size, to_disk;
	uint64_t lines;
	/* Size and lines up to the last frame that is complete in the file. */
	uint64_t whole, whole_lines;
	ZSTD_CCtx *zstd;
	z_stream gz;
	bool in_frame; /* the compressor received data since the last end of a frame */
	size_t len;    /* bytes in out, for COMPRESS_NONE */
	char out[OUT_SZ];
};

static const struct {
	const char *name, *suffix;
} kinds[COMPRESS_CNT] = {
	[COMPRESS_NONE] = {"none", ""},
	[COMPRESS_GZIP] = {"gzip", ".gz"},
	[COMPRESS_ZSTD] = {"zstd", ".zst"},
};

const char *compression_name(enum compression c)
{
	return kinds[c].name;
}

const char *compression_suffix(enum compression c)
{
	return kinds[c].suffix;
}

bool zfile__is_there(const struct zfile *z)
{
	struct stat st;

	return z->error != -ESTALE &&
	       (fstat(z->fd, &st) || (st.st_nlink && (uint64_t)st.st_size >= z->size));
}

static int put(struct zfile *z, const char *p, size_t len)
{
	/* Further data would follow a hole. */
	if (len && !z->error && !zfile__is_there(z))
		z->error = -ESTALE;
	while (len && !z->error) {
		ssize_t n = write(z->fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			z->error = n ? -errno : -ENOSPC;
			break;
		}
		z->size += n;
		p += n;
		len -= n;
	}
	if (z->size - z->to_disk >= DISK_SZ) {
		/* Where this is not possible, closing the file waits for it. */
		sync_file_range(z->fd, z->to_disk, z->size - z->to_disk, SYNC_FILE_RANGE_WRITE);
		z->to_disk = z->size;
	}
	return z->error;
}

/* Everything so far is in the file, and a reader needs no more to read it. */
static int is_whole(struct zfile *z)
{
	z->whole = z->size;
	z->whole_lines = z->lines;
	z->in_frame = false;
	return 0;
}

static int put_zstd(struct zfile *z, const void *data, size_t len, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = {data, len, 0};
	size_t left;

	do {
		ZSTD_outBuffer out = {z->out, sizeof(z->out), 0};

		left = ZSTD_compressStream2(z->zstd, &out, &in, end);
		if (ZSTD_isError(left))
			return z->error = -EIO;
		if (put(z, z->out, out.pos))
			return z->error;
	} while (end == ZSTD_e_continue ? in.pos < in.size : left);
	return 0;
}

static int put_gzip(struct zfile *z, const void *data, size_t len, int flush)
{
	z->gz.next_in = (void *)data;
	z->gz.avail_in = len;
	do {
		z->gz.next_out = (void *)z->out;
		z->gz.avail_out = sizeof(z->out);
		if (deflate(&z->gz, flush) == Z_STREAM_ERROR)
			return z->error = -EIO;
		if (put(z, z->out, sizeof(z->out) - z->gz.avail_out))
			return z->error;
	} while (!z->gz.avail_out);
	return flush == Z_FINISH && deflateReset(&z->gz) ? (z->error = -EIO) : 0;
}

static int flush_plain(struct zfile *z)
{
	int ret = put(z, z->out, z->len);

	z->len = 0;
	return ret ?: is_whole(z);
}

static int put_plain(struct zfile *z, const char *data, size_t len)
{
	int ret = z->len + len > sizeof(z->out) ? flush_plain(z) : 0;

	if (ret || len > sizeof(z->out))
		return ret ?: put(z, data, len);
	memcpy(z->out + z->len, data, len);
	z->len += len;
	return 0;
}

struct zfile *zfile__new(int fd, enum compression c)
{
	struct zfile *z = calloc(1, sizeof(*z));

	if (!z)
		goto out;
	z->fd = fd;
	z->how = c;
	if (c == COMPRESS_ZSTD) {
		z->zstd = ZSTD_createCCtx();
		if (!z->zstd)
			goto out;
		zstd_for_lines(z->zstd);
		ZSTD_CCtx_setParameter(z->zstd, ZSTD_c_checksumFlag, 1);
	} else if (c == COMPRESS_GZIP &&
		   deflateInit2(&z->gz, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY)) {
		goto out;
	}
	return z;
out:
	close(fd);
	free(z);
	return NULL;
}

int zfile__write(struct zfile *z, const void *data, size_t len, uint64_t lines)
{
	int ret = z->error;

	if (ret)
		return ret;
	if (z->how == COMPRESS_ZSTD)
		ret = put_zstd(z, data, len, ZSTD_e_continue);
	else if (z->how == COMPRESS_GZIP)
		ret = put_gzip(z, data, len, Z_NO_FLUSH);
	else
		ret = put_plain(z, data, len);
	z->in_frame = true;
	if (ret)
		return ret;
	z->lines += lines;
	/* The next call returns its error. */
	if (z->how != COMPRESS_NONE && z->size - z->whole >= FRAME_SZ)
		zfile__flush(z);
	return 0;
}

int zfile__frame(struct zfile *z, const void *data, size_t len, uint64_t lines)
{
	int ret = zfile__flush(z) ?: put(z, data, len);

	if (ret)
		return ret;
	z->lines += lines;
	return is_whole(z);
}

int zfile__flush(struct zfile *z)
{
	int ret = z->error;

	if (ret || !z->in_frame)
		return ret;
	if (z->how == COMPRESS_NONE)
		return flush_plain(z);
	ret = z->how == COMPRESS_ZSTD ? put_zstd(z, NULL, 0, ZSTD_e_end)
				      : put_gzip(z, NULL, 0, Z_FINISH);
	return ret ?: is_whole(z);
}

uint64_t zfile__unwritten(const struct zfile *z)
{
	return z->lines - z->whole_lines;
}

uint64_t zfile__size(const struct zfile *z)
{
	return z->size + z->len;
}

int zfile__close(struct zfile *z)
{
	int ret = zfile__flush(z);

	/* Another program has truncated the file if it is shorter. */
	if (ret && ret != -ESTALE && ftruncate(z->fd, z->whole))
		ret = -errno;
	if (!ret && fdatasync(z->fd) && errno != EINVAL)
		ret = -errno;
	if (close(z->fd) && !ret)
		ret = -errno;
	if (z->how == COMPRESS_ZSTD)
		ZSTD_freeCCtx(z->zstd);
	else if (z->how == COMPRESS_GZIP)
		deflateEnd(&z->gz);
	free(z);
	return ret;
}
