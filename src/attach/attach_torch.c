/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --torch: data of each libtorch_cpu. */
#include "attach_priv.h"

#include "attach/find/elf.h"

#include "decode/torch.h"
#include "util/log.h"
#include "util/plural.h"

#include <stdlib.h>
#include <string.h>

/* Operator names are needed as long as there are records of the library, so it stays. */
struct torch_file {
	unsigned lib_id;
	struct torch_lib *lib;
};

static unsigned add_sites(struct attach *a, unsigned lib_id, const struct torch_lib *lib)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < lib->operator_cnt; i++) {
		const struct torch_operator *op = &lib->operators[i];
		struct ct_site_key key = {.distance = op->distance, .lib_id = lib_id};

		if (op->has_site &&
		    !bpf_map__update_elem(a->skel->maps.torch_sites, &key, sizeof(key), &op->site,
					  sizeof(op->site), BPF_ANY))
			cnt++;
	}
	return cnt;
}

static void report_missing(const struct lib_entry *e, const struct elf_lib *elf)
{
	static const struct {
		const char *file, *name, *lost;
	} parts[] = {
		{"libtorch_cpu", "getStepCallbacksUnlessEmpty", "its operators are not traced"},
		{"libtorch_cpu", "evaluate_function", "its backward nodes are not traced"},
		{"libtorch_cpu", "get_and_increment",
		 "operators have no sequence numbers, so nodes cannot be joined with them"},
		{"libtorch_python", "THPVariable_Wrap",
		 "an operator lasts until the next event of its thread"},
		{"libc10", "reportMemoryUsageToProfiler", "its allocator is not traced"},
		{"libc10", "reportOutOfMemoryToProfiler",
		 "out-of-memory errors of its allocator are not traced"},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		bool has = strncmp(elf->soname, parts[i].file, strlen(parts[i].file)) != 0 ||
			   elf->soname[strlen(parts[i].file)] != '.';

		for (unsigned k = 0; k < elf->sym_cnt && !has; k++)
			has = strstr(elf->syms[k].name, parts[i].name) != NULL;
		if (!has)
			warn("--torch: %s has no %s: %s", e->lib.path, parts[i].name,
			     parts[i].lost);
	}
}

void attach_torch__take(struct attach *a, const struct lib_entry *e, struct elf_lib *elf)
{
	struct torch_file *files;
	unsigned added;

	if (e->lib.api->id != API_TORCH)
		return;
	report_missing(e, elf);
	if (!elf->torch || attach__torch(a, e->lib.id))
		return;
	files = reallocarray(a->torch_files, a->torch_file_cnt + 1, sizeof(*files));
	if (!files)
		return;
	a->torch_files = files;
	files[a->torch_file_cnt++] = (struct torch_file){e->lib.id, elf->torch};
	added = add_sites(a, e->lib.id, elf->torch);
	if (added < elf->torch->operator_cnt)
		info("%s: the end of %u operator%s is found by the stack pointer alone",
		     e->lib.path, elf->torch->operator_cnt - added,
		     plural(elf->torch->operator_cnt - added));
	dbg("%s: %u operators, %u with a known stack position, %u classes of nodes", e->lib.path,
	    elf->torch->operator_cnt, added, elf->torch->node_cnt);
	elf->torch = NULL;
}

const struct torch_lib *attach__torch(const struct attach *a, unsigned lib_id)
{
	for (unsigned i = 0; a && i < a->torch_file_cnt; i++)
		if (a->torch_files[i].lib_id == lib_id)
			return a->torch_files[i].lib;
	return NULL;
}

void attach_torch__free(struct attach *a)
{
	for (unsigned i = 0; i < a->torch_file_cnt; i++)
		torch_lib__free(a->torch_files[i].lib);
	free(a->torch_files);
}
