/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Expands the tables of all families, in the order of apis.def. Macros that the includer does not
 * define expand to nothing. FAMILY is the ID of the current one. May be included repeatedly.
 *
 * ENUM_BEGIN(name) VALUE(name, value)... ENUM_END(name)
 * STRUCT_BEGIN(name, size) FIELD(offset, type, name)... FIELD_ARR(offset, type, name, count)...
 * STRUCT_END(name)                              and FIELD_IF, FIELD_ARR_IF: cuda_structs.def
 * TYPE(token, name, size, kind) TYPE_ENUM(token, name, kind, enum)
 * TYPE_ENUM_SZ(token, name, size, kind, enum) TYPE_STRUCT(token, name, struct)
 * FN(symbol, class, op, since, args)             see cuda_types.def, cuda_api.def
 * FN_NO_RESULT(symbol, class, op, since, args)   it does not return a result
 */
#ifndef ENUM_BEGIN
#define ENUM_BEGIN(e)
#define VALUE(n, v)
#define ENUM_END(e)
#endif
#ifndef STRUCT_BEGIN
#define STRUCT_BEGIN(s, size)
#define FIELD(off, type, n)
#define FIELD_ARR(off, type, n, cnt)
#define STRUCT_END(s)
#endif
#ifndef FIELD_IF
#define FIELD_IF(off, type, n, sel, values)
#define FIELD_ARR_IF(off, type, n, cnt, sel, values)
#endif
#ifndef TYPE
#define TYPE(t, c, size, kind)
#define TYPE_ENUM(t, c, kind, e)
#define TYPE_ENUM_SZ(t, c, size, kind, e)
#define TYPE_STRUCT(t, c, s)
#endif
#ifndef FN
#define FN(symbol, class, op, since, args)
#endif
#ifndef FN_NO_RESULT
#define FN_NO_RESULT FN
#endif

#include "api_includes.h" /* generated from apis.def */

#undef ENUM_BEGIN
#undef VALUE
#undef ENUM_END
#undef STRUCT_BEGIN
#undef FIELD
#undef FIELD_ARR
#undef FIELD_IF
#undef FIELD_ARR_IF
#undef STRUCT_END
#undef TYPE
#undef TYPE_ENUM
#undef TYPE_ENUM_SZ
#undef TYPE_STRUCT
#undef FN
#undef FN_NO_RESULT
