/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "python.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE CT_PYTHON_NONE

/* Offsets of one version. Frames are read only from frame_off on. */
struct version {
	unsigned minor;
	uint32_t interpreters, interpreter_next, threads, holder;
	uint16_t thread_place;
	uint16_t thread_next, thread_self, thread_number, thread_frame, cframe_frame;
	uint16_t frame_off, frame_sz, frame_code, frame_back, frame_ip, frame_owner, owner_min;
	uint16_t filename, name, qualname, table, first_line, code, ascii;
};

/* Offsets did not change within a minor version. */
static const struct version versions[] = {
	{8, 32, 0,  8, 1160, NONE, 8,	176, 0,	  24, NONE, 24, 88,
	 8, 0,	80, 0, NONE, 104,  112, 0,   120, 40, 0,    48},
	{9, 32, 0,  8, 360,  NONE, 8,	176, 0,	  24, NONE, 24, 88,
	 8, 0,	80, 0, NONE, 104,  112, 0,   120, 40, 0,    48},
	{10, 32, 0,  8, 0,    48,  8,	176, 0,	  24, NONE, 24, 88,
	 8,  0,	 72, 0, NONE, 104, 112, 0,   120, 40, 0,    48},
	{11, 40, 0,  16, 0,    56,  8,	 152, 160, 56, 8,   0, 72,
	 32, 48, 56, 0,	 NONE, 112, 120, 128, 136, 72, 184, 48},
	{12, 40, 0,  72, 0, 56,	 8,   136, 144, 56, 0,	 0, 72,
	 0,  8,	 56, 70, 3, 112, 120, 128, 136, 68, 192, 40},
};

/* A thread is identified by pthread_self() if registers contain it, else by its native ID, which
 * exists from 3.11 on (bpf/python.bpf.h). */
static uint16_t thread_id(uint16_t self, uint16_t number)
{
#ifdef __aarch64__
	(void)self;
	return number;
#else
	(void)number;
	return self;
#endif
}

/* Offset of the text of a string that is not all ASCII. The length in UTF-8 and the pointer to it
 * come before; before 3.12, also a length in wchar_t. */
static unsigned python_str_other(const struct python_layout *l)
{
	return l->ascii == 48 ? 72 : 56;
}

/* Computes the members that depend on others. */
static void complete(struct python_layout *l)
{
	const uint16_t words[] = {l->filename, l->name, l->qualname, l->table, l->first_line};

	l->code_sz = 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i] + 8u > l->code_sz)
			l->code_sz = words[i] + 8u;
	l->bpf.code_file = l->filename;
	l->bpf.code_function = l->qualname ? l->qualname : l->name;
	l->bpf.code_table = l->table;
	l->bpf.code_first_line = l->first_line;
	l->bpf.code_first = l->code;
	l->bpf.str_ascii = l->ascii;
	l->bpf.str_other = python_str_other(l);
}

bool python_layout_of(unsigned minor, struct python_layout *l)
{
	const struct version *v = versions, *end = v + sizeof(versions) / sizeof(*v);

	while (v < end && v->minor != minor)
		v++;
	if (v == end || !thread_id(v->thread_self, v->thread_number))
		return false;
	*l = (struct python_layout){
		.minor = minor,
		.bpf =
			{
				.interpreters = v->interpreters,
				.interpreter_next = v->interpreter_next,
				.threads = v->threads,
				.holder = v->holder,
				.thread_place = v->thread_place,
				.thread_next = v->thread_next,
				.thread_id = thread_id(v->thread_self, v->thread_number),
				.thread_frame = v->thread_frame,
				.cframe_frame = v->cframe_frame,
				.frame_off = v->frame_off,
				.frame_sz = v->frame_sz,
				.frame_code = v->frame_code,
				.frame_back = v->frame_back,
				.frame_ip = v->frame_ip,
				.frame_owner = v->frame_owner,
				.owner_min = v->owner_min,
				.side_by_side = v->minor >= 11,
			},
		.filename = v->filename,
		.name = v->name,
		.qualname = v->qualname,
		.table = v->table,
		.first_line = v->first_line,
		.code = v->code,
		.ascii = v->ascii,
	};
	complete(l);
	return true;
}

