/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "comm_place.h"

#include "elf_file.h"

#include <elf.h>
#include <string.h>

/* The three are of 789 bytes in 2.28.9. */
#define LOOK_SZ	  2048
#define LOADS_MAX 64
/* Of the rank: a communicator begins with pointers and tables. */
#define PLACE_MIN 0x100
#define PLACE_MAX (64u << 20)
/* 2.3 is 2300, 2.30 is 23000. */
#define VERSION_MIN 2000
#define VERSION_MAX 99999

static uint32_t u32_at(const uint8_t *p)
{
	uint32_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

/* Not an instruction at a time: what is read out of step has no partner in the other functions. */
unsigned code_loads(const uint8_t *code, size_t len, uint32_t *disps, unsigned max)
{
	unsigned cnt = 0;

	for (size_t i = 0; i + 6 <= len && cnt < max; i++) {
		/* rm 100: there is a SIB byte */
		size_t at = i + 2 + ((code[i + 1] & 7) == 4);

		/* 8b /r with mod 10: a displacement of 32 bits. REX.W: 64 bits are loaded. */
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

		/* c7 /0 with mod 00, behind a register alone: movl $value, (reg) */
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

/* A function's code, up to where the next exported one begins; 0: there is none. */
static size_t read_code(struct elf_file *f, const struct elf_lib *lib, const char *name,
			uint8_t code[LOOK_SZ])
{
	char why[8], *err = f->err;
	size_t err_size = f->err_size, len;
	uint64_t end = f->size;
	unsigned i = 0;
	int ret;

	while (i < lib->sym_cnt && strcmp(lib->syms[i].name, name))
		i++;
	if (i == lib->sym_cnt)
		return 0;
	if (i + 1 < lib->sym_cnt && lib->syms[i + 1].off - lib->syms[i + 1].shift < end)
		end = lib->syms[i + 1].off - lib->syms[i + 1].shift;
	if (end <= lib->syms[i].off)
		return 0;
	len = end - lib->syms[i].off < LOOK_SZ ? end - lib->syms[i].off : LOOK_SZ;
	/* Not to be read is nothing to be said: the library is traced all the same. */
	f->err = why;
	f->err_size = sizeof(why);
	ret = elf_file_read_at(f, lib->syms[i].off, code, len, name);
	f->err = err;
	f->err_size = err_size;
	return ret ? 0 : len;
}

void comm_place__find(struct elf_file *f, const struct elf_lib *lib, struct ct_comm_place *place)
{
	static const char *const names[] = {"ncclCommUserRank", "ncclCommCount",
					    "ncclCommCuDevice"};
	uint32_t loads[3][LOADS_MAX], rank;
	unsigned cnt[3];
	uint8_t code[LOOK_SZ];
	size_t len;

	*place = (struct ct_comm_place){0};
	if (lib->machine != EM_X86_64)
		return;
	for (int i = 0; i < 3; i++) {
		len = read_code(f, lib, names[i], code);
		cnt[i] = code_loads(code, len, loads[i], LOADS_MAX);
	}
	rank = code_common(loads[0], cnt[0], loads[1], cnt[1], loads[2], cnt[2]);
	if (!rank)
		return;
	len = read_code(f, lib, "ncclGetVersion", code);
	place->off = rank - sizeof(uint64_t);
	place->version = code_stored(code, len);
}
