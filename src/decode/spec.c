/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Builds the spec of what the BPF programs read, from a row of the table.
 *
 * An argument word is not an argument: the BPF programs store integer registers and then stack
 * slots, in the order of the calling convention. A struct of more than 16 bytes passed by value
 * (CUipcMemHandle) is on the stack and uses no register on x86-64, and is a pointer on arm64. A
 * float is in a vector register, which no probe can read.
 */
#include "nccl_kernels.h"
#include "plan.h"

#include "ct_record.h"

#include <string.h>

/* Rows of the table, counted by the preprocessor. */
enum {
#define FN(sym, cls, op, ver, args) ROW_##sym,
#include "api_tables.h"
	ROW_CNT
};

static struct plan plans[ROW_CNT];

#ifdef __aarch64__
#define REG_WORDS CT_REG_WORDS_ARM64
#else
#define REG_WORDS CT_REG_WORDS_X86
#endif

#define STR_SZ	    1024 /* names, paths, options: kernel names of C++ templates are long */
#define OUT_STR_SZ  256	 /* device names, PCI ids, error texts */
#define OUT_PSTR_SZ 1024

/* nvtxEventAttributes_t: pointer to its text; for a payload of the extension, pointer to the first
 * nvtxPayloadData_t, which has another pointer. */
#define NVTX_MESSAGE_OFF 40
#define NVTX_PAYLOAD_OFF 24
#define NVTX_ENTRY_SZ	 24
#define NVTX_ENTRY_PTR	 16
#define NVTX_PAYLOAD_SZ	 32

static void add_cap(struct plan *p, unsigned arg, struct ct_cap cap);

static void add_message(struct plan *p, unsigned arg)
{
	add_cap(p, arg,
		(struct ct_cap){.kind = CT_CAP_FSTR, .size = STR_SZ, .off = NVTX_MESSAGE_OFF});
	add_cap(p, arg,
		(struct ct_cap){
			.kind = CT_CAP_FMEM, .size = NVTX_ENTRY_SZ, .off = NVTX_PAYLOAD_OFF});
	add_cap(p, arg,
		(struct ct_cap){.kind = CT_CAP_FMEM,
				.size = NVTX_PAYLOAD_SZ,
				.off = NVTX_PAYLOAD_OFF,
				.count_off = NVTX_ENTRY_PTR});
}

bool api_type_has_attrs(const struct api_type *type)
{
	return type->kind == KIND_STRUCT && type->st && !strcmp(type->st->name, "CUlaunchConfig");
}

static bool is_known(const struct api_type *type)
{
	return type->size && type->size <= CT_CAP_SZ_MAX &&
	       (type->kind != KIND_STRUCT || (type->st && type->st->field_cnt));
}

struct regs {
	unsigned reg, stack;
	unsigned skip, skip_at; /* number of words skipped, and the first of them */
};

/* Returns the first word of an argument, according to the calling convention. */
static unsigned place(struct regs *r, const struct api_arg *arg)
{
	unsigned size = arg->dir == DIR_IN ? arg->type->size : 8, at;
	unsigned cnt = size > 8 ? (size + 7) / 8 : 1;
	bool in_regs = r->reg + cnt <= REG_WORDS;

	if (arg->dir == DIR_IN && arg->type->kind == KIND_FLOAT)
		return PLAN_NO_WORD;
	if (cnt > 2) {
#ifdef __aarch64__
		/* The address of a copy: this word is not the value. */
		r->reg < REG_WORDS ? r->reg++ : r->stack++;
		return PLAN_NO_WORD;
#else
		in_regs = false;
#endif
	}
	at = in_regs ? r->reg : r->stack;
	if (in_regs) {
		r->reg += cnt;
	} else {
		r->stack += cnt;
		if (at + cnt > r->skip_at) {
			if (at < r->skip_at + r->skip)
				return PLAN_NO_WORD;
			at -= r->skip;
		}
	}
	return at + cnt <= CT_MAX_WORDS ? at : PLAN_NO_WORD;
}

