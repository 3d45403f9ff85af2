# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 20
"""report --budget and --make-budget: each limit must hold at its value and be broken below it; formats, statuses, bad budgets; diff --budget
and --runs: changes, with the noise of several runs, against a computation of its own."""
import json
import math
import re
import statistics
import subprocess
import time
import xml.etree.ElementTree as ET

import pytest
from helpers.run import CUDATRACE, FAKE, TESTS, Ran, cudatrace, needs_tracing

CORPUS = TESTS + "/corpus/"
GRAPH = CORPUS + "gpt2-graph.jsonl.zst"
RANKS = CORPUS + "ranks-2.jsonl.zst"
SERVING = CORPUS + "vllm-graphs.jsonl.zst"
DROPPED = CORPUS + "dropped.jsonl.zst"
with open(TESTS + "/../src/budget/limits.def", encoding="utf-8") as f:
    LIMITS = re.findall(r'^LIMIT\((\w+), "([^"]*)", (\w+), (?:"[^"]*"|ALL_CLASSES), "([^"]*)", "([^"]*)"\)', f.read(), re.M)


def zlines(path):
    return subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True, text=True).stdout.splitlines()


def check(tmp_path, budget, trace, *args):
    """Writes a budget, and compares a trace with it."""
    path = tmp_path / "budget.yaml"
    path.write_text(budget if isinstance(budget, str) else json.dumps(budget), encoding="utf-8")
    return Ran([CUDATRACE, "report", "--budget", path, *args, trace])


def result(tmp_path, budget, trace):
    ran = check(tmp_path, budget, trace, "--format=json")
    found = json.loads(ran.out)
    assert ran.status == (3 if found["broken"] else 0), ran.err
    assert found["broken"] == sum(x["state"] != "held" for x in found["limits"])
    return found["limits"]


def rows_of(of, names, member):
    return [x for x in of or [] if not names or x[member] in names]


def statistic(values, of):
    """Of rows, by nearest rank like the report's percentiles; None without rows."""
    ranks = {"median": 0.5, "p95": 0.95, "p99": 0.99}
    if of in ranks:
        return sorted(values)[max(math.ceil(ranks[of] * len(values)), 1) - 1] if values else None
    return {"max": max, "min": min, "total": sum, "mean": statistics.mean}[of](values) if values else None


def value(report, scope, name, key):
    """What a limit compares, by code of its own: from the report's JSON, which other suites compare with the traces."""
    o, it = report["overview"], report["iterations"]
    t, gpu = report.get("transfers") or {}, report["gpu"]["devices"]
    if scope == "ITERATION":
        members = {"launches": "kernels", "graph_launches": "graph_launches", "calls": "calls", "bytes_htod": "htod_bytes",
                   "bytes_dtoh": "dtoh_bytes", "time": "time_ns", "launch_time": "launch_ns", "wait_time": "sync_ns"}
        return it[members[name]]["median" if name.endswith("time") else "max"]
    if scope == "STEP":
        member = {"graph_launches": "graphs", "time": "duration_ns", "wait_time": "sync_ns", "gpu_time": "gpu_ns"}.get(name, name)
        steps = [x[member] for x in (report.get("serving") or {"list": []})["list"] if x["phase"] == key and not x.get("setup")]
        return statistic(steps, "median" if name.endswith("time") else "max")
    if scope == "FUNCTION":
        rows = rows_of(report["map"].get("functions"), [key], "name")
        found = [x["passes"] if name == "count" else x["total"].get({"time": "host_ns", "gpu_time": "gpu_ns"}.get(name, name)) for x in rows]
        return None if None in found or not found else sum(found)
    if scope in ("STAGE", "RANGE", "OPERATOR"):
        rows, of = {"STAGE": (report["stages"]["list"], "stage"), "RANGE": ((report.get("ranges") or {}).get("list"), "text"),
                    "OPERATOR": ((report.get("operators") or {}).get("list"), "name")}[scope]
        member = {"time": "wall_ns" if scope == "STAGE" else "total_ns", "call_time": "call_ns", "gpu_time": "gpu_ns"}.get(name, name)
        found = rows_of(rows, [key], of)
        return sum(x[member] for x in found) if found else None
    copies = {"copies": None, "bytes": None, "htod": "HtoD", "dtoh": "DtoH", "dtod": "DtoD", "peer": "peer"}
    if name in ("copies", "bytes") or re.match("(copies|bytes)_", name):
        what, _, way = name.partition("_")
        return sum(x["count" if what == "copies" else "bytes"] for x in t["directions"] if not way or x["direction"] == copies[way])
    return {
        "calls": o["calls"], "launches": o["launches"], "graph_launches": o["graph_launches"], "errors": o["errors"], "unfinished": o["unfinished"],
        "waits": report["waits"]["count"], "wait_time": report["waits"]["total_ns"], "pageable_copies": t["pageable"]["count"],
        "allocations": sum(x["allocs"] for x in report["memory"]["kinds"]), "memory_peak": report["memory"]["peak_bytes"],
        "memory_not_freed": report["memory"]["leak_bytes"],
        "module_loads": sum(x["count"] for x in o["functions"] if re.match("cu(Module|Library)Load", x["name"])),
        "unnamed_kernels": report["kernels"]["unnamed"], "graph_instantiations": report["graphs"]["instantiations"],
        "collectives": report["communication"]["calls"] or None, "time": o["wall_ns"], "tracing_overhead": o["cost_share"],
        "exposed_communication": sum(x["alone_ns"] for x in gpu) if gpu else None, "gpu_idle": sum(x["idle_ns"] for x in gpu) if gpu else None,
    }[name]


