// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "parse.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

namespace
{

typedef unsigned char bytes16 __attribute__((vector_size(16)));

/* Number of leading bytes, of 16, that need no handling inside a string. */
unsigned plain_bytes(const char *s)
{
	bytes16 v;
	uint64_t half[2];

	memcpy(&v, s, sizeof(v));
	auto hit = (v == '"') | (v == '\\') | (v < 0x20);
	memcpy(half, &hit, sizeof(half));
	if (half[0])
		return __builtin_ctzll(half[0]) / 8;
	return half[1] ? 8 + __builtin_ctzll(half[1]) / 8 : 16;
}

/*
 * Parses a line in place without changing it: strings are slices of the line. Only a string with
 * escapes is copied to `room`; the copies of a line are no longer than the line.
 */
struct line_stream {
	typedef char Ch;

	const char *begin, *src;
	const char *head; /* start of the current string */
	size_t n;	  /* its length so far */
	char *copy;	  /* NULL: it has no escapes so far */
	char *room;	  /* where copies go */

	char Peek() const
	{
		return *src;
	}
	char Take()
	{
		return *src++;
	}
	size_t Tell() const
	{
		return src - begin;
	}
	char *PutBegin()
	{
		head = src;
		n = 0;
		copy = nullptr;
		return nullptr;
	}
	/* Without an escape, exactly one byte of input was consumed for c. */
	void Put(char c)
	{
		if (!copy && (size_t)(src - head) != n + 1) {
			copy = room;
			memcpy(copy, head, n);
		}
		if (copy)
			copy[n] = c;
		n++;
	}
	void Flush()
	{
	}
	size_t PutEnd(char *)
	{
		room += copy ? n : 0;
		return n;
	}
	void scan()
	{
		const char *from = src;
		unsigned more;

		do
			src += more = plain_bytes(src);
		while (more == 16);
		if (copy)
			memcpy(copy + n, from, src - from);
		n += src - from;
	}
	const char *text() const
	{
		return copy ? copy : head;
	}
};

typedef rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, rapidjson::CrtAllocator>
	line_reader;

} // namespace

namespace rapidjson
{
/* RapidJSON's own versions support only its own streams. */
template <>
template <>
inline void line_reader::ScanCopyUnescapedString(line_stream &is, line_stream &)
{
	is.scan();
}
} // namespace rapidjson

namespace
{

/* Lines of cudatrace have at most five levels: a struct in an array in a struct in the
 * arguments. */
const unsigned DEPTH_MAX = 64;

/* A name of at most 16 bytes as two words. May read 16 bytes, whatever the length. */
struct key_words {
	uint64_t lo, hi;

	key_words(const char *s, size_t len)
	{
		memcpy(&lo, s, 8);
		memcpy(&hi, s + 8, 8);
		if (len < 8) {
			lo &= (1ull << 8 * len) - 1;
			hi = 0;
		} else if (len < 16) {
			hi &= (1ull << 8 * (len - 8)) - 1;
		}
	}

	unsigned hash() const
	{
		return ((lo ^ hi * 31) * 0x9e3779b97f4a7c15ull) >> 55;
	}
};

struct key_table {
	struct {
		uint64_t lo, hi;
		uint32_t len, key; /* 0: empty slot */
	} slot[512];

	key_table() : slot()
	{
		const char *s;

		for (unsigned k = 1; (s = parse_key_name(k)); k++) {
			char name[16] = "";
			size_t len = strlen(s);

			if (len > sizeof(name))
				abort();
			memcpy(name, s, len);
			/* Several kinds of events share member names. */
			if (find(name, len))
				continue;
			key_words w(name, len);
			unsigned i = w.hash();

			while (slot[i].key)
				i = (i + 1) % 512;
			slot[i] = {w.lo, w.hi, (uint32_t)len, k};
		}
	}

	unsigned find(const char *s, size_t len) const
	{
		if (len > 16)
			return KEY_OTHER;
		key_words w(s, len);

		for (unsigned i = w.hash(); slot[i].key; i = (i + 1) % 512)
			if (slot[i].lo == w.lo && slot[i].hi == w.hi && slot[i].len == len)
				return slot[i].key;
		return KEY_OTHER;
	}
};

const key_table keys;

} // namespace

unsigned parse_key(const char *name)
{
	char words[16] = "";
	size_t len = strlen(name);

	memcpy(words, name, len < sizeof(words) ? len : sizeof(words));
	return keys.find(words, len);
}

