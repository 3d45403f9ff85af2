/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A profile as an OTLP request, in protocol buffers. The field numbers are those of
 * opentelemetry.proto.profiles.v1development in opentelemetry-proto 1.45.2 of PyPI. Releases before
 * "v1" may change them.
 *
 * There is one resource per process, with one profile per sample type. The first element of each
 * table of the dictionary is empty.
 */
#include "profile.h"

#include <errno.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/page/pprof.h"
#include "util/hash_table.h"
#include "util/pb.h"
#include "version.h"

enum {
	REQUEST_RESOURCE_PROFILES = 1,
	REQUEST_DICTIONARY = 2,
	RESOURCE_PROFILES_RESOURCE = 1,
	RESOURCE_PROFILES_SCOPE_PROFILES = 2,
	RESOURCE_ATTRIBUTES = 1,
	SCOPE_PROFILES_SCOPE = 1,
	SCOPE_PROFILES_PROFILES = 2,
	SCOPE_NAME = 1,
	SCOPE_VERSION = 2,
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLES = 2,
	PROFILE_TIME = 3,
	PROFILE_DURATION = 4,
	PROFILE_PERIOD_TYPE = 5,
	PROFILE_PERIOD = 6,
	PROFILE_ID = 7,
	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT = 2,
	SAMPLE_STACK = 1,
	SAMPLE_ATTRIBUTES = 2,
	SAMPLE_VALUES = 4,
	STACK_LOCATIONS = 1,
	LOCATION_LINES = 3,
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
	FUNCTION_NAME = 1,
	FUNCTION_FILE = 3,
	KEY_VALUE_UNIT_KEY = 1,
	KEY_VALUE_UNIT_VALUE = 2,
	KEY_VALUE_KEY = 1,
	KEY_VALUE_VALUE = 2,
	VALUE_STRING = 1,
	VALUE_INT = 3,
};

/* Tables of the dictionary, with their fields. */
enum dictionary_table {
	MAPPINGS = 1,
	LOCATIONS = 2,
	FUNCTIONS = 3,
	LINKS = 4,
	STRINGS = 5,
	ATTRIBUTES = 6,
	STACKS = 7,
	TABLE_CNT
};

/* An element of a table: its message or text. */
struct element {
	struct hash_link link;
	uint32_t number;
	char bytes[];
};
HASH_TABLE_TYPE(element);
HASH_TABLE_BYTES(element, bytes);

struct group {
	struct hash_link link;
	uint32_t pid;
	struct out *attributes;
	struct out *samples[PROFILE_VALUE_CNT];
};
HASH_TABLE_TYPE(group);
HASH_TABLE_KEY(group, pid);

struct request {
	struct element_table of[TABLE_CNT];
	struct group_table groups;
	struct out *part, *list, *ids;
	bool failed;
};

/* The number of an element. */
static uint32_t number_of(struct request *r, enum dictionary_table t, const char *bytes, size_t len)
{
	struct element *e = element_table__find(&r->of[t], bytes, len);

	if (e)
		return e->number;
	e = calloc(1, sizeof(*e) + len + 1);
	if (e) {
		if (len)
			memcpy(e->bytes, bytes, len);
		e->number = hash_cnt(&r->of[t]);
		if (!element_table__add(&r->of[t], e, len))
			return e->number;
	}
	free(e);
	r->failed = true;
	return 0;
}

static uint32_t text_of(struct request *r, const char *s)
{
	return s ? number_of(r, STRINGS, s, strlen(s)) : 0;
}

/* The number of the message in r->part, which is emptied. */
static uint32_t part_of(struct request *r, enum dictionary_table t)
{
	uint32_t number = number_of(r, t, r->part->buf, r->part->len);

	r->part->len = 0;
	return number;
}

static uint32_t location_of(struct request *r, const struct dprofile_frame *f)
{
	uint32_t function;
	size_t at;

	pb_u64(r->part, FUNCTION_NAME, text_of(r, f->name));
	if (f->file)
		pb_u64(r->part, FUNCTION_FILE, text_of(r, f->file));
	function = part_of(r, FUNCTIONS);
	at = pb_open(r->part, LOCATION_LINES);
	pb_u64(r->part, LINE_FUNCTION, function);
	if (f->line)
		pb_u64(r->part, LINE_LINE, f->line);
	pb_close(r->part, at);
	return part_of(r, LOCATIONS);
}

