/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "kernel_work.h"

#include <string.h>

#include "decode/dnn.h"
#include "model/params.h"

/* A part of a name. */
struct part {
	const char *at;
	size_t len;
};

/* State of one evaluation; is_bad: a value is missing. */
struct work_reader {
	const struct launch_info *l;
	struct part targs; /* after the first '<' of the function's template arguments */
	bool is_bad;
};

static bool part_is(const struct part *p, const char *text)
{
	return p->len == strlen(text) && !memcmp(p->at, text, p->len);
}

static bool starts(const struct part *p, const char *text)
{
	return p->len >= strlen(text) && !memcmp(p->at, text, strlen(text));
}

static const struct {
	const char *name;
	uint8_t size;
} scalars[] = {
	{"float", 4},
	{"double", 8},
	{"c10::Half", 2},
	{"c10::BFloat16", 2},
	{"bool", 1},
	{"char", 1},
	{"signed char", 1},
	{"unsigned char", 1},
	{"short", 2},
	{"int", 4},
	{"unsigned int", 4},
	{"long", 8},
	{"unsigned long", 8},
	{"long long", 8},
	{"c10::Float8_e4m3fn", 1},
	{"c10::Float8_e5m2", 1},
	{"c10::complex<float>", 8},
	{"c10::complex<double>", 16},
};

static unsigned scalar_size(const struct part *p)
{
	for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++)
		if (part_is(p, scalars[i].name))
			return scalars[i].size;
	return 0;
}

/* Item n of a list separated by commas, which ends at the bracket that closes it. */
static bool item(struct part list, unsigned n, struct part *to)
{
	int depth = 0;
	size_t from = 0;

	for (size_t i = 0; i < list.len; i++) {
		char c = list.at[i];
		bool is_end = !depth && strchr(">)]}", c) && c;

		if (!depth && (c == ',' || is_end)) {
			if (!n--) {
				while (from < i && list.at[from] == ' ')
					from++;
				while (i > from && list.at[i - 1] == ' ')
					i--;
				*to = (struct part){list.at + from, i - from};
				return to->len;
			}
			if (is_end)
				return false;
			from = i + 1;
		}
		depth += c && strchr("<([{", c);
		depth -= c && strchr(">)]}", c);
	}
	return false;
}

static unsigned item_size(struct part list, unsigned n)
{
	struct part p;

	return item(list, n, &p) ? scalar_size(&p) : 0;
}

/* Skips the namespaces in front of a name. */
static struct part base_of(struct part p)
{
	int depth = 0;
	size_t from = 0;

	for (size_t i = 0; i < p.len; i++) {
		char c = p.at[i];

		/* "(anonymous namespace)::" is not the end of the name. */
		if (!depth && (c == '<' || (c == '(' && i > from)))
			break;
		depth += c == '(';
		depth -= c == ')';
		if (!depth && (c == ' ' || (c == ':' && i && p.at[i - 1] == ':')))
			from = i + 1;
	}
	return (struct part){p.at + from, p.len - from};
}

static double parameter(struct work_reader *r, unsigned n)
{
	const struct launch_params *p = r->l->params;
	const uint8_t *bytes = p->bytes;
	uint64_t value = 0;

	if (n >= p->cnt || p->of[n].len != p->of[n].size ||
	    (p->of[n].size != 4 && p->of[n].size != 8)) {
		r->is_bad = true;
		return 0;
	}
	for (unsigned i = 0; i < n; i++)
		bytes += p->of[i].len;
	memcpy(&value, bytes, p->of[n].size);
	/* No kernel of the table has a negative number; pointers have fewer bits. */
	if (p->of[n].size == 4 ? value >> 31 : value >> 63)
		r->is_bad = true;
	return value;
}

static double type_size(struct work_reader *r, unsigned n)
{
	unsigned size = item_size(r->targs, n);

	r->is_bad |= !size;
	return size;
}

/* The pointers of an element-wise kernel: the result, then the operands. */
static unsigned pointers(const struct work_reader *r, uint64_t of[8])
{
	const struct launch_params *p = r->l->params;
	const uint8_t *bytes = p->bytes;

	for (unsigned i = 0; i < p->cnt; bytes += p->of[i++].len) {
		if (i != 2)
			continue;
		if (p->of[i].len != p->of[i].size || p->of[i].size % 8 || p->of[i].size > 64)
			return 0;
		memcpy(of, bytes, p->of[i].size);
		return p->of[i].size / 8;
	}
	return 0;
}

