/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Descriptors of cuDNN of a process. A plan's operations are in descriptors that lead to it:
 * tensors, operations, a graph of these, then what an engine makes of it. What a graph computes is
 * worked out once and handed on from each to the next, so that none is needed again. All of it is
 * the target's, and is believed when sizes do not contradict each other.
 */
#ifndef MODEL_DNN_H
#define MODEL_DNN_H

#include "event.h"

#include "decode/dnn.h"
#include "util/quota.h"

#include <uthash.h>

struct dnn_tensor {
	uint32_t type; /* cudnnDataType_t */
	uint16_t cnt;  /* of dims; 0: not known */
	bool vectors;  /* dims are not in elements */
	uint64_t dims[DNN_DIMS];
};

/* What an operation, a graph or a plan computes. */
struct dnn_work {
	const char *op;	  /* NULL: not known */
	uint8_t rank;	  /* of op */
	uint8_t products; /* and how many there are, of known sizes or not */
	bool reduces;
	struct gemm_info g; /* of the first product; flops of all, 0: not known */
};

struct dnn_desc {
	uint64_t handle;
	uint32_t type; /* enum dnn_type, or an operation's */
	bool done;     /* an operation: work is known, operands are not any more */
	union {
		struct dnn_tensor tensor;
		uint64_t operands[DNN_OPERANDS]; /* handles */
		struct dnn_work work;
		uint32_t compute; /* cudnnDataType_t */
		bool overridden;  /* a variant pack: with other shapes */
	};
	UT_hash_handle hh;
};

#define DNN_INNER 8
struct dnn {
	struct dnn_desc *by_handle;
	struct quota *quota;
	struct quota_share share;
	/* Calls in which products of cuBLAS were counted, the last of them. */
	uint64_t inner[DNN_INNER];
	unsigned inner_next;
};

/* Elements of an attribute. */
struct dnn_elements {
	const uint64_t *v;
	unsigned cnt;	/* that were read */
	uint64_t wants; /* that there are */
};

/* NULL: no memory. */
struct dnn *dnn__new(struct quota *quota);
/* One that has just been made, whatever had its handle before. NULL: there is no room. */
struct dnn_desc *dnn__made(struct dnn *ds, uint64_t handle, uint32_t type);
/* NULL: not known. */
struct dnn_desc *dnn__find(const struct dnn *ds, uint64_t handle);
void dnn__set(struct dnn *ds, struct dnn_desc *d, uint64_t attr, uint64_t type,
	      const struct dnn_elements *e);
/* d was asked for these. */
void dnn__got(struct dnn *ds, const struct dnn_desc *d, uint64_t attr,
	      const struct dnn_elements *e);
/* All attributes of d are set. */
void dnn__finalize(const struct dnn *ds, struct dnn_desc *d);
void dnn__drop(struct dnn *ds, uint64_t handle);
/* When calls were lost: a handle may be another's by now. NULL: nothing. */
void dnn__clear(struct dnn *ds);
void dnn__free(struct dnn *ds);

/* What is not positive, or more than there may be, leaves them unknown. */
void dnn_tensor__set_dims(struct dnn_tensor *t, const uint64_t *dims, uint64_t cnt);
/* The sizes of an operation of form, of A, B and C (NULL: not known); false: they are not known, or
 * make no sense. */
bool dnn_sizes(enum dnn_form form, const struct dnn_tensor *const t[3], struct gemm_info *g);

#endif /* MODEL_DNN_H */
