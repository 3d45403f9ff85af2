/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cudatrace list: the API table, and what a libcuda file exports of it. --ioctls: the driver's
 * tables. --schema: the schema of a JSONL line, of the JSON of a report or diff, or of a budget.
 *
 *	SYMBOL             CLASS     OP      TRACED  SINCE  LIB
 *	cuMemAlloc_v2      memory    alloc   yes     3.2    yes
 *	    out CUdeviceptr *dptr, size_t bytesize
 */
#include "list_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/find/elf.h"
#include "list.h"
#include "report/report.h"
#include "util/log.h"
#include "util/plain.h"
#include "util/plural.h"

#define LIST_COLUMNS 100
#define ARGS_INDENT  4

/* The library file */

static int open_lib(struct list *l, const struct target_lib *t, char *msg, size_t msg_sz)
{
	struct list_lib *lib = &l->libs[t->api->id];
	int fd = target_lib__open(t);

	if (fd < 0) {
		snprintf(msg, msg_sz, "%s", strerror(-fd));
		return fd;
	}
	lib->elf = elf_lib__read(fd, t->api, msg, msg_sz);
	close(fd);
	if (!lib->elf)
		return -EINVAL;
	lib->path = t->path;
	l->any = true;
	return 0;
}

static int find_given_lib(struct list *l)
{
	char msg[256];
	int ret = target_libs__add_file(&l->found, l->o->trace.libcuda);

	if (ret)
		return ret;
	ret = open_lib(l, &l->found.libs[0], msg, sizeof(msg));
	if (ret)
		err("cannot read %s: %s; give --libcuda a libcuda.so.1 of this machine",
		    l->o->trace.libcuda, msg);
	return ret;
}

/* Without --libcuda the column is optional: no file, no column. */
static void find_system_lib(struct list *l)
{
	char msg[256];

	target_libs__add_system(&l->found);
	for (unsigned i = 0; i < l->found.cnt; i++) {
		struct list_lib *lib = &l->libs[l->found.libs[i].api->id];

		if (lib->elf && !lib->elf->is_stub)
			continue;
		elf_lib__free(lib->elf);
		*lib = (struct list_lib){0};
		if (open_lib(l, &l->found.libs[i], msg, sizeof(msg)))
			dbg("%s: %s", l->found.libs[i].path, msg);
	}
	for (int a = 0; a < API_CNT; a++) {
		if (!l->libs[a].elf || !l->libs[a].elf->is_stub)
			continue;
		elf_lib__free(l->libs[a].elf);
		l->libs[a] = (struct list_lib){0};
	}
}

/* Adds rows for symbols that are missing from the table. */
static int match_lib(struct list *l)
{
	l->exported = calloc(CT_MAX_FUNCS, sizeof(*l->exported));
	if (!l->exported)
		return -ENOMEM;
	for (int a = 0; a < API_CNT; a++) {
		const struct elf_lib *elf = l->libs[a].elf;

		for (unsigned i = 0; elf && i < elf->sym_cnt; i++) {
			int id = fnset__id(l->set, elf->syms[i].name);

			if (id >= 0)
				l->exported[id] = true;
		}
		for (unsigned i = 0; elf && i < elf->ifunc_cnt; i++) {
			int id = fnset__find(l->set, elf->ifuncs[i]);

			if (id >= 0)
				l->exported[id] = true;
		}
	}
	return 0;
}

/* Selecting rows */

static int choose(struct list *l)
{
	const struct strv *sel = &l->o->trace.select;
	unsigned cnt = fnset__cnt(l->set);
	char msg[512];

	fnset__set_detail(l->set, l->o->trace.detail);
	for (unsigned i = 0; i < sel->cnt; i++) {
		if (fnset__select(l->set, sel->v[i], msg, sizeof(msg))) {
			err("--trace: %s", msg);
			return -EINVAL;
		}
	}
	l->ids = calloc(cnt + 1, sizeof(*l->ids));
	if (!l->ids)
		return -ENOMEM;
	for (unsigned id = 0; id < cnt; id++) {
		const struct api_fn *fn = fnset__fn(l->set, id);

		if ((!sel->cnt && !l->o->trace.detail && !api_at(fn->api)->is_requested) ||
		    fnset__wanted(l->set, id))
			l->ids[l->id_cnt++] = id;
	}
	return 0;
}

