# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""seeds.py [python] FOLDER: writes seeds from saved traces and the documents; python: memory of a CPython."""
import json, os, struct, sys


def python(folder):
    """A code object at address 0 and the objects that it refers to, as in 3.8, 3.10, 3.11 and 3.12; a debug header."""
    os.makedirs(folder, exist_ok=True)
    for minor, file, name, table, first, asc in ((8, 104, 112, 120, 40, 48), (10, 104, 112, 120, 40, 48), (11, 112, 128, 136, 72, 48), (12, 112, 128, 136, 68, 40)):
        m = bytearray(1024)

        def put(at, *words):
            struct.pack_into(f"<{len(words)}Q", m, at, *words)
        put(0, minor - 8)
        put(file, 256)
        put(name, 400)
        put(table, 544)
        struct.pack_into("<i", m, first, 7)
        for at, text, state in ((256, b"model.py", 0x64), (400, "f\u00fc".encode("latin-1"), 0x24)):
            put(at, 1, 0, len(text), 0, state)
            off = at + (asc if state & 0x40 else {48: 72, 40: 56}[asc])
            m[off:off + len(text)] = text
        lines = bytes((6, 1, 4, 255, 10, 128)) if minor < 11 else bytes((0x80 | 11 << 3 | 1, 0, 4, 0x80 | 14 << 3, 0x44, 1, 1, 2, 0x80 | 15 << 3 | 7))
        put(544, 1, 0, len(lines), 0)
        m[576:576 + len(lines)] = lines
        open(f"{folder}/{minor}", "wb").write(m)
    for minor, words in ((13, 13), (14, 16)):
        d = [int.from_bytes(b"xdebugpy", "little"), 0x030000f0 | minor << 16, 0, 800, 600, 632]
        d += [9000, 8, 16, 7344] + [24] * (words - 4) + [300, 0, 8, 16, 72, 152, 160, 168, 32]
        d += [88, 8, 0, 56, 80, 70] + [64, 80] * (minor - 13) + [216, 112, 120, 128, 136, 68, 52, 96, 104, 208]
        open(f"{folder}/{minor}", "wb").write(struct.pack(f"<{len(d)}Q", *d).ljust(1024, b"\0"))


if sys.argv[1] == "python":
    sys.exit(python(sys.argv[2] + "/python"))
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
# Data of the map: frames, ranges, operators with their backward pass; and of serving: products and waits.
sys.path.insert(0, "tests/map")
import make_trace  # noqa: E402 (its folder is none of the path)
os.makedirs(sys.argv[1], exist_ok=True)
make_trace.make(sys.argv[1] + "/made", layer_cnt=1, tokens=2, ranges=1, backward=1)
lines = open(sys.argv[1] + "/made", encoding="utf-8").readlines()
cuts += ["".join(lines[:n]) for n in (40, len(lines))]
os.remove(sys.argv[1] + "/made")
lines = lines[:1]
for i in range(40):
    n, more = (30 if i % 16 < 4 else 3), {"pid": 1, "tid": 1, "comm": "c", "id": i + 1, "duration_us": 2.0, "result": 0}
    what = {"type": "sync", "op": "sync", "name": "cuStreamSynchronize", "symbol": "cuStreamSynchronize", "args": {}}
    if i % 4 < 3:
        what = {"type": "blas", "op": "gemm", "api": "cublas", "name": "cublasSgemm", "symbol": "cublasSgemm_v2", "args": {"A": hex(4096 + i % 4)}, "m": 7, "n": n, "k": 9,
                "batch": 1, "a_type": "CUDA_R_32F", "flops": 99}
    lines.append(json.dumps({"ts": i, **what, **more}, separators=(",", ":")) + "\n")
cuts.append("".join(lines))
# One line of each kind of event.
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
