/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --stalls: why each kernel's warps waited, and at which instructions. A sample is one warp of a
 * busy multiprocessor, so a kernel's samples are also its time on multiprocessors, and the samples
 * of an instruction that waited, divided by those that issued, the length of its wait in cycles.
 */
#include "report/section.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/kernels/peak.h"
#include "stalls.h"
#include "stalls_priv.h"
#include "text/numbers.h"

#define PLACES_SHOWN 5
#define WORDS_SHOWN  10 /* kernels with a sentence */

struct stall_place {
	uint32_t kernel; /* its number */
	uint32_t line, for_line;
	uint64_t function, offset, for_offset;
	bool has_for;
	uint64_t samples, waiting, reasons[CT_STALL_CNT];
	const char *operation, *for_operation, *for_class, *file;
};

struct stalls {
	struct report *r;
	struct keys kernel_keys, place_keys, gpu_keys, device_keys;
	struct stall_kernel *kernels;
	struct stall_place *places;
	/* Time of each kernel on its device (--gpu-time). */
	struct stall_gpu {
		uint64_t ns;
	} * gpu;
	/* Peak rate of memory, by process and device number. */
	struct stall_device {
		double gbps;
	} * devices;
	unsigned kernel_cap, place_cap, gpu_cap, device_cap;
	struct stall_kernel **sorted;
	struct stall_place **sorted_places;
	unsigned sorted_cnt;
	uint64_t first_ns, last_ns, samples, period;
};

static const struct {
	const char *id, *words;
} reasons[] = {
#define STALL(ID, id, cupti, words) {#id, words},
#include "ct_stall.def"
};

static uint64_t kernel_key(const char *name, uint64_t function, uint32_t device)
{
	return pair_key(name ? (uintptr_t)name : function, device);
}

static struct stall_kernel *kernel_of(struct stalls *s, const struct trace_event *ev, uint32_t *i)
{
	*i = keys_row(&s->kernel_keys,
		      kernel_key(ev->stalls.kernel, ev->stalls.function, ev->stalls.device),
		      MEMLIMIT_KERNELS, s->kernels, s->kernel_cap);
	if (*i == KEYS_NONE)
		return NULL;
	s->kernels[*i].name = ev->stalls.kernel;
	s->kernels[*i].function = ev->stalls.function;
	s->kernels[*i].device = ev->stalls.device;
	s->kernels[*i].pid = ev->pid;
	return &s->kernels[*i];
}

