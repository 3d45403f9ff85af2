# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""python_hostile.py LIBCUDA: a program that has spoilt what its interpreter keeps, call by call; CPython 3.12 and 3.13."""
import contextlib
import ctypes
import os
import sys

lib = ctypes.CDLL(sys.argv[1])
ptr = ctypes.c_void_p()
FRAME, BACK, CODE, IP = 24, 8, 0, 56  # f_frame of a frame object; of its frame
FILE, QUALNAME, TABLE = 112, 128, 136


def word(addr):
    return ctypes.c_uint64.from_address(addr)


@contextlib.contextmanager
def spoilt(addr, value):
    was = word(addr).value
    word(addr).value = value
    yield
    word(addr).value = was


def string(length, state):
    """What a str begins with."""
    return ctypes.create_string_buffer(b"\xff" * 16 + length.to_bytes(8, "little") + bytes(8) + state.to_bytes(4, "little") + bytes(300))


def call():
    lib.cuMemAlloc_v2(ctypes.byref(ptr), 4096)


kept = []


def spoil_code(what, value):
    """A function of its own, of which nothing is known when it calls. It stays as it is: it is looked at later."""
    space = {"call": call}
    exec(f"def f{len(kept)}():\n    call()\n", space)
    kept.append(space)
    f = space[f"f{len(kept) - 1}"]
    word(id(f.__code__) + what).value = value
    f()


def main():
    call()
    frame = word(id(sys._getframe()) + FRAME).value
    for back in (frame, 1, 0xffffffffffffffff, 1 << 63, frame + 1):
        with spoilt(frame + BACK, back):
            call()
    for value in (0, 7, 1 << 47, (1 << 64) - 8):
        with spoilt(frame + IP, value):
            call()
        spoil_code(FILE, value)
        spoil_code(TABLE, value)
    for s in (string(1 << 62, 0b1100100), string(5000, 0b1100100), string(1 << 20, 0b0110000), string(4, 0), string(4, 0b1111111)):
        kept.append(s)
        spoil_code(QUALNAME, ctypes.addressof(s))
        spoil_code(TABLE, ctypes.addressof(s))
    sys.stdin.read()
    os._exit(0)


lib.cuInit(0)
main()
