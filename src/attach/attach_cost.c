/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Measures what one traced call costs on this machine, on a function of our own. */
#include "attach_priv.h"

#include "levels.h"

#include "util/log.h"

#include <bpf/bpf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 7
#define CALLS  300

/* Begins as driver 580's entry points do: an instruction that the kernel emulates. */
#if defined(__x86_64__)
__asm__(".text\n"
	".type cudatrace_stub, @function\n"
	".globl cudatrace_stub\n"
	"cudatrace_stub: push %rbp\n mov %rsp, %rbp\n xor %eax, %eax\n pop %rbp\n ret\n"
	".size cudatrace_stub, .-cudatrace_stub\n");
#else
__asm__(".text\n"
	".type cudatrace_stub, %function\n"
	".globl cudatrace_stub\n"
	"cudatrace_stub: nop\n mov x0, xzr\n ret\n"
	".size cudatrace_stub, .-cudatrace_stub\n");
#endif
extern int cudatrace_stub(long a, long b, long c, long d, long e, long f);

/* Where in our own executable an address is; 0 when that cannot be found. */
static uint64_t file_offset(uintptr_t addr)
{
	uint64_t start, end, off, found = 0;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");

	if (!f)
		return 0;
	while (!found && fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &off) == 3 &&
		    addr >= start && addr < end)
			found = addr - start + off;
	fclose(f);
	return found;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Median over rounds: one round may be interrupted. */
static double time_stub(void)
{
	double rounds[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t start = now_ns();

		for (int i = 0; i < CALLS; i++)
			cudatrace_stub(i, 1, 2, 3, 4, 5);
		rounds[r] = (double)(now_ns() - start) / CALLS;
	}
	qsort(rounds, ROUNDS, sizeof(rounds[0]), cmp_double);
	return rounds[ROUNDS / 2];
}

static double time_spec(struct attach *a, uint8_t flags, uint8_t level, double bare)
{
	struct ct_spec spec = {.word_cnt = 6, .flags = CT_SPEC_F_STUB | flags, .level = level};
	uint32_t id = ATTACH_STUB_FUNC;
	double probed;

	if (bpf_map__update_elem(a->skel->maps.specs, &id, sizeof(id), &spec, sizeof(spec),
				 BPF_ANY))
		return 0;
	probed = time_stub();
	return probed > bare ? probed - bare : 0;
}

static bool attach_stub(struct attach *a, struct probes *probes, bool no_return)
{
	uint64_t off = file_offset((uintptr_t)cudatrace_stub);
	uint64_t cookie = CT_COOKIE(ATTACH_STUB_FUNC, 0);
	struct probe_req req = {
		.path = "/proc/self/exe",
		.offs = &off,
		.cookies = &cookie,
		.cnt = 1,
		.no_return = no_return,
	};
	bool refused;

	memset(probes, 0, sizeof(*probes));
	return off && probes__attach(probes, a->mech, &a->progs, &req, &refused) == 1;
}

static void forget(void *ctx, const struct ct_count_key *key, const struct ct_count *c)
{
	(void)ctx, (void)key, (void)c;
}

void attach__measure_cost(struct attach *a, bool entries, struct attach_cost *cost)
{
	uint32_t tid = syscall(SYS_gettid);
	double bare = time_stub();
	struct probes probes;

	memset(cost, 0, sizeof(*cost));
	if (!attach_stub(a, &probes, false))
		return;
	cost->record = time_spec(a, 0, CT_LEVEL_TRACE, bare);
	cost->count = time_spec(a, 0, CT_LEVEL_COUNT, bare);
	/* A session's program asks for no return by itself. */
	if (entries && a->mech != MECH_SESSION) {
		probes__detach(&probes);
		entries = attach_stub(a, &probes, true);
	}
	if (entries) {
		cost->entry_record = time_spec(a, CT_SPEC_F_NO_RETURN, CT_LEVEL_TRACE, bare);
		cost->entry_count = time_spec(a, CT_SPEC_F_NO_RETURN, CT_LEVEL_COUNT, bare);
	}
	probes__detach(&probes);
	/* Our own calls are no part of the trace's accounts. */
	bpf_map_delete_elem(bpf_map__fd(a->skel->maps.threads), &tid);
	levels__take(a, getpid(), 0, forget, NULL);
	dbg("a call of our stub costs %.0f ns; traced %.0f ns more, counted %.0f, at its entry only "
	    "%.0f and %.0f",
	    bare, cost->record, cost->count, cost->entry_record, cost->entry_count);
}
