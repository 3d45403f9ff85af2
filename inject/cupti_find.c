/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds libcupti: already loaded (by PyTorch's profiler), next to loaded CUDA libraries, in the
 * directories of pip's packages, or in the toolkit's. The one that comes with the program's own
 * libraries fits best.
 */
#include "cupti.h"
#include "inject.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define STEM "libcupti.so"

static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
/* Directories that may contain libcupti, relative to the directory of a loaded library. */
static const char *const beside[] = {
	"",
	"/../../nvidia/cu13/lib", /* torch/lib */
	"/../../nvidia/cuda_cupti/lib",
	"/../../cu13/lib", /* nvidia/.../lib */
	"/../../cuda_cupti/lib",
	"/../extras/CUPTI/lib64", /* the toolkit's lib64 */
	"/../../../extras/CUPTI/lib64",
};
static const char *const stems[] = {"libcudart.so", "libtorch",	    "libcublas",  "libnvrtc",
				    "libcudnn",	    "libnvJitLink", "libcusparse"};
static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64",
				      "/opt/cuda/extras/CUPTI/lib64"};

struct search {
	void *(*open)(const char *path, int flags);
	void *lib;
};

static bool try_file(struct search *s, const char *path)
{
	s->lib = sys(SYS_faccessat, AT_FDCWD, path, R_OK) ? NULL : s->open(path, RTLD_NOW);
	return s->lib;
}

static bool try_folder(struct search *s, const char *folder, size_t len, const char *rest)
{
	char path[PATH_MAX];
	size_t rest_len = strlen(rest);

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (len + rest_len + strlen(names[i]) + 2 > sizeof(path))
			return false;
		memcpy(path, folder, len);
		memcpy(path + len, rest, rest_len);
		path[len + rest_len] = '/';
		strcpy(path + len + rest_len + 1, names[i]);
		if (try_file(s, path))
			return true;
	}
	return false;
}

/* By any of its names. */
static bool is_loaded(const struct object *o, void *arg)
{
	struct search *s = arg;

	if (object_is(o, STEM))
		s->lib = s->open(o->path, RTLD_NOW | RTLD_NOLOAD);
	return s->lib;
}

static bool is_beside(const struct object *o, void *arg)
{
	const char *name = strrchr(o->path, '/');

	for (size_t i = 0; name && i < sizeof(stems) / sizeof(*stems); i++) {
		if (strncmp(name + 1, stems[i], strlen(stems[i])))
			continue;
		for (size_t k = 0; k < sizeof(beside) / sizeof(*beside); k++)
			if (try_folder(arg, o->path, name - o->path, beside[k]))
				return true;
		return false;
	}
	return false;
}

static void look_everywhere(struct search *s)
{
	if (objects_each(is_loaded, s) || objects_each(is_beside, s))
		return;
	for (size_t i = 0; !s->lib && i < sizeof(names) / sizeof(*names); i++)
		s->lib = s->open(names[i], RTLD_NOW);
	for (size_t i = 0; !s->lib && i < sizeof(folders) / sizeof(*folders); i++)
		try_folder(s, folders[i], strlen(folders[i]), "");
}

bool gpu_find_cupti(struct cupti *c, const char *path, char *found, size_t found_sz)
{
	void *(*symbol)(void *, const char *) = libc_symbol("dlsym");
	struct search s = {.open = libc_symbol("dlopen")};
	struct object o;

	memset(found, 0, found_sz);
	if (!s.open || !symbol)
		return false;
	if (*path)
		try_file(&s, path);
	else
		look_everywhere(&s);
	if (!s.lib)
		return false;
#define CUPTI_FN(name, needed, ...)                                                                \
	c->name = (__typeof__(c->name))symbol(s.lib, "cupti" #name);                               \
	if (needed && !c->name)                                                                    \
		return false;
	CUPTI_FUNCS
#undef CUPTI_FN
	if (object_of_address((const void *)c->GetVersion, &o))
		memcpy(found, o.path, strnlen(o.path, found_sz - 1));
	return !c->GetVersion(&c->version);
}
