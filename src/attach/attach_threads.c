/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the BPF side's state of each thread: calls in flight and counters. */
#include "attach_priv.h"
#include "map_rows.h"

#include "ct_nv_bpf.h"

#include "util/clock.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct each {
	void (*cb)(uint32_t tid, struct ct_thread *t, void *ctx);
	void *ctx;
};

static void take_thread(void *ctx, const void *key, const void *val)
{
	const struct each *e = ctx;

	/* val is a copy. */
	e->cb(*(const uint32_t *)key, (struct ct_thread *)val, e->ctx);
}

void attach__each_thread(struct attach *a, void (*cb)(uint32_t tid, struct ct_thread *t, void *ctx),
			 void *ctx)
{
	struct each e = {cb, ctx};

	map_rows__each(bpf_map__fd(a->skel->maps.threads), sizeof(uint32_t),
		       sizeof(struct ct_thread), take_thread, &e);
}

bool attach__thread_regs(struct attach *a, struct ct_regs *regs, unsigned cnt)
{
	struct bpf_link *link = a->skel->links.ct_regs;
	int map = bpf_map__fd(a->skel->maps.regs);
	int fd = link ? bpf_iter_create(bpf_link__fd(link)) : -1;
	char none;
	bool ran;

	if (fd < 0)
		return false;
	for (unsigned i = 0; i < cnt; i++)
		bpf_map_update_elem(map, &regs[i].tid, &regs[i], BPF_ANY);
	/* The program writes nothing: the first read runs it completely. */
	ran = !read(fd, &none, sizeof(none));
	close(fd);
	for (unsigned i = 0; i < cnt; i++) {
		bpf_map_lookup_elem(map, &regs[i].tid, &regs[i]);
		bpf_map_delete_elem(map, &regs[i].tid);
	}
	return ran;
}

bool attach__filter(struct attach *a, struct ct_filter *f)
{
	struct bpf_link *link = a->skel->links.ct_filters;
	int map = bpf_map__fd(a->skel->maps.filter);
	int fd = link ? bpf_iter_create(bpf_link__fd(link)) : -1;
	uint32_t zero = 0;
	char none;
	bool ran;

	if (fd < 0)
		return false;
	f->thread_cnt = f->differ = 0;
	f->id = 0;
	f->len = CT_FILTER_NONE;
	ran = !bpf_map_update_elem(map, &zero, f, BPF_ANY) && !read(fd, &none, sizeof(none)) &&
	      !bpf_map_lookup_elem(map, &zero, f);
	close(fd);
	return ran;
}

void attach__filter_fds(const struct attach *a, int fds[2])
{
	const struct bpf_link *link = a->skel->links.ct_filters;

	fds[0] = link ? bpf_link__fd(link) : -1;
	fds[1] = link ? bpf_map__fd(a->skel->maps.filter) : -1;
}

struct unfinished_ctx {
	struct attach *a;
	void (*cb)(void *ctx, const void *rec, size_t size);
	void *ctx;
	uint64_t now;
};

/* Makes the same record as the BPF side for a thread that ends in a call (call_drop_frame()), with
 * only the words that the spec requests. */
static void send_frame(struct unfinished_ctx *u, uint32_t tid, const struct ct_thread *t,
		       unsigned i)
{
	const struct ct_frame *f = &t->frames[i];
	struct ct_call c = {0};
	struct ct_spec spec;

	if (levels__spec(u->a, f->func_id, &spec) || spec.word_cnt > CT_MAX_WORDS)
		return;
	c.rec.kind = CT_REC_CALL;
	c.rec.flags = CT_CALL_F_UNFINISHED;
	c.operator_id = f->operator_id;
	c.rec.size = CT_CALL_FIXED_SZ + spec.word_cnt * sizeof(c.words[0]);
	c.rec.ts_ns = f->start_ns;
	c.rec.pid = t->pid;
	c.rec.tid = tid;
	c.end_ns = u->now;
	c.call_id = f->call_id;
	c.parent_id = i ? t->frames[i - 1].call_id : 0;
	c.func_id = f->func_id;
	c.lib_id = CT_LIB_ID(f->lib_id);
	c.depth = f->depth;
	c.api_depth = f->api_depth;
	c.ioctl_cnt = f->ioctl_cnt;
	c.ioctl_ns = f->ioctl_ns;
	c.off_cpu_ns = t->off_cpu_ns - f->off_cpu_ns;
	c.word_cnt = spec.word_cnt;
	memcpy(c.words, f->words, spec.word_cnt * sizeof(c.words[0]));
	u->cb(u->ctx, &c, c.rec.size);
}

static void send_thread(uint32_t tid, struct ct_thread *t, void *ctx)
{
	for (unsigned i = 0; i < t->depth && i < CT_MAX_DEPTH; i++)
		if (!(t->frames[i].flags & CT_FRAME_F_COUNTED))
			send_frame(ctx, tid, t, i);
}

