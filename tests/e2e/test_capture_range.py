# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
"""--start-after and --capture-range: exactly the calls of the parts are written, by uprobes and in the process; the others are counted."""
import json

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.run import ALL, CUDATRACE, FAKE, INSIDE, TESTS, Ran, cudatrace, needs_tracing

ENV = {"LD_LIBRARY_PATH": FAKE}
HOW = ["inject", "uprobe"]


@pytest.fixture(name="program", scope="module")
def build(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("parts") / "parts", TESTS + "/nvtx/parts.c")


class Parts:
    """A trace of the program: the numbers of its calls, and of those that are missing."""

    def __init__(self, tmp_path, probe, options, words, program):
        if probe == "uprobe":
            needs_tracing()
        prefix = INSIDE if probe == "inject" else []
        self.path = tmp_path / "t.jsonl"
        self.ran = Ran([*prefix, CUDATRACE, "-q", f"--probe={probe}", *options, "--jsonl", self.path, "--", program, *words.split()], env=ENV)
        assert self.ran.status == 0, self.ran
        self.t = Trace(self.path)
        self.numbers = [e["size"] - 1000 for e in self.t.calls if e["name"] == "cuMemAlloc"]
        self.outside = self.t.end["filtered"]
        assert len(self.t.calls) == self.t.end["calls"] == self.t.end["entries"] - self.t.end.get("nvtx_calls", 0) - self.outside
        assert json.loads(Ran([CUDATRACE, "report", "--json", self.path]).out)["complete"]


def parts_of(words, opens, closes, deepest=100):
    """The numbers between the words that open and close parts."""
    depth, inside = 0, []
    for word in words.split():
        if word in opens:
            depth = min(depth + 1, deepest)
        elif word in closes:
            depth = max(depth - 1, 0)
        elif word.isdigit() and depth:
            inside.append(int(word))
    return inside


PROFILER = [
    "1 2 start 3 4 stop 5",
    "1 start 2 start 3 stop 4 stop 5 start 6 stop 7",
    "stop 1 start 2 stop stop 3 start 4",
    "start 1 stop",
]


@pytest.mark.parametrize("probe", HOW)
@pytest.mark.parametrize("words", PROFILER)
@pytest.mark.parametrize("options", [[], ["-e", "memory"], ["--detail=low"]], ids=["all", "memory", "low"])
def test_profiler(tmp_path, program, probe, words, options):
    """Also if -e does not name the calls that begin and end a part."""
    p = Parts(tmp_path, probe, ["--capture-range=cudaProfilerApi", *options], words, program)
    want = parts_of(words, ["start"], ["stop"], 1)
    assert p.numbers == want and not p.ran.err
    assert p.outside >= len([x for x in words.split() if x.isdigit()]) - len(want)


@pytest.mark.parametrize("probe", HOW)
def test_profiler_of_a_process(tmp_path, program, probe):
    """A part ends with its process at the latest."""
    if probe == "uprobe":
        needs_tracing()
    says = f"{program} 1 start 2; {program} 3 stop 4; {program} start 5 stop 6; true"
    ran = Ran([*(INSIDE if probe == "inject" else []), CUDATRACE, "-q", f"--probe={probe}", "--capture-range=cudaProfilerApi", "--jsonl", tmp_path / "t.jsonl", "--", "sh", "-c", says], env=ENV)
    assert ran.status == 0, ran
    assert [e["size"] - 1000 for e in Trace(tmp_path / "t.jsonl").calls if e["name"] == "cuMemAlloc"] == [2, 5]


@pytest.mark.parametrize("options", [["-e", "!cuProfilerStart"], ["--count", "all"], ["--count", "cuProfiler*"], ["--entry-only", "cuProfilerStop"]], ids=" ".join)
def test_profiler_left_out(tmp_path, options):
    """The trace would be empty."""
    ran = cudatrace("--capture-range=cudaProfilerApi", *options, "--jsonl", tmp_path / "t.jsonl", "--", "true")
    assert ran.status == 2 and "needs the calls of cuProfilerSt" in ran.err and not (tmp_path / "t.jsonl").exists(), ran


