# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""Reports of random traces (tests/oracle/generate.py) against an independent reader of the same lines (tests/oracle/oracle.py)."""
import collections
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


def test_the_order_of_lines_with_equal_ends(tmp_path):
    """Lines with equal ends may come in any order, and a thread's lines may be in another thread's file: the report must be the same."""
    rng = random.Random(5)
    for seed in range(1, 6):
        lines = generate.trace(seed)
        ends = [oracle.span(x)[1] for x in lines[1:-1]]
        order = sorted(range(len(ends)), key=lambda i: (lines[1 + i]["type"] == "gpu", ends[i], rng.random()))
        shuffled = [lines[0], *(lines[1 + i] for i in order), lines[-1]]
        one, other = (report_of(write(tmp_path / f"{name}.jsonl", x)) for name, x in (("one", lines), ("other", shuffled)))
        for report in (one, other):
            report["overview"]["processes"].sort(key=lambda x: x["pid"])
        for section in ("overview", "waits", "stages", "transfers", "kernels", "longest"):
            assert one[section] == other[section], section


def shares(node, path=""):
    """(path, value) of every share in a report."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if str(key).endswith("share") and isinstance(value, (int, float)):
            yield f"{path}.{key}", value
        yield from shares(value, f"{path}.{key}")


def test_any_order_of_lines(tmp_path):
    """With reversed or shuffled lines, no share may exceed 1, and idle time must not exceed the time that there was."""
    rng = random.Random(6)
    for seed in range(1, 7):
        lines = generate.trace(seed)
        for body in (lines[-2:0:-1], rng.sample(lines[1:-1], len(lines) - 2)):
            report = report_of(write(tmp_path / "t.jsonl", [lines[0], *body, lines[-1]]))
            assert not [(path, x) for path, x in shares(report) if not 0 <= x <= 1.000001], seed
            idle = report["idle"]
            assert idle["total_ns"] <= idle["span_ns"] <= report["overview"]["wall_ns"] * len(report["overview"]["processes"]), seed


def by_thread(lines, order):
    """Lines in another order that keeps each thread's own order; calls come before GPU lines."""
    mine = collections.defaultdict(list)
    for x in lines:
        mine[x["type"] == "gpu", x["tid"]].append(x)
    return [mine[x["type"] == "gpu", x["tid"]].pop(0) for x in sorted(lines, key=order)]


def in_any_order(node):
    """The report's rows as sets, because they come in the order of discovery."""
    if isinstance(node, dict):
        return {key: in_any_order(value) for key, value in node.items()}
    return sorted(map(in_any_order, node), key=lambda x: json.dumps(x, sort_keys=True)) if isinstance(node, list) else node


def test_equal_workers(tmp_path):
    """Workers in step make the same calls at the same times. The selection among them must not depend on the order of lines."""
    for seed in (2, 3, 6, 7, 8, 9, 12):
        rng, lines = random.Random(seed), simulate.trace(simulate.plan(seed))
        reports = []
        for n in (0, 1):
            body = by_thread(lines[1:-1], lambda x: (x["type"] == "gpu", oracle.span(x)[1], n * rng.random()))
            reports.append(in_any_order(report_of(write(tmp_path / f"{n}.jsonl", [lines[0], *body, lines[-1]]))))
        for section in ("overview", "iterations", "stages", "transfers", "kernels", "waits", "longest", "timeline", "streams", "communication", "memory", "gpu", "graphs"):
            assert reports[0][section] == reports[1][section], (seed, section)


def test_lines_that_are_late(tmp_path):
    """Lines of several processors and processes come a few lines late; stages must not depend on that."""
    moved = 0
    for seed in range(1, 9):
        rng, lines = random.Random(seed), generate.trace(seed)
        body = by_thread(lines[1:-1], lambda x: (x["type"] == "gpu", oracle.span(x)[1] + (0 if x["type"] == "gpu" else 15_000 * rng.random())))
        moved += body != lines[1:-1]
        late = [lines[0], *body, lines[-1]]
        one, other = (report_of(write(tmp_path / "trace.jsonl", x)) for x in (lines, late))
        for section in ("stages", "longest"):
            assert one[section] == other[section], (seed, section)
    assert moved > 4


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
    assert not there - compared - listed
    assert len(compared & there) > 250
    unused = [x for x in derived.NOT_RECOMPUTED if not any(re.fullmatch(x, y) for y in there)]
    assert set(unused) <= {x for x in derived.NOT_RECOMPUTED if x.startswith(("gpu_stats", "serving"))}


def parts_of(lines, count):
    """Splits a trace like --max-file: each part has a header and an end, and the last end has the sums of the whole trace."""
    size, body, calls = len(lines) // count + 1, lines[1:-1], lambda x: "id" in x and x["type"] in oracle.CALLS
    for i in range(count):
        mine = body[i * size:(i + 1) * size]
        entries, unfinished = sum(map(calls, mine)), sum("unfinished" in x for x in mine)
        events = {kind: sum(x["type"] == kind for x in mine) for kind in {x["type"] for x in mine}}
        end = {**lines[-1], "events": events, "calls": entries - unfinished, "entries": entries, "unfinished": unfinished}
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
