/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Measures the overhead of one traced call on this machine, with functions of our own. */
#include "attach_priv.h"

#include "levels.h"

#include "util/clock.h"
#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 5
#define CALLS  100
/* Each call takes 10 us. */
#define CALLS_STEPPED 15
/* Number of timed calls, each after other work; the second: after half a millisecond of it. */
#define AWAY_CALLS	60
#define AWAY_CALLS_COLD 10
/* The second cache level is emptied by touching this many times its size. With twice as much, or
 * less, part of the kernel's code stays cached. The overhead of programs that compute between calls
 * is then underestimated (GPT-2 on a processor with 2 MB: 0.66 of it). */
#define COLD_TIMES  4
#define COLD_SZ_MIN (4u << 20)
#define COLD_SZ_MAX (16u << 20)

#ifndef MFD_EXEC /* Linux 6.3 */
#define MFD_EXEC 0x0010U
#endif

/*
 * Two equivalent functions. One begins as driver 580's entry points do, with an instruction that
 * the kernel emulates; the other with one that it single-steps.
 */
#if defined(__x86_64__)
#define FIRST "push %rbp\n mov %rsp, %rbp\n pop %rbp\n"
#define REST  "xor %eax, %eax\n ret\n"
#define JUMP  "jmp "
#else
#define FIRST "nop\n"
#define REST  "mov x0, xzr\n ret\n"
#define JUMP  "b "
#endif
__asm__(".text\n"
	".type cudatrace_stub, %function\n"
	".globl cudatrace_stub\n"
	"cudatrace_stub: " FIRST REST ".size cudatrace_stub, .-cudatrace_stub\n"
	".type cudatrace_stub_stepped, %function\n"
	".globl cudatrace_stub_stepped\n"
	"cudatrace_stub_stepped: " REST ".size cudatrace_stub_stepped, .-cudatrace_stub_stepped\n"
	"cudatrace_stubs_end:\n");
typedef int stub_fn(long a, long b, long c, long d, long e, long f);
extern stub_fn cudatrace_stub, cudatrace_stub_stepped;
extern const char cudatrace_stubs_end[];

/*
 * Models a program's work between calls: a first-level cache of instructions, line by line, out of
 * order to defeat prefetching. A traced call evicts lines of the program, which then waits for
 * them.
 */
#define WORK_LINES	 512
#define WORK_STEP	 181 /* odd: visits every line */
#define STR(x)		 #x
#define SET(name, value) ".set " #name ", " STR(value) "\n"
#define WORK_SETS	 SET(lines, WORK_LINES) SET(step, WORK_STEP) SET(next, WORK_STEP)
#define WORK_LINE	 JUMP "cudatrace_work + 64 * next\n"
__asm__(WORK_SETS ".text\n"
		  ".p2align 6\n"
		  ".type cudatrace_work, %function\n"
		  ".globl cudatrace_work\n"
		  "cudatrace_work:\n"
		  ".rept lines\n"
		  ".p2align 6\n"
		  ".if next\n" WORK_LINE ".else\n"
		  "ret\n"
		  ".endif\n"
		  ".set next, (next + 1) & (lines - 1)\n"
		  ".endr\n"
		  ".size cudatrace_work, .-cudatrace_work\n");
extern void cudatrace_work(void);

/* Where the stubs are called and probed; fd -1: unknown. */
static struct {
	int fd;
	stub_fn *plain, *stepped;
	uint64_t offs[2];
} stubs = {.fd = -1};

/* Returns the file offset of an address in our executable, or 0 if not found. */
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

/*
 * Copies the stubs to a file that only this process has. The kernel keeps one list of probes per
 * file offset, and walks all of it for each process. In our executable, other tracers that start
 * meanwhile would add to the overhead.
 */
