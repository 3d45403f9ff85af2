# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""probed.py PID LIBRARY: compares the library's code in a process with the file. Prints how many bytes differ, and at
which offsets from the start of an exported function, as in "676 at 0x0", or "none"."""
import collections
import struct
import sys


def starts_of(data):
    """File offsets of exported functions."""
    phoff, = struct.unpack_from("<Q", data, 32)
    size, num = struct.unpack_from("<HH", data, 54)
    for i in range(num):
        kind, flags, off, vaddr = struct.unpack_from("<IIQQ", data, phoff + i * size)
        if kind == 1 and flags & 1:
            shift = off - vaddr
    starts = set()
    shoff, = struct.unpack_from("<Q", data, 40)
    size, num = struct.unpack_from("<HH", data, 58)
    for i in range(num):
        kind, _, _, off, length = struct.unpack_from("<IQQQQ", data, shoff + i * size + 4)
        if kind == 11:
            for at in range(off, off + length, 24):
                _, info, _, shndx, value = struct.unpack_from("<IBBHQ", data, at)
                if info & 15 == 2 and shndx:
                    starts.add(value + shift)
    return starts


def probed(pid, path):
    path, mapped = str(path), False
    with open(path, "rb") as f:
        data = f.read()
    starts = None
    changed = collections.Counter()
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        maps = f.readlines()
    for line in maps:
        span, perms, off, _, _, *name = line.split()
        if not name or name[0] != path or "x" not in perms:
            continue
        mapped = True
        lo, hi = (int(x, 16) for x in span.split("-"))
        with open(f"/proc/{pid}/mem", "rb") as f:
            f.seek(lo)
            mem = f.read(hi - lo)
        off = int(off, 16)
        code = data[off:off + len(mem)]
        if mem[:len(code)] == code:
            continue
        starts = starts or starts_of(data)
        for i, (a, b) in enumerate(zip(mem, code)):
            if a != b:
                at = off + i
                near = [d for d in range(16) if at - d in starts]
                changed[f"{near[0]:#x}" if near and a == 0xcc else f"elsewhere: {a:#x}"] += 1
    assert mapped, f"process {pid} has no code of {path}"
    return ", ".join(f"{n} at {k}" for k, n in sorted(changed.items())) or "none"


if __name__ == "__main__":
    print(probed(*sys.argv[1:]))