/* Words of the debug header: cookie, version, free-threaded, followed by the offsets in the
 * runtime, the interpreter, the thread state, the frame and the code. 3.14 has three more for the
 * interpreter. */
enum { D_COOKIE, D_VERSION, D_FREE_THREADED, D_RUNTIME, D_INTERPRETER = 6 };
static const struct {
	unsigned minor, interpreter_words, thread_words, frame_words;
} debug_shapes[] = {{13, 13, 9, 6}, {14, 16, 9, 8}};

static uint64_t word(const uint8_t *p, size_t i)
{
	uint64_t w;

	memcpy(&w, p + 8 * i, sizeof(w));
	return w;
}

/* Plausible offset in a thread or a code object: CPython has none larger. */
static bool small(uint64_t off)
{
	return off < 4096;
}

static int __attribute__((format(printf, 3, 4))) fail(char *why, size_t size, const char *text, ...)
{
	va_list ap;

	va_start(ap, text);
	vsnprintf(why, size, text, ap);
	va_end(ap);
	return -EINVAL;
}

/* 3.13 and 3.14: FRAME_OWNED_BY_CSTACK is 3 and 4, FRAME_OWNED_BY_INTERPRETER 3. */
#define OWNER_MIN 3

static const char bad_offsets[] = "its debug offsets are invalid";

int python_layout_read(const uint8_t *d, size_t size, struct python_layout *l, char *why,
		       size_t why_size)
{
	size_t shape = 0, cnt = sizeof(debug_shapes) / sizeof(debug_shapes[0]), ts, fr, co;
	uint64_t version, end;
	struct ct_python *b = &l->bpf;

	memset(l, 0, sizeof(*l));
	if (size < PYTHON_DEBUG_SZ || memcmp(d, "xdebugpy", 8))
		return fail(why, why_size, "its runtime has no debug offsets");
	version = word(d, D_VERSION);
	while (shape < cnt && version >> 16 != (0x300 | debug_shapes[shape].minor))
		shape++;
	if (shape == cnt) {
		snprintf(why, why_size, "Python %u.%u is not supported (CPython 3.8 to 3.14 is)",
			 (unsigned)(version >> 24) & 255, (unsigned)(version >> 16) & 255);
		return -EINVAL;
	}
	/* The header changes until the release candidates. */
	if ((version & 0xff) < 0xc0)
		return fail(why, why_size, "it is a pre-release version");
	if (word(d, D_FREE_THREADED))
		return fail(why, why_size,
			    "the free-threaded build of Python 3.%u is not supported",
			    debug_shapes[shape].minor);
	l->minor = debug_shapes[shape].minor;
	ts = D_INTERPRETER + debug_shapes[shape].interpreter_words;
	fr = ts + debug_shapes[shape].thread_words;
	co = fr + debug_shapes[shape].frame_words;
	/* Each structure's size comes first: the offsets must be within it. */
	for (size_t i = ts; i < co + 10; i++)
		if (!small(word(d, i)))
			return fail(why, why_size, bad_offsets);
	if (word(d, ts) <= word(d, ts + 6) || word(d, fr) <= word(d, fr + 5) ||
	    word(d, co) < word(d, co + 9))
		return fail(why, why_size, bad_offsets);
	if (word(d, D_RUNTIME + 2) > 1 << 24 || word(d, D_INTERPRETER + 2) > 1 << 24 ||
	    word(d, D_INTERPRETER + 3) > 1 << 24)
		return fail(why, why_size, bad_offsets);
	b->interpreters = word(d, D_RUNTIME + 2);
	b->interpreter_next = word(d, D_INTERPRETER + 2);
	b->threads = word(d, D_INTERPRETER + 3);
	b->thread_next = word(d, ts + 2);
	b->thread_frame = word(d, ts + 4);
	b->thread_id = thread_id(word(d, ts + 5), word(d, ts + 6));
	b->cframe_frame = b->thread_place = NONE;
	b->frame_back = word(d, fr + 1);
	b->frame_code = word(d, fr + 2);
	b->frame_ip = word(d, fr + 3);
	b->frame_owner = word(d, fr + 5);
	b->owner_min = OWNER_MIN;
	b->side_by_side = 1;
	end = b->frame_owner + 1u;
	end = b->frame_back + 8u > end ? b->frame_back + 8u : end;
	end = b->frame_code + 8u > end ? b->frame_code + 8u : end;
	end = b->frame_ip + 8u > end ? b->frame_ip + 8u : end;
	b->frame_sz = (end + 7) & ~7u;
	if (b->frame_sz >= CT_PYTHON_FRAME_SZ_MAX ||
	    (b->frame_back | b->frame_code | b->frame_ip) % 8)
		return fail(why, why_size, bad_offsets);
	l->filename = word(d, co + 1);
	l->name = word(d, co + 2);
	l->qualname = word(d, co + 3);
	l->table = word(d, co + 4);
	l->first_line = word(d, co + 5);
	l->code = word(d, co + 9);
	l->ascii = 40;
	complete(l);
	if (l->code_sz > PYTHON_CODE_SZ_MAX)
		return fail(why, why_size, bad_offsets);
	return 0;
}

