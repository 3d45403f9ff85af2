/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --stalls: why warps wait, from CUPTI's PC sampling in its continuous mode, which serializes
 * nothing.
 *
 * Sampling is enabled in the callback of a context's creation, and disabled only in that of its
 * destruction. A program hangs for good if sampling is disabled while another of its threads
 * launches kernels (observed with CUPTI 13.0), even at the exit, so it stays enabled there. Of each
 * GPU only one context is sampled: with two, neither gets samples. Our thread (gpu.c) reads the
 * samples, adds them up by function and instruction, and sends the sums of each interval.
 */
#include "stalls_priv.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define READ_NS	    100000000ull
#define INTERVAL_NS 1000000000ull
/* CUPTI's buffer of undecoded samples. The default of 512 MB delays the first launch by 0.3 s. */
#define HARDWARE_SZ (32u << 20)
/* Before, struct cupti_pc was shorter (CUPTI 12.4), or kernels were lost. */
#define VERSION_MIN 23
/* From this compute capability on, CUPTI's own period and buffer are kept: setting them stops the
 * samples (reported for Blackwell). */
#define CAPABILITY_DEFAULTS 10
#define NVPERF		    "libnvperf_host.so"

#define DEVICES_MAX 64
#define PCS_MAX	    4096 /* in a buffer for CUPTI */
#define LOCK_NS	    200000000ull
/* Interval at which CUPTI's thread decodes samples (default: 100). */
#define DECODE_MS 40

enum context_state { CONTEXT_FREE, CONTEXT_BEGINS, CONTEXT_ON, CONTEXT_STUCK };

static struct {
	const struct cupti *cupti;
	/* Memory for CUPTI, which reads the first when it disables sampling. */
	struct buffers {
		struct buffer {
			struct cupti_pc pcs[PCS_MAX];
			struct cupti_stall stalls[PCS_MAX][STALL_REASONS_MAX];
		} rest, taken;
	} * mem;
	struct context {
		uint32_t state; /* enum context_state */
		void *context;
		struct stall_device is;
		struct cupti_samples rest; /* belongs to CUPTI while sampling is enabled */
	} contexts[DEVICES_MAX];	   /* by device */
	struct cupti_samples taken;
	uint32_t lock;	  /* of the calls that read or disable */
	bool has_exit[2]; /* handlers: after sampling was enabled, after lines were read */
	bool is_over;	  /* the program ends: contexts that are destroyed now stay enabled */
	struct stall_reasons reasons;
	uint64_t read_ns, begin_ns;
} st;

static void flag(uint32_t f)
{
	__atomic_fetch_or(&stalls_shm()->flags, f, __ATOMIC_RELAXED);
}

static void set_state(enum ct_stalls_state state, const char *who, int code)
{
	uint32_t none = CT_STALLS_NONE;

	/* The first one stays; a later context may still be sampled. */
	if (state != CT_STALLS_ON &&
	    __atomic_load_n(&stalls_shm()->state, __ATOMIC_RELAXED) != none)
		return;
	if (who) {
		memcpy(stalls_shm()->who, who, strlen(who) + 1);
		stalls_shm()->code = code;
	}
	__atomic_store_n(&stalls_shm()->state, state, __ATOMIC_RELEASE);
}

const struct stall_device *stalls_device(uint32_t device)
{
	return &st.contexts[device].is;
}

bool stalls_are_on(void)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (__atomic_load_n(&st.contexts[i].state, __ATOMIC_ACQUIRE) == CONTEXT_ON)
			return true;
	return false;
}

static bool lock(uint64_t max_ns)
{
	uint64_t began = inject_now();

	while (__atomic_exchange_n(&st.lock, 1, __ATOMIC_ACQUIRE)) {
		if (inject_now() - began >= max_ns)
			return false;
		nap();
	}
	return true;
}

static void unlock(void)
{
	__atomic_store_n(&st.lock, 0, __ATOMIC_RELEASE);
}

/* --- start --- */

static bool open_nvperf(const char *cupti_path)
{
	const char *slash = strrchr(cupti_path, '/');
	char path[PATH_MAX];
	size_t len = slash ? slash + 1 - cupti_path : 0;

	if (len && len + sizeof(NVPERF) <= sizeof(path)) {
		memcpy(path, cupti_path, len);
		memcpy(path + len, NVPERF, sizeof(NVPERF));
		if (!sys(SYS_faccessat, AT_FDCWD, path, R_OK) && libc_open(path, 2 /* RTLD_NOW */))
			return true;
	}
	return libc_open(NVPERF, 2);
}

