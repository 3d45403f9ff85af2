/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The verdict on a failure, in sentences. It names a cause as certain only if nothing else can be
 * it. */
#include "failure_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "decode/api_values.h"
#include "decode/cuda.h"
#include "decode/nv/nv_decode.h"
#include "decode/ops.h"
#include "model/call.h"
#include "text/numbers.h"

#define NAME_SZ 192

static void __attribute__((format(printf, 2, 3))) say(struct fail_case *c, const char *fmt, ...)
{
	size_t len = strlen(c->verdict);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->verdict + len, sizeof(c->verdict) - len, fmt, ap);
	va_end(ap);
}

static void advise(struct fail_case *c, const char *text)
{
	if (text)
		snprintf(c->advice, sizeof(c->advice), "%s", text);
}

static void fault_texts(int32_t result, const char **what, const char **advice)
{
	static const struct {
		int32_t result;
		const char *what, *advice;
	} rows[] = {
#define FAULT(result, of, what, advice) {CUDA_ERROR_##result, what, advice},
#include "faults.def"
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].result != result)
			continue;
		*what = rows[i].what;
		*advice = rows[i].advice;
	}
}

static void say_launched(struct fail_case *c, const struct work *x)
{
	char place[256];

	stack_place(x->stack, x->operator, x->kernel, place, sizeof(place));
	if (*place)
		say(c, ", launched by %s", place);
	if (x->has_config)
		say(c, ", grid %ux%ux%u", x->grid[0], x->grid[1], x->grid[2]);
	if (x->range)
		say(c, ", in range %.64s", x->range);
}

static bool runs_graph(const struct work *x)
{
	return op_does(x->fn->op, DOES_LAUNCH_GRAPH);
}

/* Whether the first of cnt suspects is the only one whose kernel had not completed before. */
static bool is_only_new(const struct fail_case *c, unsigned cnt)
{
	return cnt > 1 && c->listed_cnt > 1 && c->suspects[0].is_new && !c->suspects[1].is_new;
}

/* Whether the first of cnt suspects is the only new one that cannot have run before the trace. */
static bool is_only_found(const struct fail_case *c, unsigned cnt)
{
	return cnt > 1 && c->listed_cnt > 1 && c->suspects[1].is_new &&
	       c->suspects[1].may_be_older && !c->suspects[0].may_be_older;
}

#define ONLY_NEW   ", of which no earlier launch is known to have completed"
#define ONLY_FOUND ", the only one that the program looked up after the trace began"

/* Why the first of cnt suspects is the likely one; NULL: it is not. */
static const char *why_likely(const struct fail_case *c, unsigned cnt)
{
	return is_only_new(c, cnt) ? ONLY_NEW : is_only_found(c, cnt) ? ONLY_FOUND : NULL;
}

#define ONLY_LED ", the only one with a parameter that leads to the memory of the fault"

static void say_suspects(struct fail_case *c, const char *what)
{
	const char *why = c->linked ? ONLY_LED : why_likely(c, c->suspect_cnt);
	char name[NAME_SZ];
	size_t len;

	if (!c->listed_cnt) {
		say(c, "Work on the GPU %s; the trace does not have the launch", what);
		return;
	}
	submission_name(&c->suspects[0], name, sizeof(name));
	if (c->certain || c->suspect_cnt == 1) {
		say(c, "%s%s", c->certain && runs_graph(&c->suspects[0]) ? "A kernel of " : "",
		    name);
		len = strlen(c->verdict);
		say_launched(c, &c->suspects[0]);
		say(c, "%s %s%s", c->verdict[len] ? "," : "", c->certain ? "" : "probably ", what);
		return;
	}
	say(c, "One of %u submissions %s%s %s%s", c->suspect_cnt, what,
	    why ? ", most likely" : ": the first is", name, why ?: "");
	say_launched(c, &c->suspects[0]);
	for (unsigned i = 1; i < c->listed_cnt && i < 3; i++) {
		submission_name(&c->suspects[i], name, sizeof(name));
		say(c, "; %s %s", why ? "or" : "then", name);
	}
}

static void say_block(struct fail_case *c, const struct memory_block *b)
{
	char place[256];

	if (!b->call) {
		say(c, "a block of %s that was allocated before the trace began",
		    HUMAN_BYTES(b->size));
		return;
	}
	stack_place(b->stack, NULL, NULL, place, sizeof(place));
	say(c, "a block of %s of %s%s%s", HUMAN_BYTES(b->size), b->call, *place ? " in " : "",
	    place);
}

