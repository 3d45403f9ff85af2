/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --gpu-time: when a GPU executed the work that calls requested, from CUPTI's activity records.
 *
 * CUPTI numbers driver calls (correlation ids) and has a callback at the start of each. The
 * callback stores thread and time in a table. The records arrive later in our buffers, with the
 * same number. A thread of ours reads them, looks up the call, and sends a record for each (struct
 * ct_gpu_run) through its own ring. The program's threads only store 16 bytes per call.
 *
 * --stalls (stalls.c) uses the same subscription and thread.
 */
#include "gate.h"
#include "gpu_priv.h"
#include "stalls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

/* CUPTI delivers a buffer when it is full; this is the maximum time that it holds records, which is
 * requested. */
#define FLUSH_NS 100000000ull
#define CLOCK_NS 1000000000ull
/* Interval of checks for the end of the trace. */
#define WAIT_NS 20000000ull
/* Links of /proc/self/task: two, one of the main thread, and one of ours. */
#define TASK_LINKS 4
/* Calls whose records may still arrive, indexed by the low bits of their numbers. */
#define CALLS_LOG 18
/* Maximum time that the program's end waits for the last records. */
#define END_MAX_NS 3000000000ull
/* A larger change in a second than NTP makes: the clock was set. */
#define STEP_NS 2000000
/* In a running program: the wait for fork() in another thread; for the previous tracer's thread;
 * and, after the end, for records of work that is still executed. */
#define GUARD_MAX_NS   1000000000ull
#define EARLIER_MAX_NS 4000000000ull
#define LAST_TRIES     10
/* 1,024 processors. */
#define CPU_WORDS 16
/* CUPTI before 11.8 has no record of graph launches; 12.4 before Update 1 has no kernels. */
#define VERSION_MIN 18
#define VERSION_BAD 22

struct gpu_query {
	uint64_t ns;
	uint32_t correlation, tid;
};

enum { RUNNING = 0, STOP = 1, STOPPED = 2 };

static struct {
	struct cupti cupti;
	void *subscriber;
	int pid;
	struct process *p; /* whose tracer receives the records */
	bool is_late;	   /* CUPTI was started in a running program: never GRAPH_TRACE */
	uint32_t request;  /* ct_shm.gpu_request that it answers */
	bool sums;	   /* nodes of a graph's launch are one execution: graph_sum.c */
	bool has_thread;
	bool has_exit[2]; /* handlers that are registered: before CUPTI's own, and after it */
	bool is_over;
	struct gpu_query *calls;
	uint32_t bell, state;
	bool times;	/* --gpu-time */
	uint64_t mask;	/* blocked signals of the thread that started ours */
	int64_t offset; /* CUPTI's clock minus CLOCK_MONOTONIC */
} gpu;

static struct ct_shm_gpu *shm_gpu(void)
{
	return &gpu.p->shm->gpu;
}

void gpu_ring_bell(void)
{
	__atomic_fetch_add(&gpu.bell, 1, __ATOMIC_RELEASE);
	sys(SYS_futex, &gpu.bell, FUTEX_WAKE_PRIVATE, 1);
}

/* Returns when the bell was rung since the last read, or after a timeout. */
static void await_bell(uint32_t bell, uint64_t ns)
{
	struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	sys(SYS_futex, &gpu.bell, FUTEX_WAIT_PRIVATE, bell, &ts);
}

/* --- called by CUPTI, in any thread --- */

/* Returns NULL if this thread has none. */
static const struct thread *this_thread(void)
{
	return inject_me.gen == inject_process->alive ? inject_me.t : NULL;
}

/* A time within the call: its start, on the clock of its record. */
static uint64_t call_now(const struct thread *t)
{
	uint32_t depth = t ? ct_shm_depth(t->slot) : 0;

	return depth && depth <= CT_MAX_DEPTH ? t->slot->frames[depth - 1].start_ns : inject_now();
}

/* Returns whether this is the process that subscribed, and it is traced. */
static bool is_alive(void)
{
	const struct process *p = inject_process;

	return p->alive && p->pid == gpu.pid && !p->set->ended;
}

