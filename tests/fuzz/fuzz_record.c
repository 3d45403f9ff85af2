/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Raw records through the model into all outputs; each line of JSON must be valid. The first byte
 * of a record selects hostile or valid sizes, so that code after the check is reached: a call then
 * has the words and captures that its function's spec requests.
 */
#include "fuzz.h"

#include <assert.h>

#include "../unit/json_check.h"
#include "ct_nv.h"
#include "decode/fnset.h"
#include "decode/nv/nv.h"
#include "record/check.h"
#include "model/model.h"
#include "sink/sink.h"
#include "sink/summary/summary.h"
#include "util/out.h"

#define RECORDS_MAX 64
#define RECORD_SZ   (sizeof(struct ct_call) + CT_MAX_CAPS * CT_CAP_SZ_MAX)

extern const struct sink_ops jsonl_sink_ops, chrome_sink_ops;

struct outputs {
	struct sink *sinks[2];
	struct summary *summary;
};

static struct sink *open_sink(const struct sink_ops *ops, const struct trace_info *info)
{
	struct sink *s = calloc(1, ops->size);

	assert(s);
	s->ops = ops;
	s->base_ns = info->base_ns;
	s->out = out__memory();
	assert(s->out && !ops->open(s, info));
	return s;
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	struct outputs *o = ctx;

	for (int i = 0; i < 2; i++)
		sink__event(o->sinks[i], ev);
	summary__event(o->summary, ev);
}

static void put_call(struct input *in, struct ct_call *c, const struct fnset *fns, bool honest)
{
	uint8_t *at = (uint8_t *)c;
	struct ct_spec spec;
	size_t off = CT_CALL_FIXED_SZ;

	take(in, &at[sizeof(c->rec)], CT_CALL_FIXED_SZ - sizeof(c->rec));
	c->func_id %= fnset__cnt(fns) + !honest;
	c->call_id >>= 64 - RAW_ID_BITS;
	c->parent_id >>= 64 - RAW_ID_BITS;
	if (!honest) {
		take(in, &at[off], take16(in) % (RECORD_SZ - off));
		c->rec.size = take16(in);
		return;
	}
	api_fn_spec(fnset__fn(fns, c->func_id), &spec);
	c->result = take8(in) & 1 ? c->result : 0;
	c->word_cnt = spec.word_cnt;
	c->cap_cnt = spec.cap_cnt;
	take(in, &at[off], 8 * spec.word_cnt);
	off += 8 * spec.word_cnt;
	for (unsigned i = 0; i < spec.cap_cnt; i++) {
		int len = (int8_t)take8(in);

		c->cap_len[i] = len;
		if (len <= 0)
			continue;
		take(in, &at[off], len);
		off += (len + 7) & ~7;
	}
	c->rec.size = off;
}

static void put_nv(struct input *in, struct ct_nv *nv)
{
	uint8_t *at = (uint8_t *)nv;
	size_t off = sizeof(*nv);

	take(in, &at[sizeof(nv->rec)], sizeof(*nv) - sizeof(nv->rec));
	nv->call_id >>= 64 - RAW_ID_BITS;
	nv->op = CT_NV_IOCTL + nv->op % CT_NV_POLL;
	nv->dev %= CT_NV_OTHER + 1;
	nv->block_cnt %= CT_NV_MAX_BLOCKS + 1;
	for (unsigned i = 0; i < nv->block_cnt; i++) {
		struct ct_nv_data *b = &nv->blocks[i];

		b->len %= CT_NV_SPAN_SZ_MAX;
		if (b->len <= 0)
			continue;
		take(in, &at[off], b->len);
		off += (b->len + 7) & ~7;
	}
	nv->rec.size = off;
}

static void put_name(struct input *in, struct ct_name *n)
{
	take(in, &n->handle, sizeof(n->handle));
	n->handle %= 8; /* met again */
	n->len = take16(in) % (CT_NAME_SZ_MAX + 1);
	take(in, n->name, n->len);
	if (n->len)
		n->name[n->len - 1] = 0;
	n->rec.size = sizeof(*n) + n->len;
}

