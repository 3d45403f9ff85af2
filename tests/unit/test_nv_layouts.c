/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Driver versions, and the layouts of parameter structs that go with them. */
#include "nv_check.h"

#include <string.h>

static const char *const drivers[] = {
	"515.43.04",  "520.61.07", "525.147.05", "530.41.03", "535.54.03", "535.288.01",
	"545.29.06",  "550.40.07", "550.163.01", "555.58.02", "560.35.03", "565.77",
	"570.211.01", "575.64.05", "580.159.04", "590.48.01", "595.45.04",
};

#define DRIVER_CNT (sizeof(drivers) / sizeof(drivers[0]))

static void version_text(void **state)
{
	struct nv_version v;

	assert_true(nv_version_parse("580.159.04", &v));
	assert_int_equal(v.major, 580);
	assert_int_equal(v.minor, 159);
	assert_int_equal(v.patch, 4);
	assert_true(nv_version_parse("565.77\n", &v));
	assert_int_equal(v.patch, 0);
	assert_false(nv_version_parse("", &v));
	assert_false(nv_version_parse("580", &v));
	assert_false(nv_version_parse("580.", &v));
	assert_false(nv_version_parse("580.1.", &v));
	assert_false(nv_version_parse("580.159.04x", &v));
	assert_false(nv_version_parse("12.2.0", &v));
	assert_false(nv_version_parse("99999999999.1.1", &v));
	assert_false(nv_version_parse("580.4096.1", &v));
}

static void branch_of_version(void **state)
{
	struct nv_abi abi = abi_of("580.159.04");
	struct nv_version huge = {4000000, 4000000, 4000000};

	assert_int_equal(nv_abi_branch(&abi), 580);
	assert_int_equal(abi.known, NV_KNOWN);
	assert_null(nv_abi_caveat(&abi));
	abi = abi_of("540.10.01");
	assert_int_equal(nv_abi_branch(&abi), 535);
	abi = abi_of("610.43.02");
	assert_int_equal(nv_abi_branch(&abi), 595);
	assert_int_equal(abi.known, NV_KNOWN_NEWER);
	assert_non_null(nv_abi_caveat(&abi));
	abi = abi_of("470.199.02");
	assert_int_equal(nv_abi_branch(&abi), 515);
	assert_int_equal(abi.known, NV_KNOWN_OLDER);
	nv_abi_init(&abi, NULL);
	assert_int_equal(abi.known, NV_KNOWN_NOTHING);
	assert_int_equal(nv_abi_branch(&abi), 595);
	nv_abi_init(&abi, &huge);
	assert_int_equal(abi.known, NV_KNOWN_NEWER);
}

static void struct_rows(void **state)
{
	unsigned cnt;
	const struct nv_struct *s = nv_structs(&cnt);

	assert_int_equal(cnt, 218);
	for (unsigned i = 0; i < cnt; i++) {
		assert_name(s[i].name);
		assert_true(s[i].field_cnt > 0);
		assert_true(s[i].since <= s[i].until);
		if (i) {
			int order = strcmp(s[i - 1].name, s[i].name);

			assert_true(order < 0 || (!order && s[i - 1].since < s[i].since));
		}
		for (unsigned f = 0; f < s[i].field_cnt; f++) {
			assert_name(s[i].fields[f].name);
			assert_true(s[i].fields[f].size > 0);
			assert_true(s[i].fields[f].off + s[i].fields[f].size <= s[i].size);
		}
	}
	for (unsigned d = 0; d < DRIVER_CNT; d++) {
		struct nv_abi abi = abi_of(drivers[d]);

		for (unsigned i = 0; i < cnt; i++) {
			enum nv_fit fit;
			const struct nv_struct *hit = nv_struct_by_name(&abi, s[i].name, &fit);

			assert_string_equal(hit->name, s[i].name);
			assert_true(fit == NV_FIT_OTHER || hit->since <= abi.key);
		}
	}
}

struct known_field {
	const char *driver, *name;
	unsigned size;
	const char *field;
	unsigned off;
};

