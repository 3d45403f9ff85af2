# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""elf_dynamic.py LIBRARY TAG: prints the file offset of the value of that dynamic entry."""
import struct, sys
d = open(sys.argv[1], "rb").read()
phoff, = struct.unpack_from("<Q", d, 32)
size, num = struct.unpack_from("<HH", d, 54)
for i in range(num):
    kind, _, off, _, _, length = struct.unpack_from("<IIQQQQ", d, phoff + i * size)
    if kind == 2:
        for at in range(off, off + length, 16):
            if struct.unpack_from("<Q", d, at)[0] == int(sys.argv[2], 0):
                print(at + 8)
