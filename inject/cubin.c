/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds functions in cubins: the section .text.NAME has the code of the function NAME. The
 * architecture is a byte of the header's flags: the lowest, or from ABI version 8 on (CUDA 13) the
 * second.
 */
#include "cubin.h"

#include <elf.h>
#include <string.h>

#define TEXT	  ".text."
#define ABI_SHIFT 8

/* Returns the section with this number, if the file has it. */
static bool section_at(const uint8_t *cubin, size_t size, const Elf64_Ehdr *e, unsigned i,
		       Elf64_Shdr *s)
{
	uint64_t at = e->e_shoff + (uint64_t)i * sizeof(*s);

	if (i >= e->e_shnum || e->e_shoff > size || at > size || size - at < sizeof(*s))
		return false;
	memcpy(s, cubin + at, sizeof(*s));
	return s->sh_type == SHT_NOBITS ||
	       (s->sh_offset <= size && s->sh_size <= size - s->sh_offset);
}

bool code_find(const uint8_t *cubin, size_t size, const char *function, struct cubin_code *c)
{
	size_t len = strlen(function) + sizeof(TEXT); /* with its NUL */
	Elf64_Shdr names, s;
	Elf64_Ehdr e;

	if (size < sizeof(e))
		return false;
	memcpy(&e, cubin, sizeof(e));
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_shentsize != sizeof(s) || !section_at(cubin, size, &e, e.e_shstrndx, &names) ||
	    names.sh_type == SHT_NOBITS)
		return false;
	for (unsigned i = 0; i < e.e_shnum; i++) {
		const char *name;

		if (!section_at(cubin, size, &e, i, &s) || s.sh_type != SHT_PROGBITS ||
		    s.sh_name >= names.sh_size || names.sh_size - s.sh_name < len ||
		    s.sh_size > UINT32_MAX)
			continue;
		name = (const char *)cubin + names.sh_offset + s.sh_name;
		if (memcmp(name, TEXT, sizeof(TEXT) - 1) ||
		    memcmp(name + sizeof(TEXT) - 1, function, len - sizeof(TEXT) + 1))
			continue;
		c->at = cubin + s.sh_offset;
		c->size = s.sh_size;
		c->arch = e.e_ident[EI_ABIVERSION] >= ABI_SHIFT ? e.e_flags >> 8 & 0xff
								: e.e_flags & 0xff;
		return true;
	}
	return false;
}
