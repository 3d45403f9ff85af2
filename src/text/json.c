/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "json.h"

#include "util/law.h"

#include <string.h>

/* Cache of `,"name":` for constant names, by address, and for argument rows, with their number
 * format. Two entries share a bucket, the newer first. */
#define KEYS_LOG   8
#define KEY_SZ_MAX (64 - sizeof(const void *) - 3)
/* Nearly all are at most this long, and are copied at once. */
#define KEY_SZ 32
struct fixed_key {
	const void *of; /* a name, or a struct api_arg */
	uint8_t len;
	uint8_t form, shift; /* for arguments: enum number_form, api_number_shift() */
	char text[KEY_SZ_MAX];
};

static _Thread_local struct fixed_key fixed_keys[1 << KEYS_LOG][2];

static inline char *spell_key(char *p, const char *name)
{
	*p++ = '"';
	while (*name)
		*p++ = *name++;
	*p++ = '"';
	*p++ = ':';
	return p;
}

/* Returns NULL if the name is too long. */
static __attribute__((noinline)) struct fixed_key *make_key(struct fixed_key k[2], const void *of,
							    const char *name)
{
	if (strlen(name) + 4 > KEY_SZ_MAX)
		return NULL;
	k[1] = k[0];
	k->of = of;
	k->text[0] = ',';
	k->len = spell_key(k->text + 1, name) - k->text;
	return k;
}

static inline struct fixed_key *keys_of(const void *of)
{
	return fixed_keys[(uintptr_t)of * 0x9e3779b97f4a7c15 >> (64 - KEYS_LOG)];
}

static inline const struct fixed_key *key_of_name(const char *name)
{
	struct fixed_key *k = keys_of(name);

	return k->of == name ? k : k[1].of == name ? k + 1 : make_key(k, name, name);
}

static const struct fixed_key *make_key_of_arg(struct fixed_key k[2], const struct api_arg *arg)
{
	k = make_key(k, arg, arg->name);
	if (!k)
		return NULL;
	k->form = api_number_form(arg->type);
	k->shift = api_number_shift(arg->type);
	return k;
}

static inline const struct fixed_key *key_of_arg(const struct api_arg *arg)
{
	struct fixed_key *k = keys_of(arg);

	return k->of == arg ? k : k[1].of == arg ? k + 1 : make_key_of_arg(k, arg);
}

/* Copies the key; skip is 1 to omit the comma. p must have KEY_SZ_MAX bytes of space. */
static inline char *put_key(char *p, const struct fixed_key *k, unsigned skip)
{
	memcpy(p, k->text + skip, KEY_SZ);
	if (k->len > KEY_SZ)
		memcpy(p + KEY_SZ, k->text + skip + KEY_SZ, KEY_SZ_MAX - 1 - KEY_SZ);
	return p + k->len - skip;
}

/* Short names are copied byte by byte: faster than two calls into libc. */
static __attribute__((noinline)) char *any_key(struct json *j, const char *name, size_t room)
{
	char *p = out_reserve(j->o, strlen(name) + room + 4);

	if (j->comma)
		*p++ = ',';
	j->comma = true;
	return spell_key(p, name);
}

/* Writes the comma and the name, and reserves `room` bytes for the value. */
static inline __attribute__((always_inline)) char *key(struct json *j, const char *name,
						       size_t room)
{
	const struct fixed_key *k;
	unsigned skip = !j->comma;
	char *p;

	if (!name) {
		p = out_reserve(j->o, room + 1);
		*p = ',';
		j->comma = true;
		return p + 1 - skip;
	}
	k = j->fixed_names ? key_of_name(name) : NULL;
	if (!k)
		return any_key(j, name, room);
	j->comma = true;
	return put_key(out_reserve(j->o, KEY_SZ_MAX + room), k, skip);
}

static inline void done(struct json *j, char *end)
{
	j->o->len = end - j->o->buf;
}

