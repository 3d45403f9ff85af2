/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Idle periods as JSON and as text. */
#include "idle_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/advice/verdict.h"
#include "report/gpu/gpu.h"
#include "report/iter/iter.h"
#include "report/section.h"

static const char what[] =
	"a period from the return of a call after which all submitted work was known to be done, to the next "
	"call that submits work. This is a lower bound, because on the host the end of a kernel "
	"is visible only in a wait";

const char *idle_cause_name(enum idle_cause c)
{
	static const char *const names[IDLE_CAUSE_CNT] = {
		[IDLE_CPU] = "cpu work",     [IDLE_MODULE] = "module load",
		[IDLE_ALLOC] = "allocation", [IDLE_TRANSFER] = "transfer",
		[IDLE_CALL] = "other call",
	};

	return names[c];
}

/* "cuLibraryLoadData 81 %, no CUDA call 12 %": the largest parts of the period. */
static const char *describe(const struct idle_period *p, char *text, size_t size)
{
	uint64_t outside = p->dur_ns > p->cpu.call_ns ? p->dur_ns - p->cpu.call_ns : 0;
	bool used[IDLE_FNS] = {0}, printed_outside = false;
	size_t n = 0;

	snprintf(text, size, "outside CUDA calls");
	for (int round = 0; round < 3 && p->cpu.cnt && n < size; round++) {
		uint64_t most = printed_outside ? 0 : outside;
		const char *name = "outside CUDA calls";
		int at = -1;

		for (unsigned i = 0; i < p->cpu.cnt; i++) {
			if (used[i] || p->cpu.ns[i] <= most)
				continue;
			most = p->cpu.ns[i];
			at = (int)i;
		}
		if (!most)
			break;
		if (at >= 0) {
			used[at] = true;
			name = p->cpu.fns[at]->name;
		} else {
			printed_outside = true;
		}
		n += (size_t)snprintf(text + n, size - n, "%s%s %.0f %%", n ? ", " : "", name,
				      100 * ratio_of(most, p->dur_ns));
	}
	return text;
}

static const char *stream_text(char buf[SECTION_BUF], const struct idle_stream *x)
{
	snprintf(buf, SECTION_BUF, "0x%llx of process %u", (unsigned long long)x->handle, x->pid);
	return buf;
}

#define SECTION_STATE struct idle
#define SECTION_ROWS  "report/time/idle.section"
#include "report/section_rows.h"

void idle_print(const void *a, const struct term *term)
{
	const struct idle *d = a;
	struct gpu_idle steady;
	struct gpu_result gpu;
	char total[CELL_SZ], share[CELL_SZ];

	if (!d->res.span_ns)
		return;
	human_time(total, d->res.total_ns);
	human_share(share, d->res.total_ns, d->res.span_ns);
	gpu_result(d->r, &gpu);
	verdict_idle(d->r, &steady);
	if (gpu.executions) {
		/* Show only the measured time; it includes these periods. */
		human_time(total, steady.ns);
		human_share(share, steady.ns, steady.of_ns);
		if (steady.measured)
			term_section(term, "GPU idle", "%s of the steady state, %s, measured",
				     share, total);
		else
			term_section(term, "GPU idle", "measured: see the section gpu");
		if (d->list_cnt)
			term_para(term,
				  "The longest idle periods that follow from the host's calls:");
		section_print(d->r, &idle_table, d, d, "list", 0, term);
		return;
	}
	if (verdict_not_recorded(d->r)) {
		term_section(term, "GPU idle", "not known: %s", verdict_not_recorded(d->r));
		return;
	}
	term_section(term, "GPU idle",
		     "at least %s in %s, %s of the %s between the first work and the last", total,
		     HUMAN_NOUNS(d->res.count, "period"), share, HUMAN_TIME(d->res.span_ns));
	term_para(term, "Idle is %s.", what);
	if (d->res.in_iter_cnt) {
		term_para(term, "Within rounds of iterations: %s in %s.",
			  HUMAN_TIME(d->res.in_iter_ns), HUMAN_NOUNS(d->res.in_iter_cnt, "period"));
	}
	section_print(d->r, &idle_table, d, d, "list", 0, term);
	section_print(d->r, &idle_table, d, d, "streams", 4, term);
}
