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
	bool program; /* also accept a file that is not a shared object */
	uint64_t size;
	Elf64_Ehdr eh;
	Elf64_Phdr ph[ELF_PHDR_MAX];
	/* from the dynamic section: addresses and sizes, 0 when absent */
	uint64_t strtab, str_sz, symtab, hash, gnu_hash, soname_off, jmprel, jmprel_sz, rela,
		rela_sz;
	char *strings; /* str_sz bytes and an added NUL */
	Elf64_Sym *syms;
	unsigned sym_cnt;
	char *err; /* one line: the defect */
	size_t err_size;
};

/* Functions return 0, or -EINVAL with a message in err. */

/* Fills everything from fd, program, err and err_size on, and checks its consistency. */
int elf_file__read(struct elf_file *f);
/* As elf_file__read(), without the contents of the dynamic section. */
int elf_file__read_segments(struct elf_file *f);
void elf_file__free(struct elf_file *f);

__attribute__((format(printf, 2, 3))) int elf_file_fail(struct elf_file *f, const char *fmt, ...);
/* what: a name for messages. */
int elf_file_read_at(struct elf_file *f, uint64_t off, void *buf, size_t len, const char *what);
/* Returns the segment with all of flags (PF_X) whose file bytes hold [vaddr, vaddr + len). */
const Elf64_Phdr *elf_file_segment(const struct elf_file *f, uint64_t vaddr, uint64_t len,
				   uint32_t flags);
/* Returns the defined symbol of that name, or NULL. */
const Elf64_Sym *elf_file_symbol(const struct elf_file *f, const char *name);
/* Returns the file offset of that function; 0: there is none. */
uint64_t elf_file_function(const struct elf_file *f, const char *name);
/* Returns the relocated word at an address as linked; the value is an address as linked, too. 0:
 * none, or it points to another file. */
uint64_t elf_file_word(struct elf_file *f, uint64_t vaddr);
/* Computes the load bias when the byte at file offset off is mapped at start. */
bool elf_file_bias(const struct elf_file *f, uint64_t start, uint64_t off, uint64_t *bias);

#endif /* ATTACH_FIND_ELF_FILE_H */
