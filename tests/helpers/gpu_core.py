# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A made-up GPU core dump: the tables of the driver's format that src/daemon/gpu_core.c reads, with rows as of driver 575."""
import struct

EM_CUDA, ET_CORE, ET_EXEC = 190, 4, 2
PROGBITS, SYMTAB, STRTAB = 1, 2, 3
RELF_IMG, DEV, GRID, SM, CTA, WARP, LANE = (0x80000000 + n for n in (7, 9, 12, 11, 13, 14, 15))
SHN_LORESERVE = 0xff00


class Elf:
    """Sections in order, each (name, type, bytes, link, info, entry size, address, flags)."""

    def __init__(self, kind):
        self.kind, self.sections = kind, [("", 0, b"", 0, 0, 0, 0, 0)]

    def add(self, name, of, data, link=0, info=0, size=0, address=0, flags=0):
        self.sections.append((name, of, data, link, info, size, address, flags))
        return len(self.sections) - 1

    def bytes(self):
        names = self.add(".shstrtab", STRTAB, b"\0" + b"".join(s[0].encode() + b"\0" for s in self.sections) + b".shstrtab\0")
        body, headers, name_at = b"", b"", 1
        many = len(self.sections) >= SHN_LORESERVE
        for i, (name, of, data, link, info, size, address, flags) in enumerate(self.sections):
            if many and not i:
                headers += struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, len(self.sections), names, 0, 0, 0)
                name_at += 1
                continue
            headers += struct.pack("<IIQQQQIIQQ", name_at if name else 0, of, flags, address, 64 + len(body), len(data), link, info, 8, size)
            name_at += len(name) + 1
            body += data
        ident = b"\x7fELF\2\1\1\x33\7" + bytes(7)
        head = struct.pack("<HHIQQQIHHHHHH", self.kind, EM_CUDA, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 0 if many else len(self.sections),
                           0xffff if many else names)
        return ident + head + body + headers


def image(kernels):
    """A module: kernels by mangled name, each (address, size), in a section of its own."""
    elf, strings, symbols = Elf(ET_EXEC), b"\0", bytes(24)
    for name, (address, size) in kernels.items():
        i = elf.add(".text." + name, PROGBITS, bytes(min(size, 64)), address=address, flags=6)
        symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, i, 0, size)
        strings += name.encode() + b"\0"
    elf.add(".symtab", SYMTAB, symbols, link=len(elf.sections) + 1, info=1, size=24)
    elf.add(".strtab", STRTAB, strings)
    return elf.bytes()


def grid(number, entry, dim=(1, 1, 1), block=(32, 1, 1)):
    return struct.pack("<7Q12I", number, 1, 2, entry, 3, 0, 0, 0, 0, 1, 32, *dim, *block, 0, 0)


def lane(number, pc, exception=0):
    return struct.pack("<2Q8I", pc, pc, number, number, 0, 0, exception, 0, 0, 0)


def core(grids, warps, kernels):
    """grids: rows; warps: (grid, SM, lanes), each lane a program counter or (program counter, exception)."""
    elf = Elf(ET_CORE)
    device = elf.add(".cudbg.devtbl", DEV, bytes(88), size=88)
    elf.add(".cudbg.gridtbl.dev0", GRID, b"".join(grids), link=device, size=104)
    for i, (of, sm, pcs) in enumerate(warps):
        at = elf.add(f".cudbg.smtbl.dev0.{i}", SM, struct.pack("<II", sm, 0), link=device, size=8)
        # A warp of another block first: the row counts.
        blocks = struct.pack("<Q4I", 999, 0, 0, 0, 0) + struct.pack("<Q4I", of, i, 0, 0, 0)
        cta = elf.add(f".cudbg.ctatbl.{i}", CTA, blocks, link=at, size=24)
        warp = elf.add(f".cudbg.wptbl.{i}", WARP, struct.pack("<Q6I", 0, i, 2**len(pcs) - 1, 0, 0, 0, 0), link=cta, info=1, size=32)
        pcs = [pc if isinstance(pc, tuple) else (pc, 0) for pc in pcs]
        elf.add(f".cudbg.lntbl.{i}", LANE, b"".join(lane(k, *pc) for k, pc in enumerate(pcs)), link=warp, size=48)
    elf.add(".cudbg.relfimg.dev0", RELF_IMG, image(kernels))
    return elf.bytes()


KERNELS = {"_Z5spinsPVi": (0x7f0000001000, 0x200), "_Z5quickPi": (0x7f0000002000, 0x80)}


def sample():
    """spins is resident with three warps, of which one has two program counters and an exception; quick waits."""
    spin = 0x7f0000001040
    return core([grid(7, 0x7f0000001000, (3, 1, 1)), grid(8, 0x7f0000002000)],
                [(7, 0, [spin] * 32), (7, 1, [spin] * 32), (7, 2, [spin] * 16 + [(spin + 0x10, 14)] * 8)], KERNELS)
