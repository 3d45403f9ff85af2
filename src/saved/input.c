/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define RAW_SZ (256 << 10)
/* 8 MiB: the window that zstd needs for levels up to 19. */
#define WINDOW_LOG_MANY 23

enum compression { PLAIN, GZIP, ZSTD };

struct input {
	int fd;
	uint64_t pos, size;
	enum compression packing;
	bool eof;    /* end of the file */
	bool inside; /* inside a gzip member or a zstd frame: an end of file here is an error */
	z_stream gz;
	bool gz_open;
	ZSTD_DStream *zstd;
	size_t at, len; /* the unread part of raw */
	unsigned char raw[RAW_SZ];
};

/* Appends bytes of the file to the unread part of raw. */
static int fill(struct input *in, const char **why)
{
	ssize_t n;

	if (in->at) {
		memmove(in->raw, in->raw + in->at, in->len - in->at);
		in->len -= in->at;
		in->at = 0;
	}
	if (in->eof || in->len == RAW_SZ)
		return 0;
	do
		n = read(in->fd, in->raw + in->len, RAW_SZ - in->len);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		*why = errno == EISDIR ? "it is a directory: name a file in it" : strerror(errno);
		return -1;
	}
	in->eof = !n;
	in->len += n;
	in->pos += n;
	return 0;
}

static int open_packing(struct input *in, bool many)
{
	static const unsigned char gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};

	if (in->len >= sizeof(gzip) && !memcmp(in->raw, gzip, sizeof(gzip))) {
		in->packing = GZIP;
		in->gz_open = inflateInit2(&in->gz, 15 + 16) == Z_OK;
		return in->gz_open ? 0 : -1;
	}
	if (in->len >= sizeof(zstd) && !memcmp(in->raw, zstd, sizeof(zstd))) {
		in->packing = ZSTD;
		in->zstd = ZSTD_createDStream();
		if (!in->zstd)
			return -1;
		if (many)
			ZSTD_DCtx_setParameter(in->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MANY);
		return 0;
	}
	return 0;
}

struct input *input__open(const char *path, bool many, const char **why)
{
	struct input *in = calloc(1, sizeof(*in));
	struct stat st;

	*why = "out of memory: close other programs";
	if (!in)
		return NULL;
	in->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (in->fd < 0) {
		*why = errno == ENOENT ? "there is no such file: check the path" : strerror(errno);
		free(in);
		return NULL;
	}
	if (!fstat(in->fd, &st) && S_ISREG(st.st_mode))
		in->size = st.st_size;
	/* A pipe may return only a few bytes at a time. */
	while (in->len < 4 && !in->eof) {
		if (fill(in, why)) {
			input__close(in);
			return NULL;
		}
	}
	if (open_packing(in, many)) {
		input__close(in);
		return NULL;
	}
	return in;
}

void input__close(struct input *in)
{
	if (!in)
		return;
	if (in->gz_open)
		inflateEnd(&in->gz);
	ZSTD_freeDStream(in->zstd);
	if (in->fd != STDIN_FILENO)
		close(in->fd);
	free(in);
}

uint64_t input__pos(const struct input *in)
{
	return in->pos;
}

uint64_t input__size(const struct input *in)
{
	return in->size;
}

/* Each of these consumes bytes of raw and returns the number of bytes that it produced, or -1. */
static ssize_t read_gzip(struct input *in, char *buf, size_t n, const char **why)
{
	int ret;

	/* Another member may follow (cat a.gz b.gz), or padding of zeros, which is ignored. */
	if (!in->inside) {
		while (in->at < in->len && !in->raw[in->at])
			in->at++;
		if (in->at == in->len)
			return 0;
		inflateReset(&in->gz);
		in->inside = true;
	}
	in->gz.next_in = in->raw + in->at;
	in->gz.avail_in = in->len - in->at;
	in->gz.next_out = (unsigned char *)buf;
	in->gz.avail_out = n;
	ret = inflate(&in->gz, Z_NO_FLUSH);
	in->at = in->len - in->gz.avail_in;
	if (ret == Z_STREAM_END)
		in->inside = false;
	if (ret == Z_OK || ret == Z_STREAM_END || ret == Z_BUF_ERROR)
		return n - in->gz.avail_out;
	*why = "the gzip data is damaged from here on";
	return -1;
}

static ssize_t read_zstd(struct input *in, char *buf, size_t n, const char **why)
{
	ZSTD_inBuffer src = {in->raw, in->len, in->at};
	ZSTD_outBuffer dst = {buf, n, 0};
	size_t ret = ZSTD_decompressStream(in->zstd, &dst, &src);

	in->at = src.pos;
	in->inside = ret != 0;
	if (!ZSTD_isError(ret))
		return dst.pos;
	*why = ZSTD_getErrorCode(ret) == ZSTD_error_frameParameter_windowTooLarge
		       ? "its zstd window is too large for one of several files: uncompress it "
			 "first"
		       : "the zstd data is damaged from here on";
	return -1;
}

ssize_t input__read(struct input *in, char *buf, size_t n, const char **why)
{
	ssize_t got;

	if (in->packing == PLAIN && in->at == in->len && !in->eof) {
		do
			got = read(in->fd, buf, n);
		while (got < 0 && errno == EINTR);
		if (got < 0)
			*why = strerror(errno);
		else
			in->pos += got;
		return got;
	}
	for (;;) {
		size_t before = in->at;

		if (in->at == in->len && !in->eof && fill(in, why))
			return -1;
		if (in->packing == PLAIN) {
			got = in->len - in->at < n ? in->len - in->at : n;
			memcpy(buf, in->raw + in->at, got);
			in->at += got;
			return got;
		}
		if (in->at == in->len && in->eof && !in->inside)
			return 0;
		got = in->packing == GZIP ? read_gzip(in, buf, n, why) : read_zstd(in, buf, n, why);
		if (got)
			return got;
		/* No input was consumed, no output was produced, and the file has ended. */
		if (in->at == before && in->eof) {
			if (in->inside)
				*why = "the compressed data ends too early here";
			return in->inside ? -1 : 0;
		}
		if (in->at == before && fill(in, why))
			return -1;
	}
}
