#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which marks (marks.h) are in these files?

    find.py texts|all|never FILE...    their names, one a line, with the file and how it is written there

Numbers are looked for in decimal, hexadecimal, as bytes and as varints (Perfetto's), texts as they are. What is packed (gzip, zstd, base64 in a page or a
collector's log) is looked at unpacked, too. "all" and "texts" are with what no output ever has, "never" is that alone."""
import base64
import gzip
import os
import re
import subprocess
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))


def marks(which):
    source = open(os.path.join(HERE, "marks.h"), encoding="utf-8").read()
    for kind, name, text in re.findall(r'^(TEXT|NEVER)\((\w+), "(.*)"\)', source, re.M):
        if kind == "NEVER" or which != "never":
            yield name, {"text": text.encode()}
    for name, number in re.findall(r"^NUMBER\((\w+), (\w+)\)", source, re.M) if which == "all" else ():
        n = int(number, 0)
        if n < 1 << 24:  # too short to be looked for alone
            yield name, {"member": b"fd\":%d," % n}
            continue
        size = 4 if n < 1 << 32 else 8
        yield name, {"decimal": b"%d" % n, "hexadecimal": b"%x" % n, "HEXADECIMAL": b"%X" % n, "varint": varint(n),
                     "bytes": n.to_bytes(size, sys.byteorder), "bytes in hexadecimal": n.to_bytes(size, "little").hex().encode()}


def varint(n):
    low, rest = n & 0x7f, n >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def unpacked(data):
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    elif data[:4] == b"\x28\xb5\x2f\xfd":
        data = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    yield data
    for m in re.finditer(rb"[A-Za-z0-9+/]{64,}={0,2}", data):
        try:
            inner = base64.b64decode(m[0], validate=True)
        except ValueError:
            continue
        yield inner
        try:
            yield zlib.decompress(inner)
        except zlib.error:
            pass


wanted = list(marks(sys.argv[1]))
for path in (p for arg in sys.argv[2:] for p in ([f.path for f in os.scandir(arg)] if os.path.isdir(arg) else [arg])):
    with open(path, "rb") as f:
        parts = list(unpacked(f.read()))
    for name, forms in wanted:
        how = [how for how, b in forms.items() if any(b in p for p in parts)]
        if how:
            print(f"{name}: {os.path.basename(path)}: {', '.join(how)}")
