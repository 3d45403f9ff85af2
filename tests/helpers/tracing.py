# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Whether this machine can trace; as a program it prints why not. Tests the kernel, not cudatrace: a broken cudatrace must
not look like a machine without BPF."""
import ctypes
import functools
import os
import platform


@functools.lru_cache(maxsize=None)
def why_not():
    if os.geteuid():
        return "needs root"
    if not os.path.exists("/sys/bus/event_source/devices/uprobe"):
        return "this kernel has no uprobes"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "this kernel has no BTF"
    # BPF_MAP_CREATE of an array of one element
    libc = ctypes.CDLL(None, use_errno=True)
    attr = (ctypes.c_uint32 * 18)(2, 4, 8, 1)
    fd = libc.syscall({"x86_64": 321, "aarch64": 280}[platform.machine()], 0, attr, ctypes.sizeof(attr))
    if fd < 0:
        return "bpf(): " + os.strerror(ctypes.get_errno())
    os.close(fd)
    return ""


if __name__ == "__main__":
    print(why_not(), end="")
