# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 10
"""Processes that the in-process library cannot record, or no longer: they run as untraced, and the trace is incomplete."""
import json
import os
import platform
import subprocess

import pytest
from helpers.jsonl import Trace
from helpers.run import ALL, CUDATRACE, FAKE, INSIDE, TESTS, Ran, needs_tracing

LIBRARY = os.path.dirname(CUDATRACE) + "/libcudatrace-inject.so"
# what the message has: the reason
WHY = {"descriptors": "Too many open files", "memory": "Cannot allocate memory", "network": "Connection refused", "stopped": "timed out",
       "filter": "seccomp filter", "tsc": "disables the time stamp counter"}
X86 = ["tsc", "tsc-syscall", "tsc-raw", "self-tsc", "self-tsc-syscall"]
KINDS = ["descriptors", "memory", "network", "program-network", "self-network", "filter", "stopped", "stopped-timer", *(X86 if platform.machine() == "x86_64" else [])]


@pytest.fixture(scope="module")
def program():
    path = os.environ["TMP"] + "/lost"
    subprocess.run([*os.environ.get("CC", "gcc").split(), "-O1", "-o", path, TESTS + "/inject/lost.c", "-pthread", f"-L{FAKE}", "-l:libcuda.so.1",
                    "-Wl,-z,now"], check=True)
    return path


def run(way, path, command):
    """As root, or with what a user has."""
    if way == "root":
        needs_tracing()
    return Ran([*(INSIDE if way == "user" else []), CUDATRACE, "--no-summary", "--probe=inject", "-e", ALL, "--jsonl", path, "--", *command],
               env={"LD_LIBRARY_PATH": FAKE}, timeout=60)


@pytest.mark.parametrize("way", ["user", "root"])
@pytest.mark.parametrize("kind", KINDS)
def test_is_counted(tmp_path, program, kind, way):
    untraced = Ran([program, kind], env={"LD_LIBRARY_PATH": FAKE})
    if untraced.status:
        pytest.skip(f"{kind} does not work here: {untraced!r}")
    path = str(tmp_path / "trace")
    ran = run(way, path, [program, kind])
    assert ran.status == 0, ran
    t = Trace(path)
    if way == "root" and kind.startswith(("self-tsc", "program-")):
        # Probes record it.
        assert t.sym["cuDeviceGetCount"] == 101 and not t.end["drops"]["processes"], ran
        return
    if kind == "self-network" and t.sym["cuDeviceGetCount"] == 101:
        return
    # As root, probes may record some of them once the tracer has learned of it.
    assert t.sym["cuDeviceGetCount"] == 1 or way == "root" or kind == "self-network", ran
    assert t.end["drops"]["processes"] == 1, (ran, t.end)
    assert next(why for name, why in WHY.items() if name in kind) in ran.err and "the trace is incomplete" in ran.err, ran
    assert json.loads(Ran([CUDATRACE, "report", "--format=json", path]).out)["complete"] is False
    if kind.startswith("stopped"):
        # At most 200 ms for each step; 5 s before.
        assert int(ran.out.split()[0]) < 3000, ran


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 only")
@pytest.mark.parametrize("kind", ["tsc", "tsc-syscall", "tsc-raw"])
def test_alone(tmp_path, program, kind):
    """Without a tracer, the library starts one."""
    ran = Ran([program, kind], env={"LD_LIBRARY_PATH": FAKE, "LD_PRELOAD": LIBRARY, "CUDATRACE_OUT": str(tmp_path / "trace")})
    assert ran.status == 0, ran


@pytest.mark.parametrize("way", ["user", "root"])
def test_small_stack(tmp_path, program, way):
    """The first call of a forked child needs little stack: a 4 KiB buffer was on it."""
    path = str(tmp_path / "trace")
    assert run(way, path, [program, "stack", "4500"]).status == 0
    assert Trace(path).sym["cuDeviceGetCount"] == 101


@pytest.mark.parametrize("way", ["user", "root"])
@pytest.mark.parametrize("kind", ["outlives", "daemon"])
def test_child_outlives_its_parent(tmp_path, program, kind, way):
    """The trace must wait for a forked child that has not made a call when the command ends."""
    path = str(tmp_path / "trace")
    ran = run(way, path, [program, kind])
    assert ran.status == 0 and " that it started still run" in ran.err, ran
    t = Trace(path)
    assert t.sym["cuDeviceGetCount"] == 101 and not t.end["drops"]["processes"], ran


@pytest.mark.parametrize("way", ["user", "root"])
def test_locked_loader(tmp_path, program, way):
    """A forked child must not wait for the loader's lock, which a thread of its parent had."""
    path = str(tmp_path / "trace")
    ran = run(way, path, [program, "loader"])
    assert ran.status == 0 and Trace(path).sym["cuDeviceGetCount"] == 101, ran


@pytest.mark.parametrize("way", ["user", "root"])
def test_many_children(tmp_path, program, way):
    """Many forked children, whose threads all make their first call at once, must be recorded."""
    path = str(tmp_path / "trace")
    ran = run(way, path, [program, "crowd", "120"])
    assert ran.status == 0, ran
    t = Trace(path)
    assert (t.sym["cuDeviceGetCount"], t.end["drops"]["processes"]) == (1 + 120 * 16, 0), ran
