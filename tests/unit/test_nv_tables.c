/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The NVIDIA tables: every row well-formed, numbers unique per version, known values per branch. */
#include "nv_check.h"

#include <stdio.h>
#include <string.h>

static void escape_rows(void **state)
{
	unsigned cnt;
	const struct nv_escape *e = nv_escapes(&cnt);

	assert_int_equal(cnt, 43);
	for (unsigned i = 0; i < cnt; i++) {
		assert_name(e[i].name);
		assert_int_equal(strncmp(e[i].name, "NV_ESC_", 7), 0);
		assert_true(e[i].since <= e[i].until);
		for (unsigned k = i + 1; k < cnt; k++)
			if (e[k].nr == e[i].nr && !e[k].is_short)
				assert_true(e[k].until < e[i].since || e[i].until < e[k].since);
	}
}

static void known_escapes(void **state)
{
	struct nv_abi abi = abi_of("580.159.04"), old = abi_of("525.147.05");
	enum nv_fit fit;

	assert_string_equal(nv_escape_by_nr(&abi, 0x2b, &fit)->name, "NV_ESC_RM_ALLOC");
	assert_string_equal(nv_escape_by_nr(&abi, 0x2b, &fit)->params, "NVOS64_PARAMETERS");
	assert_string_equal(nv_escape_by_nr(&abi, 0x5f, &fit)->name,
			    "NV_ESC_RM_LOCKLESS_DIAGNOSTIC");
	assert_int_equal(fit, NV_FIT_EXACT);
	assert_string_equal(nv_escape_by_nr(&old, 0x5f, &fit)->name, "NV_ESC_RM_NVLOG_CTRL");
	assert_int_equal(fit, NV_FIT_EXACT);
	assert_string_equal(nv_escape_by_nr(&old, 0xda, &fit)->name, "NV_ESC_WAIT_OPEN_COMPLETE");
	assert_int_equal(fit, NV_FIT_OTHER);
	assert_null(nv_escape_by_nr(&abi, 0x99, &fit));
	assert_int_equal(fit, NV_FIT_NONE);
	assert_null(nv_escape_by_nr(&abi, 0x12b, &fit));
}

static void rmctrl_rows(void **state)
{
	unsigned cnt, exported = 0;
	const struct nv_rmctrl *c = nv_rmctrls(&cnt);

	assert_int_equal(cnt, 1963);
	for (unsigned i = 0; i < cnt; i++) {
		assert_name(c[i].name);
		if (i)
			assert_true(c[i - 1].value <= c[i].value);
		assert_int_equal(c[i].partial & ~c[i].branches, 0);
		assert_int_equal(c[i].branches & 0x8000, 0);
		assert_true(c[i].branches || c[i].flags);
		for (const struct nv_size *s = c[i].sizes; s->since != UINT32_MAX; s++) {
			assert_true(s->size < 1 << 20);
			if (s[1].since != UINT32_MAX)
				assert_true(s->since < s[1].since);
		}
		exported += c[i].by != NV_BY_NO && c[i].branches & 1 << 14;
	}
	assert_true(exported >= 1337);
}

/* One name per value and branch. Exceptions: a value to which NVIDIA gave two names, and branches
 * in which a value was reassigned. */
static void rmctrl_unique(void **state)
{
	unsigned cnt;
	const struct nv_rmctrl *c = nv_rmctrls(&cnt);

	for (unsigned i = 0; i < cnt; i++)
		for (unsigned k = i + 1; k < cnt && c[k].value == c[i].value; k++) {
			uint16_t both = c[i].branches & c[k].branches;

			if (c[i].value == 0x2080132a)
				continue;
			assert_int_equal(both & ~(c[i].partial & c[k].partial), 0);
		}
}

static void assert_ctrl(const char *driver, uint32_t value, const char *name, enum nv_fit want,
			int size)
{
	struct nv_abi abi = abi_of(driver);
	enum nv_fit fit;
	const struct nv_rmctrl *c = nv_rmctrl_by_value(&abi, value, &fit);

	assert_non_null(c);
	assert_string_equal(c->name, name);
	assert_int_equal(fit, want);
	assert_int_equal(nv_rmctrl_params_size(&abi, c), size);
}

