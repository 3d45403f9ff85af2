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
#include "stalls.h"

#include "cubin.h"
#include "ct_stall.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/uio.h>
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
#define REASONS_MAX 64	 /* CUPTI's reasons: 40 in 13.0 */
#define MODULES_MAX 8192
#define CUBIN_MAX   (64u << 20)
/* Tables of an interval. */
#define FNS_MAX	  CT_STALL_FNS_MAX
#define ROWS_LOG  15
#define ROWS_MAX  (1u << ROWS_LOG)
#define LINES_LOG 14
/* Source lines are looked up for instructions with at least this share of a function's samples. */
#define LINE_SHARE 100
#define LOCK_NS	   200000000ull
/* Interval at which CUPTI's thread decodes samples (default: 100). */
#define DECODE_MS 40

enum context_state { CONTEXT_FREE, CONTEXT_BEGINS, CONTEXT_ON, CONTEXT_STUCK };

struct function {
	const char *name; /* CUPTI's; NULL: the row is free */
	uint64_t id;
	uint32_t crc, index, device;
	bool code_is_sent, no_lines;
	uint64_t reasons[CT_STALL_CNT], not_issued;
};

struct row {
	uint32_t function; /* number plus 1; 0: free */
	uint32_t pc;
	uint32_t samples[CT_STALL_CNT];
};

struct module {
	const void *cubin; /* NULL: unloaded */
	size_t size;
	uint32_t crc;
};

/* Memory that is mapped when a process has its first context. */
struct tables {
	struct function fns[FNS_MAX];
	struct row rows[ROWS_MAX];
	uint16_t order[ROWS_MAX]; /* used rows */
	uint64_t lines[1 << LINES_LOG];
	struct module modules[MODULES_MAX];
	/* For CUPTI, which reads the first when it disables sampling. */
	struct buffer {
		struct cupti_pc pcs[PCS_MAX];
		struct cupti_stall stalls[PCS_MAX][REASONS_MAX];
	} rest, taken;
};

static struct {
	const struct cupti *cupti;
	void (*release)(void *);
	struct tables *mem;
	struct context {
		uint32_t state; /* enum context_state */
		void *context;
		uint32_t sm_cnt, clock_khz, period;
		struct cupti_samples rest; /* belongs to CUPTI while sampling is enabled */
	} contexts[DEVICES_MAX];	   /* by device */
	struct cupti_samples taken;
	uint32_t lock; /* of the calls that read or disable */
	bool is_over;  /* the program ends: contexts that are destroyed now stay enabled */
	uint32_t module_cnt, fn_cnt, row_cnt;
	/* What CUPTI's numbers stand for. */
	uint8_t reason[REASONS_MAX], is_not_issued[REASONS_MAX];
	uint32_t reason_cnt;
	uint64_t read_ns, begin_ns;
	/* A copy of a cubin. */
	uint8_t *copy;
	size_t copy_sz;
	const struct module *copied;
} st;

static struct ct_shm_stalls *shm(void)
{
	return &inject_process->shm->stalls;
}

static void flag(uint32_t f)
{
	__atomic_fetch_or(&shm()->flags, f, __ATOMIC_RELAXED);
}

static void set_state(enum ct_stalls_state state, const char *who, int code)
{
	uint32_t none = CT_STALLS_NONE;

	/* The first one stays; a later context may still be sampled. */
	if (state != CT_STALLS_ON && __atomic_load_n(&shm()->state, __ATOMIC_RELAXED) != none)
		return;
	if (who) {
		memcpy(shm()->who, who, strlen(who) + 1);
		shm()->code = code;
	}
	__atomic_store_n(&shm()->state, state, __ATOMIC_RELEASE);
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
	st.mem = sys_map(sizeof(*st.mem), 0);
	if (!st.mem) {
		set_state(CT_STALLS_FAILED, "mmap", -ENOMEM);
		return false;
	}
	st.release = (void (*)(void *))global_symbol("free");
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
	st.is_not_issued[index] = ends_with(s, len, twin);
	if (st.is_not_issued[index])
		len -= sizeof(twin) - 1;
	st.reason[index] = CT_STALL_OTHER;
	for (unsigned i = 0; i < CT_STALL_OTHER; i++)
		if (strlen(ids[i]) == len && !memcmp(ids[i], s, len))
			st.reason[index] = i;
}