/* Text */

/* Names from an untrusted file end up on a terminal. */
static void put_plain(struct out *out, const char *s, size_t width)
{
	size_t n = 0;

	for (; *s; s++, n++)
		out_char(out, *s > ' ' && *s < 0x7f ? *s : '?');
	for (; n < width; n++)
		out_char(out, ' ');
}

static void format_arg(const struct api_fn *fn, const struct api_arg *arg, char *buf, size_t sz)
{
	static const struct {
		const char *before, *after;
	} forms[] = {
		[DIR_IN] = {"", " "},
		[DIR_OUT] = {"out ", " *"},
		[DIR_INOUT] = {"inout ", " *"},
		[DIR_IN_PTR] = {"const ", " *"},
		[DIR_IN_STR] = {"const ", " *"},
		[DIR_OUT_STR] = {"out ", " *"},
		[DIR_OUT_PSTR] = {"out const ", " **"},
		[DIR_IN_ARR] = {"const ", " "},
		[DIR_OUT_ARR] = {"out ", " "},
	};
	const char *type = list_type_name(arg), *after = forms[arg->dir].after;
	size_t len = strcspn(type, "[");
	bool is_array = arg->dir == DIR_IN_ARR || arg->dir == DIR_OUT_ARR;
	const char *count =
		is_array && arg->count_arg < fn->arg_cnt ? fn->args[arg->count_arg].name : NULL;

	/* "void *p", not "void * p"; "char id[8]", not "char[8] *id" */
	if (type[len - 1] == '*' && *after == ' ')
		after++;
	if (type[len])
		after = " ";
	snprintf(buf, sz, "%s%.*s%s%s%s%s%s%s", forms[arg->dir].before, (int)len, type, after,
		 arg->name, type + len, count ? "[" : "", count ? count : "", count ? "]" : "");
}

static void print_args(struct out *out, const struct api_fn *fn)
{
	size_t col = 0;
	char buf[160];

	for (unsigned i = 0; i < fn->arg_cnt; i++) {
		bool is_last = i + 1 == fn->arg_cnt;
		size_t len;

		format_arg(fn, &fn->args[i], buf, sizeof(buf));
		len = strlen(buf);
		/* A blank before it, a comma after it. */
		if (col && col + 1 + len + !is_last > LIST_COLUMNS) {
			out_char(out, '\n');
			col = 0;
		}
		if (col) {
			out_char(out, ' ');
			col++;
		} else {
			out_lit(out, "    ");
			col = ARGS_INDENT;
		}
		out_bytes(out, buf, len);
		col += len;
		if (!is_last) {
			out_char(out, ',');
			col++;
		}
	}
	if (fn->arg_cnt)
		out_char(out, '\n');
}

struct widths {
	size_t symbol, class, op;
};

static void grow(size_t *width, const char *s)
{
	size_t len = strlen(s);

	/* The rest of the line needs 47 columns; a longer name misaligns only its own line. */
	if (len > *width && len <= LIST_COLUMNS - 47)
		*width = len;
}

static void print_row(const struct list *l, const struct widths *w, unsigned id)
{
	const struct api_fn *fn = fnset__fn(l->set, id);
	struct out *out = l->out;
	char since[16] = "-";

	if (fn->since)
		snprintf(since, sizeof(since), "%u.%u", fn->since / 1000u, fn->since % 1000u / 10u);
	put_plain(out, fn->symbol, w->symbol + 2);
	put_plain(out, api_class_name(fn->class), w->class + 2);
	put_plain(out, api_op_name(fn->op), w->op + 2);
	put_plain(out, list_is_default(fn) ? "yes" : "no", sizeof("TRACED  ") - 1);
	put_plain(out, since, l->any ? sizeof("SINCE  ") - 1 : 0);
	if (l->any)
		out_str(out, !list_lib_of(l, fn)->elf ? "-" : l->exported[id] ? "yes" : "no");
	out_char(out, '\n');
	print_args(out, fn);
}

