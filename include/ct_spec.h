/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Specs: the data that the BPF side copies for one CUDA function.
 *
 * The BPF programs contain no function names. The cookie of a probe holds an index into the `specs`
 * map. The spec there defines how many argument words to keep at entry and which memory to read on
 * return. User space builds specs from the rows of src/decode/cuda_api.def (src/decode/spec.c). So
 * a new function is a new row and cannot break the verifier.
 *
 * Memory is read on return, not on entry. The caller owns it for the whole call, and the call has
 * touched its pages by then (a BPF program cannot fault them in). It also keeps the entry short.
 */
#ifndef CT_SPEC_H
#define CT_SPEC_H

#include "ct_count.h"
#include "ct_types.h"

/* Maximum argument words: the longest prototype of cuda.h 13.0 has 16. */
#define CT_MAX_WORDS 16
/* Words that the System V x86-64 ABI passes in registers; the rest are on the stack. */
#define CT_REG_WORDS_X86   6
#define CT_REG_WORDS_ARM64 8
/* Maximum pointees of one function: cuStreamGetCaptureInfo_v3 has six out-parameters. */
#define CT_MAX_CAPS 8
/* Longest single pointee in bytes. A power of two: the verifier needs a mask. */
#define CT_CAP_SZ_MAX 1024
/* (CT_OUT_SZ_MAX limits all pointees of a record together.) */
/* Maximum families of libraries. */
#define CT_APIS_MAX 16
/* Maximum functions in one trace: rows of the table and unknown symbols. */
#define CT_MAX_FUNCS 4096

/* Redaction: data that is not read, so that no output can contain it. Set in ct_cfg.redact; the
 * specs request less, too. */
enum ct_redact {
	CT_REDACT_NOTHING = 0,
	CT_REDACT_STRINGS = 1, /* of the program: names of kernels and files, sources, options */
	CT_REDACT_ARGS = 2,    /* strings, and all arguments of calls and of system calls */
};

enum ct_cap_kind {
	CT_CAP_NONE = 0,
	/* size bytes at args[arg] */
	CT_CAP_MEM = 1,
	/* NUL-terminated string at args[arg], at most size bytes with its NUL. A longer string is
	 * cut to size - 1 bytes without a NUL, so that it differs from a string of exactly that
	 * length. This also applies to the other strings. */
	CT_CAP_STR = 2,
	/* NUL-terminated string at *(char **)args[arg] */
	CT_CAP_PSTR = 3,
	/* array at args[arg]: args[count_arg] (32 bits) elements of size bytes */
	CT_CAP_ARR = 4,
	/* array behind a struct: pointer at args[arg] + off, count (u32) at args[arg] + count_off,
	 * elements of size bytes. For CUlaunchConfig.attrs. */
	CT_CAP_PARR = 5,
	/* NUL-terminated string whose address is at args[arg] + off */
	CT_CAP_FSTR = 6,
	/* size bytes at the address in args[arg] + off; with count_off: at that + count_off */
	CT_CAP_FMEM = 7,
	/* struct ct_comm of the communicator that args[arg] is, or points to (CT_CAP_F_DEREF) */
	CT_CAP_COMM = 8,
	/* size bytes at off in the buffer of a kernel's arguments: args[arg] is cuLaunchKernel's
	 * extra. Only in calls of another family. */
	CT_CAP_EXTRA = 9,
	/* struct ct_params of a kernel: args[off] is its handle, and args[arg] cuLaunchKernel's
	 * kernelParams. If count_arg is not 0, args[count_arg] is its extra. Always the last
	 * pointee. Only in-process
	 * (--kernel-args). */
	CT_CAP_PARAMS = 10,
};

/* Read only after success: a failed call does not write its out-parameters. */
#define CT_CAP_F_ON_SUCCESS 1
/* CT_CAP_ARR: count_arg is a pointer to the number (cuGraphGetNodes). */
#define CT_CAP_F_COUNT_PTR 2
/* CT_CAP_COMM: args[arg] is the address of the handle. */
#define CT_CAP_F_DEREF 4

