/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An ELF shared object as the dynamic linker sees it; used by elf.c and python.c. */
#ifndef ATTACH_FIND_ELF_FILE_H
#define ATTACH_FIND_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_PHDR_MAX 128
#define ELF_SYM_MAX  262144

struct elf_file {
	int fd;
	bool program; /* may also be one that is no shared object */
	uint64_t size;
	Elf64_Ehdr eh;
	Elf64_Phdr ph[ELF_PHDR_MAX];
	/* from the dynamic section: addresses and sizes, 0 when absent */
	uint64_t strtab, str_sz, symtab, hash, gnu_hash, soname_off, jmprel, jmprel_sz, rela,
		rela_sz;
	char *strings; /* str_sz bytes and a NUL of ours */
	Elf64_Sym *syms;
	unsigned sym_cnt;
	char *err; /* one line: what is wrong */
	size_t err_size;
};

/* Functions return 0, or -EINVAL after writing to err. */

/* Fills everything from fd, program, err and err_size on, and checks that it does not contradict
 * itself. */
int elf_file__read(struct elf_file *f);
/* The same without what the dynamic section names. */
int elf_file__read_segments(struct elf_file *f);
void elf_file__free(struct elf_file *f);

__attribute__((format(printf, 2, 3))) int elf_file_fail(struct elf_file *f, const char *fmt, ...);
/* what: a name for messages. */
int elf_file_read_at(struct elf_file *f, uint64_t off, void *buf, size_t len, const char *what);
/* The segment, with all of flags (PF_X), whose bytes in the file hold [vaddr, vaddr + len). */
const Elf64_Phdr *elf_file_segment(const struct elf_file *f, uint64_t vaddr, uint64_t len,
				   uint32_t flags);
/* The word at an address, as linked, once the file is loaded: an address as linked, too. 0: there
 * is none, or it is another file's. */
uint64_t elf_file_word(struct elf_file *f, uint64_t vaddr);
/* What an address as linked is more where the byte at off of the file is mapped at start. */
bool elf_file_bias(const struct elf_file *f, uint64_t start, uint64_t off, uint64_t *bias);

#endif /* ATTACH_FIND_ELF_FILE_H */
