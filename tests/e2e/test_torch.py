# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
"""--torch: a program's operators and the calls in them, with mocks of PyTorch's libraries: exact counts, nesting, exceptions,
longjmp, threads, unreadable nodes. Also attached late; functions missing in a version are reported. With PyTorch itself, if installed,
operators must match those of torch.profiler."""
import collections
import json
import os
import signal
import subprocess
import sys

import pytest
from helpers.jsonl import Trace
from helpers.run import CUDATRACE, FAKE, MECHANISMS, TESTS, Ran, cudatrace, needs_mechanism, needs_tracing, until

SOURCES = TESTS + "/torch/"
CXX = os.environ.get("CXX", "g++").split()
LIBS = {"TORCH_CPU": "libtorch_cpu.so", "C10": "libc10.so", "TORCH_PYTHON": "libtorch_python.so"}


def build(folder, *flags):
    os.makedirs(folder, exist_ok=True)
    for macro, name in LIBS.items():
        subprocess.run([*CXX, "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-omit-frame-pointer", f"-D{macro}", *flags,
                        f"-Wl,-soname,{name}", "-Wl,--build-id", "-o", f"{folder}/{name}", SOURCES + "torch.cc"], check=True)
    subprocess.run([*CXX, "-std=c++17", "-O2", "-o", folder + "/program", SOURCES + "program.cc", *(f"{folder}/{name}" for name in LIBS.values()),
                    "-ldl", "-lpthread", "-Wl,-rpath," + folder], check=True)
    return folder


@pytest.fixture(scope="module")
def built():
    return build(os.environ["TMP"] + "/torch")


class Traced:
    def __init__(self, tmp_path, built, *does, options=()):
        needs_tracing()
        self.path = tmp_path / "t.jsonl"
        self.ran = Ran([CUDATRACE, "-q", "--torch", *options, "--jsonl", str(self.path), "--", built + "/program", *does],
                       env={"LD_LIBRARY_PATH": FAKE})
        assert self.ran.status == 0, self.ran
        self.read()

    def read(self, missed=(), drops=False):
        self.t = Trace(self.path)
        assert self.t.accounts(drops=drops, missed=missed)
        self.ops = [e for e in self.t.ev if e["type"] == "operator"]
        self.by_id = {e["id"]: e for e in self.ops}
        assert len(self.by_id) == len(self.ops)
        self.call = {e["size"] - 1000: e for e in self.t.calls if e["symbol"] == "cuMemAlloc_v2" and "size" in e}

    def names(self):
        return collections.Counter(e["name"] for e in self.ops)

    def stack(self, line):
        """The enclosing operators of a call or an operator, innermost first."""
        found, at = [], line.get("operator_id", line.get("parent") if line["type"] == "operator" else None)
        while at:
            found.append(self.by_id[at]["name"])
            at = self.by_id[at].get("parent")
        return found

    def where(self, *numbers):
        for n in numbers:
            assert self.call[n].get("operator") == (self.stack(self.call[n]) or [None])[0]
        return [self.stack(self.call[n]) for n in numbers]

    def inside(self):
        """Times of operators must enclose those of the calls and operators in them."""
        for e in self.ops:
            end = e["ts"] + e.get("duration_us", e.get("elapsed_us")) / 1000
            assert e["min_duration_us"] <= e.get("duration_us", e.get("elapsed_us")) + 2e-3
            if e.get("parent") and "duration_us" in self.by_id[e["parent"]]:
                outer = self.by_id[e["parent"]]
                assert outer["ts"] <= e["ts"] and end <= outer["ts"] + outer["duration_us"] / 1000 + 2e-6
        for c in self.t.calls:
            if "operator_id" in c:
                outer = self.by_id[c["operator_id"]]
                assert outer["ts"] <= c["ts"] and c["ts"] + c["duration_us"] / 1000 <= outer["ts"] + outer.get("duration_us", outer.get("elapsed_us")) / 1000 + 2e-6


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nested(tmp_path, built, mechanism):
    needs_mechanism(mechanism)
    # Few functions: closing a thousand perf events takes a minute after the tracer has ended.
    t = Traced(tmp_path, built, "nested", options=[f"--mechanism={mechanism}", "-e", "cuMemAlloc*"])
    assert t.names() == {"aten::outer": 1, "aten::inner": 2, "aten::add_": 1}
    assert t.where(1, 2, 3, 4, 5) == [["aten::outer"], ["aten::inner", "aten::outer"], ["aten::add_", "aten::inner", "aten::outer"], ["aten::outer"], []]
    t.inside()
    assert all("duration_us" in e and e["op"] == "forward" for e in t.ops)
    outer = next(e for e in t.ops if e["name"] == "aten::outer")
    assert outer["seq"] == 100 and all("seq" not in e for e in t.ops if e is not outer)
    assert (t.t.end["torch_operators"], t.t.end["torch_nodes"], t.t.end["torch_unnamed"], t.t.end["torch_unfinished"]) == (4, 0, 0, 0)


