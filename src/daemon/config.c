// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#include "otlp.h"
#include "rotate.h"
#include "util/rights.h"
#include "util/strdist.h"
#include "util/units.h"

#define FILE_SZ_MAX (1 << 20)

enum key_type {
	KEY_BOOL,
	KEY_TEXT,
	KEY_TIME,
	KEY_SIZE,
	KEY_COUNT,
	KEY_LEVEL,
	KEY_COMPRESS,
	KEY_HIDE
};

struct key {
	const char *path;
	enum key_type type;
	size_t off;
	const char *preset;
	uint64_t min; /* of numbers; 0 is fine too where zero_ok is set */
	bool zero_ok;
};

#define KEY(path, type, field, preset)                                                             \
	{                                                                                          \
		path, type, offsetof(struct config, field), preset, 0, true                        \
	}
#define NUM(path, type, field, preset, min, zero_ok)                                               \
	{                                                                                          \
		path, type, offsetof(struct config, field), preset, min, zero_ok                   \
	}

static const struct key keys[] = {
	KEY("level", KEY_LEVEL, level, "metrics"),
	NUM("sample.trace", KEY_TIME, sample.trace_ns, "5s", 1000000, false),
	NUM("sample.every", KEY_TIME, sample.every_ns, "5m", 1000000000, true),
	KEY("sample.cooldown", KEY_TIME, sample.cooldown_ns, "1m"),
	KEY("sample.on.error", KEY_BOOL, sample.on.error, "true"),
	KEY("sample.on.xid", KEY_BOOL, sample.on.xid, "true"),
	KEY("sample.on.sync_longer", KEY_TIME, sample.on.sync_longer_ns, "0"),
	KEY("sample.on.memory_above", KEY_SIZE, sample.on.memory_above, "0"),
	KEY("trace.functions", KEY_TEXT, trace.functions, ""),
	KEY("trace.kernel", KEY_BOOL, trace.kernel, "false"),
	KEY("trace.hide", KEY_HIDE, trace.hide, "none"),
	NUM("trace.buffer_size", KEY_SIZE, trace.buffer_size, "8M", 64 << 10, false),
	KEY("files.directory", KEY_TEXT, files.directory, "/var/lib/cudatrace"),
	NUM("files.rotate_size", KEY_SIZE, files.rotate_size, "256M", 64 << 10, false),
	NUM("files.rotate_age", KEY_TIME, files.rotate_age_ns, "1h", 1000000000, true),
	NUM("files.total_size", KEY_SIZE, files.total_size, "4G", 1 << 20, false),
	KEY("files.compress", KEY_COMPRESS, files.compress, "zstd"),
	KEY("files.on_rotate", KEY_TEXT, files.on_rotate, ""),
	NUM("recorder.seconds", KEY_TIME, recorder.keep_ns, "30s", 1000000000, true),
	KEY("recorder.after", KEY_TIME, recorder.after_ns, "1s"),
	NUM("recorder.memory", KEY_SIZE, recorder.memory, "64M", 1 << 20, false),
	KEY("recorder.on.error", KEY_BOOL, recorder.on.error, "true"),
	KEY("recorder.on.xid", KEY_BOOL, recorder.on.xid, "true"),
	KEY("recorder.on.sync_longer", KEY_TIME, recorder.on.sync_longer_ns, "0"),
	KEY("recorder.on.memory_above", KEY_SIZE, recorder.on.memory_above, "0"),
	KEY("metrics.listen", KEY_TEXT, metrics.listen, "127.0.0.1:9464"),
	KEY("metrics.memory", KEY_BOOL, metrics.memory, "true"),
	NUM("metrics.max_series", KEY_COUNT, metrics.max_series, "20000", 100, false),
	NUM("metrics.max_counts", KEY_COUNT, metrics.max_counts, "262144", 1024, false),
	NUM("metrics.max_tasks", KEY_COUNT, metrics.max_tasks, "16384", 256, false),
	KEY("otlp.endpoint", KEY_TEXT, otlp.endpoint, ""),
	KEY("otlp.headers_file", KEY_TEXT, otlp.headers_file, ""),
	KEY("otlp.gzip", KEY_BOOL, otlp.gzip, "false"),
	KEY("otlp.slow_call", KEY_TIME, otlp.slow_call_ns, "10ms"),
	KEY("otlp.iterations", KEY_TEXT, otlp.iterations, ""),
	NUM("otlp.interval", KEY_TIME, otlp.interval_ns, "15s", 1000000000, false),
	NUM("otlp.queue", KEY_COUNT, otlp.queue, "4096", 16, false),
	KEY("ctl.socket", KEY_TEXT, ctl.socket, "/run/cudatrace/ctl.sock"),
	KEY("ctl.group", KEY_TEXT, ctl.group, ""),
};
#define KEY_CNT (sizeof(keys) / sizeof(keys[0]))

