# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""launches.py TRACE: its launches, and how kernels got their names."""
import collections, json, sys
names, funcs, unnamed, guessed = collections.Counter(), collections.Counter(), 0, 0
for line in open(sys.argv[1], encoding="utf-8"):
    ev = json.loads(line)
    if ev["type"] == "kernel" and ev.get("op") == "launch":
        funcs[ev["name"]] += 1
        unnamed += "kernel" not in ev
        guessed += ev.get("kernel_source") == "handle"
        names[ev.get("kernel", "?")[:70]] += 1
print("launches", dict(funcs), "without name", unnamed, "named through the handle", guessed)
for name, cnt in names.most_common(4):
    print(f"  {cnt:6} {name}")
