/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The enum values of all families under the names in their headers: CUDA_ERROR_NOT_READY has the
 * value in cuda_enums.def. */
#ifndef DECODE_API_VALUES_H
#define DECODE_API_VALUES_H

enum {
#define ENUM_BEGIN(e)
#define VALUE(name, value) name = (value),
#define ENUM_END(e)
#include "api_tables.h"
};

#endif /* DECODE_API_VALUES_H */
