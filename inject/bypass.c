/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions that also have a probe (--probe=inject as root, and NCCL's functions). A call that the
 * library has recorded enters the function after its probe, so it costs no trap and is not
 * recorded again. Whichever pointer a call uses, it is recorded exactly once.
 *
 * The probe is on the first instruction, or after an endbr64 (attach/find/elf.h). Most functions
 * begin by saving a register of the caller; thunk.S then executes the same instruction.
 */
#include "inject.h"

#ifdef __x86_64__
#include <fcntl.h>
#include <string.h>

/* The instruction that a probe inserts. */
#define BREAKPOINT 0xcc
/* Bytes of a function that are compared with its file. */
#define CODE_SZ 16

static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
/* The order of thunk.S, which has the code of each kind BYPASS_MAX times. */
static const struct {
	uint8_t code[2], len;
} kinds[] = {
	{{0x53}, 1}, /* push %rbx, %rbp, %r12 to %r15 */
	{{0x55}, 1},	   {{0x41, 0x54}, 2}, {{0x41, 0x55}, 2}, {{0x41, 0x56}, 2},
	{{0x41, 0x57}, 2}, {{0}, 0}, /* after an endbr64: no instruction to replace */
};
#define KIND_CNT (sizeof(kinds) / sizeof(*kinds))

extern const uint8_t inject_skips[KIND_CNT][BYPASS_MAX][BYPASS_SZ];
/* Addresses that the skips jump to. */
extern uint64_t inject_skip_to[BYPASS_MAX];
static unsigned cnt;

static unsigned endbr_len(const uint8_t code[CODE_SZ])
{
	return memcmp(code, endbr64, sizeof(endbr64)) ? 0 : sizeof(endbr64);
}

/* Returns whether memory has this code, except for a probe. */
static bool is_code(const uint8_t *entry, const uint8_t code[CODE_SZ])
{
	for (unsigned i = 0; i < CODE_SZ; i++)
		if (entry[i] != code[i] && (entry[i] != BREAKPOINT || (i && i != endbr_len(code))))
			return false;
	return true;
}

/* Reads the function's first bytes from its file. Returns false if memory has other code. */
static bool code_of(const struct object *o, const uint8_t *entry, uint8_t code[CODE_SZ])
{
	uintptr_t at = (uintptr_t)entry;
	int fd = sys(SYS_openat, AT_FDCWD, o->path, O_RDONLY | O_CLOEXEC);
	long got = -1;

	for (unsigned i = 0; fd >= 0 && i < o->part_cnt; i++)
		if (at >= o->parts[i].lo && at + CODE_SZ <= o->parts[i].hi)
			got = sys(SYS_pread64, fd, code, CODE_SZ,
				  o->parts[i].off + at - o->parts[i].lo);
	if (fd >= 0)
		sys(SYS_close, fd);
	return got == CODE_SZ && is_code(entry, code);
}

void *bypass_new(const struct object *o, const void *entry)
{
	uint8_t code[CODE_SZ];
	unsigned begins;

	if (cnt == BYPASS_MAX || !code_of(o, entry, code))
		return NULL;
	begins = endbr_len(code);
	for (unsigned k = 0; k < KIND_CNT; k++) {
		if (memcmp(code + begins, kinds[k].code, kinds[k].len) || !(begins + kinds[k].len))
			continue;
		inject_skip_to[cnt] = (uint64_t)(uintptr_t)entry + begins + kinds[k].len;
		return (void *)inject_skips[k][cnt++];
	}
	return NULL;
}
#else
/* arm64 has more kinds of first instructions: probes record all calls. */
void *bypass_new(const struct object *o, const void *entry)
{
	return NULL;
}
#endif
