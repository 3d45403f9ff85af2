/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ends a part of section_rows.h: the next part defines the rows anew. No header guard: it is
 * included several times. */
#undef TABLE
#undef END
#undef COL
#undef JSON
#undef TEXT
#undef OBJECT
#undef LIST
#undef TEXT_LIST
#undef ARRAY
#undef SOME
#undef SERIES
#undef MAP
#undef RAW
#undef RED
#undef DEPTH
#undef COMPARE
#undef ALWAYS
#undef IF
#undef OR_NULL
#undef IF_OR_NULL
#undef SECTION_MEMBER
#undef SECTION_ITEMS
#undef SECTION_SERIES_OF
#undef SECTION_NAMED
