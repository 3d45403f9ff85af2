/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "levels.h"

#include "attach_priv.h"
#include "map_rows.h"

#include "decode/cuda.h"
#include "decode/value.h"
#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(API_CNT <= CT_APIS_MAX, "ct_cfg has space for all families");

/* Adds the library names of a family, each once. Returns the total so far. */
static unsigned add_stems(struct ct_cfg *cfg, const struct api *api, unsigned cnt)
{
	const char *file;
	size_t len;

	for (unsigned i = 0; (file = api_file(api, i, &len)); i++) {
		char stem[CT_STEM_SZ] = {0};
		unsigned k = 0;

		snprintf(stem, sizeof(stem), "%.*s%s", (int)api_stem_len(file), file,
			 file[api_stem_len(file)] == '*' ? "" : ".so");
		while (k < cnt && memcmp(cfg->stems[k], stem, sizeof(stem)))
			k++;
		if (k == cnt && cnt < CT_STEMS_MAX)
			memcpy(cfg->stems[cnt++], stem, sizeof(stem));
	}
	return cnt;
}

void levels__prepare(struct ct_cfg *cfg, const struct fnset *fns)
{
	unsigned stems = 0;

	api_named_results(cfg->results);
	for (int a = 0; a < API_CNT; a++)
		if (fnset__wants_api(fns, api_at(a)))
			stems = add_stems(cfg, api_at(a), stems);
}

static int set_spec(struct attach *a, uint32_t id, const struct ct_spec *spec)
{
	int ret = bpf_map__update_elem(a->skel->maps.specs, &id, sizeof(id), spec, sizeof(*spec),
				       BPF_ANY);

	if (ret)
		err("cannot fill the BPF map of functions: %s", strerror(-ret));
	return ret;
}

int levels__refill(struct attach *a, unsigned func_id)
{
	struct ct_spec spec;

	fnset__spec(a->fns, func_id, a->redact, &spec);
	return set_spec(a, func_id, &spec);
}

int levels__fill(struct attach *a)
{
	for (; a->spec_cnt < fnset__cnt(a->fns); a->spec_cnt++) {
		int ret = levels__refill(a, a->spec_cnt);

		if (ret)
			return ret;
	}
	return 0;
}

int levels__spec(struct attach *a, uint32_t id, struct ct_spec *spec)
{
	if (id >= a->spec_cnt)
		return -ENOENT;
	return bpf_map__lookup_elem(a->skel->maps.specs, &id, sizeof(id), spec, sizeof(*spec), 0);
}

void levels__end(struct attach *a)
{
	struct ct_spec spec;

	for (unsigned id = 0; id < a->spec_cnt; id++) {
		if (levels__spec(a, id, &spec))
			continue;
		spec.level = CT_LEVEL_GONE;
		set_spec(a, id, &spec);
	}
}

int levels__set_fn(struct attach *a, unsigned func_id, const struct fn_level *l)
{
	struct ct_spec spec;
	int ret = levels__spec(a, func_id, &spec);

	if (ret)
		return ret;
	spec.level = l->level;
	spec.sample_below = l->one_of > 1 ? UINT32_MAX / l->one_of : UINT32_MAX;
	spec.flags &= ~CT_SPEC_F_NO_RETURN;
	/* Without a return program, returns cannot be enabled later. */
	if (l->entry_only || fnset__is_marked(a->fns, FNSET_NO_RETURN, func_id))
		spec.flags |= CT_SPEC_F_NO_RETURN;
	return set_spec(a, func_id, &spec);
}

int levels__set_always(struct attach *a, unsigned func_id, bool always)
{
	struct ct_spec spec;
	int ret = levels__spec(a, func_id, &spec);

	if (ret)
		return ret;
	spec.flags &= ~CT_SPEC_F_ALWAYS;
	if (always)
		spec.flags |= CT_SPEC_F_ALWAYS;
	return set_spec(a, func_id, &spec);
}

static void set_level(struct ct_pid *p, uint32_t level)
{
	p->level = level;
}

