# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""cut_anywhere.py JSONL CHROME: checks that a file cut at any point loses only what follows the cut, and the line that was cut."""
import json, sys
text = open(sys.argv[1], "rb").read()
lines = text.split(b"\n")[:-1]
for line in lines:
    json.loads(line)
for i in range(len(text)):
    got = text[:i].split(b"\n")[:-1]
    assert got == lines[:len(got)] and len(got) == text[:i].count(b"\n"), i
# Both viewers accept an array without an end, and ignore an incomplete object at the end.
text = open(sys.argv[2], "rb").read()
whole = json.loads(text)
decode = json.JSONDecoder().raw_decode
seen, last = 0, -1
for i in range(1, len(text)):
    cut = text[:i].rfind(b"}")
    end = text[:i].rfind(b",\n")
    if end == last:
        continue
    last = end
    got = json.loads(text[:end] + b"]") if end > 0 else []
    assert got == whole[:len(got)], i
    assert len(got) == text[:i].count(b",\n"), i
    seen += 1
assert seen >= len(whole) - 1, (seen, len(whole))
