/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "kernel.h"

#include "util/demangle.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Number of checked names that confirms a driver's layout. */
#define CHECKS_WANTED 16
/* A name of this length may be truncated: records hold 1024 bytes of a string (decode/spec.c). */
#define CUT_LEN	    1023
#define NAME_MAX_SZ 4096

/* A few kernels are launched again and again. This is a cache of the last handles, of any process.
 * e is NULL for unknown handles. */
#define RECENT_LOG 6
struct recent_handle {
	const struct handles *of;
	uint64_t value;
	struct handle *e;
};

struct kernel_names {
	struct kernel_name_table by_text;
	struct recent_handle recent[1 << RECENT_LOG];
	struct kernel_name *loose;
	struct quotas *quotas;
	uint64_t last_id;
	/* A name that exceeded the limit. */
	struct kernel_name uncached;
	char uncached_text[NAME_MAX_SZ];
};

struct kernel_names *kernel_names__new(struct quotas *q)
{
	struct kernel_names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->quotas = q;
	n->uncached.mangled = n->uncached.demangled = n->uncached_text;
	return n;
}

/* Memory of a name of len, without its demangled form. */
static size_t size_of_name(size_t len)
{
	return quota_malloc_sz(sizeof(struct kernel_name)) + HASH_TABLE_ROW_SZ +
	       quota_malloc_sz(len + 1);
}

static void free_name(struct kernel_name *name)
{
	if (name->demangled != name->mangled)
		free(name->demangled);
	free(name->mangled);
	free(name);
}

void kernel_names__free(struct kernel_names *n)
{
	struct kernel_name *name;

	if (!n)
		return;
	while ((name = kernel_name_table__pop(&n->by_text)))
		free_name(name);
	free(n);
}

static void unlink_recent(struct kernel_names *n, struct kernel_name *name)
{
	if (name->loose)
		return;
	name->loose = true;
	name->next_loose = n->loose;
	n->loose = name;
}

void kernel_names__collect(struct kernel_names *n)
{
	struct kernel_name *name, *next;

	for (name = n->loose; name; name = next) {
		next = name->next_loose;
		name->loose = false;
		if (name->refs)
			continue;
		kernel_name_table__del(&n->by_text, name);
		quota__give(quotas__get(n->quotas, QUOTA_NAMES), NULL, name->size);
		free_name(name);
	}
	n->loose = NULL;
}

static const struct kernel_name *uncached(struct kernel_names *n, const char *mangled, size_t len)
{
	if (len >= sizeof(n->uncached_text))
		len = sizeof(n->uncached_text) - 1;
	memcpy(n->uncached_text, mangled, len);
	n->uncached_text[len] = '\0';
	return &n->uncached;
}

/* Returns NULL if out of memory. */
static struct kernel_name *make_name(const char *mangled, size_t len)
{
	struct kernel_name *name = calloc(1, sizeof(*name));

	if (!name || !(name->mangled = strndup(mangled, len))) {
		free(name);
		return NULL;
	}
	name->demangled = name->mangled;
	name->size = size_of_name(len);
	return name;
}

/* If the demangled name exceeds the limit, the name stays mangled. */
static void add_demangled(struct handles *h, struct kernel_name *name, struct quota_share *s)
{
	char *demangled = demangle(name->mangled, &h->demangling);
	size_t size = demangled ? quota_malloc_sz(strlen(demangled) + 1) : 0;

	if (!demangled)
		return;
	if (!quota__take(quotas__get(h->names->quotas, QUOTA_NAMES), s, size)) {
		free(demangled);
		return;
	}
	name->demangled = demangled;
	name->size += size;
}

const struct kernel_name *kernel_name__intern(struct handles *h, const char *mangled, size_t len)
{
	struct quota_share s = h->names_share; /* charged again to the handle that takes the name */
	struct kernel_names *n = h->names;
	struct kernel_name *name;
	size_t size;

	len = strnlen(mangled, len);
	name = kernel_name_table__find(&n->by_text, mangled, len);
	if (name)
		return name;
	/* Check the limit first: demangling is the most expensive step. */
	size = size_of_name(len);
	if (!quota__take(quotas__get(n->quotas, QUOTA_NAMES), &s, size))
		return uncached(n, mangled, len);
	name = make_name(mangled, len);
	if (name && kernel_name_table__add(&n->by_text, name, len)) {
		free_name(name);
		name = NULL;
	}
	if (!name) {
		quota__give(quotas__get(n->quotas, QUOTA_NAMES), NULL, size);
		return NULL;
	}
	add_demangled(h, name, &s);
	name->id = n->last_id += 2;
	unlink_recent(n, name);
	return name;
}

