/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads budgets. */
#include "perf_budget.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/units.h"
#include "util/log.h"
#include "util/yaml_doc.h"

#define LIMITS_MAX 10000
#define FILE_MAX   (4u << 20)

static const struct budget_row rows[] = {
#define LIMIT(scope, name, unit, needs, path, text)                                                \
	{BUDGET_##scope, name, BUDGET_##unit, needs, path, text},
#include "limits.def"
#undef LIMIT
};
#define ROW_CNT (sizeof(rows) / sizeof(rows[0]))

static const struct {
	const char *name;
	bool has_name, has_statistic;
} scopes[BUDGET_SCOPE_CNT] = {
	[BUDGET_RUN] = {"run", false, false},
	[BUDGET_ITERATION] = {"iteration", false, true},
	[BUDGET_STEP] = {"step", true, true},
	[BUDGET_STAGE] = {"stage", true, false},
	[BUDGET_RANGE] = {"range", true, false},
	[BUDGET_OPERATOR] = {"operator", true, false},
	[BUDGET_FUNCTION] = {"function", true, false},
};

static const char *const statistics[] = {"max", "median", "p95", "p99", "mean", "min", "total"};

const struct budget_row *budget_rows(unsigned *cnt)
{
	*cnt = ROW_CNT;
	return rows;
}

const char *budget_scope_name(enum budget_scope scope)
{
	return scopes[scope].name;
}

bool budget_has_name(enum budget_scope scope)
{
	return scopes[scope].has_name;
}

bool budget_has_statistic(enum budget_scope scope)
{
	return scopes[scope].has_statistic;
}

struct file {
	struct perf_budget *b;
	yaml_document_t doc;
	unsigned line;
	bool bad;
};

/* Prints the first error. */
__attribute__((format(printf, 2, 3))) static void wrong(struct file *f, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (f->bad)
		return;
	f->bad = true;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err("%s:%u: %s", f->b->path, f->line, text);
}

static const char *scalar(struct file *f, yaml_node_item_t id)
{
	yaml_node_t *n = yaml_document_get_node(&f->doc, id);

	return n && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : NULL;
}

static void go_to(struct file *f, yaml_node_item_t id)
{
	f->line = yaml_document_get_node(&f->doc, id)->start_mark.line + 1;
}

static bool read_number(enum budget_unit unit, const char *text, double *x)
{
	uint64_t n = 0;
	int ret = -EINVAL;

	switch (unit) {
	case BUDGET_COUNT:
		ret = opt_read_u64(text, &n);
		break;
	case BUDGET_BYTES:
		ret = opt_read_size(text, &n);
		break;
	case BUDGET_TIME:
		/* A number without a unit is ambiguous. */
		if (*text && strchr("0123456789.", text[strlen(text) - 1]) && strcmp(text, "0"))
			return false;
		ret = opt_read_time(text, 1, &n);
		break;
	case BUDGET_SHARE:
		return !opt_read_percent(text, x);
	}
	*x = n;
	return !ret;
}

static const char *how_to_write(enum budget_unit unit)
{
	switch (unit) {
	case BUDGET_COUNT:
		return "a number, as in 400";
	case BUDGET_BYTES:
		return "a number of bytes, as in 400M";
	case BUDGET_TIME:
		return "a time with its unit, as in 1.5ms";
	default:
		return "a share, as in 2%";
	}
}

/* Reads "400", or "+3" and "+5%" for a change. */
static bool read_max(struct budget_limit *l, const char *text)
{
	size_t len = strlen(text);

	l->of_change = *text == '+' && l->row->unit != BUDGET_SHARE;
	text += l->of_change;
	l->is_share = l->of_change && len > 2 && text[len - 2] == '%';
	return l->is_share ? !opt_read_percent(text, &l->max)
			   : read_number(l->row->unit, text, &l->max);
}

static void read_limit(struct file *f, const struct budget_limit *of, const char *key,
		       const char *val)
{
	struct perf_budget *b = f->b;
	struct budget_limit *l = &b->limits[b->cnt];
	enum budget_scope scope = of->row->scope;
	unsigned i = 0;

	while (i < ROW_CNT && (rows[i].scope != scope || strcmp(rows[i].name, key)))
		i++;
	if (i == ROW_CNT) {
		wrong(f, "there is no limit '%s' per %s: see the list of limits in docs/BUDGETS.md",
		      key, scopes[scope].name);
		return;
	}
	if (b->cnt == LIMITS_MAX) {
		wrong(f, "more than %d limits", LIMITS_MAX);
		return;
	}
	*l = *of;
	l->row = &rows[i];
	l->line = f->line;
	if (!val || !read_max(l, val)) {
		wrong(f, "%s '%s': write %s%s", key, val ?: "", how_to_write(rows[i].unit),
		      rows[i].unit == BUDGET_SHARE ? ""
						   : ", or by how much it may grow, as in +5%");
		return;
	}
	if (l->of_change && !b->change_line)
		b->change_line = l->line;
	if (scopes[scope].has_statistic && !l->of)
		l->of = rows[i].unit == BUDGET_TIME ? "median" : "max";
	l->name = of->name ? strdup(of->name) : NULL;
	if (of->name && !l->name)
		wrong(f, "out of memory");
	b->cnt++;
}

/* Reads the keys that say what the limits of an entry are about: per, name, of. */
static void read_about(struct file *f, yaml_node_t *map, struct budget_limit *about)
{
	static const struct budget_row *first[BUDGET_SCOPE_CNT];
	const char *per = "run", *of = NULL;
	unsigned i = 0, n = 0;

	for (unsigned r = ROW_CNT; r-- > 0;)
		first[rows[r].scope] = &rows[r];
	for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
	     p++) {
		const char *key = scalar(f, p->key) ?: "", *val = scalar(f, p->value);

		go_to(f, p->key);
		if (!strcmp(key, "per"))
			per = val ?: "";
		else if (!strcmp(key, "name"))
			about->name = (char *)(val ?: "");
		else if (!strcmp(key, "of"))
			of = val ?: "";
	}
	f->line = map->start_mark.line + 1;
	while (i < BUDGET_SCOPE_CNT && strcmp(scopes[i].name, per))
		i++;
	if (i == BUDGET_SCOPE_CNT) {
		wrong(f, "per '%s': write run, iteration, step, stage, range, operator or function",
		      per);
		i = 0;
	}
	about->row = first[i];
	if (scopes[i].has_name != (about->name && *about->name))
		wrong(f,
		      scopes[i].has_name ? "limits per %s need its name, as in name: forward"
					 : "limits per %s have no name: remove it",
		      scopes[i].name);
	while (of && n < sizeof(statistics) / sizeof(statistics[0]) && strcmp(statistics[n], of))
		n++;
	if (of && (!scopes[i].has_statistic || n == sizeof(statistics) / sizeof(statistics[0])))
		wrong(f,
		      "of '%s': limits per iteration and per step can be of one of: " BUDGET_STATISTICS,
		      of);
	else if (of)
		about->of = statistics[n];
}

