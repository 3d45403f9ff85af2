/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Decoding of one ioctl: blocks as libcuda sends them, by driver version. */
#include "test_nv_decode.h"

static void rm_control(void **state)
{
	uint8_t b[32] = {0};
	struct nv_ioctl io;

	set_driver("580.159.04");
	put32(b, 0, 0xc1d00001);
	put32(b, 4, 0x5c000001);
	put32(b, 8, 0xa06c0101);
	put64(b, 16, 0x7fff00001000);
	put32(b, 24, 3);
	put32(b, 28, 0x56);
	io = decode(CT_NV_CTL, RM(0x2a, 32), b, 32);
	assert_string_equal(io.name, "NV_ESC_RM_CONTROL");
	assert_string_equal(io.control->name, "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE");
	assert_string_equal(io.control->params, "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS");
	assert_string_equal(io.sched->op, "schedule");
	assert_value(io, NV_R_CLIENT, 0xc1d00001);
	assert_value(io, NV_R_OBJECT, 0x5c000001);
	assert_value(io, NV_R_PARAMS, 0x7fff00001000);
	assert_value(io, NV_R_PARAMS_SIZE, 3);
	assert_value(io, NV_R_STATUS, 0x56);
	assert_string_equal(io.status_name, "NV_ERR_NOT_SUPPORTED");
	assert_int_equal(io.notes, 0);
	assert_int_equal(io.f[NV_R_FD].at, NV_AT_NONE);
	put32(b, 24, 2);
	io = decode(CT_NV_CTL, RM(0x2a, 32), b, 32);
	assert_int_equal(io.notes, NV_NOTE_PARAMS_SIZE);
	/* The size matters; the type byte and the direction do not. */
	assert_string_equal(decode(CT_NV_CTL, 0x0020002a, b, 32).control->name,
			    "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE");
	io = decode(CT_NV_CTL, RM(0x2a, 24), b, 32);
	assert_int_equal(io.notes, NV_NOTE_SIZE_MISMATCH);
	assert_null(io.control);
	assert_int_equal(io.f[NV_R_STATUS].at, NV_AT_NONE);
}

static void rm_control_kinds(void **state)
{
	uint8_t b[32] = {0};
	struct nv_ioctl io;

	set_driver("580.159.04");
	put32(b, 8, 0x20808a12);
	io = decode(CT_NV_CTL, RM(0x2a, 32), b, 32);
	assert_null(io.control);
	assert_int_equal(io.notes, NV_NOTE_GSS_LEGACY);
	put32(b, 8, 0x20800001);
	io = decode(CT_NV_CTL, RM(0x2a, 32), b, 32);
	assert_int_equal(io.notes, NV_NOTE_UNKNOWN);
	put32(b, 8, 0x00000103);
	io = decode(CT_NV_CTL, RM(0x2a, 32), b, 32);
	assert_string_equal(io.control->name, "NV0000_CTRL_CMD_SYSTEM_GET_CAPS");
	assert_int_equal(io.notes, NV_NOTE_OTHER_VERSION);
	put32(b, 8, 0x0080028b);
	io = decode(CT_NV_CTL, RM(0x2a, 32), b, 32);
	assert_true(io.notes & NV_NOTE_UNPUBLISHED);
	put32(b, 8, 0xc86f0000);
	io = decode(CT_NV_CTL, RM(0x2a, 32), b, 32);
	assert_int_equal(io.notes & NV_NOTE_UNKNOWN, 0);
}

