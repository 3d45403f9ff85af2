/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The files of html/, embedded in the program. */
#ifndef REPORT_PAGE_HTML_ASSETS_H
#define REPORT_PAGE_HTML_ASSETS_H

#include <stddef.h>

/* Returns the page's file of this name (len bytes); NULL if there is none. */
const char *html_asset(const char *name, size_t len, size_t *size);

#endif /* REPORT_PAGE_HTML_ASSETS_H */
