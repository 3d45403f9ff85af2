/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "kernel.h"

#include "util/demangle.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Enough to know a driver by. */
#define CHECKS_WANTED 16
/* A name of this length may have been cut: records hold 1024 bytes of a string (decode/spec.c). */
#define CUT_LEN 1023
static struct kernel_name *names;

const struct kernel_name *kernel_name__intern(struct handles *h, const char *mangled, size_t len)
{
	struct kernel_name *n;

	len = strnlen(mangled, len);
	HASH_FIND(hh, names, mangled, len, n);
	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n || !(n->mangled = strndup(mangled, len))) {
		free(n);
		return NULL;
	}
	n->demangled = demangle(n->mangled, h ? &h->demangling : NULL);
	if (!n->demangled)
		n->demangled = n->mangled;
	HASH_ADD_KEYPTR(hh, names, n->mangled, len, n);
	return n;
}

void kernel_names__free(void)
{
	struct kernel_name *n, *tmp;

	HASH_ITER (hh, names, n, tmp) {
		HASH_DEL(names, n);
		if (n->demangled != n->mangled)
			free(n->demangled);
		free(n->mangled);
		free(n);
	}
}

/* Names of kernels are identifiers; mangled ones may have dots and dollars ("foo.isra.0"). */
static bool is_name(const char *s, int len)
{
	if (len < 1 || isdigit((unsigned char)s[0]))
		return false;
	for (int i = 0; i < len; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_.$@", s[i]))
			return false;
	return true;
}

static struct handle *add(struct handles *h, uint64_t value)
{
	struct handle *e;

	HASH_FIND(hh, h->by_value, &value, sizeof(value), e);
	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->value = value;
	HASH_ADD(hh, h->by_value, value, sizeof(e->value), e);
	return e;
}

/* Compares what the handle says with what was seen. It may know the end of a name that was cut. */
static void check(struct handles *h, struct handle *e)
{
	size_t len = strlen(e->name->mangled);
	bool cut = len >= CUT_LEN;

	if (!e->is_read || (!cut && h->checked_ok + h->checked_bad >= CHECKS_WANTED))
		return;
	if (e->read == e->name ||
	    (cut && e->read && !strncmp(e->read->mangled, e->name->mangled, len))) {
		h->checked_ok++;
		e->name = e->read;
	} else {
		h->checked_bad++;
	}
}

void handles__told(struct handles *h, uint64_t value, const char *name, size_t size)
{
	/* What fills all its room may have been cut. */
	bool whole = size && size < CT_NAME_SZ_MAX && is_name(name, size - 1);
	struct handle *e = value ? add(h, value) : NULL;

	if (!e)
		return;
	e->read = whole ? kernel_name__intern(h, name, size - 1) : NULL;
	e->is_read = true;
	if (e->name && !e->guessed)
		return;
	e->name = e->read;
	e->guessed = true;
}

void handles__set(struct handles *h, uint64_t value, const struct kernel_name *name)
{
	struct handle *e = name && value ? add(h, value) : NULL;

	if (!e)
		return;
	e->name = name;
	e->guessed = false;
	check(h, e);
}

void handles__derive(struct handles *h, uint64_t value, const struct handle *from)
{
	struct handle *e = value ? add(h, value) : NULL;

	if (!e)
		return;
	e->name = from->name;
	e->guessed = from->guessed;
}

const struct handle *handles__get(struct handles *h, uint64_t value)
{
	struct handle *e;

	HASH_FIND(hh, h->by_value, &value, sizeof(value), e);
	/* What was guessed before the first contradiction is no longer believed. */
	return e && e->name && !(e->guessed && h->checked_bad) ? e : NULL;
}

void handles__unloaded(struct handles *h)
{
	struct handle *e, *tmp;

	HASH_ITER (hh, h->by_value, e, tmp) {
		if (!e->guessed) {
			e->is_read = false;
			continue;
		}
		HASH_DEL(h->by_value, e);
		free(e);
	}
}

void handles__clear(struct handles *h)
{
	struct handle *e, *tmp;

	HASH_ITER (hh, h->by_value, e, tmp) {
		HASH_DEL(h->by_value, e);
		free(e);
	}
	h->checked_ok = h->checked_bad = 0;
}
