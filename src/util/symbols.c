/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "symbols.h"

#include "order.h"
#include "time_budget.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Far above real files: libtorch_cuda.so has some 300,000 functions. */
#define SECTIONS_MAX 65536
#define SEGMENTS_MAX 128
#define SYMS_SZ_MAX  (24u << 20) /* a million; held twice while they are read */
#define SYMS_AT_ONCE 4096	 /* between checks of the time */
#define NOTES_SZ_MAX 65536
#define BUILD_ID_MAX 32

struct segment {
	uint64_t off, addr, size;
};

struct symbol {
	uint64_t addr;
	uint32_t size, name;
	uint8_t rank; /* of several at one address the highest is taken */
};

struct symbols {
	int fd;
	struct segment segments[SEGMENTS_MAX];
	unsigned segment_cnt;
	struct symbol *syms; /* sorted by address */
	size_t cnt, alloc_cnt;
	uint64_t names_off, names_sz; /* string table, in the file */
	char build_id[2 * BUILD_ID_MAX + 1];
};

static void read_segments(struct symbols *s, Elf *elf)
{
	size_t cnt;

	if (elf_getphdrnum(elf, &cnt))
		return;
	for (size_t i = 0; i < cnt && s->segment_cnt < SEGMENTS_MAX; i++) {
		GElf_Phdr p;

		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_LOAD)
			continue;
		s->segments[s->segment_cnt++] = (struct segment){p.p_offset, p.p_vaddr, p.p_filesz};
	}
}

static void take_build_id(struct symbols *s, const Elf_Data *d)
{
	size_t off = 0, name, desc, next;
	GElf_Nhdr n;

	while ((next = gelf_getnote((Elf_Data *)d, off, &n, &name, &desc)) > 0) {
		const uint8_t *id = (const uint8_t *)d->d_buf + desc;

		off = next;
		if (n.n_type != NT_GNU_BUILD_ID || n.n_namesz != 4 ||
		    memcmp((const char *)d->d_buf + name, "GNU", 4))
			continue;
		for (size_t i = 0; i < n.n_descsz && i < BUILD_ID_MAX; i++)
			sprintf(s->build_id + 2 * i, "%02x", id[i]);
		return;
	}
}

static void read_build_id(struct symbols *s, Elf *elf)
{
	size_t cnt;

	if (elf_getphdrnum(elf, &cnt))
		return;
	for (size_t i = 0; i < cnt && i < SEGMENTS_MAX && !s->build_id[0]; i++) {
		Elf_Data *d;
		GElf_Phdr p;

		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_NOTE ||
		    p.p_filesz > NOTES_SZ_MAX)
			continue;
		d = elf_getdata_rawchunk(elf, (int64_t)p.p_offset, p.p_filesz,
					 p.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		if (d && d->d_buf)
			take_build_id(s, d);
	}
}

static uint8_t rank_of(const GElf_Sym *sym)
{
	unsigned bind = GELF_ST_BIND(sym->st_info);

	return 4 * !!sym->st_size + (bind == STB_GLOBAL ? 2 : bind == STB_WEAK ? 1 : 0);
}

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank > y->rank ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

/* Keeps one symbol for each address. */
static void sort(struct symbols *s)
{
	struct symbol *fit;
	size_t n = 0;

	qsort(s->syms, s->cnt, sizeof(*s->syms), by_address);
	for (size_t i = 0; i < s->cnt; i++)
		if (!n || s->syms[n - 1].addr != s->syms[i].addr)
			s->syms[n++] = s->syms[i];
	s->cnt = n;
	fit = reallocarray(s->syms, n, sizeof(*s->syms));
	if (!fit)
		return;
	s->syms = fit;
	s->alloc_cnt = n;
}

static void take_symbols(struct symbols *s, Elf_Data *d, size_t cnt)
{
	s->syms = calloc(cnt, sizeof(*s->syms));
	s->alloc_cnt = s->syms ? cnt : 0;
	for (size_t i = 0; s->syms && i < cnt; i++) {
		GElf_Sym sym;
		unsigned type;

		/* An incomplete table would return wrong names. */
		if (!(i % SYMS_AT_ONCE) && !time_budget__has_time()) {
			s->cnt = 0;
			break;
		}
		if (!gelf_getsym(d, (int)i, &sym))
			break;
		type = GELF_ST_TYPE(sym.st_info);
		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym.st_shndx == SHN_UNDEF ||
		    !sym.st_value || sym.st_name >= s->names_sz)
			continue;
		s->syms[s->cnt++] = (struct symbol){
			.addr = sym.st_value,
			.size = sym.st_size > UINT32_MAX ? UINT32_MAX : (uint32_t)sym.st_size,
			.name = sym.st_name,
			.rank = rank_of(&sym),
		};
	}
	if (s->cnt)
		sort(s);
}

