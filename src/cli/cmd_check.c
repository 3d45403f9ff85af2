/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cudatrace check: what this kernel, this user and these drivers allow, which features are lost,
 * and how to fix it, in 80 columns.
 *
 *	Needed
 *	  yes     Linux 5.15 or later                          6.12.95, x86_64
 *	  no      privilege CAP_BPF
 *	            this process (user 1000) has neither CAP_BPF nor CAP_SYS_ADMIN
 *	            lost: Nothing can be traced: ...
 *	            fix:  run it with sudo; ...
 */
#include "cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/allow/caps.h"
#include "attach/find/elf.h"
#include "attach/find/target.h"
#include "text/json.h"
#include "text/numbers.h"
#include "util/log.h"
#include "util/reader.h"
#include "version.h"

#define COLUMNS	     80
#define WHAT_COLUMNS 44
#define WHAT_INDENT  10
#define TEXT_INDENT  12
/* More than the offsets of elf_probe_shift(): +0, +4, +7, +10, +14. */
#define MAX_SHIFTS 16

/* One libcuda file. */
struct file {
	const struct target_lib *t;
	struct elf_lib *elf; /* NULL: msg has the reason */
	char msg[256];
	char driver[64];	     /* from its name; "" if the name has no version */
	unsigned at_cnt[MAX_SHIFTS]; /* probes by their offset from the first byte */
	unsigned shifted_cnt;	     /* all but those at +0: elf_probe_shift() */
	unsigned bad_cnt;	     /* functions that the kernel refuses to probe */
};

struct check {
	const struct opts *o;
	struct out *out;
	const struct cap *caps;
	unsigned cap_cnt;
	struct target_libs libs;
	struct file *files;
	int process_cnt; /* number of processes that map a libcuda */
	unsigned usable_cnt;
};

/* Collecting */

/* "libcuda.so.580.159.04", after resolving all symbolic links. */
static void find_driver_version(struct file *f)
{
	char *real = f->t->pid ? NULL : realpath(f->t->open_path, NULL);
	const char *name = strrchr(real ? real : f->t->path, '/');
	static const char stem[] = "/libcuda.so.";

	if (name && !strncmp(name, stem, sizeof(stem) - 1) && strchr(name + sizeof(stem) - 1, '.'))
		snprintf(f->driver, sizeof(f->driver), "%s", name + sizeof(stem) - 1);
	free(real);
}

static void count_probe(struct file *f, const struct elf_sym *s)
{
	if (s->bad_insn) {
		f->bad_cnt++;
		return;
	}
	f->shifted_cnt += s->shift != 0;
	if (s->shift < MAX_SHIFTS)
		f->at_cnt[s->shift]++;
}

static void look_at_file(struct check *c, struct file *f)
{
	int fd = target_lib__open(f->t);

	if (fd < 0) {
		snprintf(f->msg, sizeof(f->msg), "%s", strerror(-fd));
		return;
	}
	f->elf = elf_lib__read(fd, f->t->api, f->msg, sizeof(f->msg));
	close(fd);
	if (!f->elf)
		return;
	find_driver_version(f);
	for (unsigned i = 0; i < f->elf->sym_cnt; i++)
		count_probe(f, &f->elf->syms[i]);
	c->usable_cnt += !f->elf->is_stub && f->elf->sym_cnt;
}

static int look(struct check *c)
{
	/* Files of all processes are read. */
	int ret = reader__start(false);

	if (ret) {
		err("cannot start cudatrace-read: %s", strerror(-ret));
		return ret;
	}
	c->caps = caps__all(&c->cap_cnt);
	c->process_cnt = target_libs__add_all(&c->libs);
	if (c->o->trace.libcuda)
		ret = target_libs__add_file(&c->libs, c->o->trace.libcuda);
	else
		target_libs__add_system(&c->libs);
	c->files = calloc(c->libs.cnt + 1, sizeof(*c->files));
	if (!c->files)
		return -ENOMEM;
	for (unsigned i = 0; i < c->libs.cnt; i++) {
		c->files[i].t = &c->libs.libs[i];
		look_at_file(c, &c->files[i]);
	}
	return ret;
}

static const char *state_name(const struct cap *cap)
{
	return cap->state == CAP_YES ? "yes" : cap->state == CAP_NO ? "no" : "unknown";
}

/* The default of --kernel. */
static enum nv_probe best_nv_probe(void)
{
	enum nv_probe how[NV_PROBE_CNT];

	caps__nv_probes(how);
	return how[0];
}

/* JSON */

static void json_cap(struct json *j, const struct cap *cap)
{
	static const char *const needs[] = {"needed", "better", "info"};

	json_open(j, NULL);
	json_str(j, "name", cap->name);
	json_str(j, "what", cap->what);
	json_str(j, "need", needs[cap->need]);
	json_str(j, "state", state_name(cap));
	json_str(j, "detail", cap->detail[0] ? cap->detail : NULL);
	json_str(j, "lost", cap->state == CAP_YES ? NULL : cap->lost);
	json_str(j, "fix", cap->state == CAP_YES ? NULL : cap->fix);
	json_close(j);
}

