/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace list --ioctls --json: one object with an array for each table, one row per line. */
#include "list_ioctls.h"

static void json_size(struct json *j, int size)
{
	if (size >= 0)
		json_u64(j, "bytes", (unsigned)size);
	else
		json_null(j, "bytes");
}

static void json_fit(struct ioctls *l, enum nv_fit fit)
{
	static const char *const names[] = {
		[NV_FIT_EXACT] = "yes",
		[NV_FIT_PARTIAL] = "some",
		[NV_FIT_OTHER] = "no",
		[NV_FIT_NONE] = "no",
	};

	ioctls_count(l, fit);
	json_sym(&l->j, "here", names[fit]);
}

static void json_devs(struct json *j, uint8_t devs)
{
	json_open_array(j, "devices");
	for (unsigned i = 0; i < CT_NV_DEV_CNT; i++)
		if (devs >> i & 1)
			json_sym(j, NULL, nv_dev_name(i));
	json_close_array(j);
}

static void json_range(struct ioctls *l, uint32_t since, uint32_t until)
{
	char text[24];

	ioctls_format_version(since, text, sizeof(text));
	json_sym(&l->j, "since", text);
	ioctls_format_version(until, text, sizeof(text));
	json_sym(&l->j, "until", text);
	json_fit(l, nv_fit_range(&l->abi, since, until));
}

static void json_branches(struct json *j, const char *name, uint16_t mask)
{
	json_open_array(j, name);
	for (unsigned i = 0; i < NV_BR_CNT; i++)
		if (mask >> i & 1)
			json_u64(j, NULL, ioctls_branch(i));
	json_close_array(j);
}

static void begin_rows(struct ioctls *l, const char *name)
{
	json_open_array(&l->j, name);
}

/* One row per line. */
static void begin_row(struct ioctls *l)
{
	if (l->j.comma)
		out_char(l->out, ',');
	l->j.comma = false;
	out_char(l->out, '\n');
	json_open(&l->j, NULL);
}

static void json_escapes(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_escape *e = nv_escapes(&cnt);

	begin_rows(l, "escapes");
	for (unsigned i = 0; i < cnt; i++) {
		begin_row(l);
		json_u64(&l->j, "nr", e[i].nr);
		json_sym(&l->j, "name", e[i].name);
		json_devs(&l->j, e[i].devs);
		json_str(&l->j, "params", e[i].params);
		json_size(&l->j, ioctls_struct_size(l, e[i].params));
		json_range(l, e[i].since, e[i].until);
		json_close(&l->j);
	}
	json_close_array(&l->j);
}

static void json_controls(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_rmctrl *c = nv_rmctrls(&cnt);

	begin_rows(l, "controls");
	for (unsigned i = 0; i < cnt; i++) {
		begin_row(l);
		json_hex(&l->j, "value", c[i].value);
		json_sym(&l->j, "name", c[i].name);
		json_str(&l->j, "params", c[i].params);
		json_size(&l->j, nv_rmctrl_params_size(&l->abi, &c[i]));
		json_branches(&l->j, "branches", c[i].branches);
		json_branches(&l->j, "partial", c[i].partial);
		json_str(&l->j, "by", ioctls_by_name(&c[i]));
		if (c[i].flags & NV_CTRL_ALIAS)
			json_bool(&l->j, "alias", true);
		if (c[i].flags & NV_CTRL_UNPUB)
			json_bool(&l->j, "unpublished", true);
		json_fit(l, ioctls_ctrl_fit(&l->abi, &c[i]));
		json_close(&l->j);
	}
	json_close_array(&l->j);
}

static void json_other_names(struct json *j, const char *names)
{
	json_open_array(j, "other_names");
	while (*names) {
		size_t len = strcspn(names, ",");

		json_text(j, NULL, names, len);
		names += len;
		names += *names == ',';
	}
	json_close_array(j);
}

