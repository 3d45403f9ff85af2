/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "dossier_verdict.h"

#include "dossier_worker.h"
#include "saved/parse.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A text of len bytes, with PARSE_SLACK zeros after it. */
static char *read_all(int folder, const char *name, size_t *len)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	char *text = NULL;
	ssize_t n = 1;

	*len = 0;
	if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0)
		text = calloc(1, st.st_size + PARSE_SLACK);
	while (text && n > 0 && *len < (size_t)st.st_size) {
		n = read(fd, text + *len, st.st_size - *len);
		*len += n > 0 ? n : 0;
	}
	if (fd >= 0)
		close(fd);
	if (*len && text[*len - 1] == '\n')
		text[--*len] = '\0';
	return text;
}

static const struct member *find(const struct json_value *in, const char *name, enum parse_val val)
{
	for (unsigned i = 0; in->is_object && i < in->cnt; i++) {
		const struct member *m = &in->m[i];

		if (m->name_len == strlen(name) && !memcmp(m->name, name, m->name_len))
			return m->val == val ? m : NULL;
	}
	return NULL;
}

/* Returns whether the verdict was taken and no later one is better. */
static bool take(const struct json_value *failure, uint32_t pid, struct dossier_result *res)
{
	const struct member *of = find(failure, "pid", VAL_NUMBER);
	const struct member *verdict = find(failure, "verdict", VAL_STRING);
	bool is_own = of && strtoul(of->text, NULL, 10) == pid;

	if (!verdict || (of && !is_own) || (!is_own && res->verdict[0]))
		return false;
	snprintf(res->verdict, sizeof(res->verdict), "%.*s", (int)verdict->len, verdict->text);
	res->certain = find(failure, "certain", VAL_TRUE);
	return is_own;
}

void dossier_verdict_read(int folder, const char *name, uint32_t pid, struct dossier_result *res)
{
	struct parser *parsers[3] = {parser__new(), parser__new(), parser__new()};
	struct json_value report, list, failure;
	const struct member *failures = NULL;
	size_t len;
	char *text = read_all(folder, name, &len);

	if (text && parsers[0] && parsers[1] && parsers[2] &&
	    !parser__line(parsers[0], text, len, &report))
		failures = find(&report, "failure", VAL_ARRAY);
	if (!failures || parser__slice(parsers[1], failures, &list))
		goto out;
	for (unsigned i = 0; i < list.cnt; i++)
		if (list.m[i].val == VAL_OBJECT &&
		    !parser__slice(parsers[2], &list.m[i], &failure) && take(&failure, pid, res))
			break;
out:
	for (int i = 0; i < 3; i++)
		parser__free(parsers[i]);
	free(text);
}