/* Prints how many of the shown rows the file of a family exports. */
static void print_lib(const struct list *l, enum api_id api)
{
	const struct list_lib *lib = &l->libs[api];
	unsigned cnt = 0, exported_cnt = 0, unknown_cnt = 0;
	char text[256];

	for (unsigned i = 0; i < l->id_cnt; i++) {
		const struct api_fn *fn = fnset__fn(l->set, l->ids[i]);

		if (fn->api != api)
			continue;
		cnt++;
		unknown_cnt += !fn->known;
		exported_cnt += lib->elf && l->exported[l->ids[i]];
	}
	if (!cnt)
		return;
	if (!lib->elf) {
		snprintf(text, sizeof(text), "No %s found to compare with%s.\n",
			 api_lib_name(api_at(api)),
			 api == API_CUDA ? "; name one with --libcuda" : "");
		out_str(l->out, text);
		return;
	}
	snprintf(text, sizeof(text), "LIB%s%s is ", api == API_CUDA ? "" : " of ",
		 api == API_CUDA ? "" : api_at(api)->name);
	out_str(l->out, text);
	plain_put(l->out, lib->path);
	snprintf(text, sizeof(text), ": it has %u of them", exported_cnt);
	out_str(l->out, text);
	if (elf_lib_ifuncs(lib->elf, l->set, text + 2, sizeof(text) - 2))
		out_str(l->out, memcpy(text, "; ", 2));
	if (unknown_cnt) {
		snprintf(text, sizeof(text), ", %u not in the table (traced with raw arguments)",
			 unknown_cnt);
		out_str(l->out, text);
	}
	out_lit(l->out, ".\n");
	if (lib->elf->is_stub)
		out_lit(l->out, "It is a stub for linking: no program calls into it.\n");
	if (lib->elf->alias_cnt && !l->o->trace.select.cnt && !l->o->trace.detail) {
		snprintf(text, sizeof(text), "Other names for the same functions: %u.\n",
			 lib->elf->alias_cnt);
		out_str(l->out, text);
	}
}

/* Prints how many of the shown rows each level has. */
static void print_details(const struct list *l)
{
	char text[256];

	for (enum api_detail d = DETAIL_UNSET + 1; d < DETAIL_CNT; d++) {
		unsigned cnt = 0;

		for (unsigned i = 0; i < l->id_cnt; i++)
			cnt += list_is_in(fnset__fn(l->set, l->ids[i]), d);
		snprintf(text, sizeof(text), "--detail=%-7s %4u  %s\n", detail_name(d), cnt,
			 detail_text(d));
		out_str(l->out, text);
	}
}

static void print_counts(const struct list *l)
{
	unsigned on_cnt = 0;
	char text[256];

	for (unsigned i = 0; i < l->id_cnt; i++)
		on_cnt += list_is_default(fnset__fn(l->set, l->ids[i]));
	snprintf(text, sizeof(text), "\n%u function%s, %u of them traced by default.\n", l->id_cnt,
		 plural(l->id_cnt), on_cnt);
	out_str(l->out, text);
	print_details(l);
	for (int a = 0; a < API_CNT; a++)
		print_lib(l, a);
}

static void print_text(const struct list *l)
{
	struct widths w = {sizeof("SYMBOL") - 1, sizeof("CLASS") - 1, sizeof("OP") - 1};

	for (unsigned i = 0; i < l->id_cnt; i++) {
		const struct api_fn *fn = fnset__fn(l->set, l->ids[i]);

		grow(&w.symbol, fn->symbol);
		grow(&w.class, api_class_name(fn->class));
		grow(&w.op, api_op_name(fn->op));
	}
	put_plain(l->out, "SYMBOL", w.symbol + 2);
	put_plain(l->out, "CLASS", w.class + 2);
	put_plain(l->out, "OP", w.op + 2);
	out_str(l->out, l->any ? "TRACED  SINCE  LIB\n" : "TRACED  SINCE\n");
	for (unsigned i = 0; i < l->id_cnt; i++)
		print_row(l, &w, l->ids[i]);
	print_counts(l);
}