static void say_freed_block(struct fail_case *c, const struct freed_block *x)
{
	const struct work *first = c->listed_cnt ? &c->suspects[0] : NULL;
	char place[256];
	bool before = first && x->freed_ns < first->start_ns;
	uint64_t to = before ? first->start_ns : c->at_ns;

	stack_place(x->freed_stack, NULL, NULL, place, sizeof(place));
	say_block(c, &x->b);
	if (!x->freed_call) {
		say(c, ", which had been freed before the launch");
		return;
	}
	say(c, ", which %s freed%s%s %s before %s", x->freed_call, *place ? " in " : "", place,
	    HUMAN_TIME(to > x->freed_ns ? to - x->freed_ns : 0),
	    before ? "the launch" : "the error");
}

static void say_freed(struct fail_case *c)
{
	say(c, ". The address was in ");
	say_freed_block(c, &c->mem.block);
}

/* The parameter that leads to the memory of the fault. */
static void say_param(const struct failure *f, struct fail_case *c)
{
	const struct work *x = &c->suspects[0];
	const struct work_addr *a = &x->addrs[x->link_addr];
	const struct freed_block *freed;

	if (!c->linked)
		return;
	say(c, ". Parameter %u of the kernel", a->param + 1);
	if (a->at)
		say(c, ", at offset %u,", a->at);
	switch (x->link) {
	case LINK_NULL:
		say(c, " is a null pointer");
		break;
	case LINK_BLOCK:
		say(c, " (0x%llx) leads to that block", (unsigned long long)a->value);
		break;
	case LINK_FREED:
		freed = address_freed_by(f, c->pid, a->freed_id);
		say(c, " (0x%llx) leads to freed memory", (unsigned long long)a->value);
		if (freed) {
			say(c, ": ");
			say_freed_block(c, freed);
		}
		break;
	default:
		break;
	}
}

static void say_memory(struct fail_case *c)
{
	char bytes[CELL_SZ];

	human_bytes(bytes, c->mem.offset);
	switch (c->mem.state) {
	case MEMORY_NULL:
		say(c, ". The address is a null pointer with an offset");
		break;
	case MEMORY_FREED:
		say_freed(c);
		break;
	case MEMORY_PAST_END:
		say(c, ". The address is %s past the end of ", c->mem.offset ? bytes : "directly");
		say_block(c, &c->mem.block.b);
		break;
	case MEMORY_BEFORE:
		say(c, ". The address is %s before ", bytes);
		say_block(c, &c->mem.block.b);
		break;
	case MEMORY_LIVE:
		say(c, ". The address is in ");
		say_block(c, &c->mem.block.b);
		say(c,
		    ", which is live: this device or context has no access to it, or it is read-only");
		break;
	case MEMORY_NEVER:
		say(c, ". The process has no block of memory near the address");
		break;
	case MEMORY_UNKNOWN:
		break;
	}
}

static void say_xid(struct fail_case *c)
{
	const char *meaning = nv_xid_text(c->xid.number);

	say(c, ". Xid %u%s%s", c->xid.number, c->xid.gpu ? " of " : "",
	    c->xid.gpu ? c->xid.gpu : "");
	if (c->xid.has_address)
		say(c, ": %s at 0x%llx", *c->xid.access ? c->xid.access : "access",
		    (unsigned long long)c->xid.address);
	else if (meaning)
		say(c, ": %s", meaning);
	say_memory(c);
}

static const char *result_text(const struct fail_case *c)
{
	const char *name = fn_result_name(c->fn, c->result);

	return name ? name : "an error";
}

/* Calls that are shorter than --min-duration or lost may have launched more. */
static bool trace_is_whole(const struct report *r)
{
	return !report_is_incomplete(r) && !(r->end && r->end->stats[CT_STAT_FILTERED]);
}

static void fault_verdict(struct failure *f, struct fail_case *c)
{
	const char *what = "failed", *advice = NULL;

	fault_texts(c->result, &what, &advice);
	advise(c, advice);
	params_find(c);
	c->certain = c->suspect_cnt == 1 && !c->partial && trace_is_whole(f->r) &&
		     c->result != CUDA_ERROR_UNKNOWN &&
		     op_does(c->suspects[0].fn->op, DOES_LAUNCH | DOES_LAUNCH_GRAPH);
	say_suspects(c, what);
	say(c, ". %s returned %s", c->fn->name, result_text(c));
	if (c->has_xid)
		say_xid(c);
	say_param(f, c);
}

static bool is_memop(const struct work *x)
{
	return x->fn->op == OP_STREAM_MEMOP;
}

