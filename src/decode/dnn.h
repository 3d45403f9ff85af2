/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cuDNN's graph API: kinds of descriptors, the attributes that define the computation, and names of
 * element types. The numbers are from cuDNN 9.19; 9.0 and 9.28 have the same.
 */
#ifndef DECODE_DNN_H
#define DECODE_DNN_H

#include <stdbool.h>
#include <stdint.h>

/* cudnnBackendDescriptorType_t, except operations. */
enum dnn_type {
	DNN_CONVOLUTION = 1, /* parameters of the operation */
	DNN_ENGINE = 2,
	DNN_ENGINECFG = 3,
	DNN_ENGINEHEUR = 4,
	DNN_PLAN = 5,
	DNN_GRAPH = 15,
	DNN_VARIANT_PACK = 16,
	DNN_TENSOR = 17,
	DNN_MATMUL = 18, /* parameters of the operation */
	/* the legacy API: tensors and filters (cudnnSetTensor4dDescriptor() and similar);
	 * parameters of a convolution */
	DNN_TENSOR_CLASSIC = 0x100,
	DNN_CONVOLUTION_CLASSIC = 0x101,
};

/* cudnnBackendAttributeName_t, those used by name. */
enum dnn_attr {
	DNN_CONVOLUTION_COMP_TYPE = 100,
	DNN_GRAPH_OPS = 801,
	DNN_TENSOR_DATA_TYPE = 901,
	DNN_TENSOR_DIMENSIONS = 902,
	DNN_TENSOR_VECTOR_COUNT = 904,
	DNN_VARIANT_PACK_OVERRIDE_SHAPES = 1011,
	DNN_MATMUL_COMP_TYPE = 1500,
};

/* cudnnBackendAttributeType_t */
enum dnn_element {
	DNN_DATA_TYPE = 1,
	DNN_INT64 = 3,
	DNN_DESCRIPTOR = 15,
};

/* CUDNN_DIM_MAX */
#define DNN_DIMS 8

/* A, B, C, and the conv or matmul descriptor */
enum { DNN_A, DNN_B, DNN_C, DNN_HOW, DNN_OPERANDS };

/* How an operation maps to a matrix product. */
enum dnn_form {
	DNN_NO_PRODUCT,
	DNN_FORWARD,	       /* y = x w */
	DNN_BACKWARD_DATA,     /* dx = dy w */
	DNN_BACKWARD_FILTER,   /* dw = dy x */
	DNN_PRODUCT,	       /* C = A B */
	DNN_ATTENTION,	       /* two products of q, k, v */
	DNN_ATTENTION_BACKWARD /* five products of q, k, v and the gradient */
};

struct dnn_operation {
	const char *op;		     /* "op" of a plan with this operation */
	uint8_t rank;		     /* a graph has the name of its highest-ranked operation */
	uint8_t form;		     /* enum dnn_form */
	uint16_t attr[DNN_OPERANDS]; /* 0: none */
};

/* Returns NULL if the type is not an operation. */
const struct dnn_operation *dnn_operation(uint64_t type);
/* Returns whether this attribute refers to a descriptor made from the same graph. */
bool dnn_is_of_graph(uint64_t type, uint64_t attr);
/* Names of a cudnnDataType_t as in cudaDataType, and as in cublasComputeType_t; NULL: unknown. */
const char *dnn_data_type(uint64_t type);
/* Bits of an element, by cudaDataType's name: "CUDA_R_16BF" has 16, "CUDA_C_32F" 64. 0: not
 * known. */
unsigned cuda_type_bits(const char *name);
const char *dnn_compute_type(uint64_t type);

#endif /* DECODE_DNN_H */