static const struct {
	const char *name;
	size_t off;
} patterns[] = {
	{"user", offsetof(struct rule, user)},	   {"command", offsetof(struct rule, command)},
	{"cgroup", offsetof(struct rule, cgroup)}, {"container", offsetof(struct rule, container)},
	{"pod", offsetof(struct rule, pod)},	   {"namespace", offsetof(struct rule, namespace)},
};
#define PATTERN_CNT (sizeof(patterns) / sizeof(patterns[0]))

const char *proc_level_name(enum proc_level l)
{
	static const char *const names[LEVEL_CNT] = {"off", "metrics", "trace", "sampled"};

	return names[l];
}

int proc_level_by_name(const char *name)
{
	for (int i = 0; i < LEVEL_CNT; i++) {
		if (!strcmp(name, proc_level_name(i)))
			return i;
	}
	return -1;
}

/* Where a value stands, for messages. */
struct place {
	const char *file;
	unsigned line; /* 0: the command line */
	struct config_errors *errors;
};

static void wrong(const struct place *at, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void wrong(const struct place *at, const char *fmt, ...)
{
	struct config_errors *e = at->errors;
	size_t len = strlen(e->text);
	va_list args;

	e->cnt++;
	if (at->line)
		len += snprintf(e->text + len, sizeof(e->text) - len, "%s:%u: ", at->file,
				at->line);
	else
		len += snprintf(e->text + len, sizeof(e->text) - len, "%s: ", at->file);
	if (len >= sizeof(e->text))
		return;
	va_start(args, fmt);
	len += vsnprintf(e->text + len, sizeof(e->text) - len, fmt, args);
	va_end(args);
	if (len + 1 < sizeof(e->text))
		strcpy(e->text + len, "\n");
}

/* Values */

static bool set_text(char **to, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return false;
	free(*to);
	*to = copy;
	return true;
}

static int read_bool(const char *text, bool *x)
{
	if (!strcmp(text, "true") || !strcmp(text, "yes") || !strcmp(text, "on"))
		*x = true;
	else if (!strcmp(text, "false") || !strcmp(text, "no") || !strcmp(text, "off"))
		*x = false;
	else
		return -EINVAL;
	return 0;
}

static int read_compress(const char *text, enum compression *x)
{
	for (int i = 0; i < COMPRESS_CNT; i++) {
		if (!strcmp(text, compression_name(i))) {
			*x = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int read_level(const char *text, enum proc_level *x)
{
	int level = proc_level_by_name(text);

	if (level < 0)
		return -EINVAL;
	*x = level;
	return 0;
}

static const char *const hide_names[] = {
	[CT_HIDE_NOTHING] = "none",
	[CT_HIDE_STRINGS] = "strings",
	[CT_HIDE_ARGS] = "arguments",
};

static int read_hide(const char *text, enum ct_hide *x)
{
	for (unsigned i = 0; i < sizeof(hide_names) / sizeof(hide_names[0]); i++) {
		if (!strcmp(text, hide_names[i])) {
			*x = i;
			return 0;
		}
	}
	return -EINVAL;
}

/* How a value of the type is written. */
static const char *const how_to[] = {
	[KEY_BOOL] = "true or false",
	[KEY_TEXT] = "a text",
	[KEY_TIME] = "a time with its unit, as in 500ms, 5s, 10m, 1h",
	[KEY_SIZE] = "a size, as in 64M or 4G",
	[KEY_COUNT] = "a number",
	[KEY_LEVEL] = "one of off, metrics, trace, sampled",
	[KEY_COMPRESS] = "one of none, gzip, zstd",
	[KEY_HIDE] = "one of none, strings, arguments",
};

static int read_value(const struct key *k, void *to, const char *text, uint64_t *num)
{
	switch (k->type) {
	case KEY_BOOL:
		return read_bool(text, to);
	case KEY_TEXT:
		return set_text(to, text) ? 0 : -ENOMEM;
	case KEY_TIME:
		/* Seconds without a unit would be a guess. */
		if (strcmp(text, "0") && !text[strspn(text, "0123456789.")])
			return -EINVAL;
		return opt_read_time(text, 1000000000, num);
	case KEY_SIZE:
		return opt_read_size(text, num);
	case KEY_COUNT:
		return opt_read_u64(text, num);
	case KEY_LEVEL:
		return read_level(text, to);
	case KEY_COMPRESS:
		return read_compress(text, to);
	case KEY_HIDE:
		return read_hide(text, to);
	}
	return -EINVAL;
}

static void set_value(struct config *c, const struct key *k, const char *text,
		      const struct place *at)
{
	void *to = (char *)c + k->off;
	uint64_t num = 0;
	int ret = read_value(k, to, text, &num);

	if (ret == -ENOMEM) {
		wrong(at, "%s: out of memory", k->path);
		return;
	}
	if (ret) {
		wrong(at, "%s: '%s' is not understood; write %s", k->path, text, how_to[k->type]);
		return;
	}
	if (k->type != KEY_TIME && k->type != KEY_SIZE && k->type != KEY_COUNT)
		return;
	if (num < k->min && !(k->zero_ok && !num)) {
		wrong(at, "%s: %s is too small; the default is %s", k->path, text, k->preset);
		return;
	}
	memcpy(to, &num, sizeof(num));
}

static const struct key *find_key(const char *path)
{
	for (unsigned i = 0; i < KEY_CNT; i++) {
		if (!strcmp(keys[i].path, path))
			return &keys[i];
	}
	return NULL;
}

/* A key that begins with path and a dot: path is a group of keys. */
static bool is_group(const char *path)
{
	size_t len = strlen(path);

	for (unsigned i = 0; i < KEY_CNT; i++) {
		if (!strncmp(keys[i].path, path, len) && keys[i].path[len] == '.')
			return true;
	}
	return false;
}

static void unknown_key(const char *path, const struct place *at)
{
	unsigned best = str_distance_limit(strlen(path)) + 1;
	const char *near = NULL;

	for (unsigned i = 0; i < KEY_CNT; i++) {
		unsigned d = str_distance(path, strlen(path), keys[i].path, strlen(keys[i].path));

		if (d < best) {
			best = d;
			near = keys[i].path;
		}
	}
	if (near)
		wrong(at, "%s: there is no such key; did you mean %s?", path, near);
	else
		wrong(at, "%s: there is no such key; docs/DAEMON.md has all of them", path);
}

/* The file */

struct reader {
	struct config *c;
	yaml_document_t doc;
	struct place at;
};

static const char *scalar(const yaml_node_t *n)
{
	return n && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : NULL;
}

static void go_to(struct reader *r, const yaml_node_t *n)
{
	r->at.line = n->start_mark.line + 1;
}

static void read_match(struct reader *r, struct rule *rule, yaml_node_t *map)
{
	if (map->type != YAML_MAPPING_NODE) {
		wrong(&r->at, "rules: match must hold patterns, as in {command: \"*vllm*\"}");
		return;
	}
	for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
	     p++) {
		yaml_node_t *k = yaml_document_get_node(&r->doc, p->key);
		const char *name = scalar(k);
		const char *text = scalar(yaml_document_get_node(&r->doc, p->value));
		unsigned i = 0;

		go_to(r, k);
		while (name && i < PATTERN_CNT && strcmp(patterns[i].name, name))
			i++;
		if (!name || i == PATTERN_CNT)
			wrong(&r->at,
			      "rules: match knows no '%s'; it knows user, command, cgroup, "
			      "container, pod and namespace",
			      name ?: "?");
		else if (!text || !*text)
			wrong(&r->at, "rules: match.%s must be a pattern, as in \"*vllm*\"", name);
		else
			set_text((char **)((char *)rule + patterns[i].off), text);
	}
}

static void read_rule(struct reader *r, struct rule *rule, yaml_node_t *map)
{
	bool has_level = false, has_match = false;

	go_to(r, map);
	rule->line = r->at.line;
	if (map->type != YAML_MAPPING_NODE) {
		wrong(&r->at, "rules: each must have match and level");
		return;
	}
	for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
	     p++) {
		yaml_node_t *k = yaml_document_get_node(&r->doc, p->key);
		yaml_node_t *v = yaml_document_get_node(&r->doc, p->value);
		const char *name = scalar(k) ?: "?";

		go_to(r, k);
		if (!strcmp(name, "match")) {
			has_match = true;
			read_match(r, rule, v);
		} else if (!strcmp(name, "level")) {
			has_level = true;
			if (!scalar(v) || read_level(scalar(v), &rule->level))
				wrong(&r->at, "rules: level '%s' is not understood; write %s",
				      scalar(v) ?: "?", how_to[KEY_LEVEL]);
		} else {
			wrong(&r->at, "rules: there is no key '%s'; a rule has match and level",
			      name);
		}
	}
	r->at.line = rule->line;
	if (!has_match || !has_level)
		wrong(&r->at, "rules: this one lacks its %s", has_match ? "level" : "match");
}

static void free_rules(struct config *c)
{
	for (unsigned i = 0; i < c->rule_cnt; i++) {
		for (unsigned n = 0; n < PATTERN_CNT; n++)
			free(*(char **)((char *)&c->rules[i] + patterns[n].off));
	}
	free(c->rules);
	c->rules = NULL;
	c->rule_cnt = 0;
}

static void read_rules(struct reader *r, yaml_node_t *list)
{
	struct config *c = r->c;
	unsigned cnt;

	if (list->type != YAML_SEQUENCE_NODE) {
		wrong(&r->at, "rules: must be a list, each with match and level");
		return;
	}
	free_rules(c);
	cnt = list->data.sequence.items.top - list->data.sequence.items.start;
	c->rules = calloc(cnt + 1, sizeof(*c->rules));
	if (!c->rules) {
		wrong(&r->at, "rules: out of memory");
		return;
	}
	for (unsigned i = 0; i < cnt; i++)
		read_rule(r, &c->rules[c->rule_cnt++],
			  yaml_document_get_node(&r->doc, list->data.sequence.items.start[i]));
}

/* The keys of a group. Its depth is that of the table: a group in a value is refused. */
static void read_group(struct reader *r, yaml_node_t *map, const char *prefix)
{
	char path[128];

	for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
	     p++) {
		yaml_node_t *k = yaml_document_get_node(&r->doc, p->key);
		yaml_node_t *v = yaml_document_get_node(&r->doc, p->value);
		const struct key *key;

		go_to(r, k);
		snprintf(path, sizeof(path), "%s%s%.60s", prefix, *prefix ? "." : "",
			 scalar(k) ?: "?");
		key = find_key(path);
		if (!*prefix && !strcmp(path, "rules"))
			read_rules(r, v);
		else if (key && scalar(v))
			set_value(r->c, key, scalar(v), &r->at);
		else if (key)
			wrong(&r->at, "%s: must be %s", path, how_to[key->type]);
		else if (!is_group(path))
			unknown_key(path, &r->at);
		else if (v->type == YAML_MAPPING_NODE)
			read_group(r, v, path);
		else if (!scalar(v) || *scalar(v))
			wrong(&r->at, "%s: must hold keys of its own, indented below it", path);
	}
}

bool config__read_text(struct config *c, const char *name, const char *text, size_t len,
		       struct config_errors *errors)
{
	struct reader r = {.c = c, .at = {.file = name, .errors = errors}};
	unsigned before = errors->cnt;
	yaml_parser_t parser;
	yaml_node_t *root;

	if (!yaml_parser_initialize(&parser)) {
		wrong(&r.at, "out of memory");
		return false;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &r.doc)) {
		r.at.line = parser.problem_mark.line + 1;
		wrong(&r.at, "not YAML: %s; look at the indentation and quotes there",
		      parser.problem ?: "it cannot be read");
		yaml_parser_delete(&parser);
		return false;
	}
	root = yaml_document_get_root_node(&r.doc);
	if (root && root->type == YAML_MAPPING_NODE)
		read_group(&r, root, "");
	else if (root && !(scalar(root) && !*scalar(root)))
		wrong(&r.at, "must hold keys, as in \"level: metrics\"");
	yaml_document_delete(&r.doc);
	yaml_parser_delete(&parser);
	return errors->cnt == before;
}

