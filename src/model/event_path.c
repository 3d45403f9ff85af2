/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "event_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text to search: from at to end. */
struct span {
	const char *at, *end;
};

static void skip_blanks(struct span *s)
{
	while (s->at < s->end && *s->at && strchr(" \t\r\n", *s->at))
		s->at++;
}

/* Moves after the next "name": key. Only structs of cudatrace's tables are searched. None holds
 * text of the target, so no string can look like a key. */
static bool to_key(struct span *s, const char *name, size_t len)
{
	char key[64];
	int n = snprintf(key, sizeof(key), "\"%.*s\"", (int)len, name);
	const char *p;

	if (n < 0 || n >= (int)sizeof(key))
		return false;
	p = s->at < s->end ? memmem(s->at, s->end - s->at, key, n) : NULL;
	if (!p)
		return false;
	s->at = p + n;
	skip_blanks(s);
	if (s->at == s->end || *s->at != ':')
		return false;
	s->at++;
	skip_blanks(s);
	return true;
}

static bool enum_value(const struct api_type *type, const char *name, size_t len, uint64_t *val)
{
	for (unsigned i = 0; type && type->en && i < type->en->value_cnt; i++) {
		const struct api_enum_value *v = &type->en->values[i];

		if (strlen(v->name) == len && !memcmp(v->name, name, len)) {
			*val = v->value;
			return true;
		}
	}
	return false;
}

/* Reads a number, a "0x..." or the name of a value, and moves after it. */
static bool text_number(struct span *s, const struct api_type *type, uint64_t *val)
{
	bool quoted = s->at < s->end && *s->at == '"';
	const char *end;
	char buf[32];
	char *stop;
	size_t len;

	s->at += quoted;
	for (end = s->at; end < s->end && !strchr("\",]} ", *end);)
		end++;
	len = end - s->at;
	if (!len)
		return false;
	if (quoted && *s->at != '0') {
		if (!enum_value(type, s->at, len, val))
			return false;
	} else {
		if (len >= sizeof(buf))
			return false;
		memcpy(buf, s->at, len);
		buf[len] = '\0';
		*val = *buf == '-' ? (uint64_t)strtoll(buf, &stop, 10)
				   : strtoull(buf, &stop, quoted ? 16 : 10);
		if (*stop)
			return false;
	}
	s->at = end + (quoted && end < s->end);
	return true;
}

static bool raw_number(const uint8_t *p, size_t len, const struct api_type *type, uint64_t *val)
{
	if (type->st || type->size > sizeof(*val) || type->size > len)
		return false;
	*val = 0;
	memcpy(val, p, type->size);
	return true;
}

static const struct pointee *pointee_of(const struct trace_event *ev, int arg)
{
	int cap = arg < 0 ? -1 : api_arg_cap(ev->fn, arg);

	return cap < 0 || (unsigned)cap >= ev->cap_cnt ? NULL : &ev->caps[cap];
}

static int arg_of_path(const struct trace_event *ev, const char *path, size_t len)
{
	char name[64];

	if (!ev->fn || len >= sizeof(name))
		return -1;
	memcpy(name, path, len);
	name[len] = '\0';
	return api_arg_by_name(ev->fn, name);
}

/* p: the struct, of which len bytes are known; NULL: saved text, which contains only the fields
 * that were read. */
static const struct api_field *field_of(const struct api_struct *st, const char *name,
					size_t name_len, const uint8_t *p, size_t len)
{
	for (unsigned i = 0; st && i < st->field_cnt; i++)
		if (!strncmp(st->fields[i].name, name, name_len) && !st->fields[i].name[name_len] &&
		    (!p || api_field_is_there(&st->fields[i], p, len, -1)))
			return &st->fields[i];
	return NULL;
}

bool event_path_u64(const struct trace_event *ev, const char *path, uint64_t *val)
{
	size_t len = strcspn(path, "."), off = 0;
	int arg = arg_of_path(ev, path, len);
	const struct api_type *type;
	const struct pointee *c = NULL;
	struct span s = {0};

	if (arg < 0)
		return false;
	type = ev->fn->args[arg].type;
	if (!ev->text && ev->fn->args[arg].dir != DIR_IN) {
		c = pointee_of(ev, arg);
		if (!c || c->len < 0)
			return false;
	}
	if (ev->text) {
		s = (struct span){ev->text->args, ev->text->args + ev->text->args_len};
		if (!to_key(&s, path, len))
			return false;
	}
	for (path += len; *path; path += len) {
		const struct api_field *f;

		path++;
		len = strcspn(path, ".");
		f = field_of(type->st, path, len, c && c->len > (int)off ? c->data + off : NULL,
			     c ? c->len - off : 0);
		if (!f || (ev->text && !to_key(&s, path, len)))
			return false;
		off += f->off;
		type = f->type;
	}
	if (ev->text)
		return text_number(&s, type, val);
	if (ev->fn->args[arg].dir == DIR_IN) {
		int word = api_arg_word(ev->fn, arg);

		return word >= 0 && (unsigned)word < ev->word_cnt &&
		       raw_number((const uint8_t *)&ev->words[word], sizeof(*ev->words), type, val);
	}
	return c && c->len > (int)off && raw_number(c->data + off, c->len - off, type, val);
}

unsigned event_array_u64(const struct trace_event *ev, const char *arg, uint64_t *vals,
			 unsigned max)
{
	int i = arg_of_path(ev, arg, strlen(arg));
	const struct api_type *type;
	const struct pointee *c;
	unsigned n = 0;

	if (i < 0)
		return 0;
	type = ev->fn->args[i].type;
	if (ev->text) {
		struct span s = {ev->text->args, ev->text->args + ev->text->args_len};

		if (!to_key(&s, arg, strlen(arg)) || s.at == s.end || *s.at != '[')
			return 0;
		for (s.at++; n < max && text_number(&s, type, &vals[n]); n++) {
			skip_blanks(&s);
			if (s.at == s.end || *s.at != ',')
				return n + 1;
			s.at++;
			skip_blanks(&s);
		}
		return n;
	}
	c = pointee_of(ev, i);
	if (!c || c->len < 0 || !type->size)
		return 0;
	while (n < max &&
	       raw_number(c->data + n * type->size, c->len - n * type->size, type, &vals[n])) {
		if ((n + 2) * type->size > (unsigned)c->len)
			return n + 1;
		n++;
	}
	return n;
}
