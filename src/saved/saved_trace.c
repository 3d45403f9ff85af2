/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The header and the end of a saved trace. */
#include "saved_value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/memlimit.h"

const struct member *parsed_find(const struct json_value *p, const char *name)
{
	size_t len = strlen(name);

	for (const struct member *m = p->m; m < p->m + p->cnt; m++)
		if (m->name_len == len && m->name && !memcmp(m->name, name, len))
			return m;
	return NULL;
}

static const char *str_of(struct saved *s, const struct json_value *p, const char *name)
{
	const struct member *m = parsed_find(p, name);

	return m ? member_str(s, m) : NULL;
}

static const char *str_or(struct saved *s, const struct json_value *p, const char *name,
			  const char *none)
{
	const char *text = str_of(s, p, name);

	return text ? text : none;
}

/* Reads the members that rows of trace.def describe: one function per form. */

static const char *read_text(struct saved *s, const struct json_value *p, const char *name)
{
	return str_or(s, p, name, "");
}
#define read_text_or_null read_text
#define read_sym	  str_of

static uint64_t u64_of(const struct json_value *p, const char *name)
{
	const struct member *m = parsed_find(p, name);

	return m ? member_u64(m) : 0;
}
#define read_u64(s, p, name) u64_of(p, name)

static double read_f64(struct saved *s, const struct json_value *p, const char *name)
{
	const struct member *m = parsed_find(p, name);

	return m ? member_f64(m) : 0;
}

static uint64_t fixed_of(const struct json_value *p, const char *name, unsigned decimals)
{
	const struct member *m = parsed_find(p, name);

	return m ? member_fixed(m, decimals, NULL) : 0;
}
#define read_ms(s, p, name) fixed_of(p, name, 6)

/* "2026-01-01T00:00:00.123456789Z"; returns 0 when it is not such a time. */
static uint64_t read_wall_time(struct saved *s, const struct json_value *p, const char *name)
{
	struct tm tm = {0};
	char frac[10] = "000000000";
	const char *text = str_of(s, p, name);
	const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

	if (!rest)
		return 0;
	if (*rest == '.')
		for (int i = 0; i < 9 && rest[1 + i] >= '0' && rest[1 + i] <= '9'; i++)
			frac[i] = rest[1 + i];
	return timegm(&tm) * 1000000000ull + strtoul(frac, NULL, 10);
}

/* Returns 13000 for "13.0". */
static int read_cuda_version(struct saved *s, const struct json_value *p, const char *name)
{
	const char *text = str_of(s, p, name);
	int major, minor;

	return text && sscanf(text, "%d.%d", &major, &minor) == 2 && major > 0 && major < 1000
		       ? 1000 * major + 10 * minor
		       : 0;
}

/* Allocates cnt elements that live as long as the trace. */
static void *list_new(struct saved_trace *t, unsigned cnt, size_t size)
{
	void *list = NULL;

	/* A trace has one header and one end; a hostile file may have more. */
	if (t->list_cnt < sizeof(t->lists) / sizeof(t->lists[0]))
		list = memlimit_new(MEMLIMIT_TRACES, (cnt + 1ull) * size);
	if (list)
		t->lists[t->list_cnt++] = list;
	return list;
}

/* Returns the array called name, or NULL. */
static const struct json_value *array_of(struct saved *s, const struct json_value *p,
					 const char *name, struct json_value *in)
{
	const struct member *m = parsed_find(p, name);

	return m && m->val == VAL_ARRAY && !parser__slice(s->inner, m, in) ? in : NULL;
}

static const char *const *read_texts(struct saved *s, const struct json_value *p, const char *name,
				     unsigned *cnt)
{
	struct json_value in;
	const char **list;

	if (!array_of(s, p, name, &in))
		return NULL;
	list = list_new(s->cur, in.cnt, sizeof(*list));
	if (!list)
		return NULL;
	for (unsigned i = 0; i < in.cnt; i++) {
		const char *text = member_str(s, &in.m[i]);

		if (text)
			list[(*cnt)++] = text;
	}
	return list;
}

