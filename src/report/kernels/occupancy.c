/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The limits of a multiprocessor are those of the table "Technical Specifications per Compute
 * Capability" in the CUDA C++ Programming Guide (12.x and 13.0). Every one has 65536 registers.
 * Allocation follows CUDA's occupancy calculator (cuda_occupancy.h): registers in units of 256 per
 * warp, to each of the four parts of a multiprocessor; shared memory in units of 256 bytes (128
 * from 8.0 on). From 8.0 on CUDA reserves 1 KiB of each block. The assumed split between shared
 * memory and L1 is the best one for the kernel.
 */
#include "occupancy.h"

#include <stddef.h>

#define WARP	      32
#define REGISTERS     65536
#define REGISTER_UNIT 256
#define PARTS	      4

static const struct limits {
	uint8_t cc, warps, blocks;
	uint16_t shared_kib;
} limits[] = {
	{70, 64, 32, 96},   {72, 64, 32, 96},	{75, 32, 16, 64},   {80, 64, 32, 164},
	{86, 48, 16, 100},  {87, 48, 16, 164},	{89, 48, 24, 100},  {90, 64, 32, 228},
	{100, 64, 32, 228}, {103, 64, 32, 228}, {110, 48, 24, 228}, {120, 48, 24, 100},
	{121, 48, 24, 100},
};

static const struct limits *limits_of(unsigned cc)
{
	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (limits[i].cc == cc)
			return &limits[i];
	return NULL;
}

unsigned occupancy_max_threads(unsigned cc)
{
	const struct limits *l = limits_of(cc);

	return l ? l->warps * WARP : 0;
}

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

bool occupancy_blocks(unsigned cc, const struct occupancy_use *use, uint64_t *resident)
{
	const struct limits *l = limits_of(cc);
	uint64_t warps, blocks, by_registers, shared;

	if (!l || !use->threads || use->threads > 1024 || use->registers > 255 ||
	    use->shared_mem > 1 << 20)
		return false;
	warps = round_up(use->threads, WARP) / WARP;
	blocks = l->warps / warps;
	if (blocks > l->blocks)
		blocks = l->blocks;
	if (use->registers) {
		by_registers = REGISTERS / PARTS / round_up(use->registers * WARP, REGISTER_UNIT) *
			       PARTS / warps;
		if (by_registers < blocks)
			blocks = by_registers;
	}
	shared = round_up(use->shared_mem + (cc >= 80 ? 1024 : 0), cc >= 80 ? 128 : 256);
	if (shared && l->shared_kib * 1024ull / shared < blocks)
		blocks = l->shared_kib * 1024ull / shared;
	*resident = blocks;
	return true;
}

double occupancy_share(unsigned cc, uint64_t threads, uint64_t blocks)
{
	return (double)(blocks * (round_up(threads, WARP) / WARP)) / limits_of(cc)->warps;
}
