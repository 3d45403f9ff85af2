/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A pprof profile: https://github.com/google/pprof/blob/main/proto/profile.proto. It is compressed
 * while it is made: each location and function is written before the first sample that needs it,
 * and the texts at the end in the order of their numbers.
 */
#include "pprof.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "pprof_fields.h"
#include "report/collect.h"
#include "text/stack.h"
#include "util/hash_table.h"
#include "util/memlimit.h"
#include "util/pb.h"
#include "util/plain.h"

#define GZIP_WINDOW (15 + 16) /* with a gzip header, whose time is 0: same input, same bytes */
#define GZIP_MEMORY 8
#define GZIP_LEVEL  6
#define CHUNK_SZ    (64 << 10)

const struct profile_type profile_types[PROFILE_VALUE_CNT] = {
	[PROFILE_HOST_NS] = {"host_time", "nanoseconds"},
	[PROFILE_WAIT_NS] = {"wait_time", "nanoseconds"},
	[PROFILE_GPU_NS] = {"gpu_time", "nanoseconds"},
	[PROFILE_CALLS] = {"calls", "count"},
	[PROFILE_LAUNCHES] = {"launches", "count"},
	[PROFILE_GRAPH_LAUNCHES] = {"graph_launches", "count"},
	[PROFILE_EXECUTIONS] = {"executions", "count"},
	[PROFILE_ALLOC_BYTES] = {"alloc_space", "bytes"},
};

struct ptext {
	struct hash_link link;
	uint32_t number;
	char bytes[];
};
HASH_TABLE_TYPE(ptext);
HASH_TABLE_BYTES(ptext, bytes);

struct pprof {
	struct out *o;
	struct out *text;	  /* a name as it is written */
	struct out *sample;	  /* the message being made */
	struct out *news;	  /* complete messages */
	struct ptext_table texts; /* in the order of their numbers */
	struct keys functions;	  /* name << 32 | file */
	struct keys locations;	  /* function << 32 | line */
	z_stream z;
	size_t list; /* start of the list that the sample is filling */
	int error;
};

static void compress_news(struct pprof *p, int flush)
{
	char chunk[CHUNK_SZ];

	p->z.next_in = (void *)p->news->buf;
	p->z.avail_in = p->news->len;
	do {
		p->z.next_out = (void *)chunk;
		p->z.avail_out = sizeof(chunk);
		if (deflate(&p->z, flush) == Z_STREAM_ERROR) {
			p->error = -EIO;
			return;
		}
		out_bytes(p->o, chunk, sizeof(chunk) - p->z.avail_out);
	} while (!p->z.avail_out);
	p->news->len = 0;
}

/* The number of a text of any bytes. */
static uint32_t text_of(struct pprof *p, const char *s)
{
	struct ptext *t;
	size_t len = strlen(s);

	p->text->len = 0;
	out_bytes(p->text, s, len + 1);
	plain_text(p->text->buf, len);
	t = ptext_table__find(&p->texts, p->text->buf, len);
	if (t)
		return t->number;
	t = memlimit_new(MEMLIMIT_PROFILE, sizeof(*t) + len + 1);
	if (t) {
		memcpy(t->bytes, p->text->buf, len);
		t->number = hash_cnt(&p->texts);
	}
	if (t && !ptext_table__add(&p->texts, t, len))
		return t->number;
	memlimit_free(t);
	p->error = -ENOMEM;
	return 0;
}

/* The number of a key, from 1. */
static uint32_t number_of(struct pprof *p, struct keys *k, uint64_t key, bool *is_new)
{
	uint32_t cnt = k->cnt, i = keys_get(k, key, UINT32_MAX, MEMLIMIT_PROFILE);

	*is_new = k->cnt > cnt;
	if (i == KEYS_NONE)
		p->error = -ENOMEM;
	return i == KEYS_NONE ? 0 : i + 1;
}

/* Without a system name: if it equals the name, pprof drops the template arguments, and kernels
 * with different ones become one. */
static uint32_t function_of(struct pprof *p, uint32_t name, uint32_t file)
{
	bool is_new;
	uint32_t id = number_of(p, &p->functions, (uint64_t)name << 32 | file, &is_new);
	size_t at;

	if (!is_new)
		return id;
	at = pb_open(p->news, PPROF_FUNCTION);
	pb_u64(p->news, FUNCTION_ID, id);
	pb_u64(p->news, FUNCTION_NAME, name);
	pb_u64(p->news, FUNCTION_FILENAME, file);
	pb_close(p->news, at);
	return id;
}

static void put_type(struct pprof *p, unsigned field, const char *type, const char *unit)
{
	size_t at = pb_open(p->news, field);

	pb_u64(p->news, VALUE_TYPE_TYPE, text_of(p, type));
	pb_u64(p->news, VALUE_TYPE_UNIT, text_of(p, unit));
	pb_close(p->news, at);
}