static bool has_functions(const struct cupti *c)
{
	return c->version >= VERSION_MIN && c->GetDeviceId && c->GetCubinCrc &&
	       c->PCSamplingEnable && c->PCSamplingDisable && c->PCSamplingGetData &&
	       c->PCSamplingGetNumStallReasons && c->PCSamplingGetStallReasons &&
	       c->PCSamplingSetConfigurationAttribute && c->PCSamplingGetConfigurationAttribute;
}

static void buffer_init(struct cupti_samples *s, struct buffer *b)
{
	for (unsigned i = 0; i < PCS_MAX; i++) {
		b->pcs[i].size = sizeof(b->pcs[i]);
		b->pcs[i].stalls = b->stalls[i];
	}
	*s = (struct cupti_samples){.size = sizeof(*s), .room = PCS_MAX, .pcs = b->pcs};
}

bool stalls_setup(const struct cupti *c, void *subscriber, const char *cupti_path)
{
	static const uint8_t cbids[] = {
		CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
		CUPTI_CBID_RESOURCE_MODULE_LOADED, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING};

	st.cupti = c;
	if (!has_functions(c)) {
		set_state(CT_STALLS_OLD, NULL, 0);
		return false;
	}
	if (!open_nvperf(cupti_path)) {
		set_state(CT_STALLS_NO_NVPERF, NULL, 0);
		return false;
	}
	if (stall_sums_init() && stall_code_init(c))
		st.mem = sys_map(sizeof(*st.mem), 0);
	if (!st.mem) {
		set_state(CT_STALLS_FAILED, "mmap", -ENOMEM);
		return false;
	}
	buffer_init(&st.taken, &st.mem->taken);
	st.begin_ns = st.read_ns = inject_now();
	for (unsigned i = 0; i < sizeof(cbids); i++) {
		int err = c->EnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, cbids[i]);

		if (err) {
			set_state(CT_STALLS_FAILED, "cuptiEnableCallback", err);
			return false;
		}
	}
	return true;
}

void stalls_off(void)
{
	set_state(CT_STALLS_NO_CUPTI, NULL, 0);
}

/* --- contexts, in the program's threads --- */

static bool ends_with(const char *s, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !memcmp(s + len - n, end, n);
}

/* smsp__pcsamp_warps_issue_stalled_REASON, or with _not_issued behind it */
static void reason_init(uint32_t index, const char *name)
{
	static const char begin[] = "stalled_", twin[] = "_not_issued";
	static const char *const ids[] = {
#define STALL(ID, id, cupti, words) cupti,
#include "ct_stall.def"
	};
	size_t len = strnlen(name, CUPTI_STALL_NAME_SZ), at = 0;
	const char *s;

	for (size_t i = 0; i + sizeof(begin) - 1 <= len && !at; i++)
		if (!memcmp(name + i, begin, sizeof(begin) - 1))
			at = i + sizeof(begin) - 1;
	s = name + at;
	len -= at;
	st.reasons.is_not_issued[index] = ends_with(s, len, twin);
	if (st.reasons.is_not_issued[index])
		len -= sizeof(twin) - 1;
	st.reasons.reason[index] = CT_STALL_OTHER;
	for (unsigned i = 0; i < CT_STALL_OTHER; i++)
		if (strlen(ids[i]) == len && !memcmp(ids[i], s, len))
			st.reasons.reason[index] = i;
}

static int learn_reasons(void *context)
{
	char names[STALL_REASONS_MAX][CUPTI_STALL_NAME_SZ], *name[STALL_REASONS_MAX];
	uint32_t index[STALL_REASONS_MAX];
	size_t cnt = 0;
	struct cupti_pc_params p = {.size = CUPTI_PC_DATA_SZ, .context = context, .cnt_to = &cnt};
	int err = st.cupti->PCSamplingGetNumStallReasons(&p);

	if (err)
		return err;
	if (cnt > STALL_REASONS_MAX)
		cnt = STALL_REASONS_MAX;
	for (unsigned i = 0; i < STALL_REASONS_MAX; i++) {
		names[i][0] = 0;
		name[i] = names[i];
		index[i] = STALL_REASONS_MAX;
	}
	p = (struct cupti_pc_params){.size = CUPTI_PC_REASONS_SZ,
				     .context = context,
				     .cnt = cnt,
				     .indices = index,
				     .names = name};
	err = st.cupti->PCSamplingGetStallReasons(&p);
	if (err)
		return err;
	for (unsigned i = 0; i < STALL_REASONS_MAX; i++)
		st.reasons.reason[i] = CT_STALL_OTHER;
	for (unsigned i = 0; i < cnt; i++)
		if (index[i] < STALL_REASONS_MAX)
			reason_init(index[i], names[i]);
	return 0;
}

