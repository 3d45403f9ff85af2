/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Specs: what the BPF side copies for one CUDA function.
 *
 * The BPF programs know no function by name. The cookie of a probe holds an index into the `specs`
 * map; the spec there says how many argument words to keep at entry and which memory to read on
 * return. User space builds specs from the rows of src/decode/cuda_api.def (src/decode/spec.c), so
 * a new function is a new row and cannot break the verifier.
 *
 * Memory is read on return, not on entry: the caller owns what its arguments point to for the whole
 * call, the call itself has touched the pages by then (a BPF program cannot fault them in), and
 * entry stays as short as it can be.
 */
#ifndef CT_SPEC_H
#define CT_SPEC_H

#include "ct_count.h"
#include "ct_types.h"

/* Most argument words that are kept: the longest prototype of cuda.h 13.0 has 16. */
#define CT_MAX_WORDS 16
/* Words that the System V x86-64 ABI passes in registers; the rest are on the stack. */
#define CT_REG_WORDS_X86   6
#define CT_REG_WORDS_ARM64 8
/* Pointees of one function: cuStreamGetCaptureInfo_v3 has six out-parameters. */
#define CT_MAX_CAPS 8
/* Longest single pointee in bytes. A power of two: the verifier needs a mask. */
#define CT_CAP_SZ_MAX 1024
/* (see CT_OUT_SZ_MAX for the room that all pointees of a record have together) */
/* Families of libraries. */
#define CT_APIS_MAX 16
/* Functions that one trace can tell apart: rows of the table and symbols that it does not know. */
#define CT_MAX_FUNCS 4096

/* What is not even read, so that it can be in no output: ct_cfg.hide, and specs that ask for less.
 */
enum ct_redact {
	CT_REDACT_NOTHING = 0,
	CT_REDACT_STRINGS = 1, /* of the program: names of kernels and files, sources, options */
	CT_REDACT_ARGS = 2,    /* strings, and all arguments of calls and of system calls */
};

enum ct_cap_kind {
	CT_CAP_NONE = 0,
	/* size bytes at args[arg] */
	CT_CAP_MEM = 1,
	/* NUL-terminated string at args[arg], at most size bytes with its NUL. A longer one is cut:
	 * size - 1 bytes without a NUL, so that one of exactly size - 1 bytes is none of them. The
	 * same of the other strings. */
	CT_CAP_STR = 2,
	/* NUL-terminated string at *(char **)args[arg] */
	CT_CAP_PSTR = 3,
	/* array at args[arg]: elements of size bytes, as many as args[count_arg] says (32 bits) */
	CT_CAP_ARR = 4,
	/* array behind a struct: pointer at args[arg] + off, count (u32) at args[arg] + count_off,
	 * elements of size bytes. For CUlaunchConfig.attrs. */
	CT_CAP_PARR = 5,
	/* NUL-terminated string whose address is at args[arg] + off */
	CT_CAP_FSTR = 6,
	/* size bytes whose address is at args[arg] + off; with count_off: at that + count_off */
	CT_CAP_FMEM = 7,
	/* struct ct_comm of the communicator that args[arg] is, or leads to (CT_CAP_F_DEREF) */
	CT_CAP_COMM = 8,
	/* size bytes at off of the buffer with a kernel's arguments: args[arg] is cuLaunchKernel's
	 * extra. Only in a call of another family: no program's own arguments are read. */
	CT_CAP_EXTRA = 9,
};

/* Only read when the call went well: out-parameters of a failed call are not written. */
#define CT_CAP_F_ON_SUCCESS 1
/* CT_CAP_ARR: count_arg is a pointer to the number (cuGraphGetNodes). */
#define CT_CAP_F_COUNT_PTR 2
/* CT_CAP_COMM: args[arg] is where the handle was written to. */
#define CT_CAP_F_DEREF 4

struct ct_cap {
	__u8 kind; /* enum ct_cap_kind */
	__u8 arg;  /* which argument word holds the pointer */
	__u8 flags;
	__u8 count_arg; /* CT_CAP_ARR */
	__u16 size;
	__u8 off;	/* CT_CAP_PARR, _FSTR, _FMEM */
	__u8 count_off; /* CT_CAP_PARR, _FMEM */
};
_Static_assert(sizeof(struct ct_cap) == 8, "ct_cap is part of the ABI");

/* Keep the record even when --min-duration would drop it: the model needs it (allocations, names).
 */
#define CT_SPEC_F_KEEP 1
/* The tracer's own stub (cost measurement): passes every process filter. */
#define CT_SPEC_F_STUB 2
/* The return is not looked at: no result, no duration. Pointees are read at entry. */
#define CT_SPEC_F_NO_RETURN 4
/* A record also of processes at CT_PROC_METRICS: what is learned from it cannot be counted. */
#define CT_SPEC_F_ALWAYS 8
/* --stack: the record has the call's user stack. */
#define CT_SPEC_F_STACK 16
/* handle_word points to the handle: known when the call went well. */
#define CT_SPEC_F_HANDLE_OUT 32
/* Handles of kernels may lead to others after it. */
#define CT_SPEC_F_UNLOADS 64
/* What it returns is no result: it does not fail. */
#define CT_SPEC_F_NO_RESULT 128
/* --python: the record has the call's Python frames. */
#define CT_SPEC_F_PYTHON 256
/* It takes much of the stack, and calls nothing of the program's: a call in it is on its stack,
 * however far below. */
#define CT_SPEC_F_DEEP 512
/* --torch: it says that an operator begins, or a node of autograd, or that none is there any more
 * that began above it. Its words are those of bpf/torch.bpf.h. */
#define CT_SPEC_F_OPERATOR 1024
#define CT_SPEC_F_NODE	   2048
#define CT_SPEC_F_AFTER	   4096
#define CT_TORCH_WORDS	   2
#define CT_SPEC_F_TORCH	   (CT_SPEC_F_OPERATOR | CT_SPEC_F_NODE | CT_SPEC_F_AFTER)

struct ct_spec {
	__u8 word_cnt;
	__u8 cap_cnt;
	__u16 flags;
	__u32 sample_below; /* CT_LEVEL_SAMPLE: of 2^32 */
	__u32 level;	    /* enum ct_level */
	__u8 bytes_word;  /* 1 and up: the argument word before is a number of bytes; 0: none is */
	__u8 handle_word; /* the same for a kernel's handle, whose name is wanted */
	__u8 api;	  /* which family's results: ct_cfg.results */
	__s8 ok;	  /* the result of a call that did what it was asked to, */
	__s32 pending;	  /* and of one that is no failure either */
	__u8 word_skip;	  /* of the words on the stack so many are left out, */
	__u8 skip_at;	  /* behind so many of them */
	/* caps[0] is a number or handle of 4 or 8 bytes in args[caps[0].arg], which is in a
	 * register, that a call which went well has written: the library in the process reads it
	 * so. 0: no */
	__u8 out_sz;
	__u8 in_regs; /* no argument is on the stack, as far as is known for certain */
	struct ct_cap caps[CT_MAX_CAPS];
};
_Static_assert(sizeof(struct ct_spec) == 88, "ct_spec is part of the ABI");

/* What became of a call. */
static inline int ct_result_is_ok(const struct ct_spec *spec, __s32 result)
{
	return spec->flags & CT_SPEC_F_NO_RESULT || result == spec->ok;
}
static inline int ct_result_is_error(const struct ct_spec *spec, __s32 result)
{
	return !ct_result_is_ok(spec, result) && result != spec->pending;
}

#endif /* CT_SPEC_H */
