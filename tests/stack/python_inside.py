# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""python_inside.py LIBCUDA: calls cuMemAlloc from interpreters in one thread: size 1000 from the first, 1001 from a second that the
first runs, 1002 from a third in it, 1003 from the second again, run by the third; 1004 from the first. Prints "none" where
ctypes cannot be used in them."""
import ctypes
import sys

try:
    import _interpreters as inside
except ImportError:
    import _xxsubinterpreters as inside

lib = ctypes.CDLL(sys.argv[1])
ptr = ctypes.c_void_p()


def main(size):
    lib.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(size))


CODE = f"""
import ctypes, sys
try:
    import _interpreters as inside
except ImportError:
    import _xxsubinterpreters as inside
lib = ctypes.CDLL({sys.argv[1]!r})
ptr = ctypes.c_void_p()
def in_NAME(size):
    lib.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(size))
"""


def create():
    try:
        return inside.create(isolated=False)
    except (TypeError, ValueError):
        try:
            return inside.create("legacy")
        except TypeError:
            return inside.create()


def run(interpreter, code):
    failed = inside.run_string(interpreter, code)
    if failed:
        print("none", failed)
        sys.exit()


lib.cuInit(0)
older, second, third = create(), create(), create()
main(1000)
try:
    run(second, CODE.replace("NAME", "second") + "in_second(1001)\n")
except Exception as e:
    print("none", e)
    sys.exit()
run(third, CODE.replace("NAME", "third") + f"in_third(1002)\ninside.run_string({int(older)}, {CODE.replace('NAME', 'older') + 'in_older(1003)'!r})\n")
main(1004)