static void put_record(struct input *in, uint8_t *buf, const struct fnset *fns)
{
	struct ct_rec *rec = (struct ct_rec *)buf;
	uint8_t how = take8(in);
	bool honest = how & 0x80;

	rec->kind = how % CT_REC_KIND_CNT;
	rec->flags = take8(in) & (honest ? 3 : 0xff);
	rec->pid = 1000000000 + take8(in) % 4;
	rec->tid = rec->pid + take8(in) % 4;
	take(in, &rec->ts_ns, sizeof(rec->ts_ns));
	if (rec->kind == CT_REC_CALL) {
		put_call(in, (struct ct_call *)buf, fns, honest);
	} else if (rec->kind == CT_REC_NV && honest) {
		put_nv(in, (struct ct_nv *)buf);
	} else if (rec->kind == CT_REC_NAME && honest) {
		put_name(in, (struct ct_name *)buf);
	} else {
		take(in, buf + sizeof(*rec), sizeof(struct ct_xid));
		rec->size = honest ? RECORD_SZ : take16(in);
	}
}

/* Copied to a block of exactly its size, so that reads beyond it are detected. */
static void send(struct model *m, const uint8_t *buf, size_t size)
{
	void *copy = malloc(size ? size : 1);
	struct raw raw;

	assert(copy);
	memcpy(copy, buf, size);
	if (!raw_check(copy, size, 0, &raw))
		model__record(m, &raw);
	free(copy);
}

static void check_lines(const struct out *out)
{
	const char *p = out->buf, *end = p + out->len, *nl;

	for (; p < end; p = nl + 1) {
		nl = memchr(p, '\n', end - p);
		assert(nl && json_valid(p, nl - p));
	}
}

/* Created once, because they are large, and runs leave no more in them than a long trace. */
static struct outputs outputs;
static struct fnset *fns;
static struct nv_abi abi;

static void open_outputs(const struct trace_info *info)
{
	static const struct nv_version version = {580, 159, 4};

	fns = fnset__new();
	outputs.summary = summary__new();
	assert(fns && outputs.summary);
	fnset__id(fns, "cuNobodyKnowsThis\x1b[2J\xff\"");
	nv_abi_init(&abi, &version);
	outputs.sinks[0] = open_sink(&jsonl_sink_ops, info);
	outputs.sinks[1] = open_sink(&chrome_sink_ops, info);
}

static void check_summary(const struct trace_info *info)
{
	static const struct trace_end end = {.reason = "fuzz"};
	struct out *json = out__memory();

	assert(json);
	summary__json(outputs.summary, json, info, &end);
	check_lines(json);
	out__close(json);
}

static void check_outputs(void)
{
	check_lines(outputs.sinks[0]->out);
	for (int i = 0; i < 2; i++)
		outputs.sinks[i]->out->len = outputs.sinks[i]->out->mark = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct trace_info info = {.version = "fuzz", .base_ns = 1};
	static uint8_t buf[RECORD_SZ] __attribute__((aligned(8)));
	struct input in = {data, size};
	static struct model *m;
	static unsigned runs;

	if (!fns)
		open_outputs(&info);
	/* A new one has empty tables. */
	m = m
		    ?: model__new(&(struct model_opts){.fns = fns,
						       .fn = on_event,
						       .ctx = &outputs,
						       .stub_func_id = CT_MAX_FUNCS - 1,
						       .kernel = true,
						       .sched = true,
						       .gpu_time = true,
						       .abi = &abi});
	assert(m);
	for (int n = 0; in.left && n < RECORDS_MAX; n++) {
		memset(buf, 0, sizeof(buf));
		put_record(&in, buf, fns);
		send(m, buf, ((struct ct_rec *)buf)->size % (RECORD_SZ + 1));
	}
	check_outputs();
	if (++runs % 256)
		return 0;
	check_summary(&info);
	model__free(m);
	m = NULL;
	return 0;
}
