/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fixed-width types for headers shared by the BPF side and the loader. On the BPF side they come
 * from vmlinux.h (vmlinux/), which must be included first. */
#ifndef CT_TYPES_H
#define CT_TYPES_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#endif /* CT_TYPES_H */