def test_siblings(tmp_path, built):
    """Ended operators must be closed, even if their return addresses are still on the stack."""
    t = Traced(tmp_path, built, "siblings")
    assert t.names() == {"aten::outer": 1, "aten::empty": 10}
    assert t.where(*range(10, 21)) == [["aten::outer"]] * 10 + [[]]
    t.inside()


def test_exceptions(tmp_path, built):
    """Operators left by an exception must be ended, like any other function."""
    t = Traced(tmp_path, built, "throws")
    assert t.names() == {"aten::outer": 10, "aten::inner": 10}
    assert t.where(*range(30, 40)) == [["aten::inner", "aten::outer"]] * 10
    assert t.where(*range(40, 50)) == [[]] * 10
    t.inside()


def test_longjmp(tmp_path, built):
    t = Traced(tmp_path, built, "jumps")
    assert t.where(50, 51) == [["aten::inner", "aten::outer"], []]


def test_backward(tmp_path, built):
    t = Traced(tmp_path, built, "backward")
    nodes = [e for e in t.ops if e["op"] == "backward"]
    assert [e["name"] for e in sorted(nodes, key=lambda e: e["ts"])] == ["AddmmBackward0", "torch::autograd::AccumulateGrad"] + ["unknown node"] * 3
    assert [e.get("seq") for e in sorted(nodes, key=lambda e: e["ts"])][:2] == [100, None]
    assert t.where(60, 61) == [["aten::inner", "AddmmBackward0"], ["torch::autograd::AccumulateGrad"]]
    assert t.where(62, 63, 64) == [["unknown node"]] * 3
    assert (t.t.end["torch_nodes"], t.t.end["torch_unnamed"]) == (5, 3)


def test_threads(tmp_path, built):
    t = Traced(tmp_path, built, "threads")
    assert t.names() == {"aten::outer": 200, "aten::inner": 200}
    calls = [c for c in t.t.calls if 70 <= c.get("size", 0) - 1000 < 74]
    assert len(calls) == 200 and all(t.stack(c) == ["aten::inner", "aten::outer"] for c in calls)
    assert all(t.by_id[c["operator_id"]]["tid"] == c["tid"] for c in calls)
    # The last operator of each thread: no later event closed it.
    assert t.t.end["torch_unfinished"] == sum("elapsed_us" in e for e in t.ops) == 8


def test_allocator(tmp_path, built):
    t = Traced(tmp_path, built, "allocator", options=["--chrome", str(tmp_path / "c.json")])
    lines = [e for e in t.t.ev if e["type"] == "allocator"]
    assert [(e["op"], e["size"], e.get("ptr"), e["device"], e["allocated"], e["reserved"], e.get("operator")) for e in lines] == [
        ("alloc", 512, "0x7000", "cuda:0", 512, 2 << 20, "aten::outer"), ("alloc", 1024, "0x7200", "cuda:0", 1536, 2 << 20, "aten::outer"),
        ("free", 512, "0x7000", "cuda:0", 1024, 2 << 20, None), ("alloc", 256, "0x9000", "cuda:1", 256, 1 << 20, None),
        ("oom", 1 << 40, None, "cuda:0", 1024, 2 << 20, None)]
    assert [t.t.end["torch_" + n] for n in ("allocs", "frees", "ooms")] == [3, 1, 1]
    said = json.loads(cudatrace("report", "--format", "json", t.path).out)["allocator"]["list"]
    assert [(r["device"], r["allocations"], r["frees"], r["ooms"], r["allocated"], r["peak_allocated"], r["unused_at_peak"]) for r in said] == [
        ("cuda:0", 2, 1, 1, 1024, 1536, (2 << 20) - 1536), ("cuda:1", 1, 0, 0, 256, 256, (1 << 20) - 256)]
    with open(tmp_path / "c.json", encoding="utf-8") as f:
        chrome = json.load(f)
    assert [e["args"]["bytes"] for e in chrome if e["name"] == "PyTorch cuda:0 allocated"] == [512, 1536, 1024, 1024]
    rows = {e["tid"] for e in chrome if e["name"] == "aten::outer" and e["ph"] == "X"}
    assert [e["args"]["name"] for e in chrome if e["name"] == "thread_name" and e["tid"] in rows][0].startswith("PyTorch ")


