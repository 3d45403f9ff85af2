/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What limits a kernel, by the rows of diagnoses.def. */
#include <stdio.h>
#include <string.h>

#include "stalls_priv.h"
#include "text/numbers.h"

/* Of a multiprocessor, sm_70 to sm_121. One of them is sampled at a time. */
#define SCHEDULERS 4
/* Machine code is sent once: samples of the first interval may come before it. */
#define CODE_SHARE 0.9

static bool has_code(const struct stall_kernel *x)
{
	return x->decoded >= CODE_SHARE * x->samples;
}

/* Of two neighboring classes, or of one. */
static double of_classes(const struct stall_kernel *x, enum sass_class a, enum sass_class b)
{
	return ratio_of(x->classes[a] + (a == b ? 0 : x->classes[b]), x->samples);
}

static double of_reasons(const struct stall_kernel *x, unsigned a, unsigned b)
{
	return ratio_of(x->reasons[a] + (a == b ? 0 : x->reasons[b]), x->samples);
}

/* Only then is the length of a wait that of these reasons. */
static bool waits_mainly(const struct stall_kernel *x, unsigned a, unsigned b)
{
	unsigned reason = stalls_main(x->reasons);

	return reason == a || reason == b;
}

/* The longest waits have the fewest samples that issued: then as if there had been ENOUGH_ISSUED.
 */
static double least_wait(const struct stall_kernel *x)
{
	uint64_t issued = x->issued[stalls_main(x->reasons)];

	return ratio_of(x->waiting[stalls_main(x->reasons)],
			issued > ENOUGH_ISSUED ? issued : ENOUGH_ISSUED);
}

static double warps(const struct stall_kernel *x)
{
	return ratio_of(stalls_issue_share(x) * x->samples, x->reasons[CT_STALL_SELECTED]);
}

/* Words in the names of kernels that tensor cores can do. */
static const char *const products[] = {"gemm",	 "matmul", "addmm",	"bmm",	"_mm_", "convol",
				       "conv2d", "conv3d", "attention", "attn", "fmha"};

static unsigned product_words(const struct stall_kernel *x)
{
	unsigned cnt = 0;

	for (unsigned i = 0; x->name && i < sizeof(products) / sizeof(products[0]); i++)
		cnt += strcasestr(x->name, products[i]) != NULL;
	return cnt;
}

bool stalls_has_accesses(const struct stall_kernel *x)
{
	return has_code(x) && x->gbps && x->sm_cnt && x->sm_ns && x->period && x->samples &&
	       x->issued_memory >= ENOUGH_ISSUED;
}

double stalls_access_bytes(const struct stall_kernel *x)
{
	double cycle_ns = x->sm_ns / ((double)x->samples * x->period);
	double bytes_per_cycle = x->gbps / x->sm_cnt * cycle_ns;
	double issued = ratio_of(x->issued_memory, x->reasons[CT_STALL_SELECTED]);

	return ratio_of(bytes_per_cycle, issued * stalls_issue_share(x) * SCHEDULERS);
}

/* --- signs --- */

enum unit { SHARE, COUNT, NUMBER, WAIT };

enum sign {
	NO_SIGN,
#define SIGN(id, unit, value, known, words) SIGN_##id,
#define DIAGNOSIS(id, kind, title, first, second, third, advice)
#include "diagnoses.def"
};

static const struct {
	const char *id, *words;
	enum unit unit;
} signs[] = {
	[NO_SIGN] = {NULL, NULL, SHARE},
#define SIGN(id, unit, value, known, words) [SIGN_##id] = {#id, words, unit},
#define DIAGNOSIS(id, kind, title, first, second, third, advice)
#include "diagnoses.def"
};

/* Returns whether the value of the sign is known. */
static bool value_of(const struct stall_kernel *x, enum sign sign, double *value)
{
	switch (sign) {
#define SIGN(id, unit, what, known, words)                                                         \
	case SIGN_##id:                                                                            \
		if (!(known))                                                                      \
			return false;                                                              \
		*value = what;                                                                     \
		return true;
#define DIAGNOSIS(id, kind, title, first, second, third, advice)
#include "diagnoses.def"
	default:
		return false;
	}
}