/* false: it has none. */
static bool read_table(struct symbols *s, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh)
{
	GElf_Shdr names;
	Elf_Data *d;

	if (!sh->sh_entsize || sh->sh_size > SYMS_SZ_MAX || (sh->sh_flags & SHF_COMPRESSED) ||
	    sh->sh_entsize != gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT))
		return false;
	if (!gelf_getshdr(elf_getscn(elf, sh->sh_link), &names) || names.sh_type != SHT_STRTAB ||
	    (names.sh_flags & SHF_COMPRESSED))
		return false;
	s->names_off = names.sh_offset;
	s->names_sz = names.sh_size;
	d = elf_getdata(scn, NULL);
	if (d && d->d_buf && d->d_size >= sh->sh_entsize)
		take_symbols(s, d, d->d_size / sh->sh_entsize);
	if (s->cnt)
		return true;
	free(s->syms);
	s->syms = NULL;
	s->alloc_cnt = 0;
	return false;
}

/* A file has one table of a type, but any number of headers may claim to be one. */
static bool read_symbols(struct symbols *s, Elf *elf, uint32_t type)
{
	Elf_Scn *scn = NULL;
	unsigned left = SECTIONS_MAX;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(elf, scn)) && left--)
		if (gelf_getshdr(scn, &sh) && sh.sh_type == type)
			return read_table(s, elf, scn, &sh);
	return false;
}

/* libelf allocates memory for all headers, which may be a hole of the file and so cost its owner
 * nothing. Numbers beyond the 16 bits of the file's header, which follow in section 0,
 * are refused. */
static bool has_few_headers(int fd)
{
	Elf64_Ehdr h;

	return pread(fd, &h, sizeof(h), 0) == sizeof(h) && h.e_ident[EI_CLASS] == ELFCLASS64 &&
	       h.e_phnum != PN_XNUM && (h.e_shnum || !h.e_shoff);
}

static struct symbols *read_file(int fd, bool names)
{
	struct symbols *s = calloc(1, sizeof(*s));
	struct stat st;
	Elf *elf;

	if (!s) {
		close(fd);
		return NULL;
	}
	s->fd = fd;
	if (elf_version(EV_CURRENT) == EV_NONE || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    !has_few_headers(fd))
		return s;
	/* Uses read(): a mapped file could be truncated meanwhile. */
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf)
		return s;
	if (elf_kind(elf) == ELF_K_ELF) {
		read_segments(s, elf);
		read_build_id(s, elf);
		if (names && !read_symbols(s, elf, SHT_SYMTAB))
			read_symbols(s, elf, SHT_DYNSYM);
	}
	elf_end(elf);
	return s;
}

struct symbols *symbols__read(int fd)
{
	return read_file(fd, true);
}

struct symbols *symbols__read_nameless(int fd)
{
	return read_file(fd, false);
}

void symbols__free(struct symbols *s)
{
	if (!s)
		return;
	close(s->fd);
	free(s->syms);
	free(s);
}

size_t symbols__size(const struct symbols *s)
{
	return sizeof(*s) + s->alloc_cnt * sizeof(*s->syms);
}

const char *symbols__build_id(const struct symbols *s)
{
	return s->build_id;
}

bool symbols__address(const struct symbols *s, uint64_t off, uint64_t *addr)
{
	for (unsigned i = 0; i < s->segment_cnt; i++) {
		const struct segment *g = &s->segments[i];

		if (off < g->off || off - g->off >= g->size)
			continue;
		*addr = off - g->off + g->addr;
		return true;
	}
	return false;
}

bool symbols__find(const struct symbols *s, uint64_t addr, char *name, size_t size, uint64_t *start)
{
	size_t before = COUNT_LEADING(i, s->cnt, s->syms[i].addr <= addr);
	const struct symbol *sym;
	ssize_t n;

	if (!before)
		return false;
	sym = &s->syms[before - 1];
	/* A symbol without a size extends to the next one. */
	if (sym->size && addr - sym->addr >= sym->size)
		return false;
	if (size > s->names_sz - sym->name)
		size = s->names_sz - sym->name;
	n = pread(s->fd, name, size, (off_t)(s->names_off + sym->name));
	if (n <= 1 || !name[0])
		return false;
	name[n - 1] = '\0';
	*start = sym->addr;
	return true;
}
