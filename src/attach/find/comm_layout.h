/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Offsets of hash and ranks in a communicator. No header defines them, and they differ between
 * versions of libnccl. But these members follow each other in all versions examined (2.20 to 2.28):
 *
 *	uint64 commHash; int rank; int nRanks; int cudaDev; int nvmlDev
 *
 * ncclCommUserRank, ncclCommCount and ncclCommCuDevice each load one of them, with its displacement
 * in the instruction (x86-64). A displacement d is accepted if the first has d, the second d + 4,
 * the third d + 8, and no other d fits.
 *
 * The communicator also counts the collectives that NCCL has launched: uint64 seqNumber[], by
 * function. Since 2.26 it always counts; before, only for a profiler. One place in the library adds
 * 1 to it (2.26 to 2.30 examined). No other adds 1 to such a table so close after the hash.
 */
#ifndef ATTACH_FIND_COMM_LAYOUT_H
#define ATTACH_FIND_COMM_LAYOUT_H

#include "elf.h"

struct elf_file;

/* lib's functions are sorted by address. Leaves off at 0 if the layout is unknown. */
void comm_layout__find(struct elf_file *f, const struct elf_lib *lib, struct ct_comm_layout *place);

/* Finds up to max displacements of `mov disp32(reg), reg32` in code. Returns the number. */
unsigned code_loads(const uint8_t *code, size_t len, uint32_t *disps, unsigned max);
/*
 * Finds the table of 64-bit numbers in a structure that the code increments by index. It accepts
 * displacements between from and to in `addq $1, d(reg, reg, 8)`, also with a lock prefix. Or d / 8
 * in `add $imm, reg` right before `lock addq $1, (reg, reg, 8)`. *found is the displacement, 0 at
 * first. Returns false if there are several.
 */
bool code_counters(const uint8_t *code, size_t len, uint32_t from, uint32_t to, uint32_t *found);
/* Returns the number that code stores through a pointer (ncclGetVersion); 0: none, or several. */
uint32_t code_stored(const uint8_t *code, size_t len);
/* Returns the only d of a with d + 4 in b and d + 8 in c; 0: none, or several. */
uint32_t code_common(const uint32_t *a, unsigned a_cnt, const uint32_t *b, unsigned b_cnt,
		     const uint32_t *c, unsigned c_cnt);

#endif /* ATTACH_FIND_COMM_LAYOUT_H */
