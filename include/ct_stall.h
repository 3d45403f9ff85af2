/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records of --stalls: samples of CUPTI's PC sampling, added up in the traced process
 * (inject/stall_sums.c). For an interval, the samples of a function's instructions come first
 * (CT_REC_STALL_PCS), and its sums last (CT_REC_STALLS). A function's machine code and source
 * lines precede its first sums; the tracer decodes them (src/model/stalls.c).
 */
#ifndef CT_STALL_H
#define CT_STALL_H

#include "ct_record.h"

enum ct_stall_reason {
#define STALL(ID, id, cupti, words) CT_STALL_##ID,
#include "ct_stall.def"
	CT_STALL_CNT
};

/* Limits of the traced process: functions and machine code of a function. */
#define CT_STALL_FNS_MAX  1024
#define CT_STALL_CODE_MAX (1u << 20)
/* The sampling period is 2^N cycles. */
#define CT_STALLS_PERIOD_MIN	 12
#define CT_STALLS_PERIOD_MAX	 31
#define CT_STALLS_PERIOD_DEFAULT 20

struct ct_stalls {
	struct ct_rec rec;
	__u64 begin_ns, end_ns; /* of the interval */
	__u64 function;		/* the same in all records of a function in a process */
	__u64 name_id;		/* handle of a CT_REC_NAME with CT_NAME_F_GPU; 0: none */
	__u32 device;
	__u32 period; /* a sample each 2^period cycles; 0: unknown */
	__u32 sm_cnt, clock_khz;
	__u64 not_issued;	     /* samples whose scheduler issued no instruction */
	__u64 reasons[CT_STALL_CNT]; /* samples */
};
_Static_assert(sizeof(struct ct_stalls) == 80 + 8 * CT_STALL_CNT, "ct_stalls is part of the ABI");

struct ct_stall_row {
	__u32 pc;     /* offset of the instruction in the function */
	__u32 reason; /* enum ct_stall_reason */
	__u32 samples;
};
#define CT_STALL_ROWS_MAX 64
struct ct_stall_pcs {
	struct ct_rec rec;
	__u64 function;
	__u32 cnt;
	__u32 reserved;
	struct ct_stall_row rows[];
};
_Static_assert(sizeof(struct ct_stall_pcs) == 40, "ct_stall_pcs is part of the ABI");

/* A part of a function's machine code, in ascending order of off. */
#define CT_STALL_PART_MAX 1024
struct ct_stall_code {
	struct ct_rec rec;
	__u64 function;
	__u32 size; /* of the whole function */
	__u32 off, len;
	__u32 arch; /* 90: sm_90 */
	__u8 code[];
};
_Static_assert(sizeof(struct ct_stall_code) == 48, "ct_stall_code is part of the ABI");

#define CT_STALL_FILE_MAX 512
struct ct_stall_source {
	struct ct_rec rec;
	__u64 function;
	__u32 pc, line;
	__u32 len; /* of file, without a NUL */
	__u32 reserved;
	char file[];
};
_Static_assert(sizeof(struct ct_stall_source) == 48, "ct_stall_source is part of the ABI");

#endif /* CT_STALL_H */
