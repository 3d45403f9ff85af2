/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace list: the functions that are shown, as text (cmd_list.c) and as JSON (list_json.c). */
#ifndef CLI_LIST_PRIV_H
#define CLI_LIST_PRIV_H

#include "cmd.h"

#include "attach/find/target.h"
#include "decode/cuda.h"
#include "decode/fnset.h"
#include "util/out.h"

/* Everything that is printed is put together here first. */
struct list {
	const struct opts *o;
	struct out *out;
	struct fnset *set;
	unsigned *ids; /* rows that are shown */
	unsigned id_cnt;
	/* The files that the rows are compared with, one of a family. */
	struct target_libs found;
	struct list_lib {
		const char *path; /* NULL: none */
		struct elf_lib *elf;
	} libs[API_CNT];
	bool any;	/* is there */
	bool *exported; /* by id */
};

static inline const struct list_lib *list_lib_of(const struct list *l, const struct api_fn *fn)
{
	return &l->libs[fn->api];
}

/* At that level of --detail? */
static inline bool list_is_in(const struct api_fn *fn, enum api_detail d)
{
	return !api_at(fn->api)->is_asked && api_fn_detail(fn) <= d;
}

/* Without an option? */
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
