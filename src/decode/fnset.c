/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fnset.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fnset_suggest.h"
#include "value.h"

enum item_kind { ITEM_ALL, ITEM_API, ITEM_CLASS, ITEM_NAME, ITEM_GLOB };

struct item {
	enum item_kind kind;
	bool remove;
	int class;
	enum api_id api;
	char *text;
};

/* The parsed expression is stored, not only its result: symbols that are not in the table appear
 * when a library is opened, after the command line was read. */
struct expr {
	bool is_rest; /* begins with !: the functions of the level of detail minus the items */
	struct item *items;
	unsigned cnt;
};

struct fnset {
	const struct api_fn *rows;
	unsigned row_cnt;
	struct api_fn *extra[CT_MAX_FUNCS]; /* generic rows: IDs from row_cnt on */
	unsigned extra_cnt;
	uint16_t holds[CT_MAX_FUNCS]; /* reference counts of extra */
	bool given_up[CT_MAX_FUNCS];  /* no longer referenced */
	void (*on_reuse)(void *ctx, unsigned id);
	void *ctx;
	enum api_detail detail;
	struct expr expr, marks[FNSET_MARK_CNT];
	bool added[API_CNT]; /* families added with fnset__add() */
	bool wanted[CT_MAX_FUNCS];
};

static void expr__free(struct expr *e)
{
	for (unsigned i = 0; i < e->cnt; i++)
		free(e->items[i].text);
	free(e->items);
}

static bool is_requested(const struct api_fn *fn)
{
	return api_at(fn->api)->is_requested;
}

static bool in_class(const struct api_fn *fn, int class)
{
	return fn->class == class || (class == CLASS_QUERY && api_fn_is_query(fn));
}

/* A glob that begins with the family's prefix selects it. A shorter glob that also matches other
 * families does not. */
static bool names_family(const char *glob, const struct api_fn *fn)
{
	const char *prefix = api_at(fn->api)->prefix;

	return !strncmp(glob, prefix, strlen(prefix));
}

/* A family that must be named consists of its documented functions: cuBLAS calls seven of its own
 * exports in each product. */
static bool item_matches(const struct item *it, const struct api_fn *fn)
{
	switch (it->kind) {
	case ITEM_ALL:
		return it->remove || !is_requested(fn);
	case ITEM_API:
		return fn->api == it->api && (it->remove || fn->known || !is_requested(fn));
	case ITEM_CLASS:
		return in_class(fn, it->class) &&
		       (it->remove || it->class != CLASS_QUERY || !is_requested(fn));
	case ITEM_NAME:
		return !strcmp(it->text, fn->name) || !strcmp(it->text, fn->symbol);
	default:
		return (!is_requested(fn) || names_family(it->text, fn)) &&
		       (!fnmatch(it->text, fn->name, 0) || !fnmatch(it->text, fn->symbol, 0));
	}
}

static bool in_detail(const struct fnset *set, const struct api_fn *fn)
{
	return !is_requested(fn) && api_fn_detail(fn) <= (set->detail ?: DETAIL_NORMAL);
}

/* Exports without a row are not included. */
static bool is_added(const struct fnset *set, const struct api_fn *fn)
{
	return set->added[fn->api] && fn->known;
}

/* wanted: the initial value, before the items apply. */
static bool expr_wants(const struct expr *e, const struct api_fn *fn, bool wanted)
{
	for (unsigned i = 0; i < e->cnt; i++)
		if (item_matches(&e->items[i], fn))
			wanted = !e->items[i].remove;
	return wanted;
}

static bool is_marked(const struct fnset *set, enum fnset_mark mark, const struct api_fn *fn)
{
	const struct expr *e = &set->marks[mark];

	if (mark == FNSET_NO_RETURN && api_fn_is_entry_only(fn))
		return true;
	return expr_wants(e, fn, e->is_rest && in_detail(set, fn));
}

