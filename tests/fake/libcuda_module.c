/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mock libcuda: modules, libraries, functions, kernels.
 *
 * Three kinds of image are known: PTX text, whose .entry names are the functions; "FAKE", NUL and
 * then NUL-terminated names up to an empty one, for names that PTX cannot spell; and anything else,
 * which has every requested function.
 */
#include "libcuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct image {
	struct obj obj;
	struct func *funcs; /* kernels, in a library */
	unsigned cnt;
	bool any_name;
	struct image *module; /* of a library */
};

static struct func *func_add(struct image *im, const char *name, size_t len)
{
	struct func *f = obj_new(im->obj.kind == OBJ_LIBRARY ? OBJ_KERNEL : OBJ_FUNC, sizeof(*f));
	struct func **tail = &im->funcs;

	f->name = strndup(name, len);
	f->owner = im;
	while (*tail)
		tail = &(*tail)->next;
	*tail = f;
	im->cnt++;
	return f;
}

static void parse_ptx(struct image *im, const char *s)
{
	while ((s = strstr(s, ".entry")) != NULL) {
		size_t len;

		s += 6;
		s += strspn(s, " \t\n");
		len = strcspn(s, " \t\n(");
		func_add(im, s, len)->params = strndup(s + len, strcspn(s + len, ")"));
	}
}

/* Returns the size of the parameter that begins at s (".param .u64 a", ".param .align 8 .b8
 * s[24]"); 0: there is none. */
static size_t param_size(const char *s, size_t *align)
{
	const char *end = s ? s + strcspn(s, ",") : NULL, *array;
	unsigned bits;

	s = s ? strstr(s, ".param") : NULL;
	if (!s || s >= end)
		return 0;
	*align = 0;
	sscanf(s + 6, " .align %zu", align);
	for (s += 6;
	     s < end && !(s[0] == '.' && strchr("busf", s[1]) && s[2] >= '0' && s[2] <= '9'); s++)
		;
	if (s >= end || sscanf(s + 2, "%u", &bits) != 1)
		return 0;
	*align = *align ? *align : bits / 8;
	array = memchr(s, '[', end - s);
	return bits / 8 * (array ? strtoul(array + 1, NULL, 0) : 1);
}

/* Returns the size of parameter i; 0: there is none. */
static size_t param_at(const struct func *f, uint64_t i, size_t *off)
{
	const char *s = f->params;
	size_t align = 1, size;

	for (*off = 0;; i--) {
		size = param_size(s, &align);
		*off = (*off + align - 1) / align * align;
		if (!i || !size)
			return size;
		*off += size;
		s = strchr(s, ',');
		s = s ? s + 1 : "";
	}
}

/* The real driver does not accept a handle of the other kind either. */
static int param_info(struct call *c, enum obj_kind kind)
{
	struct func *f = obj_get(c->w[0], kind);
	size_t off, size;

	if (!f || !f->params)
		return E_HANDLE;
	size = param_at(f, c->w[1], &off);
	if (!size)
		return E_VALUE;
	return put64(c->w[2], off) || put64_opt(c->w[3], size) ? E_VALUE : OK;
}

void func_params_copy(const struct func *f, uint64_t params, uint64_t extra)
{
	const uint64_t *e = (const uint64_t *)(uintptr_t)extra;
	const uint64_t *at = (const uint64_t *)(uintptr_t)params;
	char copy[4096];
	size_t off, size;

	if (!f->params || (!params && !extra))
		return;
	for (uint64_t i = 0; (size = param_at(f, i, &off)) && off + size <= sizeof(copy); i++) {
		memcpy(copy + off, (const void *)(uintptr_t)(params ? at[i] : e[1] + off), size);
		__asm__ volatile("" : : "r"(copy) : "memory");
	}
}

static int run_func_param(struct call *c)
{
	return param_info(c, OBJ_FUNC);
}

static int run_kernel_param(struct call *c)
{
	return param_info(c, OBJ_KERNEL);
}

static bool is_text(const char *s)
{
	for (int i = 0; i < 16; i++)
		if ((unsigned char)s[i] < 9 || (unsigned char)s[i] > 126)
			return false;
	return strstr(s, ".version") != NULL;
}

