/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mock of CUPTI's PC sampling, with the rules of CUPTI 13.0 (observed on an H100): two sampled
 * contexts of a GPU get no samples; a full buffer is final; a program hangs if sampling is disabled
 * elsewhere than in the callback of the context's destruction (here: abort()). Each execution of a
 * kernel has the same samples of the same machine code.
 *
 * Words of FAKE_CUPTI:
 *   pc-rights, pc-unsupported  sampling cannot be enabled
 *   pc-full, pc-shared    the second reading finds the buffer full, or another sampler
 *   pc-error              the second reading fails
 *   pc-nonuser            each fourth execution is not attributed to a function
 *   pc-drop               each execution has 7 dropped samples
 *   pc-nocode             modules are not reported
 *   pc-moved              the memory of a module's cubin changes after it was loaded
 *   pc-arch               an architecture of the future
 *   pc-nolines            there are no source lines
 *   pc-many               each execution is of 300 functions
 *   pc-exit               as with libnvperf_host, what it loads is destroyed at the exit: then no
 *                         reading is possible, and each aborts; the same for source lines, from
 *                         the first that was read
 *   pc-late               each second reading finds nothing: the GPU's samples are decoded later
 */
#include "libcupti.h"

#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FNS_MAX	  2048
#define PCS	  5
#define REASON(x) "smsp__pcsamp_warps_issue_stalled_" x

cupti_call_fn *pc_callback;
uint64_t pc_made;

static const char *const reasons[] = {
	REASON("long_scoreboard"),  REASON("long_scoreboard_not_issued"),
	REASON("short_scoreboard"), REASON("short_scoreboard_not_issued"),
	REASON("lg_throttle"),	    REASON("lg_throttle_not_issued"),
	REASON("selected"),	    REASON("not_selected"),
	REASON("invented"),
};
#define REASON_CNT (sizeof(reasons) / sizeof(*reasons))

/* An instruction: operation with its predicate, the scoreboards that it sets and those that it
 * waits for. */
#define NO	       7
#define IF(op)	       ((op) | 0 << 12)
#define ALWAYS(op)     ((op) | 7 << 12)
#define BSSY(distance) (ALWAYS(0x945) | (uint64_t)(distance) << 32)
#define INSTRUCTION(op, write, read, wait)                                                         \
	{                                                                                          \
		op, ((uint64_t)((write) << 5 | (read) << 8 | (wait) << 11)) << 41                  \
	}
static const uint64_t code[][2] = {
	INSTRUCTION(ALWAYS(0x981), 0, NO, 0),	    /* 00 LDG */
	INSTRUCTION(ALWAYS(0x221), NO, NO, 1 << 0), /* 10 FADD, waits for 00 */
	INSTRUCTION(ALWAYS(0x984), 1, NO, 0),	    /* 20 LDS */
	INSTRUCTION(IF(0x223), NO, NO, 1 << 1),	    /* 30 FFMA, waits for 20 */
	INSTRUCTION(BSSY(0x20), NO, NO, 0),	    /* 40 BSSY to 70 */
	INSTRUCTION(ALWAYS(0x9a8), 2, NO, 0),	    /* 50 ATOMG */
	INSTRUCTION(ALWAYS(0x202), NO, NO, 1 << 2), /* 60 MOV, waits for 50 */
	INSTRUCTION(ALWAYS(0x986), NO, 3, 0),	    /* 70 STG */
	INSTRUCTION(IF(0x94d), NO, NO, 0),	    /* 80 EXIT */
};

/* Samples of an execution. */
static const struct {
	uint32_t pc, samples[REASON_CNT];
} sampled[PCS] = {
	{0x00, {0, 0, 0, 0, 0, 0, 30, 74, 1}},	  {0x10, {500, 450, 0, 0, 0, 0, 10, 0, 0}},
	{0x30, {0, 0, 200, 160, 0, 0, 20, 0, 0}}, {0x60, {100, 95, 0, 0, 0, 0, 5, 0, 0}},
	{0x70, {0, 0, 0, 0, 50, 45, 10, 0, 0}},
};
#define EXECUTION 1000

static struct fn {
	char *name;
	uint64_t crc, executions, all;
	uint8_t *cubin;
	size_t size;
} fns[FNS_MAX];
static unsigned fn_cnt;
static struct context {
	void *ctx;
	bool on;
	struct cupti_samples *own;
} contexts[64];
static uint32_t period = 11, get_cnt;
static uint64_t nonuser, nonuser_all, dropped, total, executions;
static __thread bool in_destruction;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t crc_of(const uint8_t *s, size_t size)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < size; i++)
		h = (h ^ s[i]) * 16777619u;
	return h;
}

