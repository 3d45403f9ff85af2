/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The decoder with truncated blocks, and the guarantees of the capture plan. */
#include "test_nv_decode.h"

/* Each field of a truncated block has the value of the whole block, or none. */
static void check_cut(enum ct_nv_dev dev, uint32_t cmd, const uint8_t *b, uint32_t size)
{
	struct nv_ioctl whole = decode(dev, cmd, b, size);

	for (uint32_t len = 0;
	     len<size; len += size> 1024 && len > 64 && len < size - 64 ? 61 : 1) {
		struct nv_ioctl io = decode(dev, cmd, b, len);

		for (int r = 0; r < NV_R_CNT; r++) {
			if (io.f[r].at == NV_AT_EXIT)
				assert_true(io.f[r].v == whole.f[r].v &&
					    whole.f[r].at == NV_AT_EXIT);
			else
				assert_true(io.f[r].v == 0 && io.f[r].at != NV_AT_ENTRY);
		}
	}
}

static void truncated(void **state)
{
	static const char *const drivers[] = {"515.43.04",  "525.147.05", "535.54.03", "550.163.01",
					      "570.211.01", "580.159.04", "590.48.01", "595.45.04"};
	unsigned esc_cnt, uvm_cnt;
	const struct nv_escape *esc = nv_escapes(&esc_cnt);
	const struct nv_uvm *u = nv_uvms(&uvm_cnt);
	uint8_t *b = malloc(16384);

	assert_non_null(b);
	for (size_t d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++) {
		set_driver(drivers[d]);
		for (unsigned fill = 0; fill < 3; fill++) {
			for (uint32_t i = 0; i < 16384; i++)
				b[i] = fill == 0 ? 0xff : (uint8_t)(i * 7 + fill);
			if (fill == 2) /* a function, control or class that is decoded further */
				put32(b, 8, 2);
			for (unsigned i = 0; i < esc_cnt; i++) {
				const struct nv_struct *s =
					esc[i].params ? nv_struct_by_name(&abi, esc[i].params, NULL)
						      : NULL;
				uint32_t size = s ? s->size : 12;

				/* A whole block is another ioctl. */
				if (esc[i].nr == 0xd3)
					continue;
				check_cut(CT_NV_CTL, RM(esc[i].nr, size & 0x3fff), b, size);
			}
			for (unsigned i = 0; i < uvm_cnt; i++) {
				const struct nv_struct *s =
					u[i].params ? nv_struct_by_name(&abi, u[i].params, NULL)
						    : NULL;

				check_cut(CT_NV_UVM, u[i].number, b, s ? s->size : 8);
			}
			check_cut(CT_NV_MODESET, 0xc0106d00, b, 16);
		}
	}
	free(b);
}

/* A truncated XFER block shows its own name, or is unwrapped completely. */
static void truncated_xfer(void **state)
{
	uint8_t b[16] = {0};

	set_driver("580.159.04");
	put32(b, 0, 0x2a);
	put32(b, 4, 32);
	for (uint32_t len = 0; len <= 16; len++) {
		struct nv_ioctl io = decode(CT_NV_CTL, RM(0xd3, 16), b, len);

		assert_string_equal(io.name,
				    len < 8 ? "NV_ESC_IOCTL_XFER_CMD" : "NV_ESC_RM_CONTROL");
		assert_null(io.control);
	}
}

/* Offsets and lengths at the edge of 32 bits do not wrap. */
static void odd_ranges(void **state)
{
	uint8_t b[32] = {0};
	struct nv_decode_in in = {
		.abi = &abi, .dev = CT_NV_CTL, .cmd = RM(0x2a, 32), .finished = true};
	struct nv_ioctl io;

	set_driver("580.159.04");
	in.exit.r[0] = (struct nv_range){.data = b, .off = UINT32_MAX - 3, .len = 32};
	in.exit.r[1] = (struct nv_range){.data = NULL, .off = 0, .len = 32};
	nv_decode_ioctl(&in, &io);
	assert_int_equal(io.f[NV_R_STATUS].at, NV_AT_UNREADABLE);
	assert_int_equal(io.f[NV_R_CLIENT].at, NV_AT_UNREADABLE);
}