struct parser {
	rapidjson::CrtAllocator crt;
	line_reader reader;
	struct member *m;
	unsigned cnt, cap;
	char *copies; /* copies of strings with escapes */
	size_t copies_cap;
	char *slice; /* for parser__slice(): copy with a NUL */
	size_t slice_cap;

	/* the current line */
	const line_stream *is;
	const char *line;
	unsigned depth;
	bool is_object;
	uint32_t last;	  /* offset after the last value at the first level */
	uint32_t open_at; /* offset after the opening bracket of an object or array at the first
			   * level */
	const char *why;

	parser() : reader(&crt), m(), cnt(), cap(), copies(), copies_cap(), slice(), slice_cap()
	{
	}

	/* the handler interface of RapidJSON */
	bool Null()
	{
		return value(VAL_NULL);
	}
	bool Bool(bool x)
	{
		return value(x ? VAL_TRUE : VAL_FALSE);
	}
	bool Int(int)
	{
		return false;
	}
	bool Uint(unsigned)
	{
		return false;
	}
	bool Int64(int64_t)
	{
		return false;
	}
	bool Uint64(uint64_t)
	{
		return false;
	}
	bool Double(double)
	{
		return false;
	}

	bool RawNumber(const char *, rapidjson::SizeType len, bool)
	{
		if (depth != 1)
			return depth > 1 || not_a_line();
		return value(VAL_NUMBER, line + is->Tell() - len, len);
	}

	bool String(const char *, rapidjson::SizeType len, bool)
	{
		return value(VAL_STRING, is->text(), len);
	}

	bool Key(const char *, rapidjson::SizeType len, bool)
	{
		if (depth != 1)
			return true;
		struct member *x = add(is->head - 1 - line);

		if (!x)
			return false;
		x->name = is->text();
		x->name_len = len;
		x->key = keys.find(x->name, len);
		return true;
	}

	bool StartObject()
	{
		return open(true);
	}
	bool EndObject(rapidjson::SizeType)
	{
		return close(VAL_OBJECT);
	}
	bool StartArray()
	{
		return open(false);
	}
	bool EndArray(rapidjson::SizeType)
	{
		return close(VAL_ARRAY);
	}

	bool not_a_line()
	{
		why = "it is not an object";
		return false;
	}

	bool no_memory()
	{
		why = "out of memory: close other programs";
		return false;
	}

	/* Returns NULL when out of memory. */
	struct member *add(uint32_t from)
	{
		if (cnt == cap && !grow())
			return nullptr;
		m[cnt].from = from;
		return &m[cnt++];
	}

	bool grow()
	{
		if (cnt == PARSE_MEMBERS_MAX) {
			why = "it has too many members";
			return false;
		}
		unsigned n = cap ? 2 * cap : 64;
		struct member *grown = (struct member *)realloc(m, n * sizeof(*m));

		if (!grown)
			return no_memory();
		m = grown;
		cap = n;
		return true;
	}

	bool value(enum parse_val val, const char *s = "", size_t len = 0)
	{
		struct member *x;

		if (depth != 1)
			return depth > 1 || not_a_line();
		if (is_object) {
			x = &m[cnt - 1];
		} else {
			x = add(last);
			if (!x)
				return false;
			x->key = KEY_OTHER;
			x->name = nullptr;
			x->name_len = 0;
		}
		x->val = val;
		x->text = s;
		x->len = len;
		x->to = last = is->Tell();
		return true;
	}

	bool open(bool object)
	{
		if (!depth)
			is_object = object;
		if (depth <= 1)
			open_at = last = is->Tell();
		if (++depth <= DEPTH_MAX)
			return true;
		why = "values are nested too deeply";
		return false;
	}

	bool close(enum parse_val val)
	{
		if (--depth != 1)
			return true;
		return value(val, line + open_at, is->Tell() - 1 - open_at);
	}

	const char *plain_value(const char *s, struct member *x);
	const char *plain_line(const char *s);
};

/*
 * Lines as cudatrace writes them: no escapes, only ASCII, no white space but that of Python's json.
 * Each function returns what follows the value, or NULL for anything else, valid or not: then
 * RapidJSON parses the line, and reports errors. The results of both are equal.
 */
