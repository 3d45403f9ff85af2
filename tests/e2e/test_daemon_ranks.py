# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 25
# own processes
"""The daemon must report while a rank of NCCL is missing in a collective, and when it has arrived."""
import re
import shutil
import subprocess

from helpers.run import FAKE, TESTS, until

HANGS = r"collective 1 \(all_reduce\) of communicator 0x[0-9a-f]* waits for [0-9.]* s: begun by rank 0, not by rank 1"
WHERE = r"rank 1 of 0x[0-9a-f]* \(process [0-9]*\): thread [0-9]* waits in .* < case_sleep_ms\+0x[0-9a-f]* < be_rank\+"
GOES_ON = "collective 1 of communicator 0x[0-9a-f]* has begun on all ranks"


def test_hanging_collective(private):
    """The log has which ranks are in it, where each of them is, and that all have begun it. Metrics and files have it, too."""
    shutil.copy(FAKE + "/libnccl.so.2", private.lib)
    d = private.daemon("ranks", level="trace")
    ranks = private.start(private.compiled("ranks", f"{TESTS}/nccl/ranks.c"), 2, 5, "late=1:16000", "begin", stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, env={"LD_LIBRARY_PATH": str(private.lib)})
    pids = [int(ranks.stdout.readline()) for _ in range(2)]
    # Calls made before a process's level is known are counted, but have no line.
    until(lambda: all(d.process(pid) for pid in pids), 20)
    ranks.stdin.close()
    until(lambda: re.search(HANGS, d.said()), 15)
    until(lambda: re.search(WHERE, d.said()), 5)
    assert ranks.poll() is None
    until(lambda: re.search(GOES_ON, d.said()), 15)
    # One or more collectives of each rank by now.
    m = d.until(lambda m: m.total("collectives_total", op="all_reduce") >= 2, 10)
    assert m.total("collective_bytes_total", op="all_reduce") > 0 and m.total("collective_host_seconds_total", op="all_reduce") > 0
    ranks.kill()
    ranks.wait()
    d.stop()
    lines = d.lines()
    assert any((e["type"], e.get("op"), e.get("name")) == ("tracer", "hang", "nccl") for e in lines)
    assert any(e["type"] == "stack" and "case_sleep_ms+" in str(e) for e in lines)


def test_long_wait(private):
    """The log, the files and metrics must have a wait that lasts longer than trace.hang_after, and its end, also of a process whose calls are counted."""
    d = private.daemon("waits", "trace.hang_after=700ms", level=[("full/", "trace"), ("", "metrics")])
    (private.folder / "full").mkdir()
    programs = [private.compiled(name, f"-I{TESTS}", f"{TESTS}/hangs.c") for name in ("counted", "full/traced")]
    before = d.metrics()
    assert before.total("hangs_total") == before.total("hanging") == 0
    env = {"LD_LIBRARY_PATH": str(private.lib), "FAKE_HANG": "_Z5spinsPVi:4000", "FAKE_DELAY_US": "cuInit:2000000"}
    waiting = [private.start(p, "alone", env=env) for p in programs]
    # It is reported a moment after it is seen.
    d.until(lambda m: m.total("hanging") == m.total("hangs_total") == 2, 10)
    for p in waiting:
        assert re.search(rf"process {p.pid} \(\w+\), thread {p.pid}: cuStreamSynchronize has not returned for [0-9.]* s\n", d.said())
        assert p.wait(60) == 0
    m = d.until(lambda m: m.total("hanging") == 0, 10)
    assert m.total("hangs_total") == 2
    for p in waiting:
        assert re.search(rf"process {p.pid}, thread {p.pid}: cuStreamSynchronize returned after [34]\.[0-9] s\n", d.said())
    d.stop()
    hangs = [x for x in d.lines() if (x["type"], x.get("op"), x.get("name")) == ("tracer", "hang", "wait")]
    assert {(x["process"], x["function"]) for x in hangs if "over" not in x} >= {(waiting[1].pid, "cuStreamSynchronize")}
    assert not any("work" in x or "certain" in x for x in hangs)