static void known_layouts(void **state)
{
	static const struct known_field known[] = {
		{"515.43.04", "NVOS64_PARAMETERS", 40, "status", 32},
		{"520.61.07", "NVOS64_PARAMETERS", 40, "status", 32},
		{"525.147.05", "NVOS64_PARAMETERS", 40, "status", 36},
		{"530.41.03", "NVOS64_PARAMETERS", 40, "status", 36},
		{"535.54.03", "NVOS64_PARAMETERS", 48, "status", 40},
		{"595.45.04", "NVOS64_PARAMETERS", 48, "status", 40},
		{"530.41.03", "NVOS21_PARAMETERS", 32, "status", 24},
		{"535.54.03", "NVOS21_PARAMETERS", 32, "status", 28},
		{"575.64.05", "NVOS46_PARAMETERS", 56, "status", 48},
		{"580.159.04", "NVOS46_PARAMETERS", 64, "status", 56},
		{"545.29.06", "NVOS47_PARAMETERS", 40, "status", 32},
		{"550.163.01", "NVOS47_PARAMETERS", 48, "status", 40},
		{"515.43.04", "NVOS54_PARAMETERS", 32, "status", 28},
		{"595.45.04", "NVOS54_PARAMETERS", 32, "status", 28},
		{"530.41.03", "nv_ioctl_numa_info_t", 552, "status", 4},
		{"580.159.04", "nv_ioctl_numa_info_t", 560, "use_auto_online", 32},
		{"565.77", "nv_ioctl_export_to_dma_buf_fd_t", 2600, "status", 2592},
		{"570.211.01", "nv_ioctl_export_to_dma_buf_fd_t", 2608, "status", 2600},
		{"550.40.07", "UVM_MAP_EXTERNAL_ALLOCATION_PARAMS", 1200, "rmStatus", 1196},
		{"550.163.01", "UVM_MAP_EXTERNAL_ALLOCATION_PARAMS", 9264, "rmStatus", 9260},
		{"580.159.04", "UVM_MAP_EXTERNAL_ALLOCATION_PARAMS", 9264, "rmCtrlFd", 9248},
		{"545.29.06", "UVM_ALLOC_SEMAPHORE_POOL_PARAMS", 1184, "rmStatus", 1176},
		{"570.211.01", "UVM_ALLOC_SEMAPHORE_POOL_PARAMS", 9248, "rmStatus", 9240},
		{"580.159.04", "UVM_FREE_PARAMS", 24, "rmStatus", 16},
		{"590.48.01", "UVM_FREE_PARAMS", 16, "rmStatus", 8},
		{"595.45.04", "UVM_FREE_PARAMS", 16, "rmStatus", 8},
		{"580.159.04", "UVM_UNREGISTER_CHANNEL_PARAMS", 28, "rmStatus", 24},
		{"590.48.01", "UVM_UNREGISTER_CHANNEL_PARAMS", 12, "rmStatus", 8},
		{"545.29.06", "UVM_SET_PREFERRED_LOCATION_PARAMS", 40, "rmStatus", 32},
		{"550.40.07", "UVM_SET_PREFERRED_LOCATION_PARAMS", 40, "rmStatus", 36},
		{"555.58.02", "UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS", 64, "rmStatus", 48},
		{"560.35.03", "UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS", 56, "rmStatus", 52},
		{"565.77", "UVM_TOOLS_INIT_EVENT_TRACKER_PARAMS", 56, "rmStatus", 48},
		{"515.43.04", "UVM_MIGRATE_PARAMS", 80, "rmStatus", 72},
		{"595.45.04", "UVM_MIGRATE_PARAMS", 80, "rmStatus", 72},
		{"535.54.03", "NV_CHANNEL_ALLOC_PARAMS", 304, "engineType", 128},
		{"535.288.01", "NV_CHANNEL_ALLOC_PARAMS", 360, "engineType", 128},
		{"570.211.01", "NV_CHANNEL_ALLOC_PARAMS", 368, "tpcConfigID", 360},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct nv_abi abi = abi_of(known[i].driver);
		enum nv_fit fit;
		const struct nv_struct *s = nv_struct_by_name(&abi, known[i].name, &fit);
		const struct nv_field *f;

		assert_non_null(s);
		f = nv_field_by_name(s, known[i].field);
		if (!f || s->size != known[i].size || f->off != known[i].off || fit != NV_FIT_EXACT)
			fail_msg("%s of %s: %s", known[i].name, known[i].driver, known[i].field);
	}
}

static void struct_choice(void **state)
{
	struct nv_abi abi = abi_of("550.163.01"), newer = abi_of("620.1.1"),
		      old = abi_of("470.1.1");
	enum nv_fit fit;

	assert_null(nv_struct_by_name(&abi, "NO_SUCH_PARAMS", &fit));
	assert_int_equal(fit, NV_FIT_NONE);
	nv_struct_by_name(&abi, "UVM_DISCARD_PARAMS", &fit);
	assert_int_equal(fit, NV_FIT_OTHER);
	assert_int_equal(nv_struct_by_name(&newer, "UVM_FREE_PARAMS", &fit)->size, 16);
	assert_int_equal(fit, NV_FIT_EXACT);
	assert_int_equal(nv_struct_by_name(&old, "NVOS64_PARAMETERS", &fit)->size, 40);
	assert_int_equal(fit, NV_FIT_EXACT);
	assert_int_equal(nv_struct_by_size("NVOS64_PARAMETERS", 48)->size, 48);
	assert_null(nv_struct_by_size("NVOS64_PARAMETERS", 40));
	assert_null(nv_struct_by_size("NVOS64_PARAMETERS", 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_text),	 cmocka_unit_test(branch_of_version),
		cmocka_unit_test(struct_rows),	 cmocka_unit_test(known_layouts),
		cmocka_unit_test(struct_choice),
	};

	return cmocka_run_group_tests_name("nv_layouts", tests, NULL, NULL);
}
