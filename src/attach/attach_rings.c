/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ring buffers: one per processor, so that programs on two processors never contend. */
#include "attach_priv.h"

#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* At least 10 ms of one processor's calls, unless less was requested: a reader may have to wait
 * that long for a processor. */
#define RING_SZ_MIN (1u << 20)
/* With many processors, this limits all rings together. It is more than was requested. */
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

static int make_rings(struct attach *a)
{
	for (unsigned i = 0; i < a->ring_cnt; i++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, a->ring_sz, NULL);

		if (fd < 0)
			return fd;
		a->ring_fds[i] = fd;
	}
	return 0;
}

/* Uses one call where the kernel has it (5.13). Each call waits 10 ms until no program can see the
 * previous value, and there is one ring per processor. */
static int fill_table(const struct attach *a)
{
	uint32_t cnt = a->ring_cnt, *ids = calloc(cnt, sizeof(*ids));
	int ret = ids ? 0 : -ENOMEM;

	for (uint32_t i = 0; ids && i < cnt; i++)
		ids[i] = i;
	if (ids && !bpf_map_update_batch(a->rings_fd, ids, a->ring_fds, &cnt, NULL))
		goto done;
	for (uint32_t i = 0; i < a->ring_cnt && !ret; i++)
		ret = bpf_map_update_elem(a->rings_fd, &i, &a->ring_fds[i], BPF_ANY);
done:
	free(ids);
	return ret;
}

static void *make_and_fill(void *arg)
{
	struct attach *a = arg;

	a->rings_ret = make_rings(a);
	if (!a->rings_ret)
		a->rings_ret = fill_table(a);
	return NULL;
}

/* Creates the map of rings, with a template ring of any size. */
static int make_table(struct attach *a)
{
	int ring = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, RING_SZ_LEAST, NULL);
	LIBBPF_OPTS(bpf_map_create_opts, opts, .inner_map_fd = ring);

	if (ring < 0)
		return ring;
	a->rings_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "rings", sizeof(uint32_t),
				     sizeof(uint32_t), a->ring_cnt, &opts);
	close(ring);
	return a->rings_fd < 0 ? a->rings_fd : 0;
}

int rings__begin(struct attach *a, uint64_t total)
{
	long cnt = sysconf(_SC_NPROCESSORS_ONLN);
	int ret;

	a->ring_cnt = cnt > 0 ? cnt : 1;
	a->ring_sz = rings__share(total, a->ring_cnt);
	a->ring_fds = malloc(a->ring_cnt * sizeof(*a->ring_fds));
	if (!a->ring_fds) {
		err("out of memory");
		return -ENOMEM;
	}
	for (unsigned i = 0; i < a->ring_cnt; i++)
		a->ring_fds[i] = -1;
	ret = make_table(a);
	if (ret) {
		attach__load_error(ret);
		return ret;
	}
	a->has_rings_maker = !pthread_create(&a->rings_maker, NULL, make_and_fill, a);
	if (!a->has_rings_maker)
		make_and_fill(a);
	return 0;
}

int rings__end(struct attach *a)
{
	if (a->has_rings_maker)
		pthread_join(a->rings_maker, NULL);
	a->has_rings_maker = false;
	return a->rings_ret;
}

void rings__close(struct attach *a)
{
	rings__end(a);
	if (a->rings_fd >= 0)
		close(a->rings_fd);
	for (unsigned i = 0; a->ring_fds && i < a->ring_cnt; i++)
		if (a->ring_fds[i] >= 0)
			close(a->ring_fds[i]);
	free(a->ring_fds);
}