static int configure(struct context *c, bool keep_defaults)
{
	struct cupti_pc_attribute a[5] = {
		{.type = CUPTI_PC_MODE, .u32 = CUPTI_PC_CONTINUOUS},
		{.type = CUPTI_PC_DATA_BUFFER, .pointer = &c->rest},
		{.type = CUPTI_PC_DECODE_MS, .u32 = DECODE_MS},
		{.type = CUPTI_PC_PERIOD, .u32 = inject_process->set->stalls},
		{.type = CUPTI_PC_HARDWARE_BUFFER, .size = HARDWARE_SZ},
	};
	struct cupti_pc_params p = {.size = CUPTI_PC_CONFIG_SZ,
				    .context = c->context,
				    .cnt = keep_defaults ? 3 : 5,
				    .attributes = a};
	int err = st.cupti->PCSamplingSetConfigurationAttribute(&p);

	if (err)
		return err;
	a[0] = (struct cupti_pc_attribute){.type = CUPTI_PC_PERIOD};
	p.cnt = 1;
	c->is.period = inject_process->set->stalls;
	if (keep_defaults)
		c->is.period = st.cupti->PCSamplingGetConfigurationAttribute(&p) ? 0 : a[0].u32;
	return 0;
}

static int params_call(int (*fn)(struct cupti_pc_params *), void *context)
{
	struct cupti_pc_params p = {.size = CUPTI_PC_ENABLE_SZ, .context = context};

	return fn(&p);
}

static enum ct_stalls_state state_of(int err)
{
	switch (err) {
	case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
	case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
		return CT_STALLS_NO_RIGHTS;
	case CUPTI_ERROR_NOT_SUPPORTED:
		return CT_STALLS_UNSUPPORTED;
	default:
		return CT_STALLS_FAILED;
	}
}

static void enable(struct context *c, void *context, uint32_t device)
{
	const char *who = "cuptiPCSamplingEnable";
	struct ct_device d;
	int err;

	device_query(&d, device, false);
	c->context = context;
	c->is.sm_cnt = d.sm_cnt;
	c->is.clock_khz = d.clock_khz;
	buffer_init(&c->rest, &st.mem->rest);
	err = params_call(st.cupti->PCSamplingEnable, context);
	if (err) {
		set_state(state_of(err), who, err);
		__atomic_store_n(&c->state, CONTEXT_FREE, __ATOMIC_RELEASE);
		return;
	}
	who = "cuptiPCSamplingGetStallReasons";
	err = learn_reasons(context);
	if (!err) {
		who = "cuptiPCSamplingSetConfigurationAttribute";
		err = configure(c, d.major >= CAPABILITY_DEFAULTS);
	}
	if (err) {
		set_state(state_of(err), who, err);
		/* Safe: this thread has enabled it, and nothing was launched in this context yet.
		 */
		err = params_call(st.cupti->PCSamplingDisable, context);
		__atomic_store_n(&c->state, err ? CONTEXT_STUCK : CONTEXT_FREE, __ATOMIC_RELEASE);
		return;
	}
	/* CUPTI has loaded libnvperf_host. */
	gpu_exit_set(&st.has_exit[0]);
	stalls_shm()->period = c->is.period;
	set_state(CT_STALLS_ON, NULL, 0);
	__atomic_store_n(&c->state, CONTEXT_ON, __ATOMIC_RELEASE);
}

static void context_created(void *context)
{
	uint32_t device = 0, is_free = CONTEXT_FREE;

	if (st.cupti->GetDeviceId(context, &device) || device >= DEVICES_MAX)
		return;
	if (!__atomic_compare_exchange_n(&st.contexts[device].state, &is_free, CONTEXT_BEGINS,
					 false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&stalls_shm()->contexts, 1, __ATOMIC_RELAXED);
		flag(CT_STALLS_F_SECOND);
		return;
	}
	enable(&st.contexts[device], context, device);
}

/* --- samples --- */

static void add(const struct cupti_samples *s, uint32_t device)
{
	stalls_shm()->samples += s->total;
	stalls_shm()->dropped += s->dropped;
	stalls_shm()->unattributed += s->unattributed;
	for (size_t i = 0; i < s->cnt && i < PCS_MAX; i++)
		stall_sums_add(&s->pcs[i], device, &st.reasons);
	if (s->full)
		flag(CT_STALLS_F_FULL);
}

