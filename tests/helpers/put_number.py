# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""put_number.py FILE OFFSET FORMAT VALUE: changes a number in a file. FORMAT is as in struct."""
import struct
import sys

path, offset, form, value = sys.argv[1:]
with open(path, "r+b") as f:
    f.seek(int(offset, 0))
    f.write(struct.pack(form, int(value, 0)))