/* Returns the file name without the prefix of libraries. */
static const char *base_of(const char *file)
{
	const char *slash = strrchr(file, '/'), *p = slash ? slash + 1 : file;

	return strncmp(p, "lib", 3) ? p : p + 3;
}

bool python_name_of_file(const char *file, char *name, size_t size)
{
	/* graalpy loads libpythonvm.so (GraalPy 23). */
	static const struct {
		const char *begin, *name;
	} known[] = {{"pypy", "PyPy"},
		     {"graalpy", "GraalPy"},
		     {"pythonvm", "GraalPy"},
		     {"micropython", "MicroPython"},
		     {"rustpython", "RustPython"},
		     {"python2", "Python"},
		     {"python3", "Python"}};
	const char *p = base_of(file);
	int digits;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strncmp(p, known[i].begin, strlen(known[i].begin)) != 0)
			continue;
		p += strcspn(p, "0123456789.-");
		digits = (int)strspn(p, "0123456789.");
		while (digits && p[digits - 1] == '.')
			digits--;
		snprintf(name, size, "%s%s%.*s", known[i].name, digits ? " " : "", digits, p);
		return true;
	}
	return false;
}

int python_minor_of_file(const char *file)
{
	const char *p = base_of(file);
	unsigned long minor;
	char *end;

	if (strncmp(p, "python3.", 8) || !isdigit((unsigned char)p[8]))
		return -1;
	minor = strtoul(p + 8, &end, 10);
	return minor < 100 ? (int)minor : -1;
}

bool python_str_read(const struct python_layout *l, const uint8_t *obj, size_t size,
		     struct python_str *s)
{
	uint32_t state;

	if (size < 40)
		return false;
	s->len = word(obj, 2);
	memcpy(&state, obj + 32, sizeof(state));
	/* Two bits, or 16 in versions with a separate field, contain the interned state. */
	state = state >> 2 & 7 ? state >> 2 : state >> 16;
	s->kind = state & 7;
	s->ascii = state >> 4 & 1;
	if ((s->kind != 1 && s->kind != 2 && s->kind != 4) || !(state >> 3 & 1))
		return false;
	s->off = s->ascii ? l->ascii : python_str_other(l);
	return s->len < 1u << 24;
}

static size_t put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = 0xc0 | c >> 6;
		to[1] = 0x80 | (c & 63);
		return 2;
	}
	/* Surrogates stand for bytes that were not valid text. */
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	if (c < 0x10000) {
		to[0] = 0xe0 | c >> 12;
		to[1] = 0x80 | (c >> 6 & 63);
		to[2] = 0x80 | (c & 63);
		return 3;
	}
	to[0] = 0xf0 | c >> 18;
	to[1] = 0x80 | (c >> 12 & 63);
	to[2] = 0x80 | (c >> 6 & 63);
	to[3] = 0x80 | (c & 63);
	return 4;
}

