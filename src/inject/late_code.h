/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The code that late.c copies into a process. */
#ifndef INJECT_LATE_CODE_H
#define INJECT_LATE_CODE_H

#include "ct_late.h"

#ifdef __x86_64__
/* Its bounds; in it: the entries of the slots, and the data. */
extern const char late_code_begin[] __asm__("__start_late_code")
	__attribute__((visibility("hidden")));
extern const char late_code_end[] __asm__("__stop_late_code") __attribute__((visibility("hidden")));
extern const char late_entries[] __attribute__((visibility("hidden")));
extern const struct late_data late_data __attribute__((visibility("hidden")));
#endif

#endif /* INJECT_LATE_CODE_H */