namespace
{

/* Deeper values are left to RapidJSON. */
const unsigned PLAIN_DEPTH_MAX = 8;
/* RapidJSON refuses numbers that are too big: of more digits or with an exponent. */
const unsigned PLAIN_DIGITS_MAX = 64;

/* Leading bytes, of 16, that need no handling inside a string of ASCII. */
inline unsigned ascii_bytes(const char *s)
{
	typedef signed char signed16 __attribute__((vector_size(16)));
	signed16 v;

	memcpy(&v, s, sizeof(v));
	/* Bytes outside of ASCII are negative. */
	auto hit = (v == '"') | (v == '\\') | (v < 0x20);
#ifdef __SSE2__
	unsigned bits = __builtin_ia32_pmovmskb128((__attribute__((vector_size(16))) char)hit);

	return bits ? __builtin_ctz(bits) : 16;
#else
	uint64_t half[2];

	memcpy(half, &hit, sizeof(half));
	if (half[0])
		return __builtin_ctzll(half[0]) / 8;
	return half[1] ? 8 + __builtin_ctzll(half[1]) / 8 : 16;
#endif
}

/* s: after the opening quote. Returns the closing one. */
inline const char *plain_string(const char *s)
{
	unsigned more;

	do
		s += more = ascii_bytes(s);
	while (more == 16);
	return *s == '"' ? s : nullptr;
}

/* Python's json writes one space after a comma and a colon. */
inline const char *after_space(const char *s)
{
	return s + (*s == ' ');
}

inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

inline const char *plain_number(const char *s)
{
	const char *begin = s;

	s += *s == '-';
	if (*s == '0')
		s++;
	else if (!is_digit(*s))
		return nullptr;
	else
		while (is_digit(*s))
			s++;
	if (*s == '.') {
		if (!is_digit(*++s))
			return nullptr;
		while (is_digit(*s))
			s++;
	}
	return *s == 'e' || *s == 'E' || s - begin > PLAIN_DIGITS_MAX ? nullptr : s;
}

inline const char *plain_word(const char *s, struct member *x)
{
	x->text = "";
	x->len = 0;
	if (!memcmp(s, "true", 4)) {
		x->val = VAL_TRUE;
		return s + 4;
	}
	if (!memcmp(s, "null", 4)) {
		x->val = VAL_NULL;
		return s + 4;
	}
	if (!memcmp(s, "false", 5)) {
		x->val = VAL_FALSE;
		return s + 5;
	}
	return nullptr;
}

/* An object or array that is only checked. s: its opening bracket. */
const char *plain_skip(const char *s, unsigned depth)
{
	const char end = *s == '{' ? '}' : ']';
	struct member unused;

	if (depth > PLAIN_DEPTH_MAX)
		return nullptr;
	if (*++s == end)
		return s + 1;
	for (;;) {
		if (end == '}') {
			if (*s != '"' || !(s = plain_string(s + 1)) || *++s != ':')
				return nullptr;
			s = after_space(s + 1);
		}
		if (*s == '"') {
			s = plain_string(s + 1);
			s += s ? 1 : 0;
		} else if (*s == '{' || *s == '[') {
			s = plain_skip(s, depth + 1);
		} else if (*s == '-' || is_digit(*s)) {
			s = plain_number(s);
		} else {
			s = plain_word(s, &unused);
		}
		if (!s)
			return nullptr;
		if (*s == end)
			return s + 1;
		if (*s != ',')
			return nullptr;
		s = after_space(s + 1);
	}
}

} // namespace

inline const char *parser::plain_value(const char *s, struct member *x)
{
	const char *begin = s;

	if (*s == '"') {
		s = plain_string(++begin);
		if (!s)
			return nullptr;
		x->val = VAL_STRING;
		x->text = begin;
		x->len = s++ - begin;
	} else if (*s == '{' || *s == '[') {
		x->val = *s == '{' ? VAL_OBJECT : VAL_ARRAY;
		s = plain_skip(s, 2);
		if (!s)
			return nullptr;
		x->text = begin + 1;
		x->len = s - 1 - x->text;
	} else if (*s == '-' || is_digit(*s)) {
		s = plain_number(s);
		if (!s)
			return nullptr;
		x->val = VAL_NUMBER;
		x->text = begin;
		x->len = s - begin;
	} else {
		s = plain_word(s, x);
		if (!s)
			return nullptr;
	}
	x->to = s - line;
	return s;
}

