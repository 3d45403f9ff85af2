/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int write_ascii(const struct report *r, struct out *o, const struct term *term)
{
	struct term mem = *term;
	char *text = NULL;
	size_t len = 0;

	mem.f = open_memstream(&text, &len);
	if (!mem.f)
		return -ENOMEM;
	report__print(r, &mem);
	if (fclose(mem.f)) {
		free(text);
		return -ENOMEM;
	}
	out_bytes(o, text, len);
	free(text);
	return 0;
}

static int write_json(const struct report *r, struct out *o, const struct term *term)
{
	struct json j;

	json__init(&j, o);
	report__json(r, &j);
	out_char(o, '\n');
	return 0;
}

static const struct report_format formats[] = {
	{"ascii", ".txt", false, write_ascii},
	{"json", ".json", false, write_json},
};

const struct report_format *report_formats(unsigned *cnt)
{
	*cnt = sizeof(formats) / sizeof(formats[0]);
	return formats;
}

const struct report_format *report_format_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	return NULL;
}

const struct report_format *report_format_by_path(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		size_t n = strlen(formats[i].suffix);

		if (len > n && !strcmp(path + len - n, formats[i].suffix))
			return &formats[i];
	}
	return &formats[0];
}
