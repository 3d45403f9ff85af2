/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "check.h"

#include <errno.h>

static int check_call(const struct ct_call *c, size_t size, struct raw_call *out)
{
	size_t off = CT_CALL_FIXED_SZ;

	if (c->word_cnt > CT_MAX_WORDS || c->cap_cnt > CT_MAX_CAPS)
		return -EINVAL;
	off += c->word_cnt * sizeof(c->words[0]);
	if (off > size)
		return -EINVAL;
	out->call = c;
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
	out->stack = c->stack_cnt ? (const uint64_t *)((const uint8_t *)c + off) : NULL;
	if (!c->stack_cnt)
		return 0;
	if (c->stack_cnt > CT_STACK_MAX || off + c->stack_cnt * sizeof(*out->stack) > size)
		return -EINVAL;
	return 0;
}

int raw_check_nv(const void *data, size_t size, struct raw_nv *out)
{
	const struct ct_nv *nv = data;
	size_t off = sizeof(*nv);

	if (size < sizeof(*nv) || nv->rec.size > size || nv->rec.size < sizeof(*nv))
		return -EINVAL;
	if (nv->op < CT_NV_IOCTL || nv->op > CT_NV_POLL || nv->block_cnt > CT_NV_MAX_BLOCKS)
		return -EINVAL;
	out->nv = nv;
	out->block_cnt = nv->block_cnt;
	for (unsigned i = 0; i < nv->block_cnt; i++) {
		int len = nv->blocks[i].len;

		out->blocks[i].len = len;
		out->blocks[i].data = NULL;
		if (len <= 0)
			continue;
		if (len > CT_NV_SPAN_SZ_MAX || off + len > nv->rec.size)
			return -EINVAL;
		out->blocks[i].data = (const uint8_t *)data + off;
		off += (len + 7) & ~7;
	}
	return 0;
}

static int check_name(const struct ct_name *n)
{
	if (n->len > CT_NAME_SZ_MAX || n->len > n->rec.size - sizeof(*n))
		return -EINVAL;
	/* A string, whatever is in it. */
	return n->len && n->name[n->len - 1] ? -EINVAL : 0;
}

int raw_check(const void *data, size_t size, struct raw_call *call)
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
	if (rec->kind == CT_REC_CALL && check_call(data, rec->size, call))
		return -EINVAL;
	if (rec->kind == CT_REC_NAME && check_name(data))
		return -EINVAL;
	return rec->kind;
}