inline const char *parser::plain_line(const char *s)
{
	const char *name, *begin;
	struct member *x;

	is_object = *s == '{';
	if (!is_object && *s != '[')
		return nullptr;
	const char end = is_object ? '}' : ']';

	if (*++s == end)
		return s + 1;
	for (begin = s;; begin = s, s = after_space(s + 1)) {
		if (is_object) {
			begin = s;
			if (*s != '"')
				return nullptr;
			name = s + 1;
			s = plain_string(name);
			if (!s || s[1] != ':')
				return nullptr;
			x = add(begin - line);
			if (!x)
				return nullptr;
			x->name = name;
			x->name_len = s - name;
			x->key = keys.find(name, x->name_len);
			s = after_space(s + 2);
		} else {
			/* As of value() and open(). */
			x = add((*s == '{' || *s == '[' ? s + 1 : begin) - line);
			if (!x)
				return nullptr;
			x->key = KEY_OTHER;
			x->name = nullptr;
			x->name_len = 0;
		}
		s = plain_value(s, x);
		if (!s)
			return nullptr;
		if (*s == end)
			return s + 1;
		if (*s != ',')
			return nullptr;
	}
}

struct parser *parser__new(void)
{
	void *mem = malloc(sizeof(struct parser));

	return mem ? new (mem) parser : nullptr;
}

void parser__free(struct parser *p)
{
	if (!p)
		return;
	free(p->m);
	free(p->copies);
	free(p->slice);
	p->~parser();
	free(p);
}

/* Validates UTF-8 only where a byte is not ASCII: the validation costs more than everything
 * else. */
static bool is_ascii(const char *s, size_t len)
{
	uint64_t bits = 0, word;

	for (; len >= 8; len -= 8, s += 8) {
		memcpy(&word, s, 8);
		bits |= word;
	}
	while (len--)
		bits |= (unsigned char)*s++;
	return !(bits & 0x8080808080808080ull);
}

int parser__line(struct parser *p, const char *text, size_t len, struct json_value *out)
{
	const unsigned flags = rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseInsituFlag;
	rapidjson::ParseResult res;

	if (p->copies_cap < len + PARSE_SLACK) {
		free(p->copies);
		p->copies_cap = 2 * len + PARSE_SLACK;
		p->copies = (char *)malloc(p->copies_cap);
	}
	/* Allocate members even if there are none: callers do arithmetic on the pointer. */
	if (!p->copies || (!p->cap && !p->grow())) {
		p->copies_cap = p->copies ? p->copies_cap : 0;
		*out = {};
		out->why = "out of memory: close other programs";
		return -EINVAL;
	}
	line_stream is = {};
	is.begin = is.src = text;
	is.room = p->copies;
	p->cnt = p->depth = p->last = 0;
	p->is_object = false;
	p->is = &is;
	p->line = text;
	p->why = nullptr;
	out->why = nullptr;
	out->at = len;
	if (p->plain_line(text) == text + len) {
		out->is_object = p->is_object;
		out->m = p->m;
		out->cnt = p->cnt;
		return 0;
	}
	p->why = nullptr;
	p->cnt = 0;
	if (is_ascii(text, len))
		res = p->reader.Parse<flags>(is, *p);
	else
		res = p->reader.Parse<flags | rapidjson::kParseValidateEncodingFlag>(is, *p);
	p->is = nullptr;
	out->is_object = p->is_object;
	out->m = p->m;
	out->cnt = p->cnt;
	if (res) {
		/* The parser stops at a NUL. */
		if (is.Tell() >= len)
			return 0;
		out->why = "a byte 0";
		out->at = is.Tell();
		return -EINVAL;
	}
	out->at = res.Offset();
	out->why = p->why ? p->why : rapidjson::GetParseError_En(res.Code());
	if (!p->why && out->at < len && !text[out->at])
		out->why = "a byte 0";
	return -EINVAL;
}

int parser__slice(struct parser *p, const struct member *m, struct json_value *out)
{
	bool object = m->val == VAL_OBJECT;
	size_t n = m->len + 2;

	if (p->slice_cap < n + 1 + PARSE_SLACK) {
		char *grown = (char *)realloc(p->slice, n + 1 + PARSE_SLACK);

		if (!grown)
			return -ENOMEM;
		p->slice = grown;
		p->slice_cap = n + 1 + PARSE_SLACK;
	}
	p->slice[0] = object ? '{' : '[';
	memcpy(p->slice + 1, m->text, m->len);
	p->slice[n - 1] = object ? '}' : ']';
	memset(p->slice + n, 0, 1 + PARSE_SLACK);
	return parser__line(p, p->slice, n, out);
}