static void known_controls(void **state)
{
	struct nv_abi abi = abi_of("580.159.04");

	assert_ctrl("580.159.04", 0xa06c0101, "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", NV_FIT_EXACT, 3);
	assert_ctrl("570.211.01", 0xa06c0101, "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE", NV_FIT_EXACT, 2);
	assert_ctrl("515.43.04", 0x102, "NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO", NV_FIT_EXACT, 100);
	assert_ctrl("550.163.01", 0x102, "NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO", NV_FIT_EXACT, 104);
	assert_ctrl("595.45.04", 0x102, "NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO", NV_FIT_EXACT, 108);
	assert_ctrl("550.163.01", 0x12b, "NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2", NV_FIT_EXACT,
		    8348);
	assert_ctrl("535.288.01", 0x12b, "NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2", NV_FIT_EXACT,
		    4252);
	assert_ctrl("535.54.03", 0x604, nv_rmctrl_by_value(&abi, 0x604, NULL)->name, NV_FIT_EXACT,
		    1068);
	assert_ctrl("535.288.01", 0x604, nv_rmctrl_by_value(&abi, 0x604, NULL)->name, NV_FIT_EXACT,
		    15404);
	/* A value whose name changed. */
	assert_ctrl("535.288.01", 0x107, "NV0000_CTRL_CMD_SYSTEM_SET_MEMORY_SIZE", NV_FIT_EXACT, 4);
	assert_ctrl("580.159.04", 0x107, "NV0000_CTRL_SYSTEM_GET_VRR_COOKIE_PRESENT", NV_FIT_EXACT,
		    1);
	/* A removed control keeps its name, with a flag. */
	assert_ctrl("595.45.04", 0x103, "NV0000_CTRL_CMD_SYSTEM_GET_CAPS", NV_FIT_OTHER, -1);
	assert_ctrl("550.163.01", 0x20803401, "NV2080_CTRL_CMD_ECC_GET_VOLATILE_COUNTS",
		    NV_FIT_PARTIAL,
		    nv_rmctrl_params_size(&abi, nv_rmctrl_by_value(&abi, 0x20803401, NULL)));
	assert_int_equal(nv_rmctrl_by_value(&abi, 0xa06c0105, NULL)->by, NV_BY_GSP);
	assert_int_equal(nv_rmctrl_by_value(&abi, 0xa06c0101, NULL)->by, NV_BY_CPU);
	assert_true(nv_rmctrl_by_value(&abi, 0x0080028b, NULL)->flags & NV_CTRL_UNPUB);
	assert_string_equal(nv_rmctrl_by_value(&abi, 0, NULL)->name, "NV0000_CTRL_CMD_NULL");
	assert_null(nv_rmctrl_by_value(&abi, 0xffffffff, NULL));
	assert_null(nv_rmctrl_by_value(&abi, 0x20800001, NULL));
}

static void assert_described(const char *driver, uint32_t value, const char *text)
{
	struct nv_abi abi = abi_of(driver);
	char buf[96];

	nv_rmctrl_describe(&abi, value, buf, sizeof(buf));
	assert_string_equal(buf, text);
}

static void described_controls(void **state)
{
	struct nv_abi abi = abi_of("580.159.04");
	char tiny[4];

	assert_described("580.159.04", 0xc36f0108, "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN");
	assert_described("580.159.04", 0x20808a12, "GSS legacy 0x2080 0x0a 0x12");
	assert_described("580.159.04", 0x2080d234, "GSS legacy 0x2080 0x12 0x34 privileged");
	/* Published, in spite of the bit. */
	assert_described("595.45.04", 0x20808513,
			 "NV2080_CTRL_CMD_THERMAL_SYSTEM_EXECUTE_V2_PHYSICAL");
	/* The class exists, but not this control; an H200's libcuda sends the first. */
	assert_described("580.159.04", 0x20810108, "NV2081_BINAPI 0x0108");
	assert_described("580.159.04", 0x20800001, "NV20_SUBDEVICE_0 0x0001");
	assert_described("580.159.04", 0x12340001, "0x12340001");
	assert_described("580.159.04", 0x12340000, "NVXXXX_CTRL_CMD_NULL of class 0x1234");
	nv_rmctrl_describe(&abi, 0xc36f0108, tiny, sizeof(tiny));
	assert_string_equal(tiny, "NVC");
}

