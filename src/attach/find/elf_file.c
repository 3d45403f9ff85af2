/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads only what the dynamic linker reads: program headers, the dynamic section, and its tables.
 * Section headers are not used: a stripped library has none, and in a malicious one they may differ
 * from the mapped contents.
 *
 * The owner may truncate or rewrite the file meanwhile. So it is read by pread() into our own
 * buffers, never by mmap() (SIGBUS), and no value is read twice. Every count and size has a limit
 * far above any libcuda's (driver 580: 682 exports, 9 program headers).
 */
#include "elf_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE	    4095ull
#define DYN_MAX	    4096
#define BLOOM_MAX   (1 << 20)
#define STR_SZ_MAX  (16 << 20)
#define RELA_SZ_MAX (64 << 20)

#ifdef __aarch64__
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_X86_64
#endif

int elf_file_fail(struct elf_file *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->err, f->err_size, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

int elf_file_read_at(struct elf_file *f, uint64_t off, void *buf, size_t len, const char *what)
{
	size_t done = 0;
	ssize_t n;

	if (off > f->size || len > f->size - off)
		return elf_file_fail(f, "truncated: %s beyond the end of the file", what);
	while (done < len) {
		n = pread(f->fd, (char *)buf + done, len - done, (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return elf_file_fail(f, "cannot read %s: %s", what, strerror(errno));
		if (n == 0)
			return elf_file_fail(f, "it shrank while it was read; try again");
		done += (size_t)n;
	}
	return 0;
}

const Elf64_Phdr *elf_file_segment(const struct elf_file *f, uint64_t vaddr, uint64_t len,
				   uint32_t flags)
{
	const Elf64_Phdr *p;

	for (p = f->ph; p < f->ph + f->eh.e_phnum; p++) {
		if (p->p_type != PT_LOAD || (p->p_flags & flags) != flags)
			continue;
		if (vaddr >= p->p_vaddr && vaddr - p->p_vaddr < p->p_filesz &&
		    len <= p->p_filesz - (vaddr - p->p_vaddr))
			return p;
	}
	return NULL;
}

static int read_vaddr(struct elf_file *f, uint64_t vaddr, void *buf, size_t len, const char *what)
{
	const Elf64_Phdr *p = elf_file_segment(f, vaddr, len, 0);

	if (!p)
		return elf_file_fail(f, "damaged: %s outside the loaded segments", what);
	return elf_file_read_at(f, vaddr - p->p_vaddr + p->p_offset, buf, len, what);
}

static int check_machine(struct elf_file *f)
{
	const unsigned char *id = f->eh.e_ident;

	if (id[EI_CLASS] == ELFCLASS32)
		return elf_file_fail(f, "32-bit library: only 64-bit programs can be traced");
	if (id[EI_CLASS] != ELFCLASS64 || id[EI_VERSION] != EV_CURRENT)
		return elf_file_fail(f, "not a valid ELF file: class %u, version %u", id[EI_CLASS],
				     id[EI_VERSION]);
	if (id[EI_DATA] != ELFDATA2LSB)
		return elf_file_fail(f, "not a little-endian library");
	if (f->eh.e_type != ET_DYN && !(f->program && f->eh.e_type == ET_EXEC))
		return elf_file_fail(f, "not a shared library (ELF type %u)", f->eh.e_type);
	if (f->eh.e_machine != OUR_MACHINE)
		return elf_file_fail(
			f, "built for another kind of processor (ELF machine %u, here it is %u)",
			f->eh.e_machine, OUR_MACHINE);
	return 0;
}

static int read_header(struct elf_file *f)
{
	uint64_t sh_sz;
	Elf64_Ehdr *eh = &f->eh;
	int ret;

	if (f->size < EI_NIDENT)
		return elf_file_fail(f, "not an ELF file: only %llu bytes",
				     (unsigned long long)f->size);
	ret = elf_file_read_at(f, 0, eh->e_ident, EI_NIDENT, "the ELF header");
	if (ret)
		return ret;
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0)
		return elf_file_fail(f, "not an ELF file");
	/* A 32-bit header is shorter: name the real problem, not "truncated". */
	if (eh->e_ident[EI_CLASS] == ELFCLASS32)
		return check_machine(f);
	ret = elf_file_read_at(f, EI_NIDENT, (char *)eh + EI_NIDENT, sizeof(*eh) - EI_NIDENT,
			       "the ELF header");
	if (!ret)
		ret = check_machine(f);
	if (ret)
		return ret;
	if (eh->e_phentsize != sizeof(Elf64_Phdr) || !eh->e_phnum || eh->e_phnum > ELF_PHDR_MAX)
		return elf_file_fail(f, "damaged: %u program headers of %u bytes", eh->e_phnum,
				     eh->e_phentsize);
	/* Section headers are not needed, but a truncated library is not what its owner meant to
	 * run. */
	sh_sz = (uint64_t)eh->e_shnum * eh->e_shentsize;
	if (eh->e_shoff && (eh->e_shoff > f->size || sh_sz > f->size - eh->e_shoff))
		return elf_file_fail(f,
				     "truncated: section headers end beyond the end of the file");
	return elf_file_read_at(f, eh->e_phoff, f->ph, eh->e_phnum * sizeof(Elf64_Phdr),
				"program headers");
}

/* Segments that overlap in memory would give an address two file offsets. */
static int check_segments(struct elf_file *f)
{
	uint64_t end = 0;
	unsigned i;

	for (i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &f->ph[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_offset > f->size || p->p_filesz > f->size - p->p_offset)
			return elf_file_fail(
				f, "truncated: segment %u ends beyond the end of the file", i);
		if (p->p_filesz > p->p_memsz || p->p_memsz > UINT64_MAX - p->p_vaddr)
			return elf_file_fail(f, "damaged: segment %u has impossible sizes", i);
		if (p->p_vaddr < end)
			return elf_file_fail(f, "damaged: segment %u overlaps the one before it",
					     i);
		end = p->p_vaddr + p->p_memsz;
	}
	return end ? 0 : elf_file_fail(f, "damaged: no segment to load");
}

static void take_dyn(struct elf_file *f, const Elf64_Dyn *d)
{
	switch (d->d_tag) {
	case DT_STRTAB:
		f->strtab = d->d_un.d_ptr;
		break;
	case DT_STRSZ:
		f->str_sz = d->d_un.d_val;
		break;
	case DT_SYMTAB:
		f->symtab = d->d_un.d_ptr;
		break;
	case DT_HASH:
		f->hash = d->d_un.d_ptr;
		break;
	case DT_GNU_HASH:
		f->gnu_hash = d->d_un.d_ptr;
		break;
	case DT_JMPREL:
		f->jmprel = d->d_un.d_ptr;
		break;
	case DT_PLTRELSZ:
		f->jmprel_sz = d->d_un.d_val;
		break;
	case DT_RELA:
		f->rela = d->d_un.d_ptr;
		break;
	case DT_RELASZ:
		f->rela_sz = d->d_un.d_val;
		break;
	case DT_SONAME:
		f->soname_off = d->d_un.d_val;
		break;
	}
}

static int read_dynamic(struct elf_file *f)
{
	const Elf64_Phdr *p = f->ph, *end = f->ph + f->eh.e_phnum;
	Elf64_Dyn *dyn;
	size_t i, cnt;
	int ret;

	while (p < end && p->p_type != PT_DYNAMIC)
		p++;
	if (p == end)
		return elf_file_fail(f, "not a shared library: no dynamic section");
	cnt = p->p_filesz / sizeof(*dyn);
	if (!cnt || cnt > DYN_MAX)
		return elf_file_fail(f, "damaged: dynamic section of %llu bytes",
				     (unsigned long long)p->p_filesz);
	dyn = calloc(cnt, sizeof(*dyn));
	if (!dyn)
		return elf_file_fail(f, "out of memory");
	ret = read_vaddr(f, p->p_vaddr, dyn, cnt * sizeof(*dyn), "dynamic section");
	for (i = 0; !ret && i < cnt && dyn[i].d_tag != DT_NULL; i++)
		take_dyn(f, &dyn[i]);
	free(dyn);
	if (!ret && (!f->strtab || !f->str_sz || !f->symtab))
		ret = elf_file_fail(f, "damaged: no dynamic symbol table");
	return ret;
}

/* Counts the symbols from there to the end of the chain. */
static int end_chain(struct elf_file *f, uint64_t at)
{
	uint32_t links[1024];

	for (;; at += sizeof(links)) {
		const Elf64_Phdr *p = elf_file_segment(f, at, sizeof(*links), 0);
		uint64_t left = p ? p->p_filesz - (at - p->p_vaddr) : 0;
		size_t len = left < sizeof(links) ? left & ~3ull : sizeof(links);
		int ret = read_vaddr(f, at, links, len ?: sizeof(*links), "symbol hash table");

		if (ret)
			return ret;
		for (size_t i = 0; i < len / sizeof(*links); i++) {
			if (f->sym_cnt++ >= ELF_SYM_MAX)
				return elf_file_fail(
					f, "damaged: endless chain in the symbol hash table");
			if (links[i] & 1)
				return 0;
		}
	}
}

/*
 * DT_GNU_HASH has no symbol count: it is the last symbol of the last chain plus one. A chain ends
 * at a set lowest bit.
 */
static int count_gnu_hash(struct elf_file *f)
{
	uint32_t head[4], *buckets, last = 0, i;
	uint64_t at = f->gnu_hash;
	int ret = read_vaddr(f, at, head, sizeof(head), "symbol hash table");

	if (ret)
		return ret;
	if (head[0] > ELF_SYM_MAX || head[1] > ELF_SYM_MAX || head[2] > BLOOM_MAX)
		return elf_file_fail(f, "damaged: symbol hash table of %u buckets, %u words",
				     head[0], head[2]);
	at += sizeof(head) + 8ULL * head[2];
	buckets = calloc(head[0] + 1, sizeof(*buckets));
	if (!buckets)
		return elf_file_fail(f, "out of memory");
	ret = read_vaddr(f, at, buckets, head[0] * sizeof(*buckets), "symbol hash table");
	for (i = 0; !ret && i < head[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	free(buckets);
	if (ret)
		return ret;
	f->sym_cnt = head[1];
	if (!last)
		return 0;
	if (last < head[1] || last >= ELF_SYM_MAX)
		return elf_file_fail(f, "damaged: symbol hash table names symbol %u", last);
	f->sym_cnt = last;
	return end_chain(f, at + 4ULL * head[0] + 4ULL * (last - head[1]));
}

static int count_symbols(struct elf_file *f)
{
	uint32_t head[2];
	int ret;

	if (!f->hash && !f->gnu_hash)
		return elf_file_fail(f, "damaged: no symbol hash table");
	if (!f->hash)
		return count_gnu_hash(f);
	ret = read_vaddr(f, f->hash, head, sizeof(head), "symbol hash table");
	if (ret)
		return ret;
	if (head[1] > ELF_SYM_MAX)
		return elf_file_fail(f, "damaged: %u dynamic symbols", head[1]);
	f->sym_cnt = head[1];
	return 0;
}

static int read_tables(struct elf_file *f)
{
	int ret = count_symbols(f);

	if (ret)
		return ret;
	if (f->str_sz > STR_SZ_MAX)
		return elf_file_fail(f, "damaged: string table of %llu bytes",
				     (unsigned long long)f->str_sz);
	f->strings = malloc(f->str_sz + 1);
	f->syms = calloc(f->sym_cnt + 1, sizeof(*f->syms));
	if (!f->strings || !f->syms)
		return elf_file_fail(f, "out of memory");
	f->strings[f->str_sz] = '\0';
	ret = read_vaddr(f, f->strtab, f->strings, f->str_sz, "string table");
	if (ret || !f->sym_cnt)
		return ret;
	return read_vaddr(f, f->symtab, f->syms, f->sym_cnt * sizeof(*f->syms),
			  "dynamic symbol table");
}

#ifdef __aarch64__
#define RELOC_RELATIVE R_AARCH64_RELATIVE
#define RELOC_SYMBOL   R_AARCH64_ABS64
#else
#define RELOC_RELATIVE R_X86_64_RELATIVE
#define RELOC_SYMBOL   R_X86_64_64
#endif

uint64_t elf_file_word(struct elf_file *f, uint64_t vaddr)
{
	uint64_t word = 0, cnt = f->rela_sz / sizeof(Elf64_Rela);
	Elf64_Rela *r = NULL;

	read_vaddr(f, vaddr, &word, sizeof(word), "data");
	if (f->rela && cnt && f->rela_sz <= RELA_SZ_MAX)
		r = malloc(f->rela_sz);
	if (!r || read_vaddr(f, f->rela, r, f->rela_sz, "relocations"))
		cnt = 0;
	for (uint64_t i = 0; i < cnt; i++) {
		uint64_t sym = ELF64_R_SYM(r[i].r_info), what = ELF64_R_TYPE(r[i].r_info);

		if (r[i].r_offset != vaddr)
			continue;
		word = r[i].r_addend;
		if (what == RELOC_SYMBOL && sym < f->sym_cnt)
			word += f->syms[sym].st_value;
		else if (what != RELOC_RELATIVE)
			word = 0;
	}
	free(r);
	return word;
}

static int open_image(struct elf_file *f)
{
	struct stat st;

	if (fstat(f->fd, &st))
		return elf_file_fail(f, "cannot stat it: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return elf_file_fail(f, "not a regular file");
	f->size = (uint64_t)st.st_size;
	return 0;
}

int elf_file__read_segments(struct elf_file *f)
{
	int ret = open_image(f);

	ret = ret ?: read_header(f);
	return ret ?: check_segments(f);
}

int elf_file__read(struct elf_file *f)
{
	int ret = elf_file__read_segments(f);

	ret = ret ?: read_dynamic(f);
	return ret ?: read_tables(f);
}

const Elf64_Sym *elf_file_symbol(const struct elf_file *f, const char *name)
{
	for (unsigned i = 0; i < f->sym_cnt; i++) {
		const Elf64_Sym *s = &f->syms[i];

		if (s->st_shndx != SHN_UNDEF && s->st_name < f->str_sz &&
		    !strcmp(f->strings + s->st_name, name))
			return s;
	}
	return NULL;
}

uint64_t elf_file_function(const struct elf_file *f, const char *name)
{
	const Elf64_Sym *s = elf_file_symbol(f, name);
	const Elf64_Phdr *p = s ? elf_file_segment(f, s->st_value, 1, PF_X) : NULL;

	return p ? s->st_value - p->p_vaddr + p->p_offset : 0;
}

bool elf_file_bias(const struct elf_file *f, uint64_t start, uint64_t off, uint64_t *bias)
{
	*bias = 0;
	if (f->eh.e_type == ET_EXEC)
		return true;
	for (const Elf64_Phdr *p = f->ph; p < f->ph + f->eh.e_phnum; p++) {
		if (p->p_type != PT_LOAD || off < (p->p_offset & ~PAGE) ||
		    off >= p->p_offset + p->p_filesz)
			continue;
		*bias = start - (p->p_vaddr - p->p_offset + off);
		return true;
	}
	return false;
}

void elf_file__free(struct elf_file *f)
{
	if (!f)
		return;
	free(f->strings);
	free(f->syms);
	free(f);
}
