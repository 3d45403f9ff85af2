# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 10
"""Energy by GPU, process, phase, step and token: the energy counter of simulated programs has a known idle power and a known power of each
process, so the true parts are known without the report."""
import json
import sys

import pytest
from helpers.reports import report
from helpers.run import TESTS, cudatrace

sys.path.insert(0, TESTS + "/oracle")
import steps  # noqa: E402
from power import IDLE_W, PERIOD, QUIET, WORK_W, Powered, executions  # noqa: E402

def program(m, i):
    steps.launches(m, 3, 2_000_000)
    m.wait()


def reported(tmp_path, p):
    return report(p.write(tmp_path / "t.jsonl"))


def near(x):
    return pytest.approx(x, rel=0.01, abs=0.002)


def adds_up(energy):
    for g in energy["gpus"]:
        parts = sum(p["joules"] for p in energy["processes"] if p["gpu"] == g["gpu"])
        assert g["joules"] == pytest.approx(g["idle_joules"] + g["other_joules"] + parts, rel=1e-6)
    assert energy["joules"] == pytest.approx(sum(g["joules"] for g in energy["gpus"]), rel=1e-9)


def test_one_process(tmp_path):
    """Idle power, the process's part, and a step's."""
    p = Powered(steps.Machine().run(program, 40).lines())
    r = reported(tmp_path, p)
    e = r["energy"]
    adds_up(e)
    g, w = e["gpus"][0], e["processes"][0]
    assert (g["by"], g["idle_watts"], g["joules"]) == ("executions", near(IDLE_W), near(p.joules(0, p.last)))
    assert g["idle_joules"] == near(IDLE_W * p.last / 1e9) and g["other_joules"] == 0
    assert (w["pid"], w["joules"]) == (steps.MAIN, near(p.used(steps.MAIN, 0, p.last)))
    assert w["gpu_ns"] == near(p.busy(steps.MAIN, 0, p.last))
    # A step has three kernels of 2 ms.
    assert w["steps"] == r["iterations"]["count"] - r["iterations"]["warmup"] and w["step_joules"] == near(3 * 2e-3 * WORK_W)
    assert [x["name"] for x in e["parts"]] == ["start-up", "steady state", "end"]
    assert sum(x["joules"] for x in e["parts"]) == near(e["joules"]) and sum(x["time_ns"] for x in e["parts"]) == p.last


def other_work(lines, pid=601):
    """The executions of the program, and one after each of them by another process."""
    return [x for p, a, b in executions(lines) for x in ((p, a + QUIET, b + QUIET), (pid, a + QUIET + 500_000, a + QUIET + 900_000))]


def test_switches(tmp_path):
    """With several processes, the log of context switches decides, not the executions of one of them."""
    lines = steps.Machine().run(program, 40).lines()
    work = other_work(lines)
    slices = [{"ts": (a - QUIET) / 1e6, "type": "ctxsw", "op": "slice", "name": "slice", "pid": pid, "tid": 0, "comm": f"p{pid}", "minor": 0, "gpu": "0000:00:00.0",
               "context": pid, "duration_us": (b - a) / 1e3} for pid, a, b in work]
    lines[-1]["events"]["ctxsw"] = len(slices)
    p = Powered([lines[0], *sorted(lines[1:-1] + slices, key=lambda x: x["ts"]), lines[-1]], work=work)
    e = reported(tmp_path, p)["energy"]
    adds_up(e)
    assert e["gpus"][0]["by"] == "context-switches"
    assert {w["pid"]: w["joules"] for w in e["processes"]} == {pid: near(p.used(pid, 0, p.last)) for pid in (steps.MAIN, 601)}


def test_untraced_process(tmp_path):
    """A process without executions in the trace has the GPU time that NVML reports."""
    lines = steps.Machine().run(program, 40).lines()
    p = Powered(lines, work=other_work(lines), processes=(601,))
    e = reported(tmp_path, p)["energy"]
    adds_up(e)
    assert {w["pid"]: w["joules"] for w in e["processes"]} == {pid: near(p.used(pid, 0, p.last)) for pid in (steps.MAIN, 601)}


def test_unknown_work(tmp_path):
    """Without any process's GPU time, energy above idle power is nobody's. A GPU that is never idle has no known idle power."""
    lines = [x for x in steps.Machine().run(program, 40).lines() if x["type"] != "gpu"]
    p = Powered(lines, work=[(601, 2 * PERIOD, 12 * PERIOD)])
    for x in p.lines:
        if x["type"] == "gpu_stats" and x["op"] == "sample":
            x["util"] = 100 if 2 * PERIOD < x["ts"] * 1e6 <= 12 * PERIOD else 0
    e = reported(tmp_path, p)["energy"]
    assert not e["processes"] and e["gpus"][0]["other_joules"] == near(p.used(601, 0, p.last)) and e["gpus"][0]["idle_watts"] == near(IDLE_W)
    e = reported(tmp_path, Powered(lines, work=[(601, 0, 10**12)], util=100))["energy"]
    assert e["gpus"][0]["idle_watts"] is None and e["gpus"][0]["idle_joules"] == 0 and e["gpus"][0]["other_joules"] == near(e["joules"])


def test_counter_restarts(tmp_path):
    """A driver that was loaded again counts from zero: that interval has no energy, the others have theirs."""
    p = Powered(steps.Machine().run(program, 40).lines())
    wanted, samples = 0, [x for x in p.lines if x["type"] == "gpu_stats" and x["op"] == "sample"]
    lost = samples[10]["energy_j"]
    for x in samples[10:]:
        x["energy_j"] = round(x["energy_j"] - lost, 3)
    wanted = samples[9]["energy_j"] - samples[0]["energy_j"] + samples[-1]["energy_j"]
    e = reported(tmp_path, p)["energy"]
    adds_up(e)
    assert e["joules"] == near(wanted)


def test_prices(tmp_path):
    p = Powered(steps.Machine().run(program, 40).lines())
    e = reported(tmp_path, p)["energy"]
    assert "cost" not in e["processes"][0]
    ran = cudatrace("report", "--format=json", "--price-per-kwh", "0.25", tmp_path / "t.jsonl")
    w = json.loads(ran.out)["energy"]["processes"][0]
    assert w["cost"] == near(e["processes"][0]["joules"] / 3.6e6 * 0.25)
    text = cudatrace("report", "--section=energy", "--price-per-kwh=0.25", tmp_path / "t.jsonl").out
    assert "a process has no idle power" in text and f"{steps.MAIN} sim" in text and "price" in text, text
    for bad in ("0", "-1", "x", "1e99", "nan", ""):
        ran = cudatrace("report", "--price-per-gpu-hour", bad, tmp_path / "t.jsonl")
        assert ran.status == 2 and "not a price" in ran.err, ran