static int learn_reasons(void *context)
{
	char names[REASONS_MAX][CUPTI_STALL_NAME_SZ], *name[REASONS_MAX];
	uint32_t index[REASONS_MAX];
	size_t cnt = 0;
	struct cupti_pc_params p = {.size = CUPTI_PC_DATA_SZ, .context = context, .cnt_to = &cnt};
	int err = st.cupti->PCSamplingGetNumStallReasons(&p);

	if (err)
		return err;
	if (cnt > REASONS_MAX)
		cnt = REASONS_MAX;
	for (unsigned i = 0; i < REASONS_MAX; i++) {
		names[i][0] = 0;
		name[i] = names[i];
		index[i] = REASONS_MAX;
	}
	p = (struct cupti_pc_params){.size = CUPTI_PC_REASONS_SZ,
				     .context = context,
				     .cnt = cnt,
				     .indices = index,
				     .names = name};
	err = st.cupti->PCSamplingGetStallReasons(&p);
	if (err)
		return err;
	for (unsigned i = 0; i < REASONS_MAX; i++)
		st.reason[i] = CT_STALL_OTHER;
	for (unsigned i = 0; i < cnt; i++)
		if (index[i] < REASONS_MAX)
			reason_init(index[i], names[i]);
	st.reason_cnt = cnt;
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
	c->period = inject_process->set->stalls;
	if (keep_defaults)
		c->period = st.cupti->PCSamplingGetConfigurationAttribute(&p) ? 0 : a[0].u32;
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
	c->sm_cnt = d.sm_cnt;
	c->clock_khz = d.clock_khz;
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
	shm()->period = c->period;
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
		__atomic_fetch_add(&shm()->contexts, 1, __ATOMIC_RELAXED);
		flag(CT_STALLS_F_SECOND);
		return;
	}
	enable(&st.contexts[device], context, device);
}

/* --- modules --- */

static void module_loaded(const struct cupti_module *m)
{
	struct cupti_crc c = {.size = sizeof(c), .cubin_size = m->size, .cubin = m->cubin};
	struct module *to;
	uint32_t i;

	if (!m->cubin || !m->size || m->size > CUBIN_MAX || st.cupti->GetCubinCrc(&c))
		return;
	i = __atomic_fetch_add(&st.module_cnt, 1, __ATOMIC_RELAXED);
	/* The newest replace the oldest. */
	to = &st.mem->modules[i % MODULES_MAX];
	__atomic_store_n(&to->cubin, NULL, __ATOMIC_RELEASE);
	to->size = m->size;
	to->crc = c.crc;
	__atomic_store_n(&to->cubin, m->cubin, __ATOMIC_RELEASE);
}

