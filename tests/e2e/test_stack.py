# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
"""--stack: the callers of a call, by each mechanism, with and without frame pointers and symbols, and after the process has ended. Also
tests the memory of many stacks, and the results in the report."""
import json
import os
import platform
import subprocess
import sys

import pytest
from helpers.jsonl import Trace
from helpers.live import kilobytes
from helpers.run import CC, CUDATRACE, FAKE, KERNEL, MECHANISMS, TESTS, Ran, cudatrace, needs_mechanism, needs_tracing

LIB, ENV = FAKE + "/libcuda.so.1", {"LD_LIBRARY_PATH": FAKE}
FEW = "cuInit,cuMemAlloc,cuLaunchKernel"
HERE = TESTS + "/stack/"
EXPECTED = """cuInit main
cuMemAlloc inner outer main
cuLaunchKernel inner outer main
cuMemAlloc inner outer thread
cuMemAlloc app::pool::grow(int (*)(unsigned long*, unsigned long)) _Z1fDTsr1aC plugin_alloc main"""


class Built:
    """Targets made of tests/stack/stacks.c, their plugin, and a mock driver with frame pointers, without which a nested call's stack
    would end in the driver."""

    def __init__(self, folder):
        def stacks(name, *args):
            subprocess.run([*CC, "-O2", "-w", "-o", f"{folder}/{name}", *args, HERE + "stacks.c", "-ldl", "-lpthread"], check=True)
            return f"{folder}/{name}"
        self.fp = stacks("fp", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
        self.nofp = stacks("nofp", "-fomit-frame-pointer")
        self.exec = stacks("exec", "-g", "-fno-omit-frame-pointer", "-no-pie")
        self.stripped, self.plugin, self.driver = folder + "/stripped", folder + "/plugin.so", folder + "/b/fake"
        subprocess.run(["strip", "-o", self.stripped, self.fp], check=True)
        subprocess.run([*os.environ.get("CXX", "g++").split(), "-O2", "-w", "-shared", "-fPIC", "-fno-omit-frame-pointer", "-Wl,--build-id", "-o", self.plugin,
                        HERE + "plugin.cc"], check=True)
        subprocess.run(["make", "-s", "-f", "tests/fake/fake.mk", f"O={folder}/b", "FAKE_CFLAGS=-O1 -fno-omit-frame-pointer", self.driver + "/libcuda.so.1"], check=True)


@pytest.fixture(scope="module")
def built():
    needs_tracing()
    return Built(os.environ["TMP"])


@pytest.fixture
def traced(tmp_path):
    """traced(OPTION... -- COMMAND...): the trace"""
    def run(*args, env=None):
        path = tmp_path / "t.jsonl"
        path.unlink(missing_ok=True)
        ran = cudatrace("-q", "--jsonl", path, *args, env={**ENV, "STACKS_TRACE": str(path), **(env or {})})
        assert ran.status == 0, ran
        return Trace(path)
    return run


def frames_of(trace):
    return [e["frames"] for e in trace.ev if e["type"] == "stack"]


def stacks(trace):
    """Each call's function and the functions of its stack, one call per line, without offsets and without functions outside the target
    (libc)."""
    known, out = {}, []
    for e in trace.ev:
        if e["type"] == "stack":
            # Each stack is defined once.
            assert e["id"] not in known
            known[e["id"]] = e["frames"]
        elif "symbol" in e:
            own = [f for f in (known[e["stack"]] if "stack" in e else []) if "libc.so" not in f.get("module", "")]
            out.append(" ".join([e["name"], *[f.get("symbol", "?").split("+0x")[0] for f in own]]))
    return "\n".join(out)


@pytest.mark.parametrize("mech", MECHANISMS)
def test_mechanism(built, traced, mech):
    """Stacks of main, a thread and a plugin must be right, and the same at the entry."""
    needs_mechanism(mech)
    t = traced(f"--mechanism={mech}", "-e", FEW, "--stack", "--", built.fp, LIB, built.plugin)
    assert stacks(t) == EXPECTED and t.accounts() and t.end["events"]["stack"] == 5 and t.head["stacks"]
    t = traced(f"--mechanism={mech}", "-e", FEW, "--stack", "--entry-only", "all", "--", built.fp, LIB, built.plugin)
    assert stacks(t) == EXPECTED


def test_late_plugin(built, traced):
    """A library mapped long after the first call must have names, even if the process ends soon: the sleeping tracer is woken."""
    t = traced("-e", "cuMemAlloc", "--stack", "--", "sh", "-c", 'for i in 1 2 3 4 5 6; do "$@"; done', "sh", built.fp, LIB, built.plugin, "late")
    assert len(t.calls) == 12
    # On a busy machine it may be too late for some.
    assert stacks(t).count("_Z1fDTsr1aC plugin_alloc main") >= 4, stacks(t)


@pytest.mark.skipif(KERNEL < (6, 11), reason="this kernel shows its own address in the place of the outer one's return address")
@pytest.mark.parametrize("mech", MECHANISMS)
def test_nested_calls(built, traced, mech):
    """In a nested call, the kernel has replaced the outer call's return address by its own: the stack must still be right."""
    needs_mechanism(mech)
    t = traced(f"--mechanism={mech}", "-e", "cuMemAlloc,cuMemAllocPitch", "--stack", "--", built.fp, built.driver + "/libcuda.so.1", "nest",
               env={"LD_LIBRARY_PATH": built.driver})
    assert stacks(t) == ("cuMemAlloc run_alloc_pitch fake_dispatch ? cuMemAllocPitch_v2 nest outer main\n"
                         "cuMemAllocPitch nest outer main")


def test_of_a_set(built, traced):
    """With --stack=memory, other calls must have no stacks."""
    assert stacks(traced("-e", FEW, "--stack=memory", "--", built.fp, LIB)) == (
        "cuInit\ncuMemAlloc inner outer main\ncuLaunchKernel\ncuMemAlloc inner outer thread")


def test_none(built, traced):
    t = traced("-e", FEW, "--", built.fp, LIB)
    assert t.accounts() and "stack" not in t.end["events"] and "stacks" not in t.head and not any("stack" in e for e in t.calls)


@pytest.mark.parametrize("exe", ["fp", "exec"])
def test_addresses(built, traced, exe):
    """The address must be valid for addr2line; the build id must be the file's."""
    path = getattr(built, exe)
    outer = next(f for frames in frames_of(traced("-e", FEW, "--stack", "--", path, LIB)) for f in frames if f.get("symbol", "").startswith("outer+"))
    assert Ran(["addr2line", "-f", "-e", path, outer["offset"]]).out.split("\n")[0] == "outer"
    assert f'Build ID: {outer["build_id"]}\n' in Ran(["readelf", "-n", path]).out


def test_without_frame_pointers(built, traced):
    """Without frame pointers, the caller must be right."""
    said = stacks(traced("-e", FEW, "--stack", "--", built.nofp, LIB)).split("\n")
    assert [line.split()[:2] for line in said] == [["cuInit", "main"], ["cuMemAlloc", "inner"], ["cuLaunchKernel", "inner"], ["cuMemAlloc", "inner"]]


def test_stripped(built, traced):
    """Stripped files must have modules and addresses."""
    t = traced("-e", FEW, "--stack", "--", built.stripped, LIB)
    assert t.accounts() and next(e for e in t.ev if e["type"] == "stack" and e["id"] == 2)["frames"][2]["module"].endswith("/stripped")
    assert all("offset" in f and "build_id" in f for frames in frames_of(t) for f in frames)


def test_many(built, tmp_path):
    """40,000 stacks of 20 frames must all be there, and memory must stay below a limit."""
    path = tmp_path / "many.jsonl"
    status, kb = kilobytes(CUDATRACE, "-q", "--buffer", "64M", "--jsonl", path, "-e", "cuMemAlloc", "--stack", "--", built.fp, LIB, "deep", 40000,
                           env={**os.environ, **ENV})
    t = Trace(path)
    assert status == 0 and t.accounts() and len({e.get("stack") for e in t.calls}) == 40000 and kb < 250000


# Names from the program itself, like Python's -X perf: they are used only from the process's own user.
perf_map = pytest.mark.skipif(platform.machine() != "x86_64", reason="its code is x86-64")


def jit(traced, *args, name=None):
    return traced("-e", "cuMemAlloc", "--stack", "--", sys.executable, HERE + "jit.py", LIB, *args, env={"JIT_NAME": name} if name else None)


@perf_map
def test_perf_map(built, traced):
    """Generated code must have its name."""
    frame = frames_of(jit(traced))[0][0]
    assert (frame["symbol"], frame["module"]) == ("py::train:model.py+0x10", "[anon]")


@perf_map
def test_perf_map_endless(built, traced):
    """A name that a demangler would expand endlessly must stay mangled."""
    t = jit(traced, name="_Z1fDTsr1aC")
    assert t.accounts() and frames_of(t)[0][0]["symbol"] == "_Z1fDTsr1aC+0x10"


@perf_map
def test_perf_map_of_another_user(built, traced):
    """Another user's file must not be used."""
    frame = frames_of(jit(traced, "other"))[0][0]
    assert "symbol" not in frame and frame["module"] == "[anon]"


@perf_map
def test_perf_map_in_another_root(built, traced, tmp_path):
    """A program in a private root, whose /tmp is a link to a path that exists outside with our file: no name of that file may be used."""
    if Ran(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status:
        pytest.skip("needs a mount namespace")
    outside = tmp_path / "outside"
    outside.mkdir()
    with open(HERE + "jit.py", encoding="utf-8") as f:
        (outside / "jit.py").write_text(f.read())
    t = traced("-e", "cuMemAlloc", "--stack", "--", "unshare", "-m", "bash", HERE + "other_root.sh", tmp_path, FAKE, sys.executable,
               env={"JIT_NAME": "s3cr3t", "JIT_FOLDER": "/w"})
    frame = frames_of(t)[0][0]
    assert "symbol" not in frame and frame["module"] == "[anon]"


# --- uses of stacks ---

def first_three(frames):
    return [f.split("+0x")[0] for f in frames[:3]]


def test_leak(built, traced, tmp_path):
    """A leak's stack must be in the report, as text, and in the Chrome trace."""
    traced("-e", "all,!other", "--stack", "--chrome", tmp_path / "leak.json", "--", built.fp, LIB)
    (leak,) = json.loads(cudatrace("report", "--format=json", tmp_path / "t.jsonl").out)["memory"]["leaks"]
    assert first_three(leak["stack"]) == ["inner", "outer", "main"]
    assert "was allocated by inner < outer < main" in cudatrace("report", "--full", tmp_path / "t.jsonl").out
    chrome = json.loads((tmp_path / "leak.json").read_text())
    assert first_three(next(e for e in chrome if e["name"] == "cuMemAlloc")["args"]["stack"]) == ["inner", "outer", "main"]
    assert not any(e["name"] == "stack" for e in chrome)


def test_live(built, traced, tmp_path):
    """The live report reads data of processes before they end: it must equal the report of the saved trace."""
    live, page = tmp_path / "live.json", tmp_path / "live.html"
    traced("--all", "--stack", "--report", live, "--report", page, "--", FAKE + "/sample")
    assert '"callers":[{"' in page.read_text()
    a, b = json.loads(live.read_text()), json.loads(cudatrace("report", "-q", "--format=json", tmp_path / "t.jsonl").out)
    a.pop("files"), b.pop("files")
    assert a["waits"]["callers"] and a == b


def test_who_waits(built, traced, tmp_path):
    traced("-e", "all,!other", "--stack", "--", built.fp, LIB, "sync")
    waits = json.loads(cudatrace("report", "--format=json", tmp_path / "t.jsonl").out)["waits"]
    callers = waits["callers"]
    assert sorted((c["count"], c["name"], c["stack"][0].split("+")[0]) for c in callers) == [(1, "cuCtxSynchronize", "main"), (3, "cuCtxSynchronize", "waiter")]
    assert sum(c["total_ns"] for c in callers) == waits["total_ns"]


@pytest.mark.parametrize("bad", ["--stack=nosuch", "--stack=", "--stack=,"])
def test_usage(bad):
    ran = cudatrace(bad, "--", "true")
    assert ran.status == 2 and ran.err.count("\n") == 1, ran
