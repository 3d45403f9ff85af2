/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The CUDA tables of types, enums and structs: rows are well formed, a few match cuda.h. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "cuda.h"

/* include/ct_spec.h: the most that one capture holds. */
#define MAX_STRUCT_SZ 512

static const char *const type_names[] = {
#define TYPE(t, c, s, k)	    c,
#define TYPE_ENUM(t, c, k, e)	    c,
#define TYPE_ENUM_SZ(t, c, s, k, e) c,
#define TYPE_STRUCT(t, c, s)	    c,
#include "cuda_types.def"
#undef TYPE
#undef TYPE_ENUM
#undef TYPE_ENUM_SZ
#undef TYPE_STRUCT
};

static const char *const enum_names[] = {
#define ENUM_BEGIN(e) #e,
#define VALUE(n, v)
#define ENUM_END(e)
#include "cuda_enums.def"
#undef ENUM_BEGIN
#undef VALUE
#undef ENUM_END
};

static const char *const struct_names[] = {
#define STRUCT_BEGIN(s, sz) #s,
#define FIELD(o, t, n)
#define FIELD_ARR(o, t, n, c)
#define FIELD_IF(o, t, n, s, v)
#define FIELD_ARR_IF(o, t, n, c, s, v)
#define STRUCT_END(s)
#include "cuda_structs.def"
#undef STRUCT_BEGIN
#undef FIELD
#undef FIELD_ARR
#undef FIELD_IF
#undef FIELD_ARR_IF
#undef STRUCT_END
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_enums(void **state)
{
	for (size_t i = 0; i < COUNT(enum_names); i++) {
		const struct api_enum *en = api_enum_by_name(enum_names[i]);

		assert_non_null(en);
		/* Names are unique, so that a lookup by name finds this row. */
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(enum_names[i], enum_names[j]);
		assert_true(en->value_cnt > 0);
		for (unsigned v = 1; v < en->value_cnt; v++)
			if (en->values[v].value < en->values[v - 1].value)
				fail_msg("%s: %s is out of order", en->name, en->values[v].name);
	}
	assert_null(api_enum_by_name("CUnothing"));
}

static void test_types(void **state)
{
	for (size_t i = 0; i < COUNT(type_names); i++) {
		const struct api_type *t = api_type_by_name(type_names[i]);

		assert_non_null(t);
		assert_true(t->size > 0);
		assert_int_equal(t->kind == KIND_STRUCT, !!t->st);
		assert_int_equal(t->kind == KIND_ENUM || t->kind == KIND_FLAGS, !!t->en);
		if (t->kind == KIND_FLOAT)
			assert_true(t->size == 4 || t->size == 8);
		if (t->kind == KIND_PTR)
			assert_int_equal(t->size, 8);
	}
}

static unsigned end_of(const struct api_field *f)
{
	return f->off + f->count * f->type->size;
}

/* Members of a union may overlap, if no number selects both. */
static bool overlap(const struct api_field *a, const struct api_field *b)
{
	if (a->selected_by && b->selected_by && a->selector == b->selector &&
	    !(a->selected_by & b->selected_by))
		return false;
	return a->off < end_of(b) && b->off < end_of(a);
}

static void test_structs(void **state)
{
	for (size_t i = 0; i < COUNT(struct_names); i++) {
		const struct api_struct *st = api_struct_by_name(struct_names[i]);

		assert_non_null(st);
		assert_true(st->size > 0 && st->size <= MAX_STRUCT_SZ);
		assert_true(st->field_cnt > 0);
		for (unsigned f = 0; f < st->field_cnt; f++) {
			const struct api_field *field = &st->fields[f];

			assert_true(field->count && field->type->size);
			if (end_of(field) > st->size)
				fail_msg("%s: %s ends at %u of %u", st->name, field->name,
					 end_of(field), st->size);
			for (unsigned b = 0; b < f; b++)
				if (overlap(&st->fields[b], field))
					fail_msg("%s: %s overlaps", st->name, field->name);
		}
	}
	assert_null(api_struct_by_name("CUnothing"));
}

static void check_field(const char *st_name, const char *name, unsigned off, unsigned size)
{
	const struct api_struct *st = api_struct_by_name(st_name);

	assert_non_null(st);
	for (unsigned i = 0; i < st->field_cnt; i++) {
		if (strcmp(st->fields[i].name, name))
			continue;
		assert_int_equal(st->fields[i].off, off);
		assert_int_equal(st->fields[i].type->size * st->fields[i].count, size);
		return;
	}
	fail_msg("%s has no field %s", st_name, name);
}

static void test_known_structs(void **state)
{
	assert_int_equal(api_struct_by_name("CUlaunchConfig")->size, 56);
	check_field("CUlaunchConfig", "gridDimX", 0, 4);
	check_field("CUlaunchConfig", "sharedMemBytes", 24, 4);
	check_field("CUlaunchConfig", "hStream", 32, 8);
	check_field("CUlaunchConfig", "attrs", 40, 8);
	check_field("CUlaunchConfig", "numAttrs", 48, 4);
	assert_int_equal(api_struct_by_name("CUlaunchAttribute")->size, 72);
	check_field("CUlaunchAttribute", "id", 0, 4);
	check_field("CUlaunchAttribute", "value", 8, 32);
	assert_int_equal(api_struct_by_name("CUDA_MEMCPY2D")->size, 128);
	check_field("CUDA_MEMCPY2D", "WidthInBytes", 112, 8);
	assert_int_equal(api_struct_by_name("CUDA_MEMCPY3D")->size, 200);
	check_field("CUDA_MEMCPY3D", "Depth", 192, 8);
	assert_int_equal(api_struct_by_name("CUmemAllocationProp")->size, 32);
	check_field("CUmemAllocationProp", "location", 8, 8);
	assert_int_equal(api_type_by_name("CUuuid")->size, 16);
	assert_int_equal(api_type_by_name("CUipcMemHandle")->size, 64);
	assert_int_equal(api_type_by_name("CUdeviceptr_v1")->size, 4);
}

static void check_value(const char *en_name, const char *name, int64_t value)
{
	const struct api_enum *en = api_enum_by_name(en_name);

	assert_non_null(en);
	assert_non_null(api_enum_name(en, value));
	assert_string_equal(api_enum_name(en, value), name);
}

static void test_known_enums(void **state)
{
	assert_string_equal(api_result_name(api_at(API_CUDA), 0), "CUDA_SUCCESS");
	assert_string_equal(api_result_name(api_at(API_CUDA), 2), "CUDA_ERROR_OUT_OF_MEMORY");
	assert_string_equal(api_result_name(api_at(API_CUDA), 600), "CUDA_ERROR_NOT_READY");
	assert_string_equal(api_result_name(api_at(API_CUDA), 700), "CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_string_equal(api_result_name(api_at(API_CUDA), 999), "CUDA_ERROR_UNKNOWN");
	assert_null(api_result_name(api_at(API_CUDA), 12345));
	assert_null(api_result_name(api_at(API_CUDA), -1));
	check_value("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", 75);
	/* Values with two names: the one that is not deprecated. */
	check_value("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK", 8);
	check_value("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
		    102);
	check_value("CUctx_flags", "CU_CTX_SCHED_BLOCKING_SYNC", 4);
	check_value("CUctx_flags", "CU_CTX_LMEM_RESIZE_TO_MAX", 0x10);
	check_value("CUstream_flags", "CU_STREAM_NON_BLOCKING", 1);
	check_value("CUlaunchAttributeID", "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION", 4);
	check_value("CUmemorytype", "CU_MEMORYTYPE_HOST", 1);
	check_value("CUmemhostalloc_flags", "CU_MEMHOSTALLOC_WRITECOMBINED", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_enums),	    cmocka_unit_test(test_types),
		cmocka_unit_test(test_structs),	    cmocka_unit_test(test_known_structs),
		cmocka_unit_test(test_known_enums),
	};

	return cmocka_run_group_tests_name("cuda_types", tests, NULL, NULL);
}