/* The same 32 or 40 bytes mean something else before and after 525 and 535. */
static void rm_alloc_forms(void **state)
{
	static const struct {
		const char *driver;
		uint32_t size, status;
	} forms[] = {
		{"515.43.04", 32, 24},	{"515.43.04", 40, 32},	{"525.147.05", 32, 24},
		{"525.147.05", 40, 36}, {"535.54.03", 32, 28},	{"535.54.03", 48, 40},
		{"550.163.01", 48, 40}, {"570.211.01", 32, 28}, {"580.159.04", 48, 40},
		{"590.48.01", 48, 40},	{"595.45.04", 48, 40},	{"610.1.1", 48, 40},
		{"470.1.1", 40, 32},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		uint8_t b[48];
		struct nv_ioctl io;

		set_driver(forms[i].driver);
		memset(b, 0xee, sizeof(b));
		put32(b, 0, 0xc1d00001);
		put32(b, 4, 0x5c000000);
		put32(b, 8, 0x5c000001);
		put32(b, 12, 0xc56f);
		put32(b, forms[i].status, 0x51);
		io = decode(CT_NV_CTL, RM(0x2b, forms[i].size), b, forms[i].size);
		assert_string_equal(io.name, "NV_ESC_RM_ALLOC");
		assert_string_equal(io.class->name, "AMPERE_CHANNEL_GPFIFO_A");
		assert_value(io, NV_R_CLIENT, 0xc1d00001);
		assert_value(io, NV_R_PARENT, 0x5c000000);
		assert_value(io, NV_R_NEW, 0x5c000001);
		assert_value(io, NV_R_STATUS, 0x51);
		assert_string_equal(io.status_name, "NV_ERR_NO_MEMORY");
	}
	/* 48 bytes can only be 535's form; 40 bytes have no meaning on a newer driver. */
	set_driver("525.147.05");
	{
		uint8_t b[48] = {0};
		struct nv_ioctl io = decode(CT_NV_CTL, RM(0x2b, 48), b, 48);

		assert_int_equal(io.notes & ~NV_NOTE_NEW_CLIENT, NV_NOTE_LAYOUT_BY_SIZE);
		set_driver("580.159.04");
		io = decode(CT_NV_CTL, RM(0x2b, 40), b, 40);
		assert_int_equal(io.notes, NV_NOTE_SIZE_MISMATCH);
		assert_int_equal(io.f[NV_R_STATUS].at, NV_AT_NONE);
	}
}

static void root_client(void **state)
{
	uint8_t in_b[48] = {0}, b[48] = {0};
	struct nv_decode_in in = {.abi = &abi, .dev = CT_NV_CTL, .cmd = RM(0x2b, 48)};
	struct nv_ioctl io;

	set_driver("580.159.04");
	put32(in_b, 12, 0x41);
	memcpy(b, in_b, sizeof(b));
	put32(b, 8, 0xc1d00007);
	io = decode(CT_NV_CTL, RM(0x2b, 48), b, 48);
	assert_true(io.notes & NV_NOTE_NEW_CLIENT);
	assert_value(io, NV_R_CLIENT, 0xc1d00007);
	/* Not yet returned: the handle that the driver will make is missing. */
	in.entry.r[0] = exact(in_b, 0, 48);
	nv_decode_ioctl(&in, &io);
	assert_int_equal(io.f[NV_R_NEW].at, NV_AT_UNREADABLE);
	assert_int_equal(io.f[NV_R_CLIENT].at, NV_AT_UNREADABLE);
	assert_int_equal(io.f[NV_R_CLASS].at, NV_AT_ENTRY);
	assert_int_equal(io.f[NV_R_STATUS].at, NV_AT_STALE);
	assert_null(io.status_name);
	drop(&in.entry.r[0]);
}

/* If ioctl() itself failed, the status field has the caller's value. */
static void failed_ioctl(void **state)
{
	uint8_t b[32] = {0};
	struct nv_decode_in in = {
		.abi = &abi, .dev = CT_NV_CTL, .cmd = RM(0x2a, 32), .finished = true, .ret = -22};
	struct nv_ioctl io;

	set_driver("580.159.04");
	put32(b, 8, 0x102);
	in.exit.r[0] = exact(b, 0, 32);
	nv_decode_ioctl(&in, &io);
	assert_int_equal(io.f[NV_R_STATUS].at, NV_AT_STALE);
	assert_null(io.status_name);
	assert_string_equal(io.control->name, "NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO");
	drop(&in.exit.r[0]);
}

