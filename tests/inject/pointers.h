/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* EXPORT(name): a function that on x86-64 jumps to real_name through a pointer, like those of
 * drivers 470 to 555 (inject/hook.c). */
#ifndef POINTERS_H
#define POINTERS_H

#include <stdint.h>

#if defined(__x86_64__) && !defined(NO_POINTERS)
__attribute__((visibility("hidden"), used)) uint32_t state;
#define EXPORT(name)                                                                               \
	__asm__(".pushsection .text\n"                                                             \
		".globl " #name "\n.type " #name ", @function\n.p2align 4\n" #name ":\n"           \
		"cmpl $0x321cba00, state(%rip)\nje 1f\njmp *slot_" #name "(%rip)\n"                \
		"1: mov $4, %eax\nret\n.size " #name ", . - " #name "\n.popsection\n"              \
		".pushsection .data.slots, \"aw\", @progbits\n.p2align 3\n"                        \
		"slot_" #name ": .quad real_" #name "\n.popsection\n");
#else
#define EXPORT(name)                                                                               \
	__asm__(".globl " #name "\n.type " #name ", %function\n.set " #name ", real_" #name "\n");
#endif

#endif /* POINTERS_H */