static void on_call(void *user, int domain, uint32_t cbid, const struct cupti_call *c)
{
	const struct thread *t = this_thread();
	struct gpu_query *a;

	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		if (is_alive())
			stalls_on_resource(cbid, (const void *)c);
		return;
	}
	if (c->site != CUPTI_API_ENTER)
		return;
	a = &gpu.calls[c->correlation & ((1u << CALLS_LOG) - 1)];
	/* The row has no owner while it is written. CUPTI counts from 1. */
	__atomic_store_n(&a->correlation, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&a->ns, call_now(t), __ATOMIC_RELAXED);
	__atomic_store_n(&a->tid, t ? t->tid : sys(SYS_gettid), __ATOMIC_RELAXED);
	__atomic_store_n(&a->correlation, c->correlation, __ATOMIC_RELEASE);
}

/* Returns the call with this number, unless it was replaced. */
static bool call_of(uint32_t correlation, uint64_t *ns, uint32_t *tid)
{
	const struct gpu_query *a = &gpu.calls[correlation & ((1u << CALLS_LOG) - 1)];

	if (__atomic_load_n(&a->correlation, __ATOMIC_ACQUIRE) != correlation)
		return false;
	*ns = __atomic_load_n(&a->ns, __ATOMIC_RELAXED);
	*tid = __atomic_load_n(&a->tid, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&a->correlation, __ATOMIC_RELAXED) == correlation;
}

/* --- our thread: sends records --- */

static void send_run(struct thread *t, const struct cupti_record *r)
{
	uint32_t redact = gpu.p->set->redact;
	struct ct_gpu_run g = {
		.rec = {.size = sizeof(g), .kind = CT_REC_GPU_RUN},
		.correlation = r->correlation,
		.device = r->device,
		.context = r->context,
		.stream = r->stream,
		.what = r->what,
		.copy_kind = r->copy_kind,
		.registers = r->registers,
		.graph_node = r->graph_node,
	};
	uint64_t call_ns;
	uint32_t tid;

	gpu_send_device(t, r->device);
	g.rec.ts_ns = r->start - gpu.offset;
	g.end_ns = r->end - gpu.offset;
	if (call_of(r->correlation, &call_ns, &tid)) {
		g.rec.tid = tid;
		g.call_ns = call_ns;
	}
	if (redact != CT_REDACT_ARGS)
		g.bytes = r->what == CT_RUN_KERNEL ? r->shared_mem : r->bytes;
	if (redact == CT_REDACT_NOTHING && r->name)
		g.name_id = gpu_send_name(t, r->name);
	gpu_send_counted(t, &g.rec);
}

static void send_sum(void *t, const struct cupti_record *r)
{
	send_run(t, r);
}

static void on_record(struct thread *t, const struct cupti_record *r)
{
	if (!r->start || r->end < r->start)
		shm_gpu()->untimed++;
	else if (gpu.sums && r->graph_node)
		graph_sum_add(r, inject_now(), send_sum, t);
	else
		send_run(t, r);
}

static void on_activity(void *t, const uint8_t *at)
{
	struct cupti_record r;

	if (!gpu_read(at, &r))
		return;
	shm_gpu()->records++;
	on_record(t, &r);
}

static void take(struct thread *t)
{
	gpu_buffers_take(on_activity, t);
	gpu_buffers_losses(shm_gpu());
}

/* CUPTI's clock is CLOCK_REALTIME unless the program sets another (13.0; observed on an H200). */
static void clock_look(bool first)
{
	uint64_t best = UINT64_MAX, before, after, ts, error;
	int64_t offset = 0, moved;

	for (unsigned i = 0; i < 20; i++) {
		before = inject_now();
		if (gpu.cupti.GetTimestamp(&ts))
			return;
		after = inject_now();
		if (after - before >= best)
			continue;
		best = after - before;
		offset = (int64_t)(ts - before - best / 2);
	}
	moved = first ? 0 : offset - gpu.offset;
	moved = moved < 0 ? -moved : moved;
	gpu.offset = offset;
	if (moved > STEP_NS) {
		shm_gpu()->clock_steps++;
		return;
	}
	error = best / 2 + moved + 1;
	if (error > shm_gpu()->clock_error_ns)
		shm_gpu()->clock_error_ns = error;
}

/* --- start and end --- */

static const int kinds[] = {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
			    CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
			    CUPTI_ACTIVITY_KIND_MEMSET};
#define KIND_CNT (sizeof(kinds) / sizeof(*kinds))