static void read_pids(struct saved *s, const struct json_value *p, struct trace_info *info)
{
	struct json_value in;
	uint32_t *pids;

	if (!array_of(s, p, "pids", &in))
		return;
	pids = list_new(s->cur, in.cnt, sizeof(*pids));
	if (!pids)
		return;
	for (unsigned i = 0; i < in.cnt; i++)
		pids[info->pid_cnt++] = member_u64(&in.m[i]);
	info->pids = pids;
}

/* Members of list elements are read after the lists themselves: there is only one inner parser. */
static void read_libs(struct saved *s, const struct json_value *p, struct trace_info *info)
{
	struct parser *outer = parser__new();
	const struct member *m = parsed_find(p, "libraries");
	struct json_value all, one;
	struct trace_lib *libs;

	if (!outer || !m || m->val != VAL_ARRAY || parser__slice(outer, m, &all))
		goto out;
	libs = list_new(s->cur, all.cnt, sizeof(*libs));
	for (unsigned i = 0; libs && i < all.cnt; i++) {
		if (all.m[i].val != VAL_OBJECT || parser__slice(s->inner, &all.m[i], &one))
			continue;
		libs[info->lib_cnt++] = (struct trace_lib){
			.path = str_or(s, &one, "path", ""),
			.build_id = str_or(s, &one, "build_id", ""),
			.lib_id = u64_of(&one, "id"),
			.attached_cnt = u64_of(&one, "functions"),
		};
	}
	info->libs = libs;
out:
	parser__free(outer);
}

static void read_info(struct saved *s, const struct json_value *p, struct trace_info *info)
{
	*info = (struct trace_info){0};
#define HEADER(form, name, place, when, unit, text) info->place = read_##form(s, p, #name);
#include "model/trace.def"
	info->version = str_or(s, p, "version", "?");
	info->argv = read_texts(s, p, "command", &info->argc);
	info->degraded = read_texts(s, p, "degraded", &info->degraded_cnt);
	read_pids(s, p, info);
	read_libs(s, p, info);
}

/* Returns false when there is no space for another trace; its events then count for the previous
 * one. */
static bool trace_add(struct saved *s)
{
	struct saved_trace *t = memlimit_new(MEMLIMIT_TRACES, sizeof(*t));

	s->note[0] = 0;
	if (!t)
		return false;
	*(s->cur ? &s->cur->next : &s->traces) = t;
	s->cur = t;
	saved_stack_ids_clear(s);
	return true;
}

/* Older traces have no boot id: each is treated as a run of its own. */
static uint64_t run_of(const struct saved_trace *t)
{
	uint64_t run = t->info.base_ns * 0x9e3779b97f4a7c15;

	if (!t->info.boot_id || !*t->info.boot_id)
		return (uintptr_t)t;
	for (const char *c = t->info.boot_id; *c; c++)
		run = (run ^ (uint8_t)*c) * 0x100000001b3;
	return run;
}

static void keep_header(struct saved *s)
{
	struct saved_trace *t = s->cur;

	s->skipped = t->info.segment;
	t->clock_base_ns = t->info.base_ns;
	t->run = run_of(t);
	t->segment = t->info.segment;
	if (t->info.base_ns > SAVED_NS_MAX)
		t->info.base_ns = SAVED_NS_MAX;
	if (t->info.begin_ns > SAVED_NS_MAX)
		t->info.begin_ns = SAVED_NS_MAX;
}

int saved__begin(struct saved *s)
{
	struct member nothing;
	struct json_value none = {.m = &nothing};

	if (!trace_add(s))
		return s->cur ? 0 : -ENOMEM;
	read_info(s, &none, &s->cur->info);
	keep_header(s);
	return 0;
}