int levels__set_sampled(struct attach *a, unsigned func_id, uint32_t below)
{
	struct ct_spec spec;
	int ret = levels__spec(a, func_id, &spec);

	if (ret)
		return ret;
	spec.sample_below = below;
	spec.flags |= CT_SPEC_F_STACK | CT_SPEC_F_PYTHON;
	return set_spec(a, func_id, &spec);
}

int levels__set_proc(struct attach *a, pid_t pid, enum ct_proc_level level)
{
	int ret = memlimit__set_process(a, pid, set_level, level);

	__atomic_add_fetch(&a->skel->data->level_gen, 1, __ATOMIC_RELEASE);
	return ret;
}

void levels__forget_proc(struct attach *a, pid_t pid)
{
	memlimit__drop_process(a, pid);
}

void levels__set_default(struct attach *a, enum ct_proc_level level)
{
	a->skel->data->default_level = level;
	__atomic_add_fetch(&a->skel->data->level_gen, 1, __ATOMIC_RELEASE);
}

struct read_ctx {
	struct attach *a;
	levels_fn fn;
	levels_error_fn error_fn;
	void *ctx;
	pid_t pid;		  /* only this process; 0: all */
	ct_generation generation; /* and only this program; 0: all */
	levels_wanted_fn wanted;  /* and only those that it accepts; NULL: all */
	uint32_t rows;
};

static bool is_wanted(const struct read_ctx *r, uint32_t pid, ct_generation generation)
{
	return (!r->pid || pid == (uint32_t)r->pid) &&
	       (!r->generation || generation == r->generation) &&
	       (!r->wanted || r->wanted(r->ctx, pid, generation));
}

static void read_count(void *ctx, const void *key, const void *val)
{
	struct read_ctx *r = ctx;

	r->fn(r->ctx, key, val);
}

void levels__read(struct attach *a, levels_fn fn, void *ctx)
{
	struct read_ctx r = {.a = a, .fn = fn, .ctx = ctx};

	map_rows__each(bpf_map__fd(a->skel->maps.counts), sizeof(struct ct_count_key),
		       sizeof(struct ct_count), read_count, &r);
}

/* Returns the number of a program's rows, and their user. */
static struct ct_share share_of(struct attach *a, pid_t pid, ct_generation generation)
{
	const struct ct_owner who = {.generation = generation, .pid = pid};
	struct ct_share s = {0};

	bpf_map_lookup_elem(bpf_map__fd(a->skel->maps.shares), &who, &s);
	return s;
}

/* Deletes a row after its last read. */
static void drop_row(struct attach *a, enum ct_table table, const void *key, pid_t pid,
		     ct_generation generation)
{
	int fd =
		bpf_map__fd(table == CT_TABLE_COUNTS ? a->skel->maps.counts : a->skel->maps.errors);

	if (!bpf_map_delete_elem(fd, key))
		memlimit__uncharge(a, table, share_of(a, pid, generation).uid);
}

static void take_count(void *ctx, const void *key, const void *val)
{
	const struct ct_count_key *k = key;
	struct read_ctx *r = ctx;

	if (!is_wanted(r, k->pid, k->generation))
		return;
	r->fn(r->ctx, k, val);
	drop_row(r->a, CT_TABLE_COUNTS, k, k->pid, k->generation);
	r->rows++;
}

void levels__take(struct attach *a, pid_t pid, ct_generation generation, levels_fn fn, void *ctx)
{
	struct read_ctx r = {.a = a, .fn = fn, .ctx = ctx, .pid = pid, .generation = generation};
	struct ct_share share = generation ? share_of(a, pid, generation) : (struct ct_share){0};
	bool all = !generation || share.own_rows;
	int fd = bpf_map__fd(a->skel->maps.counts);
	struct ct_count c;

	if (all)
		map_rows__each(fd, sizeof(struct ct_count_key), sizeof(c), take_count, &r);
	for (uint32_t id = 0; !all && id < a->spec_cnt && r.rows < share.rows[CT_TABLE_COUNTS];
	     id++) {
		struct ct_count_key key = {.generation = generation, .pid = pid, .func_id = id};

		if (!bpf_map_lookup_elem(fd, &key, &c))
			take_count(&r, &key, &c);
	}
}