static bool is_host_function(const struct work *x)
{
	return x->fn->op == OP_LAUNCH_HOST || !strcmp(x->fn->name, "cuStreamAddCallback");
}

static bool is_collective(const struct work *x)
{
	return x->kernel && (strstr(x->kernel, "ncclDevKernel") || strstr(x->kernel, "ncclKernel"));
}

static const char *hang_advice(const struct work *x)
{
	if (is_memop(x))
		return "find the code that must write the value that the stream waits for";
	if (is_host_function(x))
		return "a host function must not call CUDA or wait for a thread that does";
	if (is_collective(x))
		return "find the rank that did not call this collective, or called another one: see the section communication";
	return "look for a loop in the kernel that waits for a value, and for the code that must write it";
}

static void say_head(struct fail_case *c)
{
	const struct work *x = &c->suspects[0];
	unsigned heads = c->suspect_cnt - c->behind;
	char name[NAME_SZ];

	submission_name(x, name, sizeof(name));
	if (heads > 1)
		say(c,
		    "The first work of each of %u streams that is not known to have completed: %s%s",
		    heads, name, why_likely(c, heads) ?: "");
	else if (is_host_function(x))
		say(c, "The host function of %s has %snot returned", name,
		    c->certain ? "" : "probably ");
	else if (is_memop(x))
		say(c, "The stream %swaits for a value in memory (%s)",
		    c->certain ? "" : "probably ", name);
	else
		say(c, "%s %s", name,
		    c->certain
			    ? "runs"
			    : "probably runs: it is the first that is not known to have completed");
	say_launched(c, x);
	for (unsigned i = 1; i < heads && i < c->listed_cnt && i < 3; i++) {
		submission_name(&c->suspects[i], name, sizeof(name));
		say(c, "; %s", name);
	}
	if (c->behind)
		say(c, "; %s later submission%s not known to have completed either",
		    HUMAN_COUNT(c->behind), noun(c->behind, " is", "s are"));
}

static void hang_verdict(struct failure *f, struct fail_case *c)
{
	char share[512];

	/* The first work may have completed unseen, and a later one run. */
	c->certain = c->suspect_cnt == 1 && !c->partial && trace_is_whole(f->r);
	say(c, "%s has not returned for %s", c->fn->name, HUMAN_TIME(c->waited_ns));
	if (c->listed_cnt) {
		say(c, ". ");
		say_head(c);
		advise(c, hang_advice(&c->suspects[0]));
	} else if (c->wait_event) {
		say(c, ". It waits for the event 0x%llx, which the trace has no record of",
		    (unsigned long long)c->wait_event);
		advise(c, "find the code that must record the event");
	} else {
		say(c, ". The trace has no work that it waits for");
		advise(c, "trace the program from its start, with launches");
	}
	gpu_share_residents(&f->gpu, c->pid, c->at_ns, c->at_ns + c->waited_ns, &c->residents);
	gpu_share_text(&c->load, &c->residents, share, sizeof(share));
	say(c, "%s", share);
}

static void say_holders(struct fail_case *c)
{
	char place[256];

	for (unsigned i = 0; i < c->holder_cnt && i < 3; i++) {
		const struct holder *h = &c->holders[i];

		stack_place(h->stack, NULL, NULL, place, sizeof(place));
		say(c, "%s %s in %s block%s of %s%s%s", i ? ";" : ":", HUMAN_BYTES(h->bytes),
		    HUMAN_COUNT(h->cnt), plural(h->cnt), h->call, *place ? " in " : "", place);
		if (h->cnt > 1)
			say(c, ", the largest %s", HUMAN_BYTES(h->largest));
	}
}

/* What changed, if the trace is older than that. */
static void say_recent(const struct failure *f, struct fail_case *c)
{
	if (report_since_begin(f->r, c->at_ns) < 60e9)
		return;
	if (c->recent == c->held && c->held_cnt) {
		say(c, ". It allocated all of this in the last minute");
		return;
	}
	if (c->recent)
		say(c, ". It allocated %s of this in the last minute", HUMAN_BYTES(c->recent));
	if (c->recent_freed)
		say(c, "%s %s of older memory%s", c->recent ? ", and freed" : ". It freed",
		    HUMAN_BYTES(c->recent_freed), c->recent ? "" : " in the last minute");
	if (!c->recent && !c->recent_freed && c->held_cnt)
		say(c, ". All of this is older than a minute");
}

