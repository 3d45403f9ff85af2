/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cubins and machine code of any content, and the records that carry them: no read exceeds them. */
#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "decode/sass.h"
#include "model/stalls.h"

#include "../../inject/cubin.c"

static void decode(const uint8_t *code, uint32_t size, uint32_t arch)
{
	const struct sass s = {code, size, arch};

	for (uint32_t pc = 0; pc < size && pc < 2048; pc += 8) {
		enum sass_class c = sass_class_at(&s, pc);

		assert(c <= SASS_CLASS_CNT && (c == SASS_CLASS_CNT) == (pc % 16 || size - pc < 16));
		for (int is_long = 0; is_long < 2; is_long++) {
			uint32_t at = sass_waits_for(&s, pc, is_long);

			assert(at == SASS_NONE || (at < size && size - at >= 16));
		}
		sass_name_at(&s, pc);
	}
}

static void on_event(void *ctx, const struct trace_event *ev)
{
	(*(unsigned *)ctx)++;
	assert(ev->stalls.samples || !strcmp(ev->op, "function"));
}

/* The input as records, one after the other. */
static void records(const uint8_t *data, size_t size)
{
	static struct quota quota = {.max = 1 << 20, .share = 1 << 20};
	struct proc_stalls *p = proc_stalls__new(&quota);
	struct trace_event base = {.kind = EVENT_STALLS};
	union {
		struct ct_rec rec;
		struct ct_stalls stalls;
		struct ct_stall_pcs pcs;
		struct ct_stall_code code;
		struct ct_stall_source source;
		uint8_t bytes[2048];
	} *r = malloc(sizeof(*r));
	unsigned events = 0;

	while (p && r && size > 2) {
		size_t len = data[1] * 8 < size - 2 ? data[1] * 8 : size - 2;
		uint8_t kind = data[0] % 4;

		memset(r, 0, sizeof(*r));
		memcpy(r->bytes + sizeof(struct ct_rec), data + 2,
		       len < sizeof(*r) - sizeof(struct ct_rec)
			       ? len
			       : sizeof(*r) - sizeof(struct ct_rec));
		r->rec.size = sizeof(*r);
		if (kind == 0)
			proc_stalls__give(p, &r->stalls, &base, on_event, &events);
		else if (kind == 1)
			proc_stalls__add_pcs(p, &r->pcs);
		else if (kind == 2)
			proc_stalls__add_code(p, &r->code);
		else
			proc_stalls__add_source(p, &r->source);
		data += 2 + len;
		size -= 2 + len;
	}
	free(r);
	proc_stalls__free(p);
	assert(!quota.used);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* No memory behind it may be read. */
	uint8_t *copy = malloc(size ? size : 1);
	struct cubin_code c;

	assert(copy);
	memcpy(copy, data, size);
	if (code_find(copy, size, "f", &c)) {
		assert(c.at >= copy && c.at <= copy + size && c.size <= copy + size - c.at);
		decode(c.at, c.size, c.arch);
	}
	decode(copy, size, 90);
	records(copy, size);
	free(copy);
	return 0;
}
