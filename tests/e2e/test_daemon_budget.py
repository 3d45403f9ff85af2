# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 70
# cpus: 2
# own processes
"""Processes of other users that take long to inspect (tests/stall.c, tests/helpers/slow_elf.py). The daemon limits its time for each
user: it must still respond, dump, reload and end. Every call of others must be counted, and a library that another user loads
meanwhile must be traced."""
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from helpers.daemon import Private, as_user
from helpers.health import healthy
from helpers.run import TESTS, Ran, cudatrace, needs_tracing, until

SLOW = {"sections": "libnccl.so.2", "names": "libcuda.so.1", "symbols": "libcuda.so.1", "chain": "libcuda.so.1", "torch": "libtorch_cpu.so"}
GROUP = 65534


class Stalls(Private):
    """A folder with libraries that take long to read, and programs of other users that are expensive to inspect."""

    def __init__(self, folder):
        super().__init__(folder)
        self.program, self.begun = self.compiled("stall", f"{TESTS}/stall.c"), []
        for kind, name in SLOW.items():
            (self.folder / kind).mkdir()
            made = Ran([sys.executable, f"{TESTS}/helpers/slow_elf.py", kind, self.folder / kind / name])
            assert made.status == 0, made

    def slow(self, kind):
        return self.folder / kind / SLOW[kind]

    def begin(self, users, what, library="", first=0):
        """Attacks as these users for a few seconds; returns when they have begun. Each has a folder of its own."""
        for i in range(first, first + users):
            folder = self.folder / f"x{len(self.begun)}"
            folder.mkdir()
            os.chown(folder, GROUP - i, -1)
            with open(f"{folder}.out", "wb") as out:
                self.begun.append(self.start(*as_user(GROUP - i, GROUP), self.program, what, folder, 60 if what == "hangs" else 6, library, stdout=out, env={"FAKE_DELAY_US": "cuCtxSynchronize:60000000"}))
        # With forks, that is at the end.
        until(lambda: what == "forks" or os.path.getsize(f"{folder}.out"), 10)
        with open(f"{folder}.out", encoding="utf-8") as f:
            if "none" in f.read():
                self.end()
                pytest.skip("user namespaces are not allowed")

    def end(self):
        for p in self.begun:
            p.kill()
            p.wait()
        for i in range(len(self.begun)):
            shutil.rmtree(self.folder / f"x{i}", ignore_errors=True)


@pytest.fixture(scope="module")
def stalls():
    needs_tracing()
    s = Stalls(os.environ["TMP"])
    yield s
    s.close()


@pytest.fixture(scope="module")
def daemon(stalls):
    d = stalls.daemon("budget", "recorder.seconds=60s", "trace.hang_after=1s", "dossier.on.hang=false", level="trace").begin_victim()
    d.newcomers = 0
    return d


def newcomer(d):
    """A library that is new to the daemon must be traced."""
    d.newcomers += 1
    name = f"late{d.newcomers}"
    c = d.worker(name, lib=d.place.new_lib("new" + name))
    d.until(lambda m: c.tell("alloc 1") == 1 and m.calls("w-" + name) > 0, 10)
    c.end()


def test_hangs(stalls, daemon):
    """Threads that wait in a call are reported; the stacks of a user's threads are not all read in one turn of the loop. First, because the
    longest turn of the last minute is measured."""
    stalls.begin(1, "hangs", stalls.lib / "libcuda.so.1")
    daemon.until(lambda m: m.total("hangs_total") > 150, 20)
    longest = daemon.metrics().total("loop_turn_max_seconds")
    assert longest < 2, longest
    # The other user has half of the places.
    daemon.until(lambda m: m.total("hanging") >= 512, 20)
    until(lambda: "further waits are not reported until others have ended" in daemon.said(), 20)
    stalls.begin(1, "hangs", stalls.lib / "libcuda.so.1", first=1)
    daemon.until(lambda m: m.total("hanging") > 900 and m.total("hangs_total") > 812, 20)
    pid = stalls.begun[-1].pid
    pids = {pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())}
    stalls.end()
    daemon.until_all_counted()
    assert sum(e.get("op") == "hang" and not e.get("over") and e["process"] in pids for e in daemon.lines()) > 300
    why = [e["why"] for e in daemon.lines() if e.get("op") == "hang"]
    assert sum("(like other threads of the process" in x for x in why) > 100, why[:9]


@pytest.mark.parametrize("users,what,library", [
    (1, "fds", ""), (1, "deleted", ""), (1, "mounts", ""), (1, "files", ""), (1, "threads", ""), (1, "forks", ""), (1, "lines", "lib"),
    (1, "elf", "sections"), (1, "elf", "names"), (1, "elf", "symbols"), (1, "elf", "chain"), (6, "files", "")])
def test_under(stalls, daemon, users, what, library):
    """The daemon answers, dumps, traces another user's library, has short turns of its loop, and counts every call of others."""
    stalls.begin(users, what, library and (stalls.lib / "libcuda.so.1" if library == "lib" else stalls.slow(library)))
    with healthy(daemon.at):
        time.sleep(1)
    daemon.victim_allocates(1000)
    daemon.ctl("dump", timeout=5)
    daemon.p.send_signal(signal.SIGHUP)
    newcomer(daemon)
    # On an idle machine it is 0.1 s; before there were limits it was 3 to 40 s.
    assert daemon.metrics().total("loop_turn_max_seconds") < 2
    daemon.until_all_counted()
    stalls.end()


def test_ends(stalls, daemon):
    """The daemon ends on request during an attack. What was refused in test_under is counted, and reported in the files."""
    assert daemon.metrics().total("work_refused_total", kind="libraries") > 0
    stalls.begin(2, "fds")
    daemon.victim.end()
    daemon.p.terminate()
    daemon.p.wait(30)
    assert any((e["type"], e.get("op")) == ("library", "failed") for e in daemon.lines())
    stalls.end()


@pytest.mark.parametrize("kind,options", [("sections", ("-e", "all")), ("names", ()), ("torch", ("--torch",))])
def test_trace_ends_in_time(stalls, kind, options):
    """--duration must end the trace, whatever the command maps."""
    command = stalls.program, "elf", stalls.folder, 3, stalls.slow(kind)
    ran = cudatrace("-q", "--jsonl", "/dev/null", "--duration", 1, *options, "--", *command, timeout=20)
    assert 0 <= ran.status < 124, ran