/* For shells: each word that -e accepts, once. */
static void print_names(struct list *l)
{
	unsigned cnt = fnset__cnt(l->set);

	out_lit(l->out, "all\nnone\n");
	for (enum api_class c = 0; c < CLASS_CNT; c++) {
		out_str(l->out, api_class_name(c));
		out_char(l->out, '\n');
	}
	for (unsigned i = 0; i < cnt; i++) {
		const struct api_fn *fn = fnset__fn(l->set, i);
		bool is_new = true;

		for (unsigned k = 0; k < i && is_new; k++)
			is_new = strcmp(fnset__fn(l->set, k)->name, fn->name) != 0;
		if (is_new) {
			plain_put(l->out, fn->name);
			out_char(l->out, '\n');
		}
		if (strcmp(fn->symbol, fn->name)) {
			plain_put(l->out, fn->symbol);
			out_char(l->out, '\n');
		}
	}
}

/* A reader that exits early (| head) is not a failure: no message. */
static int write_stdout(const struct out *out)
{
	for (size_t done = 0; done < out->len;) {
		ssize_t n = write(STDOUT_FILENO, out->buf + done, out->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EPIPE)
			return 0;
		if (n < 0) {
			err("cannot write to stdout: %s", strerror(errno));
			return -errno;
		}
		done += (size_t)n;
	}
	return 0;
}

static int collect(struct list *l)
{
	int ret = 0;

	if (l->o->trace.libcuda)
		ret = find_given_lib(l);
	else if (!l->o->names)
		find_system_lib(l);
	if (!ret && l->any)
		ret = match_lib(l);
	return ret;
}

/* Prints tables other than the API's. */
static int list_other(const struct opts *o)
{
	int status = EXIT_FAILURE;
	struct out *out;

	if (o->trace.select.cnt || o->trace.detail) {
		err("--%s does not list CUDA functions, which --trace and --detail select: leave "
		    "one out",
		    o->schema ? "schema describes outputs" : "ioctls lists the driver's tables");
		return EXIT_USAGE;
	}
	out = out__memory();
	if (!out) {
		err("out of memory");
		return EXIT_FAILURE;
	}
	if (o->schema_of && !strcmp(o->schema_of, "diff"))
		diff_schema(out);
	else if (o->schema_of && !strcmp(o->schema_of, "budget"))
		budget_schema(out);
	else if (o->schema_of)
		report_schema(out);
	else if (o->schema)
		list_schema(out);
	else
		list_ioctls(out, o->trace.json);
	if (!write_stdout(out))
		status = EXIT_SUCCESS;
	out__close(out);
	return status;
}

static int list_api(const struct opts *o)
{
	struct list l = {.o = o, .set = fnset__new(), .out = out__memory()};
	int status = EXIT_FAILURE, ret;

	if (!l.set || !l.out) {
		err("out of memory");
		goto out;
	}
	if (collect(&l))
		goto out;
	ret = choose(&l);
	if (ret) {
		status = ret == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
		goto out;
	}
	if (o->names)
		print_names(&l);
	else if (o->trace.json)
		list_json(&l);
	else
		print_text(&l);
	status = write_stdout(l.out) ? EXIT_FAILURE : EXIT_SUCCESS;
out:
	for (int a = 0; a < API_CNT; a++)
		elf_lib__free(l.libs[a].elf);
	target_libs__clear(&l.found);
	free(l.exported);
	free(l.ids);
	fnset__free(l.set);
	out__close(l.out);
	return status;
}

int cmd_list(const struct opts *o)
{
	return (o->ioctls || o->schema) && !o->names ? list_other(o) : list_api(o);
}
