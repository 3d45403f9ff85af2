/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where in a communicator its hash and its ranks are: no header says so, and each version of
 * libnccl has another place, but these follow each other in all of them (2.20 to 2.28 looked at),
 *
 *	uint64 commHash; int rank; int nRanks; int cudaDev; int nvmlDev
 *
 * and ncclCommUserRank, ncclCommCount and ncclCommCuDevice load three of them, each with its
 * displacement in the instruction (x86-64). A displacement d is believed when one has d, the next
 * d + 4 and the third d + 8, and no other does.
 *
 * How many collectives NCCL has launched in a communicator is in it, too, since 2.26 whoever looks
 * (before that only for a profiler): uint64 seqNumber[], by function. One place of the library adds
 * 1 to it (2.26 to 2.30 looked at), and no other adds 1 to such a table so near behind the hash.
 */
#ifndef ATTACH_FIND_COMM_LAYOUT_H
#define ATTACH_FIND_COMM_LAYOUT_H

#include "elf.h"

struct elf_file;

/* lib's functions are sorted by place. Leaves off 0 where it cannot tell. */
void comm_layout__find(struct elf_file *f, const struct elf_lib *lib, struct ct_comm_layout *place);

/* Displacements of `mov disp32(reg), reg32` in code, up to max of them; how many. */
unsigned code_loads(const uint8_t *code, size_t len, uint32_t *disps, unsigned max);
/*
 * Where in a structure the 64-bit numbers are that the code adds 1 to, by an index: displacements
 * between from and to in `addq $1, d(reg, reg, 8)`, also with lock before it; or d / 8 in `add
 * $imm, reg` right before `lock addq $1, (reg, reg, 8)`. *found is the one, 0 at first; false:
 * there are several.
 */
bool code_counters(const uint8_t *code, size_t len, uint32_t from, uint32_t to, uint32_t *found);
/* The number that the code stores behind a pointer: of ncclGetVersion; 0: none, or several. */
uint32_t code_stored(const uint8_t *code, size_t len);
/* The one d of a with d + 4 in b and d + 8 in c; 0: none, or several. */
uint32_t code_common(const uint32_t *a, unsigned a_cnt, const uint32_t *b, unsigned b_cnt,
		     const uint32_t *c, unsigned c_cnt);

#endif /* ATTACH_FIND_COMM_LAYOUT_H */
