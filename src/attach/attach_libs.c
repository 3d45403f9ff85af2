/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The list of library files: its limits, their owners, and when they are dropped. */
#include "attach_priv.h"

#include "attach/find/elf.h"

#include "util/log.h"
#include "util/reader.h"
#include "util/plural.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Returns an id for a symbol that is not in the table, or -ENOSPC. Ids are scarce, so the number
 * per file is limited. */
static int take_id(struct attach *a, const char *symbol, struct quota_share *share)
{
	struct quota *q = quotas__get(a->quotas, QUOTA_FUNCTIONS);
	int id = fnset__find(a->fns, symbol);

	if (id >= 0 && fnset__is_held(a->fns, id))
		return id;
	if (!quota__take(q, share, 1))
		return -ENOSPC;
	id = fnset__id(a->fns, symbol);
	if (id < 0)
		quota__give(q, share, 1);
	else if ((unsigned)id < a->spec_cnt && levels__refill(a, id))
		return -EINVAL;
	return id;
}

void attach_lib__take_ids(struct attach *a, struct lib_entry *e, const struct elf_lib *elf)
{
	struct quota_share share = {0};
	unsigned excluded = 0;

	for (unsigned i = 0; i < elf->sym_cnt; i++) {
		int id = fnset__find(a->fns, elf->syms[i].name);

		if ((id >= 0 && !fnset__is_generic(a->fns, id)) ||
		    !fnset__may_trace(a->fns, elf->syms[i].name))
			continue;
		id = take_id(a, elf->syms[i].name, &share);
		excluded += id < 0;
		if (id < 0 || e->held[id / 8] & 1 << id % 8)
			continue;
		fnset__hold(a->fns, id);
		e->held[id / 8] |= 1 << id % 8;
	}
	if (excluded)
		warn("%s: %u exported %s not traced: the table of functions is full", e->lib.path,
		     excluded,
		     noun(excluded, "function without a row in the tables is",
			  "functions without rows in the tables are"));
}

void attach_lib__give_ids(struct attach *a, struct lib_entry *e)
{
	for (unsigned id = 0; id < CT_MAX_FUNCS; id++) {
		if (!(e->held[id / 8] & 1 << id % 8))
			continue;
		fnset__release(a->fns, id);
		if (!fnset__is_held(a->fns, id))
			quota__give(quotas__get(a->quotas, QUOTA_FUNCTIONS), NULL, 1);
	}
	memset(e->held, 0, sizeof(e->held));
}

struct lib_entry *attach_lib__find(const struct attach *a, const struct ct_lib_key *key)
{
	for (unsigned i = 0; i < a->lib_cnt; i++)
		if (!memcmp(&a->libs[i]->lib.key, key, sizeof(*key)))
			return a->libs[i];
	return NULL;
}

static uid_t owner_of(const struct target_lib *t)
{
	return t->pid ? reader__user(t->pid) : 0;
}

/* Each library costs kernel memory, a descriptor, and 10 ms. */
static bool take_lib(struct attach *a, const struct target_lib *t)
{
	struct quota *q = quotas__get(a->quotas, QUOTA_LIBRARIES);
	uid_t uid = owner_of(t);
	struct quota_share share = {0};

	for (unsigned i = 0; i < a->lib_cnt; i++)
		share.used += a->libs[i]->lib.uid == uid;
	return quota__take(q, &share, 1);
}

struct lib_entry *attach_lib__add(struct attach *a, const struct target_lib *t)
{
	struct lib_entry **libs, *e;

	if (!take_lib(a, t))
		return NULL;
	e = calloc(1, sizeof(*e));
	libs = realloc(a->libs, (a->lib_cnt + 1) * sizeof(*libs));
	if (libs)
		a->libs = libs;
	if (!libs || !e || !(e->lib.path = strdup(t->path))) {
		free(e);
		err("out of memory");
		quota__give(quotas__get(a->quotas, QUOTA_LIBRARIES), NULL, 1);
		return NULL;
	}
	e->lib.uid = owner_of(t);
	e->watch.fd = e->watch.notify = -1;
	e->lib.api = t->api;
	e->lib.key = t->key;
	e->lib.id = ++a->newest_lib;
	a->libs[a->lib_cnt++] = e;
	return e;
}

const struct attach_lib *attach__lib_by_key(const struct attach *a, const struct ct_lib_key *key)
{
	struct lib_entry *e = attach_lib__find(a, key);

	return e && !e->off ? &e->lib : NULL;
}

unsigned attach__lib_cnt(const struct attach *a)
{
	return a ? a->lib_cnt : 0;
}

const struct attach_lib *attach__lib_at(const struct attach *a, unsigned i)
{
	return i < attach__lib_cnt(a) ? &a->libs[i]->lib : NULL;
}

