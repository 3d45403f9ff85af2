#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks the JSON form of a report on h200-gpt2-tokens.jsonl against numbers worked out here, from the trace alone
and from what is known of the program (tests/gpu/gpt2.py: a token ends with a copy of 8 bytes to the host and a wait
for it). Shares no code with cudatrace.

usage: report_check.py TRACE REPORT

Prints a line for each number that is wrong; exit status 1 when there is one.
"""
import collections
import json
import math
import sys

wrong = []


def same(what, got, want, slack=0.0):
    if isinstance(want, float) or slack:
        ok = got is not None and abs(got - want) <= slack * abs(want) + 1e-9 + (1 if slack else 0)
    else:
        ok = got == want
    if not ok:
        wrong.append(f"{what}: {got!r}, not {want!r}")


def rank(values, part):
    values = sorted(values)
    return values[max(1, math.ceil(part * len(values))) - 1]


class Call:
    def __init__(self, e, line):
        self.name, self.type, self.op = e["name"], e["type"], e["op"]
        self.id, self.bytes, self.dir = e["id"], e.get("size", 0), e.get("direction")
        self.kernel, self.error = e.get("kernel"), "error" in e
        # the text, not the float: nanoseconds
        self.start = ns(line, "ts", 6)
        self.end = self.start + ns(line, "duration_us", 3)
        self.ns = self.end - self.start
        self.launch = self.type == "kernel" and self.op == "launch"
        self.works = self.launch or self.type == "transfer"


def ns(line, name, digits):
    text = line.split(f'"{name}":', 1)[1].split(",")[0].rstrip("}")
    whole, frac = text.split(".")
    assert len(frac) == digits
    return int(whole + frac)


def check_overview(calls, events, wall, o):
    same("calls", o["calls"], len(calls))
    same("call_ns", o["call_ns"], sum(c.ns for c in calls))
    same("launches", o["launches"], sum(c.launch for c in calls))
    same("errors", o["errors"], sum(c.error for c in calls))
    same("wall_ns", o["wall_ns"], wall)
    same("complete", o["complete"], True)
    same("events", o["events"], dict(collections.Counter(e["type"] for e in events)))
    by_name = collections.defaultdict(list)
    for c in calls:
        by_name[c.name].append(c.ns)
    same("functions", sorted(f["name"] for f in o["functions"]), sorted(by_name))
    for f in o["functions"]:
        times = by_name.get(f["name"], [0])
        same(f["name"] + " count", f["count"], len(times))
        same(f["name"] + " total", f["total_ns"], sum(times))
        same(f["name"] + " max", f["max_ns"], max(times))
        for part, member in ((0.5, "p50_ns"), (0.95, "p95_ns"), (0.99, "p99_ns")):
            same(f["name"] + " " + member, f[member], rank(times, part), slack=1 / 32)


def find_tokens(calls):
    """Lists of calls, each up to the wait that ends a token; and what lies between rounds."""
    tokens, cur = [], []
    for i, c in enumerate(calls):
        cur.append(c)
        if c.type != "sync":
            continue
        if i and calls[i - 1].dir == "DtoH" and calls[i - 1].bytes == 8:
            tokens.append(cur)
        cur = []
    return tokens


def check_iterations(tokens, it, rounds, warmup):
    same("iterations", it["count"], len(tokens))
    same("warmup", it["warmup"], warmup)
    same("rounds", [r["count"] for r in it["rounds"]], rounds)
    firsts = {sum(rounds[:i]) for i in range(len(rounds))}
    times = []
    for i, (t, got) in enumerate(zip(tokens, it["list"])):
        launches = [c for c in t if c.launch]
        begin = t[0].start if i in firsts else tokens[i - 1][-1].end
        times.append(t[-1].end - begin)
        same(f"token {i} kernels", got["kernels"], len(launches))
        same(f"token {i} calls", got["calls"], len(t))
        same(f"token {i} time", got["time_ns"], times[-1])
        same(f"token {i} ts", round(got["ts"] * 1e6), begin)
        same(f"token {i} launch_ns", got["launch_ns"], sum(c.ns for c in launches))
        same(f"token {i} sync_ns", got["sync_ns"], t[-1].ns)
        same(f"token {i} bytes", got["bytes"], sum(c.bytes for c in t if c.dir in ("HtoD", "DtoH")))
        same(f"token {i} warmup", got.get("warmup", False), i < warmup)
    times = times[warmup:]
    for member, part in (("median", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1)):
        same("time " + member, it["time_ns"][member], rank(times, part))
    same("time total", it["time_ns"]["total"], sum(times))
    # a typical token: the most common multiset
    kinds = collections.Counter(tuple(sorted(collections.Counter(c.kernel for c in t if c.launch).items()))
                                for t in tokens)
    same("sequence", sorted((k["kernel"], k["count"]) for k in it["sequence"]), list(kinds.most_common(1)[0][0]))


def check_stages(calls, tokens, wall, st, warmup):
    got = {s["stage"]: s for s in st["list"]}
    same("wall of stages", sum(s["wall_ns"] for s in st["list"]), wall)
    same("calls of stages", sum(s["calls"] for s in st["list"]), len(calls))
    same("call_ns of stages", sum(s["call_ns"] for s in st["list"]), sum(c.ns for c in calls))
    made = next(c for c in calls if c.name == "cuDevicePrimaryCtxRetain")
    init = [c for c in calls if c.start <= made.start]
    same("init calls", got["init"]["calls"], len(init))
    same("init wall", got["init"]["wall_ns"], made.end - calls[0].start)
    # before the first call, and from the last token to the wait at the very end
    last_token = calls.index(tokens[-1][-1])
    same("other wall", got["other"]["wall_ns"],
         calls[0].start + calls[last_token + 1].start - calls[last_token].end)
    # weights: all big copies, each with a wait after it, before the first token
    first = calls.index(tokens[0][0])
    total = sum(c.bytes for c in calls[:first] if c.dir == "HtoD")
    part, last = 0, 0
    while part < 0.99 * total:
        part += calls[last].bytes if calls[last].dir == "HtoD" else 0
        last += 1
    while calls[last].type != "sync":
        last += 1
    load = [c for c in calls[len(init):last + 1] if c.type != "module"]
    same("load calls", st["load"]["calls"], len(load))
    same("load call_ns", st["load"]["call_ns"], sum(c.ns for c in load))
    same("load alloc", st["load"]["alloc_bytes"], sum(c.bytes for c in load if c.op == "alloc"))
    same("load HtoD", st["load"]["htod_bytes"], sum(c.bytes for c in load if c.dir == "HtoD"))
    same("load functions", {f["name"]: f["count"] for f in st["load"]["by_function"]},
         dict(collections.Counter(c.name for c in load)))
    rest = calls[last + 1:]
    tail = max(i for i, c in enumerate(rest) if c.works or c.type == "sync")
    body, cleanup = rest[:tail + 1], rest[tail + 1:]
    same("cleanup calls", got["cleanup"]["calls"], len(cleanup))
    same("cleanup wall", got["cleanup"]["wall_ns"], wall - body[-1].end)
    same("sync calls", got["sync"]["calls"], sum(c.type == "sync" for c in body))
    same("output", got["output"]["call_ns"], sum(c.ns for c in body if c.dir == "DtoH"))
    steady = tokens[warmup][0].start
    same("inference launches", got["inference"]["launches"], sum(c.launch and c.start >= steady for c in body))
    same("warmup launches", got["warmup"]["launches"], sum(c.launch and c.start < steady for c in body))


def check_idle(calls, idle):
    """One stream: idle from each wait to the next work."""
    periods, since = [], None
    for c in calls:
        if c.works:
            if since is not None:
                periods.append((c.start - since, since))
            since = None
        elif c.type == "sync" and periods is not None:
            since = c.end if since is None else since
    # nothing was submitted before the first wait of a trace that begins with it
    first = next(c.start for c in calls if c.works)
    periods = [p for p in periods if p[1] > first]
    same("idle count", idle["count"], len(periods))
    same("idle total", idle["total_ns"], sum(p[0] for p in periods))
    longest = sorted(periods, reverse=True)[:len(idle["list"])]
    same("idle list", [p["duration_ns"] for p in idle["list"]], [p[0] for p in longest])
    same("idle causes", sum(c["total_ns"] for c in idle["by_cause"]), idle["total_ns"])


def check_waits(calls, waits):
    syncs = [c for c in calls if c.type == "sync"]
    same("waits", waits["count"], len(syncs))
    same("waits total", waits["total_ns"], sum(c.ns for c in syncs))
    for f in waits["functions"]:
        times = [c.ns for c in syncs if c.name == f["name"]]
        same("waits in " + f["name"], (f["count"], f["total_ns"], f["max_ns"]), (len(times), sum(times), max(times)))
        same("for what " + f["name"], sum(x["count"] for x in f["for"]), len(times))


def main():
    if len(sys.argv) != 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as f:
        lines = f.read().splitlines()
    events = [json.loads(line) for line in lines]
    calls = [Call(e, line) for e, line in zip(events, lines) if "symbol" in e]
    wall = ns(lines[-1], "ts", 6)
    with open(sys.argv[2], encoding="utf-8") as f:
        report = json.load(f)
    tokens = find_tokens(calls)
    check_overview(calls, events[1:-1], wall, report["overview"])
    check_iterations(tokens, report["iterations"], [5, 10, 10], 5)
    check_stages(calls, tokens, wall, report["stages"], 5)
    check_idle(calls, report["idle"])
    check_waits(calls, report["waits"])
    longest = sorted((c.ns for c in calls), reverse=True)[:len(report["longest"])]
    same("longest", [x["duration_ns"] for x in report["longest"]], longest)
    same("answers", [a["id"] for a in report["answers"]],
         ["load", "per-iteration", "ratio", "idle", "blocking", "ioctls", "scheduler"])
    numbers = {a["id"]: a["numbers"] for a in report["answers"]}
    same("answer per iteration", numbers["per-iteration"]["kernels_median"], 18)
    same("answer load", numbers["load"]["calls"], report["stages"]["load"]["calls"])
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
