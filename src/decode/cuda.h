/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CUDA driver API as data.
 *
 * Each row of cuda_api.def is one exported function. The attach list, the capture spec of the BPF
 * programs, the decoder, the exports of the mock library and `cudatrace list` are generated
 * from it. Types, enums and structs that rows name are rows too (cuda_types.def, cuda_enums.def,
 * cuda_structs.def). The sources are cuda.h, cudaGL.h, cudaEGL.h, cudaVDPAU.h, cudaProfiler.h and
 * cudaTypedefs.h of CUDA 13.0; tools/cuda-api-draft.py drafts rows from an installed header and
 * reports differences.
 */
#ifndef DECODE_CUDA_H
#define DECODE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops.h"

/* The classes of -e, in the order of `cudatrace list`. */
enum api_class {
#define CLASS(id, ...)	      CLASS_##id,
#define CLASS_BESIDE(id, ...) CLASS_##id,
#include "cuda_classes.def"
#undef CLASS
	CLASS_CNT
};

/* The levels of --detail. */
enum api_detail {
	DETAIL_UNSET, /* not set: as NORMAL */
#define DETAIL(id, ...) DETAIL_##id,
#include "details.def"
#undef DETAIL
	DETAIL_CNT
};

/* How a value is printed. */
enum cuda_kind {
	KIND_INT,    /* signed number */
	KIND_UINT,   /* unsigned number */
	KIND_FLOAT,  /* float (4) or double (8) */
	KIND_HEX,    /* pointer, handle, mask: hexadecimal string */
	KIND_ENUM,   /* one name of an enum */
	KIND_FLAGS,  /* names of an enum joined by | */
	KIND_BYTES,  /* raw bytes as a hexadecimal string (CUuuid) */
	KIND_CHARS,  /* char array inside a struct */
	KIND_STRUCT, /* fields */
	KIND_PTR,    /* pointer that is not followed */
};

struct api_enum_value {
	const char *name;
	int64_t value;
};

struct api_enum {
	const char *name;
	const struct api_enum_value *values; /* ascending by value; aliases after the first */
	unsigned value_cnt;
};

struct api_type {
	const char *name; /* as in cuda.h */
	uint16_t size;	  /* bytes on a 64-bit system */
	uint8_t kind;	  /* enum cuda_kind */
	const struct api_enum *en;
	const struct api_struct *st;
};

/* api_field.selector: an argument of the call. */
#define BY_ARG UINT16_MAX

struct api_field {
	uint16_t off;
	uint16_t count; /* array length, 1 for a plain field */
	/* A member of a union: offset in the struct of the number that selects it, or BY_ARG, and a
	 * bit for each selecting number. selected_by 0: always present. */
	uint16_t selector;
	uint32_t selected_by;
	const struct api_type *type;
	const char *name;
};

struct api_struct {
	const char *name;
	uint16_t size;
	const struct api_field *fields;
	unsigned field_cnt;
};

enum cuda_dir {
	DIR_END = 0,
	DIR_IN,	      /* passed by value */
	DIR_OUT,      /* pointer; the callee writes one value of this type */
	DIR_INOUT,    /* pointer; read on return */
	DIR_IN_PTR,   /* pointer to one const value (a struct) */
	DIR_IN_STR,   /* const char * */
	DIR_OUT_STR,  /* char * buffer that the callee fills with a string */
	DIR_OUT_PSTR, /* const char **: the callee stores the address of a string */
	DIR_IN_ARR,   /* pointer to const elements, number in another argument */
	DIR_OUT_ARR,  /* pointer to elements that the callee writes, number in another argument */
};

/* Maximum number of arguments of a function. */
#define API_ARGS_MAX 32

struct api_arg {
	uint8_t dir;	   /* enum cuda_dir */
	uint8_t count_arg; /* DIR_*_ARR: index of the argument that holds the number */
	const struct api_type *type;
	const char *name;
};

/* Predefined streams of cuda.h; 0 is one of the two, depending on the function's name. */
#define CU_STREAM_LEGACY     1
#define CU_STREAM_PER_THREAD 2

/* A family of libraries: a row of apis.def. */
enum api_id {
#define API(id, name, files, prefix, results, ok, pending) API_##id,
#include "apis.def"
#undef API
	API_CNT
};

