// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "parse.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SSE2__)
#define RAPIDJSON_SSE2
#elif defined(__ARM_NEON)
#define RAPIDJSON_NEON /* by versions that have it */
#endif
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

/* The reader must not work on a copy of the stream: the handler asks where it is. */
namespace rapidjson
{
template <> struct StreamTraits<StringStream> {
	enum { copyOptimization = 0 };
};
} // namespace rapidjson

namespace
{

/* Our own lines have at most five: a struct in an array in a struct in the arguments. */
const unsigned DEPTH_MAX = 64;

const struct {
	const char *s;
	size_t len;
} key_names[KEY_CNT] = {{"", 0},
#define X(name) {#name, sizeof(#name) - 1},
			PARSE_KEYS(X)
#undef X
};

/* Names by length, first, middle and last byte. */
struct key_table {
	uint8_t slot[512];

	static unsigned hash(const char *s, size_t len)
	{
		unsigned a = (unsigned char)s[0], b = (unsigned char)s[len / 2],
			 c = (unsigned char)s[len - 1];

		return (len * 131 + a * 37 + b * 11 + c * 173) % 512;
	}

	key_table() : slot()
	{
		for (unsigned k = 1; k < KEY_CNT; k++) {
			unsigned i = hash(key_names[k].s, key_names[k].len);

			while (slot[i])
				i = (i + 1) % 512;
			slot[i] = k;
		}
	}

	unsigned find(const char *s, size_t len) const
	{
		if (!len)
			return KEY_OTHER;
		for (unsigned i = hash(s, len); slot[i]; i = (i + 1) % 512)
			if (key_names[slot[i]].len == len && !memcmp(key_names[slot[i]].s, s, len))
				return slot[i];
		return KEY_OTHER;
	}
};

const key_table keys;

/* Text that is not a slice of the line: strings with escapes. Blocks stay where they are. */
struct arena {
	struct block {
		block *next;
		size_t used, size;
		char data[];
	};
	block *first;

	char *get(size_t n)
	{
		if (!first || first->size - first->used < n) {
			size_t size = n > 4000 ? n : 4000;
			block *b = (block *)malloc(sizeof(block) + size);

			if (!b)
				return nullptr;
			b->next = first;
			b->used = 0;
			b->size = size;
			first = b;
		}
		first->used += n;
		return first->data + first->used - n;
	}

	void clear(bool all)
	{
		while (first && (all || first->next)) {
			block *b = first;

			first = b->next;
			free(b);
		}
		if (first)
			first->used = 0;
	}
};

} // namespace

struct parser {
	rapidjson::CrtAllocator crt;
	rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, rapidjson::CrtAllocator>
		reader;
	arena text;
	struct member *m;
	unsigned cnt, cap;
	char *slice; /* parser__slice(): with its NUL */
	size_t slice_cap;

	/* the line at hand */
	const rapidjson::StringStream *is;
	const char *line;
	unsigned depth;
	bool is_object;
	uint32_t last;	  /* end of what was taken last at the first level */
	uint32_t open_at; /* behind the bracket of an object or array at the first level */
	const char *why;

	parser() : reader(&crt), text(), m(), cnt(), cap(), slice(), slice_cap()
	{
	}

	/* What RapidJSON asks of a handler. */
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

	bool String(const char *s, rapidjson::SizeType len, bool)
	{
		if (depth != 1)
			return depth > 1 || not_a_line();
		return value(VAL_STRING, text_at(s, len, opening_quote()), len);
	}

	bool Key(const char *s, rapidjson::SizeType len, bool)
	{
		uint32_t quote;

		if (depth != 1)
			return true;
		quote = opening_quote();
		if (!add(quote))
			return false;
		m[cnt - 1].name = text_at(s, len, quote);
		m[cnt - 1].name_len = len;
		m[cnt - 1].key = keys.find(s, len);
		last = is->Tell();
		return m[cnt - 1].name;
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
		why = "it is no object";
		return false;
	}

	bool no_memory()
	{
		why = "out of memory: close other programs";
		return false;
	}

	bool add(uint32_t from)
	{
		if (cnt == cap) {
			unsigned n = cap ? 2 * cap : 64;
			struct member *grown = (struct member *)realloc(m, n * sizeof(*m));

			if (!grown)
				return no_memory();
			m = grown;
			cap = n;
		}
		m[cnt++] = {};
		m[cnt - 1].from = from;
		return true;
	}

	/* Between two values stand only blanks, commas and colons. */
	uint32_t opening_quote() const
	{
		uint32_t i = last;

		while (line[i] != '"')
			i++;
		return i;
	}

	const char *text_at(const char *s, size_t len, uint32_t quote)
	{
		char *copy;

		if (is->Tell() == quote + len + 2)
			return line + quote + 1;
		copy = text.get(len + 1);
		if (!copy) {
			no_memory();
			return nullptr;
		}
		memcpy(copy, s, len);
		copy[len] = 0;
		return copy;
	}

	bool value(enum parse_val val, const char *s = "", size_t len = 0)
	{
		if (depth != 1)
			return depth > 1 || not_a_line();
		if (!s || (!is_object && !add(last)))
			return false;
		m[cnt - 1].val = val;
		m[cnt - 1].text = s;
		m[cnt - 1].len = len;
		m[cnt - 1].to = last = is->Tell();
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
};

struct parser *parser__new(void)
{
	void *mem = malloc(sizeof(struct parser));

	return mem ? new (mem) parser : nullptr;
}

void parser__free(struct parser *p)
{
	if (!p)
		return;
	p->text.clear(true);
	free(p->m);
	free(p->slice);
	p->~parser();
	free(p);
}

/* UTF-8 is looked at only where there is some: that costs more than the rest. */
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

int parser__line(struct parser *p, const char *text, size_t len, struct parsed *out)
{
	const unsigned flags = rapidjson::kParseNumbersAsStringsFlag;
	rapidjson::StringStream is(text);
	rapidjson::ParseResult res;

	p->text.clear(false);
	p->cnt = p->depth = p->last = 0;
	p->is_object = false;
	p->is = &is;
	p->line = text;
	p->why = nullptr;
	if (is_ascii(text, len))
		res = p->reader.Parse<flags>(is, *p);
	else
		res = p->reader.Parse<flags | rapidjson::kParseValidateEncodingFlag>(is, *p);
	p->is = nullptr;
	out->is_object = p->is_object;
	out->m = p->m;
	out->cnt = p->cnt;
	out->why = nullptr;
	out->at = len;
	if (res) {
		/* A NUL ends it for the parser. */
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

int parser__slice(struct parser *p, const struct member *m, struct parsed *out)
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
