/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --gpu-time, --stalls: state and counters that processes report. They are untrusted. */
#include "inject_priv.h"

/* At the end of a trace, each process may send what CUPTI still has for this long. */
#define GIVE_MAX_NS 1500000000ull

static void report(struct inject *in, struct client *p, const struct ct_shm_gpu *gpu)
{
	char comm[sizeof(p->comm) + 1] = {0};

	p->gpu_reported = true;
	__builtin_memcpy(comm, p->comm, sizeof(p->comm));
	in->o.on_gpu(in->o.ctx, p->pid, comm, gpu);
}

void gpu__connect(const struct inject *in, struct client *p, const struct ct_shm_hello *hello)
{
	p->can_gpu = hello->how != CT_SHM_CHILD;
	if (!in->o.late || !in->o.gpu_time || hello->how != CT_SHM_LATE)
		return;
	p->gpu_request = 1u << CT_SHM_REQUEST_LOG | in->o.gpu_time;
	p->shm.mem->gpu_request = p->gpu_request;
}

/* The state may answer an earlier request. */
static bool has_answered(const struct client *p)
{
	return !p->gpu_request ||
	       __atomic_load_n(&p->shm.mem->gpu.request, __ATOMIC_ACQUIRE) == p->gpu_request;
}

const char *inject__set_gpu(struct inject *in, pid_t pid, enum ct_gpu_time mode)
{
	struct client *p = clients__living(in, pid);
	uint32_t number;

	if (!p)
		return "the library is not in the process any more";
	number = (p->gpu_request >> CT_SHM_REQUEST_LOG) + 1;
	if (mode == CT_GPU_TIME_OFF) {
		__atomic_store_n(&p->shm.mem->gpu_request, 0, __ATOMIC_RELEASE);
		return NULL;
	}
	if (!p->can_gpu)
		return "a child of fork cannot use CUDA";
	if (__atomic_load_n(&p->shm.mem->quiet, __ATOMIC_RELAXED))
		return "it has installed a system call filter (seccomp) meanwhile; start it with trace.gpu_time";
	if (!p->gpu_request &&
	    __atomic_load_n(&p->shm.mem->gpu.state, __ATOMIC_ACQUIRE) == CT_CUPTI_ON)
		return "its GPU times are recorded already (trace.gpu_time)";
	p->gpu_request = number << CT_SHM_REQUEST_LOG | mode;
	p->gpu_reported = false;
	__atomic_store_n(&p->shm.mem->gpu_request, p->gpu_request, __ATOMIC_RELEASE);
	settings__changed(&in->settings);
	return NULL;
}

bool inject__gpu_state(const struct inject *in, pid_t pid, struct ct_shm_gpu *gpu)
{
	const struct client *p = clients__living((struct inject *)in, pid);

	*gpu = (struct ct_shm_gpu){0};
	if (!p)
		return false;
	if (has_answered(p))
		shm_copy(gpu, &p->shm.mem->gpu, sizeof(*gpu));
	gpu->who[sizeof(gpu->who) - 1] = gpu->path[sizeof(gpu->path) - 1] = 0;
	return true;
}

void gpu__look(struct inject *in, struct client *p)
{
	struct ct_shm_gpu copy;

	if (p->gpu_reported || !has_answered(p) ||
	    __atomic_load_n(&p->shm.mem->gpu.state, __ATOMIC_ACQUIRE) == CT_CUPTI_NONE)
		return;
	shm_copy(&copy, &p->shm.mem->gpu, sizeof(copy));
	copy.who[sizeof(copy.who) - 1] = copy.path[sizeof(copy.path) - 1] = 0;
	report(in, p, &copy);
}

void gpu__end(struct inject *in)
{
	static const struct ct_shm_gpu none = {.state = CT_CUPTI_BUSY,
					       .who = "the trace ended before it was possible"};

	for (unsigned i = 0; i < in->client_cnt && in->o.late && in->o.gpu_time; i++) {
		struct client *p = in->clients[i];

		gpu__look(in, p);
		if (!p->gpu_reported && p->pidfd >= 0 && !clients__has_ended(p))
			report(in, p, &none);
	}
}

void stalls__look(struct inject *in, struct client *p)
{
	struct ct_shm_stalls copy;
	struct ct_shm_gpu cupti;
	char comm[sizeof(p->comm) + 1] = {0};
	uint32_t flags = __atomic_load_n(&p->shm.mem->stalls.flags, __ATOMIC_RELAXED);
	uint32_t state = __atomic_load_n(&p->shm.mem->stalls.state, __ATOMIC_ACQUIRE);

	if (state == CT_STALLS_NONE || (p->stalls_reported && !(flags & ~p->stalls_flags)))
		return;
	shm_copy(&copy, &p->shm.mem->stalls, sizeof(copy));
	shm_copy(&cupti, &p->shm.mem->gpu, sizeof(cupti));
	cupti.who[sizeof(cupti.who) - 1] = cupti.path[sizeof(cupti.path) - 1] = 0;
	copy.who[sizeof(copy.who) - 1] = 0;
	copy.state = state;
	/* The state is told once; later only what is new. */
	if (p->stalls_reported)
		copy.state = CT_STALLS_NONE;
	copy.flags = flags & ~p->stalls_flags;
	p->stalls_reported = true;
	p->stalls_flags |= flags;
	__builtin_memcpy(comm, p->comm, sizeof(p->comm));
	in->o.on_stalls(in->o.ctx, p->pid, comm, &copy, &cupti);
}

static bool all_have_given(const struct inject *in)
{
	for (unsigned i = 0; i < in->client_cnt; i++) {
		const struct ct_shm_gpu *gpu = &in->clients[i]->shm.mem->gpu;

		if (in->clients[i]->pidfd >= 0 && !clients__has_ended(in->clients[i]) &&
		    __atomic_load_n(&gpu->state, __ATOMIC_RELAXED) == CT_CUPTI_ON &&
		    !__atomic_load_n(&gpu->given, __ATOMIC_ACQUIRE))
			return false;
	}
	return true;
}

bool gpu__is_late(const struct inject *in, const struct ct_rec *rec)
{
	return in->stopped && rec->kind == CT_REC_GPU_RUN &&
	       ((const struct ct_gpu_run *)rec)->call_ns > in->stopped_ns;
}

bool gpu__expects_more(const struct inject *in, uint64_t now)
{
	return (gpu__is_used(in) || in->o.stalls) && !all_have_given(in) &&
	       now - in->stopped_ns < GIVE_MAX_NS;
}

uint32_t gpu__tid(struct client *p, uint32_t inner,
		  uint32_t (*own)(struct client *p, uint32_t inner))
{
	uint32_t *known = p->gpu_tids[inner % GPU_TIDS];

	if (known[0] != inner) {
		known[0] = inner;
		known[1] = own(p, inner);
	}
	return known[1];
}
