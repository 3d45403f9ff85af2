# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 40
"""trace.gpu_time of the daemon: GPU executions of programs that opted in are in its metrics, files and dumps; pending lines
work there too."""
import collections
import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from helpers.daemon import Daemon, for_all  # noqa: F401, a fixture
from helpers.daemon import library
from helpers.daemon import opted_in as load
from helpers.jsonl import Trace
from helpers.pprof import Profile
from helpers.run import FAKE, O, cudatrace, needs_tracing, until
from test_gpu_time import CUPTI, SAMPLE, in_calls


def opted_in(d, counts, *argv, **more):
    return load(d, *argv, path=f"{FAKE}:{O}/cupti", FAKE_CUPTI_COUNTS=str(counts), **more)


def test_daemon(for_all):  # noqa: F811
    needs_tracing()
    counts = for_all / "counts"
    d = Daemon(for_all)
    opted_in(d, counts, SAMPLE, "--quiet", "--tokens", "10")
    # A program that did not opt in.
    subprocess.run([SAMPLE, "--quiet", "--tokens", "10"], env={**os.environ, "LD_LIBRARY_PATH": f"{FAKE}:{O}/cupti"}, check=True)
    made = collections.Counter()
    for line in counts.read_text().splitlines():
        made[line.split()[0]] += int(line.split()[1])
    assert made["kernel"] > 100 and made["graph"]
    until(lambda: d.metric("cudatrace_gpu_executions_total") >= sum(made.values()), 20)
    for op, cnt in made.items():
        assert d.metric("cudatrace_gpu_executions_total", op=op, command="sample", device="0") == cnt
    assert d.metric("cudatrace_gpu_execution_seconds_total", op="kernel") == pytest.approx(made["kernel"] * 5e-6, rel=0.05)
    assert d.metric("cudatrace_gpu_executions_lost_total") == 0
    d.stop()
    assert not (d.folder / "socket").exists()
    (t,) = files(d)
    gpu = [e for e in t.ev if e["type"] == "gpu"]
    assert len(gpu) == sum(made.values()) and len({e["pid"] for e in gpu}) == 1
    calls = {e["id"]: e for e in t.calls}
    assert all(calls[e["call_id"]]["name"] == e["call"] for e in gpu)
    # Some are late when other processes keep the daemon off the processors for longer than lines wait.
    assert in_calls(t.ev) == t.end["gpu_unmatched"] < 0.1 * len(gpu)


class Own:
    """A daemon for a program and a libcuda that nothing else uses."""

    def __init__(self, folder, *args, **how):
        needs_tracing()
        (folder / "lib").mkdir()
        self.counts, self.sample = folder / "counts", shutil.copy(SAMPLE, folder)
        lib = shutil.copy(FAKE + "/libcuda.so.1", folder / "lib")
        self.path = f"{folder}/lib:{O}/cupti"
        self.d = Daemon(folder, *args, own=True, libcuda=lib, **how)

    def ran(self, tokens, **more):
        load(self.d, self.sample, "--quiet", "--tokens", str(tokens), path=self.path, FAKE_CUPTI_COUNTS=str(self.counts), **more)

    def finished(self):
        return sum(f.suffix == ".jsonl" for f in self.d.files.iterdir())


def files(d):
    """The files in order. Each must be complete by itself, and no line may be in two."""
    found = [Trace(f) for f in sorted(d.files.iterdir()) if f.is_file()]
    for t in found:
        assert (t.head["type"], t.end["type"]) == ("header", "end")
        assert t.end["events"] == collections.Counter(e["type"] for e in t.ev[1:-1]) and t.end["calls"] == len(t.calls)
    ids = [e["id"] for t in found for e in t.calls]
    assert len(ids) == len(set(ids))
    return found


def sums(found):
    """All lines, how many gpu lines the calls lack, and how many of those the files report."""
    lines = [e for t in found for e in t.ev]
    return lines, in_calls(lines), sum(t.end["gpu_unmatched"] for t in found)