def entries(report, trace):
    """(scope, limit, unit, name, value) for all limits, with names of the trace and one that it lacks."""
    names = {"STAGE": [x["stage"] for x in report["stages"]["list"]][:3] + ["none"], "RANGE": [x["text"] for x in (report.get("ranges") or {"list": []})["list"] if x["text"]][:3] + ["none"],
             "OPERATOR": [x["name"] for x in (report.get("operators") or {"list": []})["list"]][:3] + ["none"],
             "FUNCTION": [x["name"] for x in report["map"].get("functions") or []][2:5] + ["none"], "STEP": ["prefill", "decode", "none"]}
    for scope, limit, unit, _, _ in LIMITS:
        for name in names.get(scope, [None]):
            yield scope, limit, unit, name, value(report, scope, limit, name)


def written(x, unit):
    return f"{x}" if unit in ("COUNT", "BYTES") else f"{x / 1e3:.3f}us" if unit == "TIME" else f"{x * 100:.9f}%"


@pytest.mark.parametrize("trace", [GRAPH, RANKS, SERVING, CORPUS + "graph-loop.jsonl.zst", CORPUS + "gpt2-eager.jsonl.zst"])
def test_values(trace, tmp_path):
    """Each limit has the value of a second computation, holds at it and is broken below it."""
    report = json.loads(Ran([CUDATRACE, "report", "--json", trace]).out)
    rows = list(entries(report, trace))
    assert len({(scope, limit) for scope, limit, *_ in rows}) == len(LIMITS)
    for below in False, True:
        budget, want = [], []
        for scope, limit, unit, name, x in rows:
            if below and not x:
                continue
            less = x or 0
            if below:
                less = x - 1 if unit in ("COUNT", "BYTES") else x * 0.99
            budget.append({"per": scope.lower(), limit: written(less, unit) if x or unit != "TIME" else "0", **({"name": name} if name else {})})
            want.append("not measured" if x is None else "exceeded" if below else "held")
        if not below:  # a time is read in whole nanoseconds, and a share as it is printed
            for entry, (*_, x) in zip(budget, rows):
                for limit in {"tracing_overhead"} & entry.keys():
                    entry[limit] = f"{x * 101:.6f}%"
        found = result(tmp_path, {"limits": budget}, trace)
        assert [(x["limit"], x["state"]) for x in found] == [([k for k in e if k not in ("per", "name")][0], w) for e, w in zip(budget, want)]
        for x, (*_, unit, _, v) in zip(found, [r for r in rows if not below or r[-1]]):
            assert v is None or x["value"] == pytest.approx(v, rel=1e-5), x


