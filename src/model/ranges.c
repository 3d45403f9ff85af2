/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ranges.h"

#include "event_table.h"
#include "annotate_priv.h"
#include "proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum of open ranges: pushed ones per thread, started ones per process. */
#define DEPTH_MAX   256
#define STARTED_MAX 1024

struct range_text {
	struct hash_link link;
	size_t len, size; /* length of the text; memory that it uses */
	unsigned refs;
	char s[];
};
HASH_TABLE_BYTES(range_text, s);

enum name_kind { NAME_DOMAIN, NAME_STRING, NAME_CATEGORY };

struct name_key {
	uint32_t kind, category;
	uint64_t handle; /* of the domain or string: the known 32 bits of the return value */
};

struct range_name {
	struct hash_link link;
	struct name_key key;
	struct range_text *text;
};
HASH_TABLE_KEY(range_name, key);

/* nvtxPayloadType_t */
enum payload {
	PAYLOAD_NONE,
	PAYLOAD_U64,
	PAYLOAD_I64,
	PAYLOAD_F64,
	PAYLOAD_U32,
	PAYLOAD_I32,
	PAYLOAD_F32,
	PAYLOAD_NCCL,
};
#define PAYLOAD_TYPE_EXTENDED 0xdfbd0009u

/* nvtxEventAttributes_t; its pointees have the order of spec.c. */
struct attributes {
	uint16_t version, size;
	uint32_t category, color_type, color, payload_type, entry_cnt;
	uint64_t payload;
	uint32_t message_type, padding;
	uint64_t message;
};
_Static_assert(sizeof(struct attributes) == 48, "as NVTX has it");
enum { CAP_ATTRIBUTES, CAP_MESSAGE, CAP_ENTRY, CAP_PAYLOAD };
enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };

/* --- texts --- */

static struct quota *quota_of(struct quotas *q)
{
	return quotas__get(q, QUOTA_NVTX);
}

static struct range_text *text_get(struct ranges *r, struct proc_ranges *p, const char *s,
				   size_t len)
{
	struct range_text *text;
	size_t size;

	len = strnlen(s, len);
	text = range_text_table__find(&p->texts, s, len);
	if (text) {
		text->refs++;
		return text;
	}
	size = quota_malloc_sz(sizeof(*text) + len + 1) + HASH_TABLE_ROW_SZ;
	if (!quota__take(quota_of(r->quotas), &p->share, size))
		return NULL;
	text = malloc(sizeof(*text) + len + 1);
	if (text) {
		*text = (struct range_text){.len = len, .size = size, .refs = 1};
		memcpy(text->s, s, len);
		text->s[len] = 0;
		if (!range_text_table__add(&p->texts, text, len))
			return text;
	}
	free(text);
	quota__give(quota_of(r->quotas), &p->share, size);
	return NULL;
}

static struct range_text *text_again(struct range_text *text)
{
	if (text)
		text->refs++;
	return text;
}

static void text_put(struct quotas *q, struct proc_ranges *p, struct range_text *text)
{
	if (!text || --text->refs)
		return;
	range_text_table__del(&p->texts, text);
	quota__give(quota_of(q), &p->share, text->size);
	free(text);
}

/* Returns NULL if nothing was read. */
static struct range_text *text_of_cap(struct ranges *r, struct proc *p,
				      const struct trace_event *ev, int cap)
{
	const struct pointee *c;

	if (cap < 0 || (unsigned)cap >= ev->cap_cnt)
		return NULL;
	c = &ev->caps[cap];
	return c->len > 0 ? text_get(r, p->ranges, (const char *)c->data, c->len) : NULL;
}

/* --- names of handles and categories --- */

#define NAME_ROW_SZ (quota_malloc_sz(sizeof(struct range_name)) + HASH_TABLE_ROW_SZ)

static struct range_name *name_find(struct proc_ranges *p, const struct name_key *key)
{
	return range_name_table__find(&p->names, key);
}

static struct range_text *name_get(struct proc *p, enum name_kind kind, uint64_t handle,
				   uint32_t category)
{
	struct name_key key = {kind, category, (uint32_t)handle};
	struct range_name *n = name_find(p->ranges, &key);

	return n ? text_again(n->text) : NULL;
}

static void name_drop(struct quotas *q, struct proc_ranges *p, struct range_name *n)
{
	range_name_table__del(&p->names, n);
	text_put(q, p, n->text);
	quota__give(quota_of(q), &p->share, NAME_ROW_SZ);
	free(n);
}

/* Takes ownership of the text. */
static void name_set(struct ranges *r, struct proc_ranges *p, struct name_key key,
		     struct range_text *text)
{
	struct range_name *n = name_find(p, &key);

