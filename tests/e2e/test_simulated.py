# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# takes: 5
"""Reports on simulated programs must match the truth, which follows from their plans (tests/oracle/simulate.py), not from the lines of
their traces."""
import json
import os
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "oracle"))
import oracle  # noqa: E402
import simulate  # noqa: E402

FEW = range(1, 31)


def report_of(folder, lines):
    path = folder / "trace.jsonl"
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    return json.loads(subprocess.run([os.environ["CUDATRACE"], "report", "--format=json", path], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout)


def wrong(seeds, folder):
    """Differences by seed, from the plan and from the lines."""
    found = {}
    for seed in seeds:
        p = simulate.plan(seed)
        lines = simulate.trace(p)
        report = report_of(folder, lines)
        d = simulate.differences(p, report) + oracle.check(lines, report)
        if d:
            found[seed] = p["shape"], d[:5]
    return found


def test_programs(tmp_path):
    found = wrong(FEW, tmp_path)
    assert not found


@pytest.mark.long
def test_200_programs(tmp_path):
    found = wrong(range(FEW.stop, FEW.start + 200), tmp_path)
    assert not found


def test_the_few_have_all_shapes():
    """The programs of make check must include each kind of program, with and without each optional behaviour."""
    plans = [simulate.plan(seed) for seed in FEW]
    assert {p["shape"] for p in plans} == set(simulate.SHAPES)
    for name in ("copy", "blocking_copy", "pinned", "temp", "leak", "vmm", "host_pool", "late_ns", "hang_ns"):
        assert {bool(p[name]) for p in plans} == {False, True}, name
    assert {(p["how"], p["ending"]) for p in plans} == {(how, ending) for how in ("launches", "graph") for ending in ("exit", "context")}


def test_another_truth_is_found(tmp_path):
    """A program that deviates from its plan must differ, in the numbers that the change affects."""
    base = next(p for p in map(simulate.plan, FEW) if p["shape"] == "ranks" and p["late_ns"] and p["copy"] and not p["hang_ns"])
    for change, number in (({"kernel_ns": base["kernel_ns"] + 100}, "gpu.0.compute_ns"), ({"pause_ns": base["pause_ns"] + 500}, "idle.total_ns"),
                           ({"late_ns": base["late_ns"] + 1000}, "late_ns"), ({"beside_ns": base["beside_ns"] + 100}, "gpu.0.overlap_ns"),
                           ({"weights": [*base["weights"], 4096]}, "memory.peak_bytes"), ({"leak": base["leak"] + 512}, "memory.leak_bytes"),
                           ({"lag_ns": base["lag_ns"] + 1000}, "waits.total_ns"), ({"steps": base["steps"] + 1}, "iterations.count")):
        report = report_of(tmp_path, simulate.trace({**base, **change}))
        assert any(number in x for x in simulate.differences(base, report)), change
