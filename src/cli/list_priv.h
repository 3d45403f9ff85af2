/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace list: the functions to show, printed as text (cmd_list.c) or JSON (list_json.c). */
#ifndef CLI_LIST_PRIV_H
#define CLI_LIST_PRIV_H

#include "cmd.h"

#include "attach/find/target.h"
#include "decode/cuda.h"
#include "decode/fnset.h"
#include "util/out.h"

/* Everything to print is collected here first. */
struct list {
	const struct opts *o;
	struct out *out;
	struct fnset *set;
	unsigned *ids; /* rows to show */
	unsigned id_cnt;
	/* The files that the rows are compared with, one for each family. */
	struct target_libs found;
	struct list_lib {
		const char *path; /* NULL: none */
		struct elf_lib *elf;
	} libs[API_CNT];
	bool any;	/* at least one file was found */
	bool *exported; /* by id */
};

static inline const struct list_lib *list_lib_of(const struct list *l, const struct api_fn *fn)
{
	return &l->libs[fn->api];
}

/* Returns whether the function belongs to this detail level. */
static inline bool list_is_in(const struct api_fn *fn, enum api_detail d)
{
	return !api_at(fn->api)->is_requested && api_fn_detail(fn) <= d;
}

/* Returns whether the function is traced without an option. */
static inline bool list_is_default(const struct api_fn *fn)
{
	return list_is_in(fn, DETAIL_NORMAL);
}

static inline const char *list_type_name(const struct api_arg *arg)
{
	bool is_string =
		arg->dir == DIR_IN_STR || arg->dir == DIR_OUT_STR || arg->dir == DIR_OUT_PSTR;

	return is_string || !arg->type ? "char" : arg->type->name;
}

void list_json(const struct list *l);

#endif /* CLI_LIST_PRIV_H */