static void flush(uint32_t flags)
{
	if (gpu.times)
		gpu.cupti.ActivityFlushAll(flags);
}

static void release(void)
{
	for (unsigned i = 0; gpu.times && i < KIND_CNT; i++)
		gpu.cupti.ActivityDisable(kinds[i]);
	flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	/* Sampling stays enabled until the exit. */
	if (!stalls_are_on())
		gpu.cupti.Unsubscribe(gpu.subscriber);
}

static void tick(struct thread *t, uint64_t now, uint64_t *flushed)
{
	if (now - *flushed >= FLUSH_NS) {
		if (gpu_buffers_are_out())
			flush(0);
		*flushed = now;
		if (gpu.sums)
			graph_sum_send(now, send_sum, t);
	}
	take(t);
	stalls_tick(t, now);
	if ((int64_t)(now - gpu.p->set->beat_ns) > (int64_t)CT_SHM_STALE_NS &&
	    gpu.p == inject_process)
		process_check_tracer(gpu.p, now);
}

/*
 * The main thread may end before the others (pthread_exit()). Then the program ends with its last
 * thread, for which it must not wait because of ours.
 */
static bool is_last_thread(void)
{
	struct stat st;
	char exe;

	/* A main thread that has ended has no file. */
	return !inject_sandboxed &&
	       sys(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", &exe, 1) == -ENOENT &&
	       !sys(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) &&
	       st.st_nlink == TASK_LINKS;
}

/* All that CUPTI has. */
static void take_all(struct thread *t, uint32_t flag)
{
	flush(flag);
	take(t);
	if (gpu.sums)
		graph_sum_send(UINT64_MAX, send_sum, t);
}

/* The trace has ended. Work that was requested before may still be executed: CUPTI's records of it
 * would have no times after ActivityDisable(). */
static void take_last(struct thread *t)
{
	for (unsigned i = 0; gpu.is_late && i < LAST_TRIES; i++) {
		uint64_t records = shm_gpu()->records;

		gpu.cupti.ActivityFlushAll(0);
		take(t);
		if (i && records == shm_gpu()->records)
			break;
		sys(SYS_nanosleep, &(struct timespec){.tv_nsec = WAIT_NS}, NULL);
	}
	take_all(t, 0);
}

static enum ct_cupti_state late_stop(void)
{
	release();
	return CT_CUPTI_NONE;
}

bool gpu_keeps_hooks(const struct process *p)
{
	return gpu.is_late && gpu.p == p && gpu.pid == p->pid &&
	       __atomic_load_n(&gpu.state, __ATOMIC_SEQ_CST) != STOPPED;
}

/* Restores the pointers unless process_end() does. */
static void end_thread(void)
{
	struct process *p = gpu.p;

	if (gpu.is_late && !__atomic_load_n(&p->alive, __ATOMIC_SEQ_CST))
		process_unhook();
	__atomic_store_n(&gpu.state, STOPPED, __ATOMIC_SEQ_CST);
	if (gpu.is_late && !__atomic_load_n(&p->alive, __ATOMIC_SEQ_CST) && p == inject_process)
		process_unhook();
}

/* The tracer wants no more times of this running program. */
static bool is_revoked(void)
{
	return gpu.is_late &&
	       __atomic_load_n(&gpu.p->shm->gpu_request, __ATOMIC_ACQUIRE) != gpu.request;
}

static void work(struct process *p, uint32_t alive)
{
	uint64_t flushed = inject_now(), clocked = flushed, looked = flushed, now;
	bool is_last = false;
	struct thread *t;

	t = thread_begin(PLACE);
	while (t && p->alive == alive && !p->set->ended && !is_revoked()) {
		uint32_t bell = __atomic_load_n(&gpu.bell, __ATOMIC_ACQUIRE);

		now = inject_now();
		if (now - looked >= FLUSH_NS) {
			is_last = is_last_thread();
			looked = now;
		}
		if (is_last || __atomic_load_n(&gpu.state, __ATOMIC_ACQUIRE) == STOP) {
			take_all(t, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
			stalls_end(t);
			__atomic_store_n(&gpu.state, STOPPED, __ATOMIC_RELEASE);
			/* libc calls exit(), whose handlers belong to the program. */
			if (is_last)
				sys(SYS_rt_sigprocmask, SIG_SETMASK, &gpu.mask, NULL, 8);
			return;
		}
		tick(t, now, &flushed);
		if (now - clocked >= CLOCK_NS) {
			clock_look(false);
			clocked = now;
		}
		await_bell(bell, WAIT_NS);
	}
	/* The trace has ended, and the tracer waits briefly for the records of its calls. */
	if (t && (p->set->ended || is_revoked())) {
		take_last(t);
		stalls_flush(t, inject_now());
		__atomic_store_n(&shm_gpu()->given, 1, __ATOMIC_RELEASE);
	}
	if (gpu.is_late)
		gate_stop(p, late_stop);
	else
		release();
	if (is_revoked())
		__atomic_store_n(&shm_gpu()->state, CT_CUPTI_NONE, __ATOMIC_RELEASE);
	end_thread();
}

static void *work_thread(void *arg)
{
	sys(SYS_prctl, PR_SET_NAME, "cudatrace-gpu");
	work(gpu.p, gpu.p->alive);
	return NULL;
}

/* At exit(), before the driver frees what CUPTI needs. */
static void at_end(void *arg)
{
	uint64_t began = inject_now();
	uint32_t running = RUNNING;

	if (sys(SYS_getpid) != gpu.pid || gpu.is_over)
		return;
	gpu.is_over = true;
	if (__atomic_compare_exchange_n(&gpu.state, &running, STOP, false, __ATOMIC_ACQ_REL,
					__ATOMIC_RELAXED)) {
		gpu_ring_bell();
		while (__atomic_load_n(&gpu.state, __ATOMIC_ACQUIRE) != STOPPED &&
		       inject_now() - began < END_MAX_NS)
			sys(SYS_nanosleep, &(struct timespec){.tv_nsec = 200000}, NULL);
	}
	gate_close(gpu.p);
}

static int start_thread(void *(*main)(void *))
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		global_symbol("pthread_create");
	uint64_t all = ~0ull;
	pthread_t thread;
	int err;

	if (!create)
		return -ENOSYS;
	sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &gpu.mask, 8);
	err = create(&thread, NULL, main, NULL);
	sys(SYS_rt_sigprocmask, SIG_SETMASK, &gpu.mask, NULL, 8);
	gpu.has_thread |= !err;
	return -err;
}

