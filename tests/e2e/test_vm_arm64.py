# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 2400
# takes: 250
# long
# cpus: 2
"""arm64: Debian's kernels, booted in qemu, run the static program of `make cross-arm64` on the mock driver. The cases of tests/cases have
the same expectations on every machine."""
import glob
import json
import os
import platform
import re
import shutil

import pytest
from helpers.run import ALL, O, Ran, building, passes
from helpers.vm import Guests, Results

# Loading many programs takes long here, so only the newest kernel runs the cases in which mechanisms differ.
MECHANISMS = {"arm64-6.1": ["perf"], "arm64-newest": ["session", "multi"]}
KERNELS = list(MECHANISMS)
# Without longjmp: docs/LIMITS.md describes the difference on arm64.
CASES = {
    "session": ["dlopen_late", "fork", "launch", "memory", "nccl", "nested", "threads"],
    "multi": ["launch", "nested"],
    "perf": ["launch"],
    "inside": ["launch", "threads"],
}
BUILT = O if platform.machine() == "aarch64" else O + "/dist/build-arm64"
# Removing perf's probes one by one takes a while, so only some functions are traced.
FEW = "cuMem*,cuLaunch*,cuModule*,!cuMemGet*"


def guest_files():
    cases = [f"{path}:/cases/{os.path.basename(path)}" for path in glob.glob(BUILT + "/cases/*") if not path.endswith(".d")]
    return [*cases, f"{BUILT}/fake/libnccl.so.2:/usr/lib/libnccl.so.2"]


GUESTS = Guests(files=guest_files)


@pytest.fixture(scope="module", autouse=True)
def built():
    if not shutil.which("qemu-system-aarch64"):
        pytest.skip("qemu-system-arm is not installed")
    if platform.machine() == "aarch64":
        return
    if platform.machine() != "x86_64":
        pytest.skip("needs x86-64 or arm64")
    for missing, package in ((not shutil.which("aarch64-linux-gnu-g++"), "g++-aarch64-linux-gnu"),
                             (not os.path.exists("/usr/aarch64-linux-gnu/lib/libc.so.6"), "libc6-dev-arm64-cross")):
        if missing:
            pytest.skip(f"{package} is not installed")
    ran = Ran(["tools/cross-root.sh", O + "/dist/root-arm64"], timeout=300)
    if ran.status:
        pytest.skip(f"libraries of arm64 are not to be had: {(ran.out + ran.err)[-200:]}")
    ran = building("-s", "cross-arm64", timeout=900)
    assert ran.status == 0, ran


@pytest.fixture
def r(kernel, request):
    GUESTS.booted(kernel)
    return Results(kernel, request.function.__name__.removeprefix("test_"))


@pytest.mark.parametrize("kernel", KERNELS)
def test_boots(kernel):
    """It must come to an end."""
    ran = GUESTS.booted(kernel)
    assert ran.status == 0, ran


def traced(way, functions, *options):
    """Commands that leave WAY-CASE.*"""
    for case in CASES[way]:
        to, args = f"{way}-{case}", "/usr/lib/libcuda.so.1 50" if case == "dlopen_late" else ""
        yield f"FAKE_CUDA_COUNTS={to}.counts cudatrace -q {' '.join(options)} -e '{functions}' --jsonl {to}.jsonl -- /cases/{case} {args}" \
            f" >{to}.exp 2>{to}.err; echo $? >{to}.status"


def as_expected(r, way):
    """The traces must match the cases' expectations and the mock driver's counts."""
    for case in CASES[way]:
        to, present = f"{way}-{case}", ["--present"] * (way == "perf")
        assert (r.text(f"{to}.status"), r.text(f"{to}.err")) == ("0\n", ""), to
        trace, expected = r / f"{to}.jsonl", r / f"{to}.exp"
        passes("vm/emulated.py", *present, trace, expected)
        # On arm64 communicators are not distinguished (docs/COLLECTIVES.md): for NCCL only the counts are compared.
        if case != "nccl":
            passes("cases/expect.py", trace, expected)
        passes("cases/expect.py", "--counts", r / f"{to}.counts", *present, trace)
        t = r.trace(f"{to}.jsonl")
        assert t.calls and t.accounts(), to


@GUESTS.part(KERNELS, "cudatrace check --json >check.json; echo $? >status")
def test_checked(r):
    """`cudatrace check` must print that it can trace."""
    assert r.text("status") == "0\n"
    has = {c["name"]: c["state"] for c in json.loads(r.text("check.json"))["capabilities"]}
    multi = r.kernel != "arm64-6.1"
    want = {"uprobe_multi": multi, "uprobe_session": multi, "cookie": True, "kprobe": True, "ringbuf": True, "btf": True}
    assert {k: has[k] for k, v in want.items() if k in has and (has[k] == "yes") != v} == {}


@GUESTS.part(KERNELS, lambda kernel: "\n".join(
    line for m in MECHANISMS[kernel] for line in traced(m, FEW if m == "perf" else ALL, f"--mechanism={m}")))
def test_cases(r):
    for m in MECHANISMS[r.kernel]:
        as_expected(r, m)
        head = r.trace(f"{m}-launch.jsonl").head
        assert m in head["mechanism"] or m == "perf" and head["mechanism"] == "uprobe"
        assert (head["machine"], head["kernel"]) == ("aarch64", r.release)


@GUESTS.part(KERNELS, f"""
cudatrace -q --stack -e '{FEW}' --jsonl stack.jsonl -- sample --tokens 4 --layers 2 --quiet --counts >counts 2>err
echo $? >status""")
def test_stacks(r):
    """A program that makes calls like an inference server: its counts, names of kernels, and stacks up to its start, with names."""
    assert (r.text("status"), r.text("err")) == ("0\n", "")
    t = r.trace("stack.jsonl")
    assert t.accounts() and {k: n for k, n in t.sym.items() if k.startswith("cuLaunch")} == r.counts("counts", r"cuLaunch\w+")
    launches = [c for c in t.calls if c["symbol"] == "cuLaunchKernel"]
    assert {re.sub("^_Z[0-9]*|[(P].*", "", c["kernel"]) for c in launches} >= {"matmul", "softmax", "gelu", "layernorm"}
    named = {e["id"] for e in t.ev if e["type"] == "stack" and any(f.get("symbol", "").startswith("main+") for f in e["frames"])}
    assert launches and {c.get("stack") for c in launches} <= named


@GUESTS.part(KERNELS[1:], "\n".join(traced("inside", ALL, "--probe=inject")))
def test_in_process(r):
    """With the in-process library. The mock has no dispatch pointers on arm64."""
    as_expected(r, "inside")