	if (n) {
		text_put(r->quotas, p, n->text);
		n->text = text;
		return;
	}
	if (!text)
		return;
	if (quota__take(quota_of(r->quotas), &p->share, NAME_ROW_SZ)) {
		n = range_name_table__new(&p->names, &key);
		if (!n)
			quota__give(quota_of(r->quotas), &p->share, NAME_ROW_SZ);
	}
	if (n)
		n->text = text;
	else
		text_put(r->quotas, p, text);
}

/* --- reading calls --- */

static uint64_t arg_of(const struct annotations *m, const struct trace_event *ev, const char *name)
{
	uint64_t val;

	return event_arg_by_name(m, ev, name, &val) ? val : 0;
}

/* IDs of the schemas that NCCL 2.28 registers; payloads of collectives begin with hash and
 * bytes. */
#define NCCL_SCHEMA 0x1000000u
static bool is_nccl(const struct range *r)
{
	return r->domain_name && !strcmp(r->domain_name->s, "NCCL") && r->schema - NCCL_SCHEMA < 64;
}

/* In payloads of collectives, and of send and receive, the second word is a number of bytes. */
static bool nccl_has_bytes(uint32_t schema)
{
	uint32_t i = schema - NCCL_SCHEMA;

	return (i >= 4 && i <= 10) || i == 16;
}

static void take_payload(struct range *to, const struct attributes *a, const struct pointee *caps,
			 unsigned cnt)
{
	uint64_t entry[3];

	to->payload[0] = a->payload;
	if (a->payload_type >= PAYLOAD_U64 && a->payload_type <= PAYLOAD_F32)
		to->payload_kind = a->payload_type;
	if (a->payload_type != PAYLOAD_TYPE_EXTENDED || !a->entry_cnt || cnt <= CAP_ENTRY ||
	    caps[CAP_ENTRY].len < (int)sizeof(entry))
		return;
	memcpy(entry, caps[CAP_ENTRY].data, sizeof(entry));
	to->schema = entry[0];
	if (!is_nccl(to) || cnt <= CAP_PAYLOAD || caps[CAP_PAYLOAD].len < 16 || entry[1] < 16)
		return;
	memcpy(to->payload, caps[CAP_PAYLOAD].data, 16);
	to->payload_kind = PAYLOAD_NCCL;
}

/* Fills *to with the text and the attributes of the event that begins. */
static void take_event(struct ranges *r, const struct annotations *m, const struct trace_event *ev,
		       struct proc *p, struct range *to)
{
	int arg = api_arg_by_name(m->fn, "eventAttrib");
	int cap = arg >= 0 ? m->cap[arg] : -1;
	const struct pointee *caps = &ev->caps[cap < 0 ? 0 : cap];
	struct attributes a;

	to->domain = (uint32_t)arg_of(m, ev, "domain");
	to->domain_name = to->domain ? name_get(p, NAME_DOMAIN, to->domain, 0) : NULL;
	if (arg < 0) {
		arg = api_arg_by_name(m->fn, "message");
		if (arg >= 0 && m->fn->args[arg].dir == DIR_IN_STR)
			to->text = text_of_cap(r, p, ev, m->cap[arg]);
	} else if (cap >= 0 && (unsigned)cap < ev->cap_cnt && caps->len >= (int)sizeof(a)) {
		memcpy(&a, caps->data, sizeof(a));
		to->has_color = a.color_type;
		to->color = a.color;
		to->category = a.category;
		if (a.category)
			to->category_name = name_get(p, NAME_CATEGORY, to->domain, a.category);
		if (a.message_type == MESSAGE_ASCII)
			to->text = text_of_cap(r, p, ev, cap + CAP_MESSAGE);
		else if (a.message_type == MESSAGE_REGISTERED)
			to->text = name_get(p, NAME_STRING, a.message, 0);
		take_payload(to, &a, caps, ev->cap_cnt - cap);
	}
	r->cnt.unnamed += !to->text && !r->no_texts;
}

static void put_texts(struct quotas *q, struct proc_ranges *p, struct range *r)
{
	text_put(q, p, r->text);
	text_put(q, p, r->domain_name);
	text_put(q, p, r->category_name);
}

/* --- events --- */

static const char *payload_text(const struct range *r, char buf[32])
{
	double f64;
	float f32;

	memcpy(&f64, &r->payload[0], sizeof(f64));
	memcpy(&f32, &r->payload[0], sizeof(f32));
	switch (r->payload_kind) {
	case PAYLOAD_U64:
		snprintf(buf, 32, "%" PRIu64, r->payload[0]);
		break;
	case PAYLOAD_I64:
		snprintf(buf, 32, "%" PRId64, (int64_t)r->payload[0]);
		break;
	case PAYLOAD_F64:
		snprintf(buf, 32, "%.17g", f64);
		break;
	case PAYLOAD_U32:
		snprintf(buf, 32, "%" PRIu32, (uint32_t)r->payload[0]);
		break;
	case PAYLOAD_I32:
		snprintf(buf, 32, "%" PRId32, (int32_t)r->payload[0]);
		break;
	case PAYLOAD_F32:
		snprintf(buf, 32, "%.9g", f32);
		break;
	default:
		return NULL;
	}
	return buf;
}

