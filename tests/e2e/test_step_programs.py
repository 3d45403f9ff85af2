# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# alone
# takes: 40
"""Programs on the mock driver (tests/steps.c), recorded with real clocks: the first finding is the planted problem, its gain is what the program
itself measured, and the predicted step is that of the program without the problem. Healthy programs have no finding."""
import json
import os
import statistics
import sys

import pytest
from helpers.live import compiled
from helpers.run import CUDATRACE, FAKE, INSIDE, O, TESTS, Ran, cudatrace, needs_tracing

STEPS, NCCL = 40, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
WORK, SLOW = "8*kernel:k wait", {"FAKE_DELAY_US": "cuLaunchKernel:300"}
# The words of the program, those of the program without the problem, the finding, its change, the words whose time is the gain (None: what the
# other program is faster), and the costs of the mock.
PLANTED = {
    "plans": (f"plan {WORK}", WORK, "plans-in-loop", "plans", "plan", {}),
    "graphs": ("capture:elementwise graph wait", "capture:elementwise loop graph wait", "graphs-in-loop", "drop:cuGraphInstantiateWithFlags", "capture",
               {"FAKE_DELAY_US": "cuGraphInstantiateWithFlags:8000"}),
    "allocations": (f"alloc {WORK} free", WORK, "hot-allocations", "drop:cuMemAlloc,drop:cuMemFree", "alloc free",
                    {"FAKE_DELAY_US": "cuMemAlloc_v2:1500,cuMemFree_v2:1500"}),
    "modules": (f"{WORK} load", WORK, "hot-modules", "cache:cuModuleLoadData", "load", {"FAKE_DELAY_US": "cuModuleLoadData:3000"}),
    "pageable": (f"pageable:1024 {WORK}", f"copy:1024 {WORK}", "pageable-copies", "pinned", "pageable", {"FAKE_COPY_GBPS": "53,0.25"}),
    "small_copies": (f"20*copy:4 {WORK}", f"copy:80 {WORK}", "small-copies", "batch:cuMemcpyHtoDAsync", None,
                     {"FAKE_DELAY_US": "cuMemcpyHtoDAsync_v2:300"}),
    "waits": ("kernel:elementwise " + "host:250 kernel:k wait " * 8, "kernel:elementwise " + "host:250 kernel:k " * 8 + "wait", "small-syncs", "no-wait:cuStreamSynchronize", None, {}),
    "launches": ("20*kernel:elementwise wait", "capture:elementwise loop graph wait", "launch-bound", "graph", None, SLOW),
    "idle": (f"{WORK} host:4000", WORK, "idle-between", "before:cuLaunchKernel=0", "host", {}),
    "copies": (f"copy:1024:2 after:2 {WORK}", "copy:1024:2 8*kernel:k wait_all", "copies-alone", "overlap-copies", None, {"FAKE_COPY_GBPS": "0.5"}),
    "communication": ("kernel:k after:1:3 reduce:65536:3 after:3 5*kernel:k wait_all", "kernel:k after:1:3 reduce:65536:3 5*kernel:k wait_all",
                      "communication-alone", "overlap-comm", None, {"NCCL_US": "6000"}),
    "collectives": (f"{WORK} 20*reduce:256 wait", f"{WORK} reduce:5120 wait", "small-collectives", "fuse:nccl", None, {"NCCL_US": "200"}),
    "queries": (f"25*query {WORK}", WORK, "chatty-queries", "cache:cuPointerGetAttribute", "query", {"FAKE_DELAY_US": "cuPointerGetAttribute:250"}),
    "thread": ("@host:6000 4*@kernel:k 4*kernel:k wait", "4*@kernel:k 4*kernel:k wait", "idle-between", "before:cuLaunchKernel=0", "host", {}),
    "work": ("8*kernel:k host:9000 wait", "8*kernel:k wait", "host-work", "before:cuStreamSynchronize=0", None, {}),
    "loading": ("host:5000 copy:64 10*kernel:k wait", "copy:64 10*kernel:k wait", "data-loading", "before:cuMemcpyHtoDAsync=0", "host", {}),
}
# As PLANTED, of tests/steps_python.py; the change has a line, and the finding names it.
PYTHON = {
    "loading": ("load copy model model model model item", "copy model model model model item", "data-loading", "before:{}=0",
                "cuMemcpyHtoDAsync", "load"),
    "item": ("embed " + "model item " * 10, "embed " + "model " * 10 + "item", "small-syncs", "no-wait:{}", "cuStreamSynchronize", None),
}
# The change, the words of the program, those of the program with the change, and the costs of both.
HALF = {"FAKE_KERNEL_US": "10,k:250"}
CHANGES = {
    "drop:ncclAllReduce": (f"{WORK} 20*reduce:256 wait", WORK, {"NCCL_US": "200"}, {}),
    "host=0.5": (f"{WORK} host:4000", f"{WORK} host:2000", {}, {}),
    "gpu=0.5": (f"{WORK} host:1000", f"{WORK} host:1000", {}, HALF),
    "kernel:k=0.5": (f"20*kernel:elementwise {WORK}", f"20*kernel:elementwise {WORK}", {}, {"FAKE_KERNEL_US": "10,k:250,elementwise:200"}),
    "fuse:elementwise": ("20*kernel:elementwise wait", "kernel:long_one wait", SLOW, SLOW),
    "graph:layer": (f"push:layer 20*kernel:elementwise pop {WORK}", f"capture:elementwise loop graph {WORK}", SLOW, SLOW),
}
HEALTHY = {
    "kernels": "20*kernel:k wait",
    "graphs": "capture:k loop graph wait",
    "copies": "20*kernel:k copy:256:2 wait",
    "event": "20*kernel:k wait_event",
    "streams": "20*kernel:k 10*kernel:k:2 wait_all",
    "fetch": "20*kernel:k:0 fetch:4",
}


