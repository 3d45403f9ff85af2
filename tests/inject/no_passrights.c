/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Runs a program as on a kernel before Linux 6.16, without SO_PASSRIGHTS:
 *
 *   no_passrights PROGRAM ARGUMENTS
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SO_PASSRIGHTS_NR 83
#define LOAD(member)	 BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define IS(value, skip)	 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		LOAD(nr),
		IS(SYS_setsockopt, 5),
		LOAD(args[1]),
		IS(SOL_SOCKET, 3),
		LOAD(args[2]),
		IS(SO_PASSRIGHTS_NR, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	/* Fails without privileges unless no_new_privs is set. */
	if (geteuid())
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (argc < 2 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog)) {
		perror("no_passrights");
		return 1;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 1;
}
