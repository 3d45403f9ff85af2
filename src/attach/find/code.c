/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "code.h"
#include "elf.h"

#include <elf.h>
#include <string.h>

#define STARTS(code, len, at, bytes)                                                               \
	((len) >= (at) + sizeof(bytes) - 1 && !memcmp((code) + (at), bytes, sizeof(bytes) - 1))

/* je or jne, short or near: the kernel emulates all four (since 3.16). */
static bool is_equality_jump(const uint8_t *code, size_t len, size_t at)
{
	return STARTS(code, len, at, "\x74") || STARTS(code, len, at, "\x75") ||
	       STARTS(code, len, at, "\x0f\x84") || STARTS(code, len, at, "\x0f\x85");
}

/* push of any 64-bit register, or nop; the kernel emulates these too. */
static bool is_push_or_nop(const uint8_t *code, size_t len, size_t at)
{
	if (STARTS(code, len, at, "\x41")) /* REX.B: r8 to r15 */
		return len > at + 1 && (code[at + 1] & 0xf8) == 0x50;
	return len > at && ((code[at] & 0xf8) == 0x50 || code[at] == 0x90);
}

/*
 * THPVariable_Wrap() of PyTorch 2.11 begins with
 *
 *	48 8b 74 24 e8		mov -0x18(%rsp),%rsi
 *	31 d2			xor %edx,%edx
 *	e9 <rel32>		jmp ...
 *
 * and nothing jumps to the jmp (checked in that version). An empty program costs 7 us per call at
 * the mov, which 6.18 single-steps, and 1.6 us at the jmp. At the jmp, the second and third
 * arguments are gone; but a function that loads from below its stack has no such arguments.
 */
static bool is_wrap(const uint8_t *code, size_t len)
{
	return STARTS(code, len, 0, "\x48\x8b\x74\x24\xe8\x31\xd2\xe9");
}

/*
 * Drivers 470 to 555 begin with
 *
 *	81 3d <rel32> 00 ba 1c 32	cmpl $0x321cba00, x(%rip)
 *	74 <rel8>			je ...
 *
 * in all functions but three (cuEGLApiInit and two that return a constant). Nothing jumps to the je
 * (looked for in 550.163.01), so that a probe there is hit once for each call, too.
 *
 * endbr64 comes from compilers with -fcf-protection; kernel 6.18 single-steps it: 3.9 us per call,
 * and 0.55 us on the push after it.
 */
unsigned elf_probe_shift(const uint8_t *code, size_t len)
{
	size_t at = STARTS(code, len, 0, "\xf3\x0f\x1e\xfa") ? 4 : 0;

	if (STARTS(code, len, at, "\x81\x3d") && STARTS(code, len, at + 6, "\x00\xba\x1c\x32") &&
	    is_equality_jump(code, len, at + 10))
		return (unsigned)at + 10;
	if (is_wrap(code, len))
		return 7;
	return is_push_or_nop(code, len, at) ? (unsigned)at : 0;
}

/* Prefixes that may stand before an opcode, in any order. */
static bool is_legacy_prefix(uint8_t byte)
{
	static const uint8_t known[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65,
					0x66, 0x67, 0xf0, 0xf2, 0xf3};

	return memchr(known, byte, sizeof(known)) != NULL;
}

/*
 * A lock prefix, alone or among others. Tested with perf events on 6.1, 6.12, 6.18 and 7.3: all
 * return ENOTSUPP. They refuse more, see code_is_suspect(), but not permanently: 7.3 accepts
 * "cs nopw", which 6.18 refuses. A wrong match here would lose the function's
 * calls; a missing match would not, because the kernel refuses the probe.
 */
bool code_is_refused(const uint8_t *code, size_t len)
{
	/* The kernel's decoder keeps four prefixes (struct insn). */
	for (size_t i = 0; i < len && i < 4 && is_legacy_prefix(code[i]); i++) {
		if (code[i] == 0xf0)
			return true;
	}
	return false;
}

/*
 * The prefixes es, cs, ss and ds; VEX and EVEX (refused depending on their second byte, taken as an
 * opcode); instructions that trap or need privileges. A wrong match costs one more link.
 */
