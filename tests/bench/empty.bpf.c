/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The cost of the kernel's own part of a probe: programs that do nothing. */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* For a session: 0 at the entry requests the return, too. */
SEC("?uprobe")
int empty_session(void *ctx)
{
	return 0;
}

/* For a session: 1 skips the return. */
SEC("?uprobe")
int empty_session_entry(void *ctx)
{
	return 1;
}

SEC("?uprobe")
int empty_entry(void *ctx)
{
	return 0;
}

SEC("?uprobe")
int empty_return(void *ctx)
{
	return 0;
}
