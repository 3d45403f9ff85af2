/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pointers that cannot be read or written: the call fails, but its event is recorded. */
#include "case.h"

#include <sys/mman.h>

int main(void)
{
	char *pages, *edge;
	handle m, f = NULL;
	dptr p = 0;
	int r;

	case_open();
	/* A real driver would crash, and this program with it. */
	case_sym("cuFakeNest");
	case_context();
	pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + 4096, 4096, PROT_NONE))
		die("no memory");
	r = F(cuMemAlloc_v2)(NULL, (size_t)4096);
	expect("cuMemAlloc_v2", r,
	       "'type':'memory','op':'alloc','args':{'dptr':null,'bytesize':4096}");
	must("no out-pointer", r, INVALID_VALUE);
	r = F(cuMemAlloc_v2)(pages + 4096, (size_t)4096);
	expect("cuMemAlloc_v2", r,
	       "'type':'memory','op':'alloc','args':{'dptr':null,'bytesize':4096}");
	must("out-pointer without access", r, INVALID_VALUE);
	r = F(cuMemAlloc_v2)((void *)0xdeadbeefdeadbeef, (size_t)4096);
	expect("cuMemAlloc_v2", r, "'type':'memory','op':'alloc'");
	must("out-pointer that is no address", r, INVALID_VALUE);
	/* Half of the out-parameter on a page without access. */
	r = F(cuMemAlloc_v2)(pages + 4092, (size_t)4096);
	expect("cuMemAlloc_v2", r, "'type':'memory','op':'alloc'");
	must("out-pointer at the edge", r, INVALID_VALUE);
	m = case_module(PTX_HEAD PTX_KERNEL("edge"));
	r = F(cuModuleGetFunction)(&f, m, pages + 4096);
	expect("cuModuleGetFunction", r,
	       "'type':'module','op':'lookup','args':{'hmod':" HEX ",'name':null}", H(m));
	must("name without access", r, INVALID_VALUE);
	/* A string that ends where its page does. */
	edge = pages + 4096 - sizeof("edge");
	strcpy(edge, "edge");
	f = case_function(m, edge, "edge");
	r = F(cuLaunchKernelEx)(pages + 4096, f, NULL, NULL);
	expect("cuLaunchKernelEx", r, "'type':'kernel','op':'launch','args':{'f':" HEX "}", H(f));
	must("configuration without access", r, INVALID_VALUE);
	r = F(cuMemcpy2D_v2)(NULL);
	expect("cuMemcpy2D_v2", r, "'type':'transfer','op':'copy'");
	must("no copy parameters", r, INVALID_VALUE);
	case_launch(f, NULL, "edge");
	p = case_alloc(64);
	case_free(p);
	return 0;
}
