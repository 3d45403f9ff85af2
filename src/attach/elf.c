/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads what the dynamic linker would read, and nothing else: program headers, the dynamic section
 * and the tables it names. Section headers are no help: a stripped library has none, and in a
 * hostile one they may tell another story than what gets mapped.
 *
 * The file may be cut or rewritten by its owner while it is read: so pread() into buffers of our
 * own, never mmap() (SIGBUS), and no value is read twice. Every count and size has an upper bound
 * that is far above what any libcuda has (driver 580: 682 exports, 9 program headers).
 */
#include "elf.h"
#include "code.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PHDR_MAX    128
#define DYN_MAX	    4096
#define SYM_MAX	    65536
#define BLOOM_MAX   (1 << 20)
#define STR_SZ_MAX  (16 << 20)
#define NOTE_SZ_MAX 65536
#define NAME_SZ_MAX 128

#ifdef __aarch64__
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_X86_64
#endif

struct img {
	int fd;
	uint64_t size;
	Elf64_Ehdr eh;
	Elf64_Phdr ph[PHDR_MAX];
	/* from the dynamic section: addresses and sizes, 0 when absent */
	uint64_t strtab, str_sz, symtab, hash, gnu_hash, soname_off;
	char *strings; /* str_sz bytes and a NUL of ours */
	Elf64_Sym *syms;
	unsigned sym_cnt;
	char *err;
	size_t err_size;
};

