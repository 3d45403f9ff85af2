/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The API table inside the mock driver: hidden, so that it does not clash with the tracer's copy.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(hidden)
#include "decode/cuda.c"
#include "decode/ops.c"