struct pprof *pprof__new(struct out *o)
{
	struct pprof *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->o = o;
	p->text = out__memory();
	p->sample = out__memory();
	p->news = out__memory();
	if (!p->text || !p->sample || !p->news ||
	    deflateInit2(&p->z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		pprof__free(p);
		return NULL;
	}
	text_of(p, ""); /* number 0 */
	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
		put_type(p, PPROF_SAMPLE_TYPE, profile_types[i].type, profile_types[i].unit);
	return p;
}

void pprof__free(struct pprof *p)
{
	if (!p)
		return;
	while (p->texts.first)
		memlimit_free(ptext_table__pop(&p->texts));
	keys__free(&p->functions);
	keys__free(&p->locations);
	deflateEnd(&p->z);
	if (p->text)
		out__close(p->text);
	if (p->sample)
		out__close(p->sample);
	if (p->news)
		out__close(p->news);
	free(p);
}

void pprof__begin(struct pprof *p)
{
	p->list = pb_open(p->sample, SAMPLE_LOCATION_ID);
}

void pprof__frame(struct pprof *p, const char *name, const char *file, uint32_t line)
{
	uint32_t function = function_of(p, text_of(p, name), file ? text_of(p, file) : 0), id;
	size_t at, inner;
	bool is_new;

	id = number_of(p, &p->locations, (uint64_t)function << 32 | line, &is_new);
	pb_varint(p->sample, id);
	if (!is_new)
		return;
	at = pb_open(p->news, PPROF_LOCATION);
	pb_u64(p->news, LOCATION_ID, id);
	inner = pb_open(p->news, LOCATION_LINE);
	pb_u64(p->news, LINE_FUNCTION_ID, function);
	if (line)
		pb_u64(p->news, LINE_LINE, line);
	pb_close(p->news, inner);
	pb_close(p->news, at);
}

/* A function is one, whatever the address in it: "name+0x12". */
const char *profile_frame_name(const struct stack_frame *f, char *buf, size_t size)
{
	const char *plus = f->symbol && !f->python ? strrchr(f->symbol, '+') : NULL;

	if (f->python && f->symbol)
		return f->symbol;
	if (!plus || plus == f->symbol || strncmp(plus, "+0x", 3) != 0 ||
	    (size_t)(plus - f->symbol) >= size)
		return stack_frame_name(f, buf, size);
	memcpy(buf, f->symbol, plus - f->symbol);
	buf[plus - f->symbol] = '\0';
	return buf;
}

void pprof__values(struct pprof *p, const uint64_t v[PROFILE_VALUE_CNT])
{
	size_t at;

	pb_close(p->sample, p->list);
	at = pb_open(p->sample, SAMPLE_VALUE);
	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
		pb_varint(p->sample, v[i]);
	pb_close(p->sample, at);
}

void pprof__label(struct pprof *p, const char *key, const char *text, uint64_t number)
{
	size_t at = pb_open(p->sample, SAMPLE_LABEL);

	pb_u64(p->sample, LABEL_KEY, text_of(p, key));
	if (text)
		pb_u64(p->sample, LABEL_STR, text_of(p, text));
	else
		pb_u64(p->sample, LABEL_NUM, number);
	pb_close(p->sample, at);
}

void pprof__end(struct pprof *p)
{
	pb_bytes(p->news, PPROF_SAMPLE, p->sample->buf, p->sample->len);
	p->sample->len = 0;
	if (p->news->len >= CHUNK_SZ)
		compress_news(p, Z_NO_FLUSH);
}

int pprof__error(const struct pprof *p)
{
	return p->error;
}

void pprof__comment(struct pprof *p, const char *before, const char *text)
{
	char *line;

	if (asprintf(&line, "%s%s", before, text) < 0) {
		p->error = -ENOMEM;
		return;
	}
	pb_u64(p->news, PPROF_COMMENT, text_of(p, line));
	free(line);
}

int pprof__finish(struct pprof *p, const struct profile_span *s)
{
	if (s->wall_ns)
		pb_u64(p->news, PPROF_TIME_NANOS, s->wall_ns);
	pb_u64(p->news, PPROF_DURATION_NANOS, s->duration_ns);
	put_type(p, PPROF_PERIOD_TYPE, "calls", "count");
	pb_u64(p->news, PPROF_PERIOD, 1);
	pb_u64(p->news, PPROF_DEFAULT_SAMPLE_TYPE,
	       text_of(p, profile_types[s->has_gpu    ? PROFILE_GPU_NS
					: s->no_times ? PROFILE_CALLS
						      : PROFILE_HOST_NS]
				  .type));
	hash_each (t, &p->texts) {
		pb_bytes(p->news, PPROF_STRING_TABLE, t->bytes, t->link.key_sz);
		if (p->news->len >= CHUNK_SZ)
			compress_news(p, Z_NO_FLUSH);
	}
	compress_news(p, Z_FINISH);
	return p->error;
}
