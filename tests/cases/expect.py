#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares a trace (JSONL) with the expectations that the traced program prints.

    expect.py [--allow-extra] [--no-queries] TRACE EXPECTED
    expect.py --counts COUNTS [--present] TRACE

EXPECTED is the stdout of a program of tests/cases: one JSON object per line; lines that do not begin
with { are skipped. Per thread, in the order in which calls began, the trace must have an event for
each. Every member named must match, objects member by member, arrays element by element. A thread
without expectations must have made no call.

    --allow-extra  other calls may come between
    --no-queries   the trace was made without --all: it has no events with "op":"query"

Members that begin with $ are not the event's:
    "$id":"a"              the id of the event matched is called a
    "$parent":"a" | null   the event's parent is the one called a; it has none
and as the value of a member:
    {"$ge":N} {"$gt":N} {"$le":N}   a number in this range
    {"$bytes":"HEX"}                text made of these bytes, with invalid UTF-8 replaced
null as value of a member also matches an event without it.

--counts compares the number of calls of each symbol with the file that the mock driver wrote
(FAKE_CUDA_COUNTS), without symbols that no tracer can record. With --present only those in the
trace: for traces of a selection.

Exit status: 0 the same, 1 different, 2 cannot compare.
"""
import argparse
import collections
import json
import re
import sys

# The first instruction of the first cannot be probed. The library in the process makes calls of the others that are not the program's.
UNSEEN = {"cuFakeLocked", "cuFuncGetParamInfo", "cuKernelGetParamInfo", "cuThreadExchangeStreamCaptureMode"}
SHOWN = 10


def lines(path):
    with open(path, encoding="utf-8", errors="strict") as f:
        for number, line in enumerate(f, 1):
            if line.startswith("{"):
                yield number, line


def read(path):
    objects = []
    for number, line in lines(path):
        try:
            obj = json.loads(line)
        except ValueError as e:
            raise SystemExit(f"expect: {path}:{number}: no JSON: {e}") from e
        obj["$line"] = number
        objects.append(obj)
    return objects


def replaced(text):
    """Decoders use different numbers of replacements for a broken sequence."""
    return re.sub("\ufffd+", "\ufffd", text)


def check_value(want, got, where):
    """Returns the error, or None."""
    if isinstance(want, dict) and len(want) == 1 and next(iter(want)).startswith("$"):
        op, arg = next(iter(want.items()))
        if op == "$bytes":
            text = bytes.fromhex(arg).decode("utf-8", "replace")
            if not isinstance(got, str) or replaced(got) != replaced(text):
                return f"{where} is {got!r}, not {text!r}"
            return None
        number = isinstance(got, (int, float)) and not isinstance(got, bool)
        if op not in ("$ge", "$gt", "$le"):
            return f"{where}: no such comparison: {op}"
        if not number or not {"$ge": got >= arg, "$gt": got > arg, "$le": got <= arg}[op]:
            return f"{where} is {got!r}, not {op[1:]} {arg}"
        return None
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return f"{where} is {got!r}, not an object"
        for key, value in want.items():
            if key.startswith("$"):
                continue
            if key not in got and value is not None:
                return f"{where}.{key} is missing, not {value!r}"
            wrong = check_value(value, got.get(key), f"{where}.{key}")
            if wrong:
                return wrong
        return None
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{where} is {got!r}, not {want!r}"
        for i, value in enumerate(want):
            wrong = check_value(value, got[i], f"{where}[{i}]")
            if wrong:
                return wrong
        return None
    if want != got or isinstance(want, bool) != isinstance(got, bool):
        return f"{where} is {got!r}, not {want!r}"
    return None


def check_event(want, got, ids):
    wrong = check_value(want, got, "event")
    if wrong or "$parent" not in want:
        return wrong
    parent = want["$parent"]
    if parent is None:
        if got.get("parent") is not None:
            return f"parent is {got['parent']}, none expected"
    elif parent not in ids:
        return f"the parent, {parent}, was not found"
    elif got.get("parent") != ids[parent]:
        return f"parent is {got.get('parent')!r}, not {ids[parent]} ({parent})"
    return None


def short(event):
    """An event on one line, without irrelevant members."""
    shown = {k: v for k, v in event.items() if k not in ("$line", "comm", "pid", "tid")}
    text = json.dumps(shown, ensure_ascii=True)
    return text if len(text) < 600 else text[:597] + "..."


class Report:
    def __init__(self):
        self.cnt = 0

    def add(self, text):
        self.cnt += 1
        if self.cnt <= SHOWN:
            print(text)
        elif self.cnt == SHOWN + 1:
            print("... and more")


def compare_thread(key, wanted, events, allow_extra, report):
    ids = {}
    at = 0
    for want in wanted:
        first_wrong = None
        start = at
        while at < len(events):
            event = events[at]
            at += 1
            wrong = check_event(want, event, ids)
            if not wrong:
                if "$id" in want:
                    ids[want["$id"]] = event.get("id")
                break
            # Among several mismatches the one with the right name is the most useful.
            if first_wrong is None or (event.get("symbol") == want.get("symbol")
                                       and first_wrong[0].get("symbol") != want.get("symbol")):
                first_wrong = (event, wrong)
            if not allow_extra:
                break
        else:
            wrong = "no more events" if first_wrong is None else first_wrong[1]
        if wrong:
            near = f"\n  event:    {short(first_wrong[0])}" if first_wrong else ""
            report.add(f"thread {key[1]}: expectation {want['$line']}: {wrong}\n"
                       f"  expected: {short(want)}{near}")
            if allow_extra:
                at = start
            elif first_wrong and first_wrong[0].get("symbol") != want.get("symbol"):
                # One missing or one too many: the following errors would only repeat it.
                return
    if not allow_extra:
        for event in events[at:]:
            report.add(f"thread {key[1]}: not expected: {short(event)}")


def by_thread(objects):
    threads = collections.defaultdict(list)
    for obj in objects:
        threads[(obj.get("pid"), obj.get("tid"))].append(obj)
    return threads


def compare(opts):
    calls = [e for e in read(opts.trace) if "symbol" in e]
    wanted = read(opts.expected)
    if opts.no_queries:
        wanted = [w for w in wanted if w.get("op") != "query"]
    report = Report()
    calls.sort(key=lambda e: (e["ts"], e.get("id", 0)))
    calls = by_thread(calls)
    wanted = by_thread(wanted)
    for key in sorted(set(calls) | set(wanted)):
        compare_thread(key, wanted.get(key, []), calls.get(key, []), opts.allow_extra, report)
    if report.cnt:
        print(f"{report.cnt} differences between {opts.trace} and {opts.expected}")
    return report.cnt


def compare_counts(opts):
    got = collections.Counter(e["symbol"] for e in read(opts.trace) if "symbol" in e)
    want = collections.Counter()
    with open(opts.counts, encoding="ascii") as f:
        for line in f:
            symbol, cnt = line.split()
            want[symbol] += int(cnt)
    report = Report()
    for symbol in sorted(set(got) | set(want)):
        if symbol in UNSEEN or (opts.present and symbol not in got):
            continue
        if got[symbol] != want[symbol]:
            report.add(f"{symbol}: {got[symbol]} in the trace, {want[symbol]} made")
    return report.cnt


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allow-extra", action="store_true")
    parser.add_argument("--no-queries", action="store_true")
    parser.add_argument("--counts")
    parser.add_argument("--present", action="store_true")
    parser.add_argument("trace")
    parser.add_argument("expected", nargs="?")
    opts = parser.parse_args()
    if not opts.expected and not opts.counts:
        parser.error("EXPECTED or --counts is needed")
    try:
        differences = compare_counts(opts) if opts.counts else 0
        if opts.expected:
            differences += compare(opts)
    except (OSError, UnicodeError) as e:
        print(f"expect: {e}", file=sys.stderr)
        return 2
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
