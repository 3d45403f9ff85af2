/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The environment of the process. libc's functions for it may be replaced by the program (a shell),
 * and may allocate. The library changes it only while it is loaded at program start, when no other
 * thread reads it.
 */
#include "inject.h"

#include <string.h>

extern char **environ __attribute__((weak));

char **env_find(const char *name)
{
	size_t len = strlen(name);

	for (char **e = &environ ? environ : NULL; e && *e; e++)
		if (!strncmp(*e, name, len) && (*e)[len] == '=')
			return e;
	return NULL;
}

const char *env_get(const char *name)
{
	char **e = env_find(name);

	return e ? *e + strlen(name) + 1 : NULL;
}

void env_remove(const char *name)
{
	char **e = env_find(name);

	for (; e && *e; e++)
		e[0] = e[1];
}

bool env_set(const char *name, const char *value)
{
	size_t cnt = 0, len = strlen(name) + 1, size = len + strlen(value) + 1;
	char **e = env_find(name), **all, *text;

	if (!&environ)
		return false;
	while (environ && environ[cnt])
		cnt++;
	all = sys_map(size + (cnt + 2) * sizeof(*all), 0);
	if (!all)
		return false;
	text = (char *)(all + cnt + 2);
	memcpy(text, name, len - 1);
	text[len - 1] = '=';
	strcpy(text + len, value);
	if (e) {
		*e = text;
		return true;
	}
	memcpy(all, environ, cnt * sizeof(*all));
	all[cnt] = text;
	environ = all;
	return true;
}
