# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""seeds.py FOLDER: inputs to begin with, of saved traces and the documents."""
import json, os, sys
names, lines = set(), []
for line in open("tests/golden/h200-triton.jsonl", encoding="utf-8"):
    lines.append(line)
    names.add(json.loads(line).get("kernel_mangled"))
# Headers and ends are long: most seeds have none.
cuts = [lines[0] + lines[-1], lines[0] + "".join(lines[20:40])]
for name in ("h200-gpt2-tokens", "h200-gpt2-memory", "h200-triton"):
    lines = open(f"tests/golden/{name}.jsonl", encoding="utf-8").readlines()
    cuts += ["".join(lines[i:i + n]) for i, n in ((1, 4), (30, 12), (90, 40), (len(lines) - 6, 6))]
    cuts.append(lines[0] + "".join(lines[-40:]))
# One line of each kind of event that there is.
kinds = {}
for name in ("tests/golden/h200-gpt2-tokens.jsonl", "docs/SCHEMA.md"):
    for line in open(name, encoding="utf-8"):
        if line.startswith('{"ts":'):
            e = json.loads(line)
            kinds[e["type"], e.get("op"), tuple(e)] = line
for sub, texts in (("kernel_name", sorted(filter(None, names))), ("jsonl", cuts), ("saved", kinds.values())):
    os.makedirs(f"{sys.argv[1]}/{sub}", exist_ok=True)
    for i, text in enumerate(texts):
        with open(f"{sys.argv[1]}/{sub}/{i}", "w", encoding="utf-8") as f:
            f.write(text)
