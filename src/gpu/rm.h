/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A client of the NVIDIA driver's resource manager (RM), through ioctls and without NVIDIA's
 * libraries. All calls use the file that created the client. They return 0, a positive status of
 * the driver, or -errno.
 */
#ifndef GPU_RM_H
#define GPU_RM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A GPU, as the driver lists them. */
struct rm_card {
	uint8_t valid, pad0[3];
	uint32_t domain;
	uint8_t bus, slot, function, pad1;
	uint16_t vendor, device;
	uint32_t id;
	uint16_t irq, pad2;
	uint64_t registers, registers_size, memory, memory_size;
	uint32_t minor; /* of /dev/nvidiaN */
	uint8_t irq_name[10], pad3[2];
};
#define RM_CARDS 32

struct rm {
	int ctl; /* /dev/nvidiactl; -1: not open */
	uint32_t client;
	bool any_file; /* tests: a mock that is not a character device */
};

/* Memory of the driver, mapped for reading. */
struct rm_map {
	const void *at; /* NULL: none */
	size_t size;
	int fd;
};

/* Opens the driver, without creating a client. */
int rm__open(struct rm *rm, bool any_file);
/* Writes the version, such as "580.159.04". */
int rm__version(const struct rm *rm, char text[64]);
int rm__cards(const struct rm *rm, struct rm_card cards[RM_CARDS]);
int rm__make_client(struct rm *rm);
/* Opens /dev/nvidiaN for this client, which attaches the GPU. Returns its descriptor. */
int rm__open_gpu(const struct rm *rm, unsigned minor);
/* Sets *object to the new object's handle. */
int rm__alloc(const struct rm *rm, uint32_t parent, uint32_t class, void *params, uint32_t size,
	      uint32_t *object);
int rm__control(const struct rm *rm, uint32_t object, uint32_t command, void *params,
		uint32_t size);
void rm__free(const struct rm *rm, uint32_t object);
/* Maps memory for reading only. The memory's parent must be the client. */
int rm__map(const struct rm *rm, uint32_t memory, size_t size, struct rm_map *map);
void rm__unmap(struct rm_map *map);
/* Frees the client with all its objects. The driver does the same when the process ends. */
void rm__close(struct rm *rm);

/* Requests made after rm__map(), which a sandbox has to allow. */
#define RM_REQUEST_CONTROL 0xc020462au
#define RM_REQUEST_FREE	   0xc0104629u

#endif /* GPU_RM_H */
