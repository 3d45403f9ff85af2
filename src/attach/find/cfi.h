/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Position of a function's return address while it runs, from call frame information for unwinders
 * (.eh_frame, through .eh_frame_hdr; x86-64). The file is untrusted.
 */
#ifndef ATTACH_FIND_CFI_H
#define ATTACH_FIND_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;

struct cfi {
	struct elf_file *f;
	uint64_t hdr;	/* address of .eh_frame_hdr, the base of the table's offsets */
	uint64_t table; /* its address: pairs of a function and its record */
	uint32_t cnt;
};

/* Place of the caller's frame pointer: its register, the frame, or unknown. */
enum cfi_place { CFI_SAME = 0, CFI_SAVED, CFI_UNKNOWN };

/* The frame's end (CFA). The return address is right below it. */
struct cfi_frame {
	bool by_fp; /* relative to the frame pointer, else to the stack pointer */
	bool last;  /* no caller: the thread begins here */
	enum cfi_place fp;
	uint64_t off;
	int64_t fp_off; /* CFI_SAVED: relative to the frame's end */
};

/* Factors for the numbers in instructions. */
struct cfi_align {
	uint64_t code, data; /* the second is negative, in two's complement */
};

/* Returns false if there is no usable information. */
bool cfi__open(struct cfi *c, struct elf_file *f);
/* Finds the frame for the instruction at pc. Returns false if unknown. */
bool cfi__find(const struct cfi *c, uint64_t pc, struct cfi_frame *frame);

/* Runs len bytes of instructions on *frame, up to pc_off bytes into the function. Returns false for
 * unsupported rules. */
bool cfi_run(const uint8_t *code, size_t len, const struct cfi_align *align, uint64_t pc_off,
	     struct cfi_frame *frame);

#endif /* ATTACH_FIND_CFI_H */
