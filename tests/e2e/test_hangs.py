# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
"""--hang-after: waits planted with the mock driver must be reported once while they last, with the work that the program planted, and once when they
end; short waits must not be reported."""
import pytest
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.outputs import schema
from helpers.run import CUDATRACE, FAKE, INSIDE, TESTS, Ran, needs_tracing

HANG_MS = 2000
ENV = {"LD_LIBRARY_PATH": FAKE, "FAKE_HANG": f"_Z5spinsPVi:{HANG_MS}"}
SPINS, HOST = "spins(int volatile*)", "cuLaunchHostFunc"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("hangs") / "hangs", f"-I{TESTS}", f"{TESTS}/hangs.c")


def watch(tmp_path, program, what, *args, before=(), command=(), env=None):
    """The trace, the reports of waits that last, of waits that ended, and the warnings."""
    path = tmp_path / "t.jsonl"
    ran = Ran([*before, CUDATRACE, "-q", "--hang-after", "800ms", "--jsonl", str(path), *args, "--", *command, program, what], env={**ENV, **(env or {})})
    schema(path)
    t = Trace(path)
    hangs = [x for x in t.ev if x["type"] == "tracer" and x["op"] == "hang"]
    return t, [x for x in hangs if "over" not in x], [x for x in hangs if "over" in x], ran.err.splitlines()


def is_true(t, x, function, work):
    """The report agrees with the lines of the calls."""
    [wait] = [c for c in t.calls if c["tid"] == x["thread"] and c["name"] == function and c.get("duration_us", c.get("elapsed_us", 0)) > 800_000]
    assert wait["pid"] == x["process"] and x["function"] == function and 800_000 < x["waited_us"] < 1_900_000
    assert wait["ts"] * 1e3 + x["waited_us"] == pytest.approx(x["ts"] * 1e3, abs=200_000)
    submitted = [c for c in t.calls if c["id"] == x.get("work_id")]
    assert [c.get("kernel", c["name"]) for c in submitted] == ([work] if work else [])
    assert not work or (submitted[0]["stream"], x["work"]) == (x["stream"], work)


# What the program does: the call, the first work, how many are behind, whether it is certain, words.
PLANTED = {
    "kernel": ("cuStreamSynchronize", SPINS, 2, False, "probably runs"),
    "alone": ("cuStreamSynchronize", SPINS, 0, True, SPINS + " runs"),
    "beside": ("cuStreamSynchronize", SPINS, 0, False, "probably runs"),
    "event": ("cuStreamSynchronize", SPINS, 1, False, "probably runs"),
    "recorded": ("cuEventSynchronize", SPINS, 0, True, SPINS + " runs"),
    "copy": ("cuMemcpyDtoH", SPINS, 0, True, SPINS + " runs"),
    "free": ("cuMemFree", SPINS, 0, True, SPINS + " runs"),
    "sleeps": ("cuStreamSynchronize", HOST, 0, True, "a host function must not call CUDA or wait for a thread that does"),
}


def check_planted(t, begun, over, err, what):
    function, work, behind, certain, words = PLANTED[what]
    [x] = begun
    is_true(t, x, function, work)
    assert (x["behind"], x.get("certain", False)) == (behind, certain) and words in x["why"] and "deadlock" not in x
    assert err == ["cudatrace: warning: " + x["why"]]
    [y] = over
    [call] = [c for c in t.calls if c["tid"] == x["thread"] and c["name"] == function and c["duration_us"] > 800_000]
    assert y["waited_us"] == pytest.approx(call["duration_us"], rel=1e-4) and f"{function} returned after {call['duration_us'] / 1e6:.1f} s" in y["why"]


@pytest.mark.parametrize("what", PLANTED)
def test_planted(tmp_path, program, what):
    needs_tracing()
    check_planted(*watch(tmp_path, program, what, "--probe=uprobe", env={"FAKE_DELAY_US": f"cuMemFree_v2:{HANG_MS * 1000}"} if what == "free" else {}), what)


@pytest.mark.parametrize("what", ["alone", "copy"])
def test_in_process(tmp_path, program, what):
    check_planted(*watch(tmp_path, program, what, "--probe=inject", before=INSIDE), what)


def test_who_launched(tmp_path, program):
    needs_tracing()
    _, [x], _, _ = watch(tmp_path, program, "alone", "--probe=uprobe", "--stack")
    assert x["launched_by"] == "launch" and "launched by launch, grid 2x1x1" in x["why"]


def test_deadlock(tmp_path, program):
    """Both threads wait until they are killed: the host function's stack shows that it calls CUDA."""
    needs_tracing()
    t, begun, over, _ = watch(tmp_path, program, "host", "--probe=uprobe", command=["timeout", "-s", "KILL", "2"])
    assert len(begun) == len(over) == 2 and {x["process"] for x in begun} == {begun[0]["process"]} and len({x["thread"] for x in begun}) == 2
    [caller] = {c["tid"] for c in t.calls} - {begun[0]["process"]}
    symbols = {s["id"]: [f.get("symbol", "") for f in s["frames"]] for s in t.ev if s["type"] == "stack"}
    for x in begun:
        assert x["deadlock"] == "host-function" and f"calls cuStreamSynchronize in thread {caller}, which CUDA forbids" in x["why"]
        assert any(s.startswith("calls_cuda+") for s in symbols[x["stack"]])
    assert all("cuStreamSynchronize had not returned after" in x["why"] for x in over)


def test_event_never_recorded(tmp_path, program):
    """PLANTED has a wait for a recorded one."""
    needs_tracing()
    _, [x], _, _ = watch(tmp_path, program, "never", "--probe=uprobe", command=["timeout", "-s", "KILL", "2"], env={"FAKE_EVENT_HANG": "1"})
    assert x["deadlock"] == "event" and "certain" not in x and "work" not in x and "the trace has no record of" in x["why"]


@pytest.mark.parametrize("option", ["--min-duration=1", "--trace=cuLaunchKernel,cuStreamSynchronize,cuInit"])
def test_filtered(tmp_path, program, option):
    """Calls that the trace leaves out may be the cause."""
    needs_tracing()
    _, [x], _, _ = watch(tmp_path, program, "alone", "--probe=uprobe", option)
    assert "certain" not in x


def test_no_args(tmp_path, program):
    """Without arguments only the call and its duration are known."""
    needs_tracing()
    _, [x], [_], _ = watch(tmp_path, program, "alone", "--probe=uprobe", "--no-args")
    assert not x.keys() & {"work", "work_id", "stream", "behind", "certain", "deadlock", "launched_by"} and "cuStreamSynchronize has not returned for" in x["why"]


@pytest.mark.parametrize("what,ms", [("kernel", 300), ("event", 300), ("copy", 300), ("host", 0)])
def test_healthy(tmp_path, program, what, ms):
    """Waits that are shorter than the limit; a program that is killed before it."""
    needs_tracing()
    _, begun, over, err = watch(tmp_path, program, what, "--probe=uprobe", env={"FAKE_HANG": f"_Z5spinsPVi:{ms}"}, command=["timeout", "-s", "KILL", "0.4"] if not ms else [])
    assert (begun, over, err) == ([], [], [])
