# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""Reports of random traces (tests/oracle/generate.py) against an independent reader of the same lines (tests/oracle/oracle.py)."""
import glob
import json
import os
import random
import re
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "oracle"))
import derived  # noqa: E402
import generate  # noqa: E402
import oracle  # noqa: E402
import simulate  # noqa: E402


def report_of(*files):
    return json.loads(subprocess.run([os.environ["CUDATRACE"], "report", "--format=json", *files], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout)


def write(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    return str(path)


def differences(seeds, folder):
    """The differences by seed, and how many numbers were compared."""
    found, compared = {}, 0
    for seed in seeds:
        lines = generate.trace(seed)
        d = oracle.check(lines, report_of(write(folder / "trace.jsonl", lines)))
        compared += d.compared
        if d:
            found[seed] = d[:5]
    return found, compared


def test_random_traces(tmp_path):
    found, compared = differences(range(1, 31), tmp_path)
    assert not found
    assert compared > 30 * 300


@pytest.mark.long
def test_many_random_traces(tmp_path):
    found, _ = differences(range(31, 1031), tmp_path)
    assert not found


def test_processes_that_make_calls(tmp_path):
    """A shell and its children are in the trace, but make no calls: they must not count as callers."""
    lines = generate.trace(2)
    callers = {x["pid"] for x in lines if "id" in x}
    forks = [{"ts": 0.1, "type": "process", "op": "fork", "name": "fork", "pid": 9000 + i, "tid": 9000 + i, "comm": "sh", "parent_pid": 9000} for i in range(130)]
    path = write(tmp_path / "trace.jsonl", [lines[0], *forks, *lines[1:]])
    text = subprocess.run([os.environ["CUDATRACE"], "report", "--full", path], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout
    assert re.search(r"by (\d+) process(?:es)? \(", text.replace("\n", " "))[1] == str(len(callers))
    assert len(report_of(path)["overview"]["processes"]) > 130


def test_iterations_of_ranks_agree(tmp_path):
    """The same loop in two processes must give the same iterations. One loads a module in its first iteration, which is its warm-up."""
    m = generate.Machine(random.Random(3))
    for pid in (1000, 2000):
        t = generate.Thread(m, pid, pid, 0, "0x100", 20)
        t.launches, t.copy, t.products, t.whole = 5, 0, False, False
        for i, _ in enumerate(t.run()):
            if i == 0 and pid == 2000:
                m.call(t, *t.took(2000, 3000), "module", "load", "cuModuleLoadData", args={})
    report = report_of(write(tmp_path / "trace.jsonl", generate.in_order(m, t.now, 3)))
    assert {x["pid"]: (x["iterations"], x["warmup"]) for x in report["compared"]} == {1000: (20, 0), 2000: (20, 1)}


def small_trace(*calls):
    """A trace of calls (thread, begin and end in ns), in the given order."""
    body = [{"ts": a / 1e6, "type": "transfer", "op": "copy", "name": "cuMemcpyHtoD", "symbol": "cuMemcpyHtoD", "pid": 7, "tid": tid, "comm": "sim", "id": i + 1,
             "duration_us": (b - a) / 1e3, "result": 0, "size": 4096, "direction": "HtoD", "args": {}} for i, (tid, a, b) in enumerate(calls)]
    head, *_, tail = generate.trace(1)
    end = max(b for _, _, b in calls) / 1e6
    return [head, *body, {**tail, "ts": end, "wall_ms": end, "events": {"transfer": len(body)}, "calls": len(body), "entries": len(body), "unfinished": 0}]


def test_a_call_that_began_first_returns_later(tmp_path):
    """The picture must begin with the call that began first, not with the first line; steps are halved and moved as calls come."""
    slow, fast = (7, 1_000_500, 3_000_000), (8, 2_900_100, 2_950_000)
    for calls in ([fast, slow], [fast, slow, (8, 900_000_000, 900_000_100)], [(7, 5_000_000, 5_000_100), (8, 1_000_000, 5_000_200), (9, 1, 5_000_300)]):
        lines = small_trace(*calls)
        report = report_of(write(tmp_path / "trace.jsonl", lines))
        assert oracle.check(lines, report) == []
        t = report["timeline"]
        for tid in {x[0] for x in calls}:
            mine, row = [(a, b) for x, a, b in calls if x == tid], next(r for r in t["rows"] if r["tid"] == tid)
            for i, busy in enumerate(row["busy"]):
                begin = t["first_ts"] * 1e6 + i * t["step_ns"]
                assert abs(busy * t["step_ns"] - sum(max(0, min(b, begin + t["step_ns"]) - max(a, begin)) for a, b in mine)) < 1, (tid, i)


def shifted(lines, ms):
    """As in a file of the daemon: ts counts from the daemon's start, and the header has the beginning of the file."""
    head, *rest = lines
    return [{**head, "begin_ns": round(ms * 1e6)}, *({**x, "ts": round(x["ts"] + ms, 6), **({"gpu_start": round(x["gpu_start"] + ms, 6)} if "gpu_start" in x else {})} for x in rest)]


def unlike(one, other, ms, name=""):
    """Members that differ; times on the lines' clock are ms later in the other report."""
    if isinstance(one, (dict, list)) and type(one) is type(other) and len(one) == len(other):
        pairs = [(k, v, other.get(k)) for k, v in one.items()] if isinstance(one, dict) else [(name, x, y) for x, y in zip(one, other)]
        return [x for k, v, w in pairs for x in unlike(v, w, ms, k)]
    if re.search("(^|_)ts$", name) and one is not None and other is not None:
        return [(name, one, other)] if abs(other - ms - one) > 1e-5 else []
    return [(name, one, other)] if one != other else []


@pytest.mark.parametrize("name", ["generated", "simulated", "out-of-memory", "copies-beside", "endless"])
def test_files_of_a_daemon(tmp_path, name):
    """A report for people counts from the beginning of the file. Its JSON has the ts of lines."""
    lines = {"generated": lambda: generate.trace(3), "simulated": lambda: simulate.trace(simulate.plan(4))}.get(name, lambda: oracle.read(f"{TESTS}/corpus/{name}.jsonl.zst"))()
    lines = [x for x in lines if x["ts"] >= 0]
    ms, reports, texts = 2 ** 30, [], []  # 12 days: a multiple of all steps of pictures
    for x in (lines, shifted(lines, ms)):
        path = write(tmp_path / "t.jsonl", x)
        reports.append(without_files(report_of(path)))
        texts.append(subprocess.run([os.environ["CUDATRACE"], "report", "-q", "--full", "--width", "120", path], check=True, stdout=subprocess.PIPE, text=True).stdout)
    assert texts[0] == texts[1]
    assert unlike(*reports, ms) == []
    assert unlike(*reports, ms + 1)


def shares(node, path=""):
    """(path, value) of every share in a report."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if str(key).endswith("share") and isinstance(value, (int, float)):
            yield f"{path}.{key}", value
        yield from shares(value, f"{path}.{key}")


def orders(lines, rng):
    """The same lines in other orders: by start, by end, late by up to 10 us, 1 ms and 100 ms, and all of them shuffled."""
    head, *body, end = lines
    now, written = 0, []
    for x in body:
        now = now if x["type"] in ("gpu", "stack") else max(now, oracle.span(x)[1])
        written.append(now)
    places = range(len(body))
    late = [sorted(places, key=lambda i: written[i] + w * rng.random()) for w in (10_000, 1_000_000, 100_000_000)]
    by_time = [sorted(places, key=lambda i: oracle.span(body[i])[at]) for at in (0, 1)]
    for order in (*by_time, *late, rng.sample(places, len(body)), places[::-1]):
        yield [head, *(body[i] for i in order), end]


def without_files(report):
    return {key: value for key, value in report.items() if key != "files"}


def differing(one, other):
    return [key for key in one.keys() | other.keys() if one.get(key) != other.get(key)]


def test_any_order_of_lines(tmp_path):
    """The report must not depend on the order of lines: every member must be equal."""
    moved = 0
    for seed in (1, 2, 3, 6, 8, 12):
        for kind, lines in (("generated", generate.trace(seed)), ("simulated", simulate.trace(simulate.plan(seed)))):
            one = without_files(report_of(write(tmp_path / "t.jsonl", lines)))
            assert not [(path, x) for path, x in shares(one) if not 0 <= x <= 1.000001], seed
            for i, other in enumerate(orders(lines, random.Random(seed))):
                moved += other != lines
                assert not differing(one, without_files(report_of(write(tmp_path / "t.jsonl", other)))), (kind, seed, i)
    assert moved > 70


@pytest.mark.parametrize("name", ["graph-loop", "convolutions", "copies-beside", "out-of-memory", pytest.param("ranks-2", marks=pytest.mark.long)])
def test_any_order_of_real_lines(tmp_path, name):
    lines = oracle.read(f"{TESTS}/corpus/{name}.jsonl.zst")
    one = without_files(report_of(write(tmp_path / "t.jsonl", lines)))
    for i, other in enumerate(orders(lines, random.Random(name))):
        assert not differing(one, without_files(report_of(write(tmp_path / "t.jsonl", other)))), i


def test_lines_too_far_from_their_places(tmp_path):
    """Lines are sorted within a window of 32 MiB. A report of lines that are farther away must be marked incomplete."""
    head, *body, end = generate.trace(1)
    calls = [x for x in body if "id" in x]
    pad = {"ts": calls[-1]["ts"] + 1, "type": "process", "op": "exec", "name": "exec", "pid": 9, "tid": 9, "comm": "sim", "args": ["x" * 500_000]}
    for size, lost in ((10, []), (90, [{"id": "unsorted_lines", "count": 1}])):
        lines = [head, *body[:-1], *[{**pad, "ts": pad["ts"] + i} for i in range(size)], {**calls[-1], "ts": pad["ts"], "id": 10 ** 6}, calls[0], end]
        lines.remove(calls[0])
        end["events"] = {kind: sum(x["type"] == kind for x in lines[1:-1]) for kind in {x["type"] for x in lines[1:-1]}}
        end["calls"] = end["entries"] = sum("id" in x for x in lines)
        report = report_of(write(tmp_path / "t.jsonl", [*lines[:-1], end]))
        assert [{"id": x["id"], "count": x["count"]} for x in report["lost"]] == lost, size


def numbers(node):
    if isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from numbers(value)
    elif getattr(node, "path", None):
        yield node.path.removeprefix("report.")


def test_every_number_is_compared_or_listed(tmp_path):
    """Every number of the report must be recomputed, or be in derived.NOT_RECOMPUTED with the reason."""
    there, compared = set(), set()
    traces = [(path, oracle.read(path)) for path in [f"{TESTS}/corpus/{x}.jsonl.zst" for x in ("graph-loop", "convolutions", "out-of-memory", "copies-beside", "ranks-2")] +
              glob.glob(f"{TESTS}/golden/*.jsonl")]
    for seed in range(1, 11):
        for lines in (generate.trace(seed), simulate.trace(simulate.plan(seed))):
            traces.append((write(tmp_path / f"{len(traces)}.jsonl", lines), lines))
    for path, lines in traces:
        report = report_of(path)
        there |= set(numbers(oracle.located(report)))
        compared |= {x.removeprefix("report.") for x in oracle.check(lines, report).paths if x}
    listed = {x for x in there for pattern in derived.NOT_RECOMPUTED if re.fullmatch(pattern, x)}
    assert sorted(there - compared - listed) == []
    assert len(compared & there) > 250
    unused = [x for x in derived.NOT_RECOMPUTED if not any(re.fullmatch(x, y) for y in there)]
    assert set(unused) <= {x for x in derived.NOT_RECOMPUTED if x.startswith(("gpu_stats", "network", "serving"))}


def parts_of(lines, count):
    """Splits a trace like --max-file: each part has a header and an end, and the last end has the sums of the whole trace."""
    size, body, calls = len(lines) // count + 1, lines[1:-1], lambda x: "id" in x and x["type"] in oracle.CALLS
    for i in range(count):
        mine = body[i * size:(i + 1) * size]
        entries, unfinished = sum(map(calls, mine)), sum("unfinished" in x for x in mine)
        events = {kind: sum(x["type"] == kind for x in mine) for kind in {x["type"] for x in mine}}
        end = {**lines[-1], "events": events, "calls": entries, "entries": entries, "unfinished": unfinished}
        if i < count - 1:
            last = max([oracle.span(x)[1] for x in mine if calls(x)] or [0]) / 1e6
            end.update(reason="max-file", ts=last, wall_ms=last)
        yield [{**lines[0], **({"segment": i} if i else {})}, *mine, end]


def test_one_file_parts_and_sorted_members(tmp_path):
    """One file, its parts in any order, and lines with sorted members must give the same report."""
    for seed in range(1, 6):
        for name, lines in (("generated", generate.trace(seed)), ("simulated", simulate.trace(simulate.plan(seed)))):
            one = report_of(write(tmp_path / "one.jsonl", lines))
            parts = [write(tmp_path / ("trace.jsonl", "trace.1.jsonl", "trace.2.jsonl")[i], x) for i, x in enumerate(parts_of(lines, 3))]
            members = write(tmp_path / "members.jsonl", [dict(sorted(x.items())) for x in lines])
            # Names without cudatrace's numbers: the headers have the numbers too.
            named = [write(tmp_path / f"part{2 - i}.jsonl", x) for i, x in enumerate(parts_of(lines, 3))]
            for files in ([members], parts, parts[::-1], named, named[::-1], [named[1], named[0], named[2]]):
                other = report_of(*files)
                assert [k for k in one if k != "files" and one[k] != other[k]] == [], (name, seed, files)
