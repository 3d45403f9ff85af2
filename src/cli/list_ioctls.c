/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cudatrace list --ioctls: the tables of the NVIDIA kernel driver.
 *
 *	  VALUE       BRANCHES  BY   CONTROL
 *	  0xa06c0101  515-595   CPU  NVA06C_CTRL_CMD_GPFIFO_SCHEDULE
 *	      NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS, 3 bytes
 */
#include "list_ioctls.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trace/hostinfo.h"
#include "list.h"
#include "text/numbers.h"

#define LIST_COLUMNS 100
#define MARK_WIDTH   2

const char *ioctls_by_name(const struct nv_rmctrl *c)
{
	return c->by == NV_BY_CPU ? "CPU" : c->by == NV_BY_GSP ? "GSP" : NULL;
}

/* The version ranges of the rows */

void ioctls_format_version(uint32_t v, char *buf, size_t size)
{
	if (v & 0x3ff)
		snprintf(buf, size, "%u.%02u.%02u", v >> 20, v >> 10 & 0x3ff, v & 0x3ff);
	else
		snprintf(buf, size, "%u.%02u", v >> 20, v >> 10 & 0x3ff);
}

unsigned ioctls_branch(unsigned i)
{
	struct nv_abi abi = {.branch = (uint8_t)i};

	return nv_abi_branch(&abi);
}

/* "515-530,545-595" */
static void format_branches(uint16_t mask, char *buf, size_t size)
{
	size_t n = 0;

	snprintf(buf, size, "-");
	for (unsigned i = 0; i < NV_BR_CNT && n < size; i++) {
		unsigned last = i;

		if (!(mask >> i & 1))
			continue;
		while (last + 1 < NV_BR_CNT && mask >> (last + 1) & 1)
			last++;
		n += (size_t)snprintf(buf + n, size - n, n ? ",%u" : "%u", ioctls_branch(i));
		if (last > i && n < size)
			n += (size_t)snprintf(buf + n, size - n, "-%u", ioctls_branch(last));
		i = last;
	}
}

enum nv_fit ioctls_ctrl_fit(const struct nv_abi *abi, const struct nv_rmctrl *c)
{
	if (c->flags)
		return NV_FIT_PARTIAL;
	return nv_fit_branches(abi, c->branches, c->partial);
}

/* Classes without a class header are in the resource list of every driver. */
enum nv_fit ioctls_class_fit(const struct nv_abi *abi, const struct nv_class *c)
{
	return c->branches ? nv_fit_branches(abi, c->branches, 0) : NV_FIT_EXACT;
}

int ioctls_struct_size(const struct ioctls *l, const char *name)
{
	enum nv_fit fit = NV_FIT_NONE;
	const struct nv_struct *s = name ? nv_struct_by_name(&l->abi, name, &fit) : NULL;

	return s && fit == NV_FIT_EXACT ? (int)s->size : -1;
}

enum nv_fit ioctls_kms_fit(const struct nv_abi *abi, const struct nv_kms *k)
{
	for (unsigned i = 0; i < NV_KMS_RELEASES; i++) {
		enum nv_fit fit;
		const char *name = k->cmd[i] < 0 ? NULL : nv_kms_name(abi, k->cmd[i], &fit);

		if (name && !strcmp(name, k->name))
			return fit;
	}
	return NV_FIT_OTHER;
}

void ioctls_count(struct ioctls *l, enum nv_fit fit)
{
	l->row_cnt++;
	l->absent_cnt += fit == NV_FIT_OTHER;
}

/* Text */

static void __attribute__((format(printf, 2, 3))) put(struct out *out, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	out_str(out, text);
}

/* A row: columns, then a name, which goes to the next line if it does not fit. */
static void put_row(struct ioctls *l, enum nv_fit fit, const char *columns, const char *name)
{
	const char *mark = fit == NV_FIT_OTHER ? "- " : fit == NV_FIT_PARTIAL ? "? " : "  ";

	ioctls_count(l, fit);
	put(l->out, "%s%s", mark, columns);
	if (MARK_WIDTH + strlen(columns) + strlen(name) > LIST_COLUMNS)
		out_lit(l->out, "\n    ");
	out_str(l->out, name);
	out_char(l->out, '\n');
}

static void put_params(struct ioctls *l, const char *params, int size)
{
	if (!params)
		return;
	if (size < 0)
		put(l->out, "      %s\n", params);
	else
		put(l->out, "      %s, %d byte%s\n", params, size, plural(size));
}

/* Words of a text, wrapped at the width. */
static void put_text(struct out *out, const char *text, size_t col, size_t indent)
{
	size_t first = col;

	while (*text) {
		size_t len = strcspn(text, " ");

		if (col > first && col + 1 + len > LIST_COLUMNS) {
			put(out, "\n%*s", (int)indent, "");
			col = first = indent;
		} else if (col > first) {
			out_char(out, ' ');
			col++;
		}
		out_bytes(out, text, len);
		col += len;
		text += len;
		text += strspn(text, " ");
	}
	out_char(out, '\n');
}