size_t python_str_text(const struct python_str *s, const uint8_t *text, size_t len, char *buf,
		       size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < s->len && (i + 1) * s->kind <= len && n + 4 < size; i++) {
		const uint8_t *p = text + i * s->kind;
		uint32_t c = p[0];

		for (unsigned b = 1; b < s->kind; b++)
			c |= (uint32_t)p[b] << 8 * b;
		n += put_utf8(buf + n, c);
	}
	buf[n] = '\0';
	return n;
}

bool python_bytes_len(const uint8_t *obj, size_t size, uint64_t *len)
{
	if (size < PYTHON_BYTES_SZ)
		return false;
	*len = word(obj, 2);
	return *len < 1u << 24;
}

uint64_t python_offset(const struct python_layout *l, uint32_t off)
{
	/* 3.10 counts instructions of two bytes. */
	return l->minor == 10 ? 2ull * off : off;
}

/* Up to 3.9: pairs of increments, in bytes of code and in lines. */
static int64_t line_by_lnotab(const uint8_t *table, size_t len, int64_t line, uint64_t off)
{
	uint64_t at = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		at += table[i];
		if (at > off)
			break;
		line += (int8_t)table[i + 1];
	}
	return line;
}

/* 3.10: pairs of the length of a range, in bytes of code, and the line's change before it; -128: no
 * line. */
static int64_t line_by_ranges(const uint8_t *table, size_t len, int64_t line, uint64_t off)
{
	uint64_t at = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		int delta = (int8_t)table[i + 1];

		at += table[i];
		if (delta != -128)
			line += delta;
		if (off < at)
			return delta == -128 ? 0 : line;
	}
	return 0;
}

/* Six bits per byte, lowest first; the seventh bit is set if another byte follows. */
static bool varint(const uint8_t *table, size_t len, size_t *i, uint32_t *val)
{
	unsigned shift = 0;
	uint8_t byte;

	*val = 0;
	do {
		if (*i == len || shift > 30)
			return false;
		byte = table[(*i)++];
		*val |= (uint32_t)(byte & 63) << shift;
		shift += 6;
	} while (byte & 64);
	return true;
}

/* From 3.11 on: entries begin with a byte above 127, which has the format and the length in code
 * units of two bytes. */
enum { LOC_ONE_LINE_FIRST = 10, LOC_NO_COLUMNS = 13, LOC_LONG = 14, LOC_NONE = 15 };

static int64_t line_by_locations(const uint8_t *table, size_t len, int64_t line, uint64_t off)
{
	uint64_t at = 0;

	for (size_t i = 0; i < len;) {
		uint8_t first = table[i++];
		unsigned what = first >> 3 & 15;
		uint32_t delta = 0;

		if (!(first & 128))
			return 0;
		if (what == LOC_LONG || what == LOC_NO_COLUMNS) {
			if (!varint(table, len, &i, &delta))
				return 0;
			line += delta & 1 ? -(int64_t)(delta >> 1) : (int64_t)(delta >> 1);
		} else if (what >= LOC_ONE_LINE_FIRST && what < LOC_NO_COLUMNS) {
			line += what - LOC_ONE_LINE_FIRST;
		}
		at += 2 * ((first & 7) + 1);
		if (off < at)
			return what == LOC_NONE ? 0 : line;
		while (i < len && !(table[i] & 128))
			i++;
	}
	return 0;
}

unsigned python_line(const struct python_layout *l, const uint8_t *table, size_t len, int first,
		     uint64_t off)
{
	int64_t line;

	if (l->minor < 10)
		line = line_by_lnotab(table, len, first, off);
	else if (l->minor == 10)
		line = line_by_ranges(table, len, first, off);
	else
		line = line_by_locations(table, len, first, off);
	return line > 0 && line < INT32_MAX ? (unsigned)line : 0;
}