static void add_cap(struct plan *p, unsigned arg, struct ct_cap cap)
{
	if (p->cap_cnt >= CT_MAX_CAPS || p->word[arg] == PLAN_NO_WORD)
		return;
	if (p->cap[arg] < 0)
		p->cap[arg] = p->cap_cnt;
	cap.arg = p->word[arg];
	p->caps[p->cap_cnt++] = cap;
}

static bool is_comm(const struct api_type *type)
{
	return !strcmp(type->name, "ncclComm_t");
}

/* Its pointee follows those of the arguments before it. */
static void plan_comm(struct plan *p, const struct api_fn *fn, unsigned i)
{
	if (op_does(fn->op, DOES_COLLECTIVE | DOES_PEER) && is_comm(fn->args[i].type))
		add_cap(p, i, (struct ct_cap){.kind = CT_CAP_COMM, .size = sizeof(struct ct_comm)});
}

/* The function number of an NCCL kernel is in its arguments. */
static void plan_extra(struct plan *p, const struct api_fn *fn, unsigned i)
{
	if (op_does(fn->op, DOES_LAUNCH) && !strcmp(fn->args[i].name, "extra"))
		add_cap(p, i,
			(struct ct_cap){.kind = CT_CAP_EXTRA,
					.size = sizeof(uint32_t),
					.off = NCCL_BATCH_OFF});
}

/* Parameters of the kernel: read only by the in-process library (src/inject/settings.c). */
static void plan_params(struct plan *p, const struct api_fn *fn)
{
	int arg = api_arg_by_name(fn, "kernelParams"), extra = api_arg_by_name(fn, "extra");
	int handle = api_arg_by_name(fn, "f");

	if (op_does(fn->op, DOES_LAUNCH) && arg >= 0 && handle >= 0)
		add_cap(p, arg,
			(struct ct_cap){.kind = CT_CAP_PARAMS,
					.off = p->word[handle],
					.count_arg = extra >= 0 ? p->word[extra] : 0});
}

/* Attributes of cuDNN's descriptors, for the model only. They are not shown, because most have less
 * than 8 bytes. */
static void plan_elements(struct plan *p, const struct api_fn *fn, unsigned i)
{
	bool got = fn->op == OP_DESCRIBED;
	int cnt = api_arg_by_name(fn, got ? "requestedElementCount" : "elementCount");

	if (cnt < 0 || strcmp(fn->args[i].name, "arrayOfElements") != 0)
		return;
	add_cap(p, i,
		(struct ct_cap){.kind = CT_CAP_ARR,
				.size = sizeof(uint64_t),
				.flags = CT_CAP_F_ON_SUCCESS,
				.count_arg = p->word[cnt]});
}

