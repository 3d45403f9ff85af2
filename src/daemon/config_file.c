/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the configuration file: YAML, by libyaml. */
#include "config_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/privs.h"
#include "util/yaml_doc.h"

#define FILE_SZ_MAX (1 << 20)

static const struct {
	const char *name;
	size_t off;
} patterns[] = {
	{"user", offsetof(struct rule, user)},	   {"command", offsetof(struct rule, command)},
	{"cgroup", offsetof(struct rule, cgroup)}, {"container", offsetof(struct rule, container)},
	{"pod", offsetof(struct rule, pod)},	   {"namespace", offsetof(struct rule, namespace)},
};
#define PATTERN_CNT (sizeof(patterns) / sizeof(patterns[0]))

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
		config_wrong(&r->at,
			     "rules: match must have patterns, as in {command: \"*vllm*\"}");
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
			config_wrong(
				&r->at,
				"rules: match has no key '%s'; use user, command, cgroup, container, pod or "
				"namespace",
				name ?: "?");
		else if (!text || !*text)
			config_wrong(&r->at, "rules: match.%s must be a pattern, as in \"*vllm*\"",
				     name);
		else
			config_set_text((char **)((char *)rule + patterns[i].off), text);
	}
}

static void read_rule(struct reader *r, struct rule *rule, yaml_node_t *map)
{
	bool has_level = false, has_match = false;

	go_to(r, map);
	rule->line = r->at.line;
	if (map->type != YAML_MAPPING_NODE) {
		config_wrong(&r->at, "rules: each must have match and level");
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
			if (!scalar(v) || config_read_level(scalar(v), &rule->level))
				config_wrong(&r->at,
					     "rules: level '%s' is not understood; write %s",
					     scalar(v) ?: "?", config_how_to(KEY_LEVEL));
		} else if (!strcmp(name, "inject")) {
			if (!scalar(v) ||
			    (strcmp(scalar(v), "true") != 0 && strcmp(scalar(v), "false") != 0))
				config_wrong(
					&r->at,
					"rules: inject '%s' is not understood; write true or false",
					scalar(v) ?: "?");
			rule->inject = scalar(v) && !strcmp(scalar(v), "true");
		} else {
			config_wrong(
				&r->at,
				"rules: there is no key '%s'; a rule has match, level and inject",
				name);
		}
	}
	r->at.line = rule->line;
	if (!has_match || !has_level)
		config_wrong(&r->at, "rules: this rule has no %s", has_match ? "level" : "match");
}

void config_free_rules(struct config *c)
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
		config_wrong(&r->at, "rules: must be a list, each with match and level");
		return;
	}
	config_free_rules(c);
	cnt = list->data.sequence.items.top - list->data.sequence.items.start;
	c->rules = calloc(cnt + 1, sizeof(*c->rules));
	if (!c->rules) {
		config_wrong(&r->at, "rules: out of memory");
		return;
	}
	for (unsigned i = 0; i < cnt; i++)
		read_rule(r, &c->rules[c->rule_cnt++],
			  yaml_document_get_node(&r->doc, list->data.sequence.items.start[i]));
}

/* Reads the keys of a group. The table limits the depth: a group as a value is rejected. */
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
		key = config_find_key(path);
		if (!*prefix && !strcmp(path, "rules"))
			read_rules(r, v);
		else if (key && scalar(v))
			config_set_value(r->c, key, scalar(v), &r->at);
		else if (key)
			config_wrong(&r->at, "%s: must be %s", path, config_how_to(key->type));
		else if (!config_is_group(path))
			config_unknown_key(path, &r->at);
		else if (v->type == YAML_MAPPING_NODE)
			read_group(r, v, path);
		else if (!scalar(v) || *scalar(v))
			config_wrong(&r->at, "%s: must have keys, indented below it", path);
	}
}

bool config__read_text(struct config *c, const char *name, const char *text, size_t len,
		       struct config_errors *errors)
{
	struct reader r = {.c = c, .at = {.file = name, .errors = errors}};
	unsigned before = errors->cnt;
	yaml_node_t *root;
	char why[256];

	if (!yaml_doc__load(&r.doc, text, len, why, &r.at.line)) {
		config_wrong(&r.at, "%s", why);
		return false;
	}
	r.at.line = 0;
	root = yaml_document_get_root_node(&r.doc);
	if (root && root->type == YAML_MAPPING_NODE)
		read_group(&r, root, "");
	else if (root && !(scalar(root) && !*scalar(root)))
		config_wrong(&r.at, "must have keys, as in \"level: metrics\"");
	yaml_document_delete(&r.doc);
	return errors->cnt == before;
}

/* Errors quote the file to the user who named it, so read it with that user's rights. */
bool config__read_file(struct config *c, const char *path, struct config_errors *errors)
{
	struct place at = {.file = path, .errors = errors};
	char *text = calloc(1, FILE_SZ_MAX + 2);
	bool ok = false;
	size_t len;
	FILE *f;

	privs_lower();
	f = fopen(path, "re");
	if (!f || !text) {
		config_wrong(&at, "cannot be read: %s; name another with --config",
			     strerror(errno));
		goto out;
	}
	len = fread(text, 1, FILE_SZ_MAX + 1, f);
	if (ferror(f))
		config_wrong(&at, "cannot be read: %s", strerror(errno));
	else if (len > FILE_SZ_MAX)
		config_wrong(&at, "larger than 1 MiB: this is not a configuration");
	else
		ok = config__read_text(c, path, text, len, errors);
out:
	if (f)
		fclose(f);
	privs_raise();
	free(text);
	return ok;
}