/* Makes a record of a system call in the driver, as nv_thread_end() does. */
static void send_driver(void *ctx, const void *key, const void *val)
{
	const struct unfinished_ctx *u = ctx;
	/* val is a copy. */
	struct ct_nv_thread *st = (struct ct_nv_thread *)val;
	struct ct_nv *rec = (struct ct_nv *)st->out;

	/* CT_NV_NONE: an openat that may be of another device. */
	if (!st->active || st->off > sizeof(st->out) || rec->dev == CT_NV_NONE)
		return;
	rec->rec.size = st->off;
	rec->rec.flags = CT_CALL_F_UNFINISHED;
	rec->end_ns = u->now;
	u->cb(u->ctx, rec, st->off);
}

void attach__unfinished(struct attach *a, void (*cb)(void *ctx, const void *rec, size_t size),
			void *ctx)
{
	struct unfinished_ctx u = {.a = a, .cb = cb, .ctx = ctx, .now = now_ns()};

	attach__each_thread(a, send_thread, &u);
	map_rows__each(bpf_map__fd(a->skel->maps.nv_threads), sizeof(uint32_t),
		       sizeof(struct ct_nv_thread), send_driver, &u);
}

static void add_thread(uint32_t tid, struct ct_thread *t, void *ctx)
{
	struct ct_totals *sum = ctx;

	uint64_t busiest = ct_cost_busiest(t, tid, now_ns());

	sum->cost_ns += ct_cost_ns(t);
	if (busiest > sum->busiest)
		sum->busiest = busiest;
	for (int i = 0; i < CT_STAT_CNT; i++)
		sum->stats[i] += t->stats[i];
	for (int i = 0; i < CT_DROP_CNT; i++)
		sum->drops[i] += t->drops[i];
	sum->stats[CT_STAT_UNFINISHED] += t->depth;
	for (unsigned i = 0; i < t->depth && i < CT_MAX_DEPTH; i++)
		sum->stats[CT_STAT_COUNTED] += t->frames[i].flags & CT_FRAME_F_COUNTED;
}

/* Adds runs that the kernel skipped, which no program can count. A preemptible kernel skips a
 * program when one of its kind is interrupted on the same processor. */
static void add_misses(struct attach *a, struct ct_totals *sum)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, a->skel->obj)
	{
		struct bpf_prog_info info = {0};
		__u32 len = sizeof(info);
		const char *name = bpf_program__name(prog);

		if (bpf_program__fd(prog) < 0 ||
		    bpf_prog_get_info_by_fd(bpf_program__fd(prog), &info, &len))
			continue;
		if (!strncmp(name, "ct_nv_", 6) || !strncmp(name, "ct_uvm_", 7))
			sum->drops[CT_DROP_NV] += info.recursion_misses;
		else
			sum->drops[CT_DROP_TASK] += info.recursion_misses;
	}
}

/* Adds the counters of ended threads, then those of the others. Repeats if a thread has ended
 * meanwhile, whose counters would be in neither. */
#define TOTALS_TRIES 4

void attach__totals(struct attach *a, struct ct_totals *sum)
{
	struct ct_totals ended, after;
	uint32_t zero = 0;
	unsigned tries = 0;

	bpf_map__lookup_elem(a->skel->maps.totals, &zero, sizeof(zero), &after, sizeof(after), 0);
	do {
		*sum = ended = after;
		attach__each_thread(a, add_thread, sum);
		bpf_map__lookup_elem(a->skel->maps.totals, &zero, sizeof(zero), &after,
				     sizeof(after), 0);
	} while (memcmp(&ended, &after, sizeof(after)) && ++tries < TOTALS_TRIES);
	add_misses(a, sum);
	/* Counters never decrease, even when threads end all the time. */
	for (int i = 0; i < CT_DROP_CNT; i++) {
		if (sum->drops[i] < a->drops[i])
			sum->drops[i] = a->drops[i];
		a->drops[i] = sum->drops[i];
	}
}

struct live {
	pid_t *pids;
	unsigned cnt, max;
};

static void take_live(void *ctx, const void *key, const void *val)
{
	struct live *l = ctx;
	pid_t pid = *(const uint32_t *)key;

	if (target_has_ended(pid))
		return;
	if (l->cnt < l->max)
		l->pids[l->cnt] = pid;
	l->cnt++;
}

/* The BPF side reports exits; if a record was dropped, the process is found gone here. */
unsigned attach__live_pids(struct attach *a, pid_t *pids, unsigned max)
{
	struct live l = {.pids = pids, .max = max};

	map_rows__each(bpf_map__fd(a->skel->maps.pids), sizeof(uint32_t), sizeof(struct ct_pid),
		       take_live, &l);
	return l.cnt;
}