static void module_unloaded(const struct cupti_module *m)
{
	uint32_t cnt = __atomic_load_n(&st.module_cnt, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < cnt && i < MODULES_MAX; i++) {
		const void *cubin = m->cubin;

		__atomic_compare_exchange_n(&st.mem->modules[i].cubin, &cubin, NULL, false,
					    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
}

/* --- samples --- */

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	return x ^ x >> 32;
}

static struct function *function_of(const struct cupti_pc *p, uint32_t device)
{
	uint64_t id = mix(mix((uint64_t)p->crc << 32 | p->function) + device) | 1;

	for (uint32_t k = 0, i = id % FNS_MAX; k < FNS_MAX; k++, i = (i + 1) % FNS_MAX) {
		struct function *f = &st.mem->fns[i];

		if (f->name && f->id == id)
			return f;
		if (f->name)
			continue;
		*f = (struct function){.name = p->name ? p->name : "",
				       .id = id,
				       .crc = p->crc,
				       .index = p->function,
				       .device = device};
		st.fn_cnt++;
		return f;
	}
	return NULL;
}

static struct row *row_of(const struct function *f, uint32_t pc)
{
	uint32_t n = f - st.mem->fns + 1, i = mix((uint64_t)n << 32 | pc) % ROWS_MAX;

	for (; st.row_cnt < ROWS_MAX / 4 * 3; i = (i + 1) % ROWS_MAX) {
		struct row *r = &st.mem->rows[i];

		if (r->function == n && r->pc == pc)
			return r;
		if (r->function)
			continue;
		r->function = n;
		r->pc = pc;
		st.mem->order[st.row_cnt++] = i;
		return r;
	}
	return NULL;
}

static void add_pc(const struct cupti_pc *p, uint32_t device)
{
	struct function *f = function_of(p, device);
	struct row *r = f && p->pc <= UINT32_MAX ? row_of(f, p->pc) : NULL;
	uint64_t refused = 0;

	for (size_t i = 0; i < p->stall_cnt && i < REASONS_MAX; i++) {
		uint32_t k = p->stalls[i].index, n = p->stalls[i].samples;
		uint32_t reason = k < REASONS_MAX ? st.reason[k] : CT_STALL_OTHER;

		if (k < REASONS_MAX && st.is_not_issued[k]) {
			if (f)
				f->not_issued += n;
			continue;
		}
		if (f)
			f->reasons[reason] += n;
		if (r)
			r->samples[reason] += n;
		else
			refused += n;
	}
	shm()->refused += refused;
}

static void add(const struct cupti_samples *s, uint32_t device)
{
	shm()->samples += s->total;
	shm()->dropped += s->dropped;
	shm()->unattributed += s->unattributed;
	for (size_t i = 0; i < s->cnt && i < PCS_MAX; i++)
		add_pc(&s->pcs[i], device);
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
			shm()->code = err;
			return false;
		}
		if (err) {
			flag(CT_STALLS_F_ERROR);
			shm()->code = err;
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

/* --- code and lines of functions --- */

/* Copies the module's cubin, unless it is the last one. Returns NULL if it is gone, or is not what
 * was loaded. */
static const uint8_t *copy_of(const struct module *m)
{
	const void *cubin = __atomic_load_n(&m->cubin, __ATOMIC_ACQUIRE);
	struct cupti_crc c = {.size = sizeof(c), .cubin_size = m->size};
	struct iovec from, to;

	if (st.copied == m && st.copy && cubin)
		return st.copy;
	st.copied = NULL;
	if (!cubin)
		return NULL;
	if (st.copy_sz < m->size) {
		if (st.copy)
			sys(SYS_munmap, st.copy, st.copy_sz);
		st.copy_sz = 0;
		st.copy = sys_map(m->size, 0);
		if (!st.copy)
			return NULL;
		st.copy_sz = m->size;
	}
	from = (struct iovec){(void *)cubin, m->size};
	to = (struct iovec){st.copy, m->size};
	c.cubin = st.copy;
	if (sys(SYS_process_vm_readv, inject_process->pid, &to, 1, &from, 1, 0) != (long)m->size ||
	    __atomic_load_n(&m->cubin, __ATOMIC_ACQUIRE) != cubin || st.cupti->GetCubinCrc(&c) ||
	    (uint32_t)c.crc != m->crc)
		return NULL;
	st.copied = m;
	return st.copy;
}

/* Frees the copy's memory: no process keeps it between intervals. */
static void drop_copy(void)
{
	if (st.copy)
		sys(SYS_munmap, st.copy, st.copy_sz);
	st.copy = NULL;
	st.copy_sz = 0;
	st.copied = NULL;
}

static const struct module *module_of(const struct function *f)
{
	uint32_t cnt = __atomic_load_n(&st.module_cnt, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < cnt && i < MODULES_MAX; i++)
		if (st.mem->modules[i].crc == f->crc && st.mem->modules[i].cubin)
			return &st.mem->modules[i];
	return NULL;
}

static void send_code(struct thread *t, struct function *f)
{
	static union {
		struct ct_stall_code code;
		uint8_t bytes[sizeof(struct ct_stall_code) + CT_STALL_PART_MAX];
	} buf;
	const struct module *m = module_of(f);
	const uint8_t *cubin = m ? copy_of(m) : NULL;
	struct cubin_code c;

	f->code_is_sent = true;
	if (!cubin || !code_find(cubin, m->size, f->name, &c) || c.size > CT_STALL_CODE_MAX) {
		shm()->no_code++;
		return;
	}
	for (uint32_t off = 0, len; off < c.size; off += len) {
		len = c.size - off < CT_STALL_PART_MAX ? c.size - off : CT_STALL_PART_MAX;
		buf.code = (struct ct_stall_code){
			.rec = {.size = sizeof(buf.code) + len,
				.kind = CT_REC_STALL_CODE,
				.tid = t->tid},
			.function = f->id,
			.size = c.size,
			.off = off,
			.len = len,
			.arch = c.arch,
		};
		memcpy(buf.code.code, c.at + off, len);
		/* The next interval sends it again. */
		if (!gpu_send(t, &buf.code.rec)) {
			f->code_is_sent = false;
			return;
		}
	}
}

static bool line_is_known(uint64_t key)
{
	uint64_t *at = &st.mem->lines[key >> (64 - LINES_LOG)];
	bool known = *at == key;

	*at = key;
	return known;
}

static void send_line(struct thread *t, struct function *f, uint32_t pc)
{
	static union {
		struct ct_stall_source source;
		uint8_t bytes[sizeof(struct ct_stall_source) + CT_STALL_FILE_MAX];
	} buf;
	const struct module *m;
	struct cupti_source s = {.size = sizeof(s), .function = f->name, .pc = pc};
	size_t len;

	if (f->no_lines || line_is_known(mix(f->id + pc) | 1))
		return;
	m = module_of(f);
	s.cubin = m ? copy_of(m) : NULL;
	s.cubin_size = m ? m->size : 0;
	if (!s.cubin || !st.cupti->GetSassToSourceCorrelation ||
	    st.cupti->GetSassToSourceCorrelation(&s) || !s.file || !*s.file || !s.line) {
		f->no_lines = true;
	} else {
		len = strnlen(s.file, CT_STALL_FILE_MAX);
		buf.source = (struct ct_stall_source){
			.rec = {.size = sizeof(buf.source) + len,
				.kind = CT_REC_STALL_SOURCE,
				.tid = t->tid},
			.function = f->id,
			.pc = pc,
			.line = s.line,
			.len = len,
		};
		memcpy(buf.source.file, s.file, len);
		gpu_send(t, &buf.source.rec);
	}
	if (st.release) {
		st.release(s.file);
		st.release(s.folder);
	}
}

/* --- an interval's sums --- */

static uint64_t sum_of(const struct function *f)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < CT_STALL_CNT; i++)
		n += f->reasons[i];
	return n;
}

