/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * empty OBJECT session|multi|perf start|best|entry LIBRARY FUNCTION...
 *
 * Attaches empty programs to entry and return of these functions (entry: to the entry only),
 * prints a line, and removes them when its stdin ends. start: at the first instruction; best: where
 * cudatrace puts its probes.
 */
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/find/elf.h"
#include "attach/probe/probes.h"

#define MAX_PLACES 16

static void die(const char *what)
{
	fprintf(stderr, "empty: %s\n", what);
	exit(1);
}

static enum mechanism mechanism(const char *name)
{
	if (!strcmp(name, "session"))
		return MECH_SESSION;
	if (!strcmp(name, "multi"))
		return MECH_MULTI;
	return MECH_PERF;
}

static struct bpf_program *program(struct bpf_object *obj, const char *name, enum mechanism mech)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(obj, name);

	if (!prog)
		die("no such program in the object");
	bpf_program__set_autoload(prog, true);
	bpf_program__set_expected_attach_type(prog, probes_attach_type(mech));
	return prog;
}

static struct probe_progs load(const char *path, enum mechanism mech, bool entry)
{
	struct bpf_object *obj = bpf_object__open_file(path, NULL);
	struct bpf_program *progs[2];

	if (!obj)
		die("cannot open the BPF object");
	if (mech == MECH_SESSION) {
		progs[0] = progs[1] =
			program(obj, entry ? "empty_session_entry" : "empty_session", mech);
	} else {
		progs[0] = program(obj, "empty_entry", mech);
		progs[1] = program(obj, "empty_return", mech);
	}
	if (bpf_object__load(obj))
		die("cannot load the BPF object");
	return (struct probe_progs){
		.session = bpf_program__fd(progs[0]),
		.entry = bpf_program__fd(progs[0]),
		.ret = bpf_program__fd(progs[1]),
	};
}

static uint64_t place(const struct elf_lib *lib, const char *name, bool best)
{
	for (unsigned i = 0; i < lib->sym_cnt; i++)
		if (!strcmp(lib->syms[i].name, name))
			return lib->syms[i].off - (best ? 0 : lib->syms[i].shift);
	die("no such function in the library");
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t offs[MAX_PLACES], cookies[MAX_PLACES] = {0};
	struct probes probes[MAX_PLACES] = {0};
	enum mechanism mech;
	struct probe_progs progs;
	struct elf_lib *lib;
	char why[256], c;
	int fd, cnt = argc - 5;
	bool entry;

	if (cnt < 1 || cnt > MAX_PLACES)
		die("usage: empty OBJECT session|multi|perf start|best|entry LIBRARY FUNCTION...");
	entry = !strcmp(argv[3], "entry");
	mech = mechanism(argv[2]);
	fd = open(argv[4], O_RDONLY);
	lib = fd < 0 ? NULL : elf_lib__read(fd, api_at(API_CUDA), why, sizeof(why));
	if (!lib)
		die("cannot read the library");
	for (int i = 0; i < cnt; i++)
		offs[i] = place(lib, argv[i + 5], strcmp(argv[3], "start"));
	progs = load(argv[1], mech, entry);
	for (int i = 0; i < cnt; i++) {
		struct probe_req req = {.path = argv[4],
					.offs = offs + i,
					.cookies = cookies + i,
					.cnt = 1,
					.entry_only = entry};
		bool refused;

		if (probes__attach(&probes[i], mech, &progs, &req, &refused) != 1)
			die("cannot attach");
	}
	printf("ready\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	for (int i = 0; i < cnt; i++)
		probes__detach(&probes[i]);
	return 0;
}
