/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "rm.h"

#include "ct_nv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define CTL	  "/dev/nvidiactl"
#define CTL_MINOR 255

enum {
	ESC_FREE = 0x29,
	ESC_CONTROL = 0x2a,
	ESC_ALLOC = 0x2b,
	ESC_MAP_MEMORY = 0x4e,
	ESC_CARD_INFO = 0xc8,
	ESC_REGISTER_FD = 0xc9,
	ESC_CHECK_VERSION_STR = 0xd2,
};

#define CLASS_ROOT	  0x41
#define VERSION_QUERY	  '2'
#define MAP_READ_ONLY	  1
#define PAGE_MASK	  4095ull
#define INTERRUPTED_TRIES 100

struct rm_free {
	uint32_t root, parent, object, status;
};

struct rm_control {
	uint32_t client, object, command, flags;
	uint64_t params;
	uint32_t size, status;
};

struct rm_alloc {
	uint32_t root, parent, object, class;
	uint64_t params, rights;
	uint32_t size, flags, status, pad;
};

struct rm_map_memory {
	uint32_t client, device, memory, pad0;
	uint64_t offset, length, address;
	uint32_t status, flags;
	int32_t fd;
	uint32_t pad1;
};

struct rm_version {
	uint32_t command, reply;
	char text[64];
};

_Static_assert(sizeof(struct rm_free) == 16, "NVOS00_PARAMETERS");
_Static_assert(sizeof(struct rm_control) == 32, "NVOS54_PARAMETERS");
_Static_assert(sizeof(struct rm_alloc) == 48, "NVOS64_PARAMETERS");
_Static_assert(sizeof(struct rm_map_memory) == 56, "nv_ioctl_nvos33_parameters_with_fd");
_Static_assert(sizeof(struct rm_version) == 72, "nv_ioctl_rm_api_version_t");
_Static_assert(sizeof(struct rm_card) == 72 && offsetof(struct rm_card, id) == 16 &&
		       offsetof(struct rm_card, minor) == 56,
	       "nv_ioctl_card_info_t");

#define REQUEST(nr, size) _IOC(_IOC_READ | _IOC_WRITE, 'F', nr, size)
_Static_assert(REQUEST(ESC_CONTROL, sizeof(struct rm_control)) == RM_REQUEST_CONTROL,
	       "the request that the sandbox allows");
_Static_assert(REQUEST(ESC_FREE, sizeof(struct rm_free)) == RM_REQUEST_FREE,
	       "the request that the sandbox allows");

static int call(int fd, unsigned nr, void *arg, size_t size)
{
	for (int tries = 0; tries < INTERRUPTED_TRIES; tries++) {
		if (ioctl(fd, REQUEST(nr, size), arg) >= 0)
			return 0;
		if (errno != EINTR)
			break;
	}
	return -errno;
}

/* status points to a member of the driver's reply. */
static int call_rm(const struct rm *rm, unsigned nr, void *arg, size_t size, const uint32_t *status)
{
	int ret = call(rm->ctl, nr, arg, size);

	return ret ?: (int)(*status & INT32_MAX);
}

/* These ioctls must only go to the driver's own device. */
static int open_device(const struct rm *rm, const char *path, unsigned minor)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (rm->any_file ||
	    (!fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(CT_NV_MAJOR, minor)))
		return fd;
	close(fd);
	return -ENODEV;
}

int rm__open(struct rm *rm, bool any_file)
{
	*rm = (struct rm){.ctl = -1, .any_file = any_file};
	rm->ctl = open_device(rm, CTL, CTL_MINOR);
	return rm->ctl < 0 ? rm->ctl : 0;
}

int rm__version(const struct rm *rm, char text[64])
{
	struct rm_version v = {.command = VERSION_QUERY};
	int ret = call(rm->ctl, ESC_CHECK_VERSION_STR, &v, sizeof(v));

	v.text[sizeof(v.text) - 1] = 0;
	memcpy(text, v.text, sizeof(v.text));
	return ret;
}

int rm__cards(const struct rm *rm, struct rm_card cards[RM_CARDS])
{
	memset(cards, 0, RM_CARDS * sizeof(*cards));
	return call(rm->ctl, ESC_CARD_INFO, cards, RM_CARDS * sizeof(*cards));
}

int rm__make_client(struct rm *rm)
{
	return rm__alloc(rm, 0, CLASS_ROOT, NULL, 0, &rm->client);
}

int rm__open_gpu(const struct rm *rm, unsigned minor)
{
	int32_t ctl = rm->ctl;
	char path[32];
	int fd, ret;

	snprintf(path, sizeof(path), "/dev/nvidia%u", minor);
	fd = open_device(rm, path, minor);
	if (fd < 0)
		return fd;
	ret = call(fd, ESC_REGISTER_FD, &ctl, sizeof(ctl));
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

int rm__alloc(const struct rm *rm, uint32_t parent, uint32_t class, void *params, uint32_t size,
	      uint32_t *object)
{
	struct rm_alloc a = {
		.root = rm->client,
		.parent = parent,
		.class = class,
		.params = (uintptr_t)params,
		.size = size,
	};
	int ret = call_rm(rm, ESC_ALLOC, &a, sizeof(a), &a.status);

	/* Handles are never 0. */
	if (!ret && !a.object)
		ret = -EPROTO;
	*object = ret ? 0 : a.object;
	return ret;
}

int rm__control(const struct rm *rm, uint32_t object, uint32_t command, void *params, uint32_t size)
{
	struct rm_control c = {
		.client = rm->client,
		.object = object,
		.command = command,
		.params = (uintptr_t)params,
		.size = size,
	};

	return call_rm(rm, ESC_CONTROL, &c, sizeof(c), &c.status);
}

void rm__free(const struct rm *rm, uint32_t object)
{
	struct rm_free f = {.root = rm->client, .object = object};

	if (object)
		call(rm->ctl, ESC_FREE, &f, sizeof(f));
}

/* The driver allows one mapping per file, so each mapping opens a file of its own. */
int rm__map(const struct rm *rm, uint32_t memory, size_t size, struct rm_map *map)
{
	struct rm_map_memory m = {
		.client = rm->client,
		.device = rm->client,
		.memory = memory,
		.length = size,
		.flags = MAP_READ_ONLY,
	};
	void *at;
	int ret;

	*map = (struct rm_map){.size = (size + PAGE_MASK) & ~PAGE_MASK};
	map->fd = m.fd = open_device(rm, CTL, CTL_MINOR);
	if (map->fd < 0)
		return map->fd;
	ret = call_rm(rm, ESC_MAP_MEMORY, &m, sizeof(m), &m.status);
	at = ret ? MAP_FAILED : mmap(NULL, map->size, PROT_READ, MAP_SHARED, map->fd, 0);
	if (at != MAP_FAILED) {
		/* A child that outlives cudatrace would keep the driver's file open. */
		madvise(at, map->size, MADV_DONTFORK);
		map->at = at;
		return 0;
	}
	ret = ret ?: -errno;
	close(map->fd);
	return ret;
}

void rm__unmap(struct rm_map *map)
{
	if (!map->at)
		return;
	munmap((void *)map->at, map->size);
	close(map->fd);
	map->at = NULL;
}

void rm__close(struct rm *rm)
{
	if (rm->ctl < 0)
		return;
	rm__free(rm, rm->client);
	close(rm->ctl);
	rm->ctl = -1;
}