def test_statistics(tmp_path):
    report = json.loads(Ran([CUDATRACE, "report", "--json", GRAPH]).out)["iterations"]["time_ns"]
    for of in "max", "median", "p95", "p99", "mean", "min", "total":
        found = result(tmp_path, f"limits: [{{per: iteration, of: {of}, time: 0}}]", GRAPH)
        assert found[0]["of"] == of and found[0]["value"] == report[of]


@pytest.mark.parametrize("trace", [GRAPH, RANKS])
def test_made(trace, tmp_path):
    """A trace keeps the budget that was made of it, also with its times, and another one does not."""
    made = Ran([CUDATRACE, "report", "--make-budget", trace])
    assert made.status == 0 and "limits:" in made.out
    assert check(tmp_path, made.out, trace).status == 0
    with_times = re.sub(r"^    # (\w+: )", r"    \1", made.out, flags=re.M)
    assert with_times != made.out and check(tmp_path, with_times, trace).status == 0
    other = check(tmp_path, made.out, CORPUS + "gpt2-eager.jsonl.zst")
    assert other.status == 3 and re.search(r"^launches: [\d,]+, [\d,]+ above the limit of [\d,]+ \(.*budget.yaml:\d+; overview.launches\)$", other.out, re.M)
    assert re.search(r"^\d+ of \d+ limits of .*budget.yaml (is|are) broken$", other.out.splitlines()[-1])


@pytest.mark.parametrize("text", ["\x7f", "\ufeff", "\ufffe", "\uffff"], ids=ascii)
def test_made_of_names(text, tmp_path):
    """YAML cannot have these characters: such ranges have no limits."""
    head = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0", "command": ["x"], "host": "h", "kernel": "6.1", "machine": "x86_64",
            "mechanism": "uprobe.session", "degraded": [], "clock": "CLOCK_MONOTONIC", "clock_base_ns": 10**9, "wall_time": "2026-01-01T00:00:00.000000000Z"}
    ranges = [{"ts": i, "type": "range", "op": "range", "name": "nvtx", "pid": 1, "tid": 1, "comm": "x", "id": i, "text": name, "duration_us": 5}
              for i, name in enumerate(("forward", "forward" + text), 1)]
    trace = tmp_path / "named.jsonl"
    trace.write_text("".join(json.dumps(x) + "\n" for x in [head, *ranges]), encoding="utf-8")
    made = Ran([CUDATRACE, "report", "--make-budget", trace])
    assert made.status == 0 and made.out.count("per: range") == 1 and text not in made.out
    ran = check(tmp_path, made.out, trace)
    assert ran.status == 3 and "count of range 'forward': at least 1" in ran.out


def test_losses(tmp_path):
    """What is missing might exceed a limit."""
    budget = "limits: [{launches: 100000000, tracing_overhead: 100%}]"
    ran = check(tmp_path, budget, DROPPED)
    assert ran.status == 3 and "the trace is incomplete" in ran.out
    assert [x["state"] for x in result(tmp_path, budget, DROPPED)] == ["incomplete trace", "held"]
    assert check(tmp_path, "allow_losses: true\n" + budget, DROPPED).status == 0
    assert check(tmp_path, budget, GRAPH).status == 0


# Names that end a line or a cell in one of the formats.
NAME = "a|b<c>&\"'`%\t\x1b[31m::error::*_"


LEFT_OUT = ({"counted": "launch (2 functions), memory (73 functions)"}, {"entry_only": "launch (18 functions)"}, {"min_duration_ns": 5000},
            {"traced": "transfer, launch (3 functions), memory"}, {"traced": "transfer, memory, relaunch"})


def test_made_of_incomplete(tmp_path):
    """The budget itself has the warning: with -q, nothing else has it."""
    for lost in 0, 3:
        made = Ran([CUDATRACE, "report", "-q", "--make-budget", trace_of(tmp_path / "t", 10, 100, lost)])
        assert made.status == 0 and not made.err and made.out.startswith("# INCOMPLETE: the limits are too low, because") == bool(lost), made