static uint32_t stack_of(struct request *r, const struct dprofile_sample *s)
{
	r->list->len = 0;
	for (unsigned i = 0; i < s->frame_cnt; i++)
		pb_varint(r->list, location_of(r, &s->frames[i]));
	pb_bytes(r->part, STACK_LOCATIONS, r->list->buf, r->list->len);
	return part_of(r, STACKS);
}

static void put_value(struct out *o, unsigned field, const struct dprofile_label *l)
{
	size_t at = pb_open(o, field);

	if (l->text)
		pb_text(o, VALUE_STRING, l->text, strlen(l->text));
	else
		pb_u64(o, VALUE_INT, l->number);
	pb_close(o, at);
}

static void put_attribute(struct out *o, const char *key, const struct dprofile_label *l)
{
	size_t at = pb_open(o, RESOURCE_ATTRIBUTES);

	pb_text(o, KEY_VALUE_KEY, key, strlen(key));
	put_value(o, KEY_VALUE_VALUE, l);
	pb_close(o, at);
}

static void put_text(struct out *o, const char *key, const char *text)
{
	if (text)
		put_attribute(o, key, &(struct dprofile_label){.text = text});
}

/* The labels' names as attributes, and whether they belong to the resource. */
static const struct {
	const char *label, *attribute;
	bool of_process;
} names[] = {
	{"process", "process.pid", true},
	{"process_name", "process.executable.name", true},
	{"namespace", "k8s.namespace.name", true},
	{"pod", "k8s.pod.name", true},
	{"container", "container.name", true},
	{"thread", "thread.id", false},
	{"thread_name", "thread.name", false},
	{"device", "cuda.device", false},
	{"stream", "cuda.stream", false},
	{"stage", "cuda.stage", false},
	{"iteration", "cuda.iteration", false},
	{"iterations", "cuda.iterations", false},
};
#define NAME_CNT (sizeof(names) / sizeof(names[0]))

static const struct dprofile_label *label_of(const struct dprofile_sample *s, const char *key)
{
	for (unsigned i = 0; i < s->label_cnt; i++)
		if (!strcmp(s->labels[i].key, key))
			return &s->labels[i];
	return NULL;
}

static void put_resource(struct out *o, const struct dprofile_sample *s)
{
	const struct dprofile_label *service =
		label_of(s, "container") ?: label_of(s, "process_name");
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	put_text(o, "service.name", service ? service->text : "cudatrace");
	put_text(o, "host.name", host);
	for (unsigned i = 0; i < NAME_CNT; i++) {
		const struct dprofile_label *l = label_of(s, names[i].label);

		if (l && names[i].of_process)
			put_attribute(o, names[i].attribute, l);
	}
}

static void group__free(struct group *g)
{
	if (g->attributes)
		out__close(g->attributes);
	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
		if (g->samples[i])
			out__close(g->samples[i]);
	free(g);
}

static struct group *group_of(struct request *r, const struct dprofile_sample *s)
{
	const struct dprofile_label *process = label_of(s, "process");
	uint32_t pid = process ? process->number : 0;
	struct group *g = group_table__find(&r->groups, &pid);
	bool ok;

	if (g)
		return g;
	g = group_table__new(&r->groups, &pid);
	if (!g)
		return NULL;
	g->attributes = out__memory();
	ok = g->attributes;
	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
		ok &= (g->samples[i] = out__memory()) != NULL;
	if (ok) {
		put_resource(g->attributes, s);
		return g;
	}
	group_table__del(&r->groups, g);
	group__free(g);
	return NULL;
}

static void put_sample(void *ctx, const struct dprofile_sample *s)
{
	struct request *r = ctx;
	struct group *g = group_of(r, s);
	uint32_t stack = stack_of(r, s);

	if (!g) {
		r->failed = true;
		return;
	}
	r->ids->len = 0;
	for (unsigned i = 0; i < NAME_CNT; i++) {
		const struct dprofile_label *l = label_of(s, names[i].label);

		if (!l || names[i].of_process)
			continue;
		pb_u64(r->part, KEY_VALUE_UNIT_KEY, text_of(r, names[i].attribute));
		put_value(r->part, KEY_VALUE_UNIT_VALUE, l);
		pb_varint(r->ids, part_of(r, ATTRIBUTES));
	}
	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++) {
		struct out *o = g->samples[i];
		size_t at;

		if (!s->v[i])
			continue;
		at = pb_open(o, PROFILE_SAMPLES);
		pb_u64(o, SAMPLE_STACK, stack);
		if (r->ids->len)
			pb_bytes(o, SAMPLE_ATTRIBUTES, r->ids->buf, r->ids->len);
		r->list->len = 0;
		pb_varint(r->list, s->v[i]);
		pb_bytes(o, SAMPLE_VALUES, r->list->buf, r->list->len);
		pb_close(o, at);
	}
}

