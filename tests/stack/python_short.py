# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""python_short.py LIBCUDA PART: calls cuMemAlloc with sizes from 1000 on, each from code of its own, and ends at once. What the
code of size N is called follows from N: see names() of tests/e2e/test_python_names.py. Any CPython from 3.8 on."""
import ctypes
import marshal
import os
import signal
import sys
import types

lib = ctypes.CDLL(sys.argv[1])
ptr = ctypes.c_void_p()
COUNT, FIRST = 500, 1000


def call(size):
    lib.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(size))


def source(n):
    """A function whose call stands on line 2 + n % 7 of its file."""
    return f"def f{n}():\n" + "\n" * (n % 7) + f"    call({n})\n"


def made(n):
    space = {"call": call}
    exec(compile(source(n), f"gen{n}.py", "exec"), space)
    return space[f"f{n}"]


def many():
    """Each is called once, and lives; then nothing is left to be read."""
    functions = [made(n) for n in range(FIRST, FIRST + COUNT)]
    for f in functions:
        f()


def by_exec():
    for n in range(FIRST, FIRST + COUNT):
        made(n)()


def by_replace():
    """One code object after the other in the same place, all of whose fields lie where the last one's did."""
    f = made(FIRST)
    codes = [made(FIRST + i).__code__ for i in range(7)]
    for n in range(FIRST, FIRST + COUNT):
        f.__code__ = codes[(n - FIRST) % 7].replace(co_name=f"f{n}", co_filename=f"gen{n}.py", co_consts=(None, n), **qualname(n))
        f()


def qualname(n):
    return {"co_qualname": f"f{n}"} if sys.version_info >= (3, 11) else {}


def by_marshal():
    blobs = [marshal.dumps(made(n).__code__) for n in range(FIRST, FIRST + COUNT)]
    for blob in blobs:
        types.FunctionType(marshal.loads(blob), {"call": call})()


def fork():
    """A child has its parent's code, and ends as soon."""
    functions = [made(n) for n in range(FIRST, FIRST + COUNT)]
    child = os.fork()
    for f in functions[:COUNT // 2] if child else functions[COUNT // 2:]:
        f()
    if child:
        os.waitpid(child, 0)


lib.cuInit(0)
globals()[sys.argv[2]]()
if sys.argv[3:] == ["kill"]:
    os.kill(os.getpid(), signal.SIGKILL)
os._exit(0)
