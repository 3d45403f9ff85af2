# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""mutant.py FROM TO SEED: writes a copy of a file with some bytes changed."""
import random, sys
data = bytearray(open(sys.argv[1], "rb").read())
r = random.Random(int(sys.argv[3]))
for _ in range(r.choice((1, 4, 40))):
    data[r.randrange(r.choice((64, 1024, 65536)))] = r.choice((0, 1, 0x7f, 0x80, 0xff, r.randrange(256)))
open(sys.argv[2], "wb").write(data)
