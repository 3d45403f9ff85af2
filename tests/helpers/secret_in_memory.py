# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""secret_in_memory.py PID: checks whether the string and the number of secret.py are in its memory, including the ring. Prints some or none for each."""
import re, struct, sys
found = [0, 0]
with open(f"/proc/{sys.argv[1]}/mem", "rb", 0) as mem:
    for line in open(f"/proc/{sys.argv[1]}/maps"):
        lo, hi = (int(x, 16) for x in line.split()[0].split("-"))
        if " r" not in line or "[v" in line:
            continue
        try:
            mem.seek(lo)
            data = mem.read(hi - lo)
        except OSError:
            continue
        found[0] += data.count(b"s3cr3t" + b"x" * 9)
        found[1] += data.count(struct.pack("<Q", 0x5EC4E75EC4E75EC4))
print(*("some" if n else "none" for n in found))
