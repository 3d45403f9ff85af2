# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""map_code.py FILE: maps its first page as executable."""
import mmap
import sys

with open(sys.argv[1], "rb") as f:
    mmap.mmap(f.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
