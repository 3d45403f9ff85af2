/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The values of all families' enums by the names that their headers give them: CUDA_ERROR_NOT_READY
 * is what cuda_enums.def says. */
#ifndef DECODE_API_VALUES_H
#define DECODE_API_VALUES_H

enum {
#define ENUM_BEGIN(e)
#define VALUE(name, value) name = (value),
#define ENUM_END(e)
#include "api_tables.h"
};

#endif /* DECODE_API_VALUES_H */
