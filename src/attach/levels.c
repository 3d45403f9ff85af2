/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "levels.h"

#include "attach_priv.h"

#include "decode/value.h"
#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

static int set_spec(struct attach *a, uint32_t id, const struct ct_spec *spec)
{
	int ret = bpf_map__update_elem(a->skel->maps.specs, &id, sizeof(id), spec, sizeof(*spec),
				       BPF_ANY);

	if (ret)
		err("cannot fill the BPF map of functions: %s", strerror(-ret));
	return ret;
}

/* A capture keeps its place: the arguments behind it are found by its number. */
static void hide(struct ct_spec *spec, enum attach_hide what)
{
	if (what == HIDE_ARGS)
		spec->word_cnt = spec->cap_cnt = 0;
	for (unsigned i = 0; what == HIDE_STRINGS && i < spec->cap_cnt; i++) {
		if (spec->caps[i].kind == CT_CAP_STR || spec->caps[i].kind == CT_CAP_PSTR)
			spec->caps[i].size = 0;
	}
}

int levels__refill(struct attach *a, unsigned func_id)
{
	struct ct_spec spec;

	cuda_fn_spec(fnset__fn(a->fns, func_id), &spec);
	hide(&spec, a->hide);
	if (fnset__is_marked(a->fns, FNSET_COUNT, func_id))
		spec.level = CT_LEVEL_COUNT;
	if (fnset__is_marked(a->fns, FNSET_NO_RETURN, func_id))
		spec.flags |= CT_SPEC_F_NO_RETURN;
	if (fnset__is_marked(a->fns, FNSET_STACK, func_id))
		spec.flags |= CT_SPEC_F_STACK;
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

static int get_spec(struct attach *a, uint32_t id, struct ct_spec *spec)
{
	if (id >= a->spec_cnt)
		return -ENOENT;
	return bpf_map__lookup_elem(a->skel->maps.specs, &id, sizeof(id), spec, sizeof(*spec), 0);
}

int levels__set_fn(struct attach *a, unsigned func_id, const struct fn_level *l)
{
	struct ct_spec spec;
	int ret = get_spec(a, func_id, &spec);

	if (ret)
		return ret;
	spec.level = l->level;
	spec.sample_below = l->one_of > 1 ? UINT32_MAX / l->one_of : UINT32_MAX;
	spec.flags &= ~CT_SPEC_F_NO_RETURN;
	/* Where no return program is attached, none can be switched on. */
	if (l->no_return || fnset__is_marked(a->fns, FNSET_NO_RETURN, func_id))
		spec.flags |= CT_SPEC_F_NO_RETURN;
	return set_spec(a, func_id, &spec);
}

int levels__set_always(struct attach *a, unsigned func_id, bool always)
{
	struct ct_spec spec;
	int ret = get_spec(a, func_id, &spec);

	if (ret)
		return ret;
	spec.flags &= ~CT_SPEC_F_ALWAYS;
	if (always)
		spec.flags |= CT_SPEC_F_ALWAYS;
	return set_spec(a, func_id, &spec);
}

int levels__get_fn(struct attach *a, unsigned func_id, struct fn_level *l)
{
	struct ct_spec spec;
	int ret = get_spec(a, func_id, &spec);

	if (ret)
		return ret;
	*l = (struct fn_level){
		.level = spec.level,
		.one_of = spec.sample_below ? UINT32_MAX / spec.sample_below : 1,
		.no_return = spec.flags & CT_SPEC_F_NO_RETURN,
	};
	return 0;
}

int levels__set_proc(struct attach *a, pid_t pid, enum ct_proc_level level)
{
	uint32_t key = pid;
	struct ct_pid val = {0};
	int ret;

	bpf_map__lookup_elem(a->skel->maps.pids, &key, sizeof(key), &val, sizeof(val), 0);
	val.level = level;
	ret = bpf_map__update_elem(a->skel->maps.pids, &key, sizeof(key), &val, sizeof(val),
				   BPF_ANY);
	__atomic_add_fetch(&a->skel->data->level_gen, 1, __ATOMIC_RELEASE);
	return ret;
}

void levels__forget_proc(struct attach *a, pid_t pid)
{
	uint32_t key = pid;

	bpf_map__delete_elem(a->skel->maps.pids, &key, sizeof(key), 0);
}

void levels__set_default(struct attach *a, enum ct_proc_level level)
{
	a->skel->data->default_level = level;
	__atomic_add_fetch(&a->skel->data->level_gen, 1, __ATOMIC_RELEASE);
}

void levels__read(struct attach *a, levels_fn fn, void *ctx)
{
	int fd = bpf_map__fd(a->skel->maps.counts);
	struct ct_count_key key, next;
	struct ct_count c;
	bool first = true;

	while (!bpf_map_get_next_key(fd, first ? NULL : &key, &next)) {
		first = false;
		key = next;
		if (!bpf_map_lookup_elem(fd, &key, &c))
			fn(ctx, &key, &c);
	}
}

static void take_one(int fd, const struct ct_count_key *key, levels_fn fn, void *ctx)
{
	struct ct_count c;

	if (bpf_map_lookup_elem(fd, key, &c))
		return;
	fn(ctx, key, &c);
	bpf_map_delete_elem(fd, key);
}

/* The next key is asked for before one is deleted: after that the walk would begin again. */
static void take_all_lives(int fd, pid_t pid, levels_fn fn, void *ctx)
{
	struct ct_count_key key, next;
	bool more = !bpf_map_get_next_key(fd, NULL, &next);

	while (more) {
		key = next;
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (key.pid == (uint32_t)pid)
			take_one(fd, &key, fn, ctx);
	}
}

void levels__take(struct attach *a, pid_t pid, ct_life life, levels_fn fn, void *ctx)
{
	int fd = bpf_map__fd(a->skel->maps.counts);

	if (!life)
		take_all_lives(fd, pid, fn, ctx);
	for (uint32_t id = 0; life && id < a->spec_cnt; id++) {
		struct ct_count_key key = {.life = life, .pid = pid, .func_id = id};

		take_one(fd, &key, fn, ctx);
	}
}

void levels__read_errors(struct attach *a, levels_error_fn fn, void *ctx)
{
	int fd = bpf_map__fd(a->skel->maps.errors);
	struct ct_error_key key, next;
	bool first = true;
	uint64_t cnt;

	while (!bpf_map_get_next_key(fd, first ? NULL : &key, &next)) {
		first = false;
		key = next;
		if (!bpf_map_lookup_elem(fd, &key, &cnt))
			fn(ctx, &key, cnt);
	}
}

void levels__take_errors(struct attach *a, pid_t pid, ct_life life, levels_error_fn fn, void *ctx)
{
	int fd = bpf_map__fd(a->skel->maps.errors);
	struct ct_error_key key, next;
	bool more = !bpf_map_get_next_key(fd, NULL, &next);
	uint64_t cnt;

	while (more) {
		key = next;
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (key.pid != (uint32_t)pid || (life && key.life != life) ||
		    bpf_map_lookup_elem(fd, &key, &cnt))
			continue;
		fn(ctx, &key, cnt);
		bpf_map_delete_elem(fd, &key);
	}
}

struct in_flight {
	levels_fn fn;
	void *ctx;
};

static void send_counted(uint32_t tid, struct ct_thread *t, void *ctx)
{
	static const struct ct_count one = {.unfinished = 1};
	struct in_flight *f = ctx;

	(void)tid;
	for (unsigned i = 0; i < t->depth && i < CT_MAX_DEPTH; i++) {
		const struct ct_count_key key = {t->life, t->pid, t->frames[i].func_id};

		if (t->frames[i].flags & CT_FRAME_F_COUNTED)
			f->fn(f->ctx, &key, &one);
	}
}

void levels__unfinished(struct attach *a, levels_fn fn, void *ctx)
{
	struct in_flight f = {fn, ctx};

	attach__each_thread(a, send_counted, &f);
}