__attribute__((format(printf, 2, 3))) static int fail(struct img *img, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(img->err, img->err_size, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int read_at(struct img *img, uint64_t off, void *buf, size_t len, const char *what)
{
	size_t done = 0;
	ssize_t n;

	if (off > img->size || len > img->size - off)
		return fail(img, "truncated: %s beyond the end of the file", what);
	while (done < len) {
		n = pread(img->fd, (char *)buf + done, len - done, (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(img, "cannot read %s: %s", what, strerror(errno));
		if (n == 0)
			return fail(img, "it shrank while it was read; try again");
		done += (size_t)n;
	}
	return 0;
}

/* The segment whose bytes in the file hold [vaddr, vaddr + len). */
static const Elf64_Phdr *find_segment(const struct img *img, uint64_t vaddr, uint64_t len,
				      uint32_t flags)
{
	const Elf64_Phdr *p;

	for (p = img->ph; p < img->ph + img->eh.e_phnum; p++) {
		if (p->p_type != PT_LOAD || (p->p_flags & flags) != flags)
			continue;
		if (vaddr >= p->p_vaddr && vaddr - p->p_vaddr < p->p_filesz &&
		    len <= p->p_filesz - (vaddr - p->p_vaddr))
			return p;
	}
	return NULL;
}

static int read_vaddr(struct img *img, uint64_t vaddr, void *buf, size_t len, const char *what)
{
	const Elf64_Phdr *p = find_segment(img, vaddr, len, 0);

	if (!p)
		return fail(img, "damaged: %s outside the loaded segments", what);
	return read_at(img, vaddr - p->p_vaddr + p->p_offset, buf, len, what);
}

static int check_machine(struct img *img)
{
	const unsigned char *id = img->eh.e_ident;

	if (id[EI_CLASS] == ELFCLASS32)
		return fail(img, "32-bit library: only 64-bit programs can be traced");
	if (id[EI_CLASS] != ELFCLASS64 || id[EI_VERSION] != EV_CURRENT)
		return fail(img, "not a valid ELF file: class %u, version %u", id[EI_CLASS],
			    id[EI_VERSION]);
	if (id[EI_DATA] != ELFDATA2LSB)
		return fail(img, "not a little-endian library");
	if (img->eh.e_type != ET_DYN)
		return fail(img, "not a shared library (ELF type %u)", img->eh.e_type);
	if (img->eh.e_machine != OUR_MACHINE)
		return fail(img,
			    "built for another kind of processor (ELF machine %u, here it is %u)",
			    img->eh.e_machine, OUR_MACHINE);
	return 0;
}

static int read_header(struct img *img)
{
	uint64_t sh_sz = (uint64_t)img->eh.e_shnum * img->eh.e_shentsize;
	Elf64_Ehdr *eh = &img->eh;
	int rc;

	if (img->size < EI_NIDENT)
		return fail(img, "not an ELF file: only %llu bytes", (unsigned long long)img->size);
	rc = read_at(img, 0, eh->e_ident, EI_NIDENT, "the ELF header");
	if (rc)
		return rc;
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0)
		return fail(img, "not an ELF file");
	/* A 32-bit header is shorter: name the real problem, not "truncated". */
	if (eh->e_ident[EI_CLASS] == ELFCLASS32)
		return check_machine(img);
	rc = read_at(img, EI_NIDENT, (char *)eh + EI_NIDENT, sizeof(*eh) - EI_NIDENT,
		     "the ELF header");
	if (!rc)
		rc = check_machine(img);
	if (rc)
		return rc;
	if (eh->e_phentsize != sizeof(Elf64_Phdr) || !eh->e_phnum || eh->e_phnum > PHDR_MAX)
		return fail(img, "damaged: %u program headers of %u bytes", eh->e_phnum,
			    eh->e_phentsize);
	/* Not needed, but a library cut short is not what its owner meant to run. */
	sh_sz = (uint64_t)eh->e_shnum * eh->e_shentsize;
	if (eh->e_shoff && (eh->e_shoff > img->size || sh_sz > img->size - eh->e_shoff))
		return fail(img, "truncated: section headers end beyond the end of the file");
	return read_at(img, eh->e_phoff, img->ph, eh->e_phnum * sizeof(Elf64_Phdr),
		       "program headers");
}

/* Segments that overlap in memory would make an address mean two places in the file. */
static int check_segments(struct img *img)
{
	uint64_t end = 0;
	unsigned i;

	for (i = 0; i < img->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &img->ph[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_offset > img->size || p->p_filesz > img->size - p->p_offset)
			return fail(img, "truncated: segment %u ends beyond the end of the file",
				    i);
		if (p->p_filesz > p->p_memsz || p->p_memsz > UINT64_MAX - p->p_vaddr)
			return fail(img, "damaged: segment %u has impossible sizes", i);
		if (p->p_vaddr < end)
			return fail(img, "damaged: segment %u overlaps the one before it", i);
		end = p->p_vaddr + p->p_memsz;
	}
	return end ? 0 : fail(img, "damaged: no segment to load");
}

static void take_dyn(struct img *img, const Elf64_Dyn *d)
{
	switch (d->d_tag) {
	case DT_STRTAB:
		img->strtab = d->d_un.d_ptr;
		break;
	case DT_STRSZ:
		img->str_sz = d->d_un.d_val;
		break;
	case DT_SYMTAB:
		img->symtab = d->d_un.d_ptr;
		break;
	case DT_HASH:
		img->hash = d->d_un.d_ptr;
		break;
	case DT_GNU_HASH:
		img->gnu_hash = d->d_un.d_ptr;
		break;
	case DT_SONAME:
		img->soname_off = d->d_un.d_val;
		break;
	}
}

static int read_dynamic(struct img *img)
{
	const Elf64_Phdr *p = img->ph, *end = img->ph + img->eh.e_phnum;
	Elf64_Dyn *dyn;
	size_t i, cnt;
	int rc;

	while (p < end && p->p_type != PT_DYNAMIC)
		p++;
	if (p == end)
		return fail(img, "not a shared library: no dynamic section");
	cnt = p->p_filesz / sizeof(*dyn);
	if (!cnt || cnt > DYN_MAX)
		return fail(img, "damaged: dynamic section of %llu bytes",
			    (unsigned long long)p->p_filesz);
	dyn = calloc(cnt, sizeof(*dyn));
	if (!dyn)
		return fail(img, "out of memory");
	rc = read_vaddr(img, p->p_vaddr, dyn, cnt * sizeof(*dyn), "dynamic section");
	for (i = 0; !rc && i < cnt && dyn[i].d_tag != DT_NULL; i++)
		take_dyn(img, &dyn[i]);
	free(dyn);
	if (!rc && (!img->strtab || !img->str_sz || !img->symtab))
		rc = fail(img, "damaged: no dynamic symbol table");
	return rc;
}

/*
 * DT_GNU_HASH has no symbol count: it is one more than the last symbol of the last chain. A chain
 * ends where the lowest bit is set.
 */
static int count_gnu_hash(struct img *img)
{
	uint32_t head[4], *buckets, last = 0, link = 0, i;
	uint64_t at = img->gnu_hash;
	int rc = read_vaddr(img, at, head, sizeof(head), "symbol hash table");

	if (rc)
		return rc;
	if (head[0] > SYM_MAX || head[1] > SYM_MAX || head[2] > BLOOM_MAX)
		return fail(img, "damaged: symbol hash table of %u buckets, %u words", head[0],
			    head[2]);
	at += sizeof(head) + 8ULL * head[2];
	buckets = calloc(head[0] + 1, sizeof(*buckets));
	if (!buckets)
		return fail(img, "out of memory");
	rc = read_vaddr(img, at, buckets, head[0] * sizeof(*buckets), "symbol hash table");
	for (i = 0; !rc && i < head[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	free(buckets);
	if (rc)
		return rc;
	img->sym_cnt = head[1];
	if (!last)
		return 0;
	if (last < head[1] || last >= SYM_MAX)
		return fail(img, "damaged: symbol hash table names symbol %u", last);
	at += 4ULL * head[0] + 4ULL * (last - head[1]);
	for (; !(link & 1); at += 4, last++) {
		if (last >= SYM_MAX)
			return fail(img, "damaged: endless chain in the symbol hash table");
		rc = read_vaddr(img, at, &link, sizeof(link), "symbol hash table");
		if (rc)
			return rc;
	}
	img->sym_cnt = last;
	return 0;
}

static int count_symbols(struct img *img)
{
	uint32_t head[2];
	int rc;

	if (!img->hash && !img->gnu_hash)
		return fail(img, "damaged: no symbol hash table");
	if (!img->hash)
		return count_gnu_hash(img);
	rc = read_vaddr(img, img->hash, head, sizeof(head), "symbol hash table");
	if (rc)
		return rc;
	if (head[1] > SYM_MAX)
		return fail(img, "damaged: %u dynamic symbols", head[1]);
	img->sym_cnt = head[1];
	return 0;
}

static int read_tables(struct img *img)
{
	int rc = count_symbols(img);

	if (rc)
		return rc;
	if (img->str_sz > STR_SZ_MAX)
		return fail(img, "damaged: string table of %llu bytes",
			    (unsigned long long)img->str_sz);
	img->strings = malloc(img->str_sz + 1);
	img->syms = calloc(img->sym_cnt + 1, sizeof(*img->syms));
	if (!img->strings || !img->syms)
		return fail(img, "out of memory");
	img->strings[img->str_sz] = '\0';
	rc = read_vaddr(img, img->strtab, img->strings, img->str_sz, "string table");
	if (rc || !img->sym_cnt)
		return rc;
	return read_vaddr(img, img->symtab, img->syms, img->sym_cnt * sizeof(*img->syms),
			  "dynamic symbol table");
}

/* cu[A-Z][A-Za-z0-9_]*: anything else is no driver API function (cudbgApiInit), or no name that is
 * fit to be printed. */
static bool is_api_name(const char *s)
{
	size_t n = strnlen(s, NAME_SZ_MAX);

	return n < NAME_SZ_MAX && s[0] == 'c' && s[1] == 'u' && s[2] >= 'A' && s[2] <= 'Z' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == n;
}

static bool is_exported_function(const Elf64_Sym *s)
{
	/* STT_GNU_IFUNC is left out: its address is that of a resolver. libcuda has none. */
	return ELF64_ST_TYPE(s->st_info) == STT_FUNC && ELF64_ST_BIND(s->st_info) != STB_LOCAL &&
	       s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS && s->st_value;
}

static int collect(struct img *img, struct elf_lib *lib)
{
	unsigned i;

	lib->syms = calloc(img->sym_cnt + 1, sizeof(*lib->syms));
	if (!lib->syms)
		return fail(img, "out of memory");
	for (i = 0; i < img->sym_cnt; i++) {
		const Elf64_Sym *s = &img->syms[i];
		const Elf64_Phdr *p;

		if (!is_exported_function(s))
			continue;
		if (s->st_name >= img->str_sz ||
		    !memchr(img->strings + s->st_name, '\0', img->str_sz - s->st_name))
			return fail(img, "damaged: name of symbol %u outside the string table", i);
		if (!is_api_name(img->strings + s->st_name))
			continue;
		p = find_segment(img, s->st_value, 1, PF_X);
		if (!p)
			return fail(img, "damaged: %s lies outside the executable segments",
				    img->strings + s->st_name);
		lib->syms[lib->sym_cnt].name = img->strings + s->st_name;
		lib->syms[lib->sym_cnt++].off = s->st_value - p->p_vaddr + p->p_offset;
	}
	return 0;
}

/* The N of a name's _vN, wherever it stands (cuMemcpyHtoDAsync_v2_ptsz); 1 when there is none. */
static unsigned long name_version(const char *name)
{
	const char *p = name;

	while ((p = strstr(p, "_v"))) {
		p += 2;
		if (*p >= '0' && *p <= '9')
			return strtoul(p, NULL, 10);
	}
	return 1;
}

/*
 * By address; of several names for one address, the one to keep first: the highest version, because
 * its row in the API table is the newest description of that code; then the shortest (without
 * _ptsz: when both forms are the same code, the stream is what it says), then by alphabet.
 */
static int compare_syms(const void *pa, const void *pb)
{
	const struct elf_sym *a = pa, *b = pb;
	unsigned long va = name_version(a->name), vb = name_version(b->name);
	size_t la = strlen(a->name), lb = strlen(b->name);

	if (a->off != b->off)
		return a->off < b->off ? -1 : 1;
	if (va != vb)
		return va > vb ? -1 : 1;
	if (la != lb)
		return la < lb ? -1 : 1;
	return strcmp(a->name, b->name);
}

static void drop_aliases(struct elf_lib *lib)
{
	unsigned i, n = 0;

	qsort(lib->syms, lib->sym_cnt, sizeof(*lib->syms), compare_syms);
	for (i = 0; i < lib->sym_cnt; i++) {
		if (n && lib->syms[n - 1].off == lib->syms[i].off)
			lib->alias_cnt++;
		else
			lib->syms[n++] = lib->syms[i];
	}
	lib->sym_cnt = n;
}

/* Chooses each probe's place, and tells whether all this is NVIDIA's link-time stub. */
static int look_at_code(struct img *img, struct elf_lib *lib)
{
	struct code_stats stats = {0};
	uint8_t code[CODE_LOOK_SZ];
	unsigned i;
	int rc;

	for (i = 0; i < lib->sym_cnt; i++) {
		struct elf_sym *s = &lib->syms[i];
		uint64_t left = img->size - s->off;
		size_t len = left < sizeof(code) ? (size_t)left : sizeof(code);

		rc = read_at(img, s->off, code, len, s->name);
		if (rc)
			return rc;
		code_stats__add(&stats, s->name, code, len, lib->machine);
		if (lib->machine == EM_X86_64)
			s->shift = (uint8_t)elf_probe_shift(code, len);
		s->off += s->shift;
	}
	lib->is_stub = code_stats__is_stub(&stats);
	return 0;
}

static void copy_soname(const struct img *img, struct elf_lib *lib)
{
	const char *s = img->strings + img->soname_off;
	size_t i;

	if (!img->soname_off || img->soname_off >= img->str_sz)
		return;
	for (i = 0; s[i] && i < sizeof(lib->soname) - 1; i++)
		lib->soname[i] = s[i];
	while (i--) {
		if (lib->soname[i] <= ' ' || lib->soname[i] > '~')
			lib->soname[i] = '?';
	}
}

/* One note at buf; returns how many bytes it takes, 0 when it is not whole. */
static size_t take_note(struct elf_lib *lib, const uint8_t *buf, size_t len, size_t align)
{
	const Elf64_Nhdr *n = (const void *)buf;
	size_t desc, total, i;

	if (len < sizeof(*n) || n->n_namesz > len || n->n_descsz > len)
		return 0;
	desc = (sizeof(*n) + n->n_namesz + align - 1) & ~(align - 1);
	if (desc > len || n->n_descsz > len - desc)
		return 0;
	total = (desc + n->n_descsz + align - 1) & ~(align - 1);
	if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && !lib->build_id[0] &&
	    !memcmp(buf + sizeof(*n), "GNU", 4)) {
		for (i = 0; i < n->n_descsz && i < (sizeof(lib->build_id) - 1) / 2; i++)
			sprintf(lib->build_id + 2 * i, "%02x", buf[desc + i]);
	}
	return total < len ? total : len;
}

static int read_notes(struct img *img, struct elf_lib *lib)
{
	unsigned i;

	for (i = 0; i < img->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &img->ph[i];
		size_t at = 0, n;
		uint8_t *buf;
		int rc;

		if (p->p_type != PT_NOTE || !p->p_filesz || p->p_filesz > NOTE_SZ_MAX)
			continue;
		buf = malloc(p->p_filesz);
		if (!buf)
			return fail(img, "out of memory");
		rc = read_at(img, p->p_offset, buf, p->p_filesz, "notes");
		while (!rc && at < p->p_filesz) {
			n = take_note(lib, buf + at, p->p_filesz - at, p->p_align == 8 ? 8 : 4);
			if (!n)
				break;
			at += n;
		}
		free(buf);
		if (rc)
			return rc;
	}
	return 0;
}

static int open_image(struct img *img, int fd)
{
	struct stat st;

	img->fd = fd;
	if (fstat(fd, &st))
		return fail(img, "cannot stat it: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(img, "not a regular file");
	img->size = (uint64_t)st.st_size;
	return 0;
}

struct elf_lib *elf_lib__read(int fd, char *err, size_t err_size)
{
	struct elf_lib *lib = calloc(1, sizeof(*lib));
	struct img *img = calloc(1, sizeof(*img));
	int rc = -ENOMEM;

	if (err_size)
		snprintf(err, err_size, "out of memory");
	if (!lib || !img)
		goto out;
	img->err = err;
	img->err_size = err_size;
	rc = open_image(img, fd);
	rc = rc ?: read_header(img);
	rc = rc ?: check_segments(img);
	rc = rc ?: read_dynamic(img);
	rc = rc ?: read_tables(img);
	rc = rc ?: collect(img, lib);
	if (rc)
		goto out;
	lib->machine = img->eh.e_machine;
	drop_aliases(lib);
	copy_soname(img, lib);
	rc = look_at_code(img, lib);
	rc = rc ?: read_notes(img, lib);
	lib->strings = img->strings;
	img->strings = NULL;
out:
	if (img) {
		free(img->strings);
		free(img->syms);
	}
	free(img);
	if (!rc)
		return lib;
	elf_lib__free(lib);
	return NULL;
}

void elf_lib__free(struct elf_lib *lib)
{
	if (!lib)
		return;
	free(lib->syms);
	free(lib->strings);
	free(lib);
}
