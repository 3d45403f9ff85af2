/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions that have a probe, too (--probe=inject as root, NCCL's functions): a call that the
 * library has recorded goes on behind the probe, which then costs no trap, and does not record it
 * again. So no call is seen twice or by nobody, whichever pointer it is made through.
 *
 * The probe is on the first instruction, or behind an endbr64 (attach/find/elf.h). Where that keeps
 * a register of the caller's, as most functions begin, thunk.S has the same one for us.
 */
#include "inject.h"

#ifdef __x86_64__
#include <fcntl.h>
#include <string.h>

/* As a probe has it. */
#define BREAKPOINT 0xcc
/* So many bytes of a function are compared with those of its file. */
#define CODE_SZ 16

static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
/* As in thunk.S: the code of each kind is there BYPASS_MAX times. */
static const struct {
	uint8_t code[2], len;
} kinds[] = {
	{{0x53}, 1}, /* push %rbx, %rbp, %r12 to %r15 */
	{{0x55}, 1},	   {{0x41, 0x54}, 2}, {{0x41, 0x55}, 2}, {{0x41, 0x56}, 2},
	{{0x41, 0x57}, 2}, {{0}, 0}, /* behind an endbr64: nothing is to be done instead */
};
#define KIND_CNT (sizeof(kinds) / sizeof(*kinds))

extern const uint8_t inject_skips[KIND_CNT][BYPASS_MAX][BYPASS_SZ];
/* Where each goes on. */
extern uint64_t inject_skip_to[BYPASS_MAX];
static unsigned cnt;

static unsigned endbr_len(const uint8_t code[CODE_SZ])
{
	return memcmp(code, endbr64, sizeof(endbr64)) ? 0 : sizeof(endbr64);
}

/* Is it there, but for a probe? */
static bool is_code(const uint8_t *entry, const uint8_t code[CODE_SZ])
{
	for (unsigned i = 0; i < CODE_SZ; i++)
		if (entry[i] != code[i] && (entry[i] != BREAKPOINT || (i && i != endbr_len(code))))
			return false;
	return true;
}

/* The function's first bytes as its file has them. False: memory has something else. */
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
/* Functions begin in more ways there: their probes see all calls. */
void *bypass_new(const struct object *o, const void *entry)
{
	return NULL;
}
#endif
