/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Limits of the BPF side's tables per owner (ct_limit.h): as bpf/memlimit.bpf.h, for rows added and
 * deleted from user space. */
#include "attach_priv.h"

#include "util/reader.h"

#include <errno.h>

/* Default rows; for processes and threads see docs/LIMITS.md. */
#define COUNTS_MAX 65536
#define TASKS_MAX  65536

void memlimit__prepare(struct cudatrace_bpf *skel, struct ct_cfg *cfg, const struct attach_opts *o)
{
	cfg->rows_max[CT_TABLE_COUNTS] = o->counts_max ?: COUNTS_MAX;
	cfg->rows_max[CT_TABLE_ERRORS] = o->errors_max;
	cfg->rows_max[CT_TABLE_THREADS] = o->tasks_max ?: TASKS_MAX;
	cfg->rows_max[CT_TABLE_DRIVER] = o->tasks_max ?: TASKS_MAX;
	cfg->rows_max[CT_TABLE_PROCESSES] = o->tasks_max ?: TASKS_MAX;
	/* Fairness is needed only if processes of several users are traced. */
	cfg->fair = !o->filter_pids && !o->filter_uid;
	cfg->user_secret |= 1;
	bpf_map__set_max_entries(skel->maps.counts, cfg->rows_max[CT_TABLE_COUNTS]);
	bpf_map__set_max_entries(skel->maps.errors, o->errors_max ?: 1);
	bpf_map__set_max_entries(skel->maps.threads, cfg->rows_max[CT_TABLE_THREADS]);
	bpf_map__set_max_entries(skel->maps.nv_threads, cfg->rows_max[CT_TABLE_DRIVER]);
	bpf_map__set_max_entries(skel->maps.usage,
				 cfg->rows_max[CT_TABLE_THREADS] + cfg->rows_max[CT_TABLE_DRIVER]);
	bpf_map__set_max_entries(skel->maps.pids, cfg->rows_max[CT_TABLE_PROCESSES]);
	bpf_map__set_max_entries(skel->maps.inproc,
				 !o->inproc ? 1 : o->inproc_max ?: cfg->rows_max[CT_TABLE_PROCESSES]);
	bpf_map__set_max_entries(skel->maps.python_sent,
				 o->python ? 1 << (CT_PYTHON_PLACES_LOG - 2) : 1);
	bpf_map__set_max_entries(skel->maps.pythons,
				 o->python ? cfg->rows_max[CT_TABLE_PROCESSES] : 1);
	bpf_map__set_max_entries(skel->maps.operators,
				 cfg->torch ? cfg->rows_max[CT_TABLE_THREADS] : 1);
	bpf_map__set_max_entries(skel->maps.torch_sites, cfg->torch ? CT_SITES_MAX : 1);
}

static uint32_t *of_user(struct attach *a, enum ct_table table, uid_t uid)
{
	return &a->skel->bss
			->rows_of_user[table][ct_user_slot(uid, a->skel->rodata->cfg.user_secret)];
}

static bool take(struct attach *a, enum ct_table table, uid_t uid)
{
	const struct ct_cfg *cfg = &a->skel->rodata->cfg;
	uint64_t left = ct_limit_left(cfg->rows_max[table], a->skel->bss->rows_used[table]);

	if (!ct_limit_fits(cfg->fair ? *of_user(a, table, uid) : 0, 1, CT_LIMIT_NO_SHARE, left))
		return false;
	__atomic_add_fetch(of_user(a, table, uid), 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&a->skel->bss->rows_used[table], 1, __ATOMIC_RELAXED);
	return true;
}

void memlimit__uncharge(struct attach *a, enum ct_table table, uid_t uid)
{
	__atomic_sub_fetch(of_user(a, table, uid), 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&a->skel->bss->rows_used[table], 1, __ATOMIC_RELAXED);
}

static int add_process(struct attach *a, uint32_t pid, struct ct_pid *p)
{
	int ret;

	p->uid = reader__user(pid);
	if (!take(a, CT_TABLE_PROCESSES, p->uid))
		return -ENOSPC;
	ret = bpf_map__update_elem(a->skel->maps.pids, &pid, sizeof(pid), p, sizeof(*p),
				   BPF_NOEXIST);
	if (ret)
		memlimit__uncharge(a, CT_TABLE_PROCESSES, p->uid);
	return ret;
}

int memlimit__set_process(struct attach *a, uint32_t pid,
			  void (*set)(struct ct_pid *p, uint32_t value), uint32_t value)
{
	int ret = -EEXIST;

	/* Retry: the row may appear or vanish meanwhile. */
	for (int i = 0; i < 4 && (ret == -EEXIST || ret == -ENOENT); i++) {
		struct ct_pid p = {0};

		ret = bpf_map__lookup_elem(a->skel->maps.pids, &pid, sizeof(pid), &p, sizeof(p), 0);
		set(&p, value);
		ret = ret ? add_process(a, pid, &p)
			  : bpf_map__update_elem(a->skel->maps.pids, &pid, sizeof(pid), &p,
						 sizeof(p), BPF_EXIST);
	}
	return ret;
}

void memlimit__drop_process(struct attach *a, uint32_t pid)
{
	struct ct_pid p;

	if (!bpf_map__lookup_elem(a->skel->maps.pids, &pid, sizeof(pid), &p, sizeof(p), 0) &&
	    !bpf_map__delete_elem(a->skel->maps.pids, &pid, sizeof(pid), 0))
		memlimit__uncharge(a, CT_TABLE_PROCESSES, p.uid);
}
