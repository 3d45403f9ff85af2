/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* libstdc++'s demangler for the Itanium C++ ABI; this form hands out the text in pieces and keeps
 * nothing on the heap. Only libstdc++.a exports it. 0: done. */
int __gcclibcxx_demangle_callback(const char *mangled, void (*fn)(const char *, size_t, void *),
				  void *ctx);

/* 430 bytes of a PyTorch kernel's name say 5000 characters. But 235 bytes can say 277 million,
 * since a name may refer to parts of itself, and the target chooses the names: what is longer than
 * DEMANGLED_MAX stays mangled. */
struct text {
	char buf[DEMANGLED_MAX];
	size_t len;
	jmp_buf too_long;
};

static void on_text(const char *s, size_t len, void *ctx)
{
	struct text *t = ctx;

	if (len > sizeof(t->buf) - t->len)
		longjmp(t->too_long, 1);
	memcpy(t->buf + t->len, s, len);
	t->len += len;
}

static bool demangle_to(struct text *t, const char *mangled)
{
	if (setjmp(t->too_long))
		return false;
	return !__gcclibcxx_demangle_callback(mangled, on_text, t);
}

char *demangle(const char *mangled)
{
	struct text t;

	if (strncmp(mangled, "_Z", 2))
		return NULL;
	t.len = 0;
	return demangle_to(&t, mangled) ? strndup(t.buf, t.len) : NULL;
}
