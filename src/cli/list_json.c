/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace list --json: one array, one row per line. */
#include "list_priv.h"

#include "attach/find/elf.h"

#include <string.h>

static const char *dir_name(enum cuda_dir dir)
{
	static const char *const names[] = {
		[DIR_IN] = "in",
		[DIR_OUT] = "out",
		[DIR_INOUT] = "inout",
		[DIR_IN_PTR] = "in_pointer",
		[DIR_IN_STR] = "in_string",
		[DIR_OUT_STR] = "out_string",
		[DIR_OUT_PSTR] = "out_string_pointer",
		[DIR_IN_ARR] = "in_array",
		[DIR_OUT_ARR] = "out_array",
	};

	return dir < sizeof(names) / sizeof(names[0]) && names[dir] ? names[dir] : "in";
}

static void put_json_str(struct out *out, const char *s)
{
	out_json_str(out, s, strlen(s));
}

static void put_json_args(struct out *out, const struct api_fn *fn)
{
	out_lit(out, "\"args\":[");
	for (unsigned i = 0; i < fn->arg_cnt; i++) {
		const struct api_arg *arg = &fn->args[i];

		out_str(out, i ? ",{\"name\":" : "{\"name\":");
		put_json_str(out, arg->name);
		out_lit(out, ",\"type\":");
		put_json_str(out, list_type_name(arg));
		out_lit(out, ",\"direction\":");
		put_json_str(out, dir_name(arg->dir));
		if ((arg->dir == DIR_IN_ARR || arg->dir == DIR_OUT_ARR) &&
		    arg->count_arg < fn->arg_cnt) {
			out_lit(out, ",\"count\":");
			put_json_str(out, fn->args[arg->count_arg].name);
		}
		out_char(out, '}');
	}
	out_char(out, ']');
}

static void put_since(struct out *out, const struct api_fn *fn)
{
	out_u64(out, fn->since / 1000);
	out_char(out, '.');
	out_u64(out, fn->since % 1000 / 10);
}

static void put_json_row(const struct list *l, unsigned id)
{
	const struct api_fn *fn = fnset__fn(l->set, id);
	struct out *out = l->out;

	out_lit(out, "{\"symbol\":");
	put_json_str(out, fn->symbol);
	out_lit(out, ",\"name\":");
	put_json_str(out, fn->name);
	out_lit(out, ",\"api\":");
	put_json_str(out, api_at(fn->api)->name);
	out_lit(out, ",\"class\":");
	put_json_str(out, api_class_name(fn->class));
	out_lit(out, ",\"op\":");
	put_json_str(out, api_op_name(fn->op));
	out_str(out, list_is_default(fn) ? ",\"default\":true" : ",\"default\":false");
	out_lit(out, ",\"detail\":");
	put_json_str(out, detail_name(api_fn_detail(fn)));
	out_str(out, fn->known ? ",\"known\":true" : ",\"known\":false");
	out_lit(out, ",\"since\":");
	if (fn->since) {
		out_char(out, '"');
		put_since(out, fn);
		out_char(out, '"');
	} else {
		out_lit(out, "null");
	}
	out_lit(out, ",\"exported\":");
	out_str(out, !list_lib_of(l, fn)->elf ? "null" : l->exported[id] ? "true" : "false");
	out_char(out, ',');
	put_json_args(out, fn);
	out_char(out, '}');
}

void list_json(const struct list *l)
{
	out_lit(l->out, "[\n");
	for (unsigned i = 0; i < l->id_cnt; i++) {
		put_json_row(l, l->ids[i]);
		out_str(l->out, i + 1 < l->id_cnt ? ",\n" : "\n");
	}
	out_lit(l->out, "]\n");
}
