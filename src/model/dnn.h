/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cuDNN descriptors of a process. A plan refers to its operations through a chain of descriptors:
 * tensors, operations, an operation graph, an engine configuration. The computation of a graph is
 * derived once and copied along the chain, so earlier descriptors are not needed again. The target
 * controls all of it; it is accepted if sizes do not contradict each other.
 */
#ifndef MODEL_DNN_H
#define MODEL_DNN_H

#include "event.h"

#include "decode/dnn.h"
#include "util/hash_table.h"
#include "util/limits.h"

struct dnn_tensor {
	uint32_t type; /* cudnnDataType_t */
	uint16_t cnt;  /* number of dims; 0: unknown */
	bool vectors;  /* vectorized layout: dims are not in elements */
	uint64_t dims[DNN_DIMS];
};

/* The computation of an operation, a graph or a plan. */
struct dnn_work {
	const char *op;	  /* NULL: not known */
	uint8_t rank;	  /* precedence of op */
	uint8_t products; /* number of products, of known sizes or not */
	bool reduces;
	struct gemm_info g; /* sizes of the first product; flops of all, 0: unknown */
	uint64_t bytes[3];  /* of the operands of one product; 0: unknown */
};

struct dnn_desc {
	struct hash_link link;
	uint64_t handle;
	uint32_t type; /* enum dnn_type, or the type of an operation */
	bool done;     /* an operation: work is known, operands are no longer stored */
	union {
		struct dnn_tensor tensor;
		uint64_t operands[DNN_OPERANDS]; /* handles */
		struct dnn_work work;
		uint32_t compute; /* cudnnDataType_t */
		bool overridden;  /* a variant pack that overrides shapes */
	};
};
HASH_TABLE(dnn_desc, handle);

#define DNN_INNER 8
struct dnn {
	struct dnn_desc_table by_handle;
	struct quota *quota;
	struct quota_share share;
	/* The last calls in which cuBLAS products were counted. */
	uint64_t inner[DNN_INNER];
	unsigned inner_next;
};

/* The elements of an attribute. */
struct dnn_elements {
	const uint64_t *v;
	unsigned cnt;	/* elements read */
	uint64_t wants; /* elements that exist */
};

/* Returns NULL if out of memory. */
struct dnn *dnn__new(struct quota *quota);
/* Adds a new descriptor, replacing any old one with this handle. Returns NULL if the limit is
 * reached. */
struct dnn_desc *dnn__made(struct dnn *ds, uint64_t handle, uint32_t type);
/* Returns NULL if unknown. */
struct dnn_desc *dnn__find(const struct dnn *ds, uint64_t handle);
void dnn__set(struct dnn *ds, struct dnn_desc *d, uint64_t attr, uint64_t type,
	      const struct dnn_elements *e);
/* Records that the program read these elements of d. */
void dnn__got(struct dnn *ds, const struct dnn_desc *d, uint64_t attr,
	      const struct dnn_elements *e);
/* All attributes of d are set. */
void dnn__finalize(const struct dnn *ds, struct dnn_desc *d);
void dnn__drop(struct dnn *ds, uint64_t handle);
/* Drops all descriptors, because a handle may have been reused after calls were dropped. ds may be
 * NULL. */
void dnn__clear(struct dnn *ds);
void dnn__free(struct dnn *ds);

/* Values that are not positive, or too many, leave the dimensions unknown. */
void dnn_tensor__set_dims(struct dnn_tensor *t, const uint64_t *dims, uint64_t cnt);
/* Computes the sizes of an operation of form from A, B and C (NULL: unknown). Returns false if they
 * are unknown or inconsistent. */
bool dnn_sizes(enum dnn_form form, const struct dnn_tensor *const t[3], struct gemm_info *g);

#endif /* MODEL_DNN_H */
