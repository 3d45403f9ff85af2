/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Arguments at the limits of what a record holds: strings, arrays, memory that cannot be read. Both
 * recorders must read the same. */
#include "case.h"

#include <sys/mman.h>

#define STR_MAX 1023 /* a longer string is cut */

/* Its last five arguments are on the stack. */
static void load(const char *path, uint32_t *options, unsigned cnt, bool shown)
{
	handle lib = NULL;
	int r = F(cuLibraryLoadFromFile)(&lib, path, options, NULL, cnt, NULL, NULL, 0u);

	if (shown)
		expect("cuLibraryLoadFromFile", r, "'args':{'fileName':'%.*s'}", STR_MAX, path);
	else
		expect("cuLibraryLoadFromFile", r, "'op':'load'");
	must("cuLibraryLoadFromFile", r, 0);
}

static void strings(void)
{
	static const unsigned lens[] = {0,	 1,	      7,	   8,	STR_MAX - 1,
					STR_MAX, STR_MAX + 1, STR_MAX + 2, 1500};
	size_t page = sysconf(_SC_PAGESIZE);
	char text[2048], *pages, *at;

	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		memset(text, 'a' + i, lens[i]);
		text[lens[i]] = 0;
		load(text, NULL, 0, true);
	}
	/* The end of the string is the end of the memory; or the memory ends before the string. */
	pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE))
		die("no memory");
	memset(pages, 'x', page);
	at = pages + page - 20;
	load(at, NULL, 0, false);
	pages[page - 1] = 0;
	load(at, NULL, 0, true);
	load(pages + page, NULL, 0, false);
	load((char *)8, NULL, 0, false);
	load(NULL, NULL, 0, false);
	munmap(pages, 2 * page);
}

static void arrays(void)
{
	static const unsigned cnts[] = {0, 1, 2, 127, 128, 129, 255, 256, 257, 1u << 30, ~0u};
	static uint32_t options[4096];
	static uint64_t nodes[4096];

	for (unsigned i = 0; i < 4096; i++) {
		nodes[i] = 0x1000 + i;
		options[i] = i % 8;
	}
	for (unsigned i = 0; i < sizeof(cnts) / sizeof(cnts[0]); i++) {
		uint64_t cnt = cnts[i];
		int r = F(cuGraphAddDependencies)((handle)0x55550, nodes, i % 2 ? nodes + 9 : NULL,
						  cnt);

		expect("cuGraphAddDependencies", r, "'op':'add'");
		must("cuGraphAddDependencies", r, 0);
		load("options", options, cnts[i], true);
	}
	load("bad", (uint32_t *)16, 3, true);
}

int main(void)
{
	case_open();
	case_sym("cuFakeSleep"); /* a driver refuses these files */
	case_context();
	strings();
	arrays();
	return 0;
}
