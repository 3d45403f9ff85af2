/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Another tool for NVTX, which was named before: a line in TOOL_LOG for each of its calls; its own
 * handles. Of some functions it has none. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*func)(void);
struct callbacks {
	size_t size;
	int (*module_table)(int module, func ***table, unsigned *cnt);
};

static void *const domain_handle = (void *)0x7777000000001234, *const string_handle =
								       (void *)0x7777000000005678;

static void note(const char *what, const void *domain)
{
	FILE *f = fopen(getenv("TOOL_LOG"), "a");

	fprintf(f, "%s %s\n", what, domain == domain_handle ? "ours" : domain ? "whose?" : "-");
	fclose(f);
}

static int push(const char *text)
{
	note(text ? "push" : "push NULL", NULL);
	return 5;
}
static int pop(void)
{
	note("pop", NULL);
	return 5;
}
static int domain_push(void *domain, const void *a)
{
	(void)a;
	note("domain push", domain);
	return 5;
}
static int domain_pop(void *domain)
{
	note("domain pop", domain);
	return 5;
}
static void *create(const char *name)
{
	note(name, NULL);
	return domain_handle;
}
static void *string(void *domain, const char *text)
{
	(void)text;
	note("string", domain);
	return string_handle;
}
static void thread_name(uint32_t id, const char *name)
{
	(void)id;
	note(name, NULL);
}

int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t));
int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t))
{
	const struct callbacks *cb = get_table(1);
	func **t;
	unsigned n;

	cb->module_table(1, &t, &n);
	*t[9] = (func)push;
	*t[11] = (func)pop;
	*t[14] = (func)thread_name;
	cb->module_table(5, &t, &n);
	*t[4] = (func)domain_push;
	*t[5] = (func)domain_pop;
	*t[10] = (func)string;
	*t[12] = (func)create;
	return 1;
}