static bool is_wanted(const struct fnset *set, const struct api_fn *fn)
{
	bool begin =
		((set->expr.is_rest || set->detail) && in_detail(set, fn)) || is_added(set, fn);

	return expr_wants(&set->expr, fn, begin) || is_marked(set, FNSET_COUNT, fn);
}

static void apply(struct fnset *set)
{
	for (unsigned id = 0; id < fnset__cnt(set); id++)
		set->wanted[id] = is_wanted(set, fnset__fn(set, id));
}

struct fnset *fnset__new(void)
{
	struct fnset *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->rows = api_fns(&set->row_cnt);
	set->expr.is_rest = true;
	apply(set);
	return set;
}

void fnset__free(struct fnset *set)
{
	if (!set)
		return;
	for (unsigned i = 0; i < set->extra_cnt; i++)
		free(set->extra[i]);
	expr__free(&set->expr);
	for (unsigned i = 0; i < FNSET_MARK_CNT; i++)
		expr__free(&set->marks[i]);
	free(set);
}

/* One allocation: the row, followed by the symbol and the public name. */
static struct api_fn *make_generic(const char *symbol)
{
	static const struct api_type word = {"uint64_t", 8, KIND_HEX, NULL, NULL};
	static const struct api_arg args[] = {
		{DIR_IN, 0, &word, "arg0"},
		{DIR_IN, 0, &word, "arg1"},
		{DIR_IN, 0, &word, "arg2"},
		{DIR_IN, 0, &word, "arg3"},
		{DIR_IN, 0, &word, "arg4"},
		{DIR_IN, 0, &word, "arg5"},
		{0},
	};
	size_t size = strlen(symbol) + 1;
	struct api_fn *fn = calloc(1, sizeof(*fn) + 2 * size);
	char *text = (char *)(fn + 1);
	const struct api *api;

	if (!fn)
		return NULL;
	memcpy(text, symbol, size);
	api_public_name(symbol, text + size, size);
	fn->symbol = text;
	fn->name = text + size;
	api = api_of_symbol(symbol);
	fn->api = api ? api->id : API_CUDA;
	fn->class = CLASS_OTHER;
	fn->op = OP_NONE;
	fn->arg_cnt = sizeof(args) / sizeof(args[0]) - 1;
	fn->args = args;
	return fn;
}

int fnset__find(const struct fnset *set, const char *symbol)
{
	const struct api_fn *row = api_fn_by_symbol(symbol);

	if (row)
		return row - set->rows;
	for (unsigned i = 0; i < set->extra_cnt; i++)
		if (!strcmp(set->extra[i]->symbol, symbol))
			return set->row_cnt + i;
	return -ENOENT;
}

/* Returns the index in extra for another row, or -ENOSPC. */
static int find_place(const struct fnset *set)
{
	if (set->row_cnt + set->extra_cnt < CT_MAX_FUNCS - 1) /* the last is the tracer's own */
		return set->extra_cnt;
	for (unsigned i = 0; i < set->extra_cnt; i++)
		if (set->given_up[i])
			return i;
	return -ENOSPC;
}

int fnset__id(struct fnset *set, const char *symbol)
{
	int id = fnset__find(set, symbol), i;
	struct api_fn *fn;

	if (id >= 0)
		return id;
	i = find_place(set);
	if (i < 0)
		return i;
	fn = make_generic(symbol);
	if (!fn)
		return -ENOMEM;
	id = set->row_cnt + i;
	if ((unsigned)i == set->extra_cnt)
		set->extra_cnt++;
	else if (set->on_reuse)
		set->on_reuse(set->ctx, id);
	free(set->extra[i]);
	set->extra[i] = fn;
	set->given_up[i] = false;
	set->wanted[id] = is_wanted(set, fn);
	return id;
}

void fnset__drop_unwanted(struct fnset *set)
{
	unsigned cnt = set->extra_cnt;

	set->extra_cnt = 0;
	for (unsigned i = 0; i < cnt; i++) {
		struct api_fn *fn = set->extra[i];

		set->extra[i] = NULL;
		if (set->wanted[set->row_cnt + i])
			set->extra[set->extra_cnt++] = fn;
		else
			free(fn);
	}
	apply(set);
}

