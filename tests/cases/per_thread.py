#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares a trace (JSONL) with the mock driver's counts of each thread.

    per_thread.py [--drops] [--killed] [--left] TRACE COUNTS

COUNTS is the file that FAKE_TID_COUNTS=COUNTS wrote: per thread the calls entered, and the calls returned.
The trace must have all calls of the program (-e all), from its beginning to its end.

For each thread: calls in the trace = entered; calls with a result = returned; the others are unfinished
or abandoned. Every thread of the trace is in COUNTS.
    --drops   records were dropped, which are counted for the whole trace: each thread has at most as
              many, and all of them together lack exactly the trace's number of dropped records
    --killed  processes were killed at any moment: the driver counts a few instructions after the
              tracer's entry and before its return. So a thread may have one more call in the
              trace, or one return less
    --left    signal handlers leave calls at any moment: for the same reason a thread may have one
              more call in the trace
"""
import argparse
import collections
import json
import struct
import sys

SHOWN = 10


def driver(path):
    """{tid: [entered, returned]}: thread ids are reused, so it is not by row."""
    with open(path, "rb") as f:
        data = f.read()
    cnt, = struct.unpack_from("<Q", data)
    rows = (len(data) - 24) // 24
    if cnt > rows:
        sys.exit(f"per_thread: {cnt} threads, and {path} has room for {rows}")
    out = collections.defaultdict(lambda: [0, 0])
    for i in range(cnt):
        pid, tid, entered, returned = struct.unpack_from("<IIQQ", data, 24 + 24 * i)
        out[pid, tid][0] += entered
        out[pid, tid][1] += returned
    return out


def tracer(path):
    """{tid: [calls, with a result, unfinished or abandoned]} and the end"""
    out = collections.defaultdict(lambda: [0, 0, 0])
    with open(path, encoding="utf-8") as f:
        for line in f:
            e = json.loads(line)
            if "symbol" not in e or "id" not in e:
                continue
            t = out[e["pid"], e["tid"]]
            t[0] += 1
            t[1] += "result" in e
            t[2] += bool(e.get("unfinished") or e.get("abandoned"))
    return out, e


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--drops", action="store_true")
    ap.add_argument("--killed", action="store_true")
    ap.add_argument("--left", action="store_true")
    ap.add_argument("trace")
    ap.add_argument("counts")
    a = ap.parse_args()
    (seen, end), true = tracer(a.trace), driver(a.counts)
    wrong = [f"thread {t} is in the trace only" for t in seen if t not in true]
    slack = 1 if a.killed or a.left else 0
    lacking = 0
    for t, (entered, returned) in sorted(true.items()):
        calls, results, left = seen.get(t, (0, 0, 0))
        lacking += entered - calls
        what = f"thread {t}: {calls} calls, {results} returned, {left} left; the driver: {entered}, {returned}"
        if calls != results + left:
            wrong.append(what)
        elif a.drops:
            if calls > entered or results > returned:
                wrong.append(what)
        elif not (0 <= calls - entered <= slack and 0 <= returned - results <= (slack if a.killed else 0)):
            wrong.append(what)
    dropped = end["drops"]["calls"]
    entries = sum(e for e, _ in true.values())
    if a.drops and (lacking != dropped or entries != end["entries"]):
        wrong.append(f"{lacking} calls of {entries} are not there; the trace says {dropped} of {end['entries']}")
    if not a.drops and any(end["drops"].values()):
        wrong.append(f"dropped: {end['drops']}")
    if not true:
        wrong.append("the driver counted nothing")
    if wrong:
        sys.exit("\n".join(wrong[:SHOWN]))
    print(f"{len(true)} threads, {entries} calls, {dropped} dropped")


main()
