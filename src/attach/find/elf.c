/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the functions of a libcuda and their probe sites. */
#include "elf.h"
#include "code.h"
#include "comm_layout.h"
#include "elf_file.h"
#include "torch.h"

#include "ct_spec.h"
#include "util/time_budget.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_SZ_MAX 65536
#define NAME_SZ_MAX 256
/* Four times the maximum over all libraries, because aliases are included. */
#define EXPORTS_MAX (4 * CT_MAX_FUNCS)
/* Functions are close together, so code is read in pieces. */
#define PIECE_SZ 16384
/* Symbols between checks of the time budget. */
#define SYMS_AT_ONCE 1024

/* cu[A-Z][A-Za-z0-9_]* and similar. Other names are not of the family (cudbgApiInit) or not fit for
 * printing. */
static bool is_name_of(const struct api *api, const char *s)
{
	size_t n = strnlen(s, NAME_SZ_MAX);

	return n < NAME_SZ_MAX && api_of_symbol(s) == api &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == n;
}

static bool is_exported(const Elf64_Sym *s)
{
	return ELF64_ST_BIND(s->st_info) != STB_LOCAL && s->st_shndx != SHN_UNDEF &&
	       s->st_shndx != SHN_ABS && s->st_value;
}

static int no_time(struct elf_file *f)
{
	return elf_file_fail(f, "it takes too long to read: it has too many symbols or sections");
}

/* Limits the search for the NUL to the longest name: many symbols may share one unterminated
 * string. */
static bool has_name(const struct elf_file *f, const Elf64_Sym *s)
{
	uint64_t left = s->st_name < f->str_sz ? f->str_sz - s->st_name : 0;

	return left >= NAME_SZ_MAX || memchr(f->strings + s->st_name, '\0', left);
}

static int collect(struct elf_file *f, const struct api *api, struct elf_lib *lib)
{
	unsigned i;

	lib->syms = calloc(f->sym_cnt + 1, sizeof(*lib->syms));
	lib->ifuncs = calloc(f->sym_cnt + 1, sizeof(*lib->ifuncs));
	if (!lib->syms || !lib->ifuncs)
		return elf_file_fail(f, "out of memory");
	for (i = 0; i < f->sym_cnt; i++) {
		const Elf64_Sym *s = &f->syms[i];
		const Elf64_Phdr *p;

		unsigned type = ELF64_ST_TYPE(s->st_info);

		if (!(i % SYMS_AT_ONCE) && !time_budget__has_time())
			return no_time(f);
		if (!is_exported(s) || (type != STT_FUNC && type != STT_GNU_IFUNC))
			continue;
		if (!has_name(f, s))
			return elf_file_fail(
				f, "damaged: name of symbol %u outside the string table", i);
		if (!is_name_of(api, f->strings + s->st_name))
			continue;
		if (lib->sym_cnt + lib->ifunc_cnt == EXPORTS_MAX)
			return elf_file_fail(f, "it exports more than %u functions", EXPORTS_MAX);
		if (type == STT_GNU_IFUNC) {
			lib->ifuncs[lib->ifunc_cnt++] = f->strings + s->st_name;
			continue;
		}
		p = elf_file_segment(f, s->st_value, 1, PF_X);
		if (!p)
			return elf_file_fail(f, "damaged: %s lies outside the executable segments",
					     f->strings + s->st_name);
		lib->syms[lib->sym_cnt].name = f->strings + s->st_name;
		lib->syms[lib->sym_cnt++].off = s->st_value - p->p_vaddr + p->p_offset;
	}
	return 0;
}

/* Returns N of a name's _vN, in any position (cuMemcpyHtoDAsync_v2_ptsz); 1 if there is none. */
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
 * Sorts by address. If an address has several names, the one to keep comes first. That is the
 * highest version, because its row in the API table describes that code best. Then the shortest
 * (without _ptsz: if both forms are the same code, the stream argument is used as it is). Then
 * alphabetical order.
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

/* Part of the file. */
struct piece {
	uint64_t off;
	size_t len;
	uint8_t bytes[PIECE_SZ];
};

/* Returns up to CODE_LOOK_SZ bytes of the file; NULL: not readable. Offsets must increase. */
static const uint8_t *code_at(struct elf_file *f, struct piece *p, const struct elf_sym *s,
			      size_t *len)
{
	uint64_t left = f->size - s->off;

	*len = left < CODE_LOOK_SZ ? (size_t)left : CODE_LOOK_SZ;
	if (s->off < p->off || s->off + *len > p->off + p->len) {
		p->off = s->off;
		p->len = left < PIECE_SZ ? (size_t)left : PIECE_SZ;
		if (elf_file_read_at(f, p->off, p->bytes, p->len, s->name))
			return NULL;
	}
	return p->bytes + (s->off - p->off);
}