bool code_is_suspect(const uint8_t *code, size_t len)
{
	static const uint8_t opcodes[] = {0x62, 0x6c, 0x6d, 0x6e, 0x6f, 0xc4, 0xc5, 0xcc,
					  0xcd, 0xcf, 0xe4, 0xe5, 0xe6, 0xe7, 0xec, 0xed,
					  0xee, 0xef, 0xf1, 0xf4, 0xfa, 0xfb};
	size_t i = 0;

	for (; i < len && is_legacy_prefix(code[i]); i++)
		if (memchr("\x26\x2e\x36\x3e", code[i], 4))
			return true;
	return i < len && memchr(opcodes, code[i], sizeof(opcodes));
}

/* Every known kernel version emulates jumps, calls, and what is_push_or_nop() accepts. */
static bool x86_is_stepped(const uint8_t *code, size_t len)
{
	if (!len)
		return true;
	if (is_push_or_nop(code, len, 0) || STARTS(code, len, 0, "\x66\x90"))
		return false;
	if (len > 1 && code[0] == 0x0f)
		return (code[1] & 0xf0) != 0x80;
	return (code[0] & 0xf0) != 0x70 && !memchr("\xe8\xe9\xeb", code[0], 3);
}

/* On arm64 it emulates branches, loads relative to the program counter, and (since 6.13) nop. */
static bool arm64_is_stepped(const uint8_t *code, size_t len)
{
	uint32_t insn;

	if (len < sizeof(insn))
		return true;
	memcpy(&insn, code, sizeof(insn));
	return insn != 0xd503201f && (insn & 0x7c000000) != 0x14000000 &&
	       (insn & 0xfe000000) != 0x54000000 && (insn & 0x7c000000) != 0x34000000 &&
	       (insn & 0x1f000000) != 0x10000000 && (insn & 0x3b000000) != 0x18000000 &&
	       (insn & 0xfe000000) != 0xd6000000;
}

bool code_is_stepped(const uint8_t *code, size_t len, uint16_t machine)
{
	return machine == EM_AARCH64 ? arm64_is_stepped(code, len) : x86_is_stepped(code, len);
}

/* Matches [endbr64] [push %rbp; mov %rsp,%rbp] mov $value,%eax [pop %rbp | leave] ret; else returns
 * 0. */
static uint32_t x86_const(const uint8_t *code, size_t len)
{
	uint32_t value;
	size_t at = 0;

	if (STARTS(code, len, at, "\xf3\x0f\x1e\xfa"))
		at += 4;
	if (STARTS(code, len, at, "\x55\x48\x89\xe5"))
		at += 4;
	if (!STARTS(code, len, at, "\xb8") || len < at + 5)
		return 0;
	memcpy(&value, code + at + 1, sizeof(value));
	at += 5;
	if (STARTS(code, len, at, "\x5d") || STARTS(code, len, at, "\xc9"))
		at++;
	return STARTS(code, len, at, "\xc3") ? value : 0;
}

/* Matches [bti c] mov w0, #value; ret. */
static uint32_t arm64_const(const uint8_t *code, size_t len)
{
	size_t at = STARTS(code, len, 0, "\x5f\x24\x03\xd5") ? 4 : 0;
	uint32_t insn[2];

	if (len < at + sizeof(insn))
		return 0;
	memcpy(insn, code + at, sizeof(insn));
	if ((insn[0] & 0xffe0001f) != 0x52800000 || insn[1] != 0xd65f03c0)
		return 0;
	return insn[0] >> 5 & 0xffff;
}

void code_stats__add(struct code_stats *s, const char *name, const uint8_t *code, size_t len,
		     uint16_t machine)
{
	uint32_t value = machine == EM_AARCH64 ? arm64_const(code, len) : x86_const(code, len);

	s->func_cnt++;
	if (!s->first_value)
		s->first_value = value;
	if (value && value == s->first_value)
		s->const_cnt++;
	if (!strcmp(name, "cuInit"))
		s->init_value = value;
}

/*
 * The CUDA toolkit's link-time stub has every function of the API, and each returns the same error:
 * 34 (CUDA_ERROR_STUB_LIBRARY) in CUDA 13.0, other numbers before 11. The test: cuInit and 90 % of
 * all functions only return the same number, not 0. A test's mock driver returns 0 or does
 * something; a real driver does something. The path (".../stubs/..."), size and DT_SONAME
 * (libcuda.so.1 in both) are less reliable.
 */
bool code_stats__is_stub(const struct code_stats *s)
{
	return s->init_value && s->init_value == s->first_value &&
	       s->const_cnt >= s->func_cnt - s->func_cnt / 10;
}
