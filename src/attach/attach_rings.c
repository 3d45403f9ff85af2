/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ring buffers: one for each processor, so that programs on two of them never wait for each
 * other. */
#include "attach_priv.h"

#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* A processor's calls of 10 ms at least, unless less was asked for: for so long a reader may get no
 * processor. */
#define RING_SZ_MIN (1u << 20)
/* Unless there are so many processors that those would take more than this, which is more than was
 * asked for. */
#define RINGS_SZ_MAX  (64ull << 20)
#define RING_SZ_LEAST (64u << 10)

size_t rings__share(uint64_t total, unsigned cnt)
{
	uint64_t most = total > RINGS_SZ_MAX ? total : RINGS_SZ_MAX;
	size_t share = total;

	while (share * cnt > total && share > RING_SZ_MIN)
		share /= 2;
	while (share * cnt > most && share > RING_SZ_LEAST)
		share /= 2;
	return share;
}

int rings__make(struct attach *a, uint64_t total)
{
	long cnt = sysconf(_SC_NPROCESSORS_ONLN);

	a->ring_cnt = cnt > 0 ? cnt : 1;
	a->ring_fds = malloc(a->ring_cnt * sizeof(*a->ring_fds));
	if (!a->ring_fds) {
		err("out of memory");
		return -ENOMEM;
	}
	for (unsigned i = 0; i < a->ring_cnt; i++)
		a->ring_fds[i] = -1;
	a->ring_sz = rings__share(total, a->ring_cnt);
	for (unsigned i = 0; i < a->ring_cnt; i++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, a->ring_sz, NULL);

		if (fd < 0) {
			int ret = -errno;

			attach__load_error(ret);
			return ret;
		}
		a->ring_fds[i] = fd;
	}
	return 0;
}

/* In one call where the kernel has it (5.13): at each it waits until no program can see what was
 * there before, 10 ms, and there are as many as processors. */
int rings__use(const struct attach *a)
{
	int fd = bpf_map__fd(a->skel->maps.rings), ret = 0;
	uint32_t cnt = a->ring_cnt, *ids = calloc(cnt, sizeof(*ids));

	for (uint32_t i = 0; ids && i < cnt; i++)
		ids[i] = i;
	if (ids && !bpf_map_update_batch(fd, ids, a->ring_fds, &cnt, NULL))
		goto done;
	for (uint32_t i = 0; i < a->ring_cnt && !ret; i++)
		ret = bpf_map_update_elem(fd, &i, &a->ring_fds[i], BPF_ANY);
done:
	free(ids);
	return ret;
}

void rings__close(struct attach *a)
{
	for (unsigned i = 0; a->ring_fds && i < a->ring_cnt; i++)
		if (a->ring_fds[i] >= 0)
			close(a->ring_fds[i]);
	free(a->ring_fds);
}
