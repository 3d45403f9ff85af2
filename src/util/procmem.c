/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "procmem.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define PAGE 4096

int procmem_read(pid_t pid, uint64_t addr, void *buf, size_t size)
{
	struct iovec local = {buf, size}, remote = {(void *)(uintptr_t)addr, size};
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EFAULT;
}

int procmem_read_str(pid_t pid, uint64_t addr, char *buf, size_t size)
{
	size_t len = 0;

	while (len < size - 1) {
		/* Never across a page: the next one may not be there. */
		size_t n = PAGE - (addr + len) % PAGE;
		char *nul;
		int ret;

		if (n > size - 1 - len)
			n = size - 1 - len;
		ret = procmem_read(pid, addr + len, buf + len, n);
		if (ret)
			return ret;
		nul = memchr(buf + len, 0, n);
		if (nul)
			return nul - buf;
		len += n;
	}
	buf[len] = 0;
	return -ENAMETOOLONG;
}