/* An ELF file: the names of sections, then the code. */
static void cubin_make(struct fn *f)
{
	size_t name_sz = strlen(f->name) + sizeof("\0.text.\0.names"), code_at, at;
	Elf64_Ehdr e = {.e_ident = ELFMAG,
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = 3,
			.e_shstrndx = 1,
			.e_shoff = sizeof(e)};
	Elf64_Shdr s[3] = {{0}};

	e.e_ident[EI_CLASS] = ELFCLASS64;
	e.e_ident[EI_ABIVERSION] = 8;
	e.e_flags = (cupti_wants("pc-arch") ? 200 : 90) << 8;
	at = sizeof(e) + sizeof(s);
	code_at = (at + name_sz + 15) & ~15ul;
	f->size = code_at + sizeof(code);
	f->cubin = calloc(1, f->size);
	s[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = name_sz};
	s[2] = (Elf64_Shdr){.sh_name = 1,
			    .sh_type = SHT_PROGBITS,
			    .sh_offset = code_at,
			    .sh_size = sizeof(code)};
	memcpy(f->cubin, &e, sizeof(e));
	memcpy(f->cubin + sizeof(e), s, sizeof(s));
	sprintf((char *)f->cubin + at + 1, ".text.%s", f->name);
	memcpy(f->cubin + code_at, code, sizeof(code));
	f->crc = crc_of(f->cubin, f->size);
}

/* With the lock held, which is released for the callback. */
static struct fn *fn_get(const char *name)
{
	struct cupti_resource r = {0};
	struct cupti_module m;
	struct fn *f;

	for (unsigned i = 0; i < fn_cnt; i++)
		if (!strcmp(fns[i].name, name))
			return &fns[i];
	if (fn_cnt == FNS_MAX)
		return &fns[0];
	f = &fns[fn_cnt++];
	f->name = strdup(name);
	cubin_make(f);
	m = (struct cupti_module){fn_cnt, f->size, f->cubin};
	r.descriptor = &m;
	pthread_mutex_unlock(&lock);
	if (!cupti_wants("pc-nocode") && pc_callback)
		pc_callback(NULL, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED,
			    (const void *)&r);
	pthread_mutex_lock(&lock);
	if (cupti_wants("pc-moved"))
		f->cubin[f->size - 1] ^= 1;
	return f;
}

static struct context *sampled_context(void)
{
	for (unsigned i = 0; i < 64; i++)
		if (contexts[i].on)
			return &contexts[i];
	return NULL;
}

static void execute(const char *name)
{
	struct fn *f = fn_get(name);

	executions++;
	total += EXECUTION;
	if (cupti_wants("pc-drop"))
		dropped += 7;
	if (cupti_wants("pc-nonuser") && executions % 4 == 0) {
		nonuser += EXECUTION;
		nonuser_all += EXECUTION;
		return;
	}
	f->executions++;
	f->all++;
}

void pc_kernel(const char *name)
{
	char other[300];

	pthread_mutex_lock(&lock);
	if (sampled_context()) {
		pc_made += EXECUTION;
		execute(name);
	}
	for (unsigned i = 0; sampled_context() && cupti_wants("pc-many") && i < 300; i++) {
		snprintf(other, sizeof(other), "_Z%zuf%03uv", sizeof("f000") - 1, i);
		pc_made += EXECUTION;
		execute(other);
	}
	pthread_mutex_unlock(&lock);
}

void pc_context(void *ctx, uint32_t device, bool is_new)
{
	struct cupti_resource r = {.context = ctx};

	(void)device;
	in_destruction = !is_new;
	if (pc_callback)
		pc_callback(NULL, CUPTI_CB_DOMAIN_RESOURCE,
			    is_new ? CUPTI_CBID_RESOURCE_CONTEXT_CREATED
				   : CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
			    (const void *)&r);
	in_destruction = false;
}

void pc_counts(FILE *f)
{
	for (unsigned i = 0; i < fn_cnt; i++)
		fprintf(f, "pc %s %lu\n", fns[i].name, fns[i].all);
	if (pc_made)
		fprintf(f, "pc-nonuser %lu\n", nonuser_all);
}

/* --- CUPTI --- */

