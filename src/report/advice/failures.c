/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Failures: failed calls (model/failure.h), waits that do not end, Xids, failed processes.
 */
#include "failures.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "decode/cuda.h"
#include "decode/nv/nv_decode.h"
#include "model/failure.h"
#include "findings_priv.h"
#include "report/gpu/gpu_sums.h"
#include "report/layers/driver_calls.h"
#include "report/memory/memory.h"
#include "report/section.h"
#include "report/time/overview.h"
#include "report/time/wait.h"
#include "text/kernel_name.h"

#define FAILURES_MAX 64

struct failure {
	const char *kind; /* used in JSON */
	char text[512];
	size_t len;
	uint64_t cnt, at_ns;
	uint32_t pid; /* 0: no process */
};

struct failures {
	struct report *r;
	struct failure list[FAILURES_MAX];
	unsigned cnt, more; /* more: failures that did not fit into list */
};

static void __attribute__((format(printf, 2, 3))) say(struct failure *x, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(x->text + x->len, sizeof(x->text) - x->len, fmt, ap);
	va_end(ap);
	x->len = strlen(x->text);
}

static struct failure *add(struct failures *a, const char *kind, uint32_t pid, uint64_t cnt,
			   uint64_t at_ns)
{
	struct failure *x = &a->list[a->cnt];

	if (a->cnt == FAILURES_MAX) {
		a->more++;
		return NULL;
	}
	a->cnt++;
	*x = (struct failure){.kind = kind, .pid = pid, .cnt = cnt, .at_ns = at_ns};
	return x;
}

static void say_at(const struct failures *a, struct failure *x)
{
	say(x, " at %s", HUMAN_TIME(report_since_begin(a->r, x->at_ns)));
}

static void say_since(struct failure *x, const struct since_wait *s)
{
	const char *name;
	size_t len;

	for (unsigned i = 0; i < s->cnt; i++) {
		name = kernel_short_name(s->kernels[i], &len);
		say(x, "%s%.*s",
		    i ? ", " : ". Launched since the last wait: ", (int)(len < 80 ? len : 80),
		    name);
	}
	if (s->cnt && s->more)
		say(x, " and others");
}

static void say_error(struct failures *a, const struct find_error *e)
{
	const char *name = fn_result_name(e->fn, e->result), *meaning;
	struct memory_result m;
	struct failure *x;

	x = add(a, "error", e->pid, e->cnt, e->first_ns);
	if (!x)
		return;
	if (name)
		say(x, "%s: %s", e->fn->name, name);
	else
		say(x, "%s: error %d", e->fn->name, e->result);
	say(x, e->cnt > 1 ? ", %s times, first" : ",", HUMAN_COUNT(e->cnt));
	say_at(a, x);
	say(x, " in process %u%s%s%s", e->pid, e->comm ? " (" : "", e->comm ? e->comm : "",
	    e->comm ? ")" : "");
	meaning = fault_meaning(e->fn, e->result);
	if (meaning)
		say(x, ": %s", meaning);
	if (meaning)
		say_since(x, &e->since);
	if (name && !strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY")) {
		memory_result(a->r, &m);
		if (e->size)
			say(x, ", %s requested", HUMAN_BYTES(e->size));
		if (m.device_peak)
			say(x, "; at most %s were allocated at once", HUMAN_BYTES(m.device_peak));
	}
	if (e->ignored)
		say(x, "; the program continued");
}

/* With --no-args the findings analysis receives no errors. */
static void say_any_error(struct failures *a, const struct overview_error *e)
{
	const char *name;
	struct failure *x;

	if (!e->cnt)
		return;
	name = fn_result_name(e->fn, e->result);
	x = add(a, "error", 0, e->cnt, e->first_ns);
	if (!x)
		return;
	say(x, "%s: %s, %llu time%s, first", e->fn->name, name ? name : "an error",
	    (unsigned long long)e->cnt, plural(e->cnt));
	say_at(a, x);
}

static void say_errors(struct failures *a)
{
	const struct findings *f = a->r->an[AN_FINDINGS];
	struct overview_error e;

	for (unsigned i = 0; !a->r->args_redacted && i < f->error_cnt; i++)
		say_error(a, &f->errors[i]);
	for (unsigned i = 0; a->r->args_redacted && overview_error(a->r, i, &e); i++)
		say_any_error(a, &e);
}

