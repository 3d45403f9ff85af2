# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""python_calls.py LIBCUDA LOG PART...: calls cuMemAlloc from all sorts of Python code, and writes to LOG, as JSON, for each
call what traceback has of it, innermost first: function, file, line. Waits then until its input is closed. Any CPython from 3.8 on."""
import ctypes
import json
import sys
import threading
import traceback

lib = ctypes.CDLL(sys.argv[1])
ptr = ctypes.c_void_p()
log = []


def note():
    """The line of the caller is the call's: both stand on one."""
    log.append([(f.name, f.filename, f.lineno) for f in reversed(traceback.extract_stack()[:-1])])


def alloc():
    note(); lib.cuMemAlloc_v2(ctypes.byref(ptr), 4096)


class Block:
    def forward(self, depth):
        if depth:
            return self.forward(depth - 1)
        note(); lib.cuMemAlloc_v2(ctypes.byref(ptr), 4096)
        alloc()

        return (lambda: (
            alloc()))()

    @property
    def weight(self):
        return [alloc() for _ in range(2)]

    def __getattr__(self, name):
        return alloc()


def generator():
    for i in range(2):
        alloc()
        yield from inner(i)


def inner(i):
    alloc()
    yield i


async def coroutine(depth):
    if depth:
        return await coroutine(depth - 1)
    alloc()


def nested():
    Block().forward(3)
    _ = Block().weight, Block().missing
    for _ in generator():
        alloc()
    try:
        coroutine(3).send(None)
    except StopIteration:
        pass
    sorted([3, 1, 2], key=lambda x: alloc() or x)
    try:
        1 // 0
    except ZeroDivisionError:
        alloc()
    finally:
        alloc()
    with open(__file__, encoding="utf-8"):
        alloc()


def threads():
    """One at a time: the order is that of the log."""
    for _ in range(3):
        t = threading.Thread(target=lambda: Block().forward(2))
        t.start()
        t.join()
    alloc()


def deep():
    sys.setrecursionlimit(10000)

    def down(n):
        return down(n - 1) if n else alloc()
    down(300)
    alloc()


kept = []
NAMES = ["plain.py", "über.py", "日本.py", "\U0001f600.py", 'quo"te\\.py', "li\nne.py", "a;b+c.py", "x" * 3000 + ".py", "\udcff.py", ""]


def names():
    """Code that is made as it runs, with files and functions of any name, and many lines."""
    for i, name in enumerate(NAMES):
        func = ["f", "ü", "函数", "f" * 900][i % 4]
        space = {"alloc": alloc}
        exec(compile("\n" * (i * 400) + f"def {func}():\n" + "    x = 1\n" * 300 + "    alloc()\n", name, "exec"), space)
        kept.append(space)
        space[func]()


def again():
    """Other code where code was: the old one is freed first."""
    for i in range(20):
        space = {"alloc": alloc}
        exec(compile(f"def f{i % 10}():\n{chr(10) * i}    alloc()\n", f"again{i}.py", "exec"), space)
        space[f"f{i % 10}"]()
        del space


def main():
    for part in sys.argv[3:]:
        globals()[part]()
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        json.dump(log, f)
    sys.stdin.read()


if __name__ == "__main__":
    lib.cuInit(0)
    dev, ctx = ctypes.c_int(), ctypes.c_void_p()
    lib.cuDeviceGet(ctypes.byref(dev), 0)
    lib.cuCtxCreate_v2(ctypes.byref(ctx), 0, dev)
    main()
