/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In-process libraries that record calls, too (bpf/inproc.bpf.h). A probe costs a trap even if the
 * library records the call. So probes that no process needs are detached for that time.
 */
#include "attach_priv.h"

#include "attach/find/elf.h"

#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

void attach__process(struct attach *a, pid_t pid, ct_generation *generation,
		     enum ct_proc_level *level)
{
	uint32_t key = pid;
	struct ct_pid p;

	if (bpf_map__lookup_elem(a->skel->maps.pids, &key, sizeof(key), &p, sizeof(p), 0))
		p = (struct ct_pid){0};
	*generation = p.generation;
	*level = p.level;
}

bool attach__set_inproc(struct attach *a, pid_t pid, const struct ct_inproc *in)
{
	uint32_t key = pid;
	struct ct_inproc was, now;

	if (in) {
		now = *in;
		/* Threads of a forked child wait in their first calls until it has connected, and
		 * then record them. So probes record none of its calls before that either. */
		if (!bpf_map__lookup_elem(a->skel->maps.inproc, &key, sizeof(key), &was,
					  sizeof(was), 0))
			now.forked |= was.forked;
		return !bpf_map__update_elem(a->skel->maps.inproc, &key, sizeof(key), &now,
					     sizeof(now), BPF_ANY);
	}
	bpf_map__delete_elem(a->skel->maps.inproc, &key, sizeof(key), 0);
	return true;
}

int attach_lib__take_off(struct attach *a, struct lib_entry *e)
{
	/* Also close links that are already closing: a writer waits until none is left. */
	int ret = links__close(&a->links, e->owner), rest = 0;

	if (e->rest_owner)
		rest = links__close(&a->links, e->rest_owner);
	/* A late answer is recognised by this owner. */
	if (rest == -EINPROGRESS)
		e->owner = e->rest_owner;
	e->covered_off = false;
	e->rest_owner = 0;
	return rest ? rest : ret;
}

void attach_lib__take_off_soon(struct attach *a, struct lib_entry *e)
{
	if (e->rest_owner)
		links__close_soon(&a->links, e->rest_owner);
	if (!e->covered_off)
		links__close_soon(&a->links, e->owner);
}

/* Attaches more probes in a file that has some, under an owner of their own: old and new probes may
 * coexist. Sites that the kernel refuses were reported before. Returns 0, also if nothing is left
 * to probe; -EINPROGRESS; or -errno. */
static int put_on(struct attach *a, struct lib_entry *e, unsigned owner, const uint64_t *excluded)
{
	struct attach_lib scratch = e->lib;
	static struct links_answer answer;
	struct links_req req;
	struct elf_lib *elf;
	struct probe_sites *p;
	char why[256];
	int ret = 0;

	elf = elf_lib__read(e->watch.fd, e->lib.api, why, sizeof(why));
	p = elf ? probe_sites__new(a, elf, &scratch, owner, excluded) : NULL;
	if (!p) {
		elf_lib__free(elf);
		return -ENOEXEC;
	}
	req = (struct links_req){
		.owner = owner,
		.mech = a->mech,
		.progs = a->progs,
		.file_fd = e->watch.fd,
		.offs = p->offs,
		.cookies = p->cookies,
		.cnt = p->cnt,
	};
	memcpy(req.group_cnt, p->group_cnt, sizeof(req.group_cnt));
	if (p->cnt)
		ret = links__attach(&a->links, &req, &answer);
	if (!ret && p->cnt && answer.ret < 0)
		ret = answer.ret;
	probe_sites__free(p);
	return ret;
}

static struct lib_entry *by_id(const struct attach *a, unsigned lib_id)
{
	for (unsigned i = 0; i < a->lib_cnt; i++)
		if (a->libs[i]->lib.id == lib_id)
			return a->libs[i];
	return NULL;
}

bool attach__has_lib(const struct attach *a, unsigned lib_id)
{
	return by_id(a, lib_id);
}

/* More are reported in one line. */
#define CHANGED_NAMED 8

