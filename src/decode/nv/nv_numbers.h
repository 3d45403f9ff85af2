/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers of the driver's tables under the names in NVIDIA's headers: NV_ESC_RM_CONTROL has the
 * value in escape.def. The tables define which drivers have a number, and its meaning there. */
#ifndef DECODE_NV_NV_NUMBERS_H
#define DECODE_NV_NV_NUMBERS_H

enum nv_escape_nr {
#define ESC(nr, name, ...) name = (nr),
#define ESC_SHORT(nr, name, ...)
#include "escape.def"
#undef ESC
#undef ESC_SHORT
};

enum nv_class_nr {
#define CLASS(nr, name, ...) name = (nr),
#include "rmclass.def"
#undef CLASS
};

enum nv_heap_function {
#define HEAP(nr, name) NVOS32_FUNCTION_##name = (nr),
#include "heap.def"
#undef HEAP
};

#endif /* DECODE_NV_NV_NUMBERS_H */