@pytest.fixture(scope="module")
def folder():
    to = os.environ["TMP"]
    compiled(f"{to}/steps", f"-I{TESTS}", TESTS + "/steps.c")
    compiled(f"{to}/libcudnn_graph.so.9", "-shared", "-fPIC", "-DDNN", "-DPLAN_US=3000", "-Wl,-soname,libcudnn_graph.so.9", TESTS + "/steps.c")
    return to


class Program:
    """A run of the program: how long each step took, and each of its words, in ns."""

    def __init__(self, folder, words, costs, tracer=(), python=False):
        env = {"LD_LIBRARY_PATH": f"{FAKE}:{O}/cupti:{folder}", "FAKE_KERNEL_US": f"10,k:500,elementwise:200,long_one:4000,{NCCL}:{costs.get('NCCL_US')}", **costs}
        program = [sys.executable, TESTS + "/steps_python.py"] if python else [f"{folder}/steps"]
        ran = Ran([*tracer, *program, str(STEPS), *words.split()], env=env)
        assert ran.status == 0, ran
        self.rows = [line.split() for line in ran.out.splitlines()]
        begins = [int(row[0]) for row in self.rows]
        self.low_ns, self.step_ns, high_ns = statistics.quantiles(b - a for a, b in zip(begins[1:], begins[2:]))
        self.spread = high_ns / self.low_ns

    def took(self, verbs, steps):
        return sum(int(x.split("=")[1]) for row in self.rows[-steps:] for x in row[2:] if x.split("=")[0] in verbs.split())


def calm(run):
    """The calmest of up to three runs: other programs use the processors, too."""
    best = run()
    for _ in range(2):
        if best.spread < 1.1:
            break
        best = min(best, run(), key=lambda p: p.spread)
    return best


def traced(folder, tmp_path, words, costs, *options, tracing=()):
    """The calmest program, with its report."""
    tracer = [*INSIDE, CUDATRACE, "-q", "--gpu-time", "--probe=inject"]
    python = "--python" in tracing
    if python or "plan" in words:
        needs_tracing()
        tracer = [CUDATRACE, "-q", "--gpu-time", *([] if python else ["--all-layers"])]

    def run():
        path = tmp_path / "t.jsonl"
        program = Program(folder, words, costs, [*tracer, *tracing, "--jsonl", path, "--"], python)
        ran = cudatrace("report", "-q", "--json", "--section=findings,step", *options, path)
        assert ran.status == 0, ran
        program.report = json.loads(ran.out)
        program.found = [x["id"] for x in program.report["findings"]]
        return program
    return calm(run)