static bool copy_stubs(void)
{
	const char *start = (const char *)(uintptr_t)cudatrace_stub;
	size_t size = cudatrace_stubs_end - start;
	uintptr_t stepped = (uintptr_t)cudatrace_stub_stepped - (uintptr_t)start;
	int fd = memfd_create("cudatrace-stubs", MFD_CLOEXEC | MFD_EXEC);
	void *mem = MAP_FAILED;

	/* Kernels before 6.3 do not support MFD_EXEC, and do not need it. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("cudatrace-stubs", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, start, size) == (ssize_t)size)
		mem = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (mem == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	stubs.fd = fd;
	stubs.plain = (stub_fn *)mem;
	stubs.stepped = (stub_fn *)((char *)mem + stepped);
	stubs.offs[1] = stepped;
	return true;
}

/* If memory files may not be executed, the stubs in our executable are probed. */
static bool place_stubs(void)
{
	if (stubs.fd >= 0 || copy_stubs())
		return true;
	stubs.plain = cudatrace_stub;
	stubs.stepped = cudatrace_stub_stepped;
	stubs.offs[0] = file_offset((uintptr_t)cudatrace_stub);
	stubs.offs[1] = file_offset((uintptr_t)cudatrace_stub_stepped);
	/* O_PATH: it need not be readable. */
	if (stubs.offs[0] && stubs.offs[1])
		stubs.fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	return stubs.fd >= 0;
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *rounds)
{
	qsort(rounds, ROUNDS, sizeof(rounds[0]), cmp_double);
	return rounds[ROUNDS / 2];
}

/* Always calls through the pointer: valgrind has already translated the code when the probe is
 * inserted. */
static double time_stub(stub_fn *fn)
{
	unsigned calls = fn == stubs.plain ? CALLS : CALLS_STEPPED;
	stub_fn *volatile stub = fn; /* volatile, for inlining */
	/* CPU time of this thread only, to exclude other threads. */
	uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	for (unsigned i = 0; i < calls; i++)
		stub(i, 1, 2, 3, 4, 5);
	return (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / calls;
}

/* Models a program's work between calls. */
struct work {
	volatile char *memory; /* NULL: none */
	size_t size;	       /* bytes touched to empty the second level */
};

/* Uses small pages, to evict their translations, too. */
static struct work work_begin(void)
{
	long level2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
	struct work w = {.size = level2 > 0 ? (size_t)level2 * COLD_TIMES : 0};
	void *p;

	if (w.size < COLD_SZ_MIN)
		w.size = COLD_SZ_MIN;
	if (w.size > COLD_SZ_MAX)
		w.size = COLD_SZ_MAX;
	p = mmap(NULL, w.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return w;
	madvise(p, w.size, MADV_NOHUGEPAGE);
	w.memory = p;
	return w;
}

static void work_end(const struct work *w)
{
	if (w->memory)
		munmap((void *)(uintptr_t)w->memory, w->size);
}

static void empty_second(const struct work *w)
{
	for (size_t at = 0; at < w->size; at += 64)
		w->memory[at]++;
}

static void fill_first(const struct work *w)
{
	cudatrace_work();
	for (unsigned i = 0; i < WORK_LINES; i++)
		w->memory[i * WORK_STEP % WORK_LINES * 64]++;
}

/* Times work, or a call and then work, with data only in caches from this level on. */
static double work_once(const struct work *w, int level, stub_fn *stub)
{
	struct timespec start, end;

	if (level)
		empty_second(w);
	fill_first(w);
	fill_first(w);
	/* Bring the clock's code into the caches. */
	clock_gettime(CLOCK_MONOTONIC, &end);
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (stub)
		stub(0, 1, 2, 3, 4, 5);
	fill_first(w);
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (end.tv_sec - start.tv_sec) * 1e9 + end.tv_nsec - start.tv_nsec;
}

/* Returns the mean without the slowest fifth, which may have been disturbed. */
static double mean_of_most(double *each, unsigned cnt)
{
	double sum = 0;

	qsort(each, cnt, sizeof(each[0]), cmp_double);
	cnt -= cnt / 5;
	for (unsigned i = 0; i < cnt; i++)
		sum += each[i];
	return sum / cnt;
}

/* Returns the overhead of a call in such a program. */
static double time_away(const struct work *w, int level)
{
	stub_fn *volatile stub = stubs.plain; /* as in time_stub() */
	double with[AWAY_CALLS], without[AWAY_CALLS];
	unsigned cnt = level ? AWAY_CALLS_COLD : AWAY_CALLS;

	for (unsigned i = 0; i < cnt; i++) {
		with[i] = work_once(w, level, stub);
		without[i] = work_once(w, level, NULL);
	}
	return mean_of_most(with, cnt) - mean_of_most(without, cnt);
}

double syscall__time(void)
{
	double rounds[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		for (int i = 0; i < CALLS; i++)
			syscall(SYS_getppid);
		rounds[r] = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / CALLS;
	}
	return median(rounds);
}

/* Sets how many calls the programs skip per timed one (half of that on average); 0: each call is
 * timed. */
static void time_every(struct attach *a, uint32_t skip)
{
	a->skel->bss->cost_cfg.skip_mask = skip ? skip - 1 : 0;
	for (int i = 0; i < CT_CPUS; i++) {
		__atomic_store_n(&a->skel->bss->cpus[i].left, skip ? skip / 2 : 1,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&a->skel->bss->cpus[i].kernel_left, skip ? skip / 2 : 1,
				 __ATOMIC_RELAXED);
	}
}

/* Returns the programs' own time for a call. found: ct_cost_cfg.found_ns, or NULL. */
static double time_programs(struct attach *a, stub_fn *stub, const struct work *w, int level,
			    double *found)
{
	struct ct_fn_cost before, after;
	uint64_t ns, timed;

	attach__fn_cost(a, ATTACH_STUB_FUNC, &before);
	time_every(a, 0);
	if (w)
		time_away(w, level);
	else
		time_stub(stub);
	time_every(a, UINT32_MAX);
	attach__fn_cost(a, ATTACH_STUB_FUNC, &after);
	ns = after.ns[0] + after.ns[1] - before.ns[0] - before.ns[1];
	timed = after.timed[0] + after.timed[1] - before.timed[0] - before.timed[1];
	if (found)
		*found = timed ? (double)(after.found_ns - before.found_ns) / timed : 0;
	return timed ? (double)ns / timed : 0;
}

/* Returns the overhead of a call, and in *base the part that the programs cannot measure. Uses
 * medians, because a round may be disturbed. */
static double time_spec(struct attach *a, stub_fn *stub, uint8_t flags, uint8_t level, double bare,
			uint32_t *base)
{
	struct ct_spec spec = {.word_cnt = 6, .flags = CT_SPEC_F_STUB | flags, .level = level};
	double all[ROUNDS], outside[ROUNDS], left;
	uint32_t id = ATTACH_STUB_FUNC;

	if (bpf_map__update_elem(a->skel->maps.specs, &id, sizeof(id), &spec, sizeof(spec),
				 BPF_ANY))
		return 0;
	for (int r = 0; r < ROUNDS; r++) {
		all[r] = time_stub(stub) - bare;
		if (base)
			outside[r] = all[r] - time_programs(a, stub, NULL, 0, NULL);
	}
	if (base) {
		left = median(outside);
		*base = left > 0 ? left : 0;
	}
	left = median(all);
	return left > 0 ? left : 0;
}

/* Call before any probes exist. */
static void time_bare(struct attach *a)
{
	struct work w = work_begin();

	a->bare_ns[0] = time_stub(stubs.plain);
	a->bare_ns[1] = time_stub(stubs.stepped);
	for (int i = 0; i < CT_COST_LEVELS && w.memory; i++)
		a->bare_away_ns[i] = time_away(&w, i);
	work_end(&w);
}

/* Not a library's owner id. */
#define STUB_OWNER 0

/* Detaches also on -EINPROGRESS. */
static int attach_stubs(struct attach *a, const struct links_req *req)
{
	static struct links_answer answer;
	int ret = links__attach(&a->links, req, &answer);

	if (!ret)
		ret = answer.ret;
	a->has_stubs = ret == (int)req->cnt;
	if (a->has_stubs)
		return 0;
	links__close(&a->links, STUB_OWNER);
	/* The instructions are valid, so the mechanism failed. */
	return ret < 0 ? ret : -EOPNOTSUPP;
}

int stubs__attach(struct attach *a, bool entry_only)
{
	uint64_t cookie = CT_COOKIE(ATTACH_STUB_FUNC, 0, 0) | (entry_only ? CT_COOKIE_F_ENTRY : 0);
	uint64_t cookies[] = {cookie, cookie};
	struct links_req req = {
		.owner = STUB_OWNER,
		.mech = a->mech,
		.progs = a->progs,
		.offs = stubs.offs,
		.cookies = cookies,
		.cnt = 2,
		.group_cnt =
			{[LINKS_RETURN] = entry_only ? 0 : 2, [LINKS_ENTRY] = entry_only ? 2 : 0},
		/* Only in this process: other processes that run our executable must not find a
		 * breakpoint in it. valgrind treats it as the program's code. */
		.pid = getpid(),
	};

	if (!place_stubs())
		return 0;
	req.file_fd = stubs.fd;
	if (!a->bare_ns[0])
		time_bare(a);
	return attach_stubs(a, &req);
}

static void forget(void *ctx, const struct ct_count_key *key, const struct ct_count *c)
{
}

void attach__fn_cost(struct attach *a, uint32_t func_id, struct ct_fn_cost *sum)
{
	int cpus = a ? libbpf_num_possible_cpus() : 0;
	struct ct_fn_cost *each = cpus > 0 ? calloc(cpus, sizeof(*each)) : NULL;

	memset(sum, 0, sizeof(*sum));
	if (each && !bpf_map_lookup_elem(bpf_map__fd(a->skel->maps.fn_costs), &func_id, each))
		for (int i = 0; i < cpus; i++) {
			sum->found_ns += each[i].found_ns;
			for (int k = 0; k < 2; k++) {
				sum->ns[k] += each[i].ns[k];
				sum->timed[k] += each[i].timed[k];
			}
		}
	free(each);
}

/* Measures ct_cost_cfg.away_ns and its reference times. Each level takes longer than the previous
 * one, or is unknown. */
static void measure_away(struct attach *a, const struct work *w, struct ct_cost_cfg *cfg)
{
	double warm, found, outside, more = 0, ns = 0;
	uint32_t base = cfg->base_ns[CT_COST_PAIR];

	time_programs(a, stubs.plain, NULL, 0, &warm);
	cfg->found_ns = warm;
	for (int i = 0; i < CT_COST_LEVELS && base; i++) {
		outside = time_away(w, i) - a->bare_away_ns[i];
		outside -= time_programs(a, stubs.plain, w, i, &found);
		if (found - warm < more + 1 || outside - base < ns)
			continue;
		cfg->found_more_ns[i] = more = found - warm;
		cfg->away_ns[i][CT_COST_PAIR] = ns = outside - base;
	}
}

/* Estimates entry-only overhead if it was not measured. */
static void complete(struct ct_cost_cfg *cfg)
{
	uint32_t *base = cfg->base_ns;

	if (!base[CT_COST_ENTRY]) {
		base[CT_COST_ENTRY] = base[CT_COST_PAIR];
		base[CT_COST_ENTRY + CT_COST_STEPPED] = base[CT_COST_STEPPED];
	}
	/* It was too disturbed to measure, but cannot be less. */
	for (int i = CT_COST_PAIR; i <= CT_COST_ENTRY; i++)
		if (base[CT_COST_STEPPED + i] < base[i])
			base[CT_COST_STEPPED + i] = base[i];
	for (int i = 0; i < CT_COST_LEVELS && base[CT_COST_PAIR]; i++)
		cfg->away_ns[i][CT_COST_ENTRY] = (double)cfg->away_ns[i][CT_COST_PAIR] *
						 base[CT_COST_ENTRY] / base[CT_COST_PAIR];
}

static void measure_pairs(struct attach *a, const double *bare, struct attach_cost *cost,
			  struct ct_cost_cfg *cfg, const struct work *w)
{
	uint32_t *base = cfg->base_ns;

	cost->record = time_spec(a, stubs.plain, 0, CT_LEVEL_TRACE, bare[0], base);
	measure_away(a, w, cfg);
	cost->count = time_spec(a, stubs.plain, 0, CT_LEVEL_COUNT, bare[0], NULL);
	time_spec(a, stubs.stepped, 0, CT_LEVEL_COUNT, bare[1], base + CT_COST_STEPPED);
}

static void measure_entries(struct attach *a, const double *bare, struct attach_cost *cost,
			    uint32_t *base)
{
	uint8_t flags = CT_SPEC_F_NO_RETURN;

	cost->entry_record =
		time_spec(a, stubs.plain, flags, CT_LEVEL_TRACE, bare[0], base + CT_COST_ENTRY);
	cost->entry_count = time_spec(a, stubs.plain, flags, CT_LEVEL_COUNT, bare[0], NULL);
	time_spec(a, stubs.stepped, flags, CT_LEVEL_COUNT, bare[1],
		  base + CT_COST_ENTRY + CT_COST_STEPPED);
}

/* Uses the programs' times for our own thread, which the stubs have registered. */
static void measure_syscalls(struct attach *a, uint32_t tid, struct ct_cost_cfg *cfg)
{
	int fd = bpf_map__fd(a->skel->maps.threads);
	struct ct_thread *t = a->bare_syscall_ns > 0 ? calloc(2, sizeof(*t)) : NULL;
	double outside, programs;

	if (!t)
		return;
	outside = syscall__time() - a->bare_syscall_ns;
	if (!bpf_map_lookup_elem(fd, &tid, &t[0])) {
		time_every(a, 0);
		syscall__time();
		time_every(a, UINT32_MAX);
		if (!bpf_map_lookup_elem(fd, &tid, &t[1])) {
			/* Subtract the clock's calls, theirs and ours. */
			programs = (double)(t[1].cost.ns - t[0].cost.ns) / (ROUNDS * CALLS);
			cfg->syscall_ns = outside > programs ? (outside - programs) / 2 : 0;
		}
	}
	free(t);
}

void attach__measure_cost(struct attach *a, bool entries, struct attach_cost *cost)
{
	const double *bare = a->bare_ns;
	struct ct_cost_cfg cfg = {0};
	uint32_t tid = syscall(SYS_gettid);
	struct work w = work_begin();

	memset(cost, 0, sizeof(*cost));
	time_every(a, UINT32_MAX);
	if (!w.memory || !a->has_stubs) {
		work_end(&w);
		return;
	}
	measure_pairs(a, bare, cost, &cfg, &w);
	/* Calls whose return is not probed because of their stack: bpf/stack_class.bpf.h. */
	if (a->mech == MECH_SESSION) {
		measure_entries(a, bare, cost, cfg.base_ns);
	} else if (entries) {
		/* Entry-only probes need programs of their own; a session program skips the return
		 * by itself. */
		if (!links__close(&a->links, STUB_OWNER) && !stubs__attach(a, true) && a->has_stubs)
			measure_entries(a, bare, cost, cfg.base_ns);
	}
	measure_syscalls(a, tid, &cfg);
	links__close_soon(&a->links, STUB_OWNER);
	work_end(&w);
	/* Exclude our own calls from the trace's counters. */
	bpf_map_delete_elem(bpf_map__fd(a->skel->maps.threads), &tid);
	levels__take(a, getpid(), 0, forget, NULL);
	complete(&cfg);
	cfg.first_ns = cost->record;
	cfg.skip_mask = CT_COST_SKIP - 1;
	a->skel->bss->cost_cfg = cfg;
	time_every(a, CT_COST_SKIP);
	dbg("overhead in ns of a call of our stub: recorded %.0f, counted %.0f, entry only %.0f and "
	    "%.0f; outside of programs %u, single-stepped %u, entry only %u and %u; lookup %u, from "
	    "the second cache level %u more with %u more outside, from memory %u and %u; a system "
	    "call %u",
	    cost->record, cost->count, cost->entry_record, cost->entry_count,
	    cfg.base_ns[CT_COST_PAIR], cfg.base_ns[CT_COST_STEPPED], cfg.base_ns[CT_COST_ENTRY],
	    cfg.base_ns[CT_COST_ENTRY + CT_COST_STEPPED], cfg.found_ns, cfg.found_more_ns[0],
	    cfg.away_ns[0][CT_COST_PAIR], cfg.found_more_ns[1], cfg.away_ns[1][CT_COST_PAIR],
	    2 * cfg.syscall_ns);
}
