// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Compares our theoretical occupancy with NVIDIA's own calculator (cuda_occupancy.h, if CUDA is
// installed), for random values.
#include <cuda_runtime_api.h>

#include <cuda_occupancy.h>

#include <cmath>
#include <cstdio>
#include <random>

extern "C" {
#include "report/kernels/occupancy.h"
}

// Shared memory of a multiprocessor in KiB: CUDA C++ Programming Guide 13.0, as in occupancy.c.
static const struct {
	int cc, shared_kib;
} devices[] = {{70, 96},  {72, 96},   {75, 64},	  {80, 164},  {86, 100},  {87, 164}, {89, 100},
	       {90, 228}, {100, 228}, {103, 228}, {110, 228}, {120, 100}, {121, 100}};

int main()
{
	std::mt19937 random(1);
	auto below = [&](int n) { return (int)(random() % n); };
	int compared = 0, differ = 0;

	for (const auto &d : devices) {
		int reserved = d.cc >= 80 ? 1024 : 0, threads_max = occupancy_max_threads(d.cc);

		for (int i = 0; i < 20000; i++) {
			cudaOccDeviceProp p = {};
			cudaOccFuncAttributes a = {};
			cudaOccDeviceState s = {};
			cudaOccResult r = {};
			occupancy_use u = {};
			double share = -1, want;
			uint64_t blocks;

			p.computeMajor = d.cc / 10;
			p.computeMinor = d.cc % 10;
			p.maxThreadsPerBlock = 1024;
			p.maxThreadsPerMultiprocessor = threads_max;
			p.regsPerBlock = p.regsPerMultiprocessor = 65536;
			p.warpSize = 32;
			p.numSms = 1;
			p.sharedMemPerBlock = 48 << 10;
			p.sharedMemPerMultiprocessor = d.shared_kib << 10;
			p.sharedMemPerBlockOptin = p.sharedMemPerMultiprocessor - reserved;
			p.reservedSharedMemPerBlock = reserved;
			a.maxThreadsPerBlock = 1024;
			a.numRegs = u.registers = below(256);
			a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
			a.maxDynamicSharedSizeBytes = p.sharedMemPerBlockOptin;
			a.numBlockBarriers = 1;
			s.carveoutConfig = 100;
			u.threads = 1 + below(1024);
			u.shared_mem = below(2) ? below(p.sharedMemPerBlockOptin) : 0;
			if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, u.threads,
								    u.shared_mem))
				continue;
			want = (double)r.activeBlocksPerMultiprocessor * ((u.threads + 31) / 32) /
			       (threads_max / 32.0);
			compared++;
			if (occupancy_blocks(d.cc, &u, &blocks))
				share = occupancy_share(d.cc, u.threads, blocks);
			if (std::fabs(share - want) < 1e-9)
				continue;
			if (!differ++)
				printf("%d.%d, %d threads, %d registers, %d bytes: %g, not %g; ",
				       d.cc / 10, d.cc % 10, (int)u.threads, (int)u.registers,
				       (int)u.shared_mem, share, want);
		}
	}
	if (differ || compared < 200000)
		printf("%d of %d differ\n", differ, compared);
	return differ || compared < 200000;
}
