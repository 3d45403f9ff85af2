# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Writes libraries that are slow to read: slow_elf.py KIND OUT. They are small on disk (sparse).

sections  a libnccl whose 256 section headers name the same 64 MiB of code
names     262,000 symbols, whose names are one string of 16 MiB without an end
symbols   262,000 exported functions, each on a page of its own
chain     a symbol hash table whose one chain has 262,000 links
torch     a libtorch_cpu whose jump table is a terabyte large
"""
import platform
import struct
import sys

MACHINE = {"x86_64": 62, "aarch64": 183}[platform.machine()]
LOAD, DYNAMIC = 1, 2
STRTAB, SYMTAB, HASH, STRSZ, PLTRELSZ, JMPREL, GNU_HASH = 5, 6, 4, 10, 2, 23, 0x6FFFFEF5
CODE = 0x10000
TABLES = 0x20000  # after the code


def pad(data, to):
    return data + bytes(to - len(data))


def image(names, values, code=b"", hash_table=None, dynamic=(), size=0, shdrs=b"", shnum=0, load_sz=0):
    """names: the string table, (offset of the name, address) of each symbol in values."""
    syms = bytes(24) + b"".join(struct.pack("<IBBHQQ", n, 0x12, 0, 1, v, 64) for n, v in values)
    cnt = len(values) + 1
    tables = [("str", names), ("sym", syms), ("hash", hash_table or struct.pack("<III", 1, cnt, 0)), ("sh", shdrs)]
    at, places, body = TABLES, {}, b""
    for name, data in tables:
        places[name] = at + len(body)
        body += pad(data, (len(data) + 15) & ~15)
    dyn = [(STRTAB, places["str"]), (STRSZ, len(names)), (SYMTAB, places["sym"]),
           (GNU_HASH if hash_table else HASH, places["hash"]), *dynamic, (0, 0)]
    dyn = b"".join(struct.pack("<QQ", *d) for d in dyn)
    end = TABLES + len(body)
    load_sz = load_sz or max(end, size)
    phdrs = struct.pack("<IIQQQQQQ", LOAD, 5, 0, 0, 0, load_sz, load_sz, 4096)
    phdrs += struct.pack("<IIQQQQQQ", DYNAMIC, 4, 0x1000, 0x1000, 0x1000, len(dyn), len(dyn), 8)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, MACHINE, 1, 0, 64, places["sh"] if shnum else 0, 0, 64, 56, 2, 64, shnum, 0)
    return pad(pad(pad(head + phdrs, 0x1000) + dyn, CODE) + code, TABLES) + body, max(end, size, load_sz)


def load(disp):
    """mov disp(%rdi), %eax; ret"""
    return pad(b"\x8b\x87" + struct.pack("<I", disp) + b"\xc3", 64)


def sections():
    names = b"\0ncclCommUserRank\0ncclCommCount\0ncclCommCuDevice\0ncclGetVersion\0ncclAllReduce\0"
    values = [(names.index(n), CODE + 64 * i) for i, n in enumerate(
        (b"ncclCommUserRank", b"ncclCommCount", b"ncclCommCuDevice", b"ncclGetVersion", b"ncclAllReduce"))]
    code = load(0x1234) + load(0x1238) + load(0x123C) + load(0x2000) + load(0x2000)
    one = struct.pack("<IIQQQQIIQQ", 0, 1, 4, 0, 1 << 20, 64 << 20, 0, 0, 1, 0)
    return image(names, values, code, shdrs=256 * one, shnum=256, size=65 << 20)


def names():
    text = b"\0cuInit\0" + b"A" * (16000000) + b"\0"
    return image(text, [(1, CODE)] + [(9 + i, CODE) for i in range(262000)], load(0x100))


def symbols():
    cnt = 262000
    text, values = bytearray(b"\0"), []
    for i in range(cnt):
        values.append((len(text), (1 << 20) * 64 + 4096 * i))
        text += b"cuSlow%d\0" % i
    return image(bytes(text), values, load(0x100), size=(64 << 20) + 4096 * (cnt + 1))


def chain():
    cnt = 262000
    table = struct.pack("<IIII", 1, 1, 1, 0) + bytes(8) + struct.pack("<I", 1) + bytes(4 * (cnt - 1)) + struct.pack("<I", 1)
    return image(b"\0cuInit\0", [(1, CODE)] * cnt, load(0x100), hash_table=table)


def torch():
    text = b"\0_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE\0"
    size = 1 << 40
    return image(text, [(1, CODE)], load(0x100), size=size,
                 dynamic=[(PLTRELSZ, (size - (1 << 24)) // 24 * 24), (JMPREL, 1 << 23)])


data, length = globals()[sys.argv[1]]()
with open(sys.argv[2], "wb") as f:
    f.write(data)
    f.truncate(length)