static void json_file(struct json *j, const struct file *f)
{
	const struct elf_lib *elf = f->elf;

	json_open(j, NULL);
	json_str(j, "path", f->t->path);
	json_str(j, "error", elf ? NULL : f->msg);
	if (f->t->pid)
		json_i64(j, "pid", f->t->pid);
	json_bool(j, "deleted", f->t->deleted);
	if (elf) {
		json_str(j, "driver_version", f->driver[0] ? f->driver : NULL);
		json_str(j, "build_id", elf->build_id[0] ? elf->build_id : NULL);
		json_str(j, "soname", elf->soname[0] ? elf->soname : NULL);
		json_u64(j, "functions", elf->sym_cnt);
		json_u64(j, "aliases", elf->alias_cnt);
		json_u64(j, "shifted_probes", f->shifted_cnt);
		json_u64(j, "refused_probes", f->bad_cnt);
		json_bool(j, "stub", elf->is_stub);
	}
	json_close(j);
}

static void print_json(struct check *c)
{
	bool ok = caps__can_trace();
	struct json j;

	json__init(&j, c->out);
	json_open(&j, NULL);
	json_str(&j, "version", CUDATRACE_VERSION);
	json_bool(&j, "can_trace", ok);
	json_str(&j, "mechanism", ok ? mechanism_name(caps__best_mechanism()) : NULL);
	json_str(&j, "kernel_probe", ok ? nv_probe_name(best_nv_probe()) : NULL);
	json_open_array(&j, "capabilities");
	for (unsigned i = 0; i < c->cap_cnt; i++)
		json_cap(&j, &c->caps[i]);
	json_close_array(&j);
	json_open_array(&j, "libcuda");
	for (unsigned i = 0; i < c->libs.cnt; i++)
		json_file(&j, &c->files[i]);
	json_close_array(&j);
	json_u64(&j, "processes", c->process_cnt > 0 ? (unsigned)c->process_cnt : 0);
	json_close(&j);
	out_char(c->out, '\n');
}

/* Text */

/* Names of foreign files end up on a terminal. */
static void put_plain(struct out *out, const char *s)
{
	for (; *s; s++)
		out_char(out, *s >= ' ' && *s < 0x7f ? *s : '?');
}

static void put_spaces(struct out *out, unsigned n)
{
	while (n--)
		out_char(out, ' ');
}

/* Prints words from column `at`; continuation lines begin at indent. A word longer than a line gets
 * its own line. Ends the line. */
static void put_wrapped(struct out *out, const char *text, unsigned at, unsigned indent)
{
	bool first = true;

	while (*(text += strspn(text, " "))) {
		unsigned len = (unsigned)strcspn(text, " ");

		if (!first && at + 1 + len > COLUMNS) {
			out_char(out, '\n');
			put_spaces(out, indent);
			at = indent;
		} else if (!first) {
			out_char(out, ' ');
			at++;
		}
		for (unsigned i = 0; i < len; i++)
			out_char(out, text[i] > ' ' && text[i] < 0x7f ? text[i] : '?');
		at += len;
		text += len;
		first = false;
	}
	out_char(out, '\n');
}

static void put_labelled(struct out *out, const char *label, const char *text)
{
	unsigned at = TEXT_INDENT + (unsigned)strlen(label);

	put_spaces(out, TEXT_INDENT);
	out_str(out, label);
	put_wrapped(out, text, at, at);
}

/* The detail follows on the same line, or below if it is too long. */
static void print_cap(struct out *out, const struct cap *cap)
{
	unsigned at = WHAT_INDENT + WHAT_COLUMNS + 1;
	bool beside = cap->detail[0] && at + strlen(cap->detail) <= COLUMNS;
	char line[COLUMNS];

	snprintf(line, sizeof(line), "  %-8s%-*s", state_name(cap), beside ? WHAT_COLUMNS + 1 : 0,
		 cap->what);
	out_str(out, line);
	if (beside) {
		put_wrapped(out, cap->detail, at, at);
	} else {
		out_char(out, '\n');
		if (cap->detail[0])
			put_labelled(out, "", cap->detail);
	}
	/* If it could not be tried, another row has the reason. */
	if (cap->state != CAP_NO)
		return;
	put_labelled(out, "lost: ", cap->lost);
	put_labelled(out, "fix:  ", cap->fix);
}

static void print_caps(const struct check *c)
{
	static const char *const titles[] = {"Needed\n", "\nBetter with\n", "\nFor information\n"};

	for (enum cap_need need = CAP_NEEDED; need <= CAP_INFO; need++) {
		out_str(c->out, titles[need]);
		for (unsigned i = 0; i < c->cap_cnt; i++) {
			if (c->caps[i].need == need)
				print_cap(c->out, &c->caps[i]);
		}
	}
}