static void open_with(struct json *j, const char *name, char c)
{
	char *p = key(j, name, 1);

	*p = c;
	done(j, p + 1);
	j->comma = false;
}

static void close_with(struct json *j, char c)
{
	out_char(j->o, c);
	j->comma = true;
}

void json_open(struct json *j, const char *name)
{
	open_with(j, name, '{');
}

void json_close(struct json *j)
{
	close_with(j, '}');
}

void json_open_array(struct json *j, const char *name)
{
	open_with(j, name, '[');
}

void json_close_array(struct json *j)
{
	close_with(j, ']');
}

void json_u64(struct json *j, const char *name, uint64_t x)
{
	done(j, fmt_u64(key(j, name, FMT_MAX), x));
}

void json_i64(struct json *j, const char *name, int64_t x)
{
	done(j, fmt_i64(key(j, name, FMT_MAX), x));
}

void json_milli(struct json *j, const char *name, uint64_t x)
{
	done(j, fmt_milli(key(j, name, FMT_MAX), x));
}

void json_micro(struct json *j, const char *name, uint64_t x)
{
	done(j, fmt_micro(key(j, name, FMT_MAX), x));
}

/* Returns whether the name is that of a share, which is at most 1. Some shares may exceed 1:
 * NVIDIA's peaks are for one clock, and the overhead of all threads is compared with the time of
 * one. */
__attribute__((unused)) static bool is_share(const char *name)
{
	size_t len = strlen(name);

	return (!strcmp(name, "share") || (len > 6 && !strcmp(name + len - 6, "_share"))) &&
	       strcmp(name, "peak_share") && strcmp(name, "cost_share") &&
	       strcmp(name, "max_thread_overhead");
}

void json_f64(struct json *j, const char *name, double x)
{
	law(!name || !is_share(name) || (x >= 0 && x <= 1));
	done(j, key(j, name, 0));
	out_f64(j->o, x);
}

static inline char *put_hex(char *p, uint64_t x)
{
	*p = '"';
	p = fmt_hex(p + 1, x);
	*p = '"';
	return p + 1;
}

void json_hex(struct json *j, const char *name, uint64_t x)
{
	done(j, put_hex(key(j, name, FMT_MAX + 2), x));
}

void json_sym(struct json *j, const char *name, const char *s)
{
	size_t n = strlen(s);
	char *p = key(j, name, n + 2);

	*p++ = '"';
	memcpy(p, s, n);
	p += n;
	*p++ = '"';
	done(j, p);
}

void json_text(struct json *j, const char *name, const char *s, size_t len)
{
	done(j, fmt_json_str(key(j, name, FMT_JSON_STR_MAX(len)), s, len));
}

void json_str(struct json *j, const char *name, const char *s)
{
	if (s)
		json_text(j, name, s, strlen(s));
	else
		json_null(j, name);
}

static void put_word(struct json *j, const char *name, const char *s, size_t n)
{
	char *p = key(j, name, n);

	memcpy(p, s, n);
	done(j, p + n);
}

void json_bool(struct json *j, const char *name, bool x)
{
	if (x)
		put_word(j, name, "true", 4);
	else
		put_word(j, name, "false", 5);
}

void json_null(struct json *j, const char *name)
{
	put_word(j, name, "null", 4);
}

/* --- the visitor --- */

static struct json *json(struct visitor *v)
{
	return (struct json *)v;
}

static void v_u64(struct visitor *v, const char *name, uint64_t x)
{
	json_u64(json(v), name, x);
}

static void v_i64(struct visitor *v, const char *name, int64_t x)
{
	json_i64(json(v), name, x);
}

static void v_f64(struct visitor *v, const char *name, double x)
{
	json_f64(json(v), name, x);
}

static void v_hex(struct visitor *v, const char *name, uint64_t x)
{
	json_hex(json(v), name, x);
}

static void v_sym(struct visitor *v, const char *name, const char *s)
{
	json_sym(json(v), name, s);
}

/* A truncated string also gets a member NAME_cut: a mark in the string could not be distinguished
 * from its text. */