@pytest.mark.parametrize("name", PLANTED)
def test_planted(folder, tmp_path, name):
    words, without, finding, change, cost, costs = PLANTED[name]
    program = traced(folder, tmp_path, words, costs, "--what-if", change, tracing=["-e", "all"] if "query" in words else [])
    check(program, calm(lambda: Program(folder, without, costs)), finding, cost)


def check(program, after, finding, cost):
    """after: a run without the problem. cost: the words that are the problem; None: the time in other words is shorter, too."""
    step, found = program.report["step"], program.report["findings"][0]
    asked = [x for x in step["what_if"] if x["requested"]][-1]
    gain = program.took(cost, step["steps"]) if cost else step["replay"]["total_ns"] - asked["total_ns"]
    print(program.found, step["steps"], "steps of", program.step_ns, "replayed", step["replay"]["step_ns"], "gain", found["steady_ns"], gain,
          "predicted", asked["low_ns"], "after", after.low_ns, "spread", program.spread, after.spread)
    assert all(len(x["parts"]) <= 12 and sum(p["total_ns"] for p in x["parts"]) == x["wall_ns"] for x in step["list"])
    assert program.found[0] == finding and found["replayed"]
    assert step["replay"]["step_ns"] == pytest.approx(program.step_ns, rel=0.03)
    assert found["steady_ns"] == pytest.approx(gain, rel=0.1) and gain > 0.15 * step["replay"]["total_ns"]
    assert asked["low_ns"] == pytest.approx(after.low_ns, rel=0.1)


@pytest.mark.parametrize("name", PYTHON)
def test_python(folder, tmp_path, name):
    """Of a real interpreter, with the file and line."""
    words, without, finding, change, function, cost = PYTHON[name]
    with open(TESTS + "/steps_python.py", encoding="utf-8") as f:
        line = next(i for i, text in enumerate(f, 1) if f"CUDA.{function}" in text)
    program = traced(folder, tmp_path, words, {}, "--what-if", change.format(f"steps_python.py:{line}"), tracing=["--python"])
    check(program, calm(lambda: Program(folder, without, {}, python=True)), finding, cost)
    assert f"{function} in steps_python.py:{line} {'copy' if cost else 'item'}" in program.report["findings"][0]["text"]


@pytest.mark.parametrize("change", CHANGES)
def test_changes(folder, tmp_path, change):
    """A replay with a change takes the time of the program that has it."""
    words, changed, costs, other_costs = CHANGES[change]
    program = traced(folder, tmp_path, words, costs, "--what-if", change, tracing=["--nvtx"] if "push" in words else [])
    after = calm(lambda: Program(folder, changed, other_costs))
    row = program.report["step"]["what_if"][0]
    print(change, "step", program.step_ns, "predicted", row["low_ns"], "after", after.low_ns, "spread", program.spread, after.spread)
    assert row["low_ns"] == pytest.approx(after.low_ns, rel=0.1) and after.low_ns < 0.85 * program.low_ns


def test_queries_are_not_traced(folder, tmp_path):
    """The default has no queries, so the time seems to be that of the program."""
    words, _, _, _, _, costs = PLANTED["queries"]
    for options, ending in ([], " (-e all)."), (["-e", "all"], None):
        found = [x for x in traced(folder, tmp_path, words, costs, tracing=options).report["findings"] if x["id"] == "idle-between"]
        assert [x["confidence_reason"].endswith(ending) for x in found] == [True] * bool(ending)


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy(folder, tmp_path, name):
    program = traced(folder, tmp_path, HEALTHY[name], {})
    step = program.report["step"]
    print(name, program.found, step["what_if"], program.spread)
    assert program.found in ([], ["gpu-bound"])
    assert not [x for x in step["what_if"] if x["step_ns"] < 0.95 * step["replay"]["step_ns"]]