static void read_entry(struct file *f, yaml_node_t *map)
{
	struct budget_limit about = {0};
	unsigned before = f->b->cnt;

	f->line = map->start_mark.line + 1;
	if (map->type != YAML_MAPPING_NODE) {
		wrong(f, "each entry of limits has keys, as in {per: run, launches: 400}");
		return;
	}
	read_about(f, map, &about);
	for (yaml_node_pair_t *p = map->data.mapping.pairs.start;
	     !f->bad && p < map->data.mapping.pairs.top; p++) {
		const char *key = scalar(f, p->key) ?: "";

		go_to(f, p->key);
		if (strcmp(key, "per") && strcmp(key, "name") && strcmp(key, "of"))
			read_limit(f, &about, key, scalar(f, p->value));
	}
	f->line = map->start_mark.line + 1;
	if (f->b->cnt == before)
		wrong(f, "this entry limits nothing: add a limit, as in launches: 400");
}

static unsigned pair_cnt(struct file *f, yaml_node_t *list)
{
	unsigned cnt = 0;

	for (yaml_node_item_t *i = list->data.sequence.items.start;
	     i < list->data.sequence.items.top; i++) {
		yaml_node_t *map = yaml_document_get_node(&f->doc, *i);

		if (map->type == YAML_MAPPING_NODE)
			cnt += map->data.mapping.pairs.top - map->data.mapping.pairs.start;
	}
	return cnt < LIMITS_MAX ? cnt : LIMITS_MAX;
}