def test_daemon_rotates(for_all):  # noqa: F811
    """Files must rotate while lines are pending: by size, on SIGHUP, and at the end."""
    o = Own(for_all, "--set", "files.rotate_size=64K")
    for n in 1, 2, 3:
        o.ran(10)
        o.d.p.send_signal(signal.SIGHUP)
        # Except the last, whose lines are pending when the daemon ends.
        until(lambda: n == 3 or o.finished() > 8 * n)  # noqa: B023
    o.d.stop()
    found = files(o.d)
    lines, lacks, late = sums(found)
    assert lacks == late and {t.end["reason"] for t in found} == {"rotated", "stopped"}
    made = sum(int(line.split()[1]) for line in o.counts.read_text().splitlines())
    assert sum(e["type"] == "gpu" for e in lines) == made
    # Except lines still pending at the end.
    assert sum("gpu_start" in e for e in lines) > made / 2
    ends = [e["ts"] + e["duration_us"] / 1e3 for e in lines if "symbol" in e and "duration_us" in e]
    assert all(b > a - 1e-3 for a, b in zip(ends, ends[1:]))
    assert max(f.stat().st_size for f in o.d.files.iterdir()) < 80 << 10


def test_daemon_counts_missing_records(for_all):  # noqa: F811
    """Each file reports the GPU records that were lost during it, and no others."""
    o = Own(for_all, "--set", "files.rotate_size=64K")
    for n, word in enumerate(("drop", "untimed", "drop"), 1):
        o.ran(10, FAKE_CUPTI=word)
        until(lambda: o.d.metric("cudatrace_gpu_executions_total") > 600 * n and o.finished() > 8 * n)  # noqa: B023
    lost = {why: o.d.metric("cudatrace_gpu_executions_lost_total", why=why) for why in ("dropped", "untimed")}
    o.d.stop()
    ends = [t.end for t in files(o.d)]
    assert {why: sum(e.get(f"gpu_{why}", 0) for e in ends) for why in lost} == lost and min(lost.values()) > 50
    assert 1 < sum("gpu_dropped" in e for e in ends) < len(ends) and not any("gpu_records" in e for e in ends)


@pytest.mark.parametrize("how", ["late", "full"])
def test_daemon_has_no_time_in_time(for_all, how):  # noqa: F811
    """If CUPTI delivers times only at the end, or too many lines are pending, lines must be written without times, and counted."""
    o = Own(for_all, "--set", "files.rotate_size=1M", trace="gpu_time: graphs, gpu_pending_size: 1M")
    o.ran(400, **({"FAKE_CUPTI": "late"} if how == "late" else {}))
    o.d.stop()
    found = files(o.d)
    _, lacks, late = sums(found)
    assert len(found) > 10 and lacks == late > 100


def test_daemon_burst_is_a_file(for_all):  # noqa: F811
    """The end of a burst's file must wait for the burst's pending lines."""
    # The program makes more lines in a second than fit by default.
    o = Own(for_all, level="metrics", trace="gpu_time: graphs, gpu_pending_size: 256M")
    with subprocess.Popen([o.sample, "--quiet", "--tokens", "1000000"], stdout=subprocess.DEVNULL,
                          env={**os.environ, "LD_LIBRARY_PATH": o.path, **library(o.d.folder)}) as p:
        try:
            # The program's start is over: on a busy machine a burst could end before that.
            until(lambda: o.d.calls(os.path.basename(o.sample)).get("cuLaunchKernel", 0) > 100)
            for n in 1, 2:
                o.d.ctl("burst", p.pid, "0.2s")
                until(lambda: o.finished() == n)  # noqa: B023
        finally:
            p.kill()
    o.d.stop()
    # A call in flight at the end of a burst may be in another file.
    for t in files(o.d)[:2]:
        times = [e["ts"] for e in t.calls]
        assert max(times) - min(times) < 5000 and t.end["reason"] == "rotated"
        # Launches have GPU times even if the executions' own lines were no longer wanted.
        wanted = [e for e in t.calls if e["type"] == "kernel" and e["op"] == "launch" and not e["result"]]
        assert wanted and sum("gpu_start" in e for e in wanted) > 0.9 * len(wanted)


