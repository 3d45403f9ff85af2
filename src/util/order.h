/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Comparisons for qsort(): negative, 0 or positive. Several are joined by ?: And binary search. */
#ifndef UTIL_ORDER_H
#define UTIL_ORDER_H

#include <stddef.h>

#define ASCENDING(a, b)	 (((a) > (b)) - ((a) < (b)))
#define DESCENDING(a, b) ASCENDING(b, a)

/* How many elements a condition holds for, of cnt that are sorted so that these come first. The
 * condition is of i, the number of an element. */
#define COUNT_LEADING(i, cnt, condition)                                                           \
	({                                                                                         \
		size_t i##_from = 0, i##_to = (cnt), i;                                            \
                                                                                                   \
		while (i##_from < i##_to) {                                                        \
			i = i##_from + (i##_to - i##_from) / 2;                                    \
			if (condition)                                                             \
				i##_from = i + 1;                                                  \
			else                                                                       \
				i##_to = i;                                                        \
		}                                                                                  \
		i##_from;                                                                          \
	})

#endif /* UTIL_ORDER_H */
