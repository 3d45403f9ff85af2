# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ring_filling.py PID: checks that its ring has enough records; prints how many are followed by bytes of another record."""
import struct, sys
records = stale = 0
with open(f"/proc/{sys.argv[1]}/mem", "rb", 0) as mem:
    for line in open(f"/proc/{sys.argv[1]}/maps"):
        lo, hi = (int(x, 16) for x in line.split()[0].split("-"))
        ring = (hi - lo - 4096) // 2  # mapped twice, after the page of the producer position
        if "bpf-map" not in line or ring < 1 << 20 or ring & (ring - 1):
            continue
        mem.seek(lo)
        data = mem.read(4096 + ring)
        end, = struct.unpack_from("<Q", data)
        at = 0
        assert end <= ring, "it is written to for the second time"
        while at < end:
            size, = struct.unpack_from("<I", data, 4096 + at)
            rec = data[4096 + at + 8:][:size & 0x3FFFFFFF]
            at += (len(rec) + 8 + 7) & ~7
            if struct.unpack_from("<H", rec, 4)[0] != 1:
                continue
            pos = 112 + 8 * rec[61]
            records += 1
            for n in struct.unpack_from("<8h", rec, 96):
                if n > 0:
                    stale += any(rec[pos + n:pos + (n + 7 & ~7)])
                    pos += n + 7 & ~7
print(records > 50, stale)