NVTX = {
    "1 +step 2 3 - 4": [2, 3],
    "1 +all 2 +step 3 +step 4 - 5 - 6 +other 7 - +step 8 - - 9": [3, 4, 5, 8],
    "1 &step 2 &other 3": [50],
    "1 +step 2": [2],
    "+steps 1 - +ste 2 - +step 3 - +STEP 4 -": [3],
}


@pytest.mark.parametrize("probe", HOW)
@pytest.mark.parametrize("words", NVTX)
def test_nvtx(tmp_path, program, probe, words):
    """The whole text must be equal; ranges may be nested, and of other threads."""
    p = Parts(tmp_path, probe, ["--capture-range=nvtx:step"], words, program)
    assert p.numbers == NVTX[words] and not p.ran.err
    assert p.t.end["nvtx_ranges"] == words.count("+") + words.count("&")
    assert {e["text"] for e in p.t.ev if e["type"] == "range"} & {"all", "other", "steps", "STEP"} == set()


def test_many_parts(tmp_path, program):
    """More than are kept in memory."""
    words = " ".join(f"{2 * i} +step {2 * i + 1} -" for i in range(200))
    assert Parts(tmp_path, "inject", ["--capture-range=nvtx:step"], words, program).numbers == list(range(1, 400, 2))


@pytest.mark.parametrize("probe", HOW)
def test_start_after(tmp_path, program, probe):
    """The beginning is left out; what the program is called, and its end, stay."""
    p = Parts(tmp_path, probe, ["--start-after", "3"], "1 2 @6000 3 4", program)
    assert p.numbers == [3, 4] and p.outside == 5
    assert {e["op"] for e in p.t.proc} >= {"exit"} and p.t.lib


def test_start_after_and_duration(tmp_path, program):
    """The duration counts from the start of what is written."""
    p = Parts(tmp_path, "inject", ["--start-after", "3", "--duration", "6s"], "1 @6000 2 @9000 3", program)
    assert p.numbers == [2] and p.t.end["reason"] == "duration" and 8900 < p.t.end["wall_ms"] < 13000


def test_both(tmp_path, program):
    """A part that is open at the time goes on then."""
    p = Parts(tmp_path, "inject", ["--start-after", "3", "--capture-range=cudaProfilerApi"], "1 start 2 @6000 3 stop 4", program)
    assert p.numbers == [3]


@pytest.mark.parametrize("option, why", [("cudaProfilerApi", "no process called cuProfilerStart: the trace has no calls"),
                                         ("nvtx:none", "no process began the NVTX range 'none': the trace has no calls")])
def test_nothing(tmp_path, program, option, why):
    p = Parts(tmp_path, "inject", ["--capture-range=" + option], "1 +step 2 -", program)
    assert not p.numbers and why in p.ran.err


def test_none(tmp_path, program):
    assert Parts(tmp_path, "inject", ["--capture-range=nvtx:x", "--capture-range=none"], "1 start 2", program).numbers == [1, 2]


def test_all_functions(tmp_path, program):
    """With every function, the calls of the profiler are in the parts that they bound."""
    p = Parts(tmp_path, "inject", ["-e", ALL, "--capture-range=cudaProfilerApi"], "1 start 2 stop 3", program)
    assert [e["name"] for e in p.t.calls] == ["cuProfilerStart", "cuMemAlloc", "cuProfilerStop"]


@pytest.mark.parametrize("args, why", [
    (["--capture-range=x"], "give cudaProfilerApi, nvtx:NAME or none"), (["--capture-range=nvtx:"], "give cudaProfilerApi, nvtx:NAME or none"),
    (["--start-after", "0"], "must be above 0"), (["--start-after", "x"], "not a number"),
    (["--capture-range=cudaProfilerApi", "--min-duration", "5"], "leave out --min-duration"),
    (["--capture-range=nvtx:x", "--no-strings"], "leave out --no-strings"),
])
def test_wrong(args, why):
    ran = Ran([CUDATRACE, *args, "--", "true"])
    assert ran.status == 2 and why in ran.err and len(ran.err.splitlines()) == 1
