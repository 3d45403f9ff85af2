/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A caller of CUDA whose name and path are marks. */
int HIDEMARK_symbol(int (*sync)(unsigned long))
{
	int r = sync(0);

	__asm__ volatile("" ::: "memory");
	return r;
}
