/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Probe sites of a library, and the result of attaching, which may arrive later. */
#include "attach_priv.h"

#include "attach/find/elf.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/plural.h"
#include "util/task.h"
#include "util/time_budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A user whose processes change code one after the other costs a scan of all processes each time.
 */
#define AGAIN_MAX_NS (64 * SEC_NS)

void probe_sites__free(struct probe_sites *p)
{
	free(p->offs);
	free(p->cookies);
	free(p->names);
	free(p->bad);
	elf_lib__free(p->elf);
	free(p);
}

static void add(struct probe_sites *p, struct attach *a, struct attach_lib *lib, unsigned turn,
		const uint64_t *excluded, enum links_group g)
{
	bool entry_only = g == LINKS_ENTRY || g == LINKS_ENTRY_SUSPECT;
	bool suspect = g == LINKS_RETURN_SUSPECT || g == LINKS_ENTRY_SUSPECT;
	const struct elf_lib *elf = p->elf;
	unsigned before = p->cnt;

	for (unsigned i = 0; i < elf->sym_cnt; i++) {
		int id = fnset__find(a->fns, elf->syms[i].name);

		if (id < 0 || id == ATTACH_STUB_FUNC || !fnset__wanted(a->fns, id) ||
		    fnset__is_marked(a->fns, FNSET_NO_RETURN, id) != entry_only)
			continue;
		if (excluded && excluded[id / 64] >> id % 64 & 1)
			continue;
		if (elf->syms[i].suspect != suspect)
			continue;
		if (elf->syms[i].bad_insn) {
			/* Skip it: one such site among 500 made attaching take 0.95 s, see
			 * attach_range(). */
			p->bad[p->bad_cnt++] = elf->syms[i].name;
			continue;
		}
		p->offs[p->cnt] = elf->syms[i].off;
		p->cookies[p->cnt] = CT_COOKIE(id, lib->id, turn) |
				     (elf->syms[i].stepped ? CT_COOKIE_F_STEPPED : 0) |
				     (entry_only ? CT_COOKIE_F_ENTRY : 0);
		p->names[p->cnt] = elf->syms[i].name;
		p->cnt++;
		lib->shifted_cnt += elf->syms[i].shift != 0;
	}
	p->group_cnt[g] = p->cnt - before;
}

struct probe_sites *probe_sites__new(struct attach *a, struct elf_lib *elf, struct attach_lib *lib,
				     unsigned turn, const uint64_t *excluded)
{
	struct probe_sites *p = calloc(1, sizeof(*p));
	unsigned n = elf->sym_cnt;

	if (!p)
		return NULL;
	p->offs = calloc(n, sizeof(*p->offs));
	p->cookies = calloc(n, sizeof(*p->cookies));
	p->names = calloc(n, sizeof(*p->names));
	p->bad = calloc(n, sizeof(*p->bad));
	if (!p->offs || !p->cookies || !p->names || !p->bad) {
		probe_sites__free(p);
		return NULL;
	}
	p->elf = elf;
	for (enum links_group g = 0; g < LINKS_GROUP_CNT; g++)
		add(p, a, lib, turn, excluded, g);
	lib->wanted_cnt = p->cnt + p->bad_cnt;
	return p;
}

static int add_refused(struct attach_lib *lib, const char *name)
{
	lib->refused[lib->refused_cnt] = strdup(name);
	if (!lib->refused[lib->refused_cnt])
		return -ENOMEM;
	lib->refused_cnt++;
	return 0;
}

static int note_refused(struct attach_lib *lib, const struct probe_sites *p,
			const struct links_answer *answer)
{
	int ret = 0;

	char **refused = reallocarray(lib->refused, lib->refused_cnt + p->cnt + p->bad_cnt + 1,
				      sizeof(*refused));

	if (!refused)
		return -ENOMEM;
	lib->refused = refused;
	for (unsigned i = 0; i < p->bad_cnt && !ret; i++)
		ret = add_refused(lib, p->bad[i]);
	for (unsigned i = 0; i < p->cnt && !ret; i++)
		if (answer->refused[i])
			ret = add_refused(lib, p->names[i]);
	lib->changed_by = answer->changed_by;
	lib->changed_at = lib->refused_cnt;
	for (unsigned i = 0; i < p->cnt && !ret; i++)
		if (answer->changed[i])
			ret = add_refused(lib, p->names[i]);
	return ret;
}

/* Stores the kernel's result. */
static int done(struct attach *a, struct lib_entry *e, const struct links_answer *answer)
{
	int ret = answer->ret;

	e->lib.attach_ns = answer->took_ns;
	if (ret < 0)
		err("cannot attach to %s: %s: run cudatrace check", e->lib.path, strerror(-ret));
	else
		e->lib.attached_cnt += ret;
	ret = ret < 0 ? ret : note_refused(&e->lib, e->sites, answer);
	if (!ret && !a->inproc)
		attach_lib__report_refused(a, e, NULL);
	probe_sites__free(e->sites);
	e->sites = NULL;
	return ret;
}

/* Warns once: a process that blocks one library blocks all. */
static void report_late(struct attach *a, const struct lib_entry *e)
{
	char who[160] = "";
	pid_t holder;

	if (a->warned_late) {
		dbg("%s: %u probes wait, too", e->lib.path, e->sites->cnt);
		return;
	}
	a->warned_late = true;
	holder = links__holder(&a->links);
	if (holder)
		snprintf(
			who, sizeof(who),
			", perhaps of process %d, which is blocked, too (by a FUSE server that does "
			"not answer?)",
			(int)holder);
	warn("%s: cannot attach %u probe%s while the kernel waits for the memory lock%s: "
	     "its calls are not traced until then; end the process that holds the lock",
	     e->lib.path, e->sites->cnt, plural(e->sites->cnt), who);
}