@pytest.mark.parametrize("header", LEFT_OUT, ids=str)
def test_left_out(header, tmp_path):
    """A limit must be broken if an option left out calls that it counts, and hold if it left out others."""
    lines = zlines(GRAPH)
    path = tmp_path / "t.jsonl"
    first = {**json.loads(lines[0]), "traced": "everything", **header}
    path.write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n", encoding="utf-8")
    limits = "limits: [{launches: 1000000000}, {copies: 1000000000}, {tracing_overhead: 100%}, {time: 1000s}]\n"
    states = {x["limit"]: x["state"] for x in result(tmp_path, limits, path)}
    copies = "not traced" if "min_duration_ns" in header else "held"
    assert states == {"launches": "not traced", "copies": copies, "tracing_overhead": "held", "time": "held"}
    option = {"counted": "--count", "entry_only": "--entry-only", "min_duration_ns": "--min-duration", "traced": "-e"}[next(iter(header))]
    assert f" {option} left out calls, so that the limit of 1,000,000,000 may be exceeded" in check(tmp_path, limits, path).out
    assert check(tmp_path, "allow_losses: true\n" + limits, path).status == 0


@pytest.mark.parametrize("args,option", [
    (["--count", "launch"], "--count"), (["--entry-only", "launch"], "--entry-only"), (["--min-duration", "1s"], "--min-duration"), (["-e", "memory"], "-e"),
    (["--start-after", "100s"], "--start-after or --capture-range"),
], ids=str)
def test_left_out_live(args, option, tmp_path):
    needs_tracing()
    trace = tmp_path / "t.jsonl"
    ran = cudatrace("-q", "--jsonl", trace, *args, "--", FAKE + "/sample", env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0, ran
    ran = check(tmp_path, "limits: [{launches: 1000000000}]\n", trace)
    assert ran.status == 3 and f"{option} left out calls" in ran.out, ran


def test_left_out_of_changes(tmp_path):
    """diff must name what was left out of each trace, and not compare iterations that were found in a part of the calls."""
    lines = zlines(GRAPH)
    end = json.loads(lines[-1])
    end["counted"] = {"cuEventRecord": {"calls": 400, "entry_only": 400}}
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join([*lines[:-1], json.dumps(end)]) + "\n", encoding="utf-8")
    assert "an iteration (median)" in Ran([CUDATRACE, "diff", GRAPH, GRAPH]).out
    ran = Ran([CUDATRACE, "diff", GRAPH, path])
    assert "Excluded by choice: in the new trace, 400 counted calls" in ran.out and "an iteration (median)" not in ran.out, ran
    found = json.loads(Ran([CUDATRACE, "diff", "--json", path, GRAPH]).out)
    assert found["chosen"] == [{"trace": "before", "what": "counted calls", "count": 400, "why": "--count or --max-overhead"}]
    budget = tmp_path / "budget.yaml"
    budget.write_text("limits: [{launches: +0}]\n", encoding="utf-8")
    ran = Ran([CUDATRACE, "diff", "--budget", budget, GRAPH, path])
    assert ran.status == 3 and "--max-overhead left out calls" in ran.out, ran
    # What the old trace left out is not a growth of the new one.
    path.write_text("\n".join([json.dumps({**json.loads(lines[0]), "counted": "launch"}), *(x for x in lines[1:] if '"type":"kernel"' not in x)]) + "\n", encoding="utf-8")
    ran = Ran([CUDATRACE, "diff", "--budget", budget, path, GRAPH])
    assert ran.status == 3 and "--count left out calls" in ran.out, ran