def test_too_deep(tmp_path, built):
    t = Traced.__new__(Traced)
    t.path = tmp_path / "t.jsonl"
    needs_tracing()
    ran = Ran([CUDATRACE, "-q", "--torch", "--jsonl", str(t.path), "--", built + "/program", "too_deep"], env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0, ran
    t.read(missed=("depth",))
    assert t.t.end["drops"]["depth"] == 100 - 64 and t.t.end["torch_operators"] == 100
    assert t.where(80) == [[]]


def test_full_rings(tmp_path, built):
    """With 28 threads and a stopped tracer, records are lost and counted. No call may be under a wrong operator, and all must be right when
    the rings have space again."""
    needs_tracing()
    trace = tmp_path / "t.jsonl"
    with subprocess.Popen([built + "/program", "wait", "flood", "wait", "nested"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": FAKE}) as program:
        assert program.stdout.readline() == "ready\n"
        with subprocess.Popen([CUDATRACE, "-q", "--torch", "--buffer-size", "2M", "-e", "cuMemAlloc*", "-p", str(program.pid), "--jsonl", trace]) as tracer:
            until(lambda: trace.exists() and '"type":"header"' in trace.read_text())
            tracer.send_signal(signal.SIGSTOP)
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout.readline() == "ready\n"
            tracer.send_signal(signal.SIGCONT)
            # The records in the rings are read, and no more come.
            sizes = []
            until(lambda: sizes.append(trace.stat().st_size) or (len(sizes) > 20 and sizes[-20] == sizes[-1] > 1 << 20))
            program.stdin.write("\n")
            program.stdin.close()
            assert tracer.wait(60) == 0
    t = Traced.__new__(Traced)
    t.path = trace
    t.read(drops=True)
    assert t.t.end["drops"]["calls"] > 1000 and t.t.end["torch_operators"] > 1000
    within = {1: ["aten::inner", "aten::outer"], 2: ["aten::add_", "aten::outer"], 3: ["aten::outer"], 4: []}
    cnt = collections.Counter()
    for c in (c for c in t.t.calls if c.get("size", 0) - 1000 in within and c["tid"] != program.pid):
        made_in = list(within[c["size"] - 1000])
        assert ("operator_id" in c) == bool(made_in) and c.get("operator") in (None, *made_in[:1])
        at = t.by_id.get(c.get("operator_id"))
        while at:
            assert at["name"] == made_in.pop(0) and at["tid"] == c["tid"]
            at = t.by_id.get(at.get("parent"))
        cnt[c["size"] - 1000] += 1
    assert min(cnt[n] for n in within) > 100
    assert t.where(1, 2, 3, 4, 5) == [["aten::outer"], ["aten::inner", "aten::outer"], ["aten::add_", "aten::inner", "aten::outer"], ["aten::outer"], []]


def test_hostile(tmp_path, built):
    """Absurd and changing return addresses may spoil only the program's own data."""
    t = Traced(tmp_path, built, "absurd", "nested")
    assert t.names()["aten::outer"] == 20001 and t.names()["aten::inner"] == 20002
    assert t.where(1, 2, 3, 4, 5) == [["aten::outer"], ["aten::inner", "aten::outer"], ["aten::add_", "aten::inner", "aten::outer"], ["aten::outer"], []]


def test_killed(tmp_path, built):
    """Operators in progress at a kill must be in the trace, without an end."""
    needs_tracing()
    trace = tmp_path / "t.jsonl"
    ran = Ran([CUDATRACE, "-q", "--torch", "--jsonl", str(trace), "--chrome", str(tmp_path / "c.json"), "--", built + "/program", "dies"],
              env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 128 + signal.SIGKILL, ran
    t = Traced.__new__(Traced)
    t.path = trace
    t.read()
    assert [(e["name"], "elapsed_us" in e, "duration_us" in e) for e in sorted(t.ops, key=lambda e: e["ts"])] == [
        ("aten::outer", True, False), ("aten::inner", True, False)]
    assert t.where(6) == [["aten::inner", "aten::outer"]]
    with open(tmp_path / "c.json", encoding="utf-8") as f:
        assert sorted(e["name"] for e in json.load(f) if e.get("cat") == "operator") == ["aten::inner", "aten::outer"]


@pytest.mark.parametrize("option", ["--no-strings", "--no-args"])
def test_redacted(tmp_path, built, option):
    """Operators are functions of a library, so their names stay. Nodes and the allocator's reports are arguments, and are redacted with
    --no-args."""
    t = Traced(tmp_path, built, "nested", "backward", "allocator", options=[option])
    assert t.names()["aten::outer"] == 2
    nodes = {e["name"] for e in t.ops if e["op"] == "backward"}
    redacted = option == "--no-args"
    assert ("AddmmBackward0" in nodes) != redacted and (t.t.end["torch_allocs"] == 0) == redacted
    assert not redacted or (nodes == {"unknown node"} and not any("seq" in e for e in t.ops if e["op"] == "backward"))


def test_report_and_summary(tmp_path, built):
    t = Traced(tmp_path, built, "nested", "backward")
    rows = {(r.get("op"), r["name"]): r for r in json.loads(cudatrace("report", "--format", "json", t.path).out)["operators"]["list"]}
    assert rows[None, "aten::outer"]["count"] == 1 and rows[None, "aten::outer"]["calls"] == 4
    assert rows[None, "aten::inner"]["count"] == 3 and rows[None, "aten::inner"]["calls"] == 3
    assert rows["backward", "AddmmBackward0"]["calls"] == 1
    said = cudatrace("report", "--full", t.path).out
    assert "PyTorch operators" in said and "aten::inner" in said
    both = cudatrace("--torch", "--json", "--jsonl", tmp_path / "u.jsonl", "--", built + "/program", "nested", env={"LD_LIBRARY_PATH": FAKE})
    assert {r["name"] for r in json.loads(both.out[both.out.index("{"):] if both.out else both.err[both.err.index("{"):])["operators"]["list"]} == {"aten::outer", "aten::inner", "aten::add_"}


def test_late(tmp_path, built):
    """Operators must be traced after attaching to a running program."""
    needs_tracing()
    trace = tmp_path / "late.jsonl"
    program = subprocess.Popen([built + "/program", "wait", "nested", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "LD_LIBRARY_PATH": FAKE})
    assert program.stdout.readline() == "ready\n"
    with subprocess.Popen([CUDATRACE, "-q", "--torch", "-p", str(program.pid), "--jsonl", str(trace)]) as tracer:
        until(lambda: trace.exists() and '"type":"header"' in trace.read_text())
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "ready\n"
        program.stdin.write("\n")
        program.stdin.close()
        assert program.wait(60) == 0
        assert tracer.wait(60) == 0
    t = Traced.__new__(Traced)
    t.path = trace
    t.read()
    assert t.names() == {"aten::outer": 1, "aten::inner": 2, "aten::add_": 1}
    assert t.where(3) == [["aten::add_", "aten::inner", "aten::outer"]]


def test_without_frame_pointers(tmp_path):
    """An operator's place on the stack must be found by call frame information alone."""
    t = Traced(tmp_path, build(os.environ["TMP"] + "/torch-nofp", "-fomit-frame-pointer"), "nested", "siblings", "throws")
    assert t.where(3, 4, 5) == [["aten::add_", "aten::inner", "aten::outer"], ["aten::outer"], []]
    assert t.where(*range(10, 21)) == [["aten::outer"]] * 10 + [[]]
    assert t.where(*range(40, 50)) == [[]] * 10


def test_a_version_without(tmp_path):
    """Missing functions must be reported, and the rest traced."""
    t = Traced(tmp_path, build(os.environ["TMP"] + "/torch-old", "-DOLD"), "nested", "allocator")
    assert "reportOutOfMemoryToProfiler" in t.ran.err and "not traced" in t.ran.err
    assert t.names()["aten::outer"] == 2 and t.t.end["torch_allocs"] == 3


def test_not_without_root(tmp_path, built):
    from helpers.run import INSIDE
    if not INSIDE:
        pytest.skip("needs root, to be none")
    ran = Ran([*INSIDE, CUDATRACE, "--torch", "--probe=inject", "--jsonl", str(tmp_path / "t.jsonl"), "--", built + "/program"])
    assert ran.status == 2 and "--torch" in ran.err and "--probe=uprobe" in ran.err


def test_beside_the_library(tmp_path, built):
    """With --probe=inject as root, the library records these calls, and a probe in it reads their operators."""
    t = Traced(tmp_path, built, "nested", options=["--probe=inject"])
    assert all(x["id"] >> 48 == 2 for x in t.call.values()) and len(t.call) >= 5
    t.inside()
    assert t.where(1, 2, 3, 4, 5) == [["aten::outer"], ["aten::inner", "aten::outer"], ["aten::add_", "aten::inner", "aten::outer"], ["aten::outer"], []]


def a_torch():
    """A Python with PyTorch: this one, or $TORCH_PYTHON."""
    for python in filter(None, (os.environ.get("TORCH_PYTHON"), sys.executable)):
        if not subprocess.run([python, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
            return python
    return None


def test_real(tmp_path):
    """Names and counts of operators and nodes must match those of torch.profiler, and so must nearly all nesting."""
    needs_tracing()
    python = a_torch()
    if not python:
        pytest.skip("no Python here has PyTorch ($TORCH_PYTHON)")
    trace, profile = tmp_path / "t.jsonl", tmp_path / "p.json"
    ran = Ran([CUDATRACE, "-q", "--torch", "--no-wait", "--jsonl", str(trace), "--", python, SOURCES + "train.py", str(profile)], timeout=300)
    assert ran.status == 0, ran
    with open(profile, encoding="utf-8") as f:
        theirs = json.load(f)
    t = Traced.__new__(Traced)
    t.path = trace
    t.read()
    # Only the part between two operators of a kind used nowhere else; profilers omit the operators in this list.
    first, last = sorted(e["ts"] for e in t.ops if e["name"] == "aten::special_erfcx")
    unseen = {"aten::size", "aten::is_leaf", "aten::output_nr", "aten::_version", "aten::is_complex", "custom operator"}
    ours = [e for e in t.ops if first <= e["ts"] <= last and e["name"] not in unseen]
    # Also omitted: PyTorch's operators while a guard forbids observers.
    guarded = collections.Counter(e["name"] for e in ours if "parent" not in e and e["name"] == "aten::empty")
    names, shown = collections.Counter(e["name"] for e in ours), collections.Counter(name for name, _ in theirs)
    assert not shown - names and not (names - shown) - guarded
    pairs = collections.Counter((e["name"], (t.stack(e) or [None])[0]) for e in ours) - collections.Counter(map(tuple, theirs))
    assert pairs.total() <= len(ours) / 100, pairs
    # A backward node has the sequence number of its forward operator.
    made = {e["seq"]: e["name"] for e in t.ops if e["op"] == "forward" and "seq" in e}
    assert {made.get(e["seq"]) for e in ours if e["name"] == "AddmmBackward0"} == {"aten::addmm"}


def test_real_map(tmp_path):
    """PyTorch's own backward pass must be below its forward operators and the functions that called them."""
    needs_tracing()
    python = a_torch()
    if not python:
        pytest.skip("no Python here has PyTorch ($TORCH_PYTHON)")
    trace = tmp_path / "t.jsonl"
    ran = Ran([CUDATRACE, "-q", "--torch", "--python=launch,sync", "--jsonl", str(trace), "--", python, SOURCES + "launches.py", FAKE + "/libcuda.so.1", "6"], timeout=300)
    assert ran.status == 0, ran
    nodes = json.loads(cudatrace("report", "-q", "--format=json", trace).out)["map"]["nodes"]
    launches = collections.Counter()
    for n in nodes:
        if n["kind"] == "backward":
            launches[nodes[n["parent"]]["name"], n["name"]] += n["launches"]
    # Six steps of three blocks with two layers each: the backward pass has a product for each matrix, and for the inputs.
    assert launches == {("aten::addmm", "AddmmBackward0"): 72, ("aten::native_layer_norm", "NativeLayerNormBackward0"): 18, ("aten::gelu", "GeluBackward0"): 18}
    linear = [n for n in nodes if n["name"] == "Linear.forward"]
    assert sum(n["launches"] for n in linear) == 36 + 72 or sys.version_info < (3, 11)