static void add_reasons(uint64_t *to, const struct event_stalls *e)
{
#define STALL(ID, id, cupti, words)                                                                \
	if (e->id.known)                                                                           \
		to[CT_STALL_##ID] += e->id.v;
#include "ct_stall.def"
}

static void add_classes(uint64_t *to, const struct event_stalls *e)
{
#define CLASS(ID, id, words)                                                                       \
	if (e->for_##id.known)                                                                     \
		to[SASS_##ID] += e->for_##id.v;
#define OP(number, name, ID)
#include "decode/sass.def"
}

static unsigned reason_by_id(const char *id)
{
	unsigned i = 0;

	while (i < CT_STALL_CNT && (!id || strcmp(id, reasons[i].id)))
		i++;
	return i;
}

static void on_function(struct stalls *s, struct stall_kernel *k, const struct trace_event *ev)
{
	const struct event_stalls *e = &ev->stalls;
	unsigned reason = reason_by_id(e->reason);

	k->samples += e->samples;
	s->samples += e->samples;
	k->not_issued += e->not_issued;
	k->sm_cnt = e->multiprocessors ?: k->sm_cnt;
	k->arch = e->architecture ?: k->arch;
	k->code = e->code;
	k->period = e->period_cycles.known ? e->period_cycles.v : k->period;
	if (e->guarded.known) {
		k->decoded += e->samples;
		k->guarded += e->guarded.v;
		k->diverged += e->diverged.v;
		k->issued_memory += e->issued_memory.v;
		k->issued_multiply += e->issued_multiply.v;
		k->matrix += e->matrix.v;
	}
	s->period = e->period_cycles.known ? e->period_cycles.v : s->period;
	/* In thousandths of microseconds. */
	if (e->sm_us.known)
		k->sm_ns += e->sm_us.v;
	add_reasons(k->reasons, e);
	add_classes(k->classes, e);
	if (reason < CT_STALL_CNT) {
		k->waiting[reason] += e->waiting;
		k->issued[reason] += e->waiting_issued;
	}
	if (!s->first_ns || ev->start_ns < s->first_ns)
		s->first_ns = ev->start_ns;
	if (ev->end_ns > s->last_ns)
		s->last_ns = ev->end_ns;
}

static void on_place(struct stalls *s, uint32_t kernel, const struct event_stalls *e)
{
	uint32_t i = keys_row(&s->place_keys, pair_key(pair_key(kernel, e->function), e->offset),
			      MEMLIMIT_KERNELS, s->places, s->place_cap);
	struct stall_place *p;

	if (i == KEYS_NONE)
		return;
	p = &s->places[i];
	p->kernel = kernel;
	p->function = e->function;
	p->offset = e->offset;
	p->samples += e->samples;
	add_reasons(p->reasons, e);
	p->operation = e->operation;
	if (e->for_offset.known) {
		p->has_for = true;
		p->for_offset = e->for_offset.v;
		p->for_operation = e->for_operation;
		p->for_class = e->for_class;
	}
	p->file = e->file ?: p->file;
	p->line = e->line ?: p->line;
	p->for_line = e->for_line ?: p->for_line;
}

/* Lines of a device may come after those of its kernels. */
static void on_device(struct stalls *s, const struct trace_event *ev)
{
	uint32_t i = keys_row(&s->device_keys, pair_key(ev->pid, ev->gpu_device.device),
			      MEMLIMIT_KERNELS, s->devices, s->device_cap);
	bool is_listed;

	if (i != KEYS_NONE && ev->device)
		s->devices[i].gbps = peak_memory(ev->device, &is_listed);
}

static double gbps_of(struct stalls *s, const struct stall_kernel *k)
{
	uint32_t i = keys__find(&s->device_keys, pair_key(k->pid, k->device));

	return i == KEYS_NONE ? 0 : s->devices[i].gbps;
}

static void stalls_event(void *a, const struct trace_event *ev)
{
	struct stalls *s = a;
	struct stall_kernel *k;
	uint32_t i;

	if (ev->kind == EVENT_GPU && ev->op[0] == 'k' && ev->gpu.kernel) {
		i = keys_row(&s->gpu_keys, pair_key((uintptr_t)ev->gpu.kernel, ev->gpu.device),
			     MEMLIMIT_KERNELS, s->gpu, s->gpu_cap);
		if (i != KEYS_NONE)
			s->gpu[i].ns += event_duration_ns(ev);
		return;
	}
	if (ev->kind == EVENT_GPU_DEVICE)
		on_device(s, ev);
	if (ev->kind != EVENT_STALLS)
		return;
	k = kernel_of(s, ev, &i);
	if (!k)
		return;
	if (!strcmp(ev->op, "function"))
		on_function(s, k, ev);
	else
		on_place(s, i, &ev->stalls);
}

static int by_samples(const void *a, const void *b)
{
	const struct stall_kernel *x = *(const struct stall_kernel *const *)a;
	const struct stall_kernel *y = *(const struct stall_kernel *const *)b;

	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

/* By kernel; then those with most waits first. */
static int by_waits(const void *a, const void *b)
{
	const struct stall_place *x = *(const struct stall_place *const *)a;
	const struct stall_place *y = *(const struct stall_place *const *)b;

	if (x->kernel != y->kernel)
		return x->kernel < y->kernel ? -1 : 1;
	if (x->waiting != y->waiting)
		return x->waiting > y->waiting ? -1 : 1;
	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void sort_places(struct stalls *s)
{
	unsigned cnt = s->place_keys.cnt;

	s->sorted_places = malloc((cnt + 1) * sizeof(*s->sorted_places));
	if (!s->sorted_places)
		return;
	for (unsigned i = 0; i < cnt; i++) {
		struct stall_place *p = &s->places[i];

		p->waiting = p->samples - p->reasons[CT_STALL_SELECTED] -
			     p->reasons[CT_STALL_NOT_SELECTED];
		s->sorted_places[i] = p;
	}
	qsort(s->sorted_places, cnt, sizeof(*s->sorted_places), by_waits);
	for (unsigned i = 0; i < cnt; i++) {
		struct stall_kernel *k = &s->kernels[s->sorted_places[i]->kernel];

		if (!k->place_cnt++)
			k->place_at = i;
	}
}

static void stalls_finish(void *a)
{
	struct stalls *s = a;

	sort_places(s);
	s->sorted = malloc((s->kernel_keys.cnt + 1) * sizeof(*s->sorted));
	for (unsigned i = 0; s->sorted && i < s->kernel_keys.cnt; i++) {
		struct stall_kernel *k = &s->kernels[i];
		uint32_t at = keys__find(&s->gpu_keys, kernel_key(k->name, k->function, k->device));

		k->gpu_ns = k->name && at != KEYS_NONE ? s->gpu[at].ns : 0;
		k->gbps = gbps_of(s, k);
		k->launch = kernels_launched(s->r, k->name);
		stalls_diagnose(k);
		s->sorted[s->sorted_cnt++] = k;
	}
	if (s->sorted)
		qsort(s->sorted, s->sorted_cnt, sizeof(*s->sorted), by_samples);
}

static void stalls_free(void *a)
{
	struct stalls *s = a;

	keys__free(&s->kernel_keys);
	keys__free(&s->place_keys);
	keys__free(&s->gpu_keys);
	keys__free(&s->device_keys);
	memlimit_free(s->devices);
	memlimit_free(s->gpu);
	memlimit_free(s->kernels);
	memlimit_free(s->places);
	free(s->sorted);
	free(s->sorted_places);
	free(s);
}

/* --- values --- */

static bool is_enough(const struct stall_kernel *x)
{
	return x->samples >= ENOUGH;
}

/* The reason, of those that are waits, with most samples; CT_STALL_CNT: none. */
unsigned stalls_main(const uint64_t *of)
{
	unsigned best = CT_STALL_CNT;

	for (unsigned i = 0; i < CT_STALL_CNT; i++)
		if (i != CT_STALL_SELECTED && i != CT_STALL_NOT_SELECTED && of[i] &&
		    (best == CT_STALL_CNT || of[i] > of[best]))
			best = i;
	return best;
}

bool stalls_has_wait(const struct stall_kernel *x)
{
	unsigned i = stalls_main(x->reasons);

	return is_enough(x) && i < CT_STALL_CNT && x->issued[i] >= ENOUGH_ISSUED;
}

double stalls_wait_cycles(const struct stall_kernel *x)
{
	unsigned i = stalls_main(x->reasons);

	return i < CT_STALL_CNT ? ratio_of(x->waiting[i], x->issued[i]) : 0;
}

static unsigned main_class(const struct stall_kernel *x)
{
	unsigned best = 0;

	for (unsigned i = 1; i < SASS_CLASS_CNT; i++)
		if (x->classes[i] > x->classes[best])
			best = i;
	return x->classes[best] ? best : SASS_CLASS_CNT;
}

double stalls_issue_share(const struct stall_kernel *x)
{
	return 1 - ratio_of(x->not_issued, x->samples);
}

/* Of the time of all multiprocessors while samples were taken. */
static double sm_share(const struct stalls *s, const struct stall_kernel *x)
{
	double share = ratio_of(x->sm_ns, (double)(s->last_ns - s->first_ns) * x->sm_cnt);

	return share < 1 ? share : 1;
}

bool stalls_has_busy(const struct stall_kernel *x)
{
	return is_enough(x) && x->sm_ns && x->sm_cnt && x->gpu_ns;
}

double stalls_busy(const struct stall_kernel *x)
{
	double share = ratio_of(x->sm_ns, (double)x->gpu_ns * x->sm_cnt);

	return share < 1 ? share : 1;
}

static const char *name_of(const struct stall_kernel *x, char *buf)
{
	if (x->name)
		return x->name;
	snprintf(buf, SECTION_BUF, "[function 0x%llx]", (unsigned long long)x->function);
	return buf;
}

static const struct stall_place *place_at(const struct stalls *s, const struct stall_kernel *x,
					  unsigned i)
{
	if (!s->sorted_places || i >= x->place_cnt || i >= PLACES_SHOWN || !is_enough(x) ||
	    !s->sorted_places[x->place_at + i]->waiting)
		return NULL;
	return s->sorted_places[x->place_at + i];
}

/* "0x2d0 FADD, which waits for LDG at 0x270 (file.cu:12)" */
static int place_words(const struct stall_place *p, char *buf, size_t size)
{
	unsigned reason = stalls_main(p->reasons);
	int len;

	len = snprintf(buf, size, "0x%llx%s%s", (unsigned long long)p->offset,
		       p->operation ? " " : "", p->operation ?: "");
	if (p->has_for && p->for_offset != p->offset)
		len += snprintf(buf + len, size - len, ", which waits for %s%s0x%llx",
				p->for_operation ?: "", p->for_operation ? " at " : "",
				(unsigned long long)p->for_offset);
	else if (reason < CT_STALL_CNT)
		len += snprintf(buf + len, size - len, ", which waits for %s",
				reasons[reason].words);
	if (p->file)
		len += snprintf(buf + len, size - len, " (%.200s:%u)", p->file,
				p->for_line ?: p->line);
	return len;
}

static const char *why_words(const struct stalls *s, const struct stall_kernel *x, char *buf)
{
	const struct stall_place *p = place_at(s, x, 0);
	unsigned i = stalls_main(x->reasons);
	int len = 0;

	if (!is_enough(x))
		return "not enough samples";
	if (i < CT_STALL_CNT)
		len = snprintf(buf, SECTION_BUF, "%.0f %% wait for %s",
			       100 * ratio_of(x->reasons[i], x->samples), reasons[i].words);
	else
		len = snprintf(buf, SECTION_BUF, "no waits");
	if (p) {
		len += snprintf(buf + len, SECTION_BUF - len, "; most at ");
		place_words(p, buf + len, SECTION_BUF - len);
	}
	return buf;
}

/* "limited by bank conflicts of shared memory" */
static int limit_words(const struct stall_diagnosis *d, char *buf, size_t size)
{
	return snprintf(buf, size, "%s %s", d->is_limit ? "at its limit:" : "limited by", d->title);
}

bool stalls_limit(const struct report *r, const char *kernel, char *buf, size_t size)
{
	const struct stalls *s = r->an[AN_STALLS];

	for (unsigned i = 0; s && i < s->sorted_cnt; i++) {
		const struct stall_kernel *k = s->sorted[i];

		if (k->name != kernel || !k->diagnosis_cnt)
			continue;
		limit_words(&k->diagnoses[0], buf, size);
		return true;
	}
	return false;
}

/* "Limited by bank conflicts of shared memory: 97.8 % of the samples wait for ...; a wait takes 302
 * cycles. Let ..." */
static void print_diagnosis(const struct stall_diagnosis *d, const struct term *term)
{
	char words[SECTION_BUF], sign[256];
	int len = limit_words(d, words, sizeof(words));

	words[0] += 'A' - 'a';
	for (unsigned i = 0; i < d->sign_cnt; i++)
		len += snprintf(words + len, sizeof(words) - len, "%s %s", i ? ";" : ":",
				stalls_sign_words(&d->signs[i], sign, sizeof(sign)));
	term_para(term, "%s. %s.", words, d->advice);
}

static const uint64_t *reason_at(const struct stall_kernel *x, unsigned i)
{
	for (unsigned k = 0; k < CT_STALL_CNT; k++)
		if (x->reasons[k] && !i--)
			return &x->reasons[k];
	return NULL;
}

static const uint64_t *class_at(const struct stall_kernel *x, unsigned i)
{
	for (unsigned k = 0; k < SASS_CLASS_CNT; k++)
		if (x->classes[k] && !i--)
			return &x->classes[k];
	return NULL;
}

#define SECTION_STATE struct stalls
#define SECTION_ROWS  "report/gpu/stalls.section"
#include "report/section_rows.h"

static void stalls_print(const void *a, const struct term *term)
{
	const struct stalls *s = a;
	bool has_lines = false;

	if (!s->sorted_cnt)
		return;
	term_section(term, "Why kernels wait", "%s samples of warps", HUMAN_COUNT(s->samples));
	section_print(s->r, &stalls_table, s, s, "kernels", TABLE_ROWS, term);
	for (unsigned i = 0; i < s->sorted_cnt && i < WORDS_SHOWN; i++) {
		const struct stall_kernel *k = s->sorted[i];
		char name[SECTION_BUF], why[SECTION_BUF];

		term_para(term, "%.60s: %s", name_of(k, name), why_words(s, k, why));
		if (k->diagnosis_cnt)
			print_diagnosis(&k->diagnoses[0], term);
		else if (is_enough(k))
			term_para(term, "No known cause: its signs do not fit together.");
	}
	for (unsigned i = 0; i < s->place_keys.cnt && !has_lines; i++)
		has_lines = s->places[i].file;
	if (!has_lines)
		term_para(
			term,
			"No source lines: compile with nvcc -lineinfo to see them; offsets are in the "
			"kernel's machine code (cuobjdump -sass)");
	kernels_print_ncu(s->r, s->sorted[0]->name,
			  "For all counters of the first kernel, run Nsight Compute:", term);
}

const struct analysis_ops stalls_ops = {
	.name = "stalls",
	.size = STATE_SIZE(struct stalls),
	.event = stalls_event,
	.finish = stalls_finish,
	.section = &stalls_table,
	.print = stalls_print,
	.free = stalls_free,
};
