/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* verdict N: ends the virtual machine, through qemu's isa-debug-exit at 0xf4, so that qemu's exit
 * status is 65 + 2 * N: no status that qemu has for anything else. */
#include <stdlib.h>
#include <sys/io.h>
#include <sys/reboot.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 95;

	sync();
	/* A kernel that is locked down does not let us; init has left the status in the results. */
	if (ioperm(0xf4, 1, 1))
		reboot(RB_AUTOBOOT);
	outb(0x20 + (n < 0 || n > 95 ? 95 : n), 0xf4);
	return 1;
}