unsigned attach__newest_lib(const struct attach *a)
{
	return a->newest_lib;
}

void attach_lib__free(struct attach *a, struct lib_entry *e)
{
	file_watch__close(&e->watch, &a->watch);
	a->off_cnt -= e->off;
	for (unsigned j = 0; j < e->lib.refused_cnt; j++)
		free(e->lib.refused[j]);
	free(e->lib.refused);
	free(e->lib.path);
	if (e->sites)
		probe_sites__free(e->sites);
	free(e);
}

void attach_lib__announce(struct attach *a, const struct ct_lib_key *key, unsigned lib_id)
{
	uint32_t id = lib_id;

	bpf_map__update_elem(a->skel->maps.known_libs, key, sizeof(*key), &id, sizeof(id), BPF_ANY);
}

static void drop_key(struct attach *a, unsigned i)
{
	struct lib_key *k = &a->keys[i];

	/* It may be the main key of another library by now. */
	if (!attach_lib__find(a, &k->key))
		bpf_map__delete_elem(a->skel->maps.known_libs, &k->key, sizeof(k->key), 0);
	quota__give(quotas__get(a->quotas, QUOTA_LIB_KEYS), NULL, 1);
	memmove(k, k + 1, (--a->key_cnt - i) * sizeof(*k));
}

/* Drops the user's oldest key for a new one. Returns false if there is none. */
static bool take_key(struct attach *a, uid_t uid)
{
	struct quota *q = quotas__get(a->quotas, QUOTA_LIB_KEYS);
	struct quota_share share = {0};
	unsigned oldest = a->key_cnt;

	for (unsigned i = a->key_cnt; i-- > 0;) {
		if (a->keys[i].uid != uid)
			continue;
		share.used++;
		oldest = i;
	}
	if (quota__take(q, &share, 1))
		return true;
	if (oldest == a->key_cnt)
		return false;
	drop_key(a, oldest);
	quota__force(q, NULL, 1);
	return true;
}

void attach__know(struct attach *a, const struct ct_lib_key *key, unsigned lib_id, pid_t pid)
{
	uid_t uid = reader__user(pid);
	struct lib_key *keys;

	if (attach_lib__find(a, key))
		return;
	for (unsigned i = 0; i < a->key_cnt; i++)
		if (!memcmp(&a->keys[i].key, key, sizeof(*key)))
			return;
	keys = realloc(a->keys, (a->key_cnt + 1) * sizeof(*keys));
	if (!keys)
		return;
	a->keys = keys;
	if (!take_key(a, uid))
		return;
	a->keys[a->key_cnt++] = (struct lib_key){.key = *key, .lib_id = lib_id, .uid = uid};
	attach_lib__announce(a, key, lib_id);
}

void attach_lib__forget_keys(struct attach *a, const struct lib_entry *e)
{
	bpf_map__delete_elem(a->skel->maps.known_libs, &e->lib.key, sizeof(e->lib.key), 0);
	for (unsigned k = a->key_cnt; k-- > 0;)
		if (a->keys[k].lib_id == e->lib.id)
			drop_key(a, k);
}

/* Maximum per check: on kernel 6.18 each takes 0.1 s to 0.2 s, and events wait meanwhile. */
#define DROPS_MAX 8

static void drop_lib(struct attach *a, unsigned i)
{
	struct lib_entry *e = a->libs[i];

	/* While its probes exist, its inode number is not reused for another file. */
	attach_lib__forget_keys(a, e);
	attach_lib__take_off_soon(a, e);
	bpf_map__delete_elem(a->skel->maps.comm_layouts, &e->lib.id, sizeof(e->lib.id), 0);
	dbg("%s: no process uses it any more: detached", e->lib.path);
	attach_lib__give_ids(a, e);
	attach_lib__free(a, e);
	quota__give(quotas__get(a->quotas, QUOTA_LIBRARIES), NULL, 1);
	memmove(a->libs + i, a->libs + i + 1, (--a->lib_cnt - i) * sizeof(*a->libs));
}

unsigned attach__drop_idle(struct attach *a,
			   bool (*is_used)(void *ctx, const struct attach_lib *lib), void *ctx)
{
	unsigned before = a->lib_cnt;

	for (unsigned i = a->lib_cnt; i-- > 0 && before - a->lib_cnt < DROPS_MAX;) {
		struct attach_lib *lib = &a->libs[i]->lib;

		if (is_used(ctx, lib) || a->libs[i]->sites)
			lib->idle = false;
		else if (lib->idle)
			drop_lib(a, i);
		else
			lib->idle = true;
	}
	return before - a->lib_cnt;
}