/* "524 functions, probed at +10: 521, at +0: 3": by offset from the first byte. */
static void print_probes(const struct file *f, char *buf, size_t size)
{
	const char *word = "probed ";
	size_t n;

	n = (size_t)snprintf(buf, size, "%s%s%s%u functions", f->driver[0] ? "driver " : "",
			     f->driver, f->driver[0] ? ", " : "", f->elf->sym_cnt);
	if (f->elf->is_stub) {
		snprintf(buf + n, size - n, ", a stub for linking: ignored");
		return;
	}
	for (unsigned i = MAX_SHIFTS; i-- > 0;) {
		if (!f->at_cnt[i])
			continue;
		n += (size_t)snprintf(buf + n, size - n, ", %sat +%u: %u", word, i, f->at_cnt[i]);
		word = "";
	}
	if (f->bad_cnt)
		n += (size_t)snprintf(buf + n, size - n, ", refused by the kernel: %u", f->bad_cnt);
	if (!f->elf->sym_cnt)
		snprintf(buf + n, size - n, ": nothing to trace");
}

static void print_elf(struct out *out, const struct file *f)
{
	char text[512];

	print_probes(f, text, sizeof(text));
	put_labelled(out, "", text);
	if (f->elf->build_id[0])
		put_labelled(out, "build id ", f->elf->build_id);
}

static void print_file(struct out *out, const struct file *f)
{
	char text[64];

	out_lit(out, "  ");
	put_plain(out, f->t->path);
	if (f->t->pid) {
		snprintf(text, sizeof(text), " (process %d%s)", f->t->pid,
			 f->t->deleted ? "; deleted or replaced on disk" : "");
		out_str(out, text);
	}
	out_char(out, '\n');
	if (f->elf)
		print_elf(out, f);
	else
		put_labelled(out, "", f->msg);
}

static void print_files(const struct check *c)
{
	char text[128];

	out_lit(c->out, "\nlibcuda\n");
	for (unsigned i = 0; i < c->libs.cnt; i++)
		print_file(c->out, &c->files[i]);
	if (!c->usable_cnt) {
		put_spaces(c->out, 2);
		put_wrapped(
			c->out,
			"No libcuda file was found. One that a program loads from elsewhere is traced too; --libcuda names "
			"another.",
			2, 2);
	}
	if (c->process_cnt > 0) {
		snprintf(text, sizeof(text), "  Loaded by %d process%s now.\n", c->process_cnt,
			 plural_es(c->process_cnt));
		out_str(c->out, text);
	}
}

/* Can be copied as a whole: a backslash joins lines within a word only if the next is not
 * indented. */
static void print_setcap(const struct check *c)
{
	static const enum cap_id ids[] = {CAP_PRIV_BPF, CAP_PRIV_PERFMON, CAP_PRIV_PTRACE,
					  CAP_MAP_FILES};
	bool lacks = false;

	for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		lacks |= c->caps[ids[i]].state == CAP_NO;
	if (lacks && !caps__in_user_namespace())
		out_lit(c->out, "\nTo run it without sudo, give the file its privileges once:\n"
				"sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,\\\n"
				"cap_dac_read_search,cap_checkpoint_restore,cap_lease+ep "
				"$(command -v cudatrace)\n");
}

static void print_text(const struct check *c)
{
	print_caps(c);
	print_files(c);
	print_setcap(c);
	if (caps__can_trace()) {
		out_lit(c->out, "\nTracing is possible, with ");
		out_str(c->out, mechanism_name(caps__best_mechanism()));
		out_lit(c->out, "; --kernel probes the driver by ");
		out_str(c->out, nv_probe_name(best_nv_probe()));
		out_lit(c->out, ".\n");
	} else {
		out_lit(c->out,
			"\nTracing by uprobes is not possible: see \"Needed\".\nA command that you start can be traced in-process: cudatrace --probe=inject -- COMMAND\n");
	}
}

static int write_stdout(const struct out *out)
{
	if (fwrite(out->buf, 1, out->len, stdout) == out->len && !fflush(stdout))
		return 0;
	err("cannot write to stdout: %s", strerror(errno));
	return -EIO;
}

int cmd_check(const struct opts *o)
{
	struct check c = {.o = o, .out = out__memory()};
	int status = EXIT_FAILURE, ret = -ENOMEM;

	if (c.out)
		ret = look(&c);
	if (ret == -ENOMEM) {
		err("out of memory");
		goto out;
	}
	if (o->trace.json)
		print_json(&c);
	else
		print_text(&c);
	if (!write_stdout(c.out) && !ret && caps__can_trace())
		status = EXIT_SUCCESS;
out:
	for (unsigned i = 0; c.files && i < c.libs.cnt; i++)
		elf_lib__free(c.files[i].elf);
	free(c.files);
	target_libs__clear(&c.libs);
	reader__end();
	out__close(c.out);
	return status;
}
