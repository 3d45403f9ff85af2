/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The files of html/. The Makefile has the dependency on them. */
#include "html_assets.h"

#include <string.h>

#define ASSET(id, file)                                                                            \
	__asm__(".pushsection .rodata\n"                                                           \
		"html_" #id ": .incbin \"src/report/page/html/" file "\"\n"                        \
		"html_" #id "_end: .byte 0\n"                                                      \
		".popsection\n");                                                                  \
	extern const char html_##id[] __attribute__((visibility("hidden")));                       \
	extern const char html_##id##_end[] __attribute__((visibility("hidden")));

#define ASSETS(X)                                                                                  \
	X(page, "page.html")                                                                       \
	X(style, "style.css")                                                                      \
	X(uplot_css, "vendor/uPlot.min.css")                                                       \
	X(uplot, "vendor/uPlot.iife.min.js")                                                       \
	X(uplot_license, "vendor/uPlot.LICENSE")                                                   \
	X(util, "util.js")                                                                         \
	X(tables, "tables.js")                                                                     \
	X(rows_js, "rows.js")                                                                      \
	X(charts, "charts.js")                                                                     \
	X(events, "events.js")                                                                     \
	X(draw, "draw.js")                                                                         \
	X(timeline, "timeline.js")                                                                 \
	X(input, "input.js")                                                                       \
	X(sections, "sections.js")                                                                 \
	X(map, "map.js")                                                                           \
	X(serving, "serving.js")                                                                   \
	X(app, "app.js")

ASSETS(ASSET)

const char *html_asset(const char *name, size_t len, size_t *size)
{
#define ROW(id, file) {#id, html_##id, html_##id##_end},
	static const struct {
		const char *name, *data, *end;
	} assets[] = {ASSETS(ROW)};

	for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++) {
		if (strlen(assets[i].name) == len && !memcmp(assets[i].name, name, len)) {
			*size = (size_t)(assets[i].end - assets[i].data);
			return assets[i].data;
		}
	}
	return NULL;
}
