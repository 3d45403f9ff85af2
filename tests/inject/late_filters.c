/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Filters of system calls for late.c. */
#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* What a container without additional capabilities may not call. */
static const char *const forbidden[] = {
	"acct",
	"add_key",
	"bpf",
	"clock_settime",
	"clone",
	"clone3",
	"create_module",
	"delete_module",
	"fanotify_init",
	"finit_module",
	"fsconfig",
	"fsmount",
	"fsopen",
	"fspick",
	"get_kernel_syms",
	"get_mempolicy",
	"init_module",
	"io_uring_enter",
	"io_uring_register",
	"io_uring_setup",
	"ioperm",
	"iopl",
	"kcmp",
	"kexec_file_load",
	"kexec_load",
	"keyctl",
	"lookup_dcookie",
	"mbind",
	"migrate_pages",
	"mount",
	"mount_setattr",
	"move_mount",
	"move_pages",
	"nfsservctl",
	"open_by_handle_at",
	"open_tree",
	"perf_event_open",
	"personality",
	"pidfd_getfd",
	"pivot_root",
	"process_madvise",
	"query_module",
	"quotactl",
	"quotactl_fd",
	"reboot",
	"request_key",
	"set_mempolicy",
	"setdomainname",
	"sethostname",
	"setns",
	"settimeofday",
	"socket",
	"swapoff",
	"swapon",
	"sysfs",
	"syslog",
	"umount2",
	"unshare",
	"uselib",
	"userfaultfd",
	"ustat",
	"vhangup",
};

static int is_forbidden(const char *name)
{
	for (unsigned i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
		if (!strcmp(forbidden[i], name))
			return 1;
	return 0;
}

/* As Docker's default profile, and of the same structure: libseccomp, three architectures,
 * conditions on arguments. */
int docker_filter(void);
int docker_filter(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int ret = !ctx || seccomp_arch_add(ctx, SCMP_ARCH_X86) ||
		  seccomp_arch_add(ctx, SCMP_ARCH_X32);

	for (int nr = 0; nr < 440 && !ret; nr++) {
		char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, nr);

		if (name && !is_forbidden(name))
			ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW,
					       seccomp_syscall_resolve_name(name), 0);
		free(name);
	}
	ret = ret
		      ?: seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
					  SCMP_A0(SCMP_CMP_NE, AF_VSOCK));
	ret = ret
		      ?: seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
					  SCMP_A0(SCMP_CMP_MASKED_EQ, 0x7e020000, 0));
	ret = ret ?: seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	ret = ret ?: seccomp_load(ctx);
	seccomp_release(ctx);
	return ret;
}

/* Kills the process at any other call than these. */
int only_filter(char **names);
int only_filter(char **names)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int ret = !ctx;

	for (; *names && !ret; names++)
		ret = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(*names),
				       0);
	ret = ret ?: seccomp_load(ctx);
	seccomp_release(ctx);
	return ret;
}
