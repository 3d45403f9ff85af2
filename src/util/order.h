/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Comparisons for qsort(): negative, 0 or positive. Several are joined by ?: */
#ifndef UTIL_ORDER_H
#define UTIL_ORDER_H

#define ASCENDING(a, b)	 (((a) > (b)) - ((a) < (b)))
#define DESCENDING(a, b) ASCENDING(b, a)

#endif /* UTIL_ORDER_H */