static void say_torch(struct fail_case *c)
{
	if (!c->torch_reserved)
		return;
	say(c, ". PyTorch's allocator held %s and used %s of it", HUMAN_BYTES(c->torch_reserved),
	    HUMAN_BYTES(c->torch_allocated));
	if (c->torch_hole)
		say(c, ": the largest free part of a block that it used was %s",
		    HUMAN_BYTES(c->torch_hole));
}

static bool is_fragmented(const struct fail_case *c)
{
	return c->torch_reserved > c->torch_allocated &&
	       c->torch_reserved - c->torch_allocated >= c->requested && c->requested;
}

static void say_others(struct fail_case *c)
{
	if (!c->other_cnt)
		return;
	say(c, ". NVML showed %s in other processes before", HUMAN_BYTES(c->others_held));
	for (unsigned i = 0; i < c->other_cnt && i < 3; i++) {
		const struct gpu_user *x = &c->others[i];

		say(c, "%s ", i ? "," : ":");
		if (c->other_cnt > 1)
			say(c, "%s in ", HUMAN_BYTES(x->bytes));
		say(c, "process %u", x->pid);
		if (*x->comm)
			say(c, " (%s)", x->comm);
	}
}

static void oom_verdict(const struct failure *f, struct fail_case *c)
{
	if (c->requested)
		say(c, "%s requested %s, and the GPU had less free", c->fn->name,
		    HUMAN_BYTES(c->requested));
	else
		say(c, "%s ran out of memory", c->fn->name);
	if (c->held_cnt) {
		say(c, ". The process held %s in %s", HUMAN_BYTES(c->held),
		    HUMAN_NOUNS(c->held_cnt, "block"));
		say_holders(c);
	} else {
		say(c, ". The trace shows no memory held by the process");
	}
	say_recent(f, c);
	say_torch(c);
	if (c->growth.per_step)
		say(c,
		    ". It grew: %u of the latest %u steps left blocks that were still held, %s per step on average",
		    c->growth.left_steps, c->growth.steps, HUMAN_BYTES(c->growth.per_step));
	if (c->gpu_total && c->gpu_total != UINT64_MAX) {
		say(c, ". The GPU has %s", HUMAN_BYTES(c->gpu_total));
		if (c->gpu_used > c->held && !c->other_cnt)
			say(c, ", of which NVML showed %s more in use before",
			    HUMAN_BYTES(c->gpu_used - c->held));
		say_others(c);
		if (c->requested > c->gpu_total)
			advise(c,
			       "the request is larger than the memory of the GPU: check the size");
	}
	if (!*c->advice)
		advise(c,
		       c->growth.per_step
			       ? "find what keeps the memory that each step allocates: see the holders"
		       : is_fragmented(c)
			       ? "PyTorch's unused memory is in pieces: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
		       : c->others_held > c->held
			       ? "end the other processes on the GPU, or use another GPU"
		       : c->held_cnt
			       ? "free or reuse the memory of the largest holder, or request less"
			       : "see with nvidia-smi which processes hold the memory");
}

static void xid_verdict(struct fail_case *c)
{
	static const char *const who[] = {
		[BLAME_PROGRAM] = "usually a defect of the program",
		[BLAME_HARDWARE] = "the hardware is at fault, not the program",
		[BLAME_DRIVER] = "the driver or its firmware is at fault",
		[BLAME_OTHER] = "it follows from another error",
		[BLAME_UNKNOWN] = "see the kernel's log",
	};
	const char *meaning = nv_xid_text(c->xid.number);

	say(c, "Xid %u%s%s: %s: %s", c->xid.number, c->xid.gpu ? " of " : "",
	    c->xid.gpu ? c->xid.gpu : "", meaning ? meaning : "an error that the driver reported",
	    who[xid_blame(c->xid.number)]);
	if (c->cnt > 1)
		say(c, ", %llu times", (unsigned long long)c->cnt);
	say_memory(c);
	advise(c, xid_advice(c->xid.number));
}

void fail_verdict(struct failure *f, struct fail_case *c)
{
	switch (c->kind) {
	case CASE_FAULT:
		fault_verdict(f, c);
		/* The hardware's own message outweighs the kernel that met the damage. */
		if (c->has_xid && xid_blame(c->xid.number) == BLAME_HARDWARE) {
			c->certain = false;
			advise(c, xid_advice(c->xid.number));
		}
		break;
	case CASE_HANG:
		hang_verdict(f, c);
		break;
	case CASE_OOM:
		oom_verdict(f, c);
		break;
	case CASE_XID:
		xid_verdict(c);
		break;
	}
}
