#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Extracts a kernel's type information (BTF) from its vmlinuz: vmlinux.py VMLINUZ OUT

OUT becomes an ELF file with only the section .BTF, because kbuild and pahole need no other part of the vmlinux, which not all Debian headers have.
"""
import lzma, struct, subprocess, sys, tempfile, zlib

data = open(sys.argv[1], "rb").read()
if data[0x202:0x206] != b"HdrS":
    sys.exit(f"{sys.argv[1]}: no bzImage")
setup = (data[0x1f1] or 4) + 1
off, length = struct.unpack_from("<II", data, 0x248)
packed = data[setup * 512 + off:][:length]
if packed.startswith(b"\xfd7zXZ"):
    image = lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(packed)
elif packed.startswith(b"\x1f\x8b"):
    image = zlib.decompressobj(31).decompress(packed)
else:
    # The size of the image follows the packed one.
    tool = {b"\x28\xb5": "zstd", b"\x02\x21": "lz4"}.get(packed[:2])
    if not tool:
        sys.exit(f"{sys.argv[1]}: compressed in a way not known here: {packed[:6].hex()}")
    image = subprocess.run([tool, "-dc"], input=packed[:-4], stdout=subprocess.PIPE, check=True).stdout
with tempfile.NamedTemporaryFile() as f:
    f.write(image)
    f.flush()
    subprocess.run(["objcopy", "--only-section=.BTF", f.name, sys.argv[2]], check=True,
                   stderr=subprocess.DEVNULL)
