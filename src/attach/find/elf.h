/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is needed from a library: the exported functions of its family, where in the file each
 * begins, and where to put the probe. The file is untrusted: another user's container may hold it.
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
	unsigned alias_cnt; /* names left out because another name has the same address */
	/* Functions whose address is a resolver's, which chooses the code when the library is
	 * loaded (STT_GNU_IFUNC): where that lies the file does not say. */
	const char **ifuncs;
	unsigned ifunc_cnt;
	char build_id[41]; /* hexadecimal; "" when there is none */
	char soname[64];
	bool is_stub; /* NVIDIA's link-time stub (CUDA toolkit's lib64/stubs): nothing runs in it */
	uint16_t machine;	    /* EM_X86_64, EM_AARCH64 */
	struct ct_comm_layout comm; /* libnccl: comm_layout__find(); off 0: not known */
	struct torch_lib *torch;    /* libtorch_cpu; NULL: it is none */
	char *strings;		    /* owner of the names */
};

/*
 * Reads an ELF shared object of a family from fd. Returns NULL and writes a one-line message (what
 * is wrong, without the path) to err when it is no 64-bit ELF shared object of this machine's kind,
 * or contradicts itself. fd stays open.
 */
struct elf_lib *elf_lib__read(int fd, const struct api *api, char *err, size_t err_size);
/* Says of ifuncs which of the functions that are wanted have no probe for it, as far as there is
 * room in text. false: none, and text is "". */
bool elf_lib_ifuncs(const struct elf_lib *lib, const struct fnset *fns, char *text, size_t size);
void elf_lib__free(struct elf_lib *lib);

/*
 * Where to probe, from the first bytes of a function (x86-64): 0, or the number of bytes to skip.
 * A uprobe on an instruction that the kernel emulates costs one exception, on any other it is
 * single-stepped at many times the cost. Drivers 470 to 555 begin with a compare (10 bytes) and a
 * conditional jump; the jump is emulated, and neither arguments nor stack have changed there: 10.
 * An endbr64 before either (no driver so far, but libraries that distributions compile) adds 4.
 */
unsigned elf_probe_shift(const uint8_t *code, size_t len);

#endif /* ATTACH_FIND_ELF_H */