static void xfer(void **state)
{
	uint8_t outer[16] = {0}, b[48] = {0};
	struct nv_decode_in in = {
		.abi = &abi, .dev = CT_NV_CTL, .cmd = RM(0xd3, 16), .finished = true};
	struct nv_ioctl io;

	set_driver("580.159.04");
	put32(outer, 0, 0x2b);
	put32(outer, 4, 48);
	put64(outer, 8, 0x7000);
	put32(b, 12, 0xcbc0);
	put32(b, 8, 0x5c000009);
	in.entry.r[0] = exact(outer, 0, 16);
	nv_decode_ioctl(&in, &io);
	assert_string_equal(io.name, "NV_ESC_RM_ALLOC");
	assert_true(io.notes & NV_NOTE_XFER);
	assert_int_equal(io.size, 48);
	assert_int_equal(io.f[NV_R_NEW].at, NV_AT_UNREADABLE);
	assert_int_equal(io.f[NV_R_STATUS].at, NV_AT_UNREADABLE);
	in.inner_exit.r[0] = exact(b, 0, 48);
	nv_decode_ioctl(&in, &io);
	assert_value(io, NV_R_NEW, 0x5c000009);
	assert_string_equal(io.class->name, "HOPPER_COMPUTE_A");
	drop(&in.entry.r[0]);
	/* The outer block is unreadable. */
	nv_decode_ioctl(&in, &io);
	assert_string_equal(io.name, "NV_ESC_IOCTL_XFER_CMD");
	assert_int_equal(io.f[NV_R_FUNCTION].at, NV_AT_UNREADABLE);
	/* It is not unwrapped twice. */
	put32(outer, 0, 0xd3);
	in.entry.r[0] = exact(outer, 0, 16);
	nv_decode_ioctl(&in, &io);
	assert_true(io.notes & NV_NOTE_UNKNOWN);
	assert_null(io.name);
	drop(&in.entry.r[0]);
	drop(&in.inner_exit.r[0]);
}

static void heap_control(void **state)
{
	uint8_t b[184] = {0};
	struct nv_ioctl io;

	set_driver("580.159.04");
	put32(b, 8, 2);
	put32(b, 44, 0x5c000010);
	put64(b, 88, 1 << 21);
	io = decode(CT_NV_CTL, RM(0x4a, 184), b, 184);
	assert_string_equal(io.function, "ALLOC_SIZE");
	assert_value(io, NV_R_NEW, 0x5c000010);
	assert_value(io, NV_R_LENGTH, 1 << 21);
	put32(b, 8, 3);
	io = decode(CT_NV_CTL, RM(0x4a, 184), b, 184);
	assert_string_equal(io.function, "FREE");
	assert_value(io, NV_R_OBJECT, 0x5c000010);
	put32(b, 8, 27);
	put32(b, 40, 0x5c000011);
	put64(b, 64, 0x7f0000000000);
	put64(b, 72, 4095);
	io = decode(CT_NV_CTL, RM(0x4a, 184), b, 184);
	assert_string_equal(io.function, "ALLOC_OS_DESCRIPTOR");
	assert_value(io, NV_R_NEW, 0x5c000011);
	assert_value(io, NV_R_ADDRESS, 0x7f0000000000);
	assert_value(io, NV_R_LENGTH, 4096);
	put32(b, 8, 77);
	assert_null(decode(CT_NV_CTL, RM(0x4a, 184), b, 184).function);
}

static void other_escapes(void **state)
{
	uint8_t b[72] = {0};
	struct nv_ioctl io;

	set_driver("580.159.04");
	put64(b, 24, 0x10000);
	put64(b, 32, 0x7f1234560000);
	put32(b, 48, 0xffffffff);
	io = decode(CT_NV_CTL, RM(0x4e, 56), b, 56);
	assert_string_equal(io.name, "NV_ESC_RM_MAP_MEMORY");
	assert_value(io, NV_R_LENGTH, 0x10000);
	assert_value(io, NV_R_ADDRESS, 0x7f1234560000);
	assert_value(io, NV_R_FD, (uint64_t)-1);
	memset(b, 0, sizeof(b));
	put32(b, 0, 7);
	io = decode(CT_NV_GPU, RM(0xc9, 4), b, 4);
	assert_string_equal(io.name, "NV_ESC_REGISTER_FD");
	assert_value(io, NV_R_FD, 7);
	put32(b, 8, 0x5c000002);
	put32(b, 12, 0xc1d00002);
	put32(b, 16, 0x5c000003);
	io = decode(CT_NV_CTL, RM(0x34, 28), b, 28);
	assert_value(io, NV_R_NEW, 0x5c000002);
	assert_value(io, NV_R_SRC_CLIENT, 0xc1d00002);
	assert_value(io, NV_R_SRC_OBJECT, 0x5c000003);
	io = decode(CT_NV_CTL, RM(0xce, 16), b, 16);
	assert_string_equal(io.name, "NV_ESC_ALLOC_OS_EVENT");
	assert_value(io, NV_R_FD, 0x5c000002);
	assert_value(io, NV_R_STATUS, 0xc1d00002);
	assert_null(io.status_name);
	io = decode(CT_NV_CTL, RM(0x5c, 16), b, 16);
	assert_int_equal(io.notes, NV_NOTE_NOT_HANDLED);
	io = decode(CT_NV_CTL, RM(0x99, 16), b, 16);
	assert_int_equal(io.notes, NV_NOTE_UNKNOWN);
	assert_int_equal(io.nr, 0x99);
	io = decode(CT_NV_OTHER, 0xc0105501, b, 16);
	assert_int_equal(io.nr, 0xc0105501);
}