int attach_sites(struct attach *a, struct lib_entry *e, int fd)
{
	const struct probe_sites *p = e->sites;
	struct links_req req = {
		.owner = e->owner,
		.mech = a->mech,
		.progs = a->progs,
		.file_fd = fd,
		.offs = p->offs,
		.cookies = p->cookies,
		.cnt = p->cnt,
		/* To uprobe.multi before kernel 6.10, pid is a thread. The program checks the
		 * process anyway. */
		.pid = a->mech == MECH_MULTI ? 0 : a->only_pid,
	};
	static struct links_answer answer;
	int ret;

	memcpy(req.group_cnt, p->group_cnt, sizeof(req.group_cnt));
	/* A library mapped just before the end: the attaching process is gone. */
	if (a->detached)
		return -EINPROGRESS;
	ret = links__attach(&a->links, &req, &answer);
	a->links.patient = false;
	if (ret == -EINPROGRESS) {
		report_late(a, e);
		return ret;
	}
	if (ret)
		answer = (struct links_answer){.ret = ret};
	return done(a, e, &answer);
}

void attach__mapped(struct attach *a, const struct ct_lib_key *key, uint64_t since_ns)
{
	struct lib_entry *e = attach_lib__find(a, key);

	bool changed = e && e->lib.changed_by && !a->inproc;

	if (e && !e->missed && (e->lib.error == -EINPROGRESS || changed || since_ns < e->late_ns))
		e->missed = MISSED_NEW;
}

void attach__missed(struct attach *a, void (*fn)(void *ctx, const struct attach_lib *lib),
		    void *ctx)
{
	for (unsigned i = 0; i < attach__lib_cnt(a); i++) {
		if (a->libs[i]->missed != MISSED_NEW)
			continue;
		a->libs[i]->missed = MISSED_REPORTED;
		fn(ctx, &a->libs[i]->lib);
	}
}

bool attach__late(struct attach *a, void (*fn)(void *ctx, const struct attach_lib *lib), void *ctx)
{
	static struct links_answer answer;

	if (!a)
		return true;
	while (links__next(&a->links, &answer)) {
		struct lib_entry *e = NULL;

		for (unsigned i = 0; i < a->lib_cnt && !e; i++)
			if (a->libs[i]->owner == answer.owner)
				e = a->libs[i];
		if (e && e->closing)
			attach_lib__closed(a, e);
		if (!e || !e->sites)
			continue;
		e->lib.error = done(a, e, &answer);
		if (e->lib.error)
			continue;
		e->late_ns = now_ns();
		fn(ctx, &e->lib);
	}
	a->warned_late &= a->links.late_cnt != 0;
	return !links__is_gone(&a->links);
}

/* Probes the functions that were left out for a process that has changed their code. */
static int attach_left_out(struct attach *a, struct lib_entry *e)
{
	struct attach_lib *lib = &e->lib, scratch = e->lib;
	static uint64_t excluded[CT_MAX_FUNCS / 64];
	char why[256];
	struct elf_lib *elf = elf_lib__read(e->watch.fd, lib->api, why, sizeof(why));

	memset(excluded, 0xff, sizeof(excluded));
	for (unsigned i = lib->changed_at; i < lib->refused_cnt; i++) {
		int id = fnset__find(a->fns, lib->refused[i]);

		if (id >= 0)
			excluded[id / 64] &= ~(1ull << id % 64);
	}
	e->sites = elf ? probe_sites__new(a, elf, &scratch, e->owner, excluded) : NULL;
	if (!e->sites) {
		elf_lib__free(elf);
		return -ENOEXEC;
	}
	while (lib->refused_cnt > lib->changed_at)
		free(lib->refused[--lib->refused_cnt]);
	/* Names the process that has changed code now, but not the other functions again. */
	e->warned_refused = lib->refused_cnt;
	return attach_sites(a, e, e->watch.fd);
}

void attach__look_again(struct attach *a, uint64_t now, bool all,
			void (*fn)(void *ctx, const struct attach_lib *lib), void *ctx)
{
	struct work w;

	if (!a || (!all && now < a->look_again_ns))
		return;
	a->look_again_ns = now + SEC_NS;
	for (unsigned i = 0; i < a->lib_cnt; i++) {
		struct lib_entry *e = a->libs[i];

		if (!e->lib.changed_by || e->off || e->sites || e->covered_off || e->lib.error ||
		    (!all && (now < e->again_ns || task_living(e->lib.changed_by))) ||
		    time_budget__begin(&w, e->lib.uid, WORK_LIBRARIES))
			continue;
		e->again_wait_ns = e->again_wait_ns < AGAIN_MAX_NS ? 2 * e->again_wait_ns + SEC_NS
								   : AGAIN_MAX_NS;
		e->again_ns = now + e->again_wait_ns;
		if (attach_left_out(a, e) == -EINPROGRESS)
			e->lib.error = -EINPROGRESS;
		time_budget__end(&w);
		if (!e->lib.error && !e->lib.changed_by)
			fn(ctx, &e->lib);
	}
}

bool attach__is_late(const struct attach *a)
{
	return a && a->links.late_cnt;
}
