/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ncu.h"

#include "text/kernel_name.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_SZ 1024

struct line {
	char *buf;
	size_t len;
	bool full;
};

static void add_bytes(struct line *l, const char *s, size_t n)
{
	l->full |= l->len + n >= NCU_SZ;
	if (l->full)
		return;
	memcpy(l->buf + l->len, s, n);
	l->len += n;
	l->buf[l->len] = 0;
}

static void add_text(struct line *l, const char *s)
{
	add_bytes(l, s, strlen(s));
}

static bool is_identifier(const char *s, size_t len)
{
	static const char chars[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.";

	return len && len < NAME_MAX_SZ && strspn(s, chars) >= len;
}

/* Adds text as one shell word, quoted if necessary. */
static void add_word(struct line *l, const char *s)
{
	static const char safe[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.,:=@%+-";

	add_text(l, " ");
	if (*s && !s[strspn(s, safe)]) {
		add_text(l, s);
		return;
	}
	add_text(l, "'");
	for (; *s; s++) {
		if (*s == '\'')
			add_text(l, "'\\''");
		else
			add_bytes(l, s, 1);
	}
	add_text(l, "'");
}

/* ncu's function name of a kernel: without namespaces and text in brackets. */
static const char *base_name(const char *name, size_t *len)
{
	const char *s = kernel_short_name(name, len), *at;

	while ((at = memmem(s, *len, "::", 2))) {
		*len -= at + 2 - s;
		s = at + 2;
	}
	return s;
}

bool ncu_command(const struct trace_info *info, const char *name, const char *mangled,
		 uint64_t launches, char buf[NCU_SZ])
{
	struct line l = {.buf = buf};
	const char *base;
	char number[64];
	size_t len;

	if (!name)
		return false;
	base = base_name(name, &len);
	add_text(&l, "ncu --target-processes all");
	/* All instances of a template have one function name. */
	if (mangled && !strncmp(mangled, "_Z", 2) && is_identifier(mangled, strlen(mangled))) {
		add_text(&l, " --kernel-name-base mangled --kernel-name ");
		add_text(&l, mangled);
	} else if (is_identifier(base, len)) {
		add_text(&l, " --kernel-name ");
		add_bytes(&l, base, len);
	} else {
		return false;
	}
	snprintf(number, sizeof(number), " --launch-skip %llu --launch-count 1",
		 (unsigned long long)launches / 2);
	add_text(&l, number);
	if (!info->argv)
		add_text(&l, " COMMAND");
	for (unsigned i = 0; info->argv && i < info->argc; i++)
		add_word(&l, info->argv[i]);
	return !l.full;
}