struct ct_cap {
	__u8 kind; /* enum ct_cap_kind */
	__u8 arg;  /* which argument word holds the pointer */
	__u8 flags;
	__u8 count_arg; /* CT_CAP_ARR, _PARAMS */
	__u16 size;
	__u8 off;	/* CT_CAP_PARR, _FSTR, _FMEM, _PARAMS */
	__u8 count_off; /* CT_CAP_PARR, _FMEM */
};
_Static_assert(sizeof(struct ct_cap) == 8, "ct_cap is part of the ABI");

/* Keep the record even if --min-duration would drop it: the model needs it (allocations, names). */
#define CT_SPEC_F_KEEP 1
/* The tracer's own stub (overhead measurement): passes every process filter. */
#define CT_SPEC_F_STUB 2
/* The return is not probed: no result, no duration. Pointees are read at entry. */
#define CT_SPEC_F_NO_RETURN 4
/* Recorded also at CT_PROC_METRICS: counts cannot replace its content. */
#define CT_SPEC_F_ALWAYS 8
/* --stack: the record has the call's user stack. */
#define CT_SPEC_F_STACK 16
/* handle_word points to the handle, which is valid after success. */
#define CT_SPEC_F_HANDLE_OUT 32
/* Afterwards handles may refer to other kernels. */
#define CT_SPEC_F_UNLOADS 64
/* The returned value is not a result: the call cannot fail. */
#define CT_SPEC_F_NO_RESULT 128
/* --python: the record has the call's Python frames. */
#define CT_SPEC_F_PYTHON 256
/* The function uses much stack and calls no code of the program: a call within it is on its stack,
 * however far below. */
#define CT_SPEC_F_DEEP 512
/* --torch: an operator begins, a node of autograd begins, or all operators that began above it have
 * ended. The words are defined in bpf/torch.bpf.h. */
#define CT_SPEC_F_OPERATOR 1024
#define CT_SPEC_F_NODE	   2048
#define CT_SPEC_F_AFTER	   4096
#define CT_TORCH_WORDS	   2
/* --kernel-args: CT_CAP_PARAMS follows the counted pointees, after a CT_CAP_EXTRA if there is one.
 */
#define CT_SPEC_F_PARAMS 8192
/* In-process: calls are sampled for the profile, with probability sample_below. */
#define CT_SPEC_F_SAMPLED 16384
#define CT_SPEC_F_TORCH	  (CT_SPEC_F_OPERATOR | CT_SPEC_F_NODE | CT_SPEC_F_AFTER)

struct ct_spec {
	__u8 word_cnt;
	__u8 cap_cnt;
	__u16 flags;
	/* CT_LEVEL_SAMPLE, or ct_cfg.profile: probability, as a fraction of 2^32 */
	__u32 sample_below;
	__u32 level;	  /* enum ct_level */
	__u8 bytes_word;  /* 1 and up: argument word bytes_word - 1 is a number of bytes; 0: none */
	__u8 handle_word; /* the same for a kernel's handle, whose name is needed */
	__u8 api;	  /* family, for ct_cfg.results */
	__s8 ok;	  /* the result that means success, */
	__s32 pending;	  /* and a result that is not a failure either */
	__u8 word_skip;	  /* number of stack words to skip, */
	__u8 skip_at;	  /* after this many stack words */
	/* Size of a simple out-parameter, or 0. It is caps[0], a number or handle of 4 or 8 bytes,
	 * written by a successful call. Its address args[caps[0].arg] is in a register. The
	 * in-process library reads it directly. */
	__u8 out_sz;
	__u8 in_regs; /* 1: certainly no argument is on the stack */
	struct ct_cap caps[CT_MAX_CAPS];
};
_Static_assert(sizeof(struct ct_spec) == 88, "ct_spec is part of the ABI");

/* Classify a call's result. */
static inline int ct_result_is_ok(const struct ct_spec *spec, __s32 result)
{
	return spec->flags & CT_SPEC_F_NO_RESULT || result == spec->ok;
}
static inline int ct_result_is_error(const struct ct_spec *spec, __s32 result)
{
	return !ct_result_is_ok(spec, result) && result != spec->pending;
}

#endif /* CT_SPEC_H */