static void plan_cap(struct plan *p, const struct api_fn *fn, unsigned i)
{
	const struct api_arg *arg = &fn->args[i];
	struct ct_cap cap = {.size = arg->type->size};

	switch (arg->dir) {
	case DIR_OUT:
	case DIR_OUT_ARR:
		cap.flags = CT_CAP_F_ON_SUCCESS;
		/* fall through */
	case DIR_INOUT:
	case DIR_IN_PTR:
	case DIR_IN_ARR:
		if (!is_known(arg->type))
			return;
		cap.kind = CT_CAP_MEM;
		break;
	case DIR_IN_STR:
		cap.kind = CT_CAP_STR;
		cap.size = STR_SZ;
		break;
	case DIR_OUT_STR:
		cap.kind = CT_CAP_STR;
		cap.flags = CT_CAP_F_ON_SUCCESS;
		cap.size = OUT_STR_SZ;
		break;
	case DIR_OUT_PSTR:
		cap.kind = CT_CAP_PSTR;
		cap.flags = CT_CAP_F_ON_SUCCESS;
		cap.size = OUT_PSTR_SZ;
		break;
	case DIR_IN:
		plan_comm(p, fn, i);
		plan_extra(p, fn, i);
		plan_elements(p, fn, i);
		return;
	default:
		return;
	}
	if (arg->dir == DIR_IN_ARR || arg->dir == DIR_OUT_ARR) {
		if (arg->count_arg >= fn->arg_cnt || p->word[arg->count_arg] == PLAN_NO_WORD)
			return;
		cap.kind = CT_CAP_ARR;
		if (fn->args[arg->count_arg].dir != DIR_IN)
			cap.flags |= CT_CAP_F_COUNT_PTR;
		cap.count_arg = p->word[arg->count_arg];
	}
	add_cap(p, i, cap);
	if (fn->op == OP_INIT && arg->dir == DIR_OUT && is_comm(arg->type))
		add_cap(p, i,
			(struct ct_cap){.kind = CT_CAP_COMM,
					.size = sizeof(struct ct_comm),
					.flags = CT_CAP_F_DEREF});
	if (arg->dir == DIR_IN_PTR && api_type_has_attrs(arg->type))
		add_cap(p, i,
			(struct ct_cap){.kind = CT_CAP_PARR,
					.size = LAUNCH_ATTR_SZ,
					.off = LAUNCH_ATTRS_OFF,
					.count_off = LAUNCH_ATTRS_CNT_OFF});
	if (arg->dir == DIR_IN_PTR && !strcmp(arg->type->name, "nvtxEventAttributes_t"))
		add_message(p, i);
}

static bool is_number(const struct api_arg *arg)
{
	const struct api_type *t = arg->type;

	return arg->dir == DIR_IN && t->size && t->size <= sizeof(uint64_t) &&
	       !(t->kind >= KIND_BYTES && t->kind <= KIND_STRUCT);
}

/* Matrix products have up to 23 arguments. Selects the stack words to skip, so that the last sizes
 * are among the recorded words. ldb and the words after it, up to the type of C, matter least; if
 * that is not enough, the first ones are skipped. */
static struct regs regs_of(const struct api_fn *fn)
{
	struct regs r = {.stack = REG_WORDS};
	unsigned last = 0, ldb = 0, end = 0, skip;

	for (unsigned i = 0; fn->arg_cnt > CT_MAX_WORDS && i < fn->arg_cnt; i++) {
		const struct api_arg *arg = &fn->args[i];

		place(&r, arg);
		if (!strcmp(arg->name, "batchCount") || !strcmp(arg->name, "computeType"))
			last = r.stack;
		else if (!strcmp(arg->name, "ldb"))
			ldb = r.stack - 1;
		if (!end && (last || !strcmp(arg->name, "Ctype")))
			end = r.stack - 1;
	}
	skip = last > CT_MAX_WORDS ? last - CT_MAX_WORDS : 0;
	return (struct regs){
		.stack = REG_WORDS,
		.skip = skip,
		.skip_at = ldb >= REG_WORDS && ldb + skip <= end ? ldb : REG_WORDS,
	};
}

static void plan_make(struct plan *p, const struct api_fn *fn)
{
	unsigned cnt = fn->arg_cnt < PLAN_ARGS ? fn->arg_cnt : PLAN_ARGS;
	struct regs r = regs_of(fn);

	memset(p, 0, sizeof(*p));
	p->skip = r.skip;
	p->skip_at = r.skip_at - REG_WORDS;
	memset(p->cap, -1, sizeof(p->cap));
	memset(p->word, PLAN_NO_WORD, sizeof(p->word));
	for (unsigned i = 0; i < cnt; i++) {
		p->word[i] = place(&r, &fn->args[i]);
		p->numbers[i] = is_number(&fn->args[i]);
	}
	for (unsigned i = cnt; i-- > 1;)
		if (p->numbers[i - 1] && p->word[i] == p->word[i - 1] + 1)
			p->numbers[i - 1] += p->numbers[i];
	/* Counts may come after the arrays that they count. */
	for (unsigned i = 0; i < cnt; i++)
		plan_cap(p, fn, i);
	plan_params(p, fn);
	p->word_cnt = r.stack > REG_WORDS + r.skip ? r.stack - r.skip : r.reg;
	if (p->word_cnt > CT_MAX_WORDS)
		p->word_cnt = CT_MAX_WORDS;
	p->ready = true;
}