static void class_rows(void **state)
{
	struct nv_abi abi = abi_of("580.159.04"), old = abi_of("515.43.04");
	unsigned cnt;
	const struct nv_class *c = nv_classes(&cnt);
	enum nv_fit fit;

	assert_int_equal(cnt, 289);
	for (unsigned i = 0; i < cnt; i++) {
		assert_name(c[i].name);
		if (i)
			assert_true(c[i - 1].number < c[i].number);
		assert_ptr_equal(nv_class_by_number(&abi, c[i].number, NULL), &c[i]);
	}
	assert_string_equal(nv_class_by_number(&abi, 0xc86f, &fit)->name,
			    "HOPPER_CHANNEL_GPFIFO_A");
	assert_int_equal(fit, NV_FIT_EXACT);
	nv_class_by_number(&old, 0xc86f, &fit);
	assert_int_equal(fit, NV_FIT_OTHER);
	assert_int_equal(nv_class_params_size(&abi, nv_class_by_number(&abi, 0xc86f, NULL)), 368);
	assert_int_equal(nv_class_params_size(&old, nv_class_by_number(&old, 0xc46f, NULL)), 304);
	assert_null(nv_class_by_number(&abi, 0xffff, &fit));
	assert_null(nv_class_by_number(&abi, UINT32_MAX, &fit));
}

static void uvm_rows(void **state)
{
	struct nv_abi abi = abi_of("580.159.04"), old = abi_of("570.211.01");
	unsigned cnt, tests = 0;
	const struct nv_uvm *u = nv_uvms(&cnt);
	enum nv_fit fit;

	assert_int_equal(cnt, 182);
	for (unsigned i = 0; i < cnt; i++) {
		assert_name(u[i].name);
		tests += u[i].is_test;
		for (unsigned k = i + 1; k < cnt; k++)
			assert_int_not_equal(u[i].number, u[k].number);
	}
	assert_int_equal(tests, 105);
	assert_string_equal(nv_uvm_by_number(&abi, 0x30000001, &fit)->name, "UVM_INITIALIZE");
	assert_string_equal(nv_uvm_by_number(&abi, 33, &fit)->name, "UVM_MAP_EXTERNAL_ALLOCATION");
	assert_int_equal(fit, NV_FIT_EXACT);
	assert_string_equal(nv_uvm_by_number(&abi, 80, &fit)->name, "UVM_DISCARD");
	assert_int_equal(fit, NV_FIT_EXACT);
	nv_uvm_by_number(&old, 80, &fit);
	assert_int_equal(fit, NV_FIT_OTHER);
	assert_null(nv_uvm_by_number(&abi, 81, &fit));
}

static void status_rows(void **state)
{
	struct nv_abi a550 = abi_of("550.163.01"), a570 = abi_of("570.211.01");
	struct nv_abi a580 = abi_of("580.159.04"), a595 = abi_of("595.45.04");
	unsigned cnt;
	const struct nv_status_row *s = nv_statuses(&cnt);
	enum nv_fit fit;

	assert_int_equal(cnt, 154);
	for (unsigned i = 0; i < cnt; i++) {
		assert_name(s[i].name);
		if (i)
			assert_true(s[i - 1].value <= s[i].value);
		for (unsigned k = i + 1; k < cnt && s[k].value == s[i].value; k++)
			assert_true(s[k].until < s[i].since || s[i].until < s[k].since);
	}
	assert_string_equal(nv_status_name(&a580, 0, NULL), "NV_OK");
	assert_string_equal(nv_status_name(&a580, 0x56, NULL), "NV_ERR_NOT_SUPPORTED");
	assert_string_equal(nv_status_name(&a550, 0x81, NULL), "NV_ERR_NVSWITCH_FABRIC_NOT_READY");
	assert_string_equal(nv_status_name(&a570, 0x81, &fit), "NV_ERR_NVLINK_FABRIC_NOT_READY");
	assert_int_equal(fit, NV_FIT_EXACT);
	assert_string_equal(nv_status_name(&a580, 0x8b, NULL), "NV_ERR_DMA_XFER_FAILED");
	assert_string_equal(nv_status_name(&a595, 0x8b, NULL), "NV_ERR_OPERATION_ABORTED");
	assert_string_equal(nv_status_name(&a595, 0x8c, NULL), "NV_ERR_DMA_XFER_FAILED");
	assert_null(nv_status_name(&a595, 0x7fffffff, &fit));
	assert_int_equal(fit, NV_FIT_NONE);
}