struct operands {
	unsigned cnt, sizes[8]; /* as pointers() has them */
	unsigned bytes;		/* of all, where sizes are not set */
};

static struct operands same(struct part targs, unsigned n)
{
	struct operands o = {.cnt = n};

	for (unsigned i = 0; i < n; i++)
		o.sizes[i] = item_size(targs, 0);
	return o;
}

/* result: a template argument; the operands are the others. */
static struct operands args(struct part targs, unsigned result, const int of[2])
{
	struct operands o = {.cnt = 1, .sizes = {item_size(targs, result)}};

	for (unsigned i = 0; i < 2 && of[i] >= 0; i++)
		o.sizes[o.cnt++] = item_size(targs, of[i]);
	return o;
}

/* The last lambda of the name has the parameters; its result has the type of parameter n. */
static struct operands lambda(struct part f, unsigned n)
{
	static const char begin[] = "{lambda(";
	struct operands o = {.cnt = 1};
	struct part list = {0}, p;

	for (size_t i = 0; i + sizeof(begin) < f.len; i++)
		if (!memcmp(f.at + i, begin, sizeof(begin) - 1))
			list = (struct part){f.at + i + sizeof(begin) - 1,
					     f.len - i - sizeof(begin) + 1};
	while (o.cnt < 8 && item(list, o.cnt - 1, &p))
		o.sizes[o.cnt++] = scalar_size(&p);
	o.sizes[0] = item_size(list, n);
	return o;
}

static double functor(struct work_reader *r, unsigned n)
{
	struct part f, targs;
	const char *open;
	struct operands o = {0};
	uint64_t ptr[8];
	double bytes;

	r->is_bad = r->is_bad || !item(r->targs, n, &f);
	if (r->is_bad)
		return 0;
	f = base_of(f);
	open = memchr(f.at, '<', f.len);
	targs = open ? (struct part){open + 1, f.at + f.len - open - 1} : (struct part){0};
#define SAME(n)	       same(targs, n)
#define ARGS(a, b)     args(targs, b, (int[2]){a, -1})
#define ARGS3(a, b, c) args(targs, c, (int[2]){a, b})
#define LAMBDA(i)      lambda(f, i)
#define BYTES(n, k)    (struct operands){.cnt = n, .bytes = k}
#define FUNCTOR_WORK(name, operands)                                                               \
	if (!o.cnt && starts(&f, name))                                                            \
		o = operands;
#include "kernel_work.def"
	r->is_bad |= !o.cnt || pointers(r, ptr) != o.cnt;
	bytes = o.bytes;
	for (unsigned i = 0; !r->is_bad && !o.bytes && i < o.cnt; i++) {
		bool is_again = false;

		r->is_bad |= !o.sizes[i];
		/* x * x reads x once. */
		for (unsigned k = 1; k < i; k++)
			is_again |= ptr[k] == ptr[i];
		bytes += is_again ? 0 : o.sizes[i];
	}
	return bytes;
}

/* --- attention --- */

/*
 * The structure Flash_fwd_params of FlashAttention 2 (since 2.2: with 64-bit strides), as
 * PyTorch has it. Its layout is not documented, so the values must agree with each other, with the
 * grid and with the kernel's template arguments.
 */
struct flash {
	uint64_t qkv[3], strides[9];
	uint32_t heads, kv_heads, ratio;
	uint64_t o, o_accum, o_strides[3], p, lse, lse_accum;
	uint32_t batch, q_len, k_len, new_len, dim, q_rounded, k_rounded, dim_rounded;
};

