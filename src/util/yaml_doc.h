/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Loads YAML that may be hostile or contain mistakes, by libyaml. */
#ifndef UTIL_YAML_DOC_H
#define UTIL_YAML_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

/* Returns false with the reason and its line. Rejects text for which libyaml would take long, and
 * keys that a mapping has twice. text[len] is readable. Without a document, doc has no root. To be
 * deleted after true. */
bool yaml_doc__load(yaml_document_t *doc, const char *text, size_t len, char why[256],
		    unsigned *line);

#endif /* UTIL_YAML_DOC_H */
