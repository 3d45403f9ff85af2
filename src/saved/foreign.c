/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "foreign.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define READS	      "cudatrace reads what --jsonl writes"
#define PERFETTO_NEXT "open it at ui.perfetto.dev; " READS

/* %s in `next` is the file. The magic bytes come from the table of file(1) and from the formats'
 * own documentation. */
static const struct format {
	unsigned at, len;
	const char *magic;
	const char *what, *next;
} formats[] = {
#define MAGIC_AT(at, magic, what, next)                                                            \
	{                                                                                          \
		at, sizeof(magic) - 1, magic, what, next                                           \
	}
#define MAGIC(magic, what, next)   MAGIC_AT(0, magic, what, next)
#define PACKED(magic, by, command) MAGIC(magic, "packed by " by, "run `" command " %s` first")
	PACKED("\xfd"
	       "7zXZ\0",
	       "xz", "xz -dk"),
	MAGIC_AT(4, "1AY&SY", "packed by bzip2", "run `bzip2 -dk %s` first"),
	MAGIC("{\"report\":", "a report in JSON", "name the trace that it was made from"),
	PACKED("\x04\x22\x4d\x18", "lz4", "lz4 -dk"),
	PACKED("\x02\x21\x4c\x18", "lz4 (legacy)", "lz4 -dk"),
	PACKED("\x5d\0\0", "lzma", "xz --format=lzma -dk"),
	PACKED("LZIP", "lzip", "lzip -dk"),
	PACKED("\x89LZO\0\r\n\x1a\n", "lzop", "lzop -d"),
	PACKED("\x1f\x9d", "compress", "gzip -dk"),
	PACKED("\xff\x06\0\0sNaPpY", "snappy", "snzip -dk"),
	PACKED("7z\xbc\xaf\x27\x1c", "7-Zip", "7z x"),
	PACKED("Rar!\x1a\x07", "rar", "unrar x"),
	PACKED("\x1f\x8b", "gzip twice", "gzip -dk"),
	PACKED("\x28\xb5\x2f\xfd", "zstd twice", "zstd -dk"),
	MAGIC("PK\3\4", "a zip archive", "run `unzip %s` first"),
	MAGIC("PK\5\6", "an empty zip archive", READS),
	MAGIC_AT(257, "ustar", "a tar archive", "run `tar xf %s` first"),
	MAGIC("\xff\xfe\0\0", "UTF-32 text",
	      "run `iconv -f UTF-32 -t UTF-8 -o NEW %s` and name NEW"),
	MAGIC("\0\0\xfe\xff", "UTF-32 text",
	      "run `iconv -f UTF-32 -t UTF-8 -o NEW %s` and name NEW"),
	MAGIC("\xff\xfe", "UTF-16 text", "run `iconv -f UTF-16 -t UTF-8 -o NEW %s` and name NEW"),
	MAGIC("\xfe\xff", "UTF-16 text", "run `iconv -f UTF-16 -t UTF-8 -o NEW %s` and name NEW"),
	MAGIC("{\0", "UTF-16 text", "run `iconv -f UTF-16LE -t UTF-8 -o NEW %s` and name NEW"),
	MAGIC("\0{", "UTF-16 text", "run `iconv -f UTF-16BE -t UTF-8 -o NEW %s` and name NEW"),
	MAGIC("SQLite format 3\0", "an SQLite database, such as `nsys export` makes",
	      "`nsys stats %s` reads one of Nsight Systems; " READS),
	MAGIC("NVR\0", "an Nsight Compute report", "open it with `ncu --import %s`; " READS),
	MAGIC("PERFILE2", "a perf recording", "open it with `perf report -i %s`; " READS),
	MAGIC("2ELIFREP", "a perf recording", "open it with `perf report -i %s`; " READS),
	MAGIC("\x7f"
	      "ELF",
	      "a program or a library", "to trace a program: cudatrace -- %s"),
	MAGIC("\x89PNG", "a PNG picture", READS),
	MAGIC("\xff\xd8\xff", "a JPEG picture", READS),
	MAGIC("GIF8", "a GIF picture", READS),
	MAGIC("%PDF", "a PDF document", READS),
	MAGIC("\x89HDF\r\n\x1a\n", "an HDF5 file", READS),
	MAGIC("PAR1", "a Parquet file", READS),
	MAGIC("ARROW1", "an Arrow file", READS),
	MAGIC("\x80\2", "a Python pickle", READS),
	MAGIC("\x80\3", "a Python pickle", READS),
	MAGIC("\x80\4", "a Python pickle, such as a PyTorch memory snapshot",
	      "open a snapshot at pytorch.org/memory_viz; " READS),
	MAGIC("\x80\5", "a Python pickle", READS),
	MAGIC("#!", "a script", "to trace it: cudatrace -- %s"),
	MAGIC("{\"diff\":", "a diff in JSON", "name the traces that it was made from"),
};

/* Matched in either case, after leading blanks. */
static const struct {
	const char *begin, *what, *next;
} texts[] = {
	{"<!doctype html", "an HTML page",
	 "open it in a browser, and name the trace that it was made from"},
	{"<html", "an HTML page", "open it in a browser, and name the trace that it was made from"},
	{"<svg", "an SVG picture",
	 "open it in a browser, and name the trace that it was made from"},
	{"<?xml", "XML, such as an SVG picture", "open a picture in a browser; " READS},
};