void attach_lib__report_refused(struct attach *a, struct lib_entry *e, const uint64_t *inproc)
{
	for (unsigned i = 0; i < e->lib.refused_cnt && !e->warned_refused; i++) {
		int id = fnset__find(a->fns, e->lib.refused[i]);

		if (inproc && id >= 0 && inproc[id / 64] >> id % 64 & 1)
			continue;
		if (i >= e->lib.changed_at && e->lib.refused_cnt - i > CHANGED_NAMED) {
			warn("process %d, which has changed the code of %u functions in %s or runs "
			     "under valgrind, would crash with probes: their calls are not traced; "
			     "use --probe=inject, or end that process",
			     (int)e->lib.changed_by, e->lib.refused_cnt - i, e->lib.path);
			break;
		}
		if (i >= e->lib.changed_at)
			warn("process %d has changed the code of %s in %s (a hook?) and would crash "
			     "with a probe: its calls are not traced; use --probe=inject, or end that "
			     "process",
			     (int)e->lib.changed_by, e->lib.refused[i], e->lib.path);
		else
			warn("the kernel cannot probe the first instruction of %s in %s: its calls "
			     "are not traced",
			     e->lib.refused[i], e->lib.path);
	}
	e->warned_refused = true;
}

bool attach__covered_off(const struct attach *a, unsigned lib_id)
{
	const struct lib_entry *e = by_id(a, lib_id);

	return e && e->covered_off;
}

void attach__uprobes_alone(struct attach *a, unsigned lib_id)
{
	struct lib_entry *e = by_id(a, lib_id);

	if (e)
		attach_lib__report_refused(a, e, NULL);
}

/* The remaining functions keep their probes from now on. */
static bool hold_rest(struct attach *a, struct lib_entry *e, const uint64_t *inproc)
{
	unsigned owner = ++a->newest_owner;

	if (put_on(a, e, owner, inproc))
		return false;
	attach_lib__report_refused(a, e, inproc);
	e->rest_owner = owner;
	for (unsigned i = 0; i < CT_MAX_FUNCS / 64; i++)
		e->rest[i] = ~inproc[i];
	return true;
}

struct flight {
	uint32_t of_cookie;
	bool any;
};

static void look_at_thread(uint32_t tid, struct ct_thread *t, void *ctx)
{
	struct flight *f = ctx;

	for (unsigned i = 0; i < t->depth && i < CT_MAX_DEPTH; i++)
		f->any |= t->frames[i].lib_id == f->of_cookie;
}

/* Returns whether a call is in flight: detaching now would miss its return. */
static bool is_in_flight(struct attach *a, const struct lib_entry *e)
{
	struct flight f = {.of_cookie = CT_COOKIE_LIB(CT_COOKIE(0, e->lib.id, e->owner))};

	attach__each_thread(a, look_at_thread, &f);
	return f.any;
}

bool attach__detach_covered(struct attach *a, unsigned lib_id, const uint64_t *inproc, bool prepare)
{
	struct lib_entry *e = by_id(a, lib_id);

	/* Perf events, two for each function, take a minute to detach. */
	if (!e || e->off || e->sites || e->covered_off || a->detached || a->mech == MECH_PERF)
		return false;
	if (prepare) {
		attach_lib__forget_keys(a, e);
		return true;
	}
	if ((!e->rest_owner && !hold_rest(a, e, inproc)) || is_in_flight(a, e))
		return false;
	e->covered_off = true;
	links__close_soon(&a->links, e->owner);
	dbg("%s: detached the probes of functions that in-process libraries record", e->lib.path);
	return true;
}

void attach__reattach(struct attach *a, unsigned lib_id)
{
	struct lib_entry *e = by_id(a, lib_id);
	int ret = 0;

	if (!e || e->off || a->detached)
		return;
	if (e->covered_off) {
		e->owner = ++a->newest_owner;
		ret = put_on(a, e, e->owner, e->rest);
		e->covered_off = false;
		dbg("%s: reattached its probes", e->lib.path);
	}
	if (ret) {
		e->missed = MISSED_NEW;
		warn("%s: its probes %s: calls of processes that have just loaded it may be missing",
		     e->lib.path,
		     ret == -EINPROGRESS ? "are late because the kernel waits" : strerror(-ret));
	}
	attach_lib__announce(a, &e->lib.key, e->lib.id);
}