static enum ct_cupti_state failed(const char *in, int code)
{
	memcpy(shm_gpu()->who, in, strlen(in) + 1);
	shm_gpu()->code = code;
	return CT_CUPTI_FAILED;
}

/* Must come first. Otherwise CUPTI silently drops our buffers when another tool subscribes, or
 * crashes if another was there before (observed with torch.profiler, CUPTI 13.0). */
static enum ct_cupti_state subscribe(void)
{
	struct cupti_subscriber s = {sizeof(s), "cudatrace", shm_gpu()->who,
				     sizeof(shm_gpu()->who)};
	int err = gpu.cupti.Subscribe(&gpu.subscriber, on_call, NULL);

	/* Only to find out which tool uses it. */
	if (err == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED && gpu.cupti.Subscribe_v2)
		err = gpu.cupti.Subscribe_v2(&gpu.subscriber, on_call, NULL, &s);
	if (err == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
		return CT_CUPTI_TAKEN;
	return err ? failed("cuptiSubscribe", err) : CT_CUPTI_ON;
}

static enum ct_cupti_state enable(uint32_t mode)
{
	static const uint16_t cbids[] = {
#define CBID(name, number) number,
#include "cupti_cbids.def"
	};
	int err = gpu.cupti.ActivityRegisterCallbacks(gpu_buffer_request, gpu_buffer_complete);

