/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A caller in a shared object, with C++ names, for tests/e2e/test_stack.py. */
namespace app
{
struct pool {
	__attribute__((noipa)) int grow(int (*alloc)(unsigned long *, unsigned long))
	{
		unsigned long p;
		int r = alloc(&p, 64);

		__asm__ volatile("" ::: "memory");
		return r;
	}
};
} // namespace app
// Demanglers have taken for ever over this one.
extern "C" __attribute__((noipa)) int
endless(app::pool *pool, int (*alloc)(unsigned long *, unsigned long)) __asm__("_Z1fDTsr1aC");
int endless(app::pool *pool, int (*alloc)(unsigned long *, unsigned long))
{
	int r = pool->grow(alloc);

	__asm__ volatile("" ::: "memory");
	return r;
}
extern "C" int plugin_alloc(int (*alloc)(unsigned long *, unsigned long))
{
	app::pool pool;
	int r = endless(&pool, alloc);

	__asm__ volatile("" ::: "memory");
	return r;
}
