# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# takes: 5
"""The critical path of a step, and replays of it, against simulated loops (tests/oracle/steps.py) whose path is known, and whose time with
other costs is known because they run again with them."""
import json
import os
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "oracle"))
import steps  # noqa: E402

STEPS = 24


def report_of(folder, lines, *options):
    path = folder / "trace.jsonl"
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    return json.loads(subprocess.run([os.environ["CUDATRACE"], "report", "-q", "--format=json", *options, path], check=True, stdout=subprocess.PIPE).stdout)


def parts_of(step):
    return {(x["kind"], x.get("name")): x["total_ns"] for x in step["parts"]}


def check_path(m, report):
    """Every listed step has the parts that the simulator knows. Returns the median step."""
    assert report["step"]["steps"] >= STEPS - 4 and report["step"]["gpu_times"]
    for step in report["step"]["list"]:
        i = step["iteration"]
        if i:
            assert step["wall_ns"] == m.ends[i][0] - m.ends[i - 1][0]
            assert parts_of(step) == m.path(i), step["which"]
        assert sum(x["total_ns"] for x in step["parts"]) == step["wall_ns"]
    return report["step"]["list"][0]


@pytest.mark.parametrize("program, kind, name, finding", steps.PLANTED, ids=[x[0].__name__ for x in steps.PLANTED])
def test_planted(tmp_path, program, kind, name, finding):
    m = steps.Machine().run(program, STEPS)
    report = report_of(tmp_path, m.lines())
    median = check_path(m, report)
    first = median["parts"][0]
    assert (first["kind"], first.get("name")) == (kind, name)
    found = [x["id"] for x in report["findings"]]
    if finding:
        assert finding in found
    else:
        assert "plans-in-loop" not in found


@pytest.mark.parametrize("program, kind", steps.HEALTHY, ids=[x[0].__name__ for x in steps.HEALTHY])
def test_healthy(tmp_path, program, kind):
    m = steps.Machine().run(program, STEPS)
    report = report_of(tmp_path, m.lines())
    assert check_path(m, report)["parts"][0]["kind"] == kind
    assert [x["id"] for x in report["findings"]] in ([], ["gpu-bound"])
    assert [x for x in report["step"]["what_if"] if x["saved_share"] > 0.05] == []


def copy_after_kernels(m, i):
    """A copy that waits for the kernels before it."""
    steps.launches(m, 5, 60_000, 0)
    m.copy(5_000)


def event_of_another_event(m, i):
    """The second event is recorded on a stream without work that waits for the first."""
    steps.launches(m, 5, 60_000)
    m.record(0x1)
    m.wait_event(0x1, 0x200)
    m.record(0x2, 0x200)
    m.wait(("event", 0x2))


def stream_that_waits(m, i):
    """The host waits for a stream without work that waits for an event."""
    steps.launches(m, 5, 60_000)
    m.record(0x1)
    m.wait_event(0x1, 0x200)
    m.wait(0x200)


def legacy_stream(m, i):
    """The legacy default stream waits for blocking streams, and they for it."""
    steps.launches(m, 3, 60_000, 0x400)
    m.launch("main", 10_000, 0)
    m.launch("after", 10_000, 0x400)
    m.wait(0x400)


DEPENDENCIES = [copy_after_kernels, event_of_another_event, stream_that_waits, legacy_stream]


def start(m):
    m.stream(0x400, True)


@pytest.mark.parametrize("program", DEPENDENCIES, ids=lambda x: x.__name__)
def test_dependencies(tmp_path, program):
    m = steps.Machine().run(program, STEPS, start)
    check_path(m, report_of(tmp_path, m.lines()))


CHANGES = [("host=0.5", {"host": 0.5}), ("host=0", {"host": 0}), ("host=2", {"host": 2}), ("gpu=0.5", {"gpu": 0.5}), ("gpu=3", {"gpu": 3}),
           ("kernel:k1=0.5", {"kernels": [("k1", 0.5)]}), ("kernel:k=4", {"kernels": [("k", 4)]}), ("plans", {"free": ["cudnnBackendFinalize"]}),
           ("cache:cuMemAlloc", {"free": ["cuMemAlloc"]}), ("no-wait:cuStreamSynchronize", {"no_wait": ["cuStreamSynchronize"]})]

@pytest.mark.parametrize("program", [x[0] for x in steps.PLANTED + steps.HEALTHY] + DEPENDENCIES, ids=lambda x: x.__name__)
def test_replay(tmp_path, program):
    """A replay with a change takes the time of the program with that change."""
    m = steps.Machine().run(program, STEPS, start)
    wrong = []
    for some in (CHANGES[:5], CHANGES[5:]):
        report = report_of(tmp_path, m.lines(), "--what-if", ",".join(text for text, _ in some))["step"]
        assert abs(report["replay"]["step_ns"] - report["list"][0]["wall_ns"]) <= 1
        for (text, costs), row in zip(some, report["what_if"]):
            other = steps.Machine(**costs).run(program, STEPS, start)
            truth = other.median_ns()
            assert row["change"] == text and row["requested"]
            if abs(row["step_ns"] - truth) > (0.15 if text == "host=0" else 0.02) * truth + 1_000:  # host=0: delays that the trace does not show
                wrong.append((text, row["step_ns"], truth))
    assert not wrong