bool saved__peek(struct saved *s, const struct json_value *p, struct trace_info *info)
{
	const struct member *type = parsed_find(p, "type");

	*info = (struct trace_info){.hostname = ""};
	if (!p->is_object || !type || type->len != strlen("header") ||
	    memcmp(type->text, "header", type->len) != 0)
		return false;
	memlimit_set_owner(s->all, MEMLIMIT_TRACE);
	info->base_ns = u64_of(p, "clock_base_ns");
	info->wall_ns = read_wall_time(s, p, "wall_time");
	info->boot_id = str_of(s, p, "boot_id");
	info->hostname = str_or(s, p, "host", "");
	info->segment = u64_of(p, "segment");
	return true;
}

bool saved__continues(struct saved *s, const struct json_value *p, unsigned *segment)
{
	const char *boot_id = str_or(s, p, "boot_id", "");

	*segment = u64_of(p, "segment");
	return s->cur && *segment > s->cur->segment &&
	       u64_of(p, "clock_base_ns") == s->cur->clock_base_ns &&
	       !strcmp(boot_id, s->cur->info.boot_id ?: "");
}

/* The next segment continues with the clock, ids and stacks of the current trace. */
static int go_on(struct saved *s, unsigned segment)
{
	unsigned missing = segment - s->cur->segment - 1;

	s->note[0] = 0;
	s->skipped = missing;
	if (missing)
		snprintf(s->note, sizeof(s->note),
			 "%u file%s of this trace before this one %s missing", missing,
			 missing == 1 ? "" : "s", missing == 1 ? "is" : "are");
	s->cur->segment = segment;
	return SAVED_MORE;
}

int saved_header(struct saved *s, const struct json_value *p, const char **why)
{
	static char text[160];
	uint64_t schema = u64_of(p, "schema");
	const struct member *name = parsed_find(p, "name");
	unsigned segment;

	*why = "it is not a header of a trace: give a file that cudatrace --jsonl wrote";
	if (!name || name->len != strlen("cudatrace") || memcmp(name->text, "cudatrace", name->len))
		return -EINVAL;
	if (schema != TRACE_SCHEMA) {
		snprintf(text, sizeof(text),
			 "the trace has schema %" PRIu64 ", this cudatrace reads %d: %s", schema,
			 TRACE_SCHEMA,
			 schema > TRACE_SCHEMA
				 ? "use a newer cudatrace"
				 : "record it again, or use the cudatrace that wrote it");
		*why = text;
		return -EPROTO;
	}
	if (saved__continues(s, p, &segment))
		return go_on(s, segment);
	*why = "out of memory: close other programs";
	if (!trace_add(s))
		return s->cur ? SAVED_HEADER : -EINVAL;
	read_info(s, p, &s->cur->info);
	keep_header(s);
	return SAVED_HEADER;
}

static const struct json_value *object_of(struct saved *s, const struct json_value *p,
					  const char *name, struct json_value *in)
{
	const struct member *m = parsed_find(p, name);

	return m && m->val == VAL_OBJECT && !parser__slice(s->inner, m, in) ? in : NULL;
}

/* Reads calls that were only counted, by function. */
static void read_counted(struct saved *s, const struct json_value *p, struct trace_end *end)
{
	struct parser *outer = parser__new();
	const struct member *m = parsed_find(p, "counted");
	struct trace_count *counts, *c;
	struct json_value all, one;

	if (!outer || !m || m->val != VAL_OBJECT || parser__slice(outer, m, &all))
		goto out;
	counts = list_new(s->cur, all.cnt, sizeof(*counts));
	for (unsigned i = 0; counts && i < all.cnt; i++) {
		if (all.m[i].val != VAL_OBJECT || parser__slice(s->inner, &all.m[i], &one))
			continue;
		c = &counts[end->count_cnt++];
		c->fn = saved_fn(s, all.m[i].name, all.m[i].name_len);
		c->entered = u64_of(&one, "entry_only");
		c->calls = u64_of(&one, "calls");
		c->calls = c->calls > c->entered ? c->calls - c->entered : 0;
		c->errors = u64_of(&one, "errors");
		c->unfinished = u64_of(&one, "unfinished");
		c->abandoned = u64_of(&one, "abandoned");
		c->total_ns = fixed_of(&one, "total_us", 3);
		c->max_ns = fixed_of(&one, "max_us", 3);
		end->stats[CT_STAT_COUNTED] += c->calls + c->entered + c->unfinished + c->abandoned;
	}
	end->counts = counts;
out:
	parser__free(outer);
}

