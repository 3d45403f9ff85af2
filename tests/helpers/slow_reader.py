# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""slow_reader.py FIFO FILE GO: copies one line, and the rest when GO exists."""
import os, sys, time
with open(sys.argv[1], "rb", buffering=0) as f, open(sys.argv[2], "wb") as out:
    line = b""
    while not line.endswith(b"\n"):
        line += f.read(1)
    out.write(line)
    out.flush()
    while not os.path.exists(sys.argv[3]):
        time.sleep(0.02)
    while part := f.read(1 << 16):
        out.write(part)
