# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 90
# own processes
"""Programs that make profiles expensive: the daemon's time for them keeps its limit, and stacks come again."""
import os
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

    def __init__(self, private, name, profiles, count=3, rate=1000):  # noqa: F811
        folder = private.folder / f"{name}.inject"
        settings = ["trace.inject=true", f"trace.inject_folder={folder}", *(["profiles.interval=5s"] if profiles else ())]
        self.d, self.env = private.daemon(name, *settings), library(folder)
        hostile = private.folder / "hostile"
        if not hostile.exists():
            private.compiled("hostile", "-w", "-D_GNU_SOURCE", f"-I{TESTS}/../include", f"{TESTS}/inject/hostile.c", "-ldl")
        self.begin, self.before = time.monotonic(), seconds_of(self.d.pid)
        self.liars = [private.start(hostile, private.lib / "libcuda.so.1", "samples", SECONDS, rate, env={"CUDATRACE_SOCKET": f"{folder}/socket"})
                      for _ in range(count)]

    def end(self):
        """Returns the processor time that the daemon took."""
        for p in self.liars:
            assert p.wait(SECONDS + 60) == 0
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
