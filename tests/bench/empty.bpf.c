// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The floor: programs that do nothing. */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("uprobe")
int empty_entry(struct pt_regs *ctx)
{
	return 0;
}

SEC("uprobe")
int empty_return(struct pt_regs *ctx)
{
	return 0;
}
