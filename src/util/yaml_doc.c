/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "yaml_doc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 100u
#define MARKS_MAX 10000u

/* libyaml's time grows with the square of the depth. Brackets in texts count, too. */
static bool is_too_deep(const char *text, size_t len)
{
	unsigned depth = 0;

	for (size_t i = 0; i < len && depth <= DEPTH_MAX; i++) {
		if (text[i] == '[' || text[i] == '{')
			depth++;
		else if (depth && (text[i] == ']' || text[i] == '}'))
			depth--;
	}
	return depth > DEPTH_MAX;
}

static bool is_mark(const char *text, size_t i)
{
	signed char before = i ? text[i - 1] : '\n', after = text[i + 1];

	if (text[i] == '%')
		return before == '\n' || before == '\r' || before < 0; /* line ends of Unicode */
	return (text[i] == '&' || text[i] == '*') && !isalnum((unsigned char)before) &&
	       (isalnum((unsigned char)after) || after == '_' || after == '-');
}

/* It also grows with the square of the number of anchors (&), aliases (*) and directives (%). These
 * characters in texts count, too. text[len] is readable. */
static bool has_too_many_marks(const char *text, size_t len)
{
	unsigned cnt = 0;

	for (size_t i = 0; i < len; i++)
		cnt += is_mark(text, i);
	return cnt > MARKS_MAX;
}

struct found_key {
	const char *name;
	size_t line;
};

static int by_name(const void *a, const void *b)
{
	const struct found_key *x = a, *y = b;
	int d = strcmp(x->name, y->name);

	return d ?: (x->line > y->line) - (x->line < y->line);
}

/* Returns the key that the mapping has twice, or NULL. keys has room for all of its keys. */
static const struct found_key *twice(yaml_document_t *doc, const yaml_node_t *map,
				     struct found_key *keys)
{
	size_t cnt = 0;

	for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
	     p++) {
		const yaml_node_t *k = yaml_document_get_node(doc, p->key);

		if (k->type == YAML_SCALAR_NODE)
			keys[cnt++] = (struct found_key){(const char *)k->data.scalar.value,
							 k->start_mark.line + 1};
	}
	qsort(keys, cnt, sizeof(*keys), by_name);
	for (size_t i = 1; i < cnt; i++)
		if (!strcmp(keys[i - 1].name, keys[i].name))
			return &keys[i];
	return NULL;
}

static bool has_no_key_twice(yaml_document_t *doc, char why[256], unsigned *line)
{
	size_t nodes = doc->nodes.top - doc->nodes.start;
	/* Each key is a node. */
	struct found_key *keys = calloc(nodes + 1, sizeof(*keys));
	const struct found_key *found = NULL;

	snprintf(why, 256, "out of memory");
	for (yaml_node_t *n = doc->nodes.start; keys && n < doc->nodes.top && !found; n++)
		if (n->type == YAML_MAPPING_NODE)
			found = twice(doc, n, keys);
	if (found) {
		*line = found->line;
		snprintf(why, 256, "the key '%.64s' is there twice: remove one", found->name);
	}
	free(keys);
	return keys && !found;
}

bool yaml_doc__load(yaml_document_t *doc, const char *text, size_t len, char why[256],
		    unsigned *line)
{
	yaml_parser_t parser;
	bool ok;

	*line = 1;
	if (is_too_deep(text, len)) {
		snprintf(why, 256, "not YAML: more than %u [ and { are open at once", DEPTH_MAX);
		return false;
	}
	if (has_too_many_marks(text, len)) {
		snprintf(why, 256,
			 "not read: more than %u anchors (&), aliases (*) and directives (%%)",
			 MARKS_MAX);
		return false;
	}
	if (!yaml_parser_initialize(&parser)) {
		snprintf(why, 256, "out of memory");
		return false;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	ok = yaml_parser_load(&parser, doc);
	if (!ok) {
		*line = parser.problem_mark.line + 1;
		snprintf(why, 256, "not YAML: %s; look at the indentation and quotes there",
			 parser.problem ?: "it cannot be read");
	} else if (!has_no_key_twice(doc, why, line)) {
		yaml_document_delete(doc);
		ok = false;
	}
	yaml_parser_delete(&parser);
	return ok;
}
