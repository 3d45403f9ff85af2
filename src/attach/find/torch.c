/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "torch.h"

#include "cfi.h"
#include "elf_file.h"

#include "util/time_budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGINS	  "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE"
#define RUNS_NODE "_ZN5torch8autograd6Engine17evaluate_function"

/* at::_ops::X::call() has up to 3 KiB. */
#define CODE_MAX 8192
/* The procedure linkage table is searched in this range: it comes first. 4 MiB in 2.11. */
#define PLT_MAX (32u << 20)
#define PLT_SZ	(1u << 20)
/* Bytes read of the function that looks the schema up: its strings are in the first 64 bytes. */
#define LOOKUP_SZ     128
#define NAME_SZ	      256
#define SEEN_CNT      4096
#define OPERATORS_MAX 16384
#define NODES_MAX     16384
/* Symbols between checks of the time budget. */
#define SYMS_AT_ONCE 1024

/* State of reading one library. */
struct torch_scan {
	struct elf_file *f;
	struct cfi cfi;
	bool has_cfi;
	uint64_t begins, plt; /* what operators call: the function itself, and its stub; 0: none */
	uint64_t no_lookup[SEEN_CNT]; /* functions without a schema lookup, by their low bits */
	char why[64];
};

static bool read_vaddr(struct torch_scan *l, uint64_t vaddr, void *buf, size_t len)
{
	const Elf64_Phdr *p = elf_file_segment(l->f, vaddr, len, 0);

	return p && time_budget__has_time() &&
	       !elf_file_read_at(l->f, vaddr - p->p_vaddr + p->p_offset, buf, len, "code");
}

static const char *name_of(const struct elf_file *f, const Elf64_Sym *s)
{
	return s->st_name < f->str_sz ? f->strings + s->st_name : "";
}

