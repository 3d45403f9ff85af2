#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares a trace of tests/vm/guest/drive.c with the output of drive, event by event:

    compare.py probe|tracepoint EXPECTED TRACE

probe: recorded by kprobe or fentry, on the driver's own functions: file numbers are unknown, polls are recorded.
tracepoint: at system calls. Each thread's events must be just those expected, in that order, and have the fields
that drive printed; and each event of a CUDA call must lie within it. By tracepoint a preemptible kernel may lose some (it skips the program
of one system call that interrupts that of another): at most as many as the trace counts as lost. Prints differences; then the exit status
is 1.

    compare.py same TRACE TRACE...

Compares traces of the same run by different mechanisms: the same events, except for times, process ids, addresses and handles, and events
that a trace by tracepoint counts as lost.
"""
import collections, json, sys

OPS = ("ioctl", "mmap", "open", "close", "poll")
wrong = []


def say(text):
    wrong.append(text)
    if len(wrong) <= 20:
        print(text)


def lines(path):
    try:
        file = open(path, encoding="utf-8")
    except OSError as e:
        sys.exit(f"{path}: {e.strerror}")
    for number, line in enumerate(file, 1):
        try:
            yield json.loads(line)
        except ValueError as e:
            sys.exit(f"{path}:{number}: no JSON: {e}: {line[:200]!r}")


def driver_events(trace):
    return [e for e in trace if e["type"] == "uvm" or (e["type"] == "kernel" and e["op"] in OPS)]


def by_thread(events):
    threads = collections.defaultdict(list)
    for e in events:
        threads[e["tid"]].append(e)
    return threads


def lost(trace):
    """Returns how many events of the driver may be missing, by the trace's own count. Other mechanisms must lose none."""
    return trace[-1].get("drops", {}).get("driver", 0) if trace[0].get("kernel_probe") == "tracepoint" else 0


def with_gaps(few, many, equal, gaps):
    """Returns many without at most `gaps` events that few lacks at their position."""
    out = list(many)
    n = 0
    while gaps and len(out) > len(few) and n < len(out):
        if n >= len(few) or not equal(out[n], few[n]):
            del out[n]
            gaps -= 1
        else:
            n += 1
    return out


def short(e):
    return json.dumps({k: v for k, v in e.items() if k not in ("comm", "type", "pid")})


def matches(how, want, got, is_partial):
    """Returns the fields that differ. An object's class is unknown when the event that made it is lost."""
    bad = []
    for key, value in want.items():
        if key.startswith("_") or key == "only":
            continue
        if key == "fd" and how != "tracepoint":
            continue
        if key == "object_class" and is_partial and key not in got:
            continue
        if value is None:
            if key in got:
                bad.append(f"{key} is {got[key]!r}, must not be there")
        elif got.get(key) != value:
            bad.append(f"{key} is {got.get(key)!r}, not {value!r}")
    if "_min_us" in want and got.get("duration_us", 0) < want["_min_us"]:
        bad.append(f"took {got.get('duration_us')} us, at least {want['_min_us']} expected")
    return bad


def expected(how, path):
    out = []
    for e in lines(path):
        if e.get("only", how) == how:
            out += [e] * e.get("_repeat", 1)
    return out


def compare(how, want_path, trace_path):
    trace = list(lines(trace_path))
    want, got = by_thread(expected(how, want_path)), by_thread(driver_events(trace))
    if not want:
        say(f"{want_path}: nothing is expected")
    # Other programs may have used the driver, too.
    for tid in got.keys() - want.keys():
        say(f"thread {tid} was not expected: {short(got[tid][0])}")
    may = lost(trace)
    is_partial = may > 0
    for tid, ws in want.items():
        gs = sorted(got.get(tid, []), key=lambda e: e["ts"])
        made = len(ws)
        ws = with_gaps(gs, ws, lambda w, g: not matches(how, w, g, is_partial), may)
        may -= made - len(ws)
        for n, (w, g) in enumerate(zip(ws, gs)):
            bad = matches(how, w, g, is_partial)
            if bad:
                say(f"thread {tid}, event {n}: {'; '.join(bad)}\n  expected {short(w)}\n  trace    {short(g)}")
                if w["op"] != g["op"] or w.get("cmd") != g.get("cmd"):
                    say(f"thread {tid}: not compared further")
                    break
        if len(ws) != len(gs):
            say(f"thread {tid}: {len(gs)} events, not {len(ws)}")
    calls(trace)
    end = trace[-1]
    if end["type"] != "end":
        say("the trace has no end")
    # A preemptible kernel may skip a program for a fork or a new thread name, which is counted, and no call is lost. By tracepoint,
    # losses were compared with missing events above; they may belong to any process.
    elif end["bad_records"] or any(n for kind, n in end["drops"].items() if kind != "tasks" and
                                   not (kind == "driver" and lost(trace))):
        say(f"drops: {end['drops']}, bad records: {end['bad_records']}")


def calls(trace):
    """Requests within a CUDA call must belong to the call, which counts them."""
    by_id = {e["id"]: e for e in trace if "symbol" in e}
    ioctls = collections.Counter()
    for e in driver_events(trace):
        if "call_id" not in e:
            continue
        c = by_id.get(e["call_id"])
        if not c:
            say(f"call {e['call_id']} is not in the trace: {short(e)}")
            continue
        if e["tid"] != c["tid"] or e.get("call") != c["name"]:
            say(f"not of call {c['id']}, {c['name']}: {short(e)}")
        if "duration_us" in c and not c["ts"] <= e["ts"] <= c["ts"] + c["duration_us"] / 1000:
            say(f"not within call {c['id']}: {short(e)}")
        ioctls[c["id"]] += e["op"] == "ioctl"
    for i, c in by_id.items():
        if c.get("ioctls", 0) != ioctls[i]:
            say(f"call {i}, {c['name']}: says {c.get('ioctls', 0)}, {ioctls[i]} are in the trace")


# Values that differ in each run.
OWN = ("ts", "pid", "tid", "duration_us", "call_id", "fd", "ptr", "client", "new", "comm", "object", "result", "parent",
       "target_fd", "address")


def same(paths):
    def shape(trace, without=OWN):
        threads = by_thread(e for e in driver_events(trace) if e["op"] != "poll").values()
        # Threads have no order.
        return sum(sorted([short({k: v for k, v in e.items() if k not in without})
                           for e in sorted(es, key=lambda e: e["ts"])] for es in threads), [])

    first_trace = list(lines(paths[0]))
    if not shape(first_trace):
        say(f"{paths[0]}: no events of the driver")
    for path in paths[1:]:
        trace = list(lines(path))
        without = (*OWN, "object_class") if lost(trace) else OWN
        first, other = shape(first_trace, without), shape(trace, without)
        there = with_gaps(other, first, lambda a, b: a == b, lost(trace))
        for n, (a, b) in enumerate(zip(there, other)):
            if a != b:
                say(f"event {n}:\n  {paths[0]} {a}\n  {path} {b}")
                break
        if len(there) != len(other):
            say(f"{len(there)} events in {paths[0]}, {len(other)} in {path}")


if len(sys.argv) >= 4 and sys.argv[1] == "same":
    same(sys.argv[2:])
elif len(sys.argv) == 4 and sys.argv[1] in ("probe", "tracepoint"):
    compare(*sys.argv[1:])
else:
    sys.exit(__doc__)
sys.exit(1 if wrong else 0)