static void json_classes(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_class *c = nv_classes(&cnt);

	begin_rows(l, "classes");
	for (unsigned i = 0; i < cnt; i++) {
		begin_row(l);
		json_hex(&l->j, "number", c[i].number);
		json_sym(&l->j, "name", c[i].name);
		json_str(&l->j, "kind", *c[i].kind ? c[i].kind : NULL);
		json_str(&l->j, "params", c[i].params);
		json_size(&l->j, nv_class_params_size(&l->abi, &c[i]));
		json_branches(&l->j, "branches", c[i].branches);
		json_other_names(&l->j, c[i].other_names);
		json_fit(l, ioctls_class_fit(&l->abi, &c[i]));
		json_close(&l->j);
	}
	json_close_array(&l->j);
}

static void json_uvm(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_uvm *u = nv_uvms(&cnt);

	begin_rows(l, "uvm");
	for (unsigned i = 0; i < cnt; i++) {
		begin_row(l);
		json_u64(&l->j, "number", u[i].number);
		json_sym(&l->j, "name", u[i].name);
		if (u[i].is_test) {
			json_bool(&l->j, "test", true);
			ioctls_count(l, NV_FIT_EXACT);
		} else {
			json_devs(&l->j, u[i].devs);
			json_str(&l->j, "params", u[i].params);
			json_size(&l->j, ioctls_struct_size(l, u[i].params));
			json_range(l, u[i].since, u[i].until);
		}
		json_close(&l->j);
	}
	json_close_array(&l->j);
}

static void json_kms(struct ioctls *l)
{
	unsigned cnt, releases;
	const struct nv_kms *k = nv_kms_rows(&cnt);
	const uint32_t *version = nv_kms_releases(&releases);
	char text[24];

	begin_rows(l, "nvkms");
	for (unsigned row = 0; row < cnt; row++) {
		begin_row(l);
		json_sym(&l->j, "name", k[row].name);
		json_open(&l->j, "numbers");
		for (unsigned i = 0; i < releases; i++) {
			ioctls_format_version(version[i], text, sizeof(text));
			if (k[row].cmd[i] >= 0)
				json_u64(&l->j, text, (unsigned)k[row].cmd[i]);
		}
		json_close(&l->j);
		json_fit(l, ioctls_kms_fit(&l->abi, &k[row]));
		json_close(&l->j);
	}
	json_close_array(&l->j);
}

static void json_statuses(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_status_row *s = nv_statuses(&cnt);

	begin_rows(l, "statuses");
	for (unsigned i = 0; i < cnt; i++) {
		begin_row(l);
		json_hex(&l->j, "value", s[i].value);
		json_sym(&l->j, "name", s[i].name);
		json_range(l, s[i].since, s[i].until);
		json_close(&l->j);
	}
	json_close_array(&l->j);
}

static void json_sched(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_sched *s = nv_scheds(&cnt);

	begin_rows(l, "scheduler");
	for (unsigned i = 0; i < cnt; i++) {
		begin_row(l);
		json_hex(&l->j, "value", s[i].value);
		json_sym(&l->j, "op", s[i].op);
		json_sym(&l->j, "name", s[i].name);
		json_str(&l->j, "meaning", s[i].text);
		json_str(&l->j, "params", s[i].params);
		json_close(&l->j);
	}
	json_close_array(&l->j);
}

static void json_xids(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_xid *x = nv_xids(&cnt);

	begin_rows(l, "xids");
	for (unsigned i = 0; i < cnt; i++) {
		begin_row(l);
		json_u64(&l->j, "number", x[i].number);
		json_str(&l->j, "meaning", x[i].text);
		json_close(&l->j);
	}
	json_close_array(&l->j);
}

void ioctls_print_json(struct ioctls *l)
{
	struct json *j = &l->j;

	json__init(j, l->out);
	json_open(j, NULL);
	json_str(j, "driver", *l->driver ? l->driver : NULL);
	json_u64(j, "branch", nv_abi_branch(&l->abi));
	json_str(j, "caveat", nv_abi_caveat(&l->abi));
	json_escapes(l);
	json_controls(l);
	json_classes(l);
	json_uvm(l);
	json_kms(l);
	json_statuses(l);
	json_sched(l);
	json_xids(l);
	json_close(j);
	out_char(l->out, '\n');
}
