/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by server.c and drive.c: the driver's structs (those of the newest driver in cudatrace's
 * tables, which it uses if no driver is loaded), and how a caller requests an answer. */
#ifndef NVFUSE_PROTO_H
#define NVFUSE_PROTO_H

#include <stdint.h>

#define RM(nr, size) (0xc0000000u | (uint32_t)(size) << 16 | 'F' << 8 | (nr))

#define ESC_RM_FREE	      0x29
#define ESC_RM_CONTROL	      0x2a
#define ESC_RM_ALLOC	      0x2b
#define ESC_RM_DUP_OBJECT     0x34
#define ESC_RM_MAP_MEMORY     0x4e
#define ESC_CARD_INFO	      0xc8
#define ESC_REGISTER_FD	      0xc9
#define ESC_ALLOC_OS_EVENT    0xce
#define ESC_CHECK_VERSION_STR 0xd2
#define ESC_XFER	      0xd3

#define UVM_INITIALIZE 0x30000001
#define UVM_MAP_EXT    33
#define UVM_FREE       34

/* NV_STATUS */
#define NV_ERR_INVALID_ARGUMENT	     0x1f
#define NV_ERR_INVALID_OBJECT_HANDLE 0x33
#define NV_ERR_INVALID_POINTER	     0x3d
#define NV_ERR_NO_MEMORY	     0x51

/* Requests for answers, in a field that the driver ignores: flags of RM_CONTROL and of the
 * long RM_ALLOC, paramsSize of the short one, the handle of RM_FREE, the low bits of a UVM base. */
#define ORDER	    0x7e570000u
#define ORDER_MASK  0xffff0000u
#define ORDER_FAIL  0x8000 /* ioctl() itself fails with EIO, and writes nothing */
#define ORDER_DELAY 0x4000 /* answer after DELAY_MS */
#define ORDER_BLOCK 0x2000 /* answer when interrupted, EINTR */
#define ORDER_CODE  0x0fff /* NV_STATUS */
#define DELAY_MS    20

#define DRIVER_VERSION	   "595.45.04"
#define FIRST_NEW	   0xcaf00001u /* handles that the driver creates count from here */
#define TIMESLICE_US	   2000
#define CTRL_GET_TIMESLICE 0xa06c0104

struct rm_free { /* NVOS00 */
	uint32_t root, parent, object, status;
};

struct rm_control { /* NVOS54 */
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t params_size, status;
};

struct rm_alloc { /* NVOS64 since 535 */
	uint32_t root, parent, new, class;
	uint64_t params, rights;
	uint32_t params_size, flags, status, pad;
};

struct rm_alloc_short { /* NVOS21 since 535 */
	uint32_t root, parent, new, class;
	uint64_t params;
	uint32_t params_size, status;
};

struct rm_dup { /* NVOS55 */
	uint32_t client, parent, new, src_client, src_object, flags, status;
};

struct rm_map { /* NVOS33 and a descriptor */
	uint32_t client, device, memory, pad;
	uint64_t offset, length, address;
	uint32_t status, flags;
	int32_t fd, pad2;
};

struct rm_os_event {
	uint32_t client, device, fd, status;
};

struct rm_version {
	uint32_t cmd, reply;
	char text[64];
};

struct rm_card {
	uint8_t valid, rest[71];
};

struct rm_xfer {
	uint32_t nr, size;
	uint64_t ptr;
};

struct uvm_init {
	uint64_t flags;
	uint32_t status, pad;
};

struct uvm_map_ext {
	uint64_t base, length, offset;
	uint8_t attributes[9216];
	uint64_t attribute_cnt;
	int32_t rm_fd;
	uint32_t client, memory, status;
};

struct uvm_free { /* 590 and later */
	uint64_t base;
	uint32_t status, pad;
};

_Static_assert(sizeof(struct rm_control) == 32, "NVOS54");
_Static_assert(sizeof(struct rm_alloc) == 48, "NVOS64");
_Static_assert(sizeof(struct rm_alloc_short) == 32, "NVOS21");
_Static_assert(sizeof(struct rm_dup) == 28, "NVOS55");
_Static_assert(sizeof(struct rm_map) == 56, "NVOS33");
_Static_assert(sizeof(struct uvm_map_ext) == 9264, "UVM_MAP_EXTERNAL_ALLOCATION");

#endif /* NVFUSE_PROTO_H */