/* What is wrong with it is told to who names it: he must be one who may read it. */
bool config__read_file(struct config *c, const char *path, struct config_errors *errors)
{
	struct place at = {.file = path, .errors = errors};
	char *text = malloc(FILE_SZ_MAX + 1);
	bool ok = false;
	size_t len;
	FILE *f;

	rights_lower();
	f = fopen(path, "re");
	if (!f || !text) {
		wrong(&at, "cannot be read: %s; name another with --config", strerror(errno));
		goto out;
	}
	len = fread(text, 1, FILE_SZ_MAX + 1, f);
	if (ferror(f))
		wrong(&at, "cannot be read: %s", strerror(errno));
	else if (len > FILE_SZ_MAX)
		wrong(&at, "larger than 1 MiB: this is no configuration");
	else
		ok = config__read_text(c, path, text, len, errors);
out:
	if (f)
		fclose(f);
	rights_raise();
	free(text);
	return ok;
}

bool config__set(struct config *c, const char *assignment, struct config_errors *errors)
{
	struct place at = {.file = "--set", .errors = errors};
	const char *eq = strchr(assignment, '=');
	unsigned before = errors->cnt;
	char path[128];

	if (!eq || eq == assignment || eq - assignment >= (long)sizeof(path)) {
		wrong(&at, "'%s': write KEY=VALUE, as in --set level=trace", assignment);
		return false;
	}
	memcpy(path, assignment, eq - assignment);
	path[eq - assignment] = '\0';
	if (find_key(path))
		set_value(c, find_key(path), eq + 1, &at);
	else
		unknown_key(path, &at);
	return errors->cnt == before;
}