static void choose_place(struct elf_sym *s, const uint8_t *code, size_t len, uint16_t machine)
{
	if (machine == EM_X86_64) {
		s->shift = (uint8_t)elf_probe_shift(code, len);
		s->bad_insn = code_is_refused(code + s->shift, len - s->shift);
		s->suspect = code_is_suspect(code + s->shift, len - s->shift);
	}
	s->stepped = code_is_stepped(code + s->shift, len > s->shift ? len - s->shift : 0, machine);
	s->off += s->shift;
}

/* Chooses each probe site, and checks whether the library is NVIDIA's link-time stub. */
static int look_at_code(struct elf_file *f, struct elf_lib *lib)
{
	struct code_stats stats = {0};
	struct piece piece = {0};

	for (unsigned i = 0; i < lib->sym_cnt; i++) {
		struct elf_sym *s = &lib->syms[i];
		const uint8_t *code;
		size_t len;

		if (!(i % 64) && !time_budget__has_time())
			return no_time(f);
		code = code_at(f, &piece, s, &len);
		if (!code)
			return -EINVAL;
		code_stats__add(&stats, s->name, code, len, lib->machine);
		choose_place(s, code, len, lib->machine);
	}
	lib->is_stub = code_stats__is_stub(&stats);
	return 0;
}

static void copy_soname(const struct elf_file *f, struct elf_lib *lib)
{
	const char *s;
	size_t i;

	if (!f->soname_off || f->soname_off >= f->str_sz)
		return;
	s = f->strings + f->soname_off;
	for (i = 0; s[i] && i < sizeof(lib->soname) - 1; i++)
		lib->soname[i] = s[i];
	while (i--) {
		if (lib->soname[i] <= ' ' || lib->soname[i] > '~')
			lib->soname[i] = '?';
	}
}

/* Parses one note at buf. Returns its size, or 0 if it is incomplete. */
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

static int read_notes(struct elf_file *f, struct elf_lib *lib)
{
	unsigned i;

	for (i = 0; i < f->eh.e_phnum; i++) {
		const Elf64_Phdr *p = &f->ph[i];
		size_t at = 0, n;
		uint8_t *buf;
		int ret;

		if (p->p_type != PT_NOTE || !p->p_filesz || p->p_filesz > NOTE_SZ_MAX)
			continue;
		buf = malloc(p->p_filesz);
		if (!buf)
			return elf_file_fail(f, "out of memory");
		ret = elf_file_read_at(f, p->p_offset, buf, p->p_filesz, "notes");
		while (!ret && at < p->p_filesz) {
			n = take_note(lib, buf + at, p->p_filesz - at, p->p_align == 8 ? 8 : 4);
			if (!n)
				break;
			at += n;
		}
		free(buf);
		if (ret)
			return ret;
	}
	return 0;
}

struct elf_lib *elf_lib__read(int fd, const struct api *api, char *err, size_t err_size)
{
	struct elf_lib *lib = calloc(1, sizeof(*lib));
	struct elf_file *f = calloc(1, sizeof(*f));
	int ret = -ENOMEM;

	if (err_size)
		snprintf(err, err_size, "out of memory");
	if (!lib || !f)
		goto out;
	f->fd = fd;
	f->err = err;
	f->err_size = err_size;
	ret = elf_file__read(f);
	ret = ret ?: collect(f, api, lib);
	if (ret)
		goto out;
	lib->machine = f->eh.e_machine;
	drop_aliases(lib);
	copy_soname(f, lib);
	ret = look_at_code(f, lib);
	ret = ret ?: read_notes(f, lib);
	if (!ret && api->id == API_NCCL)
		comm_layout__find(f, lib, &lib->comm);
	if (!ret && api->id == API_TORCH)
		lib->torch = torch_lib__find(f, lib);
	lib->strings = f->strings;
	f->strings = NULL;
out:
	elf_file__free(f);
	if (!ret)
		return lib;
	elf_lib__free(lib);
	return NULL;
}

bool elf_lib_ifuncs(const struct elf_lib *lib, const struct fnset *fns, char *text, size_t size)
{
	char names[128] = "";
	size_t len = 0;
	unsigned cnt = 0;

	for (unsigned i = 0; i < lib->ifunc_cnt; i++) {
		int id = fnset__find(fns, lib->ifuncs[i]);

		if (id < 0 || !fnset__wanted(fns, id))
			continue;
		cnt++;
		if (len < sizeof(names))
			len += snprintf(names + len, sizeof(names) - len, "%s%s",
					cnt > 1 ? ", " : "", lib->ifuncs[i]);
	}
	snprintf(text, cnt ? size : 1,
		 "no probe for %u function%s, whose code is chosen when the library is loaded "
		 "(STT_GNU_IFUNC): %s%s",
		 cnt, cnt == 1 ? "" : "s", names, len < sizeof(names) ? "" : "...");
	return cnt;
}

void elf_lib__free(struct elf_lib *lib)
{
	if (!lib)
		return;
	torch_lib__free(lib->torch);
	free(lib->syms);
	free(lib->ifuncs);
	free(lib->strings);
	free(lib);
}