static void read_limits(struct file *f, yaml_node_t *list)
{
	struct perf_budget *b = f->b;

	if (list->type != YAML_SEQUENCE_NODE || b->limits) {
		wrong(f, "limits: write one list");
		return;
	}
	b->limits = calloc(pair_cnt(f, list) + 1, sizeof(*b->limits));
	if (!b->limits) {
		wrong(f, "out of memory");
		return;
	}
	for (yaml_node_item_t *i = list->data.sequence.items.start;
	     !f->bad && i < list->data.sequence.items.top; i++)
		read_entry(f, yaml_document_get_node(&f->doc, *i));
}

static void read_root(struct file *f, yaml_node_t *root)
{
	if (!root || root->type != YAML_MAPPING_NODE) {
		wrong(f,
		      "a budget has the key limits: cudatrace report --make-budget TRACE writes one");
		return;
	}
	for (yaml_node_pair_t *p = root->data.mapping.pairs.start;
	     !f->bad && p < root->data.mapping.pairs.top; p++) {
		const char *key = scalar(f, p->key) ?: "", *val = scalar(f, p->value);

		go_to(f, p->key);
		if (!strcmp(key, "limits"))
			read_limits(f, yaml_document_get_node(&f->doc, p->value));
		else if (strcmp(key, "allow_losses"))
			wrong(f, "there is no key '%s': use limits and allow_losses", key);
		else if (!val || (strcmp(val, "true") && strcmp(val, "false")))
			wrong(f, "allow_losses: write true or false");
		else
			f->b->allow_losses = !strcmp(val, "true");
	}
	if (!f->b->cnt)
		wrong(f, "the budget has no limits: add one, as in {per: run, launches: 400}");
}

static void parse(struct file *f, const char *text, size_t len)
{
	char why[256];

	if (!yaml_doc__load(&f->doc, text, len, why, &f->line)) {
		wrong(f, "%s", why);
		return;
	}
	read_root(f, yaml_document_get_root_node(&f->doc));
	yaml_document_delete(&f->doc);
}

static void read_file(struct file *f, FILE *in)
{
	char *text = calloc(1, FILE_MAX + 2);
	size_t len = text ? fread(text, 1, FILE_MAX + 1, in) : 0;

	if (!text)
		wrong(f, "out of memory");
	else if (ferror(in))
		wrong(f, "it cannot be read");
	else if (len > FILE_MAX)
		wrong(f, "it is longer than %u bytes", FILE_MAX);
	else
		parse(f, text, len);
	free(text);
}

struct perf_budget *perf_budget__read(const char *path)
{
	struct perf_budget *b = calloc(1, sizeof(*b));
	struct file f = {.b = b, .line = 1};
	FILE *in = NULL;

	if (b)
		b->path = strdup(path);
	if (!b || !b->path) {
		err("out of memory: close other programs");
		f.bad = true;
	} else if (!(in = fopen(path, "re"))) {
		err("cannot read the budget %s: %s", path, strerror(errno));
		f.bad = true;
	} else {
		read_file(&f, in);
	}
	if (in)
		fclose(in);
	if (!f.bad)
		return b;
	perf_budget__free(b);
	return NULL;
}

void perf_budget__free(struct perf_budget *b)
{
	if (!b)
		return;
	for (unsigned i = 0; i < b->cnt; i++) {
		for (int side = 0; side < BUDGET_SIDE_CNT; side++)
			free(b->limits[i].runs[side].x);
		free(b->limits[i].name);
	}
	free(b->limits);
	free(b->path);
	free(b);
}
