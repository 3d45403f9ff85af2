/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The settings that a process gets in its memory: functions, filters and plans. */
#include "inject_priv.h"

#include "attach/nv_devs.h"
#include "decode/value.h"
#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Linux 5.1. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static void fill_nv(struct ct_shm_nv *nv, const struct nv_abi *abi, enum ct_redact redact)
{
	nv->wanted = 1;
	nv_devs__read(&nv->devs);
	nv->plan_cnt = nv_plan_rows(abi, redact, nv->plans, CT_NV_PLANS_MAX);
	nv->params_cnt = nv_plan_param_rows(abi, redact, nv->params, CT_NV_PARAMS_MAX);
}

/* The library keeps the sizes of a kernel's parameters by its handle, so it must see each call
 * after which a handle may be another kernel's. */
static bool sees_unloads(const struct fnset *fns)
{
	unsigned cnt;
	const struct api_fn *rows = api_fns(&cnt);

	for (unsigned i = 0; i < cnt; i++)
		if (rows[i].api == API_CUDA && api_fn_unloads(&rows[i]) &&
		    !fnset__wanted(fns, fnset__find(fns, rows[i].symbol)))
			return false;
	return true;
}

int settings__open(struct settings *s, const struct inject_opts *o)
{
	s->size = (sizeof(*s->set) + 4095) & ~4095ul;
	s->fns = o->fns;
	s->redact = o->redact;
	s->params = o->kernel_args && !o->only_gpu && sees_unloads(o->fns);
	s->fd = memfd_create("cudatrace-settings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (s->fd < 0 || ftruncate(s->fd, s->size))
		return -errno;
	s->set = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (s->set == MAP_FAILED) {
		s->set = NULL;
		return -errno;
	}
	/* Ours is the only writable mapping. */
	if (fcntl(s->fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		return -errno;
	s->set->magic = CT_SHM_MAGIC;
	s->set->version = CT_SHM_VERSION;
	s->set->others_level = CT_PROC_TRACE;
	s->set->redact = o->redact;
	s->set->probed = o->probes && !o->only_gpu;
	s->set->gpu_time = o->gpu_time;
	s->set->stalls = o->stalls;
	s->set->python = o->reads_frames;
	s->frames = o->reads_frames && !o->profile;
	if (o->cupti)
		snprintf(s->set->cupti, sizeof(s->set->cupti), "%s", o->cupti);
	s->only_gpu = o->only_gpu;
	s->late = o->late || o->gpu_burst;
	s->only_table = o->folder && o->probes;
	s->set->min_duration_ns = o->min_duration_ns;
	s->set->stack_max = o->no_stacks ? 0 : CT_STACK_MAX;
	s->set->sample_seed = now_ns();
	s->set->beat_ns = now_ns();
	settings__changed(s);
	s->names_sz = 1;
	if (o->kernel)
		fill_nv(&s->set->nv, o->kernel, o->redact);
	api_named_results(s->set->results);
	settings__fill(s);
	return 0;
}

/* Returns false if there is no space for its name. */
static bool report_name(struct settings *s, unsigned id, const char *symbol)
{
	size_t size = strlen(symbol) + 1;

	if (size > CT_SHM_NAMES_SZ - s->names_sz)
		return false;
	memcpy(s->set->names + s->names_sz, symbol, size);
	s->set->name_off[id] = s->names_sz;
	s->names_sz += size;
	return true;
}

/* Returns whether the in-process library can record the function. It has no pointer that all NCCL
 * calls go through; probes, if any, record those it misses (inject/bypass.c). For NCCL, only known
 * functions: others may need more stack than a thunk passes on. */
static bool is_reached(const struct api_fn *fn)
{
	return fn->api == API_CUDA || fn->api == API_NVTX || (fn->api == API_NCCL && fn->known);
}

/* CT_CAP_EXTRA and CT_CAP_PARAMS are the last of a launch's pointees. The library looks for them
 * after the others, so that other calls have no overhead. */
static void set_launch_apart(const struct settings *s, struct ct_spec *spec)
{
	unsigned params;

	if (s->redact == CT_REDACT_ARGS) {
		memset(spec->caps, 0, sizeof(spec->caps));
		return;
	}
	params = spec->cap_cnt;
	if (s->params && params < CT_MAX_CAPS && spec->caps[params].kind == CT_CAP_PARAMS)
		spec->flags |= CT_SPEC_F_PARAMS;
	if (spec->cap_cnt && spec->caps[spec->cap_cnt - 1].kind == CT_CAP_EXTRA)
		spec->cap_cnt--;
}

static void set_out(struct ct_spec *spec)
{
	const struct ct_cap *cap = &spec->caps[0];

	if (spec->cap_cnt && cap->kind == CT_CAP_MEM && cap->flags & CT_CAP_F_ON_SUCCESS &&
	    (cap->size == 4 || cap->size == 8) && cap->arg < CT_REG_WORDS_X86)
		spec->out_sz = cap->size;
}

/* Returns whether calls have Python frames or PyTorch operators, which the library cannot read. A
 * probe in the library does, or probes record these calls. */
static bool has_frames(const struct settings *s, unsigned id)
{
	return s->set->probed && (fnset__is_marked(s->fns, FNSET_PYTHON, id) ||
				  fnset__wants_api(s->fns, api_at(API_TORCH)));
}

static void set_frames(struct ct_spec *spec, bool on)
{
	spec->flags = (spec->flags & ~CT_SPEC_F_PYTHON) | (on ? CT_SPEC_F_PYTHON : 0);
}

void settings__fill(struct settings *s)
{
	for (; s->fn_cnt < fnset__cnt(s->fns) && s->fn_cnt < CT_MAX_FUNCS; s->fn_cnt++) {
		const struct api_fn *fn = fnset__fn(s->fns, s->fn_cnt);
		unsigned id = s->fn_cnt;

		/* Ids of unknown functions are reused when their files are gone. */
		if (s->only_table && fnset__is_generic(s->fns, id))
			continue;
		if (s->only_gpu || !fn || !is_reached(fn))
			continue;
		if (!fnset__wanted(s->fns, id) || (has_frames(s, id) && !s->frames)) {
			if (s->late && fn->api != API_NCCL && report_name(s, id, fn->symbol))
				s->set->specs[id].of.level = CT_LEVEL_GONE;
			continue;
		}
		fnset__spec(s->fns, id, s->redact, &s->set->specs[id].of);
		set_frames(&s->set->specs[id].of, has_frames(s, id));
		set_launch_apart(s, &s->set->specs[id].of);
		set_out(&s->set->specs[id].of);
		if (report_name(s, id, fn->symbol))
			s->wanted_cnt += fn->api == API_CUDA;
		else
			warn("%s is not traced: it exports too many functions", fn->symbol);
	}
	__atomic_store_n(&s->set->fn_cnt, s->fn_cnt, __ATOMIC_RELEASE);
}

void settings__changed(struct settings *s)
{
	uint64_t now = now_ns(), before = s->set->changed_ns;

	__atomic_store_n(&s->set->changed_ns, now > before ? now : before + 1, __ATOMIC_RELEASE);
}

void settings__close(struct settings *s)
{
	if (s->set)
		munmap(s->set, s->size);
	if (s->fd >= 0)
		close(s->fd);
}

/* A spec is not written atomically: a thread may see a mix of the old and the new level. */
static struct ct_spec *spec_of(struct inject *in, unsigned func_id)
{
	return func_id < in->settings.fn_cnt ? &in->settings.set->specs[func_id].of : NULL;
}

int inject__set_level(struct inject *in, unsigned func_id, const struct fn_level *l)
{
	struct ct_spec *spec = spec_of(in, func_id);
	uint16_t flags;

	if (in->o.only_gpu)
		return 0;
	if (!spec)
		return in->o.probes ? 0 : -ENOENT;
	/* Its calls only pass the gate. */
	if (spec->level == CT_LEVEL_GONE)
		return 0;
	flags = spec->flags & ~CT_SPEC_F_NO_RETURN;
	if (l->entry_only || fnset__is_marked(in->o.fns, FNSET_NO_RETURN, func_id))
		flags |= CT_SPEC_F_NO_RETURN;
	spec->sample_below = l->one_of > 1 ? UINT32_MAX / l->one_of : UINT32_MAX;
	__atomic_store_n(&spec->flags, flags, __ATOMIC_RELAXED);
	__atomic_store_n(&spec->level, l->level, __ATOMIC_RELEASE);
	settings__changed(&in->settings);
	return 0;
}

int inject__set_sampled(struct inject *in, unsigned func_id, uint32_t below)
{
	struct ct_spec *spec = spec_of(in, func_id);

	if (in->o.only_gpu)
		return 0;
	if (!spec)
		return in->o.probes ? 0 : -ENOENT;
	__atomic_store_n(&spec->sample_below, below, __ATOMIC_RELAXED);
	if (below)
		__atomic_or_fetch(&spec->flags, CT_SPEC_F_SAMPLED, __ATOMIC_RELEASE);
	else
		__atomic_and_fetch(&spec->flags, (uint16_t)~CT_SPEC_F_SAMPLED, __ATOMIC_RELEASE);
	return 0;
}

int inject__set_always(struct inject *in, unsigned func_id, bool always)
{
	struct ct_spec *spec = spec_of(in, func_id);

	if (in->o.only_gpu)
		return 0;
	if (!spec)
		return in->o.probes ? 0 : -ENOENT;
	if (always)
		__atomic_or_fetch(&spec->flags, CT_SPEC_F_ALWAYS, __ATOMIC_RELAXED);
	else
		__atomic_and_fetch(&spec->flags, ~CT_SPEC_F_ALWAYS, __ATOMIC_RELAXED);
	return 0;
}

void inject__set_default(struct inject *in, enum ct_proc_level level)
{
	__atomic_store_n(&in->settings.set->others_level, level, __ATOMIC_RELAXED);
	settings__changed(&in->settings);
}