/* A dump takes up to recorder.memory, beside the file that is being written. */
static void check_dump_fits(const struct config *c, struct place *at)
{
	uint64_t file = rotate_file_room(c->files.rotate_size, c->files.compress);
	char memory[32], size[32], total[32];

	if (c->recorder.memory + file <= c->files.total_size)
		return;
	opt_write_size(c->recorder.memory, memory, sizeof(memory));
	opt_write_size(c->files.rotate_size, size, sizeof(size));
	opt_write_size(c->files.total_size, total, sizeof(total));
	wrong(at,
	      "recorder.memory (%s) and a file (files.rotate_size, %s, and 192 KiB) do not fit into "
	      "files.total_size (%s): lower recorder.memory, or set recorder.seconds to 0",
	      memory, size, total);
}

bool config__check(const struct config *c, const char *name, struct config_errors *errors)
{
	struct place at = {.file = name, .errors = errors};
	unsigned before = errors->cnt;
	const char *l = c->metrics.listen, *e = c->otlp.endpoint;

	if (*l && (!strrchr(l, ':') || !strrchr(l, ':')[1]))
		wrong(&at, "metrics.listen: '%s' has no port; write it as 127.0.0.1:9464", l);
	if (*e && otlp_endpoint_problem(e))
		wrong(&at, "otlp.endpoint: '%s': %s", e, otlp_endpoint_problem(e));
	/* Who asks by ctl may not be allowed to look. */
	if (*c->otlp.headers_file && access(c->otlp.headers_file, F_OK) && errno != EACCES)
		wrong(&at, "otlp.headers_file: %s cannot be read: %s", c->otlp.headers_file,
		      strerror(errno));
	if (c->files.rotate_size > c->files.total_size / 2)
		wrong(&at, "files.rotate_size must be at most half of files.total_size");
	else if (c->recorder.keep_ns)
		check_dump_fits(c, &at);
	if (c->trace.buffer_size & (c->trace.buffer_size - 1))
		wrong(&at, "trace.buffer_size must be a power of two, as in 8M");
	if (c->trace.hide == CT_HIDE_ARGS &&
	    (c->sample.on.memory_above || c->recorder.on.memory_above))
		wrong(&at, "memory_above needs sizes, and trace.hide: arguments hides them; set "
			   "one of the two to 0 or none");
	if (c->sample.every_ns && c->sample.every_ns < c->sample.trace_ns)
		wrong(&at, "sample.every must be longer than sample.trace");
	return errors->cnt == before;
}

