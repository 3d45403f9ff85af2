/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where a function's return address is while it runs: call frame information, as unwinders read it
 * (.eh_frame, by .eh_frame_hdr; x86-64). The file is hostile.
 */
#ifndef ATTACH_FIND_CFI_H
#define ATTACH_FIND_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;

struct cfi {
	struct elf_file *f;
	uint64_t hdr;	/* address of .eh_frame_hdr, which the table counts from */
	uint64_t table; /* its address: pairs of a function and its record */
	uint32_t cnt;
};

/* The caller's frame pointer: as it is in this function, in the frame, or nowhere. */
enum cfi_place { CFI_SAME = 0, CFI_SAVED, CFI_UNKNOWN };

/* The frame's end (CFA), right below which the return address lies. */
struct cfi_frame {
	bool by_fp; /* from the frame pointer, else from the stack pointer */
	bool last;  /* nobody called it: a thread begins here */
	enum cfi_place fp;
	uint64_t off;
	int64_t fp_off; /* CFI_SAVED: from the frame's end */
};

/* What numbers in instructions are multiples of. */
struct cfi_align {
	uint64_t code, data; /* the second is below zero, as two's complement */
};

/* false: there is none, or none that is understood. */
bool cfi__open(struct cfi *c, struct elf_file *f);
/* Of the instruction at address pc. false: it cannot be told. */
bool cfi__find(const struct cfi *c, uint64_t pc, struct cfi_frame *frame);

/* The rule that len bytes of instructions say of the place pc_off bytes into the function, from
 * *frame on. false: they say something else. */
bool cfi_run(const uint8_t *code, size_t len, const struct cfi_align *align, uint64_t pc_off,
	     struct cfi_frame *frame);

#endif /* ATTACH_FIND_CFI_H */
