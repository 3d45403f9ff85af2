/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * empty LIBRARY SYMBOL session|multi|perf [+0]: an empty entry and return program on one function,
 * placed and attached as cudatrace does it (+0: on the very first instruction, whatever it is).
 * Prints "ready" and stays until its stdin ends.
 */
#include "attach/elf.h"
#include "attach/probes.h"

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "empty.skel.h"

static int find(const char *path, const char *symbol, int at_start, uint64_t *off)
{
	int fd = open(path, O_RDONLY), ret = -1;
	char why[256] = "cannot open it";
	struct elf_lib *lib = fd < 0 ? NULL : elf_lib__read(fd, why, sizeof(why));

	if (!lib) {
		fprintf(stderr, "empty: %s: %s\n", path, why);
		return -1;
	}
	for (unsigned i = 0; i < lib->sym_cnt; i++) {
		if (strcmp(lib->syms[i].name, symbol))
			continue;
		*off = lib->syms[i].off - (at_start ? lib->syms[i].shift : 0);
		ret = 0;
	}
	elf_lib__free(lib);
	close(fd);
	return ret;
}

int main(int argc, char **argv)
{
	enum mechanism mech = MECH_PERF;
	struct probe_req req = {.cnt = 1};
	struct probe_progs progs;
	struct probes probes;
	struct empty_bpf *skel;
	uint64_t off, cookie = 0;
	bool refused;
	char byte;

	if (argc < 4 || find(argv[1], argv[2], argc > 4, &off))
		return 2;
	if (!strcmp(argv[3], "session"))
		mech = MECH_SESSION;
	else if (!strcmp(argv[3], "multi"))
		mech = MECH_MULTI;
	skel = empty_bpf__open();
	if (!skel)
		return 1;
	bpf_program__set_expected_attach_type(skel->progs.empty_entry, probes_attach_type(mech));
	bpf_program__set_expected_attach_type(skel->progs.empty_return, probes_attach_type(mech));
	if (empty_bpf__load(skel))
		return 1;
	progs.session = progs.entry = skel->progs.empty_entry;
	progs.ret = skel->progs.empty_return;
	req.path = argv[1];
	req.offs = &off;
	req.cookies = &cookie;
	if (probes__attach(&probes, mech, &progs, &req, &refused) != 1) {
		fprintf(stderr, "empty: cannot attach\n");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	probes__detach(&probes);
	empty_bpf__destroy(skel);
	return 0;
}
