# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 100
# own processes
"""Programs that make profiles expensive: the daemon's time for them keeps its limit, and stacks come again."""
import os
import subprocess
import sys
import time

import pytest
from helpers.daemon import library, private  # noqa: F401, a fixture
from helpers.pprof import Profile
from helpers.run import TESTS

SECONDS = 20


def seconds_of(pid):
    """Processor time of a process and its descendants that still run."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f:
        children = f.read().split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(map(seconds_of, children))


class Attacked:
    """A daemon with processes that forge samples."""

    def __init__(self, private, name, profiles, count=3, seconds=SECONDS, rate=1000, frames=64):  # noqa: F811
        folder = private.folder / f"{name}.inject"
        settings = ["trace.inject=true", f"trace.inject_folder={folder}", *(["profiles.interval=5s"] if profiles else ())]
        self.d, self.env = private.daemon(name, *settings), library(folder)
        hostile = private.folder / "hostile"
        if not hostile.exists():
            private.compiled("hostile", "-w", "-D_GNU_SOURCE", f"-I{TESTS}/../include", f"{TESTS}/inject/hostile.c", "-ldl")
        self.begin, self.before = time.monotonic(), seconds_of(self.d.pid)
        self.liars = [private.start(hostile, private.lib / "libcuda.so.1", "samples", seconds, rate, frames, text=True, stdout=subprocess.PIPE,
                                    env={"CUDATRACE_SOCKET": f"{folder}/socket"}) for _ in range(count)]

    def end(self):
        """Returns the processor time that the daemon took. sent: calls."""
        self.sent = 0
        for p in self.liars:
            self.sent += int(p.communicate(timeout=SECONDS + 60)[0].split()[-1])
            assert p.returncode == 0
        return seconds_of(self.d.pid) - self.before

    def spent(self):
        return self.d.metrics().total("profile_cpu_seconds_total")

    def limit(self):
        return 0.1 + 0.01 * (time.monotonic() - self.begin)


def test_time(private):  # noqa: F811
    """Stacks of the largest size in all libraries of this machine and in 20,000 mappings."""
    none = Attacked(private, "none", False)
    base = none.end()
    none.d.stop()
    a = Attacked(private, "some", True)
    took = a.end()
    m, limit = a.d.metrics(), a.limit()
    print(f"{took:.2f} s with profiles, {base:.2f} s without; counted {m.total('profile_cpu_seconds_total'):.2f}, limit {limit:.2f}")
    assert m.total("profile_samples_total") > 0
    # The last piece of work may exceed it.
    assert a.spent() < limit + 0.1
    assert took - base < limit + 0.1 + 0.25 * base
    # Stacks come again after at most as long as that takes to be paid.
    private.sample("s", "--tokens", 20, **a.env)
    time.sleep(max(0, 100 * (a.spent() - a.limit())) + 15)
    before = a.d.metrics().total("profile_samples_total")
    private.sample("s", "--tokens", 300, **a.env)
    a.d.until(lambda m: m.total("profile_samples_total") > before)
    a.d.stop()
    found = [frames for f in a.d.all_files("profile-*.pb.gz") for frames, _, x in Profile(f.read_bytes()).samples
             if x.get("process_name") == "s" and len(frames) > 2]
    assert any(file.endswith("/s") for frames in found for _, file, _ in frames), found[:3]


DEEP = """
import ctypes, sys, threading, time
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
end = time.monotonic() + float(sys.argv[1])
def deep(n):
    if n:
        return deep(n - 1)
    while time.monotonic() < end:
        for _ in range(100):
            cuda.cuCtxSynchronize()
deep(60)
"""


@pytest.mark.parametrize("way", ["uprobe", "inject"])
def test_programs(private, way):  # noqa: F811
    """The time that a program of one thread spends on samples, as it counts it, must be at most 1 % of any part of its time."""
    folder = private.folder / "inject"
    inject = way == "inject"
    d = private.daemon("d", "profiles.interval=10m", *(("trace.inject=true", f"trace.inject_folder={folder}") if inject else ()))
    (private.folder / "deep.py").write_text(DEEP)
    (private.folder / "python").symlink_to(sys.executable)
    p = private.start(private.folder / "python", private.folder / "deep.py", 12,
                      env={"LD_LIBRARY_PATH": str(private.lib), **(library(folder) if inject else {})})
    seen = []
    while p.poll() is None:
        begin = time.monotonic()
        m = d.metrics()
        seen.append((begin, time.monotonic(), m.total("profile_programs_seconds_total")))
        time.sleep(0.1)
    assert p.returncode == 0
    shares = [(after[2] - before[2] - 0.0002) / (after[1] - before[0]) for i, before in enumerate(seen) for after in seen[i + 1:]]
    whole, samples = seen[-1][2], m.total("profile_samples_total")
    print(f"{1e3 * whole:.2f} ms of {seen[-1][1] - seen[0][0]:.1f} s for {samples:.0f} samples; at most {100 * max(shares):.2f} % of a part")
    assert samples > 100 and whole / samples > 1e-6
    assert max(shares) <= 0.01
    d.stop()
    assert any([f[0] for f in frames].count("deep") > 50 for f in d.all_files("profile-*.pb.gz") for frames, _, _ in Profile(f.read_bytes()).samples)


def test_forged(private):  # noqa: F811
    """At most 1,000 samples of a process are accepted in a second; its other calls count without a stack."""
    a = Attacked(private, "d", True, count=1, seconds=0.5, rate=12000, frames=1)
    a.end()
    time.sleep(1.5)
    made = a.d.metrics().total("profile_samples_total")
    a.d.stop()
    calls = sum(Profile(f.read_bytes()).total("calls") for f in a.d.all_files("profile-*.pb.gz"))
    print(f"{made:.0f} samples of {calls:.0f} calls; sent {a.sent}, also with numbers of no function")
    assert a.sent >= calls > 2500
    # The half second may be in two seconds.
    assert 0 < made <= 2000