EXPORT int cuptiGetDeviceId(void *ctx, uint32_t *device)
{
	(void)ctx;
	*device = 0;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiGetCubinCrc(struct cupti_crc *c)
{
	c->crc = crc_of(c->cubin, c->cubin_size);
	return CUPTI_SUCCESS;
}

static bool lines_are_over;

static void end_lines(void)
{
	lines_are_over = true;
}

EXPORT int cuptiGetSassToSourceCorrelation(struct cupti_source *s)
{
	static bool has_exit;

	if (lines_are_over)
		abort();
	if (cupti_wants("pc-exit") && !has_exit)
		has_exit = !atexit(end_lines);
	if (cupti_wants("pc-nolines"))
		return 7;
	s->file = strdup("kernels.cu");
	s->folder = strdup("/src");
	s->line = 100 + s->pc / 16;
	return CUPTI_SUCCESS;
}

static bool is_destroyed;

static void destroy(void)
{
	is_destroyed = true;
}

EXPORT int cuptiPCSamplingEnable(struct cupti_pc_params *p)
{
	unsigned i = 0;

	if (cupti_wants("pc-rights"))
		return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
	if (cupti_wants("pc-unsupported"))
		return CUPTI_ERROR_NOT_SUPPORTED;
	if (cupti_wants("pc-exit"))
		atexit(destroy);
	while (i < 63 && contexts[i].ctx && contexts[i].on)
		i++;
	contexts[i] = (struct context){p->context, true, NULL};
	return CUPTI_SUCCESS;
}

static unsigned on_cnt(void)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < 64; i++)
		cnt += contexts[i].on;
	return cnt;
}

EXPORT int cuptiPCSamplingGetNumStallReasons(struct cupti_pc_params *p)
{
	*p->cnt_to = REASON_CNT;
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPCSamplingGetStallReasons(struct cupti_pc_params *p)
{
	for (unsigned i = 0; i < p->cnt && i < REASON_CNT; i++) {
		p->indices[i] = i + 3; /* any numbers */
		snprintf(p->names[i], CUPTI_STALL_NAME_SZ, "%s", reasons[i]);
	}
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPCSamplingSetConfigurationAttribute(struct cupti_pc_params *p)
{
	for (size_t i = 0; i < p->cnt; i++) {
		const struct cupti_pc_attribute *a = &p->attributes[i];

		if (a->type == CUPTI_PC_PERIOD)
			period = a->u32;
		if (a->type == CUPTI_PC_MODE && a->u32 != CUPTI_PC_CONTINUOUS)
			abort();
		for (unsigned k = 0; k < 64 && a->type == CUPTI_PC_DATA_BUFFER; k++)
			if (contexts[k].on && contexts[k].ctx == p->context)
				contexts[k].own = a->pointer;
	}
	return CUPTI_SUCCESS;
}

EXPORT int cuptiPCSamplingGetConfigurationAttribute(struct cupti_pc_params *p)
{
	p->attributes[0].u32 = period;
	return CUPTI_SUCCESS;
}

/* Fills a buffer with what nobody has read. With the lock held. */
static void fill(struct cupti_samples *s)
{
	s->cnt = s->remaining = 0;
	s->total = total;
	s->dropped = dropped;
	s->unattributed = nonuser;
	total = dropped = nonuser = 0;
	for (unsigned i = 0; i < fn_cnt; i++) {
		struct fn *f = &fns[i];

		if (!f->executions)
			continue;
		if (s->cnt + PCS > s->room) {
			s->remaining += PCS;
			continue;
		}
		for (unsigned k = 0; k < PCS; k++) {
			struct cupti_pc *pc = &s->pcs[s->cnt++];

			if (pc->size != sizeof(*pc))
				abort();
			pc->crc = f->crc;
			pc->pc = sampled[k].pc;
			pc->function = 1;
			pc->name = f->name;
			pc->stall_cnt = 0;
			for (unsigned r = 0; r < REASON_CNT; r++)
				if (sampled[k].samples[r])
					pc->stalls[pc->stall_cnt++] = (struct cupti_stall){
						r + 3, sampled[k].samples[r] * f->executions};
		}
		f->executions = 0;
	}
}

EXPORT int cuptiPCSamplingGetData(struct cupti_pc_params *p)
{
	int err = CUPTI_SUCCESS;

	if (is_destroyed)
		abort();
	pthread_mutex_lock(&lock);
	get_cnt++;
	if (on_cnt() > 1 || (cupti_wants("pc-shared") && get_cnt > 1))
		err = CUPTI_ERROR_UNKNOWN;
	else if (cupti_wants("pc-full") && get_cnt > 1)
		err = CUPTI_ERROR_OUT_OF_MEMORY;
	else if (cupti_wants("pc-error") && get_cnt > 1)
		err = 3;
	else if (!cupti_wants("pc-late") || get_cnt % 2 == 0)
		fill(p->data);
	pthread_mutex_unlock(&lock);
	return err;
}

EXPORT int cuptiPCSamplingDisable(struct cupti_pc_params *p)
{
	if (!in_destruction)
		abort();
	for (unsigned i = 0; i < 64; i++) {
		if (!contexts[i].on || contexts[i].ctx != p->context)
			continue;
		pthread_mutex_lock(&lock);
		if (contexts[i].own)
			fill(contexts[i].own);
		pthread_mutex_unlock(&lock);
		contexts[i] = (struct context){0};
		return CUPTI_SUCCESS;
	}
	return 3;
}