/* A range that reaches the oldest or newest driver of the tables is open at that end. */
static void format_range(const struct ioctls *l, uint32_t since, uint32_t until, char *buf,
			 size_t size)
{
	char from[24] = "", to[24] = "";

	if (since > l->oldest)
		ioctls_format_version(since, from, sizeof(from));
	if (until < l->newest)
		ioctls_format_version(until, to, sizeof(to));
	snprintf(buf, size, *from || *to ? "%s-%s" : "all", from, to);
}

static void format_devs(uint8_t devs, char *buf, size_t size)
{
	size_t n = 0;

	snprintf(buf, size, "none");
	for (unsigned i = 0; i < CT_NV_DEV_CNT && n < size; i++)
		if (devs >> i & 1)
			n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? "," : "",
					      nv_dev_name(i));
}

static void text_escapes(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_escape *e = nv_escapes(&cnt);
	char range[64], devs[128], columns[256];

	out_lit(l->out, "\nESCAPES: ioctls of /dev/nvidiactl and /dev/nvidiaN, by _IOC_NR\n"
			"  NR    DEVICES            VERSIONS             NAME\n");
	for (unsigned i = 0; i < cnt; i++) {
		format_range(l, e[i].since, e[i].until, range, sizeof(range));
		format_devs(e[i].devs, devs, sizeof(devs));
		snprintf(columns, sizeof(columns), "0x%02x  %-17s  %-19s  ", e[i].nr, devs, range);
		put_row(l, nv_fit_range(&l->abi, e[i].since, e[i].until), columns, e[i].name);
		put_params(l, e[i].params, ioctls_struct_size(l, e[i].params));
	}
}

static void text_controls(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_rmctrl *c = nv_rmctrls(&cnt);
	char branches[64], columns[128];

	out_lit(l->out, "\nCONTROLS: cmd of NV_ESC_RM_CONTROL; BY: what runs it where there is GSP "
			"firmware\n"
			"  VALUE       BRANCHES         BY   NAME\n");
	for (unsigned i = 0; i < cnt; i++) {
		format_branches(c[i].branches, branches, sizeof(branches));
		if (c[i].flags)
			snprintf(branches, sizeof(branches), "%s",
				 c[i].flags & NV_CTRL_UNPUB ? "unpublished" : "alias");
		snprintf(columns, sizeof(columns), "0x%08x  %-15s  %-3s  ", c[i].value, branches,
			 ioctls_by_name(&c[i]) ? ioctls_by_name(&c[i]) : "-");
		put_row(l, ioctls_ctrl_fit(&l->abi, &c[i]), columns, c[i].name);
		put_params(l, c[i].params, nv_rmctrl_params_size(&l->abi, &c[i]));
	}
}

static void text_classes(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_class *c = nv_classes(&cnt);
	char branches[64], columns[128];

	out_lit(l->out, "\nCLASSES: hClass of NV_ESC_RM_ALLOC\n"
			"  NUMBER      BRANCHES         KIND             NAME\n");
	for (unsigned i = 0; i < cnt; i++) {
		format_branches(c[i].branches, branches, sizeof(branches));
		snprintf(columns, sizeof(columns), "0x%08x  %-15s  %-15s  ", c[i].number, branches,
			 *c[i].kind ? c[i].kind : "-");
		put_row(l, ioctls_class_fit(&l->abi, &c[i]), columns, c[i].name);
		put_params(l, c[i].params, nv_class_params_size(&l->abi, &c[i]));
	}
}

static void text_uvm(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_uvm *u = nv_uvms(&cnt);
	char range[64], devs[128], columns[256];

	out_lit(l->out, "\nUVM COMMANDS: ioctls of /dev/nvidia-uvm, by the whole request\n"
			"  NUMBER      DEVICES           VERSIONS             NAME\n");
	for (unsigned i = 0; i < cnt; i++) {
		format_range(l, u[i].since, u[i].until, range, sizeof(range));
		format_devs(u[i].devs, devs, sizeof(devs));
		snprintf(columns, sizeof(columns), "%-10u  %-16s  %-19s  ", u[i].number,
			 u[i].is_test ? "test" : devs, u[i].is_test ? "-" : range);
		put_row(l,
			u[i].is_test ? NV_FIT_EXACT : nv_fit_range(&l->abi, u[i].since, u[i].until),
			columns, u[i].name);
		put_params(l, u[i].params, ioctls_struct_size(l, u[i].params));
	}
}