def test_formats(tmp_path):
    budget = {"limits": [{"per": "range", "name": NAME, "launches": 1}, {"launches": 1}, {"errors": 1000}]}
    out = {name: check(tmp_path, budget, GRAPH, "--format=" + name) for name in ("ascii", "junit", "markdown", "github", "gitlab", "json")}
    assert {x.status for x in out.values()} == {3}
    cases = ET.fromstring(out["junit"].out).findall("testsuite/testcase")
    assert len(cases) == 3 and [x.find("failure") is not None for x in cases] == [True, True, False]
    assert "a|b<c>&\"'`%" in cases[0].get("name")
    lines = out["markdown"].out.splitlines()
    assert len([x for x in lines if x.startswith("| ")]) == 3 and r"a\|b\<c>" in out["markdown"].out
    errors = out["github"].out.splitlines()
    assert len(errors) == 2 and all(x.startswith("::error title=cudatrace budget,file=") for x in errors) and "%25" in errors[0]
    assert [x["location"]["lines"]["begin"] for x in json.loads(out["gitlab"].out)] == [1, 1]
    assert len(out["ascii"].out.splitlines()) == 3 and "\x1b" not in out["ascii"].out
    held = check(tmp_path, "limits: [{errors: 1000}]", GRAPH, "--format=markdown")
    assert held.status == 0 and "none is broken" in held.out


BAD = {
    "": "a budget has the key limits",
    "limits: []": "the budget has no limits",
    "limits: 3": "limits: write one list",
    "limits: [3]": "each entry of limits has keys",
    "limits: [{per: run}]": "this entry limits nothing",
    "limits: [{per: week, launches: 1}]": "per 'week': write run, iteration, step",
    "limits: [{lunches: 1}]": "there is no limit 'lunches' per run",
    "limits: [{launches: many}]": "launches 'many': write a number",
    "limits: [{launches: -1}]": "write a number",
    "limits: [{launches: [1]}]": "write a number",
    "limits: [{time: 3}]": "write a time with its unit",
    "limits: [{memory_peak: 3 apples}]": "write a number of bytes",
    "limits: [{tracing_overhead: much}]": "write a share",
    "limits: [{tracing_overhead: +1%}]": "write a share",
    "limits: [{launches: +}]": "by how much it may grow, as in +5%",
    "limits: [{launches: +%}]": "write a number",
    "limits: [{launches: -5%}]": "write a number",
    "limits: [{time: +5}]": "write a time with its unit",
    "limits: [{launches: 5%}]": "write a number",
    "limits: [{errors: 0}, {launches: +5%}]": "budget.yaml:1: a limit on a change compares with older traces",
    "limits: [{per: step, launches: 1}]": "limits per step need its name",
    "limits: [{per: range, launches: 1}]": "limits per range need its name",
    "limits: [{name: x, launches: 1}]": "limits per run have no name",
    "limits: [{of: p95, launches: 1}]": "of 'p95': limits per iteration",
    "limits: [{per: iteration, of: p12, launches: 1}]": "of 'p12': limits per iteration and per step can be of one of: max",
    "limitations: []": "there is no key 'limitations'",
    "allow_losses: maybe": "allow_losses: write true or false",
    "limits: [": "not YAML",
    "limits: " + "[" * 200_000: "not YAML: more than 100 ",
    "\n\nlimits:\n  - launches: x": "budget.yaml:4: launches 'x'",
}


# Each of these would take minutes.
@pytest.mark.parametrize("text", ["x:\n" + "".join(f"- &a{i} 1\n" for i in range(300_000)), "x: &a 1\ny: [" + "*a, " * 900_000 + "1]",
                                  "".join(f"%TAG !{i}! a\n" for i in range(250_000)) + "---\nx: 1"], ids=["anchors", "aliases", "directives"])
def test_hostile_budgets(text, tmp_path):
    began = time.monotonic()
    ran = check(tmp_path, text, GRAPH)
    assert ran.status == 2 and ":1: not read: more than 10000 anchors" in ran.err and time.monotonic() - began < 10


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:40])
def test_bad_budgets(text, tmp_path):
    ran = check(tmp_path, text, GRAPH)
    assert ran.status == 2 and ran.out == "" and BAD[text] in ran.err and len(ran.err.splitlines()) == 1, ran.err


