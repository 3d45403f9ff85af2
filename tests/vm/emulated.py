#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Makes a trace of tests/cases, from an emulated processor, comparable with the program's output:

    emulated.py [--present] TRACE EXPECTED

It rewrites both. It demangles names of kernels here, because an emulated processor does not always keep cudatrace's limit of 3 ms per name.
--present: omits expectations of functions that were not traced.
"""
import json
import re
import subprocess
import sys

present = sys.argv[1] == "--present"
trace, expected = sys.argv[-2:]
with open(trace, encoding="utf-8") as f:
    text = f.read()
names = sorted(set(re.findall(r'"kernel":"(_Z[^"]*)"', text)))
readable = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
for mangled, name in zip(names, readable):
    if mangled != name:
        text = text.replace(f'"kernel":"{mangled}"', f'"kernel":{json.dumps(name)},"kernel_mangled":"{mangled}"')
with open(trace, "w", encoding="utf-8") as f:
    f.write(text)
if present:
    seen = set(re.findall(r'"symbol":"(\w+)"', text))
    with open(expected, encoding="utf-8") as f:
        said = [line for line in f if line.startswith("{") and json.loads(line)["symbol"] in seen]
    with open(expected, "w", encoding="utf-8") as f:
        f.writelines(said)
