# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""refuses.py CALL[,CALL...] ERRNO COMMAND...: runs a command for which the kernel refuses these system calls, like a container's
seccomp profile."""
import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {"x86_64": {"bpf": 321, "perf_event_open": 298}, "aarch64": {"bpf": 280, "perf_event_open": 241}}[platform.machine()]
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
ALLOW, REFUSE = 0x7fff0000, 0x00050000  # SECCOMP_RET_ALLOW, _ERRNO

calls, number = [NUMBERS[c] for c in sys.argv[1].split(",")], getattr(errno, sys.argv[2])
code = [(LOAD, 0, 0, 0)]
code += [(EQUAL, len(calls) - i, 0, n) for i, n in enumerate(calls)]
code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE | number)]
text = b"".join(struct.pack("=HBBI", *c) for c in code)
program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(keep := ctypes.create_string_buffer(text)))
assert not ctypes.CDLL(None).prctl(22, 2, program)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
os.execvp(sys.argv[3], sys.argv[3:])
