/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --stalls: sums of samples by function and instruction, which are sent each interval. */
#include "stalls_priv.h"

#include <string.h>

#define FNS_MAX	 CT_STALL_FNS_MAX
#define ROWS_LOG 15
#define ROWS_MAX (1u << ROWS_LOG)
/* Source lines are looked up for instructions with at least this share of a function's samples. */
#define LINE_SHARE 100

struct row {
	uint32_t function; /* number plus 1; 0: free */
	uint32_t pc;
	uint32_t samples[CT_STALL_CNT];
};

static struct {
	uint32_t fn_cnt, row_cnt;
	struct tables {
		struct stall_fn fns[FNS_MAX];
		struct row rows[ROWS_MAX];
		uint16_t order[ROWS_MAX]; /* used rows */
	} * mem;
} st;

bool stall_sums_init(void)
{
	st.mem = sys_map(sizeof(*st.mem), 0);
	return st.mem;
}

static struct stall_fn *function_of(const struct cupti_pc *p, uint32_t device)
{
	uint64_t id = stalls_mix(stalls_mix((uint64_t)p->crc << 32 | p->function) + device) | 1;

	for (uint32_t k = 0, i = id % FNS_MAX; k < FNS_MAX; k++, i = (i + 1) % FNS_MAX) {
		struct stall_fn *f = &st.mem->fns[i];

		if (f->name && f->id == id)
			return f;
		if (f->name)
			continue;
		*f = (struct stall_fn){.name = p->name ? p->name : "",
				       .id = id,
				       .crc = p->crc,
				       .index = p->function,
				       .device = device};
		st.fn_cnt++;
		return f;
	}
	return NULL;
}

static struct row *row_of(const struct stall_fn *f, uint32_t pc)
{
	uint32_t n = f - st.mem->fns + 1, i = stalls_mix((uint64_t)n << 32 | pc) % ROWS_MAX;

	for (; st.row_cnt < ROWS_MAX / 4 * 3; i = (i + 1) % ROWS_MAX) {
		struct row *r = &st.mem->rows[i];

		if (r->function == n && r->pc == pc)
			return r;
		if (r->function)
			continue;
		r->function = n;
		r->pc = pc;
		st.mem->order[st.row_cnt++] = i;
		return r;
	}
	return NULL;
}

void stall_sums_add(const struct cupti_pc *p, uint32_t device, const struct stall_reasons *of)
{
	struct stall_fn *f = function_of(p, device);
	struct row *r = f && p->pc <= UINT32_MAX ? row_of(f, p->pc) : NULL;
	uint64_t refused = 0;

	for (size_t i = 0; i < p->stall_cnt && i < STALL_REASONS_MAX; i++) {
		uint32_t k = p->stalls[i].index, n = p->stalls[i].samples;
		uint32_t reason = k < STALL_REASONS_MAX ? of->reason[k] : CT_STALL_OTHER;

		if (k < STALL_REASONS_MAX && of->is_not_issued[k]) {
			if (f)
				f->not_issued += n;
			continue;
		}
		if (f)
			f->reasons[reason] += n;
		if (r)
			r->samples[reason] += n;
		else
			refused += n;
	}
	stalls_shm()->refused += refused;
}

static uint64_t sum_of(const struct stall_fn *f)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < CT_STALL_CNT; i++)
		n += f->reasons[i];
	return n;
}

struct pcs_buf {
	union {
		struct ct_stall_pcs pcs;
		uint8_t bytes[sizeof(struct ct_stall_pcs) +
			      CT_STALL_ROWS_MAX * sizeof(struct ct_stall_row)];
	};
};

static void pcs_send(struct thread *t, struct pcs_buf *b)
{
	b->pcs.rec.size = sizeof(b->pcs) + b->pcs.cnt * sizeof(b->pcs.rows[0]);
	if (b->pcs.cnt && !gpu_send(t, &b->pcs.rec))
		for (uint32_t i = 0; i < b->pcs.cnt; i++)
			stalls_shm()->lost += b->pcs.rows[i].samples;
	b->pcs.cnt = 0;
}

