# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 25
"""A process that sends false data over the library's own channels (tests/inject/hostile.c): the tracer is not damaged, ends
when it should, uses limited memory, and traces the others."""
import os
import resource
import signal
import subprocess
import time

import pytest
from helpers.jsonl import Trace
from helpers.run import CUDATRACE, FAKE, O, TESTS, Ran, needs_tracing, until

CC = os.environ.get("CC", "gcc").split()
# Without privileges, and with uprobes.
ALONE = ["--probe=inject", "--kernel"]
WAYS = {"alone": ALONE, "both": ["--probe=inject"]}
SAN = O + "/san/cudatrace"


@pytest.fixture(scope="module")
def hostile():
    needs_tracing()
    program = os.environ["TMP"] + "/hostile"
    subprocess.run([*CC, "-O1", "-g", "-D_GNU_SOURCE", f"-I{TESTS}/../include", "-o", program, f"{TESTS}/inject/hostile.c", "-ldl"], check=True)
    return [program, FAKE + "/libcuda.so.1"]


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def trace(tmp_path, way, *command, program=CUDATRACE, **how):
    path = tmp_path / "t.jsonl"
    began = time.monotonic()
    ran = Ran([program, "-q", *way, "-e", "all", "--jsonl", str(path), "--", *command], **how)
    return ran, Trace(path), time.monotonic() - began


def test_forgotten(hostile, way, tmp_path):
    if not os.path.exists(SAN):
        pytest.skip("there is no tracer with sanitizers: make check-build")
    env = {"ASAN_OPTIONS": "abort_on_error=0:detect_leaks=0"}
    ran, t, _ = trace(tmp_path, [*way, "--no-sandbox"], *hostile, "forgotten", program=SAN, env=env)
    assert ran.status == 0 and "ERROR" not in ran.err, ran
    assert t.end["type"] == "end"


def test_busy(hostile, way, tmp_path):
    path = tmp_path / "t.jsonl"
    p = subprocess.Popen([CUDATRACE, "-q", *way, "--duration", "1", "--jsonl", path, "--", *hostile, "busy", "60"],
                         start_new_session=True)
    try:
        until(lambda: path.exists() and '"type":"end"' in path.read_text(), 5)
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def test_writer(hostile, way, tmp_path):
    """The tracer waits for the child, whatever that writes into its parent's rings."""
    ran, t, took = trace(tmp_path, way, *hostile, "writer", "3")
    assert ran.status == 0 and t.end["type"] == "end" and took < 25, (ran, took)
    assert len({e["pid"] for e in t.ev if e.get("comm") == "written"}) <= 1


def test_many(hostile, way, tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    ran, t, took = trace(tmp_path, way, *hostile, "many", timeout=120)
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert ran.status == 0 and ran.out.startswith("joined "), ran
    assert t.end["drops"]["processes"] > 0, t.end
    assert after < max(before, 400 << 10), (before, after, took)


def test_connections(hostile, way, tmp_path):
    ran, t, _ = trace(tmp_path, way, *hostile, "connections", FAKE + "/sample", "--tokens", "1", "--quiet", env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0 and t.sym["cuLaunchKernel"] > 50, ran