static void kms_rows(void **state)
{
	struct nv_abi a550 = abi_of("550.163.01"), a570 = abi_of("570.211.01");
	struct nv_abi a580 = abi_of("580.159.04"), a560 = abi_of("560.35.03");
	unsigned cnt;
	const struct nv_kms *k = nv_kms_rows(&cnt);
	enum nv_fit fit;

	assert_int_equal(cnt, 66);
	for (unsigned r = 0; r < NV_KMS_RELEASES; r++)
		for (unsigned i = 0; i < cnt; i++)
			for (unsigned j = i + 1; j < cnt; j++)
				assert_true(k[i].cmd[r] < 0 || k[i].cmd[r] != k[j].cmd[r]);
	assert_string_equal(nv_kms_name(&a550, 14, &fit), "NVKMS_IOCTL_FLIP");
	assert_string_equal(nv_kms_name(&a570, 15, &fit), "NVKMS_IOCTL_FLIP");
	assert_string_equal(nv_kms_name(&a580, 15, &fit), "NVKMS_IOCTL_FLIP");
	assert_int_equal(fit, NV_FIT_EXACT);
	assert_string_equal(nv_kms_name(&a560, 2, &fit), "NVKMS_IOCTL_QUERY_DISP");
	assert_int_equal(fit, NV_FIT_EXACT);
	nv_kms_name(&a560, 15, &fit);
	assert_int_equal(fit, NV_FIT_OTHER);
	assert_null(nv_kms_name(&a580, 1000, &fit));
}

static void sched_rows(void **state)
{
	struct nv_abi abi = abi_of("580.159.04");
	unsigned cnt, ctrl_cnt;
	const struct nv_sched *s = nv_scheds(&cnt);
	const struct nv_rmctrl *c = nv_rmctrls(&ctrl_cnt);

	for (unsigned i = 0; i < cnt; i++) {
		bool found = false;
		char field[64];

		assert_true(*s[i].op && *s[i].text);
		for (unsigned k = 0; k < ctrl_cnt; k++)
			found |= c[k].value == s[i].value && !strcmp(c[k].name, s[i].name);
		if (!found)
			fail_msg("%s is not 0x%08x", s[i].name, s[i].value);
		assert_ptr_equal(nv_sched_by_value(s[i].value), &s[i]);
		assert_true(!*s[i].fields || s[i].params);
		for (const char *f = s[i].fields; *f; f += *f == ',') {
			size_t n = strcspn(f, ",");

			assert_true(n < sizeof(field));
			snprintf(field, sizeof(field), "%.*s", (int)n, f);
			assert_non_null(nv_field_by_name(nv_struct_by_name(&abi, s[i].params, NULL),
							 field));
			f += n;
		}
	}
	assert_null(nv_sched_by_value(0x102));
}

static void sched_values(void **state)
{
	struct nv_abi abi = abi_of("580.159.04");
	const uint8_t on[3] = {1, 0, 0};
	const uint64_t us = 2000;
	char buf[64], tiny[6];

	nv_sched_describe(&abi, nv_sched_by_value(0xa06c0101), on, 3, buf, sizeof(buf));
	assert_string_equal(buf, "bEnable=1 bSkipSubmit=0");
	nv_sched_describe(&abi, nv_sched_by_value(0xa06c0101), on, 1, buf, sizeof(buf));
	assert_string_equal(buf, "bEnable=1 bSkipSubmit=?");
	nv_sched_describe(&abi, nv_sched_by_value(0xa06c0101), NULL, 0, buf, sizeof(buf));
	assert_string_equal(buf, "bEnable=? bSkipSubmit=?");
	nv_sched_describe(&abi, nv_sched_by_value(0xa06c0103), &us, 8, buf, sizeof(buf));
	assert_string_equal(buf, "timesliceUs=2000");
	nv_sched_describe(&abi, nv_sched_by_value(0xa06f0109), &us, 8, buf, sizeof(buf));
	assert_string_equal(buf, "");
	nv_sched_describe(&abi, nv_sched_by_value(0xa06c0101), on, 3, tiny, sizeof(tiny));
	assert_string_equal(tiny, "bEnab");
}

static void xid_rows(void **state)
{
	unsigned cnt;
	const struct nv_xid *x = nv_xids(&cnt);

	for (unsigned i = 0; i < cnt; i++) {
		assert_true(x[i].number && *x[i].text);
		if (i)
			assert_true(x[i - 1].number < x[i].number);
	}
	assert_non_null(nv_xid_text(79));
	assert_null(nv_xid_text(0));
	assert_null(nv_xid_text(9999));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escape_rows),	  cmocka_unit_test(known_escapes),
		cmocka_unit_test(rmctrl_rows),	  cmocka_unit_test(rmctrl_unique),
		cmocka_unit_test(known_controls), cmocka_unit_test(described_controls),
		cmocka_unit_test(class_rows),	  cmocka_unit_test(uvm_rows),
		cmocka_unit_test(status_rows),	  cmocka_unit_test(kms_rows),
		cmocka_unit_test(sched_rows),	  cmocka_unit_test(sched_values),
		cmocka_unit_test(xid_rows),
	};

	return cmocka_run_group_tests_name("nv_tables", tests, NULL, NULL);
}