/* Keeps the most expensive first, whatever their order in the file; equal ones by name. */
static void add_cost(struct trace_end *end, const struct api_fn *fn, uint64_t ns)
{
	struct trace_fn_cost *d = end->costly;
	unsigned i = end->costly_cnt;

	while (i && (d[i - 1].ns < ns ||
		     (d[i - 1].ns == ns && strcmp(d[i - 1].fn->symbol, fn->symbol) > 0)))
		i--;
	if (i == TRACE_COSTLY_MAX)
		return;
	end->costly_cnt += end->costly_cnt < TRACE_COSTLY_MAX;
	memmove(&d[i + 1], &d[i], (end->costly_cnt - 1 - i) * sizeof(*d));
	d[i] = (struct trace_fn_cost){fn, ns};
}

/* Adds the counters that each file has of its own to the sum for the trace. */
static void add_own(struct trace_end *sum, const struct trace_end *end)
{
	static const enum ct_stat of_calls[] = {CT_STAT_ENTRIES, CT_STAT_UNFINISHED,
						CT_STAT_ABANDONED};

	sum->event_cnt += end->event_cnt;
	sum->call_cnt += end->call_cnt;
	for (unsigned i = 0; i < TYPE_CNT; i++)
		sum->type_cnt[i] += end->type_cnt[i];
	for (unsigned i = 0; i < sizeof(of_calls) / sizeof(of_calls[0]); i++)
		sum->stats[of_calls[i]] += end->stats[of_calls[i]];
	sum->lines_lost += end->lines_lost;
	sum->write_error = sum->write_error ?: end->write_error;
}

static bool is_count(const struct member *m)
{
	size_t digits = 0;

	while (digits < m->len && m->text[digits] >= '0' && m->text[digits] <= '9')
		digits++;
	return m->val == VAL_NUMBER && digits && digits == m->len;
}

/* An end line has about 60. */
#define END_MEMBERS_MAX 512

/* Numbers of an end line that are not counts, and members that occur twice: it is damaged. */
static uint64_t damaged_members(const struct json_value *p)
{
	static const char *const counts[] = {
#define END_u64(name) #name,
#define END_other(name)
#define END_f64					 END_other
#define END_ms					 END_other
#define END_text				 END_other
#define END_sym					 END_other
#define END(form, name, place, when, unit, text) END_##form(name)
#include "model/trace.def"
	};
	uint64_t sum = 0;

	for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		const struct member *m = parsed_find(p, counts[i]);

		sum += m && !is_count(m);
	}
	if (p->cnt > END_MEMBERS_MAX)
		return sum + 1;
	for (unsigned i = 0; i < p->cnt; i++)
		for (unsigned k = 0; k < i; k++)
			sum += p->m[i].name_len == p->m[k].name_len &&
			       !memcmp(p->m[i].name, p->m[k].name, p->m[i].name_len);
	return sum;
}

/* Without these members of an end line it is unknown what is missing: it is damaged. */
static unsigned missing_members(const struct json_value *p)
{
	static const struct {
		const char *name;
		enum parse_val val;
	} needed[] = {{"events", VAL_OBJECT},
		      {"drops", VAL_OBJECT},
		      {"calls", VAL_NUMBER},
		      {"bad_records", VAL_NUMBER}};
	unsigned cnt = 0;

	for (unsigned i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		const struct member *m = parsed_find(p, needed[i].name);

		cnt += !m || m->val != needed[i].val;
	}
	return cnt;
}