bool fnset__is_generic(const struct fnset *set, unsigned id)
{
	return id >= set->row_cnt && id - set->row_cnt < set->extra_cnt;
}

void fnset__hold(struct fnset *set, unsigned id)
{
	if (!fnset__is_generic(set, id))
		return;
	set->holds[id - set->row_cnt]++;
	set->given_up[id - set->row_cnt] = false;
}

bool fnset__is_held(const struct fnset *set, unsigned id)
{
	return fnset__is_generic(set, id) && set->holds[id - set->row_cnt];
}

void fnset__release(struct fnset *set, unsigned id)
{
	if (fnset__is_generic(set, id) && !--set->holds[id - set->row_cnt])
		set->given_up[id - set->row_cnt] = true;
}

void fnset__on_reuse(struct fnset *set, void (*fn)(void *ctx, unsigned id), void *ctx)
{
	set->on_reuse = fn;
	set->ctx = ctx;
}

const struct api_fn *fnset__fn(const struct fnset *set, unsigned id)
{
	if (id < set->row_cnt)
		return &set->rows[id];
	id -= set->row_cnt;
	return id < set->extra_cnt ? set->extra[id] : NULL;
}

int fnset__id_of(const struct fnset *set, const struct api_fn *fn)
{
	if (fn >= set->rows && fn < set->rows + set->row_cnt)
		return fn - set->rows;
	for (unsigned i = 0; i < set->extra_cnt; i++)
		if (set->extra[i] == fn)
			return set->row_cnt + i;
	return -ENOENT;
}

unsigned fnset__cnt(const struct fnset *set)
{
	return set->row_cnt + set->extra_cnt;
}

bool fnset__wanted(const struct fnset *set, unsigned id)
{
	return id < fnset__cnt(set) && set->wanted[id];
}

bool fnset__wanted_at(const struct fnset *set, enum api_detail detail, unsigned id)
{
	const struct api_fn *fn = fnset__fn(set, id);

	return fn && (expr_wants(&set->expr, fn,
				 is_added(set, fn) ||
					 (!is_requested(fn) && api_fn_detail(fn) <= detail)) ||
		      is_marked(set, FNSET_COUNT, fn));
}

bool fnset__may_trace(const struct fnset *set, const char *symbol)
{
	const struct api *api = api_of_symbol(symbol);
	char name[256];
	struct api_fn fn = {.symbol = symbol, .name = name, .class = CLASS_OTHER};

	if (!api || !api->is_requested)
		return true;
	fn.api = api->id;
	api_public_name(symbol, name, sizeof(name));
	return is_wanted(set, &fn);
}

/* Returns whether a name or a glob could match a symbol that is not in the table. */
static bool may_want(const struct expr *e, const struct api *api)
{
	for (unsigned i = 0; i < e->cnt; i++)
		if (!e->items[i].remove && e->items[i].kind >= ITEM_NAME &&
		    api_of_symbol(e->items[i].text) == api)
			return true;
	return false;
}

bool fnset__wants_api(const struct fnset *set, const struct api *api)
{
	/* The driver is always traced, and exports more than the rows. */
	if (api->id == API_CUDA)
		return true;
	for (unsigned id = 0; id < set->row_cnt; id++)
		if (set->wanted[id] && set->rows[id].api == api->id)
			return true;
	return may_want(&set->expr, api) || may_want(&set->marks[FNSET_COUNT], api);
}

