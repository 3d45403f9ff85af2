/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* verdict N: ends the virtual machine, through qemu's isa-debug-exit at 0xf4, so that qemu's exit
 * status is 65 + 2 * N, which qemu uses for nothing else. arm64 has no such device: run.sh
 * reads the status from the results there. */
#include <stdlib.h>
#ifdef __x86_64__
#include <sys/io.h>
#endif
#include <sys/reboot.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	sync();
#ifdef __x86_64__
	int n = argc > 1 ? atoi(argv[1]) : 95;

	/* A kernel that is locked down refuses this; init has left the status in the results. */
	if (!ioperm(0xf4, 1, 1))
		outb(0x20 + (n < 0 || n > 95 ? 95 : n), 0xf4);
#endif
	reboot(RB_AUTOBOOT);
	return 1;
}
