# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""unmount_in.py PID: unmounts the library and the root of a process."""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(f"/proc/{sys.argv[1]}/ns/mnt", os.O_RDONLY)
if libc.setns(fd, 0x20000) or libc.umount2(b"/lib/libcuda.so.1", 2) or libc.umount2(b"/", 2):
    sys.exit(os.strerror(ctypes.get_errno()))
