/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parts of a sandbox: shared by the tracer's (sandbox.c) and its helpers' (sandbox_helpers.c).
 * Functions of seccomp filters return 0 or -errno. */
#ifndef UTIL_SANDBOX_PRIV_H
#define UTIL_SANDBOX_PRIV_H

#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* For headers older than Linux 5.8 and 5.9. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* Flags of open() by which a file could be changed. */
#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

/* Keeps only these of the present capabilities. Returns false if that fails. */
bool sandbox_drop_caps(const bool keep[64]);
/* Creates a filter that allows these system calls. */
int sandbox_begin(scmp_filter_ctx *ctx, const char *const *calls, size_t cnt);
int sandbox_allow(scmp_filter_ctx ctx, const char *call);
int sandbox_allow_calls(scmp_filter_ctx ctx, const char *const *calls, size_t cnt);
/* Allows system call nr when that argument has this value under the mask. */
int sandbox_allow_if(scmp_filter_ctx ctx, int nr, unsigned arg, uint32_t mask, uint32_t value);
/* Installs the filter if ret is 0, and frees it. Returns ret, or the error of the installation. */
int sandbox_load(scmp_filter_ctx ctx, int ret);

#endif /* UTIL_SANDBOX_PRIV_H */
