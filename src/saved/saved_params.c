/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parameters of a launched kernel. */
#include "saved_value.h"

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns the number of bytes; at most max. */
static unsigned read_bytes(const struct member *m, uint8_t *to, unsigned max)
{
	unsigned cnt = 0;

	for (; cnt < max && 2 * cnt + 1 < m->len; cnt++) {
		int high = digit_of(m->text[2 * cnt]), low = digit_of(m->text[2 * cnt + 1]);

		if (high < 0 || low < 0)
			break;
		to[cnt] = high << 4 | low;
	}
	return cnt;
}

static unsigned read_value(const struct member *m, unsigned size, uint8_t *to, unsigned room)
{
	uint64_t x;

	if (!m || m->val != VAL_STRING)
		return 0;
	if (m->len > 2 && m->text[1] == 'x') {
		if (size > sizeof(x) || size > room)
			return 0;
		x = member_u64(m);
		memcpy(to, &x, size);
		return size;
	}
	return read_bytes(m, to, size < room ? size : room);
}

static unsigned number_of(const struct json_value *p, const char *name)
{
	const struct member *m = parsed_find(p, name);
	uint64_t x = m ? member_u64(m) : 0;

	return x > UINT16_MAX ? UINT16_MAX : x;
}

static uint64_t long_of(const struct json_value *p, const char *name)
{
	const struct member *m = parsed_find(p, name);

	return m ? member_u64(m) : 0;
}

static void read_memory(struct saved *s, const struct member *m, struct launch_params *to)
{
	struct json_value all, one;

	if (!m || m->val != VAL_ARRAY)
		return;
	for (unsigned i = 0; i < 2 && !s->memory[i]; i++)
		s->memory[i] = parser__new();
	if (!s->memory[0] || !s->memory[1] || parser__slice(s->memory[0], m, &all))
		return;
	for (unsigned i = 0; i < all.cnt && to->memory_cnt < PARAMS_WORDS_MAX; i++) {
		const struct member *id;

		if (all.m[i].val != VAL_OBJECT || parser__slice(s->memory[1], &all.m[i], &one))
			return;
		id = parsed_find(&one, "freed_by");
		to->memory[to->memory_cnt++] =
			(struct param_memory){.param = to->cnt,
					      .at = number_of(&one, "at"),
					      .freed = id,
					      .ptr = long_of(&one, "ptr"),
					      .size = long_of(&one, "size"),
					      .offset = long_of(&one, "offset"),
					      .freed_id = id ? member_u64(id) : 0};
	}
}

const struct launch_params *saved_params(struct saved *s, const struct member *m)
{
	struct launch_params *to = &s->params;
	struct json_value all, one;
	unsigned used = 0;

	to->cnt = to->memory_cnt = 0;
	to->more = false;
	to->unknown = m->val != VAL_ARRAY;
	if (!s->list)
		s->list = parser__new();
	if (m->val == VAL_NULL)
		return to;
	if (!s->list || to->unknown || parser__slice(s->list, m, &all))
		return NULL;
	for (unsigned i = 0; i < all.cnt && to->cnt < CT_PARAMS_MAX; i++) {
		struct launch_param *p = &to->of[to->cnt];

		if (all.m[i].val != VAL_OBJECT || parser__slice(s->inner, &all.m[i], &one))
			return NULL;
		p->off = number_of(&one, "offset");
		p->size = number_of(&one, "size");
		p->len = read_value(parsed_find(&one, "value"), p->size, to->bytes + used,
				    sizeof(to->bytes) - used);
		used += p->len;
		read_memory(s, parsed_find(&one, "memory"), to);
		to->cnt++;
	}
	return to;
}