void config__print(const struct config *c,
		   void (*line)(void *ctx, const char *key, const char *val), void *ctx)
{
	for (unsigned i = 0; i < KEY_CNT; i++) {
		const void *p = (const char *)c + keys[i].off;
		char buf[64];

		switch (keys[i].type) {
		case KEY_BOOL:
			line(ctx, keys[i].path, *(const bool *)p ? "true" : "false");
			break;
		case KEY_TEXT:
			line(ctx, keys[i].path, *(char *const *)p);
			break;
		case KEY_TIME:
			snprintf(buf, sizeof(buf), "%gs", *(const uint64_t *)p / 1e9);
			line(ctx, keys[i].path, buf);
			break;
		case KEY_SIZE:
			opt_write_size(*(const uint64_t *)p, buf, sizeof(buf));
			line(ctx, keys[i].path, buf);
			break;
		case KEY_COUNT:
			snprintf(buf, sizeof(buf), "%llu",
				 (unsigned long long)*(const uint64_t *)p);
			line(ctx, keys[i].path, buf);
			break;
		case KEY_LEVEL:
			line(ctx, keys[i].path, proc_level_name(*(const enum proc_level *)p));
			break;
		case KEY_COMPRESS:
			line(ctx, keys[i].path, compression_name(*(const enum compression *)p));
			break;
		case KEY_HIDE:
			line(ctx, keys[i].path, hide_names[*(const enum ct_hide *)p]);
			break;
		}
	}
}

struct config *config__new(void)
{
	struct config *c = calloc(1, sizeof(*c));
	struct config_errors errors = {0};
	struct place at = {.file = "default", .errors = &errors};

	for (unsigned i = 0; c && i < KEY_CNT; i++)
		set_value(c, &keys[i], keys[i].preset, &at);
	if (c && errors.cnt) {
		config__free(c);
		return NULL;
	}
	return c;
}

void config__free(struct config *c)
{
	if (!c)
		return;
	free_rules(c);
	for (unsigned i = 0; i < KEY_CNT; i++) {
		if (keys[i].type == KEY_TEXT)
			free(*(char **)((char *)c + keys[i].off));
	}
	free(c);
}
