# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""write_mapped.py FROM TO: overwrites a file through a mapping."""
import mmap, os, sys
new = open(sys.argv[1], "rb").read()
with open(sys.argv[2], "r+b") as f:
    f.truncate(len(new))
    with mmap.mmap(f.fileno(), len(new)) as m:
        m[:] = new
