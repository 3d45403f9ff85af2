#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs the blocks of docs/QUERIES.md on a trace and compares their results with the report where it means the same, and
with what is worked out here.

usage: check.py PAGE                              is the page whole?
       check.py jq|sql PAGE TRACE REPORT FOLDER   prints a result a block; leaves files in FOLDER
                                                  Status 77, with the reason: DuckDB (from PyPI) is unavailable
"""
import collections
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from helpers import pypi  # noqa: E402 (its folder is none of the path)

DUCKDB = "duckdb==2.0.1"


class Call:
    def __init__(self, e):
        self.e, self.name, self.type, self.op = e, e["name"], e["type"], e["op"]
        self.thread, self.outer = (e["pid"], e["tid"]), not e.get("api_depth", e.get("depth", 0))
        self.top = self.outer and "api" not in e
        self.start, self.returned = round(e["ts"] * 1e6), "duration_us" in e
        self.over = self.returned or "unfinished" in e
        self.ns = round(e.get("duration_us", e.get("elapsed_us", 0) if "unfinished" in e else 0) * 1000)
        ran = self.returned and "error" not in e and "capturing" not in e
        self.copy = self.type == "transfer" and self.op == "copy" and ran
        self.sync = self.over and self.op == "sync"
        blocking = self.type == "transfer" and e.get("direction") in ("HtoD", "DtoH") and "Async" not in self.name
        self.wait = self.top and (self.sync or (self.over and blocking))
        self.launch = ran and self.op == "launch" and self.type in ("kernel", "graph")
        self.work = self.launch or (ran and self.type == "transfer")
        self.kernel = e.get("kernel") or e.get("func") or self.name


def rows(keys, numbers, calls):
    """calls: pairs of a key and what it adds to each number"""
    sums = {}
    for key, adds in calls:
        old = sums.get(key, (0,) * len(numbers))
        sums[key] = tuple(a + b for a, b in zip(old, adds))
    return [{**dict(zip(keys, k)), **dict(zip(numbers, v))} for k, v in sums.items()]


def find_burst(calls):
    run = []
    for c in calls:
        if c.wait:
            run = []
        elif c.launch:
            run += [c.start] * (10 if c.type == "graph" else 1)
        if len(run) >= 10:
            return run[0]
    return float("inf")


def iterations(calls):
    waits, found = collections.Counter(), []
    for c in calls:
        waits[c.thread] += c.wait
        if c.launch:
            found.append(((*c.thread, waits[c.thread], c.kernel), (1,)))
    return rows(["pid", "tid", "iteration", "kernel"], ["launches"], found)


def stages(calls):
    burst = find_burst(calls)
    last = max((c.start for c in calls if c.work or c.wait), default=float("inf"))

    def stage(c):
        return "end" if c.start > last else "load" if c.start < burst else "run"
    return rows(["stage", "class"], ["calls", "ns"], [((stage(c), c.type), (1, c.ns * c.outer)) for c in calls])


def idle(calls):
    since, gaps = {}, collections.defaultdict(list)
    for c in calls:
        if not c.top:
            continue
        if c.work:
            if since.get(c.thread) is not None:
                gaps[(*c.thread, c.e.get("stream", "0x0"))].append(c.start - since[c.thread])
            since[c.thread] = None
        elif c.sync and c.thread in since and since[c.thread] is None:
            since[c.thread] = c.start + c.ns
    return [{"pid": p, "tid": t, "stream": s, "periods": len(g), "ns": sum(g), "longest_ns": max(g)}
            for (p, t, s), g in gaps.items()]


def callers(events, calls):
    def frame(f):
        at = f"{os.path.basename(f['module'])}+{f['offset']}" if "module" in f else f["ip"]
        return f.get("symbol", at)
    stacks = {e["id"]: " < ".join(map(frame, e["frames"])) for e in events if e["type"] == "stack"}
    return rows(["function", "stack"], ["calls", "ns"],
                [((c.name, stacks[c.e["stack"]]), (1, c.ns)) for c in calls if c.wait and "stack" in c.e])


def expect(events):
    calls = sorted((Call(e) for e in events if "symbol" in e), key=lambda c: c.start)
    burst = find_burst(calls)
    all_ns = sum(c.ns for c in calls if c.top)
    ioctls = [e for e in events if e.get("op") == "ioctl"]
    scheduler = collections.defaultdict(list)
    for e in events:
        if e["type"] == "scheduler":
            scheduler[e["name"]].append(e["ts"])
    classes = rows(["class"], ["calls", "ns", "top"], [((c.type,), (1, c.ns * c.outer, c.ns * c.top)) for c in calls])
    return {
        "load": rows(["function"], ["calls", "ns"], [((c.name,), (1, c.ns)) for c in calls if c.start < burst]),
        "kernels": rows(["kernel"], ["launches"], [((c.kernel,), (1,)) for c in calls if c.launch and c.type == "kernel"]),
        "iterations": iterations(calls),
        "classes": [{"share": r.pop("top") / all_ns or 0, **r} for r in classes],
        "stages": stages(calls),
        "transfers": rows(["direction"], ["calls", "bytes"],
                          [((c.e["direction"],), (1, c.e["size"])) for c in calls if c.copy and "direction" in c.e]),
        "idle": idle(calls),
        "waits": rows(["function"], ["calls", "ns"], [((c.name,), (1, c.ns)) for c in calls if c.wait]),
        "callers": callers(events, calls),
        "ioctls": rows(["call", "ioctl"], ["count"], [((e["call"], e["name"]), (1,)) for e in ioctls if "call" in e]),
        "outside": [{"count": sum("call" not in e for e in ioctls)}],
        "scheduler": [{"name": n, "count": len(t), "first_ts": min(t)} for n, t in scheduler.items()],
    }


def reported(r):
    """The same of the report, where it has the same."""
    pairs = [((p["call"], p["name"]), (p["count"],)) for p in r["driver"]["pairs"]]
    return {
        "kernels": [{"kernel": k["name"] or k["function"], "launches": k["count"]} for k in r["kernels"]["list"] if k["count"]],
        "classes": [{"class": "kernel" if c["class"] == "launch" else c["class"], "calls": c["count"], "ns": c["total_ns"],
                     "share": c["share"]} for c in r["overview"]["classes"]],
        "transfers": [{"direction": d["direction"], "calls": d["count"], "bytes": d["bytes"]}
                      for d in r["transfers"]["directions"] if d["direction"] != "unknown"],
        "waits": [{"function": f["name"], "calls": f["count"], "ns": f["total_ns"]} for f in r["waits"]["functions"]],
        "callers": [{"function": c["name"], "stack": " < ".join(c["stack"]), "calls": c["count"], "ns": c["total_ns"]}
                    for c in r["waits"].get("callers", [])],
        "ioctls": rows(["call", "ioctl"], ["count"], pairs),
        "outside": [{"count": r["driver"]["outside"]}],
        "scheduler": [{"name": s["name"], "count": s["count"], "first_ts": s["first_ts"]} for s in r["driver"]["scheduler"]],
    }


def differ(got, want):
    """What two lists of rows do not have in common, or nothing. Shares have six digits in the report."""
    def form(row):
        return json.dumps({k: round(float(v), 5) if k == "share" else v for k, v in row.items()}, sort_keys=True)
    got, want = (collections.Counter(map(form, r)) for r in (got, want))
    return [f"only in the rows: {r}" for r in got - want] + [f"lacking in the rows: {r}" for r in want - got]


def blocks(page, lang):
    with open(page, encoding="utf-8") as f:
        return dict(re.findall(rf"^```{lang} (\w+)\n(.*?)^```$", f.read(), re.M | re.S))


def check_page(page):
    """Each question has blocks, each block is there in both languages and is compared with something."""
    known = set(expect([])) | {"common"}
    with open(page, encoding="utf-8") as f:
        text = f.read()
    wrong = []
    for lang, other in (("jq", "sql"), ("sql", "jq")):
        found = re.findall(rf"^```{lang}\b *(.*)$", text, re.M)
        wrong += [f"{lang} block {n or 'without a name'!r}: nothing to compare it with; add it to expect() in tests/queries/check.py"
                  for n in found if n not in known]
        wrong += [f"{lang} block {n!r} is there {found.count(n)} times" for n in sorted(set(found)) if found.count(n) > 1]
        wrong += [f"{lang} block {n!r}: there is no {other} block of that name"
                  for n in sorted(set(found) - set(blocks(page, other)))]
        wrong += [f"no {lang} block {n!r}" for n in sorted(known - set(found))]
    sections = re.split(r"^## ", text, flags=re.M)[1:8]
    if [s[:2] for s in sections] != [f"{n}." for n in range(1, 8)]:
        wrong.append("the sections are not the questions 1 to 7")
    wrong += [f"question {s[:1]}: no {lang} block" for s in sections for lang in ("jq", "sql") if f"```{lang} " not in s]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


def run_jq(page, trace, folder):
    programs = blocks(page, "jq")
    with open(os.path.join(folder, "trace.jq"), "w", encoding="utf-8") as f:
        f.write(programs.pop("common"))
    for name, program in programs.items():
        out = subprocess.run(["jq", "-c", "-n", "-L", folder, f'include "trace"; {program}', trace],
                             capture_output=True, text=True, check=False)
        yield name, [json.loads(l) for l in out.stdout.splitlines()] if out.returncode == 0 else out.stderr


def run_sql(page, trace, _folder):
    queries = {n: q.replace("'trace.jsonl'", f"'{trace}'") for n, q in blocks(page, "sql").items()}
    pypi.use(DUCKDB)
    import duckdb
    db = duckdb.connect()
    for name, query in queries.items():
        try:
            found = db.execute(query)
            names = [column[0] for column in found.description or []]
            yield name, [dict(zip(names, row)) for row in found.fetchall()]
        except duckdb.Error as e:
            yield name, str(e)


def check_blocks(lang, page, trace, report, folder):
    with open(trace, encoding="utf-8") as f:
        expected = expect([json.loads(line) for line in f])
    with open(report, encoding="utf-8") as f:
        same = reported(json.load(f))
    for name, got in (run_jq if lang == "jq" else run_sql)(page, trace, folder):
        if name == "common" and not isinstance(got, str):
            continue
        title = f"queries: {lang}: {name}: {os.path.basename(trace).removesuffix('.jsonl')}"
        if isinstance(got, str) or name not in expected:
            print(f"not ok {title} # {' '.join(got.split()) if isinstance(got, str) else 'nothing to compare it with'}")
            continue
        wrong = [f"Python: {d}" for d in differ(got, expected[name])]
        wrong += [f"report: {d}" for d in differ(got, same.get(name, got))]
        print("".join(f"    {w}\n" for w in wrong[:10]), end="")
        print(f"not ok {title} # {len(wrong)} rows differ" if wrong else f"ok {title}")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.exit(check_page(sys.argv[1]))
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    try:
        check_blocks(*sys.argv[1:])
    except pypi.Missing as e:
        print(e, file=sys.stderr)
        sys.exit(77)
