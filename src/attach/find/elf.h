/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads from a library: the exported functions of its family, their file offsets, and where to put
 * the probe. The file is untrusted: it may belong to another user's container.
 */
#ifndef ATTACH_FIND_ELF_H
#define ATTACH_FIND_ELF_H

#include "decode/cuda.h"
#include "decode/fnset.h"

#include "ct_bpf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_sym {
	const char *name; /* without symbol version */
	uint64_t off;	  /* file offset of the probe */
	uint8_t shift;	  /* off minus the entry point's offset: elf_probe_shift() */
	bool stepped;	  /* code_is_stepped() */
	bool bad_insn;	  /* every kernel refuses a probe there: code_is_refused() */
	bool suspect;	  /* some do: code_is_suspect() */
};

struct elf_lib {
	struct elf_sym *syms; /* the family's functions that are defined here, one per address */
	unsigned sym_cnt;
	unsigned alias_cnt; /* names ignored because another name has the same address */
	/* Functions whose symbol is a resolver that chooses the code at load time (STT_GNU_IFUNC).
	 * The file does not contain that address. */
	const char **ifuncs;
	unsigned ifunc_cnt;
	char build_id[41]; /* hexadecimal; "" when there is none */
	char soname[64];
	bool is_stub;	  /* NVIDIA's link-time stub (CUDA toolkit's lib64/stubs): it never runs */
	uint16_t machine; /* EM_X86_64, EM_AARCH64 */
	struct ct_comm_layout comm; /* libnccl: comm_layout__find(); off 0: unknown */
	struct torch_lib *torch;    /* libtorch_cpu; NULL: not one */
	char *strings;		    /* owner of the names */
};

/*
 * Reads an ELF shared object of a family from fd. It must be 64-bit, for this machine, and
 * consistent. Otherwise returns NULL and a one-line message in err (the defect, without the path).
 * fd stays open.
 */
struct elf_lib *elf_lib__read(int fd, const struct api *api, char *err, size_t err_size);
/* Writes a text about the traced functions in ifuncs, which have no probe, as far as it fits.
 * Returns false and "" if there are none. */
bool elf_lib_ifuncs(const struct elf_lib *lib, const struct fnset *fns, char *text, size_t size);
void elf_lib__free(struct elf_lib *lib);

/*
 * Returns where to probe, from the first bytes of a function (x86-64): 0, or the number of bytes to
 * skip. A uprobe on an emulated instruction costs one exception; on any other, single-stepping
 * costs many times more. Drivers 470 to 555 begin with a compare (10 bytes) and a conditional jump.
 * The jump is emulated, and arguments and stack are unchanged there: 10. An endbr64 before either
 * adds 4 (no driver so far, but libraries compiled by distributions).
 */
unsigned elf_probe_shift(const uint8_t *code, size_t len);

#endif /* ATTACH_FIND_ELF_H */