def test_daemon_dumps_what_waits(for_all):  # noqa: F811
    if not shutil.which("zstd"):
        pytest.skip("needs zstd")
    o = Own(for_all, "--set", "recorder.seconds=60s")
    o.ran(4)
    dump = o.d.ctl("dump")["file"]
    text = subprocess.run(["zstd", "-dc", dump], stdout=subprocess.PIPE, check=True).stdout
    o.d.stop()
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[-1]["reason"] == "dump: requested" and sum("symbol" in e for e in lines) > 200


def test_daemon_is_killed_and_comes_back(for_all):  # noqa: F811
    needs_tracing()
    counts = for_all / "counts"
    d = Daemon(for_all)
    d.kill()
    # Without a daemon the program runs untraced.
    opted_in(d, counts, SAMPLE, "--quiet", "--tokens", "2")
    assert not counts.read_text()
    d = Daemon(for_all)
    opted_in(d, counts, SAMPLE, "--quiet", "--tokens", "2")
    until(lambda: d.metric("cudatrace_gpu_executions_total", op="kernel") > 10, 20)
    d.stop()


def test_daemon_of_a_process_that_is_off(for_all):  # noqa: F811
    needs_tracing()
    counts = for_all / "counts"
    d = Daemon(for_all, "--set", "level=off")
    opted_in(d, counts, SAMPLE, "--quiet", "--tokens", "2")
    assert counts.read_text() and d.metric("cudatrace_gpu_executions_total") == 0
    d.stop()
    assert not [line for f in (for_all / "files").iterdir() for line in f.read_text().splitlines() if '"type":"gpu"' in line]


def test_daemon_limits_messages(for_all):  # noqa: F811
    """The number of messages about processes must be limited, so that a user cannot fill the log."""
    needs_tracing()
    d = Daemon(for_all)
    for _ in range(18):
        opted_in(d, for_all / "counts", SAMPLE, "--quiet", "--tokens", "1", "--layers", "1", FAKE_CUPTI="taken")
    d.stop()
    said = [line for line in d.log.read_text().splitlines() if "--gpu-time: process" in line]
    assert len(said) == 16 and said[-1].endswith("further processes are not reported"), said


@pytest.mark.parametrize("value", ["trace.gpu_time=yes", "trace.inject_folder=here"])
def test_daemon_config(value):
    ran = cudatrace("daemon", "--check-config", "--config", "/dev/null", "--set", "trace.gpu_time=nodes", "--set", value)
    assert ran.status and value.split("=")[0] in ran.err


def test_profiles(for_all):  # noqa: F811
    """Profiles must have the GPU time of the metrics, by device, and that of sampled calls with their stack."""
    own = Own(for_all, "--set", "profiles.interval=1s", level="metrics")
    own.ran(20)
    until(lambda: own.d.metric("cudatrace_gpu_executions_total") > 100, 20)
    time.sleep(1)
    text = own.d.metrics()
    own.d.stop()
    ps = [Profile(f.read_bytes()) for f in sorted(own.d.files.glob("profile-*.pb.gz"))]
    assert sum(p.total("executions") for p in ps) == text.total("gpu_executions_total")
    assert sum(p.total("gpu_time") for p in ps) == pytest.approx(1e9 * text.total("gpu_execution_seconds_total"), abs=2)
    gpu = [(frames, x) for p in ps for frames, v, x in p.samples if v["gpu_time"]]
    assert gpu and {x.get("device") for _, x in gpu} == {"0"}
    assert any("thread" in x and len(frames) > 2 for frames, x in gpu), gpu[:5]