const char *range__text(const struct range *r)
{
	return r->text ? r->text->s : NULL;
}

static void give(struct ranges *r, const struct proc *p, const struct range *x, const char *op,
		 const char *comm, uint64_t end_ns, bool unfinished)
{
	char number[32], payload[32];
	struct trace_event ev = {.kind = EVENT_RANGE,
				 .type = event_kinds[EVENT_RANGE].type,
				 .op = op,
				 .name = op,
				 .pid = p->pid,
				 .tid = x->tid,
				 .comm = comm,
				 .start_ns = x->start_ns,
				 .end_ns = end_ns,
				 .unfinished = unfinished,
				 .range = {
					 .id = x->id,
					 .parent = x->parent_id,
					 .level = x->level,
					 .lane = x->lane,
					 .text = range__text(x),
					 .domain = x->domain_name ? x->domain_name->s : NULL,
					 .category = x->category_name ? x->category_name->s : NULL,
					 .color = {x->color, x->has_color},
					 .payload = payload_text(x, payload),
					 .schema = x->schema,
				 }};

	if (x->category && !x->category_name) {
		snprintf(number, sizeof(number), "%" PRIu32, x->category);
		ev.range.category = number;
	}
	if (x->payload_kind == PAYLOAD_NCCL) {
		ev.range.comm_hash = x->payload[0];
		if (nccl_has_bytes(x->schema)) {
			ev.has |= HAS_SIZE;
			ev.size = x->payload[1];
		}
	}
	r->fn(r->ctx, &ev);
}

/* --- ranges --- */

const struct range *thread_range_at(const struct thread *t, uint64_t ns)
{
	const struct range *x = t->range;

	while (x && x->start_ns > ns)
		x = x->outer;
	return x;
}

static unsigned depth_of(const struct thread *t)
{
	unsigned cnt = 0;

	for (const struct range *x = t->range; x; x = x->outer)
		cnt++;
	return cnt;
}

#define RANGE_SZ quota_malloc_sz(sizeof(struct range))

/* Returns the first lane that no open range has; STARTED_MAX: there are too many. */
static uint32_t free_lane(const struct proc_ranges *p)
{
	uint64_t used[STARTED_MAX / 64] = {0};
	uint32_t lane = 0;

	for (const struct range *x = p->started; x; x = x->started)
		used[x->lane / 64] |= 1ull << x->lane % 64;
	while (lane < STARTED_MAX && used[lane / 64] >> lane % 64 & 1)
		lane++;
	return lane;
}

static void begin(struct ranges *r, const struct annotations *m, const struct trace_event *ev,
		  struct proc *p, struct thread *t, uint64_t number)
{
	bool is_started = m->fn->op == OP_START;
	uint32_t lane = is_started ? free_lane(p->ranges) : 0;
	struct range *x;

	if (depth_of(t) >= DEPTH_MAX || lane == STARTED_MAX ||
	    !quota__take(quota_of(r->quotas), &p->ranges->share, RANGE_SZ)) {
		r->cnt.too_many++;
		return;
	}
	x = calloc(1, sizeof(*x));
	if (!x) {
		quota__give(quota_of(r->quotas), &p->ranges->share, RANGE_SZ);
		return;
	}
	x->id = ++r->last_id;
	x->start_ns = ev->start_ns;
	x->tid = ev->tid;
	x->is_started = is_started;
	x->number = number;
	x->lane = lane;
	x->outer = t->range;
	x->level = depth_of(t);
	x->parent_id = x->outer ? x->outer->id : 0;
	t->range = x;
	if (is_started) {
		x->started = p->ranges->started;
		p->ranges->started = x;
	}
	take_event(r, m, ev, p, x);
	if (r->on_range)
		r->on_range(r->ctx, range__text(x), x->start_ns, true);
}

static struct thread *thread_of(struct proc *p, uint32_t tid)
{
	return thread_table__find(&p->threads, &tid);
}

/* Unlinks the range and frees it. */
static void range_free(struct quotas *q, struct proc *p, struct thread *t, struct range *x)
{
	struct range **at;

	for (at = &t->range; *at && *at != x; at = &(*at)->outer)
		;
	if (*at)
		*at = x->outer;
	for (at = &p->ranges->started; x->is_started && *at; at = &(*at)->started) {
		if (*at == x) {
			*at = x->started;
			break;
		}
	}
	put_texts(q, p->ranges, x);
	quota__give(quota_of(q), &p->ranges->share, RANGE_SZ);
	free(x);
}

