/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The arguments of tools, from JSON that a client sent: checked by the rows of tools.def. */
#ifndef MCP_ARGS_H
#define MCP_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer.h"

enum tool_id {
#define TOOL(name, title, text) TOOL_##name,
#define ARG(tool, name, type, need, min, max, text)
#include "tools.def"
	TOOL_CNT
};

/* ARG_events_pid, ... */
enum arg_id {
#define TOOL(name, title, text)
#define ARG(tool, name, type, need, min, max, text) ARG_##tool##_##name,
#include "tools.def"
	ARG_CNT
};

#define ARG_LIST_MAX 64

struct arg_list {
	char *v[ARG_LIST_MAX];
	unsigned cnt;
};

struct arg_val {
	bool is_set;
	char *str; /* STRING */
	double num;
	struct arg_list list;
};

/* Values of the arguments of one call; those of other tools are not set. */
struct args {
	struct arg_val v[ARG_CNT];
};

/* Returns TOOL_CNT if there is none. */
enum tool_id tool_by_name(const char *name, size_t len);
/* Writes the list of tools, with the schemas of their arguments. */
void tools_json(struct json *j);
/* Reads the arguments of a call; m NULL: there are none. Returns false after answer__fail(). */
bool args__read(struct args *args, enum tool_id t, const struct member *m, struct answer *a);
void args__free(struct args *args);

bool arg_list_has(const struct arg_list *l, const char *s, size_t len);
/* The STRING; NULL: it was not given. */
static inline const char *arg_str(const struct args *args, enum arg_id id)
{
	return args->v[id].str;
}

/* Takes columns, rows and page. Returns false after answer__fail(). */
bool args__page(const struct args *args, enum arg_id columns, struct answer *a);

#endif /* MCP_ARGS_H */