struct api {
	enum api_id id;
	const char *name;
	const char *files;
	const char *prefix;
	const struct api_enum *results;
	int32_t ok, pending;
	bool is_requested; /* traced only if an option names it */
};

struct api_fn {
	const char *symbol; /* as exported */
	const char *name;   /* public name: symbol without _v2, _ptsz and similar suffixes */
	uint8_t api;	    /* enum api_id */
	uint8_t class;	    /* enum api_class */
	uint8_t op;	    /* enum api_op */
	uint8_t arg_cnt;
	bool per_thread; /* _ptsz, _ptds: stream 0 is the thread's own default stream */
	bool is_async;
	bool no_result; /* it does not return a result */
	bool known;	/* false: generic row for a symbol that is not in the table */
	uint16_t since; /* CUDA version as 1000 * major + 10 * minor, 0: not documented */
	const struct api_arg *args;
};

const struct api *api_at(enum api_id id);
/* Returns NULL if there is none. */
const struct api *api_by_name(const char *name, size_t len);
/* Returns the family by the symbol's prefix, also for symbols that are not in the tables. NULL: no
 * family. */
const struct api *api_of_symbol(const char *symbol);
/* Returns the family of a file name without directories: libcuda.so, libcuda.so.1,
 * libcuda.so.580.159.04 are CUDA's, libcudart.so.12 is not. NULL: no family. */
const struct api *api_of_file(const char *basename);
/* Returns the i-th of api->files and its length; NULL: there is none. */
const char *api_file(const struct api *api, unsigned i, size_t *len);
/* Returns the i-th file of all families, the driver's first, and its family. */
const char *api_any_file(unsigned i, const struct api **api, size_t *len);
/* Returns "libcuda", for people. */
const char *api_lib_name(const struct api *api);
/* Returns the length of the part of a file name common to all versions: up to ".so", or a star. */
size_t api_stem_len(const char *file);

/* Returns the rows in the order of the tables; IDs are indexes and are not stable between
 * builds. */
const struct api_fn *api_fns(unsigned *cnt);
/* Returns NULL if the table has no such symbol. */
const struct api_fn *api_fn_by_symbol(const char *symbol);
/* Writes the public name of an exported symbol: without version and stream suffixes. Writes at most
 * size bytes including the NUL. */
void api_public_name(const char *symbol, char *buf, size_t size);

const char *api_class_name(enum api_class c);
const char *api_class_text(enum api_class c);
/* Returns -1 if there is no such class. */
int api_class_by_name(const char *name, size_t len);
const char *api_op_name(enum api_op op);
/* Returns whether fn is a query: it only looks something up, programs make hundreds of thousands
 * of its calls, and it is off by default. */
bool api_fn_is_query(const struct api_fn *fn);

const char *detail_name(enum api_detail d);
const char *detail_text(enum api_detail d);
/* Returns -1 if there is no such level. */
int detail_by_name(const char *name);
/* Returns the first level that includes the function. */
enum api_detail api_fn_detail(const struct api_fn *fn);

/* Returns whether the call unloads modules or contexts, so that kernel handles may be reused. */
bool api_fn_unloads(const struct api_fn *fn);

/* Returns whether the function's return is never probed. */
bool api_fn_is_entry_only(const struct api_fn *fn);

/* Returns the index of the argument with the number of bytes allocated, moved, mapped or registered
 * (type `bytes` or `bytes32` in the row), or -1. */
int api_fn_bytes_arg(const struct api_fn *fn);

/* Returns the name of a value, or NULL. */
const char *api_enum_name(const struct api_enum *en, int64_t value);
const struct api_enum *api_enum_by_name(const char *name);
const struct api_type *api_type_by_name(const char *name);
const struct api_struct *api_struct_by_name(const char *name);
/* Returns the name of a result, such as "CUDA_ERROR_INVALID_VALUE"; NULL if unknown. */
const char *api_result_name(const struct api *api, int32_t result);
const char *fn_result_name(const struct api_fn *fn, int32_t result);
/* Returns whether the result is neither success nor "pending". */
bool fn_is_error(const struct api_fn *fn, int32_t result);

#endif /* DECODE_CUDA_H */
