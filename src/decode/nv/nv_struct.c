/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Layouts of parameter structs by version. */
#include "nv.h"

#include <string.h>

#include "nv_priv.h"
#include "util/order.h"

#define STRUCT_BEGIN(s, n, size, since, until) static const struct nv_field fields_##s##_##n[] = {
#define FIELD(off, size, kind, name)	       {off, size, NV_KIND_##kind, #name},
#define STRUCT_END(s, n)                                                                           \
	}                                                                                          \
	;
#include "struct.def"
#undef STRUCT_BEGIN
#undef FIELD
#undef STRUCT_END

static const struct nv_struct structs[] = {
#define STRUCT_BEGIN(s, n, size, since, until)                                                     \
	{#s, size, since, until, fields_##s##_##n, ARRAY_SIZE(fields_##s##_##n)},
#define FIELD(off, size, kind, name)
#define STRUCT_END(s, n)
#include "struct.def"
#undef STRUCT_BEGIN
#undef FIELD
#undef STRUCT_END
};

const struct nv_struct *nv_structs(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(structs);
	return structs;
}

/* Returns the index of the first layout of that name, or the size of the table. */
static size_t first_layout(const char *name)
{
	size_t cnt = ARRAY_SIZE(structs);
	size_t n = COUNT_LEADING(i, cnt, strcmp(structs[i].name, name) < 0);

	return n < cnt && !strcmp(structs[n].name, name) ? n : cnt;
}

const struct nv_struct *nv_struct_by_name(const struct nv_abi *abi, const char *name,
					  enum nv_fit *fit)
{
	size_t i = first_layout(name);
	const struct nv_struct *hit;

	if (i == ARRAY_SIZE(structs)) {
		nv_fit_set(fit, NV_FIT_NONE);
		return NULL;
	}
	hit = &structs[i];
	for (; i < ARRAY_SIZE(structs) && !strcmp(structs[i].name, name); i++)
		if (structs[i].since <= abi->key)
			hit = &structs[i];
	nv_fit_set(fit, nv_fit_range(abi, hit->since, hit->until));
	return hit;
}

const struct nv_struct *nv_struct_by_size(const char *name, uint32_t size)
{
	const struct nv_struct *hit = NULL;

	for (size_t i = first_layout(name);
	     i < ARRAY_SIZE(structs) && !strcmp(structs[i].name, name); i++) {
		if (structs[i].size != size)
			continue;
		if (hit)
			return NULL;
		hit = &structs[i];
	}
	return hit;
}

const struct nv_field *nv_field_by_name(const struct nv_struct *s, const char *name)
{
	for (unsigned i = 0; i < s->field_cnt; i++)
		if (!strcmp(s->fields[i].name, name))
			return &s->fields[i];
	return NULL;
}