/* JSON that has one of these members near its start. */
static const struct {
	const char *has, *what, *next;
} jsons[] = {
	{"\"traceEvents\"", "a Chrome trace, such as torch.profiler writes", PERFETTO_NEXT},
	{"\"deviceProperties\"", "a Chrome trace, such as torch.profiler writes", PERFETTO_NEXT},
	{"\"resourceSpans\"", "OpenTelemetry spans", READS},
	{"\"resourceMetrics\"", "OpenTelemetry metrics", READS},
};

/* Formats without a published magic, known by their suffix. */
static const struct {
	const char *suffix, *what, *next;
} suffixes[] = {
	{".nsys-rep", "an Nsight Systems report", "open it with `nsys stats %s`; " READS},
	{".qdrep", "an Nsight Systems report", "open it with `nsys stats %s`; " READS},
	{".qdstrm", "an Nsight Systems stream", "QdstrmImporter converts it to a report; " READS},
	{".ncu-rep", "an Nsight Compute report", "open it with `ncu --import %s`; " READS},
	{".nvvp", "an nvprof profile", "open it with the NVIDIA Visual Profiler; " READS},
	{".nvprof", "an nvprof profile", "open it with the NVIDIA Visual Profiler; " READS},
};

static bool has_suffix(const char *path, const char *suffix)
{
	size_t len = strlen(path), n = strlen(suffix);

	return len > n && !strcmp(path + len - n, suffix);
}

/* Consecutive protocol buffer messages: field 1 of perfetto.protos.Trace. */
static bool is_perfetto(const uint8_t *s, size_t len)
{
	size_t at = 0;
	bool binary = false;

	for (size_t i = 0; i < len && i < 64; i++)
		binary |= s[i] < 9;
	for (unsigned cnt = 0; binary && cnt < 64; cnt++) {
		uint64_t n = 0;
		unsigned shift = 0;

		if (at >= len)
			return cnt > 0;
		if (s[at++] != 0x0a)
			return false;
		do {
			if (at >= len)
				return cnt > 0;
			n |= (uint64_t)(s[at] & 0x7f) << shift;
			shift += 7;
		} while (s[at++] & 0x80 && shift < 35);
		if (n > UINT32_MAX)
			return false;
		at += n;
	}
	return binary;
}

static bool say(char *text, size_t size, const char *path, const char *what, const char *next)
{
	int n = snprintf(text, size, "it is %s: ", what);

	if (n >= 0 && (size_t)n < size) {
		/* The format comes from the tables above. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(text + n, size - n, next, strcmp(path, "-") ? path : "FILE");
#pragma GCC diagnostic pop
	}
	return true;
}

static bool find_text(const char *s, size_t len, unsigned *i)
{
	for (*i = 0; *i < sizeof(texts) / sizeof(texts[0]); ++*i) {
		size_t n = strlen(texts[*i].begin);

		if (len >= n && !strncasecmp(s, texts[*i].begin, n))
			return true;
	}
	return false;
}

/* Detects an array, an object over several lines, and an object with a member that no line of a
 * trace has. */
static bool find_json(const char *s, size_t len, char *text, size_t size, const char *path)
{
	size_t gap;

	for (unsigned i = 0; i < sizeof(jsons) / sizeof(jsons[0]); i++)
		if (memmem(s, len, jsons[i].has, strlen(jsons[i].has)) &&
		    !memmem(s, len, "\"cudatrace\"", strlen("\"cudatrace\"")))
			return say(text, size, path, jsons[i].what, jsons[i].next);
	if (*s == '[' && memmem(s, len, "\"schema\"", strlen("\"schema\"")))
		return say(text, size, path, "a trace made one JSON array (jq -s)",
			   "run `jq -c '.[]' %s >NEW` and name NEW");
	if (*s == '[')
		return false;
	for (gap = 1; gap < len && strchr(" \t\r", s[gap]) && s[gap]; gap++)
		;
	if (gap < len && s[gap] == '\n')
		return say(text, size, path, "JSON with an object over several lines",
			   "run `jq -c . %s >NEW` and name NEW");
	return false;
}

bool foreign__find(const char *path, const char *buf, size_t len, char *text, size_t size)
{
	const char *s = buf;
	unsigned i;

	for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		const struct format *f = &formats[i];

		if (f->at + f->len <= len && !memcmp(buf + f->at, f->magic, f->len))
			return say(text, size, path, f->what, f->next);
	}
	if (is_perfetto((const uint8_t *)buf, len))
		return say(text, size, path, "a Perfetto trace", PERFETTO_NEXT);
	while (len && strchr(" \t\r\n\xef\xbb\xbf", *s) && *s) {
		s++;
		len--;
	}
	if (find_text(s, len, &i))
		return say(text, size, path, texts[i].what, texts[i].next);
	if (len && (*s == '{' || *s == '['))
		return find_json(s, len, text, size, path);
	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (has_suffix(path, suffixes[i].suffix))
			return say(text, size, path, suffixes[i].what, suffixes[i].next);
	return false;
}
