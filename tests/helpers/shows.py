# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""shows.py METRICS FILES EXPRESSION [NAME=VALUE...]: evaluates a Python expression over a daemon's metrics and files

    total(family, label=value...)   the sum of the samples that have these labels
    by(family, label, ...)          the same by the values of one label
    lines                           events of the daemon's files, as far as they are on the disk
    own(file)                       calls by function that the mock driver counted
"""
import collections, glob, json, re, subprocess, sys
samples = []
for line in open(sys.argv[1]):
    m = re.match(r'cudatrace_(\w+)(?:\{(.*)\})? (\S+)$', line)
    if m:
        samples.append((m[1], dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m[2] or "")), float(m[3])))
def by(family, label, **want):
    out = collections.Counter()
    for name, labels, value in samples:
        if name == family and all(labels.get(k) == v for k, v in want.items()):
            out[labels.get(label, "")] += value
    return +out
def total(family, **want):
    return sum(by(family, "", **want).values())
def read(pattern):
    for path in sorted(glob.glob(sys.argv[2] + "/" + pattern)):
        text = subprocess.run(["zstd", "-dcq", path], capture_output=True).stdout
        # The text after the last newline is still being written: it may end anywhere, even after a brace.
        yield from (json.loads(l) for l in text.decode(errors="replace").split("\n")[:-1])
def own(path):
    out = collections.Counter()
    for l in open(path):
        out[l.split()[0]] += int(l.split()[1])
    return out
# Reading them is slow: only if the expression uses them.
lines = list(read("trace-*")) if re.search(r"\b(lines|calls|all_of)\b", sys.argv[3]) else []
calls = [e for e in lines if "symbol" in e]
# The traced functions that were called.
known = set(by("calls_total", "function"))
def all_of(level, who, path, few):
    made = +collections.Counter({k: n for k, n in own(path).items() if k in known})
    got, seen = by("calls_total", "function", command=who), collections.Counter(e["symbol"] for e in calls if e["comm"] == who)
    if made["cuLaunchKernel"] > 10 and {
        "off": not seen and sum(got.values()) < few,
        "metrics": got == made and not seen,
        "sampled": got == made,
        # During floods: records that do not fit into the rings are counted as lost; most of them are the floods'.
        "crowded": got <= made and 2 * got.total() > made.total() and made.total() - got.total() <= total("dropped_total", what="calls") and not seen,
        "trace": got == made == seen,
    }[level]:
        return True
    sys.exit(f"{who}: the driver made {made.total()}, {got.total()} counted, {seen.total()} lines; "
        f"differ: { {k: (made[k], got[k]) for k in made.keys() | got.keys() if made[k] != got[k]} }, too many lines: {seen - made}")
for arg in sys.argv[4:]:
    name, _, value = arg.partition("=")
    globals()[name] = value
try:
    result = eval(f"({sys.argv[3]})")
except Exception as e:
    sys.exit(f"{sys.argv[3]}: {type(e).__name__}: {e}")
if not result:
    sys.exit(f"not so: {sys.argv[3]}\n" + "\n".join(f"{s}" for s in samples if "command" in s[1] and s[2])[:3000])
