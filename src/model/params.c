/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "params.h"

bool launch_params_read(struct launch_params *to, const uint8_t *data, int len)
{
	struct ct_params head;
	struct ct_param one;
	unsigned at = sizeof(head), used = 0, left;

	if (len < (int)sizeof(head))
		return false;
	memcpy(&head, data, sizeof(head));
	to->memory_cnt = to->cnt = 0;
	to->unknown = head.flags & CT_PARAMS_F_UNKNOWN;
	to->more = head.flags & CT_PARAMS_F_MORE;
	if (head.cnt > CT_PARAMS_MAX || head.cnt * sizeof(one) > len - sizeof(head))
		return false;
	left = len - sizeof(head) - head.cnt * sizeof(one);
	if (left > sizeof(to->bytes))
		return false;
	memcpy(to->bytes, data + len - left, left);
	for (; to->cnt < head.cnt; to->cnt++, at += sizeof(one)) {
		struct launch_param *p = &to->of[to->cnt];

		memcpy(&one, data + at, sizeof(one));
		*p = (struct launch_param){one.off & ~CT_PARAM_F_MISSING, one.size, one.size};
		if (one.off & CT_PARAM_F_MISSING)
			p->len = 0;
		else if (p->len > left - used)
			p->len = left - used;
		used += p->len;
	}
	return true;
}

void launch_params_words(const struct launch_params *p,
			 void (*fn)(void *ctx, unsigned param, unsigned at, uint64_t value),
			 void *ctx)
{
	const uint8_t *bytes = p->bytes;
	uint64_t value;

	for (unsigned i = 0; i < p->cnt; bytes += p->of[i++].len)
		for (unsigned at = -p->of[i].off & 7; at + 8 <= p->of[i].len; at += 8) {
			memcpy(&value, bytes + at, sizeof(value));
			fn(ctx, i, at, value);
		}
}