/* Counts drops of kinds unknown to this version, and values that are not counts. */
static uint64_t unknown_drops(const struct json_value *in)
{
	uint64_t sum = 0;

	for (const struct member *m = in->m; m < in->m + in->cnt; m++) {
		bool is_known = false;

		for (int i = 0; i < CT_DROP_CNT; i++)
			is_known |= m->name_len == strlen(drop_name(i)) &&
				    !memcmp(m->name, drop_name(i), m->name_len);
		if (!is_count(m) || !is_known)
			sum += is_count(m) ? member_u64(m) : 1;
	}
	return sum;
}

int saved_end(struct saved *s, const struct json_value *p)
{
	struct trace_end *end;
	struct json_value in;

	if (!s->cur && saved__begin(s))
		return -EINVAL;
	if (!s->cur->is_placed)
		saved__place(s, false);
	end = &s->cur->end;
	*end = (struct trace_end){0};
#define END(form, name, place, when, unit, text) end->place = read_##form(s, p, #name);
#include "model/trace.def"
	end->end_ns = member_fixed(parsed_find(p, "ts"), 6, NULL);
	end->end_ns = end->end_ns < SAVED_NS_MAX ? saved_time(s, end->end_ns, false) : SAVED_NS_MAX;
	end->reason = str_or(s, p, "reason", "?");
	end->has_objects = parsed_find(p, "objects_refused");
	end->gpu.on = parsed_find(p, "gpu_records");
	end->stalls.on = parsed_find(p, "stall_samples");
	if (object_of(s, p, "costs", &in))
		for (unsigned i = 0; i < in.cnt; i++)
			add_cost(end, saved_fn(s, in.m[i].name, in.m[i].name_len),
				 member_fixed(&in.m[i], 6, NULL));
	if (object_of(s, p, "limits_hit", &in))
		for (int i = 0; i < QUOTA_CNT; i++)
			end->full[i] = u64_of(&in, limit_name(i));
	read_counted(s, p, end);
	s->own = (struct saved_own_end){.has_calls = parsed_find(p, "calls")};
	if (object_of(s, p, "events", &in)) {
		s->own.has_events = true;
		for (unsigned i = 0; i < in.cnt; i++)
			end->event_cnt += member_u64(&in.m[i]);
		s->own.unknown_cnt = end->event_cnt;
		for (int i = 0; i < TYPE_CNT; i++) {
			end->type_cnt[i] = u64_of(&in, event_type_name(i));
			s->own.unknown_cnt -= end->type_cnt[i];
		}
		end->level_cnt = end->type_cnt[TYPE_TRACER];
		end->event_cnt -= end->type_cnt[TYPE_STACK];
	}
	if (object_of(s, p, "drops", &in)) {
		for (int i = 0; i < CT_DROP_CNT; i++)
			end->drops[i] = u64_of(&in, drop_name(i));
		end->unknown_drop_cnt = unknown_drops(&in);
	}
	end->unknown_drop_cnt += damaged_members(p) + missing_members(p);
	s->own.end = *end;
	if (end->end_ns > s->all->last_ns)
		s->all->last_ns = end->end_ns;
	end->goes_on = !strcmp(end->reason, TRACE_GOES_ON);
	if (end->goes_on) {
		add_own(&s->cur->split, end);
		return SAVED_SEGMENT;
	}
	add_own(end, &s->cur->split);
	s->cur->has_end = true;
	return SAVED_END;
}

void saved_traces_free(struct saved *s)
{
	struct saved_trace *t, *next;

	for (t = s->traces; t; t = next) {
		next = t->next;
		for (unsigned i = 0; i < t->list_cnt; i++)
			memlimit_free(t->lists[i]);
		memlimit_free(t);
	}
}

const struct trace_info *saved__info(const struct saved *s)
{
	return s->cur ? &s->cur->info : NULL;
}

const struct trace_end *saved__end(const struct saved *s)
{
	return s->cur && s->cur->has_end ? &s->cur->end : NULL;
}

const char *saved__note(const struct saved *s)
{
	return s->note[0] ? s->note : NULL;
}