static int32_t rel32(const uint8_t *p)
{
	int32_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

uint64_t code_called(const uint8_t *code, size_t len, size_t i, uint64_t addr)
{
	if (i + 5 > len || code[i] != 0xe8)
		return 0;
	return addr + i + 5 + rel32(code + i + 1);
}

/* --- the stub by which the library calls its own export --- */

/* Returns the word that the dynamic linker fills with the symbol's address; 0: none. */
static uint64_t find_slot(struct torch_scan *l, unsigned sym)
{
	const struct elf_file *f = l->f;
	Elf64_Rela rela[512];
	uint64_t at = f->jmprel, left = f->jmprel_sz / sizeof(*rela);

	/* At most one entry per symbol. */
	if (left > ELF_SYM_MAX)
		return 0;
	while (left) {
		uint64_t cnt = left < 512 ? left : 512;

		if (!read_vaddr(l, at, rela, cnt * sizeof(*rela)))
			return 0;
		for (uint64_t i = 0; i < cnt; i++)
			if (ELF64_R_SYM(rela[i].r_info) == sym)
				return rela[i].r_offset;
		at += cnt * sizeof(*rela);
		left -= cnt;
	}
	return 0;
}

/* Finds jmp *slot(%rip) in the len bytes at addr; 0: none. */
static uint64_t find_jump(const uint8_t *code, size_t len, uint64_t addr, uint64_t slot)
{
	for (size_t i = 0; i + 6 <= len; i++)
		if (code[i] == 0xff && code[i + 1] == 0x25 &&
		    addr + i + 6 + rel32(code + i + 2) == slot)
			return addr + i;
	return 0;
}

static uint64_t find_plt(struct torch_scan *l, unsigned sym)
{
	uint64_t slot = find_slot(l, sym), found = 0;
	const struct elf_file *f = l->f;
	uint8_t *code = malloc(PLT_SZ);

	for (unsigned i = 0; code && slot && i < f->eh.e_phnum && !found; i++) {
		const Elf64_Phdr *p = &f->ph[i];
		uint64_t left = p->p_filesz < PLT_MAX ? p->p_filesz : PLT_MAX;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		/* Pieces overlap, for a jump across their border. */
		for (uint64_t at = p->p_vaddr; left > 8 && !found; at += PLT_SZ - 8) {
			size_t len = left < PLT_SZ ? left : PLT_SZ;

			if (!read_vaddr(l, at, code, len))
				break;
			found = find_jump(code, len, at, slot);
			left -= len < left ? len - 8 : left;
		}
	}
	free(code);
	return found;
}

/* Stubs begin with endbr64 (4 bytes), and may have a bnd. */
static bool is_begin(const struct torch_scan *l, uint64_t addr)
{
	return addr && (addr == l->begins || (l->plt && l->plt - addr <= 5));
}

/* --- names --- */

/* Reads a name like "aten::addmm": letters and similar, with two colons. */
static bool read_name(struct torch_scan *l, uint64_t vaddr, char name[NAME_SZ])
{
	size_t len = NAME_SZ - 1;
	const char *colons;

	/* Near the end of the segment, read less. */
	while (len >= 16 && !read_vaddr(l, vaddr, name, len))
		len /= 2;
	if (len < 16)
		return false;
	name[len] = 0;
	colons = strstr(name, "::");
	return colons && colons > name && colons[2] &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:") ==
		       strlen(name);
}

/* The symbol contains the name, followed by the overload's name if there is one. */
static bool is_of_symbol(const char *name, const char *in_symbol)
{
	const char *own = strstr(name, "::") + 2, *all = strstr(in_symbol, "::") + 2;
	size_t len = strlen(own);

	return !strncmp(all, own, len) && (!all[len] || all[len] == '_');
}

/* Finds lea name(%rip), %rdx: the third argument of c10::Dispatcher::findSchemaOrThrow(). */
static bool name_in(struct torch_scan *l, const uint8_t *code, size_t len, uint64_t addr,
		    const char *in_symbol, char name[NAME_SZ])
{
	for (size_t i = 0; i + 7 <= len; i++)
		if (code[i] == 0x48 && code[i + 1] == 0x8d && code[i + 2] == 0x15 &&
		    read_name(l, addr + i + 7 + rel32(code + i + 3), name) &&
		    is_of_symbol(name, in_symbol))
			return true;
	return false;
}

/* Searches the operator's callees (for the schema lookup), then the operator itself. */
static bool find_name(struct torch_scan *l, const uint8_t *code, size_t len, uint64_t addr,
		      const char *in_symbol, char name[NAME_SZ])
{
	uint8_t called[LOOKUP_SZ];

	if (name_in(l, code, len, addr, in_symbol, name))
		return true;
	for (size_t i = 0; i + 5 <= len; i++) {
		uint64_t to = code_called(code, len, i, addr), *no = &l->no_lookup[to % SEEN_CNT];

		if (!to || *no == to || !elf_file_segment(l->f, to, sizeof(called), PF_X))
			continue;
		if (!read_vaddr(l, to, called, sizeof(called)))
			continue;
		if (name_in(l, called, sizeof(called), to, in_symbol, name))
			return true;
		/* The called function may look up another operator. */
		if (!memmem(called, sizeof(called), "\x48\x8d\x15", 3))
			*no = to;
	}
	return false;
}

/* --- the operators --- */

/*
 * Returns the stack argument words: up to the last that is read relative to the frame pointer by
 * `mov disp8(%rbp), reg`, `movz`, `lea` or `push`. The caller aligns its stack to 16 bytes. Tests
 * every byte position, without decoding: false matches are very rare.
 */
unsigned code_arg_words(const uint8_t *code, size_t len)
{
	unsigned cnt = 0;

	for (size_t i = 1; i + 2 <= len; i++) {
		unsigned disp = code[i + 1], words;
		uint8_t op = code[i - 1];

		/* mod 01, rm 101: disp8 from the frame pointer. The return address is at 8. */
		if ((code[i] & 0xc7) != 0x45 || disp < 16 || disp > 127)
			continue;
		if (op != 0x8b && op != 0x8d && op != 0xb6 && op != 0xb7 && op != 0xff &&
		    op != 0x6f && op != 0x10)
			continue;
		words = disp / 8 - 1;
		cnt = words > cnt ? words : cnt;
	}
	return (cnt + 1) & ~1u;
}

static void add_operator(struct torch_scan *l, struct torch_lib *to, const Elf64_Sym *s,
			 uint64_t ip, const char *guess)
{
	size_t len = s->st_size < CODE_MAX ? s->st_size : CODE_MAX, i = 0;
	struct torch_operator *op = &to->operators[to->operator_cnt];
	struct cfi_frame frame;
	uint8_t code[CODE_MAX];
	char name[NAME_SZ];
	uint64_t ret;

	if (!read_vaddr(l, s->st_value, code, len))
		return;
	while (i < len && !is_begin(l, code_called(code, len, i, s->st_value)))
		i++;
	if (i == len)
		return;
	ret = s->st_value + i + 5;
	op->distance = ret - ip;
	op->name = strdup(find_name(l, code, len, s->st_value, guess, name) ? name : guess);
	if (!op->name)
		return;
	op->has_site = l->has_cfi && cfi__find(&l->cfi, ret - 1, &frame) &&
		       (!frame.by_fp || frame.off == 16);
	op->site.off = op->has_site && !frame.by_fp ? frame.off : 0;
	op->site.arg_words = op->has_site && frame.by_fp ? code_arg_words(code, len) : 0;
	to->operator_cnt++;
}

static void add_node(struct torch_lib *to, const Elf64_Sym *s, uint64_t ip, const char *name)
{
	struct torch_node *node = &to->nodes[to->node_cnt];

	/* Objects point two words into the vtable. */
	node->distance = s->st_value + 16 - ip;
	node->name = strdup(name);
	to->node_cnt += node->name != NULL;
}

/* Returns the address of the probed instruction in the function with this name prefix; 0: none. */
static uint64_t probed(const struct elf_file *f, const struct elf_lib *lib, const char *begins,
		       unsigned *sym)
{
	for (unsigned i = 0; i < f->sym_cnt; i++) {
		const Elf64_Sym *s = &f->syms[i];

		if (!s->st_value || strncmp(name_of(f, s), begins, strlen(begins)) != 0)
			continue;
		for (unsigned k = 0; k < lib->sym_cnt; k++)
			if (!strcmp(lib->syms[k].name, name_of(f, s))) {
				*sym = i;
				return s->st_value + lib->syms[k].shift;
			}
	}
	return 0;
}

static void collect(struct torch_scan *l, struct torch_lib *to, uint64_t op_ip, uint64_t node_ip)
{
	const struct elf_file *f = l->f;
	char name[NAME_SZ];

	for (unsigned i = 0; i < f->sym_cnt; i++) {
		const Elf64_Sym *s = &f->syms[i];

		if (!(i % SYMS_AT_ONCE) && !time_budget__has_time())
			return;
		if (!s->st_value || !s->st_shndx)
			continue;
		if (op_ip && to->operator_cnt < OPERATORS_MAX &&
		    torch_operator_name(name_of(f, s), name, sizeof(name)))
			add_operator(l, to, s, op_ip, name);
		else if (node_ip && to->node_cnt < NODES_MAX &&
			 torch_node_name(name_of(f, s), name, sizeof(name)))
			add_node(to, s, node_ip, name);
	}
}

struct torch_lib *torch_lib__find(struct elf_file *f, const struct elf_lib *lib)
{
	unsigned op_sym = 0, node_sym = 0;
	uint64_t op_ip = probed(f, lib, BEGINS, &op_sym);
	uint64_t node_ip = probed(f, lib, RUNS_NODE, &node_sym);
	struct torch_lib *to = calloc(1, sizeof(*to));
	struct torch_scan *l = calloc(1, sizeof(*l));
	char *err = f->err;
	size_t err_size = f->err_size;

	if ((!op_ip && !node_ip) || !to || !l)
		goto fail;
	to->operators = calloc(OPERATORS_MAX, sizeof(*to->operators));
	to->nodes = calloc(NODES_MAX, sizeof(*to->nodes));
	if (!to->operators || !to->nodes)
		goto fail;
	/* Errors are not reported: partial results are used. */
	f->err = l->why;
	f->err_size = sizeof(l->why);
	l->f = f;
	if (op_ip) {
		l->begins = f->syms[op_sym].st_value;
		l->plt = find_plt(l, op_sym);
		l->has_cfi = cfi__open(&l->cfi, f);
	}
	collect(l, to, op_ip, node_ip);
	f->err = err;
	f->err_size = err_size;
	torch_lib__sort(to);
	free(l);
	return to;
fail:
	torch_lib__free(to);
	free(l);
	return NULL;
}