static int image_load(uint64_t out, uint64_t data, enum obj_kind kind)
{
	const char *s = (const char *)(uintptr_t)data;
	struct image *im;

	if (!readable(data, 4))
		return E_VALUE;
	im = obj_new(kind, sizeof(*im));
	if (!memcmp(s, "FAKE", 5)) {
		for (s += 5; *s; s += strlen(s) + 1)
			func_add(im, s, strlen(s));
	} else if (readable(data, 16) && is_text(s)) {
		parse_ptx(im, s);
	} else {
		im->any_name = true;
	}
	return put64(out, (uintptr_t)im);
}

static void image_free(struct image *im)
{
	struct func *f, *next;

	for (f = im->funcs; f; f = next) {
		next = f->next;
		if (f->as_func)
			obj_free(f->as_func);
		free(f->name);
		free((char *)f->params);
		obj_free(f);
	}
	if (im->module)
		image_free(im->module);
	obj_free(im);
}

static int image_get(uint64_t out, struct image *im, uint64_t name_ptr)
{
	const char *name = (const char *)(uintptr_t)name_ptr;
	struct func *f;

	if (!im)
		return E_HANDLE;
	if (!readable(name_ptr, 1))
		return E_VALUE;
	for (f = im->funcs; f; f = f->next)
		if (!strcmp(f->name, name))
			break;
	if (!f && im->any_name && *name)
		f = func_add(im, name, strlen(name));
	return f ? put64(out, (uintptr_t)f) : E_NOT_FOUND;
}

static int image_list(uint64_t out, uint32_t cnt, struct image *im)
{
	if (!im)
		return E_HANDLE;
	for (struct func *f = im->funcs; f && cnt; f = f->next, cnt--, out += 8)
		if (put64(out, (uintptr_t)f))
			return E_VALUE;
	return OK;
}

static int run_load_data(struct call *c)
{
	return image_load(c->w[0], c->w[1], OBJ_MODULE);
}

static int run_library_load_data(struct call *c)
{
	return image_load(c->w[0], c->w[1], OBJ_LIBRARY);
}

static char *read_file(const char *name)
{
	FILE *f = fopen(name, "rbe");
	char *buf = f ? calloc(1, (1 << 20) + 16) : NULL;

	if (buf && !fread(buf, 1, 1 << 20, f)) {
		free(buf);
		buf = NULL;
	}
	if (f)
		fclose(f);
	return buf;
}

/* Goes through the public entry of cuModuleLoadData. */
static int run_load_file(struct call *c)
{
	int (*load)(uint64_t, void *) = (int (*)(uint64_t, void *))fake_export("cuModuleLoadData");
	char *image;
	int err;

	if (!readable(c->w[1], 1))
		return E_VALUE;
	image = read_file((const char *)(uintptr_t)c->w[1]);
	if (!image)
		return E_FILE;
	err = load(c->w[0], image);
	free(image);
	return err;
}

static int run_unload(struct call *c)
{
	struct image *im = obj_get(c->w[0], OBJ_MODULE);

	if (!im)
		return E_HANDLE;
	image_free(im);
	return OK;
}

static int run_library_unload(struct call *c)
{
	struct image *im = obj_get(c->w[0], OBJ_LIBRARY);

	if (!im)
		return E_HANDLE;
	image_free(im);
	return OK;
}

static int run_get_function(struct call *c)
{
	return image_get(c->w[0], obj_get(c->w[1], OBJ_MODULE), c->w[2]);
}

static int run_get_kernel(struct call *c)
{
	return image_get(c->w[0], obj_get(c->w[1], OBJ_LIBRARY), c->w[2]);
}

static int run_function_count(struct call *c)
{
	struct image *im = obj_get(c->w[1], OBJ_MODULE);

	return im ? put32(c->w[0], im->cnt) : E_HANDLE;
}

static int run_kernel_count(struct call *c)
{
	struct image *im = obj_get(c->w[1], OBJ_LIBRARY);

	return im ? put32(c->w[0], im->cnt) : E_HANDLE;
}

static int run_list_functions(struct call *c)
{
	return image_list(c->w[0], c->w[1], obj_get(c->w[2], OBJ_MODULE));
}

static int run_list_kernels(struct call *c)
{
	return image_list(c->w[0], c->w[1], obj_get(c->w[2], OBJ_LIBRARY));
}

/* The CUfunction of a kernel is a separate object with the same name. */
static int run_kernel_function(struct call *c)
{
	struct func *k = obj_get(c->w[1], OBJ_KERNEL);

	if (!k)
		return E_HANDLE;
	if (!k->as_func) {
		k->as_func = obj_new(OBJ_FUNC, sizeof(*k->as_func));
		k->as_func->name = k->name;
		k->as_func->owner = k->owner;
		k->as_func->params = k->params;
	}
	return put64(c->w[0], (uintptr_t)k->as_func);
}