static void send_function(struct thread *t, struct stall_fn *f, uint32_t begin, uint32_t end,
			  uint64_t begin_ns, uint64_t now)
{
	static struct pcs_buf buf;
	const bool names = inject_process->set->redact == CT_REDACT_NOTHING;
	const struct stall_device *d = stalls_device(f->device);
	uint64_t sum = sum_of(f);
	struct ct_stalls s = {
		.rec = {.size = sizeof(s), .kind = CT_REC_STALLS, .tid = t->tid},
		.begin_ns = begin_ns,
		.end_ns = now,
		.function = f->id,
		.device = f->device,
		.period = d->period,
		.sm_cnt = d->sm_cnt,
		.clock_khz = d->clock_khz,
		.not_issued = f->not_issued,
	};

	gpu_send_device(t, f->device);
	if (names && *f->name)
		s.name_id = gpu_send_name(t, f->name);
	stall_code_send(t, f);
	buf.pcs = (struct ct_stall_pcs){.rec = {.kind = CT_REC_STALL_PCS, .tid = t->tid},
					.function = f->id};
	for (uint32_t k = begin; k < end; k++) {
		const struct row *r = &st.mem->rows[st.mem->order[k]];
		uint64_t n = 0;

		for (uint32_t i = 0; i < CT_STALL_CNT; i++) {
			if (!r->samples[i])
				continue;
			n += r->samples[i];
			buf.pcs.rows[buf.pcs.cnt++] =
				(struct ct_stall_row){r->pc, i, r->samples[i]};
			if (buf.pcs.cnt == CT_STALL_ROWS_MAX)
				pcs_send(t, &buf);
		}
		if (names && n * LINE_SHARE >= sum)
			stall_code_send_line(t, f, r->pc);
	}
	pcs_send(t, &buf);
	memcpy(s.reasons, f->reasons, sizeof(s.reasons));
	if (!gpu_send(t, &s.rec))
		stalls_shm()->lost += sum;
	memset(f->reasons, 0, sizeof(f->reasons));
	f->not_issued = 0;
}

/* Sorts the used rows by function, in a heap. */
static void sift(uint16_t *v, uint32_t at, uint32_t cnt)
{
	const struct row *rows = st.mem->rows;

	for (uint32_t child; (child = 2 * at + 1) < cnt; at = child) {
		uint16_t x = v[at];

		if (child + 1 < cnt && rows[v[child + 1]].function > rows[v[child]].function)
			child++;
		if (rows[x].function >= rows[v[child]].function)
			return;
		v[at] = v[child];
		v[child] = x;
	}
}

static void sort_rows(void)
{
	uint16_t *v = st.mem->order, x;

	for (uint32_t i = st.row_cnt / 2; i-- > 0;)
		sift(v, i, st.row_cnt);
	for (uint32_t cnt = st.row_cnt; cnt > 1;) {
		x = v[0];
		v[0] = v[--cnt];
		v[cnt] = x;
		sift(v, 0, cnt);
	}
}

void stall_sums_send(struct thread *t, uint64_t begin_ns, uint64_t now)
{
	uint32_t begin = 0, end = 0;

	sort_rows();
	for (uint32_t i = 0; i < FNS_MAX; i++) {
		struct stall_fn *f = &st.mem->fns[i];

		for (end = begin;
		     end < st.row_cnt && st.mem->rows[st.mem->order[end]].function == i + 1;)
			end++;
		if (f->name && sum_of(f))
			send_function(t, f, begin, end, begin_ns, now);
		begin = end;
	}
	stall_code_drop();
	for (uint32_t i = 0; i < st.row_cnt; i++)
		memset(&st.mem->rows[st.mem->order[i]], 0, sizeof(struct row));
	st.row_cnt = 0;
	/* Programs that generate code have new functions again and again. */
	if (st.fn_cnt > FNS_MAX / 4 * 3) {
		memset(st.mem->fns, 0, sizeof(st.mem->fns));
		st.fn_cnt = 0;
	}
}