static void version_string(void **state)
{
	uint8_t b[72] = {0}, after[72];
	struct nv_decode_in in = {
		.abi = &abi, .dev = CT_NV_CTL, .cmd = RM(0xd2, 72), .finished = true};
	struct nv_ioctl io;

	set_driver("580.159.04");
	strcpy((char *)b + 8, "580.\x01\n\xff");
	memset(after, 'x', sizeof(after));
	in.entry.r[0] = exact(b, 0, 72);
	in.exit.r[0] = exact(after, 0, 72);
	nv_decode_ioctl(&in, &io);
	assert_string_equal(io.lib_version, "580.???");
	assert_int_equal(strlen(io.driver_version), 63);
	drop(&in.entry.r[0]);
	drop(&in.exit.r[0]);
}

static void card_info(void **state)
{
	uint8_t b[2304] = {0};
	struct nv_decode_in in = {
		.abi = &abi, .dev = CT_NV_CTL, .cmd = RM(0xc8, 2304), .finished = true};
	struct nv_ioctl io;

	set_driver("580.159.04");
	b[72] = 1;
	put32(b, 72 + 4, 0x10);
	b[72 + 8] = 0x3b;
	put32(b, 72 + 16, 0x3b00);
	put32(b, 72 + 56, 5);
	in.exit.r[0] = exact(b, 0, 216);
	in.exit.r[1] = exact(b, 216, 216);
	nv_decode_ioctl(&in, &io);
	assert_int_equal(io.card_cnt, 6);
	assert_true(io.notes & NV_NOTE_TRUNCATED);
	assert_false(io.cards[0].valid);
	assert_true(io.cards[1].valid);
	assert_int_equal(io.cards[1].domain, 0x10);
	assert_int_equal(io.cards[1].bus, 0x3b);
	assert_int_equal(io.cards[1].gpu_id, 0x3b00);
	assert_int_equal(io.cards[1].minor, 5);
	drop(&in.exit.r[0]);
	drop(&in.exit.r[1]);
	io = decode(CT_NV_CTL, RM(0xd4, 12), b, 12);
	assert_int_equal(io.gpu_id_cnt, 3);
	assert_int_equal(io.notes, 0);
	io = decode(CT_NV_CTL, RM(0xd4, 12), b, 11);
	assert_int_equal(io.gpu_id_cnt, 2);
	assert_int_equal(io.notes, NV_NOTE_TRUNCATED);
}