const struct plan *api_plan(const struct api_fn *fn, struct plan *tmp)
{
	static const struct api_fn *rows;
	struct plan *p = tmp;
	unsigned cnt;

	if (!rows)
		rows = api_fns(&cnt);
	if ((uintptr_t)fn - (uintptr_t)rows < sizeof(*rows) * ROW_CNT) {
		p = &plans[fn - rows];
		if (p->ready)
			return p;
	}
	plan_make(p, fn);
	return p;
}

/* bytes32, in functions before CUDA 3.2, is half a word. */
static uint8_t bytes_word(const struct api_fn *fn, const struct plan *p)
{
	int arg = api_fn_bytes_arg(fn);

	if (arg < 0 || arg >= CT_MAX_WORDS || fn->args[arg].dir != DIR_IN ||
	    fn->args[arg].type->size != 8 || p->word[arg] == PLAN_NO_WORD)
		return 0;
	return p->word[arg] + 1;
}

static bool is_kernel_handle(const struct api_arg *arg)
{
	return !strcmp(arg->type->name, "CUfunction") || !strcmp(arg->type->name, "CUkernel");
}

bool api_fn_unloads(const struct api_fn *fn)
{
	return fn->op == OP_UNLOAD ||
	       (fn->class == CLASS_CONTEXT && (fn->op == OP_DESTROY || fn->op == OP_RELEASE));
}

/* Returns the argument of a launch or kernel lookup that is or receives the kernel's handle; or
 * -1. */
static int handle_arg(const struct api_fn *fn)
{
	if (!op_does(fn->op, DOES_LAUNCH) && (fn->class != CLASS_MODULE || fn->op != OP_LOOKUP))
		return -1;
	for (int i = 0; i < fn->arg_cnt && i < CT_MAX_WORDS; i++)
		if (fn->args[i].dir == DIR_IN && is_kernel_handle(&fn->args[i]))
			return i;
	return fn->args[0].dir == DIR_OUT && is_kernel_handle(&fn->args[0]) ? 0 : -1;
}

static void set_handle(struct ct_spec *spec, const struct api_fn *fn, const struct plan *p)
{
	int arg = handle_arg(fn);

	if (arg >= 0 && p->word[arg] != PLAN_NO_WORD) {
		spec->handle_word = p->word[arg] + 1;
		if (fn->args[arg].dir == DIR_OUT)
			spec->flags |= CT_SPEC_F_HANDLE_OUT;
	}
	if (api_fn_unloads(fn))
		spec->flags |= CT_SPEC_F_UNLOADS;
}

bool api_fn_is_entry_only(const struct api_fn *fn)
{
	return fn->api == API_TORCH && fn->op != OP_NUMBER;
}

#define TELLS_OPERATOR (CT_SPEC_F_OPERATOR | CT_SPEC_F_NODE)

static void set_torch(struct ct_spec *spec, const struct api_fn *fn)
{
	if (api_fn_is_entry_only(fn))
		spec->flags |= CT_SPEC_F_NO_RETURN;
	if (fn->op == OP_FORWARD)
		spec->flags |= CT_SPEC_F_OPERATOR;
	if (fn->op == OP_BACKWARD)
		spec->flags |= CT_SPEC_F_NODE;
	if (fn->op == OP_AFTER)
		spec->flags |= CT_SPEC_F_AFTER;
	if (spec->flags & TELLS_OPERATOR)
		spec->word_cnt = CT_TORCH_WORDS;
}