static void put_type(struct request *r, struct out *o, unsigned field, const char *type,
		     const char *unit)
{
	size_t at = pb_open(o, field);

	pb_u64(o, VALUE_TYPE_TYPE, text_of(r, type));
	pb_u64(o, VALUE_TYPE_UNIT, text_of(r, unit));
	pb_close(o, at);
}

static void put_profile(struct request *r, struct out *o, const struct group *g, unsigned i,
			const struct profile_span *span)
{
	const struct profile_type *t = &profile_types[i];
	uint8_t id[16];
	size_t at;

	if (!g->samples[i]->len)
		return;
	at = pb_open(o, SCOPE_PROFILES_PROFILES);
	put_type(r, o, PROFILE_SAMPLE_TYPE, t->type, t->unit);
	out_bytes(o, g->samples[i]->buf, g->samples[i]->len);
	pb_fixed64(o, PROFILE_TIME, span->wall_ns);
	pb_u64(o, PROFILE_DURATION, span->duration_ns);
	put_type(r, o, PROFILE_PERIOD_TYPE, "calls", "count");
	pb_u64(o, PROFILE_PERIOD, 1);
	evutil_secure_rng_get_bytes(id, sizeof(id));
	pb_bytes(o, PROFILE_ID, id, sizeof(id));
	pb_close(o, at);
}

static void put_group(struct request *r, struct out *o, const struct group *g,
		      const struct profile_span *span)
{
	size_t at = pb_open(o, REQUEST_RESOURCE_PROFILES), inner, scope;

	pb_bytes(o, RESOURCE_PROFILES_RESOURCE, g->attributes->buf, g->attributes->len);
	inner = pb_open(o, RESOURCE_PROFILES_SCOPE_PROFILES);
	scope = pb_open(o, SCOPE_PROFILES_SCOPE);
	pb_text(o, SCOPE_NAME, "cudatrace", strlen("cudatrace"));
	pb_text(o, SCOPE_VERSION, CUDATRACE_VERSION, strlen(CUDATRACE_VERSION));
	pb_close(o, scope);
	for (unsigned i = 0; i < PROFILE_VALUE_CNT; i++)
		put_profile(r, o, g, i, span);
	pb_close(o, inner);
	pb_close(o, at);
}

static void put_dictionary(struct request *r, struct out *o)
{
	size_t at = pb_open(o, REQUEST_DICTIONARY);

	for (unsigned t = MAPPINGS; t < TABLE_CNT; t++)
		hash_each (e, &r->of[t]) {
			if (t == STRINGS)
				pb_text(o, t, e->bytes, e->link.key_sz);
			else
				pb_bytes(o, t, e->bytes, e->link.key_sz);
		}
	pb_close(o, at);
}

int dprofile__write_otlp(struct dprofile *d, const struct profile_span *span, struct out *o)
{
	struct request r = {.part = out__memory(), .list = out__memory(), .ids = out__memory()};
	struct group *g;

	r.failed = !r.part || !r.list || !r.ids;
	for (unsigned t = MAPPINGS; t < TABLE_CNT; t++)
		number_of(&r, t, "", 0);
	if (!r.failed) {
		dprofile__each(d, put_sample, &r);
		hash_each (g, &r.groups)
			put_group(&r, o, g, span);
		put_dictionary(&r, o);
	}
	while ((g = group_table__pop(&r.groups)))
		group__free(g);
	for (unsigned t = MAPPINGS; t < TABLE_CNT; t++)
		element_table__free(&r.of[t]);
	for (unsigned i = 0; i < 3; i++) {
		struct out *x = i ? i == 1 ? r.list : r.ids : r.part;

		if (x)
			out__close(x);
	}
	return r.failed ? -ENOMEM : 0;
}