	if (err)
		return failed("cuptiActivityRegisterCallbacks", err);
	/* An older driver may lack one of the others. */
	for (unsigned i = mode == CT_GPU_TIME_GRAPHS ? 0 : 1; i < KIND_CNT; i++) {
		err = gpu.cupti.ActivityEnable(kinds[i]);
		if (err && kinds[i] == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
			return failed("cuptiActivityEnable", err);
	}
	/* Callback ids that this version of CUPTI lacks are refused. */
	for (unsigned i = 0; i < sizeof(cbids) / sizeof(*cbids); i++)
		gpu.cupti.EnableCallback(1, gpu.subscriber, CUPTI_CB_DOMAIN_DRIVER_API, cbids[i]);
	return CT_CUPTI_ON;
}

static bool memory(void)
{
	if (gpu.sums && !graph_sum_begin())
		return false;
	if (gpu.calls)
		return true;
	gpu.calls = sys_map(sizeof(struct gpu_query) << CALLS_LOG, MAP_POPULATE);
	return gpu.calls && gpu_buffers_setup(&gpu.cupti);
}

static enum ct_cupti_state load(const struct ct_shm_set *set)
{
	if (!gpu_find_cupti(&gpu.cupti, set->cupti, shm_gpu()->path, sizeof(shm_gpu()->path)))
		return CT_CUPTI_MISSING;
	shm_gpu()->version = gpu.cupti.version;
	if (!*set->cupti && (gpu.cupti.version < VERSION_MIN || gpu.cupti.version == VERSION_BAD))
		return CT_CUPTI_BAD;
	if (!memory())
		return failed("mmap", -ENOMEM);
	return CT_CUPTI_ON;
}

static enum ct_cupti_state begin(uint32_t mode)
{
	enum ct_cupti_state state = subscribe();

	if (state != CT_CUPTI_ON)
		return state;
	gpu.times = mode != CT_GPU_TIME_OFF;
	if (gpu.times)
		state = enable(mode);
	if (gpu.p->set->stalls && !stalls_setup(&gpu.cupti, gpu.subscriber, shm_gpu()->path) &&
	    !gpu.times)
		state = failed("--stalls", 0);
	if (state == CT_CUPTI_ON)
		clock_look(true);
	else
		release();
	return state;
}

static enum ct_cupti_state start(const struct ct_shm_set *set)
{
	enum ct_cupti_state state = load(set);
	int err;

	if (state == CT_CUPTI_ON)
		state = begin(set->gpu_time);
	err = state == CT_CUPTI_ON ? start_thread(work_thread) : 0;
	if (!err)
		return state;
	release();
	return failed("pthread_create", err);
}

void gpu_exit_set(bool *is_set)
{
	int (*at_exit)(void (*)(void *), void *, void *) = libc_symbol("__cxa_atexit");

	if (!*is_set)
		*is_set = at_exit && !at_exit(at_end, NULL, NULL);
}

void gpu_begin(void)
{
	struct process *p = inject_process;
	enum ct_cupti_state state;

	if (!p->alive || gpu.pid || (p->set->gpu_time == CT_GPU_TIME_OFF && !p->set->stalls))
		return;
	gpu.pid = p->pid;
	gpu.p = p;
	gpu_send_begin(p);
	state = start(p->set);
	if (state == CT_CUPTI_ON)
		gpu_exit_set(&gpu.has_exit[1]);
	__atomic_store_n(&shm_gpu()->state, state, __ATOMIC_RELEASE);
	if (state != CT_CUPTI_ON && p->set->stalls)
		stalls_off();
}

/* --- in a running program --- */

static uint32_t late_alive;

static bool late_goes_on(void)
{
	return gpu.p->alive == late_alive && !gpu.p->set->ended && !is_revoked() &&
	       __atomic_load_n(&gpu.state, __ATOMIC_ACQUIRE) == RUNNING;
}

/* In whichever thread the gate chooses. A graph that was instantiated before crashes with
 * GRAPH_TRACE (CUPTI 12.2 to 13.1). */
static enum ct_cupti_state late_start(void)
{
	enum ct_cupti_state state = begin(CT_GPU_TIME_NODES);

	gpu_exit_set(&gpu.has_exit[1]);
	shm_gpu()->since_ns = inject_now();
	return state;
}

/* Only this thread loads libraries: threads that wait at the gate may hold the loader's lock. */
static enum ct_cupti_state late_load(void)
{
	enum ct_cupti_state state;