void api_fn_spec(const struct api_fn *fn, struct ct_spec *spec)
{
	struct plan tmp;
	const struct plan *p = api_plan(fn, &tmp);

	memset(spec, 0, sizeof(*spec));
	spec->api = fn->api;
	spec->ok = api_at(fn->api)->ok;
	spec->pending = api_at(fn->api)->pending;
	spec->word_cnt = p->word_cnt;
	spec->word_skip = p->skip;
	spec->skip_at = p->skip_at;
	spec->in_regs = fn->known && p->word_cnt <= REG_WORDS;
	spec->cap_cnt = p->cap_cnt;
	if (op_does(fn->op, IS_KEPT))
		spec->flags = CT_SPEC_F_KEEP;
	if (fn->no_result)
		spec->flags |= CT_SPEC_F_NO_RESULT;
	/* The stack between a product and its launch exceeds 12 KiB (cuBLAS 13.1, seen on an H100),
	 * as does that between ncclCommInitRankConfig() and many calls in it (NCCL 2.28, on
	 * H200s). */
	if (fn->api == API_CUBLAS || fn->api == API_CUDNN || fn->api == API_NCCL)
		spec->flags |= CT_SPEC_F_DEEP;
	if (fn->api == API_TORCH)
		set_torch(spec, fn);
	spec->bytes_word = bytes_word(fn, p);
	set_handle(spec, fn, p);
	memcpy(spec->caps, p->caps, sizeof(spec->caps));
	if (spec->cap_cnt && spec->caps[spec->cap_cnt - 1].kind == CT_CAP_PARAMS)
		spec->cap_cnt--;
}

void api_fn_spec_redacting(const struct api_fn *fn, enum ct_redact redact, struct ct_spec *spec)
{
	api_fn_spec(fn, spec);
	if (redact == CT_REDACT_ARGS) {
		/* An operator's words identify it, and are not arguments. */
		spec->word_cnt = spec->flags & TELLS_OPERATOR ? spec->word_cnt : 0;
		spec->cap_cnt = spec->bytes_word = 0;
	}
	if (redact != CT_REDACT_NOTHING)
		spec->handle_word = 0;
	for (unsigned i = 0; redact == CT_REDACT_STRINGS && i < spec->cap_cnt; i++) {
		if (spec->caps[i].kind == CT_CAP_STR || spec->caps[i].kind == CT_CAP_PSTR ||
		    spec->caps[i].kind == CT_CAP_FSTR)
			spec->caps[i].size = 0;
	}
}

void api_named_results(__u64 bits[CT_APIS_MAX][CT_RESULT_WORDS])
{
	for (int a = 0; a < API_CNT; a++)
		for (int32_t i = 1; i < CT_RESULT_WORDS * 64; i++)
			bits[a][i / 64] |= (__u64) !!api_result_name(api_at(a), i) << i % 64;
}

const char *api_redact_name(enum ct_redact redact)
{
	return redact == CT_REDACT_ARGS	     ? "arguments"
	       : redact == CT_REDACT_STRINGS ? "strings"
					     : NULL;
}

int api_arg_cap(const struct api_fn *fn, unsigned arg)
{
	struct plan tmp;

	return arg < PLAN_ARGS ? api_plan(fn, &tmp)->cap[arg] : -1;
}

int api_arg_word(const struct api_fn *fn, unsigned arg)
{
	struct plan tmp;
	const struct plan *p = api_plan(fn, &tmp);

	return arg < PLAN_ARGS && p->word[arg] != PLAN_NO_WORD ? p->word[arg] : -1;
}

int api_arg_by_name(const struct api_fn *fn, const char *name)
{
	for (unsigned i = 0; i < fn->arg_cnt; i++)
		if (!strcmp(fn->args[i].name, name))
			return i;
	return -1;
}
