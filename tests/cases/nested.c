/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Nested calls, made by the driver itself and by a callback: each has its parent. */
#include "case.h"

static void callback(void *arg)
{
	dptr *p = arg;

	*p = 0;
	must("cuMemAlloc_v2 in a callback", F(cuMemAlloc_v2)(p, (size_t)2048), 0);
	must("cuMemFree_v2 in a callback", F(cuMemFree_v2)(*p), 0);
}

int main(void)
{
	size_t pitch = 0;
	dptr p = 0;
	int r;

	case_open();
	case_sym("cuFakeNest");
	case_context();
	r = F(cuMemAllocPitch_v2)(&p, &pitch, (size_t)100, (size_t)10, 4);
	expect("cuMemAllocPitch_v2", r, "'type':'memory','op':'alloc','$id':'a','$parent':null");
	expect("cuMemAlloc_v2", 0,
	       "'type':'memory','op':'alloc','ptr':" HEX ",'$parent':'a','depth':1", H(p));
	case_free(p);

	r = F(cuFakeNest)(3, &p);
	must("cuFakeNest", r, 0);
	expect("cuFakeNest", r, "'$id':'n3','$parent':null");
	expect("cuFakeNest", r, "'$id':'n2','$parent':'n3','depth':1");
	expect("cuFakeNest", r, "'$id':'n1','$parent':'n2','depth':2");
	expect("cuFakeNest", r, "'$id':'n0','$parent':'n1','depth':3");
	expect("cuMemAllocPitch_v2", r, "'$id':'pitch','$parent':'n0','depth':4");
	expect("cuMemAlloc_v2", r, "'$parent':'pitch','depth':5,'ptr':" HEX, H(p));
	case_free(p);

	r = F(cuFakeCallback)(callback, &p);
	expect("cuFakeCallback", r, "'$id':'cb','$parent':null");
	expect("cuMemAlloc_v2", 0, "'size':2048,'$parent':'cb'");
	expect("cuMemFree_v2", 0, "'ptr':" HEX ",'$parent':'cb'", H(p));
	case_alloc(4096);
	return 0;
}