struct pcs_buf {
	union {
		struct ct_stall_pcs pcs;
		uint8_t bytes[sizeof(struct ct_stall_pcs) +
			      CT_STALL_ROWS_MAX * sizeof(struct ct_stall_row)];
	};
};

static void pcs_send(struct thread *t, struct pcs_buf *b)
{
	b->pcs.rec.size = sizeof(b->pcs) + b->pcs.cnt * sizeof(b->pcs.rows[0]);
	if (b->pcs.cnt && !gpu_send(t, &b->pcs.rec))
		for (uint32_t i = 0; i < b->pcs.cnt; i++)
			shm()->lost += b->pcs.rows[i].samples;
	b->pcs.cnt = 0;
}

static void send_function(struct thread *t, struct function *f, uint32_t begin, uint32_t end,
			  uint64_t now)
{
	static struct pcs_buf buf;
	const bool names = inject_process->set->redact == CT_REDACT_NOTHING;
	const struct context *c = &st.contexts[f->device];
	uint64_t sum = sum_of(f);
	struct ct_stalls s = {
		.rec = {.size = sizeof(s), .kind = CT_REC_STALLS, .tid = t->tid},
		.begin_ns = st.begin_ns,
		.end_ns = now,
		.function = f->id,
		.device = f->device,
		.period = c->period,
		.sm_cnt = c->sm_cnt,
		.clock_khz = c->clock_khz,
		.not_issued = f->not_issued,
	};

	gpu_send_device(t, f->device);
	if (names && *f->name)
		s.name_id = gpu_send_name(t, f->name);
	if (!f->code_is_sent)
		send_code(t, f);
	buf.pcs = (struct ct_stall_pcs){.rec = {.kind = CT_REC_STALL_PCS, .tid = t->tid},
					.function = f->id};
	for (uint32_t k = begin; k < end; k++) {
		const struct row *r = &st.mem->rows[st.mem->order[k]];
		uint64_t n = 0;

		for (uint32_t i = 0; i < CT_STALL_CNT; i++) {
			if (!r->samples[i])
				continue;
			n += r->samples[i];
			buf.pcs.rows[buf.pcs.cnt++] =
				(struct ct_stall_row){r->pc, i, r->samples[i]};
			if (buf.pcs.cnt == CT_STALL_ROWS_MAX)
				pcs_send(t, &buf);
		}
		if (names && n * LINE_SHARE >= sum)
			send_line(t, f, r->pc);
	}
	pcs_send(t, &buf);
	memcpy(s.reasons, f->reasons, sizeof(s.reasons));
	if (!gpu_send(t, &s.rec))
		shm()->lost += sum;
	memset(f->reasons, 0, sizeof(f->reasons));
	f->not_issued = 0;
}