@pytest.mark.parametrize("args, why", [
    (["--format=junit"], "add --budget FILE"),
    (["--make-budget", "--budget", "x"], "leave one out"),
    (["--make-budget", "--full"], "prints no sections"),
    (["--budget", "x", "--section=step"], "prints no sections"),
    (["--budget", "x", "--format=html"], "--budget has no --format=html"),
    (["--make-budget", "--format=json"], "leave out --format"),
    (["--budget", "/nonexistent"], "cannot read the budget /nonexistent"),
    (["--runs", "3", "--budget", "x"], "--runs 3: give 3 traces, one of each run"),
    (["--runs", "1"], "--runs is for budgets"),
    (["--runs", "0", "--budget", "x"], "give 1 to 100"),
])
def test_options(args, why):
    ran = Ran([CUDATRACE, "report", *args, GRAPH])
    assert ran.status == 2 and why in ran.err and ran.out == ""


def test_output(tmp_path):
    ran = Ran([CUDATRACE, "report", "--make-budget", "-o", tmp_path / "made.yaml", GRAPH])
    assert ran.status == 0 and ran.out == "" and "limits:" in (tmp_path / "made.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("args, why", [
    (["--format=json", GRAPH, GRAPH], "--format of diff is for --budget"),
    (["-o", "x", GRAPH, GRAPH], "-o of diff is for --budget"),
    (["--budget", "x", GRAPH], "give two traces"),
    (["--budget", "x", "--runs", "2", GRAPH, GRAPH, GRAPH], "give 2 old traces, then 2 new ones"),
    (["--budget", "x", "--format=csv", GRAPH, GRAPH], "--budget has no --format=csv"),
])
def test_options_of_diff(args, why):
    ran = Ran([CUDATRACE, "diff", *args])
    assert ran.status == 2 and why in ran.err and ran.out == ""


def test_statistics_of_steps(tmp_path):
    """Without those of the set-up, which compile and load."""
    report = json.loads(Ran([CUDATRACE, "report", "--json", SERVING]).out)["serving"]["list"]
    steps = [x["duration_ns"] for x in report if x["phase"] == "decode" and not x.get("setup")]
    assert len(steps) > 100 and any(x.get("setup") for x in report)
    for of in "max", "median", "p95", "p99", "mean", "min", "total":
        found = result(tmp_path, f"limits: [{{per: step, name: decode, of: {of}, time: 0}}]", SERVING)[0]
        assert found["of"] == of and found["value"] == int(statistic(steps, of)) and "decode" in found["path"]


def trace_of(path, launches, us, lost=0):
    """A trace of a program with so many launches, each of which takes this time."""
    lines = [{"ts": 0.0, "type": "header", "name": "cudatrace", "schema": 2, "clock": "CLOCK_MONOTONIC", "clock_base_ns": 0}]
    lines += [{"ts": i * us / 1000, "type": "kernel", "op": "launch", "name": "cuLaunchKernel", "pid": 1, "tid": 1, "comm": "x", "id": i + 1,
               "duration_us": us, "result": 0, "kernel": "k", "kernel_mangled": "k"} for i in range(launches)]
    lines.append({"ts": launches * us / 1000, "type": "end", "name": "cudatrace", "reason": "command exited", "events": {"kernel": launches},
                  "calls": launches, "entries": launches + lost, "drops": {"calls": lost}, "unfinished": 0, "abandoned": 0,
                  "bad_records": 0})
    path.write_text("".join(json.dumps(x) + "\n" for x in lines), encoding="utf-8")
    return path


def compared(tmp_path, budget, old, new, *args):
    """Compares runs, (launches, us) each, and returns the limits."""
    files = [trace_of(tmp_path / f"{side}{i}.jsonl", *run) for side, runs in (("old", old), ("new", new)) for i, run in enumerate(runs)]
    path = tmp_path / "budget.yaml"
    path.write_text(budget, encoding="utf-8")
    ran = Ran([CUDATRACE, "diff", "--budget", path, "--runs", str(len(old)), "--format=json", *args, *files])
    found = json.loads(ran.out)
    assert ran.status == (3 if found["broken"] else 0) and found["runs"] == len(new), ran
    return found["limits"]


def noise(old, new):
    """Three median distances from the median, of the side with more; of single runs 10 % of the old value."""
    if len(old) == 1:
        return old[0] / 10
    return max(3 * statistics.median(abs(x - statistics.median(side)) for x in side) for side in (old, new))


