/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "check.h"

#include <errno.h>

/* Id 0, no call, is the same for all producers. Written without a branch, because nesting of calls
 * is unpredictable. */
static inline uint64_t id_of(unsigned producer, uint64_t id)
{
	return id | ((uint64_t)producer << RAW_ID_BITS & -(uint64_t) !!id);
}

static int check_call(const struct ct_call *c, size_t size, unsigned producer, struct raw_call *out)
{
	size_t off = CT_CALL_FIXED_SZ;

	if (c->word_cnt > CT_MAX_WORDS || c->cap_cnt > CT_MAX_CAPS ||
	    (c->call_id | c->parent_id | c->operator_id) >> RAW_ID_BITS)
		return -EINVAL;
	off += c->word_cnt * sizeof(c->words[0]);
	if (off > size)
		return -EINVAL;
	out->call = c;
	out->id = id_of(producer, c->call_id);
	out->parent_id = id_of(producer, c->parent_id);
	out->operator_id = id_of(producer, c->operator_id);
	out->word_cnt = c->word_cnt;
	out->cap_cnt = c->cap_cnt;
	out->words = (const uint64_t *)c->words;
	for (unsigned i = 0; i < c->cap_cnt; i++) {
		int len = c->cap_len[i];

		out->caps[i].len = len;
		out->caps[i].data = NULL;
		if (len <= 0)
			continue;
		if (len > CT_CAP_SZ_MAX || off + len > size)
			return -EINVAL;
		out->caps[i].data = (const uint8_t *)c + off;
		off += (len + 7) & ~7;
	}
	out->stack_cnt = c->stack_cnt;
	out->python_cnt = c->python_cnt;
	out->stack = NULL;
	out->python = NULL;
	if (c->stack_cnt > CT_STACK_MAX || c->python_cnt > CT_PYTHON_MAX)
		return -EINVAL;
	if (c->stack_cnt)
		out->stack = (const uint64_t *)((const uint8_t *)c + off);
	off += c->stack_cnt * sizeof(*out->stack);
	if (c->python_cnt)
		out->python = (const struct ct_python_frame *)((const uint8_t *)c + off);
	off += c->python_cnt * sizeof(*out->python);
	return (c->stack_cnt || c->python_cnt) && off > size ? -EINVAL : 0;
}

static int check_nv(const struct ct_nv *nv, unsigned producer, struct raw_nv *out)
{
	size_t off = sizeof(*nv);

	if (nv->op < CT_NV_IOCTL || nv->op > CT_NV_POLL || nv->block_cnt > CT_NV_MAX_BLOCKS ||
	    nv->call_id >> RAW_ID_BITS)
		return -EINVAL;
	out->nv = nv;
	out->call_id = id_of(producer, nv->call_id);
	out->block_cnt = nv->block_cnt;
	for (unsigned i = 0; i < nv->block_cnt; i++) {
		int len = nv->blocks[i].len;

		out->blocks[i].len = len;
		out->blocks[i].data = NULL;
		if (len <= 0)
			continue;
		if (len > CT_NV_SPAN_SZ_MAX || off + len > nv->rec.size)
			return -EINVAL;
		out->blocks[i].data = (const uint8_t *)nv + off;
		off += (len + 7) & ~7;
	}
	return 0;
}

static int check_name(const struct ct_name *n)
{
	if (n->len > CT_NAME_SZ_MAX || n->len > n->rec.size - sizeof(*n))
		return -EINVAL;
	/* A terminated string, with any contents. */
	return n->len && n->name[n->len - 1] ? -EINVAL : 0;
}

static int check_python(const struct ct_python_code *c)
{
	return c->file_sz > sizeof(c->file) || c->function_sz > sizeof(c->function) ||
			       c->table_sz > sizeof(c->table)
		       ? -EINVAL
		       : 0;
}

int raw_check(const void *data, size_t size, unsigned producer, struct raw *raw)
{
	static const size_t min_size[CT_REC_KIND_CNT] = {
#define REC(ID, id, size) [CT_REC_##ID] = size,
#include "ct_rec.def"
	};
	const struct ct_rec *rec = data;

	if (size < sizeof(*rec) || rec->size > size || rec->kind >= CT_REC_KIND_CNT)
		return -EINVAL;
	if (!min_size[rec->kind] || rec->size < min_size[rec->kind])
		return -EINVAL;
	raw->rec = rec;
	if (rec->kind == CT_REC_CALL || rec->kind == CT_REC_SAMPLE)
		return check_call(data, rec->size, producer, &raw->call);
	if (rec->kind == CT_REC_NV)
		return check_nv(data, producer, &raw->nv);
	if (rec->kind == CT_REC_PYTHON)
		return check_python(data);
	return rec->kind == CT_REC_NAME ? check_name(data) : 0;
}