static void end(struct ranges *r, struct proc *p, struct thread *t, struct range *x,
		uint64_t end_ns, bool unfinished)
{
	r->cnt.ranges++;
	r->cnt.unfinished += unfinished;
	if (unfinished || end_ns - x->start_ns >= r->min_duration_ns)
		give(r, p, x, x->is_started ? "start" : "push", proc__comm(p, t), end_ns,
		     unfinished);
	if (r->on_range)
		r->on_range(r->ctx, range__text(x), end_ns, false);
	range_free(r->quotas, p, t, x);
}

/* Ends the newest range pushed in the domain. */
static void pop(struct ranges *r, const struct annotations *m, const struct trace_event *ev,
		struct proc *p, struct thread *t)
{
	uint32_t domain = arg_of(m, ev, "domain");

	for (struct range *x = t->range; x; x = x->outer) {
		if (x->is_started || x->domain != domain)
			continue;
		end(r, p, t, x, ev->end_ns, false);
		return;
	}
	r->cnt.unbalanced++;
}

/* Ends the newest range with that number, in any thread. If numbers are unknown, all are 0. */
static void stop(struct ranges *r, const struct annotations *m, const struct trace_event *ev,
		 struct proc *p)
{
	uint32_t number = arg_of(m, ev, "id");

	for (struct range *x = p->ranges->started; x; x = x->started) {
		struct thread *t = x->number == number ? thread_of(p, x->tid) : NULL;

		if (!t)
			continue;
		end(r, p, t, x, ev->end_ns, false);
		return;
	}
	r->cnt.unbalanced++;
}

static void mark(struct ranges *r, const struct annotations *m, const struct trace_event *ev,
		 struct proc *p, struct thread *t)
{
	const struct range *outer = t->range;
	struct range x = {
		.id = ++r->last_id,
		.start_ns = ev->start_ns,
		.tid = ev->tid,
		.level = depth_of(t),
		.parent_id = outer ? outer->id : 0,
	};

	take_event(r, m, ev, p, &x);
	r->cnt.marks++;
	give(r, p, &x, "mark", proc__comm(p, t), ev->start_ns, false);
	put_texts(r->quotas, p->ranges, &x);
}

/* Names a string, domain or category; the text is the call's only string argument. */
static void name(struct ranges *r, const struct annotations *m, const struct trace_event *ev,
		 struct proc *p, uint32_t returned)
{
	struct name_key key = {NAME_STRING, 0, returned};
	int text = -1;

	for (int i = 0; i < m->fn->arg_cnt; i++)
		if (m->fn->args[i].dir == DIR_IN_STR)
			text = i;
	if (m->fn->op == OP_CREATE)
		key.kind = NAME_DOMAIN;
	if (m->fn->op == OP_NAME)
		key = (struct name_key){NAME_CATEGORY, arg_of(m, ev, "category"),
					(uint32_t)arg_of(m, ev, "domain")};
	if (text >= 0 && (key.handle || key.kind == NAME_CATEGORY))
		name_set(r, p->ranges, key, text_of_cap(r, p, ev, m->cap[text]));
}

void ranges__call(struct ranges *r, const struct annotations *m, const struct trace_event *ev,
		  struct proc *p, struct thread *t, uint32_t returned)
{
	r->cnt.calls++;
	if (ev->end_ns > r->last_ns)
		r->last_ns = ev->end_ns;
	/* A nested call comes from an export that forwards to a tool: count only the outer one. */
	if (ev->unfinished || ev->abandoned || ev->api_depth)
		return;
	if (!p->ranges)
		p->ranges = calloc(1, sizeof(*p->ranges));
	if (!p->ranges)
		return;
	switch (m->fn->op) {
	case OP_PUSH:
	case OP_START:
		begin(r, m, ev, p, t, m->fn->op == OP_START ? returned : 0);
		break;
	case OP_POP:
		pop(r, m, ev, p, t);
		break;
	case OP_STOP:
		stop(r, m, ev, p);
		break;
	case OP_MARK:
		mark(r, m, ev, p, t);
		break;
	case OP_NAME:
	case OP_CREATE:
	case OP_LOOKUP:
		name(r, m, ev, p, returned);
		break;
	}
}

void ranges__unfinished(struct ranges *r, struct proc *p, uint64_t now)
{
	if (now < r->last_ns)
		now = r->last_ns;
	hash_each (t, &p->threads)
		while (t->range)
			end(r, p, t, t->range, now, true);
}

void thread_ranges__free(struct quotas *q, struct proc *p, struct thread *t)
{
	while (t->range)
		range_free(q, p, t, t->range);
}

void proc_ranges__free(struct quotas *q, struct proc *p)
{
	if (!p->ranges)
		return;
	hash_each (n, &p->ranges->names)
		name_drop(q, p->ranges, n);
	free(p->ranges);
	p->ranges = NULL;
}
