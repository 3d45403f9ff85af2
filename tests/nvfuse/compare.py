#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares a trace made with --kernel (JSONL) with the expectations that the traced program prints.

    compare.py [--no-calls] [--only] TRACE EXPECTED [CHROME]

EXPECTED is the stdout of drive.c: one JSON object a line, lines that do not begin with { are
skipped. Per thread, in the order in which they began, the trace must have exactly those system
calls into the driver, and exactly those CUDA calls. Every named member must match. Members that the decoder derives from the caller's bytes
(DECODED) must not be there unless named, because unknown values must not be printed. null stands for a missing member.

    --no-calls   the trace has no CUDA calls; expected ones are not checked
    --only       processes without expectations may have made any calls

Beyond that: a call's "ioctl_us" is the sum of its ioctls, each lies within its call, and in a
Chrome trace of the same run each has its slice, inside the slice of its call.

Exit status: 0 the same, 1 different.
"""
import collections
import json
import sys

DECODED = {"escape", "uvm", "control", "control_cmd", "params", "params_size", "class", "client",
           "parent", "object", "new", "function", "address", "length", "target_fd", "version",
           "xfer", "object_class", "status", "values", "size", "ptr", "result", "unfinished"}
SHOWN = 10
problems = []


def problem(text):
    problems.append(text)


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.startswith("{")]


def short(event):
    return json.dumps({k: v for k, v in event.items() if k not in ("comm", "pid", "args")})[:500]


def wrong_with(want, got, ids, is_call):
    for key, value in want.items():
        if not key.startswith("$") and got.get(key) != value:
            return f"{key} is {got.get(key)!r}, not {value!r}"
    if is_call:
        parent = want["$parent"] and ids.get(want["$parent"])
        if got.get("parent") != parent:
            return f"parent is {got.get('parent')}, not {parent}"
        ids[want["$id"]] = got["id"]
        return None
    extra = sorted((DECODED & set(got)) - set(want))
    if extra:
        return "not expected: " + ", ".join(f"{k}={got[k]!r}" for k in extra)
    inside = want["$in"] and ids.get(want["$in"], "a call that is not in the trace")
    if got.get("call_id") != inside or (inside is None and "call" in got):
        return f"call_id is {got.get('call_id')}, not {inside}"
    return None


def by_thread(events):
    threads = collections.defaultdict(list)
    for event in events:
        threads[event["pid"], event["tid"]].append(event)
    return threads


def compare(what, wanted, got, ids, is_call):
    wanted, got = by_thread(wanted), by_thread(got)
    for key in sorted(set(wanted) | set(got)):
        want_list, got_list = wanted[key], got[key]
        if len(want_list) != len(got_list):
            problem(f"thread {key[1]}: {len(got_list)} {what}, not {len(want_list)}")
        for i, (want, event) in enumerate(zip(want_list, got_list)):
            wrong = wrong_with(want, event, ids, is_call)
            if wrong:
                problem(f"thread {key[1]}: {what}: {i}: {wrong}\n  expected: {short(want)}\n"
                        f"  event:    {short(event)}")
            # One is missing or additional: later differences would only repeat it.
            if wrong and (want.get("symbol"), want.get("name"), want.get("type")) != \
                    (event.get("symbol"), event.get("name"), event.get("type")):
                break


def is_driver(event):
    return event["type"] == "scheduler" or (event["type"] == "kernel" and event["op"] != "launch")


def check_times(calls, driver):
    by_id = {c["id"]: c for c in calls}
    spent = collections.Counter()
    for e in driver:
        call = by_id.get(e.get("call_id"))
        if not call or e["type"] != "kernel" or "duration_us" not in e:
            continue
        if e["ts"] < call["ts"] - 1e-6 or ("duration_us" in call and
                e["ts"] + e["duration_us"] / 1e3 > call["ts"] + call["duration_us"] / 1e3 + 3e-6):
            problem(f"not within its call: {short(e)}\n  call: {short(call)}")
        while call:
            spent[call["id"]] += e["duration_us"] if e["op"] == "ioctl" else 0
            call = by_id.get(call.get("parent"))
    for c in calls:
        # Six digits.
        if abs(c.get("ioctl_us", 0) - spent[c["id"]]) > 0.01 + spent[c["id"]] * 1e-5:
            problem(f"ioctl_us is not {spent[c['id']]:.3f}: {short(c)}")


def check_chrome(path, calls, driver):
    with open(path, encoding="utf-8") as f:
        events = json.load(f)
    events = events["traceEvents"] if isinstance(events, dict) else events
    slices = [e for e in events if e.get("ph") == "X"]
    ours = [s for s in slices if "device" in s.get("args", {})]
    if len(ours) != sum(e["type"] == "kernel" for e in driver):
        problem(f"chrome: {len(ours)} slices of the driver")
    rows = collections.defaultdict(list)
    for s in slices:
        rows[s["pid"], s["tid"]].append(s)
    nested = 0
    for row in rows.values():
        # The longer comes first if two begin together; a stack of open ones.
        row.sort(key=lambda s: (s["ts"], -s["dur"]))
        open_ = []
        for s in row:
            while open_ and open_[-1]["ts"] + open_[-1]["dur"] <= s["ts"] + 1e-3:
                open_.pop()
            if open_ and s["ts"] + s["dur"] > open_[-1]["ts"] + open_[-1]["dur"] + 2e-3:
                problem(f"chrome: {s['name']} ends after {open_[-1]['name']}, in which it began")
            if "device" in s.get("args", {}):
                call = s["args"].get("call")
                outer = open_[-1]["name"] if open_ else None
                if call != outer:
                    problem(f"chrome: {s['name']} is in {outer}, not in {call}")
                nested += call is not None
            open_.append(s)
    if nested != sum(e["type"] == "kernel" and "call_id" in e for e in driver):
        problem(f"chrome: {nested} slices of the driver are inside calls")


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    options = {a for a in sys.argv[1:] if a.startswith("--")}
    if len(args) not in (2, 3) or options - {"--no-calls", "--only"}:
        sys.exit(__doc__)
    trace, expected = read(args[0]), read(args[1])
    calls = sorted((e for e in trace if "symbol" in e), key=lambda e: (e["ts"], e["id"]))
    # Stable sort: a scheduler request comes before its ioctl of the same time.
    driver = sorted((e for e in trace if is_driver(e)), key=lambda e: e["ts"])
    if "--only" in options:
        pids = {e["pid"] for e in expected}
        calls = [e for e in calls if e["pid"] in pids]
        driver = [e for e in driver if e["pid"] in pids]
    ids = {}
    want_calls = [e for e in expected if "symbol" in e]
    if "--no-calls" not in options:
        compare("CUDA calls", want_calls, calls, ids, True)
    want_driver = [e for e in expected if "symbol" not in e]
    compare("system calls", want_driver, driver, ids, False)
    if not want_driver:
        problem("nothing is expected")
    check_times(calls, driver)
    if len(args) > 2:
        check_chrome(args[2], calls, driver)
    for text in problems[:SHOWN]:
        print(text)
    if problems:
        print(f"{len(problems)} differences between {args[0]} and {args[1]}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