@pytest.mark.parametrize("limit, old, new, broken", [
    ("+0", [10], [10], False), ("+0", [10], [9], False), ("+0", [10], [11], True), ("+2", [10], [12], False), ("+2", [10], [13], True),
    ("+10%", [20], [22], False), ("+10%", [20], [23], True), ("+0", [10, 12, 10], [12, 10, 11], False), ("+0", [10, 12, 10], [10, 10, 13], True),
    ("11", [1], [11], False), ("11", [20], [12], True),
])
def test_changes_of_counts(limit, old, new, broken, tmp_path):
    """The largest count of the runs of each side is compared."""
    found = compared(tmp_path, f"limits: [{{launches: {limit}}}]", [(n, 5) for n in old], [(n, 5) for n in new])[0]
    assert found["value"] == max(new) and (found["state"] == "exceeded") == broken
    assert found.get("old") == (max(old) if limit[0] == "+" else None) and not found.get("noise")


TIMES = [
    ([100], [105]), ([100], [112]), ([100, 101, 99], [100, 102, 99]), ([100, 101, 99], [109, 110, 108]), ([100, 140, 60, 100, 120], [130, 90, 135, 140, 120]),
    ([100, 100, 100, 100, 100], [101, 101, 101, 101, 101]), ([100, 101, 99, 100, 900], [100, 101, 99, 98, 700]), ([100, 102], [106, 110]),
]


@pytest.mark.parametrize("limit", [0, 5, 20])
@pytest.mark.parametrize("old, new", TIMES)
def test_changes_of_times(limit, old, new, tmp_path):
    """Medians are compared, with the noise of the runs."""
    found = compared(tmp_path, f"limits: [{{time: +{limit}%}}]", [(10, x) for x in old], [(10, x) for x in new])[0]
    before, after = [10000 * x for x in old], [10000 * x for x in new]
    was, now = statistics.median(before), statistics.median(after)
    assert (found["old"], found["value"], found["noise"]) == (was, now, pytest.approx(noise(before, after), abs=1))
    assert (found["state"] == "exceeded") == (now - was > max(was * limit / 100, noise(before, after)))


def test_noise_rarely_breaks():
    """Runs of equal programs seldom differ by more than the noise (docs/BUDGETS.md), and a program that is slower by half does."""
    random = __import__("random").Random(47)
    for runs, most in (5, 0.04), (10, 0.005):
        equal = slower = 0
        for _ in range(2000):
            old, new = ([random.gauss(100, 4) for _ in range(runs)] for _ in range(2))
            equal += statistics.median(new) - statistics.median(old) > noise(old, new)
            slower += 1.5 * statistics.median(new) - statistics.median(old) > noise(old, [1.5 * x for x in new])
        assert equal <= most * 2000 and slower >= 0.95 * 2000, (runs, equal, slower)


def test_change_of_incomplete(tmp_path):
    """Records that the old trace lacks could be the change."""
    budget = tmp_path / "budget.yaml"
    for old, new, limit, status in (3, 0, "+0", 3), (0, 3, "+0", 3), (0, 0, "+0", 0), (3, 0, "10", 0), (0, 3, "10", 3):
        budget.write_text(f"limits: [{{launches: {limit}}}]", encoding="utf-8")
        a, b = trace_of(tmp_path / "a.jsonl", 9, 5, old), trace_of(tmp_path / "b.jsonl", 9, 5, new)
        ran = Ran([CUDATRACE, "diff", "--budget", budget, a, b])
        assert ran.status == status and ("incomplete" in ran.out) == (status == 3), (old, new, limit, ran)
    budget.write_text("allow_losses: true\nlimits: [{launches: +0}]", encoding="utf-8")
    assert Ran([CUDATRACE, "diff", "--budget", budget, trace_of(tmp_path / "a.jsonl", 9, 5, 3), b]).status == 0


