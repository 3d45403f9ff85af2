#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""agree.py JSONL CHROME REPORT SUMMARY: compares four forms of one trace.

Every number that is in more than one of them must be equal: calls, errors, launches, graphs, transfers, memory, ioctls,
drops. Those of the lines are counted here, by the rules of docs/SCHEMA.md, without code of cudatrace.
"""
import collections
import json
import sys

wrong = []


def same(what, **of):
    """Empty and 0 are the same as absent."""
    plain = {k: {a: b for a, b in v.items() if b} if isinstance(v, dict) else v for k, v in of.items()}
    if len({json.dumps(v, sort_keys=True, default=str) if not isinstance(v, dict) else str(sorted(v.items(), key=str)) for v in plain.values()}) > 1:
        if all(isinstance(v, dict) for v in plain.values()):
            every = set().union(*plain.values())
            plain = {k: {a: v.get(a, 0) for a in every if len({w.get(a, 0) for w in plain.values()}) > 1} for k, v in plain.items()}
        wrong.append(f"{what}: " + ", ".join(f"{k} {v}" for k, v in plain.items()))


with open(sys.argv[1], encoding="utf-8") as f:
    ev = [json.loads(line) for line in f]
with open(sys.argv[2], encoding="utf-8") as f:
    chrome = json.load(f)
with open(sys.argv[3], encoding="utf-8") as f:
    report = json.load(f)
with open(sys.argv[4], encoding="utf-8") as f:
    summary = json.loads(next(line for line in f if line.startswith('{"type":"summary"')))
end, overview = ev[-1], report["overview"]

calls = [e for e in ev if "symbol" in e]
by_id = {e["id"]: e for e in calls}
done = [e for e in calls if "error" not in e and not e.get("unfinished") and not e.get("abandoned")]
# Slices of calls; those of launches have the kernel's name, and the call in their args.
slices = [e for e in chrome if e["ph"] == "X" and "result" in e.get("args", {}) and "device" not in e["args"]]


def count(rows, key):
    return dict(collections.Counter(key(e) for e in rows))


def total(rows, key, size):
    sums = collections.Counter()
    for e in rows:
        sums[key(e)] += size(e)
    return dict(sums)


same("calls", lines=len(calls), end=end["calls"], report=overview["calls"], summary=summary["calls"])
by_name = count(calls, lambda e: e["name"])
same("calls by function", lines=by_name, report={f["name"]: f["count"] for f in overview["functions"]},
     summary={f["name"]: f["calls"] for f in summary["functions"]})
same("calls by class", report={c["class"]: c["count"] for c in overview["classes"]},
     summary={c["class"]: c["calls"] for c in summary["classes"]})
failed = [e for e in calls if "error" in e]
same("errors by function", lines=count(failed, lambda e: e["name"]), report={f["name"]: f["errors"] for f in overview["functions"]},
     summary={f["name"]: f["errors"] for f in summary["functions"]})
same("errors", lines=count(failed, lambda e: e["error"]), report={e["error"]: e["count"] for e in overview["error_codes"]},
     summary={e["error"]: e["calls"] for e in summary["errors"]})
same("slices of calls that returned", lines=count([e for e in calls if "result" in e], lambda e: e["name"]),
     chrome=count(slices, lambda e: e["args"].get("call", e["name"])))

launches = [e for e in done if e["type"] == "kernel" and e.get("op") == "launch"]
runs = [e for e in launches if not e.get("capturing")]
same("launches", lines=len(runs), report=report["kernels"]["launches"], summary=summary["launches"]["total"], again=overview["launches"])
same("launches that are captured", lines=len(launches) - len(runs), summary=summary["launches"]["captured"])
named = [e for e in runs if "kernel" in e]
same("launches by kernel", lines=count(named, lambda e: e["kernel"]),
     report={k["name"]: k["count"] for k in report["kernels"]["list"] if k.get("name")},
     summary={k["kernel"]: k["launches"] for k in summary["launches"]["kernels"] if k["kernel"] != "(name unknown)"})
ran = [e for e in done if not e.get("capturing")]
graphs = [e for e in ran if e["type"] == "graph" and e.get("op") == "launch"]
same("launches of graphs", lines=len(graphs), report=overview["graph_launches"], again=report["graphs"]["launches"],
     summary=summary["graphs"]["launches"])
same("graphs instantiated", report=report["graphs"]["instantiations"], summary=summary["graphs"]["instantiated"])

moves = [e for e in ran if e["type"] == "transfer"]
way = {"memset": "memset", "prefetch": "prefetch"}
def direction(e): return way.get(e["op"], e.get("direction", "unknown"))
for what, key, in_lines in (("transfers", "count", count(moves, direction)),
                            ("bytes moved", "bytes", total(moves, direction, lambda e: e.get("size", 0)))):
    theirs = {d["direction"]: d[key] for d in report["transfers"]["directions"]}
    theirs["memset"] = report["transfers"]["memset"][key]
    theirs["prefetch"] = report["transfers"].get("prefetch", {}).get(key, 0)
    same(what, lines=in_lines, report=theirs,
         summary={t["kind"]: t["calls" if key == "count" else "bytes"] for t in summary["transfers"]})

same("drops", end=end["drops"], report=overview["drops"], summary=summary["drops"])
def six(ms):
    """Formats numbers like the summary."""
    return float(f"{ms:.6g}")


same("cost", end=six(end["cost_ms"]), report=six(overview["cost_ns"] / 1e6), summary=six(summary["cost_ms"]))
same("busiest share", end=end.get("max_thread_overhead"), report=overview.get("max_thread_overhead"), summary=summary["max_thread_overhead"] or None)
same("busiest thread", end=end.get("max_overhead_tid"), report=overview.get("max_overhead_tid"))
same("what costs most", end=[[k, six(v)] for k, v in end.get("costs", {}).items()],
     report=[[c["symbol"], six(c["ns"] / 1e6)] for c in overview["costs"]], summary=[[c["symbol"], six(c["ms"])] for c in summary["costs"]])
same("what --detail=low would save", end=six(end.get("detail_low_saving_ms", 0)),
     report=six(overview.get("detail_low_saving_ns", 0) / 1e6), summary=six(summary["detail_low_saving_ms"]))
same("unfinished", end=end["unfinished"], report=overview["unfinished"], summary=summary["unfinished"])
ioctls = [e for e in ev if e.get("op") == "ioctl"]
same("ioctls", lines=len(ioctls), report=report["driver"]["ioctls"], chrome=sum(e["ph"] == "X" and "cmd" in e["args"] for e in chrome))
same("ioctls by command", lines=count(ioctls, lambda e: e["name"]), report=total(report["driver"]["commands"], lambda c: c["name"], lambda c: c["count"]))

# The report distinguishes more kinds, and excludes what is not the process's memory: addresses, imports.
one = {"host": "pinned host", "registered": "pinned host", "managed": "managed"}
kinds = [k for k in report["memory"]["kinds"] if k["kind"] not in ("reserved", "ipc", "external")]
numbers = [("allocations", "allocs", "allocs"), ("bytes allocated", "alloc_bytes", "allocated")]
# Only the report follows contexts: memory left in a destroyed one is freed.
if not any(e["type"] == "context" and e.get("op") in ("destroy", "release", "reset") for e in done) or all(k["live_bytes"] == 0 for k in kinds):
    numbers.append(("bytes at the end", "live_bytes", "at_end"))
for what, theirs, ours in numbers:
    same(what, report=total(kinds, lambda k: one.get(k["kind"], "device"), lambda k: k[theirs]),
         summary={m["kind"]: m[ours] for m in summary["memory"]})
sys.exit("\n".join(wrong) or 0)