static bool flash(const struct launch_info *l, struct part targs, struct kernel_work *w)
{
	const struct launch_params *p = l->params;
	struct part traits, inner, type, causal, local;
	unsigned long long q_block = 0, max_dim = 0;
	double pairs;
	struct flash f;

	if (p->cnt != 1 || p->of[0].len < sizeof(f) || !item(targs, 0, &traits) ||
	    !item(targs, 2, &causal) || !item(targs, 3, &local) || !part_is(&local, "false") ||
	    !memchr(traits.at, '<', traits.len))
		return false;
	inner.at = (const char *)memchr(traits.at, '<', traits.len) + 1;
	inner.len = traits.at + traits.len - inner.at;
	if (!item(inner, 6, &type))
		return false;
	if (part_is(&type, "cutlass::half_t"))
		w->type = PEAK_FP16;
	else if (part_is(&type, "cutlass::bfloat16_t"))
		w->type = PEAK_BF16;
	else
		return false;
	for (size_t i = 0; i < inner.len && inner.at[i] >= '0' && inner.at[i] <= '9'; i++)
		max_dim = 10 * max_dim + inner.at[i] - '0';
	if (!item(inner, 1, &type) || type.len > 4)
		return false;
	for (size_t i = 0; i < type.len && type.at[i] >= '0' && type.at[i] <= '9'; i++)
		q_block = 10 * q_block + type.at[i] - '0';
	memcpy(&f, p->bytes, sizeof(f));
	if (!f.batch || !f.heads || !f.kv_heads || !f.dim || !f.q_len || !f.k_len || !q_block ||
	    f.heads != (uint64_t)f.kv_heads * f.ratio || f.dim > f.dim_rounded ||
	    f.dim_rounded > max_dim || f.dim_rounded % 32 || f.q_rounded < f.q_len ||
	    f.k_rounded < f.k_len || f.q_rounded % 128 || f.k_rounded % 128 ||
	    l->grid[0] != (f.q_len + q_block - 1) / q_block || l->grid[1] != f.batch ||
	    l->grid[2] != f.heads)
		return false;
	pairs = (double)f.q_len * f.k_len;
	/* Query i sees the first k_len - q_len + i + 1 keys. */
	if (part_is(&causal, "true")) {
		double q = f.q_len < f.k_len ? f.q_len : f.k_len;

		pairs = q * f.k_len - q * (q - 1) / 2;
		if (f.q_len > f.k_len)
			pairs = (double)f.k_len * (f.k_len + 1.0) / 2;
	} else if (!part_is(&causal, "false")) {
		return false;
	}
	w->ops = 4 * pairs * f.dim * f.heads * f.batch;
	w->bytes = 2.0 * f.batch * f.dim * (2.0 * f.q_len * f.heads + 2.0 * f.k_len * f.kv_heads);
	return true;
}

/* --- all --- */

bool kernel_work_of(const struct launch_info *l, struct kernel_work *w)
{
	struct work_reader state = {.l = l}, *r = &state;
	struct part base;
	bool is_found = false;

	*w = (struct kernel_work){0};
	if (!l->kernel || !l->params || l->params->unknown || !l->has_config)
		return false;
	base = base_of((struct part){l->kernel, strlen(l->kernel)});
	r->targs.at = memchr(base.at, '<', base.len);
	if (!r->targs.at)
		return false;
	r->targs.at++;
	r->targs.len = base.at + base.len - r->targs.at;
	base.len = r->targs.at - 1 - base.at;
	if (part_is(&base, "flash_fwd_kernel"))
		return flash(l, r->targs, w);
#define P(i)	   parameter(r, i)
#define T(i)	   type_size(r, i)
#define GRID(i)	   ((double)l->grid[i])
#define FUNCTOR(i) functor(r, i)
#define HAS(text)  (strstr(l->kernel, text) != NULL)
#define KERNEL_WORK(name, when, work)                                                              \
	if (!is_found && part_is(&base, name)) {                                                   \
		is_found = true;                                                                   \
		r->is_bad |= !(when);                                                              \
		w->bytes = work;                                                                   \
	}
#include "kernel_work.def"
	return is_found && !r->is_bad && w->bytes > 0;
}

double product_bytes(const struct gemm_info *g, uint64_t a_cnt, uint64_t b_cnt)
{
	const char *type = g->a_type ?: g->b_type;
	double a = cuda_type_bits(type), b = cuda_type_bits(g->b_type ?: type);
	double c = cuda_type_bits(g->c_type);

	if (!a || !b || !c)
		return 0;
	return ((double)g->m * g->k * a * a_cnt + (double)g->k * g->n * b * b_cnt +
		(double)g->m * g->n * c * g->batch) /
	       8;
}