def test_change_in_words(tmp_path):
    budget = tmp_path / "budget.yaml"
    budget.write_text("limits:\n  - launches: +2\n    time: +5%\n  - per: range\n    name: x\n    calls: +0\n", encoding="utf-8")
    ran = Ran([CUDATRACE, "diff", "--budget", budget, trace_of(tmp_path / "a.jsonl", 100, 1000), trace_of(tmp_path / "b.jsonl", 150, 1000)])
    assert ran.status == 3 and ran.out.splitlines() == [
        f"launches: 150, 50 more than the old 100; the limit is 2 more ({budget}:2; overview.launches)",
        f"time: 150 ms, 50.0 ms more than the old 100 ms; the limit is 5.0 % more; noise explains 10.0 ms (10 %, of a single run) ({budget}:3; overview.wall_ns)",
        f"calls of range 'x': not measured: a trace has no CUDA calls ({budget}:6; ranges.list[text=x].calls)",
        f"3 of 3 limits of {budget} are broken"]


def test_budget_of_runs(tmp_path):
    """--make-budget --runs writes limits that all of the runs keep, times too; one run is not enough for these."""
    runs = [trace_of(tmp_path / f"run{i}.jsonl", n, us) for i, (n, us) in enumerate([(10, 100), (12, 130), (11, 90)])]
    made = Ran([CUDATRACE, "report", "--make-budget", "--runs", "3", *runs])
    assert made.status == 0 and re.search(r"^    launches: 12$", made.out, re.M)
    assert re.search(r"^    time: 171[67]us  # 990us to 1560us in 3 runs, and 10 %$", made.out, re.M), made.out
    budget = tmp_path / "budget.yaml"
    budget.write_text(made.out, encoding="utf-8")
    for files in [runs], [[x] for x in runs]:
        for some in files:
            assert Ran([CUDATRACE, "report", "--budget", budget, "--runs", str(len(some)), *some]).status == 0
    more = Ran([CUDATRACE, "report", "--budget", budget, "--runs", "3", runs[0], runs[1], trace_of(tmp_path / "more.jsonl", 13, 100)])
    assert more.status == 3 and "launches: 13, 1 above the limit of 12" in more.out
    unreadable = Ran([CUDATRACE, "report", "--budget", budget, "--runs", "2", runs[0], tmp_path / "none.jsonl"])
    assert unreadable.status == 1 and unreadable.out == ""


def test_page_has_every_limit():
    """docs/BUDGETS.md must have a row for each row of limits.def, in their order."""
    with open(TESTS + "/../docs/BUDGETS.md", encoding="utf-8") as f:
        rows = re.findall(r"^\| (\w+) \| `(\w+)` \|", f.read(), re.M)
    assert len(LIMITS) > 40 and rows == [(scope.lower(), name) for scope, name, *_ in LIMITS]


def test_schema():
    """Each budget that the program accepts, and none of those that it refuses by their form."""
    jsonschema = pytest.importorskip("jsonschema", "4.0", reason="python3-jsonschema is not installed")
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")
    schema = json.loads(Ran([CUDATRACE, "list", "--schema=budget"]).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    check_one = jsonschema.Draft202012Validator(schema).is_valid
    for trace in GRAPH, SERVING, RANKS:
        made = Ran([CUDATRACE, "report", "--make-budget", trace]).out
        assert check_one(yaml.safe_load(made)) and check_one(yaml.safe_load(re.sub(r"^    # (\w+: )", r"    \1", made, flags=re.M)))
    assert {(s["properties"]["per"]["const"].upper(), k) for s in schema["properties"]["limits"]["items"]["oneOf"] for k in s["properties"]
            if k not in ("per", "name", "of")} == {(scope, name) for scope, name, *_ in LIMITS}
    for text in "limits: [{launches: +5%, time: +1.5ms, memory_peak: +10M, tracing_overhead: 2%}]", "limits: [{per: step, name: decode, of: p99, time: 0}]":
        assert check_one(yaml.safe_load(text)), text
    for text in BAD:
        # A YAML reader makes no difference between 5 and +5, and between an absent key and one that is not text.
        if "not YAML" in BAD[text] or "compares with older" in BAD[text]:
            continue
        assert not check_one(yaml.safe_load(text)), text


def test_unknown_schema():
    ran = Ran([CUDATRACE, "list", "--schema=x"])
    assert ran.status == 2 and "choose one of: report diff budget" in ran.err
