# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
# uses: real-libcuda
"""The real driver libraries that are available without a GPU: the trace must have the program's calls, and probes must be where they cost
least. Without a GPU little of a driver works, but every entry point exists. make check uses the first branch whose functions have dispatch
pointers and the newest; make check-all the others."""
import collections
import os
import platform
import re
import shutil

import pytest
from helpers.live import compiled
from helpers.probed import probed
from helpers.run import KERNEL, SINCE, TESTS, Ran, needs_tracing, passes, traced

BRANCHES = ["470", "555", *(pytest.param(b, marks=pytest.mark.long) for b in ("450", "460", "525", "535", "550"))]
# Those whose functions have dispatch pointers.
NEWER = [b for b in BRANCHES if getattr(b, "values", [b])[0] not in ("450", "460", "525")]
Library = collections.namedtuple("Library", "version path")


@pytest.fixture(scope="module")
def archive():
    """The libraries by branch. cuInit as root creates a device file; a real driver's file stays."""
    needs_tracing()
    if platform.machine() != "x86_64":
        pytest.skip("fetched for x86-64 only")
    ran = Ran(["tools/fetch-libcuda.sh"], timeout=200)
    found = {line.split(".")[0]: Library(*line.split(" ", 1)) for line in ran.out.splitlines()}
    yield found, (ran.err.splitlines() or ["not in the archive"])[-1]
    if not os.path.exists("/sys/module/nvidia") and os.path.exists("/dev/nvidiactl"):
        os.unlink("/dev/nvidiactl")


@pytest.fixture
def lib(archive, branch):
    found, why = archive
    if branch not in found:
        pytest.skip(why)
    return found[branch].path


@pytest.fixture(scope="module")
def program():
    """The path of a program of tests/real, built when first needed."""
    def built(name):
        out = f"{os.environ['TMP']}/{name}"
        return out if os.path.exists(out) else compiled(out, "-std=gnu11", "-I", TESTS + "/cases", f"{TESTS}/real/{name}.c")
    return built


@pytest.mark.parametrize("how", ["--libcuda", "found when loaded", "multi"])
@pytest.mark.parametrize("branch", BRANCHES)
def test_calls(tmp_path, lib, program, how):
    """Events must be as the program printed them, with nothing to report."""
    if how == "multi" and KERNEL < SINCE["multi"]:
        pytest.skip("not in this kernel")
    options = {"--libcuda": ["--libcuda", lib], "multi": ["--mechanism=multi"]}.get(how, [])
    t = traced(tmp_path / "t", "--all", *options, "--", program("calls"), lib, *["5"] * (how == "multi"))
    (tmp_path / "said").write_text(t.ran.out)
    passes("cases/expect.py", tmp_path / "t", tmp_path / "said")
    assert re.fullmatch(r"cuInit \d+\n", t.ran.err) and t.accounts(), t.ran
    print(f"{lib}: {t.ran.err.strip()}, {t.end['calls']} calls")
    assert how == "multi" or len(t.calls) > 600
    if how == "--libcuda":
        (library,) = t.head["libraries"]
        assert len(library["build_id"]) == 40 and library["functions"] > 300
    elif how == "found when loaded":
        # Up to 470, mapped in two steps for segments aligned to 2 MB: see bpf/proc.bpf.h.
        assert [(e["op"], e["path"]) for e in t.lib] == [("attached", os.path.realpath(lib))]


@pytest.mark.parametrize("branch", NEWER)
def test_places(running, tmp_path, lib):
    """Probes must be at +10, except for the few functions that begin differently; afterwards the code is as in the file."""
    # Under another name, which no other tracer of the whole machine finds.
    copy = shutil.copy(os.path.realpath(lib), tmp_path / "driver.bin")
    target = running.caller()
    assert target.tell(f"open {copy}") == 1
    t = running.tracer("places", "--all", "--libcuda", copy, "-p", target.pid)
    found = probed(target.pid, copy)
    t.stop()
    at = collections.Counter({place: int(n) for n, place in re.findall(r"(\d+) at (0xa|0x0)\b", found)})
    assert at["0xa"] > 300 and at["0x0"] <= 5, found
    assert t.trace.head["libraries"][0]["functions"] == at.total() and probed(target.pid, copy) == "none"


@pytest.mark.parametrize("branch", NEWER)
def test_a_traced_call_costs_as_little_as_the_stub(tmp_path, lib, program):
    """A single-stepped probe costs ten times as much as the stub that cudatrace measures at start. Other processes may make one try slower,
    but not five."""
    tries = []
    for _ in range(5):
        bare = int(Ran([program("cost"), lib]).out)
        t = traced(tmp_path / "t", "-e", "cuGetErrorName", "--", program("cost"), lib)
        tries.append((bare, int(t.ran.out), round(t.head["probe_cost_ns"])))
        if tries[-1][2] > 0 and tries[-1][1] - bare < tries[-1][2] * 3 + 1500:
            return
    raise AssertionError(f"nanoseconds of cuGetErrorName: bare, traced, of the stub: {tries}")