static void say_hangs(struct failures *a)
{
	const struct findings *f = a->r->an[AN_FINDINGS];
	const struct since_wait *since;
	struct wait_result w;
	struct failure *x;

	for (unsigned i = 0; i < f->list_cnt; i++) {
		if (f->list[i].rule->severity != SEVERITY_HANG)
			continue;
		x = add(a, "hang", 0, 1, f->list[i].at_ns);
		if (!x)
			return;
		if (f->list[i].rule != &finding_rules[FINDING_never_returned]) {
			say(x, "%s: %s", f->list[i].rule->title, f->list[i].brief);
			continue;
		}
		wait_result(a->r, &w);
		x->pid = w.unfinished.pid;
		say(x, "%s has not returned for %s, in process %u", w.unfinished.fn->name,
		    HUMAN_TIME(w.unfinished.ns), w.unfinished.pid);
		since = findings_since_wait(a->r, w.unfinished.pid, w.unfinished.tid);
		if (since)
			say_since(x, since);
	}
}

static void say_xids(struct failures *a)
{
	struct driver_xid d;
	struct failure *x;

	for (unsigned i = 0; driver_xid(a->r, i, &d); i++) {
		x = add(a, "xid", 0, d.cnt, d.first_ns);
		if (!x)
			return;
		say(x, "Xid %u: %s%s%s, %llu time%s, first", d.number,
		    d.meaning ? d.meaning : "see the kernel's log", d.gpu ? ", " : "",
		    d.gpu ? d.gpu : "", (unsigned long long)d.cnt, plural(d.cnt));
		say_at(a, x);
	}
}

/* Xids from NVML, only if --kernel recorded none. */
static void say_nvml_xids(struct failures *a)
{
	struct driver_xid known;
	struct gpu_xids x;
	struct failure *f;

	if (driver_xid(a->r, 0, &known))
		return;
	for (unsigned i = 0; gpu_sums_xids(a->r->an[AN_GPU_STATS], i, &x); i++) {
		const char *meaning = nv_xid_text(x.last);

		if (!x.cnt)
			continue;
		f = add(a, "xid", 0, x.cnt, x.first_ns);
		if (!f)
			return;
		say(f, "Xid %llu: %s, GPU %llu, %llu time%s", (unsigned long long)x.last,
		    meaning ? meaning : "see the kernel's log", (unsigned long long)x.gpu,
		    (unsigned long long)x.cnt, plural(x.cnt));
	}
}

/* The status of a helper program that does not use CUDA (a shell, a compiler) is an answer. */
static void say_exits(struct failures *a)
{
	struct overview_exit e;
	struct failure *x;

	for (unsigned i = 0; overview_exit(a->r, i, &e); i++) {
		if (!e.exited || (!e.exit_code && !e.signal))
			continue;
		if (i && !e.signal && !e.call_cnt)
			continue;
		x = add(a, "exit", e.pid, 1, e.last_ns);
		if (!x)
			continue;
		say(x, "process %u%s%s%s", e.pid, e.comm ? " (" : "", e.comm ? e.comm : "",
		    e.comm ? ")" : "");
		if (e.signal)
			say(x, " was ended by signal %u (%s)", e.signal, strsignal(e.signal));
		else
			say(x, " ended with status %u", e.exit_code);
		say(x, ", at %s", HUMAN_TIME(report_since_begin(a->r, e.last_ns)));
	}
}

static void failures_finish(void *p)
{
	struct failures *a = p;

	say_errors(a);
	say_hangs(a);
	say_xids(a);
	say_nvml_xids(a);
	say_exits(a);
}

static unsigned failures_cnt(const struct report *r)
{
	const struct failures *a = r->an[AN_FAILURES];

	return a->cnt + a->more;
}

void failures_print_some(const struct report *r, const struct term *term, unsigned max)
{
	const struct failures *a = r->an[AN_FAILURES];
	unsigned cnt = failures_cnt(r);

	if (!cnt)
		return;
	term_section(term, "Failures", "%u", cnt);
	for (unsigned i = 0; i < a->cnt && i < max; i++)
		term_para(term, "%s", a->list[i].text);
	if (max && cnt > (max < a->cnt ? max : a->cnt))
		term_para(term, "and %u more", cnt - (max < a->cnt ? max : a->cnt));
}

static void failures_print(const void *p, const struct term *term)
{
	const struct failures *a = p;

	failures_print_some(a->r, term, FAILURES_MAX);
}

#define SECTION_STATE struct failures
#define SECTION_ROWS  "report/advice/failures.section"
#include "report/section_rows.h"

const struct analysis_ops failures_ops = {
	.name = "failures",
	.size = STATE_SIZE(struct failures),
	.finish = failures_finish,
	.section = &failures_table,
	.is_list = true,
	.print = failures_print,
};
