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
#define DISK_SZ	   (4 << 20)
#define GZIP_LEVEL 1

struct zfile {
	int fd, error;
	enum compression how;
	uint64_t size, to_disk;
	ZSTD_CCtx *zstd;
	bool in_frame; /* zstd received data since the last end of a frame */
	z_stream gz;
	size_t len; /* bytes in out, for COMPRESS_NONE */
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
	z->in_frame = end != ZSTD_e_end;
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
	return 0;
}

static int put_plain(struct zfile *z, const char *data, size_t len)
{
	if (z->len + len > sizeof(z->out)) {
		put(z, z->out, z->len);
		z->len = 0;
	}
	if (len > sizeof(z->out))
		return put(z, data, len);
	memcpy(z->out + z->len, data, len);
	z->len += len;
	return z->error;
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

int zfile__write(struct zfile *z, const void *data, size_t len)
{
	if (z->error)
		return z->error;
	if (z->how == COMPRESS_ZSTD)
		return put_zstd(z, data, len, ZSTD_e_continue);
	if (z->how == COMPRESS_GZIP)
		return put_gzip(z, data, len, Z_NO_FLUSH);
	return put_plain(z, data, len);
}

int zfile__frame(struct zfile *z, const void *data, size_t len)
{
	if (!z->error && z->in_frame)
		put_zstd(z, NULL, 0, ZSTD_e_end);
	return put(z, data, len);
}

int zfile__flush(struct zfile *z)
{
	if (z->error)
		return z->error;
	if (z->how == COMPRESS_ZSTD)
		return z->in_frame ? put_zstd(z, NULL, 0, ZSTD_e_flush) : 0;
	if (z->how == COMPRESS_GZIP)
		return put_gzip(z, NULL, 0, Z_SYNC_FLUSH);
	put(z, z->out, z->len);
	z->len = 0;
	return z->error;
}

uint64_t zfile__size(const struct zfile *z)
{
	return z->size + z->len;
}

int zfile__close(struct zfile *z)
{
	int ret;

	if (z->how == COMPRESS_ZSTD && z->in_frame && !z->error)
		put_zstd(z, NULL, 0, ZSTD_e_end);
	else if (z->how == COMPRESS_GZIP && !z->error)
		put_gzip(z, NULL, 0, Z_FINISH);
	else
		zfile__flush(z);
	ret = z->error;
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