static void uvm(void **state)
{
	uint8_t b[9264] = {0};
	struct nv_decode_in in = {.abi = &abi, .dev = CT_NV_UVM, .cmd = 33, .finished = true};
	struct nv_ioctl io;

	set_driver("580.159.04");
	put64(b, 0, 0x7f0000000000);
	put64(b, 8, 0x200000);
	put32(b, 9248, 9);
	put32(b, 9256, 0x5c000020);
	put32(b, 9260, 0x1f);
	in.exit.r[0] = exact(b, 0, 64);
	in.exit.r[1] = exact(b, 9200, 64);
	nv_decode_ioctl(&in, &io);
	assert_string_equal(io.name, "UVM_MAP_EXTERNAL_ALLOCATION");
	assert_value(io, NV_R_ADDRESS, 0x7f0000000000);
	assert_value(io, NV_R_LENGTH, 0x200000);
	assert_value(io, NV_R_FD, 9);
	assert_value(io, NV_R_OBJECT, 0x5c000020);
	assert_value(io, NV_R_STATUS, 0x1f);
	assert_string_equal(io.status_name, "NV_ERR_INVALID_ARGUMENT");
	drop(&in.exit.r[0]);
	drop(&in.exit.r[1]);
	/* FREE lost its length in 590, and the status moved. */
	put32(b, 16, 0x22);
	io = decode(CT_NV_UVM, 34, b, 24);
	assert_value(io, NV_R_STATUS, 0x22);
	assert_value(io, NV_R_LENGTH, 0x200000);
	set_driver("590.48.01");
	io = decode(CT_NV_UVM, 34, b, 24);
	assert_value(io, NV_R_STATUS, 0x200000);
	assert_int_equal(io.f[NV_R_LENGTH].at, NV_AT_NONE);
	io = decode(CT_NV_UVM, 0x30000001, b, 16);
	assert_string_equal(io.name, "UVM_INITIALIZE");
	io = decode(CT_NV_UVM, 200, b, 16);
	assert_true(io.notes & NV_NOTE_TEST);
	io = decode(CT_NV_UVM, 1, b, 24);
	assert_true(io.notes & NV_NOTE_NOT_HANDLED);
	io = decode(CT_NV_UVM, 99, b, 24);
	assert_int_equal(io.notes, NV_NOTE_UNKNOWN);
	set_driver("515.43.04");
	io = decode(CT_NV_UVM, 80, b, 32);
	assert_int_equal(io.notes, NV_NOTE_OTHER_VERSION);
	assert_int_equal(io.f[NV_R_STATUS].at, NV_AT_NONE);
}

static void uvm_uuid(void **state)
{
	uint8_t b[56];
	struct nv_ioctl io;

	set_driver("580.159.04");
	memset(b, 0xab, sizeof(b));
	io = decode(CT_NV_UVM, 27, b, 56);
	assert_int_equal(io.uuid_at, NV_AT_EXIT);
	assert_int_equal(io.uuid[15], 0xab);
	io = decode(CT_NV_UVM, 27, b, 15);
	assert_int_equal(io.uuid_at, NV_AT_UNREADABLE);
	assert_int_equal(io.uuid[0], 0);
}

static void modeset(void **state)
{
	uint8_t b[16] = {0};
	struct nv_ioctl io;

	set_driver("580.159.04");
	put32(b, 0, 15);
	io = decode(CT_NV_MODESET, 0xc0106d00, b, 16);
	assert_string_equal(io.name, "NVKMS_IOCTL_FLIP");
	assert_int_equal(io.nr, 15);
	io = decode(CT_NV_MODESET, 0xc0106d00, b, 3);
	assert_null(io.name);
	io = decode(CT_NV_MODESET, 0xc0086d00, b, 16);
	assert_true(io.notes & NV_NOTE_SIZE_MISMATCH);
}

static void caveats(void **state)
{
	uint8_t b[16] = {0};

	set_driver("610.1.1");
	assert_true(decode(CT_NV_CTL, RM(0x29, 16), b, 16).notes & NV_NOTE_NEWER);
	set_driver("470.1.1");
	assert_true(decode(CT_NV_CTL, RM(0x29, 16), b, 16).notes & NV_NOTE_OLDER);
	nv_abi_init(&abi, NULL);
	assert_true(decode(CT_NV_CTL, RM(0x29, 16), b, 16).notes & NV_NOTE_NO_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rm_control),
		cmocka_unit_test(rm_control_kinds),
		cmocka_unit_test(rm_alloc_forms),
		cmocka_unit_test(root_client),
		cmocka_unit_test(failed_ioctl),
		cmocka_unit_test(xfer),
		cmocka_unit_test(heap_control),
		cmocka_unit_test(other_escapes),
		cmocka_unit_test(version_string),
		cmocka_unit_test(card_info),
		cmocka_unit_test(uvm),
		cmocka_unit_test(uvm_uuid),
		cmocka_unit_test(modeset),
		cmocka_unit_test(caveats),
	};

	return cmocka_run_group_tests_name("nv_decode", tests, NULL, NULL);
}