/* Sorts the used rows by function, in a heap. */
static void sift(uint16_t *v, uint32_t at, uint32_t cnt)
{
	const struct row *rows = st.mem->rows;

	for (uint32_t child; (child = 2 * at + 1) < cnt; at = child) {
		uint16_t x = v[at];

		if (child + 1 < cnt && rows[v[child + 1]].function > rows[v[child]].function)
			child++;
		if (rows[x].function >= rows[v[child]].function)
			return;
		v[at] = v[child];
		v[child] = x;
	}
}

static void sort_rows(void)
{
	uint16_t *v = st.mem->order, x;

	for (uint32_t i = st.row_cnt / 2; i-- > 0;)
		sift(v, i, st.row_cnt);
	for (uint32_t cnt = st.row_cnt; cnt > 1;) {
		x = v[0];
		v[0] = v[--cnt];
		v[cnt] = x;
		sift(v, 0, cnt);
	}
}

static void send_interval(struct thread *t, uint64_t now)
{
	uint32_t begin = 0, end = 0;

	sort_rows();
	for (uint32_t i = 0; i < FNS_MAX; i++) {
		struct function *f = &st.mem->fns[i];

		for (end = begin;
		     end < st.row_cnt && st.mem->rows[st.mem->order[end]].function == i + 1;)
			end++;
		if (f->name && sum_of(f))
			send_function(t, f, begin, end, now);
		begin = end;
	}
	drop_copy();
	for (uint32_t i = 0; i < st.row_cnt; i++)
		memset(&st.mem->rows[st.mem->order[i]], 0, sizeof(struct row));
	st.row_cnt = 0;
	/* Programs that generate code have new functions again and again. */
	if (st.fn_cnt > FNS_MAX / 4 * 3) {
		memset(st.mem->fns, 0, sizeof(st.mem->fns));
		st.fn_cnt = 0;
	}
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
		module_loaded(r->descriptor);
		break;
	case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
		module_unloaded(r->descriptor);
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