/* Kernel names are identifiers; mangled ones may contain dots and dollars ("foo.isra.0"). */
static bool is_name(const char *s, int len)
{
	if (len < 1 || isdigit((unsigned char)s[0]))
		return false;
	for (int i = 0; i < len; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_.$@", s[i]))
			return false;
	return true;
}

static struct recent_handle *recent_of(struct handles *h, uint64_t value)
{
	return &h->names->recent[value * 0x9e3779b97f4a7c15 >> (64 - RECENT_LOG)];
}

static struct handle *add(struct handles *h, uint64_t value)
{
	struct handle *e = handle_table__find(&h->by_value, &value);

	if (e)
		return e;
	if (!quota__take(quotas__get(h->names->quotas, QUOTA_HANDLES), &h->share, 1))
		return NULL;
	e = handle_table__new(&h->by_value, &value);
	if (!e) {
		quota__give(quotas__get(h->names->quotas, QUOTA_HANDLES), &h->share, 1);
		return NULL;
	}
	*recent_of(h, value) = (struct recent_handle){h, value, e};
	return e;
}

static void set_name(struct handles *h, const struct kernel_name **place,
		     const struct kernel_name *name)
{
	struct kernel_name *now = (struct kernel_name *)name, *was = (struct kernel_name *)*place;

	if (now && !now->size)
		now = NULL;
	if (now) {
		now->refs++;
		h->names_share.used += now->size;
	}
	if (was) {
		h->names_share.used -= was->size;
		if (!--was->refs)
			unlink_recent(h->names, was);
	}
	*place = now;
}

static void drop(struct handles *h, struct handle *e)
{
	struct recent_handle *recent = recent_of(h, e->value);

	if (recent->e == e)
		*recent = (struct recent_handle){0};
	set_name(h, &e->name, NULL);
	set_name(h, &e->read, NULL);
	handle_table__del(&h->by_value, e);
	free(e);
	quota__give(quotas__get(h->names->quotas, QUOTA_HANDLES), &h->share, 1);
}

/* Compares the name read through the handle with the recorded one. The former may complete a
 * truncated name. */
static void check(struct handles *h, struct handle *e)
{
	const struct kernel_name *read = e->read;
	size_t len = strlen(e->name->mangled);
	bool cut = len >= CUT_LEN;

	if (!cut && h->checked_ok + h->checked_bad >= CHECKS_WANTED)
		return;
	if (read == e->name || (cut && read && !strncmp(read->mangled, e->name->mangled, len))) {
		h->checked_ok++;
		set_name(h, &e->name, read);
	} else {
		h->checked_bad++;
	}
}

/* Drops the name read through the handle. */
static void forget_read(struct handles *h, struct handle *e)
{
	set_name(h, &e->read, NULL);
	e->is_read = e->read_is_name = false;
}

void handles__set_name(struct handles *h, uint64_t value, const char *name, size_t size)
{
	/* A name that fills the record may be truncated. */
	bool whole = size && size < CT_NAME_SZ_MAX && is_name(name, size - 1);
	const struct kernel_name *read = NULL;
	struct handle *e = value ? add(h, value) : NULL;

	if (!e)
		return;
	forget_read(h, e);
	if (whole)
		read = kernel_name__intern(h, name, size - 1);
	/* The name exceeded the limit, so nothing can be concluded. */
	if (read && !read->size)
		return;
	if (!e->name || e->guessed) {
		set_name(h, &e->name, read);
		e->guessed = true;
	}
	e->is_read = true;
	e->read_is_name = read && read == e->name;
	if (!e->read_is_name)
		set_name(h, &e->read, read);
}

void handles__set(struct handles *h, uint64_t value, const struct kernel_name *name)
{
	struct handle *e = name && value ? add(h, value) : NULL;

	if (!e)
		return;
	/* The old name belongs to another kernel. */
	if (!name->size) {
		drop(h, e);
		return;
	}
	if (e->read_is_name)
		set_name(h, &e->read, e->name);
	set_name(h, &e->name, name);
	e->read_is_name = false;
	e->guessed = false;
	if (e->is_read)
		check(h, e);
	forget_read(h, e);
}

void handles__derive(struct handles *h, uint64_t value, const struct handle *from)
{
	struct handle *e = value ? add(h, value) : NULL;

	if (!e)
		return;
	forget_read(h, e);
	set_name(h, &e->name, from->name);
	e->guessed = from->guessed;
}

const struct handle *handles__get(struct handles *h, uint64_t value)
{
	struct recent_handle *recent = recent_of(h, value);
	struct handle *e = recent->e;

	if (recent->of != h || recent->value != value) {
		e = handle_table__find(&h->by_value, &value);
		*recent = (struct recent_handle){h, value, e};
	}
	/* After the first contradiction, all guessed names are rejected. */
	return e && e->name && !(e->guessed && h->checked_bad) ? e : NULL;
}

void handles__unloaded(struct handles *h)
{
	hash_each (e, &h->by_value) {
		if (e->guessed)
			drop(h, e);
		else
			forget_read(h, e);
	}
	kernel_names__collect(h->names);
}

void handles__clear(struct handles *h)
{
	hash_each (e, &h->by_value)
		drop(h, e);
	kernel_names__collect(h->names);
	h->checked_ok = h->checked_bad = 0;
}