/* Returns false if there will be no more. */
static bool read_context(struct context *c, uint32_t device)
{
	struct cupti_pc_params p = {
		.size = CUPTI_PC_DATA_SZ, .context = c->context, .data = &st.taken};
	int err;

	/* At most so many buffers: the next turn reads the others. */
	for (unsigned i = 0; i < 64; i++) {
		st.taken.cnt = st.taken.remaining = 0;
		st.taken.total = st.taken.dropped = st.taken.unattributed = 0;
		err = st.cupti->PCSamplingGetData(&p);
		if (err == CUPTI_ERROR_OUT_OF_MEMORY) {
			flag(CT_STALLS_F_FULL);
			return false;
		}
		if (err == CUPTI_ERROR_UNKNOWN || err == CUPTI_ERROR_HARDWARE_BUSY) {
			flag(CT_STALLS_F_SHARED);
			stalls_shm()->code = err;
			return false;
		}
		if (err) {
			flag(CT_STALLS_F_ERROR);
			stalls_shm()->code = err;
			return false;
		}
		add(&st.taken, device);
		if (!st.taken.remaining)
			break;
	}
	return true;
}

static void read_all(void)
{
	/* A thread that destroys a context has it only briefly. */
	if (!lock(LOCK_NS))
		return;
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		struct context *c = &st.contexts[i];

		if (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == CONTEXT_ON &&
		    !read_context(c, i))
			__atomic_store_n(&c->state, CONTEXT_STUCK, __ATOMIC_RELEASE);
	}
	unlock();
}

/* --- in our thread --- */

static void send_interval(struct thread *t, uint64_t now)
{
	stall_sums_send(t, st.begin_ns, now);
	/* CUPTI has made its tables of source lines. */
	if (!st.is_over)
		gpu_exit_set(&st.has_exit[1]);
	st.begin_ns = now;
}

void stalls_tick(struct thread *t, uint64_t now)
{
	if (!st.mem || now - st.read_ns < READ_NS)
		return;
	st.read_ns = now;
	read_all();
	if (now - st.begin_ns >= INTERVAL_NS)
		send_interval(t, now);
}

void stalls_flush(struct thread *t, uint64_t now)
{
	if (!st.mem)
		return;
	read_all();
	send_interval(t, now);
}

/* --- end --- */

/* In the thread that destroys the context. Returns false if it stays enabled. */
static bool disable(struct context *c, uint32_t device)
{
	if (params_call(st.cupti->PCSamplingDisable, c->context))
		return false;
	/* CUPTI has filled it with what nobody had read. */
	add(&c->rest, device);
	c->rest.cnt = c->rest.total = c->rest.dropped = c->rest.unattributed = 0;
	return true;
}

static void context_destroyed(void *context)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		struct context *c = &st.contexts[i];
		uint32_t state = __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);

		if ((state != CONTEXT_ON && state != CONTEXT_STUCK) || c->context != context ||
		    __atomic_load_n(&st.is_over, __ATOMIC_ACQUIRE))
			continue;
		/* Our thread may be waiting for this one in CUPTI. */
		if (!lock(LOCK_NS)) {
			__atomic_store_n(&c->state, CONTEXT_STUCK, __ATOMIC_RELEASE);
			return;
		}
		state = disable(c, i) ? CONTEXT_FREE : CONTEXT_STUCK;
		__atomic_store_n(&c->state, state, __ATOMIC_RELEASE);
		unlock();
	}
}

void stalls_on_resource(uint32_t cbid, const struct cupti_resource *r)
{
	if (!st.mem)
		return;
	switch (cbid) {
	case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
		context_created(r->context);
		break;
	case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
		context_destroyed(r->context);
		break;
	case CUPTI_CBID_RESOURCE_MODULE_LOADED:
		stall_code_loaded(r->descriptor);
		break;
	case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
		stall_code_unloaded(r->descriptor);
		break;
	default:
		break;
	}
}

void stalls_end(struct thread *t)
{
	const struct timespec wait = {.tv_nsec = DECODE_MS * 1000000 * 3 / 2};

	if (!st.mem)
		return;
	__atomic_store_n(&st.is_over, true, __ATOMIC_RELEASE);
	read_all();
	/* CUPTI's thread decodes what the GPU has written meanwhile. */
	if (stalls_are_on()) {
		sys(SYS_nanosleep, &wait, NULL);
		read_all();
	}
	send_interval(t, inject_now());
}