static void v_text(struct visitor *v, const char *name, const char *s, size_t len, bool cut)
{
	char flag[64];
	size_t n;

	json_text(json(v), name, s, len);
	if (!cut || !name)
		return;
	n = strnlen(name, sizeof(flag) - sizeof("_cut"));
	memcpy(flag, name, n);
	memcpy(flag + n, "_cut", sizeof("_cut"));
	done(json(v), (char *)memcpy(any_key(json(v), flag, 4), "true", 4) + 4);
}

static void v_bytes(struct visitor *v, const char *name, const uint8_t *s, size_t len)
{
	char *p = key(json(v), name, 2 * len + 2);

	*p++ = '"';
	for (size_t i = 0; i < len; i++, p += 2)
		memcpy(p, fmt_hex2 + 2 * s[i], 2);
	*p++ = '"';
	done(json(v), p);
}

static void v_none(struct visitor *v, const char *name)
{
	json_null(json(v), name);
}

static void v_open(struct visitor *v, const char *name)
{
	json_open(json(v), name);
}

static void v_close(struct visitor *v)
{
	json_close(json(v));
}

static void v_open_array(struct visitor *v, const char *name)
{
	json_open_array(json(v), name);
}

static void v_close_array(struct visitor *v)
{
	json_close_array(json(v));
}

static void v_boolean(struct visitor *v, const char *name, bool x)
{
	json_bool(json(v), name, x);
}

/* Including its name. */
#define NUMBER_MAX (KEY_SZ_MAX + FMT_MAX + 2)

static inline char *put_number(char *p, const struct fixed_key *k, uint64_t x)
{
	if (k->form == NUMBER_U64)
		return fmt_u64(p, x << k->shift >> k->shift);
	if (k->form == NUMBER_I64)
		return fmt_i64(p, (int64_t)(x << k->shift) >> k->shift);
	if (k->form == NUMBER_PTR && !x)
		return (char *)memcpy(p, "null", 4) + 4;
	return put_hex(p, x << k->shift >> k->shift);
}

/* Writes through a pointer, for speed: arguments are most of a line. */
static void put_numbers(struct json *j, const struct api_arg *args, const uint64_t *words,
			unsigned cnt)
{
	char *p = out_reserve(j->o, cnt * NUMBER_MAX);
	unsigned skip = !j->comma;

	for (unsigned i = 0; i < cnt; i++) {
		const struct fixed_key *k = key_of_arg(&args[i]);

		if (k && k->form != NUMBER_NAMED) {
			p = put_number(put_key(p, k, skip), k, words[i]);
		} else {
			done(j, p);
			j->comma = !skip;
			api_visit_number(args[i].type, args[i].name, words[i], &j->v);
			p = out_reserve(j->o, (cnt - i) * NUMBER_MAX);
		}
		skip = 0;
	}
	j->comma = !skip;
	done(j, p);
}

static void v_numbers(struct visitor *v, const struct api_arg *args, const uint64_t *words,
		      unsigned cnt)
{
	if (json(v)->fixed_names) {
		put_numbers(json(v), args, words, cnt);
		return;
	}
	for (unsigned i = 0; i < cnt; i++)
		api_visit_number(args[i].type, args[i].name, words[i], v);
}

static void v_raw(struct visitor *v, const char *text, size_t len)
{
	char *p;

	if (!len)
		return;
	p = key(json(v), NULL, len);
	memcpy(p, text, len);
	done(json(v), p + len);
}

const struct visitor_ops json_visitor_ops = {
	.u64 = v_u64,
	.i64 = v_i64,
	.f64 = v_f64,
	.hex = v_hex,
	.sym = v_sym,
	.text = v_text,
	.bytes = v_bytes,
	.none = v_none,
	.open = v_open,
	.close = v_close,
	.open_array = v_open_array,
	.close_array = v_close_array,
	.raw = v_raw,
	.boolean = v_boolean,
	.numbers = v_numbers,
};
