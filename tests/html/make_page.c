/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes a page from a report's JSON and N made-up events, and prints its expected contents:
 *   make_page REPORT.json PAGE.html N [MAX]   ->   {"events":N,"lanes":N,...}
 * MAX: events above it are merged. The events last as long as the sample report, 12.4 s.
 */
#include <stdio.h>
#include <stdlib.h>

#include "report/page/html.h"
#include "unit/factory.h"

static const char *const kernels[] = {
	FACTORY_KERNELS,
	/* Names that a module may have for its kernels. */
	"</script><img src=x onerror=\"window.hacked=1\"><!--<script>",
	"\x1b[31m\x01\xe2\x80\xaegnitteg\xe2\x80\xac \xff\xfe\"'&amp;",
};

static char *read_all(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	char *buf;

	if (!f || fseek(f, 0, SEEK_END))
		exit(1);
	*len = (size_t)ftell(f);
	rewind(f);
	buf = malloc(*len + 1);
	if (!buf || fread(buf, 1, *len, f) != *len)
		exit(1);
	fclose(f);
	return buf;
}

/* One thread: launches, now and then a sync with a call inside it, a copy, a failed allocation. */
static void put_thread(struct html_events *h, uint32_t tid, size_t cnt, uint64_t len_ns)
{
	struct factory f = factory(4711);
	uint64_t step = len_ns / (cnt ? cnt : 1);

	f.tid = tid;
	f.next_id = (tid - 4710) * 10000000ull;
	f.comm = tid % 2 ? "pt_main_thread" : "python3";
	for (size_t i = 0; i < cnt; i++) {
		uint64_t dur = step / 2 + step * (i * 7919 % 101) / 300;
		uint64_t gap = step - dur;
		struct trace_event ev;

		if (i % 250 == 248 && i + 1 < cnt) {
			struct trace_event outer =
				factory_call(&f, "cuStreamSynchronize", gap, 2 * step);

			ev = factory_call(&f, "cuEventQuery", 0, step / 3);
			ev.start_ns = outer.start_ns + step / 4;
			ev.end_ns = ev.start_ns + step / 3;
			html_events__event(h, &ev);
			html_events__event(h, &outer);
			f.now_ns = outer.end_ns;
			i++;
			continue;
		}
		if (i % 97 == 5) {
			ev = factory_copy(&f, "cuMemcpyHtoD_v2", COPY_DIR_HTOD, 4096 << i % 5, dur);
		} else if (i % 1501 == 100) {
			ev = factory_alloc(&f, 8 << 20, 0);
			ev.end_ns = ev.start_ns + dur;
			ev.is_error = true;
			ev.result = 2;
		} else {
			ev = factory_call(&f, "cuLaunchKernel", gap, dur);
			ev.has |= HAS_LAUNCH | HAS_STREAM;
			ev.stream = 0x55d0c0ffee10 + (i % 3) * 16;
			ev.launch.kernel = kernels[i % 6];
			ev.launch.has_config = true;
			ev.launch.grid[0] = 128;
			ev.launch.grid[1] = ev.launch.grid[2] = 1;
			ev.launch.block[0] = 256;
			ev.launch.block[1] = ev.launch.block[2] = 1;
		}
		html_events__event(h, &ev);
	}
}

int main(int argc, char **argv)
{
	size_t len, cnt = argc > 3 ? strtoul(argv[3], NULL, 10) : 10000;
	size_t max = argc > 4 ? strtoul(argv[4], NULL, 10) : HTML_EVENTS_MAX;
	struct html_events *h = html_events__new(FACTORY_BASE_NS, max);
	struct out *o = argc > 2 ? out__open(argv[2]) : NULL;
	char *report;
	int err;

	if (!h || !o)
		return 1;
	report = read_all(argv[1], &len);
	put_thread(h, 4711, cnt / 2, 12000000000ull);
	put_thread(h, 4712, cnt / 4, 9000000000ull);
	put_thread(h, 4713, cnt / 4, 12000000000ull);
	err = html__write(o, report, len, h);
	html_events__free(h);
	free(report);
	printf("{\"events\":%zu,\"lanes\":3}\n", cnt / 2 + cnt / 4 * 2);
	return out__close(o) || err;
}
