/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "comm_layout.h"

#include "elf_file.h"

#include "util/time_budget.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* The three have 789 bytes in 2.28.9. */
#define LOOK_SZ	  2048
#define LOADS_MAX 64
/* Range of the rank's offset: a communicator begins with pointers and tables. */
#define PLACE_MIN 0x100
#define PLACE_MAX (64u << 20)
/* 2.3 is 2300, 2.30 is 23000. */
#define VERSION_MIN 2000
#define VERSION_MAX 99999
/* The counts are 0x2060 to 0x27b0 bytes after the hash. */
#define COUNTS_FAR 0x10000
/* Code is read in pieces. They overlap by the size of an addition and the instruction before it. */
#define PIECE_SZ 65536
#define OVERLAP	 32
/* 2.28.9 has 1.8 MB, in 4 sections. The limit is for all sections together, because headers may
 * overlap. */
#define TEXT_MAX     (64u << 20)
#define SECTIONS_MAX 256

static uint32_t u32_at(const uint8_t *p)
{
	uint32_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

/* Tests every byte position, without decoding. A false match has no counterpart in the other
 * functions. */
unsigned code_loads(const uint8_t *code, size_t len, uint32_t *disps, unsigned max)
{
	unsigned cnt = 0;

	for (size_t i = 0; i + 6 <= len && cnt < max; i++) {
		/* rm 100: there is a SIB byte */
		size_t at = i + 2 + ((code[i + 1] & 7) == 4);

		/* 8b /r with mod 10: 32-bit displacement. REX.W: a 64-bit load. */
		if (code[i] == 0x8b && code[i + 1] >> 6 == 2 && at + 4 <= len &&
		    !(i && (code[i - 1] & 0xf8) == 0x48))
			disps[cnt++] = u32_at(code + at);
	}
	return cnt;
}

uint32_t code_stored(const uint8_t *code, size_t len)
{
	uint32_t found = 0;

	for (size_t i = 0; i + 6 <= len; i++) {
		uint8_t rm = code[i + 1] & 7;
		uint32_t value = u32_at(code + i + 2);

		/* c7 /0 with mod 00, at a register without displacement: movl $value, (reg) */
		if (code[i] != 0xc7 || code[i + 1] & 0xf8 || rm == 4 || rm == 5)
			continue;
		if (value < VERSION_MIN || value > VERSION_MAX)
			continue;
		if (found && found != value)
			return 0;
		found = value;
	}
	return found;
}

/* If the instruction before code[i] adds a constant to a register, returns 8 times that; else 0. */
static uint64_t index_added(const uint8_t *code, size_t i)
{
	/* 48 05 imm32: add $imm, %rax. 48 81 /0 imm32: to another register. */
	if (i >= 6 && code[i - 6] == 0x48 && code[i - 5] == 0x05)
		return 8ull * u32_at(code + i - 4);
	if (i >= 7 && (code[i - 7] & 0xf8) == 0x48 && code[i - 6] == 0x81 &&
	    (code[i - 5] & 0xf8) == 0xc0)
		return 8ull * u32_at(code + i - 4);
	return 0;
}

bool code_counters(const uint8_t *code, size_t len, uint32_t from, uint32_t to, uint32_t *found)
{
	for (size_t i = 1; i + 4 <= len; i++) {
		bool locked = i > 1 && code[i - 2] == 0xf0;
		uint64_t d = 0;

		/* REX.W 83 /0 ib, with a SIB byte of scale 8 */
		if (code[i] != 0x83 || (code[i - 1] & 0xf8) != 0x48 || (code[i + 1] & 0x3f) != 4 ||
		    code[i + 2] >> 6 != 3)
			continue;
		if (code[i + 1] >> 6 == 2 && i + 8 <= len && code[i + 7] == 1)
			d = u32_at(code + i + 3);
		else if (code[i + 1] >> 6 == 0 && locked && code[i + 3] == 1)
			d = index_added(code, i - 2);
		if (d < from || d > to || d % 8)
			continue;
		if (*found && *found != d)
			return false;
		*found = d;
	}
	return true;
}

static bool has(const uint32_t *v, unsigned cnt, uint32_t x)
{
	for (unsigned i = 0; i < cnt; i++)
		if (v[i] == x)
			return true;
	return false;
}

uint32_t code_common(const uint32_t *a, unsigned a_cnt, const uint32_t *b, unsigned b_cnt,
		     const uint32_t *c, unsigned c_cnt)
{
	uint32_t found = 0;

	for (unsigned i = 0; i < a_cnt; i++) {
		if (a[i] < PLACE_MIN || a[i] > PLACE_MAX || !has(b, b_cnt, a[i] + 4) ||
		    !has(c, c_cnt, a[i] + 8))
			continue;
		if (found && found != a[i])
			return 0;
		found = a[i];
	}
	return found;
}

/* Reads a function's code, up to the next exported one. Returns its size; 0: not found. */
static size_t read_code(struct elf_file *f, const struct elf_lib *lib, const char *name,
			uint8_t code[LOOK_SZ])
{
	uint64_t end = f->size;
	unsigned i = 0;
	size_t len;

	while (i < lib->sym_cnt && strcmp(lib->syms[i].name, name))
		i++;
	if (i == lib->sym_cnt)
		return 0;
	if (i + 1 < lib->sym_cnt && lib->syms[i + 1].off - lib->syms[i + 1].shift < end)
		end = lib->syms[i + 1].off - lib->syms[i + 1].shift;
	if (end <= lib->syms[i].off)
		return 0;
	len = end - lib->syms[i].off < LOOK_SZ ? end - lib->syms[i].off : LOOK_SZ;
	return elf_file_read_at(f, lib->syms[i].off, code, len, name) ? 0 : len;
}

/* Searches size bytes of the file at off. */
static bool counters_in(struct elf_file *f, uint64_t off, uint64_t size, uint32_t hash_off,
			uint32_t *found)
{
	uint8_t *piece = malloc(PIECE_SZ);
	bool ok = piece;

	for (uint64_t at = 0, len; ok && at < size; at += PIECE_SZ - OVERLAP) {
		len = size - at < PIECE_SZ ? size - at : PIECE_SZ;
		ok = time_budget__has_time() &&
		     !elf_file_read_at(f, off + at, piece, len, "code") &&
		     code_counters(piece, len, hash_off, hash_off + COUNTS_FAR, found);
	}
	free(piece);
	return ok;
}

/* Returns the offset of the library's counts of collectives; 0: unknown. Reads sections, because
 * the executable segment contains all kernels. */
static uint32_t find_counts(struct elf_file *f, uint32_t hash_off)
{
	uint64_t left = TEXT_MAX;
	uint32_t found = 0;
	Elf64_Shdr sh;

	if (!f->eh.e_shoff || f->eh.e_shentsize != sizeof(sh) || f->eh.e_shnum > SECTIONS_MAX)
		return 0;
	for (unsigned i = 0; i < f->eh.e_shnum; i++) {
		if (elf_file_read_at(f, f->eh.e_shoff + i * sizeof(sh), &sh, sizeof(sh), "section"))
			return 0;
		if (sh.sh_type != SHT_PROGBITS || !(sh.sh_flags & SHF_EXECINSTR))
			continue;
		if (sh.sh_size > left ||
		    !counters_in(f, sh.sh_offset, sh.sh_size, hash_off, &found))
			return 0;
		left -= sh.sh_size;
	}
	return found;
}

void comm_layout__find(struct elf_file *f, const struct elf_lib *lib, struct ct_comm_layout *place)
{
	static const char *const names[] = {"ncclCommUserRank", "ncclCommCount",
					    "ncclCommCuDevice"};
	uint32_t loads[3][LOADS_MAX], rank;
	unsigned cnt[3];
	uint8_t code[LOOK_SZ];
	char why[8], *err = f->err;
	size_t err_size = f->err_size, len;

	*place = (struct ct_comm_layout){0};
	if (lib->machine != EM_X86_64)
		return;
	/* Errors are not reported: the library is traced anyway. */
	f->err = why;
	f->err_size = sizeof(why);
	for (int i = 0; i < 3; i++) {
		len = read_code(f, lib, names[i], code);
		cnt[i] = code_loads(code, len, loads[i], LOADS_MAX);
	}
	rank = code_common(loads[0], cnt[0], loads[1], cnt[1], loads[2], cnt[2]);
	if (rank) {
		len = read_code(f, lib, "ncclGetVersion", code);
		place->off = rank - sizeof(uint64_t);
		place->version = code_stored(code, len);
		place->counts_off = find_counts(f, place->off);
	}
	f->err = err;
	f->err_size = err_size;
}