static bool covered(const struct ct_nv_span *s, unsigned off, unsigned len)
{
	for (int i = 0; i < CT_NV_SPANS; i++)
		if (s[i].len && off >= s[i].off && off + len <= (unsigned)s[i].off + s[i].len)
			return true;
	return false;
}

static void check_row(const struct ct_nv_row *row, const struct nv_struct *s)
{
	static const char *const wanted[] = {"rmStatus",      "status",	 "Status",
					     "params.status", "base",	 "length",
					     "rmCtrlFd",      "hClient", "hMemory"};
	const struct ct_nv_plan *c = &row->plan;

	for (size_t i = 0; s && i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		const struct nv_field *f = nv_field_by_name(s, wanted[i]);

		if (f && !covered(c->exit, f->off, f->size))
			fail_msg("%s.%s is not copied", s->name, wanted[i]);
	}
	for (int i = 0; i < CT_NV_SPANS; i++) {
		assert_true(c->exit[i].len <= CT_NV_SPAN_SZ_MAX &&
			    c->entry[i].len <= CT_NV_SPAN_SZ_MAX);
		if (s && row->key.nr != 0xc8 && row->key.nr != 0x2b)
			assert_true(c->exit[i].off + c->exit[i].len <= (int)s->size);
	}
}

static void plan(void **state)
{
	static const char *const drivers[] = {"515.43.04",  "525.147.05", "535.54.03", "550.40.07",
					      "550.163.01", "580.159.04", "595.45.04", "700.1.1"};
	struct ct_nv_row rows[CT_NV_PLANS_MAX];

	for (size_t d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++) {
		unsigned n;

		set_driver(drivers[d]);
		n = nv_plan_rows(&abi, CT_REDACT_NOTHING, rows, CT_NV_PLANS_MAX);
		assert_in_range(n, 60, CT_NV_PLANS_MAX);
		for (unsigned i = 0; i < n; i++) {
			const char *params = NULL;

			for (unsigned k = i + 1; k < n; k++)
				assert_false(rows[i].key.dev == rows[k].key.dev &&
					     rows[i].key.nr == rows[k].key.nr);
			if (rows[i].key.dev == CT_NV_CTL)
				params = nv_escape_by_nr(&abi, rows[i].key.nr, NULL)->params;
			else if (rows[i].key.dev == CT_NV_UVM)
				params = nv_uvm_by_number(&abi, rows[i].key.nr, NULL)->params;
			assert_true(rows[i].plan.exit[0].len > 0);
			assert_int_equal(!!(rows[i].plan.flags & CT_NV_PLAN_XFER),
					 rows[i].key.dev == CT_NV_CTL && rows[i].key.nr == 0xd3);
			check_row(&rows[i], params ? nv_struct_by_name(&abi, params, NULL) : NULL);
		}
		assert_int_equal(nv_plan_rows(&abi, CT_REDACT_NOTHING, NULL, 0), n);
		/* Rows with text. */
		assert_int_equal(nv_plan_rows(&abi, CT_REDACT_STRINGS, NULL, 0), n - 2);
		assert_int_equal(nv_plan_rows(&abi, CT_REDACT_ARGS, NULL, 0), 0);
	}
}

static void params_plan(void **state)
{
	struct ct_nv_params rows[CT_NV_PARAMS_MAX];
	unsigned n, seen = 0;

	set_driver("580.159.04");
	n = nv_plan_param_rows(&abi, CT_REDACT_NOTHING, rows, CT_NV_PARAMS_MAX);
	assert_in_range(n, 15, CT_NV_PARAMS_MAX);
	for (unsigned i = 0; i < n; i++) {
		assert_in_range(rows[i].len, 1, 64);
		seen += rows[i].control == 0xa06c0103 && rows[i].len == 8;
	}
	assert_int_equal(seen, 1);
	assert_int_equal(nv_plan_param_rows(&abi, CT_REDACT_STRINGS, NULL, 0), n);
	assert_int_equal(nv_plan_param_rows(&abi, CT_REDACT_ARGS, NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(truncated),   cmocka_unit_test(truncated_xfer),
		cmocka_unit_test(odd_ranges),  cmocka_unit_test(plan),
		cmocka_unit_test(params_plan),
	};

	return cmocka_run_group_tests_name("nv_hostile", tests, NULL, NULL);
}