/* Reads the item of len bytes at s, without its !. */
static int parse_item(const struct fnset *set, struct item *it, const char *s, size_t len,
		      char *err, size_t err_size)
{
	const struct api *api;

	it->text = strndup(s, len);
	if (!it->text) {
		snprintf(err, err_size, "out of memory");
		return -ENOMEM;
	}
	it->class = api_class_by_name(s, len);
	if (!strcmp(it->text, "all") || !strcmp(it->text, "none")) {
		it->kind = ITEM_ALL;
		it->remove ^= it->text[0] == 'n';
		return 0;
	}
	if (it->class >= 0) {
		it->kind = ITEM_CLASS;
		return 0;
	}
	api = api_by_name(s, len);
	if (api) {
		it->kind = ITEM_API;
		it->api = api->id;
		return 0;
	}
	it->kind = strpbrk(it->text, "*?[") ? ITEM_GLOB : ITEM_NAME;
	for (unsigned id = 0; id < fnset__cnt(set); id++)
		if (item_matches(it, fnset__fn(set, id)))
			return 0;
	if (it->kind == ITEM_GLOB)
		snprintf(err, err_size, "no function matches \"%s\": see cudatrace list", it->text);
	else
		fnset_suggest(it->text, err, err_size);
	return -EINVAL;
}

static int parse_expr(const struct fnset *set, struct expr *e, const char *s, char *err,
		      size_t err_size)
{
	const char *whole = s;

	while (isspace((unsigned char)*s))
		s++;
	e->is_rest = *s == '!';
	for (;; s++) {
		size_t len = strcspn(s, ","), n = len;
		struct item *it = &e->items[e->cnt];
		const char *item = s;

		s += len;
		for (; n && isspace((unsigned char)*item); n--)
			item++;
		/* After a leading !, all items are removed, with or without a ! of their own. */
		it->remove = e->is_rest;
		if (n && *item == '!') {
			it->remove = true;
			item++;
			n--;
		}
		while (n && isspace((unsigned char)item[n - 1]))
			n--;
		if (!n) {
			snprintf(err, err_size,
				 "empty item in \"%s\": write names, globs or classes, such as "
				 "memory,cuLaunch*",
				 whole);
			return -EINVAL;
		}
		e->cnt++;
		if (parse_item(set, it, item, n, err, err_size))
			return -EINVAL;
		if (!*s)
			return 0;
	}
}

static int set_expr(struct fnset *set, struct expr *to, const char *expr, char *err,
		    size_t err_size)
{
	struct expr e = {0};
	size_t cnt = 1;
	int ret;

	for (const char *p = expr; *p; p++)
		cnt += *p == ',';
	e.items = calloc(cnt, sizeof(*e.items));
	if (!e.items) {
		snprintf(err, err_size, "out of memory");
		return -ENOMEM;
	}
	ret = parse_expr(set, &e, expr, err, err_size);
	if (ret) {
		expr__free(&e);
		return ret;
	}
	expr__free(to);
	*to = e;
	apply(set);
	return 0;
}

int fnset__select(struct fnset *set, const char *expr, char *err, size_t err_size)
{
	return set_expr(set, &set->expr, expr, err, err_size);
}

int fnset__mark(struct fnset *set, enum fnset_mark mark, const char *expr, char *err,
		size_t err_size)
{
	return set_expr(set, &set->marks[mark], expr, err, err_size);
}

bool fnset__is_marked(const struct fnset *set, enum fnset_mark mark, unsigned id)
{
	const struct api_fn *fn = fnset__fn(set, id);

	return fn && is_marked(set, mark, fn);
}

void fnset__set_detail(struct fnset *set, enum api_detail detail)
{
	set->detail = detail;
	apply(set);
}

void fnset__add(struct fnset *set, enum api_id api)
{
	set->added[api] = true;
	apply(set);
}

void fnset__spec(const struct fnset *set, unsigned id, enum ct_redact redact, struct ct_spec *spec)
{
	api_fn_spec_redacting(fnset__fn(set, id), redact, spec);
	if (fnset__is_marked(set, FNSET_COUNT, id))
		spec->level = CT_LEVEL_COUNT;
	if (fnset__is_marked(set, FNSET_NO_RETURN, id))
		spec->flags |= CT_SPEC_F_NO_RETURN;
	if (fnset__is_marked(set, FNSET_STACK, id))
		spec->flags |= CT_SPEC_F_STACK;
	if (fnset__is_marked(set, FNSET_PYTHON, id))
		spec->flags |= CT_SPEC_F_PYTHON;
}
