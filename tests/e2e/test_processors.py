# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# alone
"""Processors go offline and return while programs on them are traced: every call of every thread must be there. Tests the best mechanism;
make check-all tests the others."""
import glob
import pathlib
import time

import pytest
from helpers.jsonl import Trace
from helpers.run import CASES, CUDATRACE, FAKE, KERNEL, SINCE, needs_tracing, passes

HERE = [m for m in SINCE if KERNEL >= SINCE[m]]


@pytest.fixture
def online():
    """The file that takes the last processor offline."""
    needs_tracing()
    try:
        last = [p for p in map(pathlib.Path, sorted(glob.glob("/sys/devices/system/cpu/cpu*/online"))) if p.read_text() == "1\n"][-1]
        last.write_text("0")
    except (OSError, IndexError):
        pytest.skip("they cannot be taken offline here")
    last.write_text("1")
    yield last
    last.write_text("1")


@pytest.mark.parametrize("mech", [pytest.param(m, marks=[pytest.mark.long] * (m != HERE[0])) for m in HERE])
def test_processors_go_and_come_back(running, tmp_path, online, mech):
    tracer = running.start(CUDATRACE, "-q", "-e", "cuMemFree_v2", f"--mechanism={mech}", "--buffer-size", "64M", "--jsonl", tmp_path / "t",
                           "--", CASES + "/many", "cuMemFree_v2", 20000, 4, 50000, stderr=tmp_path / "err",
                           env={"LD_LIBRARY_PATH": FAKE, "FAKE_NO_SEM": "1", "FAKE_TID_COUNTS": f"{tmp_path}/tids"})
    times = 0
    while tracer.poll() is None:
        for state in "01":
            online.write_text(state)
            time.sleep(0.1)
        times += 1
    print(times, "times")
    assert tracer.returncode == 0 and (tmp_path / "err").read_text() == ""
    said = passes("cases/per_thread.py", tmp_path / "t", tmp_path / "tids")
    assert said == "4 threads, 80000 calls, 0 dropped\n" and Trace(tmp_path / "t").accounts() and online.read_text() == "1\n"