/* The module of a library has functions of the same names. */
static int run_library_module(struct call *c)
{
	struct image *im = obj_get(c->w[1], OBJ_LIBRARY);

	if (!im)
		return E_HANDLE;
	if (!im->module) {
		im->module = obj_new(OBJ_MODULE, sizeof(*im->module));
		im->module->any_name = im->any_name;
		for (struct func *f = im->funcs; f; f = f->next)
			func_add(im->module, f->name, strlen(f->name))->params =
				f->params ? strdup(f->params) : NULL;
	}
	return put64(c->w[0], (uintptr_t)im->module);
}

struct func *func_get(uint64_t handle)
{
	struct func *f = obj_get(handle, OBJ_FUNC);

	return f ? f : obj_get(handle, OBJ_KERNEL);
}

static int run_func_name(struct call *c)
{
	struct func *f = func_get(c->w[1]);

	return f ? put64(c->w[0], (uintptr_t)f->name) : E_HANDLE;
}

static int run_func_owner(struct call *c)
{
	struct func *f = func_get(c->w[1]);

	return f ? put64(c->w[0], (uintptr_t)f->owner) : E_HANDLE;
}

static int run_func_attr(struct call *c)
{
	if (!func_get(c->w[2]))
		return E_HANDLE;
	/* MAX_THREADS_PER_BLOCK, NUM_REGS; 0 for other attributes */
	return put32(c->w[0], (uint32_t)c->w[1] == 0 ? 1024 : (uint32_t)c->w[1] == 4 ? 32 : 0);
}

static int run_func_check(struct call *c)
{
	return func_get(c->w[0]) ? OK : E_HANDLE;
}

static int run_func_loaded(struct call *c)
{
	return func_get(c->w[1]) ? put32(c->w[0], 1) : E_HANDLE;
}

static int run_get_global(struct call *c)
{
	return obj_get(c->w[2], c->fn->name[2] == 'M' ? OBJ_MODULE : OBJ_LIBRARY) ? E_NOT_FOUND
										  : E_HANDLE;
}

const struct impl impl_module[] = {
	{"cuModuleLoadData", run_load_data, IMPL_CONTEXT},
	{"cuModuleLoadDataEx", run_load_data, IMPL_CONTEXT},
	{"cuModuleLoadFatBinary", run_load_data, IMPL_CONTEXT},
	{"cuModuleLoad", run_load_file, IMPL_CONTEXT | IMPL_NOLOCK},
	{"cuModuleUnload", run_unload, IMPL_CONTEXT},
	{"cuModuleGetFunction", run_get_function, IMPL_CONTEXT},
	{"cuModuleGetFunctionCount", run_function_count, IMPL_CONTEXT},
	{"cuModuleEnumerateFunctions", run_list_functions, IMPL_CONTEXT},
	{"cuModuleGetGlobal_v2", run_get_global, IMPL_CONTEXT},
	{"cuLibraryLoadData", run_library_load_data, 0},
	{"cuLibraryUnload", run_library_unload, 0},
	{"cuLibraryGetKernel", run_get_kernel, 0},
	{"cuLibraryGetKernelCount", run_kernel_count, 0},
	{"cuLibraryEnumerateKernels", run_list_kernels, 0},
	{"cuLibraryGetModule", run_library_module, 0},
	{"cuLibraryGetGlobal", run_get_global, 0},
	{"cuKernelGetFunction", run_kernel_function, 0},
	{"cuKernelGetName", run_func_name, 0},
	{"cuKernelGetLibrary", run_func_owner, 0},
	{"cuKernelGetAttribute", run_func_attr, 0},
	{"cuFuncGetName", run_func_name, 0},
	{"cuFuncGetModule", run_func_owner, 0},
	{"cuFuncGetAttribute", run_func_attr, 0},
	{"cuFuncSetAttribute", run_func_check, 0},
	{"cuFuncSetCacheConfig", run_func_check, 0},
	{"cuFuncLoad", run_func_check, 0},
	{"cuFuncIsLoaded", run_func_loaded, 0},
	{"cuFuncGetParamInfo", run_func_param, 0},
	{"cuKernelGetParamInfo", run_kernel_param, 0},
	{NULL, NULL, 0},
};