const char *stalls_sign_words(const struct stall_sign *sign, char *buf, size_t size)
{
	char value[CELL_SZ];
	const char *words, *at, *least = sign->is_least ? "at least " : "";
	unsigned i = 1;

	while (strcmp(signs[i].id, sign->id) != 0)
		i++;
	if (signs[i].unit == SHARE)
		human_share(value, sign->value, 1);
	else if (signs[i].unit == COUNT || signs[i].unit == WAIT)
		human_count(value, sign->value + 0.5);
	else
		snprintf(value, sizeof(value), "%.2g", sign->value);
	words = signs[i].words;
	at = strstr(words, "{v}");
	snprintf(buf, size, "%.*s%s%s%s", (int)(at - words), words, least, value,
		 at + strlen("{v}"));
	return buf;
}

/* --- diagnoses --- */

struct bound {
	enum sign sign;
	bool is_max;
	double bound;
};
#define NONE                                                                                       \
	{                                                                                          \
		NO_SIGN, false, 0                                                                  \
	}
#define MIN(sign, bound)                                                                           \
	{                                                                                          \
		SIGN_##sign, false, bound                                                          \
	}
#define MAX(sign, bound)                                                                           \
	{                                                                                          \
		SIGN_##sign, true, bound                                                           \
	}

static const struct {
	const char *id, *title, *advice;
	bool is_limit;
	struct bound bounds[SIGNS_MAX];
} rows[] = {
#define PROBLEM false
#define LIMIT	true
#define SIGN(id, unit, value, known, words)
#define DIAGNOSIS(id, kind, title, first, second, third, advice)                                   \
	{#id, title, advice, kind, {first, second, third}},
#include "diagnoses.def"
};

static bool applies(const struct stall_kernel *x, const struct bound *bounds,
		    struct stall_diagnosis *d)
{
	for (unsigned i = 0; i < SIGNS_MAX && bounds[i].sign; i++) {
		const struct bound *b = &bounds[i];
		double value;

		if (!value_of(x, b->sign, &value) ||
		    (b->is_max ? value > b->bound : value < b->bound))
			return false;
		d->signs[d->sign_cnt++] =
			(struct stall_sign){signs[b->sign].id, value, b->bound, b->is_max,
					    signs[b->sign].unit == WAIT && !stalls_has_wait(x)};
	}
	return true;
}

/* The part of the GPU's time that it is about: samples are of busy multiprocessors only, and what
 * they lack in use is the rest. */
static double weight(const struct stall_kernel *x, const struct stall_diagnosis *d)
{
	if (d->signs[0].is_max)
		return 1 - d->signs[0].value;
	return d->signs[0].value * (stalls_has_busy(x) ? stalls_busy(x) : 1);
}

/* A kernel is at a limit only as far as it has no problem. */
static bool is_before(const struct stall_kernel *x, const struct stall_diagnosis *a,
		      const struct stall_diagnosis *b)
{
	return a->is_limit != b->is_limit ? b->is_limit : weight(x, a) > weight(x, b);
}

void stalls_diagnose(struct stall_kernel *x)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stall_diagnosis d = {
			.id = rows[i].id,
			.title = rows[i].title,
			.advice = rows[i].advice,
			.is_limit = rows[i].is_limit,
		};
		unsigned at = x->diagnosis_cnt;

		if (x->samples < ENOUGH || !applies(x, rows[i].bounds, &d))
			continue;
		while (at && is_before(x, &d, &x->diagnoses[at - 1]))
			at--;
		if (at == DIAGNOSES_MAX)
			continue;
		x->diagnosis_cnt += x->diagnosis_cnt < DIAGNOSES_MAX;
		memmove(&x->diagnoses[at + 1], &x->diagnoses[at],
			(x->diagnosis_cnt - 1 - at) * sizeof(d));
		x->diagnoses[at] = d;
	}
}