static void read_error(void *ctx, const void *key, const void *val)
{
	struct read_ctx *r = ctx;

	r->error_fn(r->ctx, key, *(const uint64_t *)val);
}

void levels__read_errors(struct attach *a, levels_error_fn fn, void *ctx)
{
	struct read_ctx r = {.a = a, .error_fn = fn, .ctx = ctx};

	map_rows__each(bpf_map__fd(a->skel->maps.errors), sizeof(struct ct_error_key),
		       sizeof(uint64_t), read_error, &r);
}

static void take_error(void *ctx, const void *key, const void *val)
{
	const struct ct_error_key *k = key;
	struct read_ctx *r = ctx;

	if (!is_wanted(r, k->pid, k->generation))
		return;
	read_error(r, key, val);
	drop_row(r->a, CT_TABLE_ERRORS, k, k->pid, k->generation);
}

void levels__take_errors(struct attach *a, pid_t pid, ct_generation generation, levels_error_fn fn,
			 void *ctx)
{
	struct read_ctx r = {
		.a = a, .error_fn = fn, .ctx = ctx, .pid = pid, .generation = generation};

	/* Scans the whole table, so avoid it for programs without rows. */
	if (generation && !share_of(a, pid, generation).rows[CT_TABLE_ERRORS])
		return;
	map_rows__each(bpf_map__fd(a->skel->maps.errors), sizeof(struct ct_error_key),
		       sizeof(uint64_t), take_error, &r);
}

bool levels__is_slow_to_take(struct attach *a, pid_t pid, ct_generation generation)
{
	struct ct_share share = share_of(a, pid, generation);

	return share.own_rows || share.rows[CT_TABLE_ERRORS];
}

void levels__take_all(struct attach *a, levels_wanted_fn wanted, levels_fn fn,
		      levels_error_fn error_fn, void *ctx)
{
	struct read_ctx r = {.a = a, .fn = fn, .error_fn = error_fn, .ctx = ctx, .wanted = wanted};

	map_rows__each(bpf_map__fd(a->skel->maps.counts), sizeof(struct ct_count_key),
		       sizeof(struct ct_count), take_count, &r);
	map_rows__each(bpf_map__fd(a->skel->maps.errors), sizeof(struct ct_error_key),
		       sizeof(uint64_t), take_error, &r);
}

static void drop_share(void *ctx, const void *key, const void *val)
{
	const struct ct_owner *who = key;
	struct read_ctx *r = ctx;

	if (is_wanted(r, who->pid, who->generation))
		bpf_map_delete_elem(bpf_map__fd(r->a->skel->maps.shares), who);
}

void levels__forget_rows(struct attach *a, pid_t pid, ct_generation generation)
{
	const struct ct_owner who = {.generation = generation, .pid = pid};
	struct read_ctx r = {.a = a, .pid = pid};

	if (generation)
		drop_share(&r, &who, NULL);
	else
		map_rows__each(bpf_map__fd(a->skel->maps.shares), sizeof(who),
			       sizeof(struct ct_share), drop_share, &r);
}

struct in_flight {
	levels_fn fn;
	void *ctx;
};

static void send_counted(uint32_t tid, struct ct_thread *t, void *ctx)
{
	static const struct ct_count one = {.unfinished = 1};
	struct in_flight *f = ctx;

	for (unsigned i = 0; i < t->depth && i < CT_MAX_DEPTH; i++) {
		const struct ct_count_key key = {t->generation, t->pid, t->frames[i].func_id, 0};

		if (t->frames[i].flags & CT_FRAME_F_COUNTED)
			f->fn(f->ctx, &key, &one);
	}
}

void levels__unfinished(struct attach *a, levels_fn fn, void *ctx)
{
	struct in_flight f = {fn, ctx};

	attach__each_thread(a, send_counted, &f);
}