	if (!guard_setup() || !guard_take(GUARD_MAX_NS))
		return failed("fork", -EBUSY);
	state = load(gpu.p->set);
	guard_release();
	return state;
}

/* A thread of the program has started ours: it may have a priority, or one processor. */
static void be_ordinary(void)
{
	uint64_t all[CPU_WORDS];
	int none = 0;

	memset(all, 0xff, sizeof(all));
	sys(SYS_sched_setscheduler, 0, 0 /* SCHED_OTHER */, &none);
	sys(SYS_sched_setaffinity, 0, sizeof(all), all);
}

static enum ct_cupti_state late_gate(void)
{
	if (gpu.p->gate.armed)
		return CT_CUPTI_ON;
	hooks_rest();
	if (gate_arm_again(gpu.p))
		return CT_CUPTI_ON;
	strcpy(shm_gpu()->who, "its libcuda has no dispatch pointers");
	return CT_CUPTI_BUSY;
}

static void *late_work(void *arg)
{
	enum ct_cupti_state state;

	sys(SYS_prctl, PR_SET_NAME, "cudatrace-gpu");
	be_ordinary();
	state = late_load();
	if (state == CT_CUPTI_ON)
		state = late_gate();
	if (state == CT_CUPTI_ON)
		state = gate_run(gpu.p, late_start, late_goes_on, shm_gpu()->who,
				 sizeof(shm_gpu()->who));
	else
		gate_disarm(gpu.p);
	__atomic_store_n(&shm_gpu()->state, state, __ATOMIC_RELEASE);
	if (state == CT_CUPTI_ON)
		work(gpu.p, late_alive);
	else
		end_thread();
	return NULL;
}

static bool is_running(void)
{
	return gpu.has_thread && __atomic_load_n(&gpu.state, __ATOMIC_ACQUIRE) != STOPPED;
}

/* The thread of the previous tracer ends when it has noticed the end of its trace. */
bool gpu_await_end(void)
{
	uint64_t began = inject_now();

	while (is_running()) {
		if (inject_now() - began > EARLIER_MAX_NS)
			return false;
		nap();
	}
	return true;
}

/* Resets the state that the previous tracer has left, except for buffers that CUPTI still uses. */
static void late_reset(struct process *p)
{
	gpu.pid = p->pid;
	gpu.p = p;
	gpu.is_late = true;
	gpu.request = p->gpu_seen;
	gpu.sums = gpu.request % (1u << CT_SHM_REQUEST_LOG) == CT_GPU_TIME_GRAPHS;
	/* Losses are of all requests of this tracer. */
	gpu_buffers_reset(shm_gpu()->dropped, shm_gpu()->discarded);
	gpu_send_begin(p);
	late_alive = p->alive;
	__atomic_store_n(&gpu.state, RUNNING, __ATOMIC_SEQ_CST);
	__atomic_store_n(&shm_gpu()->given, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&shm_gpu()->state, CT_CUPTI_NONE, __ATOMIC_RELAXED);
	__atomic_store_n(&shm_gpu()->request, gpu.request, __ATOMIC_RELEASE);
}

/* Returns whether this thread is the one that acts on the present request. */
static bool take_request(struct process *p)
{
	uint32_t seen = __atomic_load_n(&p->gpu_seen, __ATOMIC_ACQUIRE);
	uint32_t request = __atomic_load_n(&p->shm->gpu_request, __ATOMIC_ACQUIRE);

	return p->alive && request != seen && request % (1u << CT_SHM_REQUEST_LOG) &&
	       __atomic_compare_exchange_n(&p->gpu_seen, &seen, request, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

cold void gpu_look(struct process *p)
{
	int err = errno;

	/* While the thread of the previous request stops CUPTI, the next one waits. */
	if (__atomic_load_n(&p->shm->gpu_request, __ATOMIC_RELAXED) == p->gpu_seen ||
	    is_running() || process_is_forked())
		return;
	gpu_begin_late();
	errno = err;
}

void gpu_begin_late(void)
{
	struct process *p = inject_process;
	enum ct_cupti_state state = CT_CUPTI_FAILED;
	int err = -EBUSY;

	if (!take_request(p))
		return;
	if (is_quiet())
		err = -EPERM;
	else if (gpu_await_end()) {
		late_reset(p);
		err = start_thread(late_work);
		gpu_exit_set(&gpu.has_exit[0]);
	}
	if (!err)
		return;
	__atomic_store_n(&gpu.state, STOPPED, __ATOMIC_SEQ_CST);
	gate_disarm(p);
	__atomic_store_n(&p->shm->gpu.request, p->gpu_seen, __ATOMIC_RELAXED);
	strcpy(p->shm->gpu.who, "pthread_create");
	p->shm->gpu.code = err;
	__atomic_store_n(&p->shm->gpu.state, state, __ATOMIC_RELEASE);
}