/* Their numbers change between releases: prints a column for each release in the table. */
static void text_kms(struct ioctls *l)
{
	unsigned cnt, releases;
	const struct nv_kms *k = nv_kms_rows(&cnt);
	const uint32_t *version = nv_kms_releases(&releases);
	char columns[128];
	size_t n;

	out_lit(l->out, "\nNVKMS COMMANDS: cmd in the argument of /dev/nvidia-modeset's ioctl, by "
			"branch\n  ");
	for (unsigned i = 0; i < releases; i++)
		put(l->out, "%-5u", version[i] >> 20);
	out_lit(l->out, "NAME\n");
	for (unsigned row = 0; row < cnt; row++) {
		n = 0;
		for (unsigned i = 0; i < releases; i++)
			n += (size_t)snprintf(columns + n, sizeof(columns) - n,
					      k[row].cmd[i] < 0 ? "-    " : "%-5d", k[row].cmd[i]);
		put_row(l, ioctls_kms_fit(&l->abi, &k[row]), columns, k[row].name);
	}
}

static void text_statuses(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_status_row *s = nv_statuses(&cnt);
	char range[64], columns[128];

	out_lit(l->out, "\nSTATUSES\n"
			"  VALUE       VERSIONS             NAME\n");
	for (unsigned i = 0; i < cnt; i++) {
		format_range(l, s[i].since, s[i].until, range, sizeof(range));
		snprintf(columns, sizeof(columns), "0x%08x  %-19s  ", s[i].value, range);
		put_row(l, nv_fit_range(&l->abi, s[i].since, s[i].until), columns, s[i].name);
	}
}

static void text_sched(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_sched *s = nv_scheds(&cnt);
	char columns[128];

	out_lit(l->out, "\nSCHEDULER: controls that are events of type scheduler too\n"
			"  VALUE       OP                NAME\n");
	for (unsigned i = 0; i < cnt; i++) {
		const struct nv_rmctrl *c = nv_rmctrl_by_name(&l->abi, s[i].name, NULL);

		snprintf(columns, sizeof(columns), "0x%08x  %-16s  ", s[i].value, s[i].op);
		put_row(l, c ? ioctls_ctrl_fit(&l->abi, c) : NV_FIT_EXACT, columns, s[i].name);
		out_lit(l->out, "      ");
		put_text(l->out, s[i].text, 6, 6);
	}
}

static void text_xids(struct ioctls *l)
{
	unsigned cnt;
	const struct nv_xid *x = nv_xids(&cnt);

	out_lit(l->out, "\nXIDS: errors that the driver reports\n"
			"  NUMBER  MEANING\n");
	for (unsigned i = 0; i < cnt; i++) {
		ioctls_count(l, NV_FIT_EXACT);
		put(l->out, "  %-6u  ", x[i].number);
		put_text(l->out, x[i].text, 10, 10);
	}
}

static void text_counts(struct ioctls *l)
{
	unsigned escapes, controls, classes, uvms, kms, statuses, scheds, xids;

	nv_escapes(&escapes);
	nv_rmctrls(&controls);
	nv_classes(&classes);
	nv_uvms(&uvms);
	nv_kms_rows(&kms);
	nv_statuses(&statuses);
	nv_scheds(&scheds);
	nv_xids(&xids);
	put(l->out,
	    "\n%u escapes, %u controls, %u classes, %u UVM commands, %u NVKMS commands, %u "
	    "statuses,\n%u scheduler controls, %u Xids; %u rows do not apply to this driver.\n",
	    escapes, controls, classes, uvms, kms, statuses, scheds, xids, l->absent_cnt);
}

static void text_head(struct ioctls *l)
{
	const char *caveat = nv_abi_caveat(&l->abi);

	if (*l->driver)
		put(l->out, "Driver %s: sizes are those of branch %u.\n", l->driver,
		    nv_abi_branch(&l->abi));
	else
		put(l->out,
		    "No NVIDIA driver is loaded: sizes are those of the newest in the tables, "
		    "branch %u.\n",
		    nv_abi_branch(&l->abi));
	if (*l->driver && caveat)
		put(l->out, "Note: %s.\n", caveat);
	out_lit(l->out, "Before a row: \"-\" not in this driver; \"?\" in some releases of its "
			"branch, or not certain.\n");
}

static void find_ends(struct ioctls *l)
{
	const struct nv_version first = {100, 0, 0};
	struct nv_abi abi;

	nv_abi_init(&abi, &first);
	l->oldest = abi.key;
	nv_abi_init(&abi, NULL);
	l->newest = abi.key;
}

void list_ioctls(struct out *out, bool json)
{
	struct ioctls l = {.out = out};
	struct nv_version v;
	struct hostinfo hostinfo;

	find_ends(&l);
	hostinfo__read(&hostinfo);
	memcpy(l.driver, hostinfo.driver, sizeof(l.driver));
	nv_abi_init(&l.abi, nv_version_parse(l.driver, &v) ? &v : NULL);
	if (json) {
		ioctls_print_json(&l);
		return;
	}
	text_head(&l);
	text_escapes(&l);
	text_controls(&l);
	text_classes(&l);
	text_uvm(&l);
	text_kms(&l);
	text_statuses(&l);
	text_sched(&l);
	text_xids(&l);
	text_counts(&l);
}
