# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 85
"""A user who tries to exhaust the daemon's time, slots, memory or numbers through its socket and rings (tests/inject/greedy.c). The
daemon must still respond and trace others, and keep nothing of processes that ended."""
import grp
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest
from helpers.daemon import NOBODY, Daemon, for_all, library  # noqa: F401, a fixture
from helpers.health import healthy
from helpers.run import CC, CUDATRACE, FAKE, KERNEL, TESTS, needs_tracing, until

SECONDS = 4
PLACES = 512


@pytest.fixture(scope="module", autouse=True)
def programs():
    needs_tracing()
    for name, source, args in (("caller", "caller.c", ()), ("greedy", "inject/greedy.c", ("-D_GNU_SOURCE", f"-I{TESTS}/../include")),
                               ("linger", "inject/linger.c", ("-D_GNU_SOURCE",)), ("no_passrights", "inject/no_passrights.c", ())):
        subprocess.run([*CC, "-O1", "-w", *args, "-o", f"{os.environ['TMP']}/{name}", f"{TESTS}/{source}", "-ldl", "-lpthread"], check=True)


class Case:
    """A daemon, and a program that opts in."""

    def __init__(self, folder):
        (folder / "lib").mkdir()
        self.lib = shutil.copy(FAKE + "/libcuda.so.1", folder / "lib")
        for name in "greedy", "caller":
            shutil.copy(f"{os.environ['TMP']}/{name}", folder / name)
        shutil.copy(folder / "caller", folder / "g-other")
        self.folder = folder
        self.d = Daemon(folder, "--set", "metrics.memory=false", trace="inject: true", own=True, level="metrics", libcuda=self.lib)
        self.other = self.start("g-other")
        self.made = 0

    def start(self, name):
        p = subprocess.Popen([self.folder / name], env={**os.environ, **library(self.d.folder)}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.ask(p, "open", self.lib) == 1
        until(lambda: self.d.process(p.pid))
        assert self.ask(p, "init") == 0
        assert self.d.process(p.pid)["seen"] == "inproc"
        return p

    @staticmethod
    def ask(p, *words):
        p.stdin.write(" ".join(map(str, words)) + "\n")
        p.stdin.flush()
        return int(p.stdout.readline())

    def greedy(self, what, *args, seconds=SECONDS, wrap=()):
        return subprocess.Popen([*NOBODY, *wrap, self.folder / "greedy", self.lib, what, str(seconds), *map(str, args)], text=True, stdout=subprocess.PIPE,
                                env={**os.environ, "CUDATRACE_SOCKET": f"{self.d.folder}/socket"})

    def sees_others(self):
        """Checks that each call of an unrelated program is counted."""
        assert self.ask(self.other, "alloc", 100) == 100
        self.made += 100
        until(lambda: self.d.calls("g-other").get("cuMemFree_v2") == self.made)

    def rings(self):
        """The number of processes' ring memories that the daemon holds."""
        def name(fd):
            try:
                return os.readlink(fd)
            except FileNotFoundError:  # closed meanwhile
                return ""
        return sum("cudatrace-rings" in name(fd) for fd in pathlib.Path(f"/proc/{self.d.p.pid}/fd").iterdir())

    def end(self):
        self.other.stdin.close()
        self.other.wait(20)
        self.d.stop()


@pytest.fixture
def case(for_all):  # noqa: F811
    c = Case(for_all)
    yield c
    c.end()


@pytest.mark.parametrize("what,wrap", [("fillers", ()), ("broken", ()), ("names", ("unshare", "-Urpf", "unshare", "-pf")), ("nested", ()), ("hellos", ()), ("old", ())],
                         ids=lambda x: x if isinstance(x, str) else "")
def test_time(case, what, wrap):
    p = case.greedy(what, wrap=wrap)
    assert p.stdout.readline() == "ready\n"
    with healthy(case.d.at):
        for _ in range(3):
            case.sees_others()
        assert p.wait() == 0
    case.sees_others()


def test_ends_under_attack(case):
    """SIGTERM must end the daemon under attack."""
    attacks = [case.greedy(what, seconds=40) for what in ("fillers", "broken", "old", "hellos")]
    assert all(p.stdout.readline() == "ready\n" for p in attacks)
    begin = time.monotonic()
    case.d.p.send_signal(signal.SIGTERM)
    assert case.d.p.wait(20) == 0
    assert time.monotonic() - begin < 10
    for p in attacks:
        p.kill()
        p.wait()
    case.d.start()


def test_places(case):
    """A user may take at most half of the slots, so that another user can connect."""
    crowd = case.greedy("stay", PLACES // 2 + 20, 0, seconds=120)
    said = [crowd.stdout.readline() for _ in range(PLACES // 2 + 20)]
    # On a busy machine the user's time limit may come first.
    assert 100 < said.count("joined\n") <= PLACES // 2
    other = case.start("g-other")
    assert case.ask(other, "alloc", 10) == 10
    os.killpg(crowd.pid, signal.SIGKILL)
    crowd.wait()
    until(lambda: case.rings() == 2, 20)
    other.stdin.close()
    other.wait()
    until(lambda: case.rings() == 1, 20)


@pytest.mark.parametrize("lost", [False, True])
def test_nothing_stays(case, lost):
    """Nothing may remain of processes that are killed at once, whether or not their exit events arrive."""
    crowd = case.greedy("stay", 70, 4, seconds=120)
    joined = [crowd.stdout.readline() for _ in range(70)].count("joined\n")
    assert joined > 30
    until(lambda: case.rings() == joined + 1, 20)
    if lost:
        case.d.p.send_signal(signal.SIGSTOP)
        flood = subprocess.Popen([case.folder / "caller"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        case.d.p.send_signal(signal.SIGCONT)
        assert case.ask(flood, "open", case.lib) == 1
        until(lambda: case.d.process(flood.pid))
        case.d.ctl("level", flood.pid, "trace")
        assert case.ask(flood, "init") == 0
        for cpu in os.sched_getaffinity(0):
            os.sched_setaffinity(flood.pid, {cpu})
            case.d.p.send_signal(signal.SIGSTOP)
            assert case.ask(flood, "alloc", 150000) == 150000
        os.killpg(crowd.pid, signal.SIGKILL)
        crowd.wait()
        flood.kill()
        flood.wait()
        case.d.p.send_signal(signal.SIGCONT)
    else:
        os.killpg(crowd.pid, signal.SIGKILL)
        crowd.wait()
    until(lambda: case.rings() == 1, 20)
    case.sees_others()


def test_memory(case):
    """If rings hold more data than their threads can have written, the daemon must drop the process's rings, and count it as lost."""
    p = case.greedy("memory", 200, seconds=60)
    assert p.stdout.readline() == "ready\n"
    until(lambda: case.rings() == 1 and case.d.lost(("processes",)), 20)
    assert p.poll() is None
    p.kill()
    p.wait()
    case.sees_others()


def test_numbers(case):
    """Reported numbers may change only the reporting process's counts, up to a limit; other processes' losses stay exact."""
    before = {of["what"]: v for n, of, v in case.d.series() if n == "cudatrace_dropped_total" and of["what"] != "inproc"}
    begin, most = time.monotonic(), 0
    for number in 2**64 - 256, 2**63, 1 << 40:
        p = case.greedy("numbers", number, seconds=2)
        assert p.stdout.readline() == "ready\n"
        while p.poll() is None:
            now = case.d.lost(("inproc",)).get("inproc", 0)
            assert now >= most
            most = now
            time.sleep(0.05)
    assert {of["what"]: v for n, of, v in case.d.series() if n == "cudatrace_dropped_total" and of["what"] != "inproc"} == before
    # A processor makes a call in at least 10 ns; there are about 14 kinds of loss, and each may be reported.
    assert 0 < most < (time.monotonic() - begin) * 1e8 * os.cpu_count() * 20
    others = [v for n, of, v in case.d.series() if of.get("command") == "(others)"]
    assert all(v < (time.monotonic() - begin) * 1e9 * os.cpu_count() * 20 for v in others)
    case.sees_others()


@pytest.mark.parametrize("old", [False, True], ids=["refused", "old_kernel"])
def test_descriptors(for_all, old):  # noqa: F811
    """A user sends sockets whose last close takes 40 s to the two UNIX sockets. The daemon must respond; since Linux 6.16 it refuses
    them."""
    d = Daemon(for_all, "--set", "ctl.group=" + grp.getgrgid(65534).gr_name, trace="inject: true", own=True, level="metrics",
               before=[f"{os.environ['TMP']}/no_passrights"] if old else ())
    shutil.copy(f"{os.environ['TMP']}/linger", for_all)
    attacks = [subprocess.Popen([*NOBODY, "nice", for_all / "linger", path, kind, "4", "3"], text=True, stdout=subprocess.PIPE)
               for path, kind in ((f"{d.folder}/socket", "seqpacket"), (d.sock, "stream"))]
    assert all(p.stdout.readline() == "ready\n" for p in attacks)
    most = 0
    with healthy(d.at):
        while any(p.poll() is None for p in attacks):
            begin = time.monotonic()
            # The attack may take all of the group's slots: root has others.
            assert d.ctl("status")["processes"] is not None
            most = max(most, time.monotonic() - begin)
            time.sleep(0.02)
    # A kernel that does not refuse them costs the daemon a close for each. Other processes use this machine, too.
    assert most < (6 if old else 3)
    for p in attacks:
        sent = [int(line.split()[1]) for line in p.stdout]
        assert len(sent) == 4 and any(sent) == (old or KERNEL < (6, 16)), sent
    # No descriptor of theirs remains.
    until(lambda: sum(os.readlink(fd).startswith("socket:") for fd in pathlib.Path(f"/proc/{d.p.pid}/fd").iterdir()) < 20, 20)
    attack = subprocess.Popen([*NOBODY, "nice", for_all / "linger", f"{d.folder}/socket", "seqpacket", "8", "20"], text=True, stdout=subprocess.PIPE)
    assert attack.stdout.readline() == "ready\n"
    time.sleep(0.5)
    begin = time.monotonic()
    d.stop()
    assert time.monotonic() - begin < 10
    attack.kill()
    attack.wait()


def test_descriptors_trace(for_all):  # noqa: F811
    """The same attack, from a command on its tracer."""
    out = for_all / "trace.jsonl"
    p = subprocess.Popen([f"{os.environ['TMP']}/no_passrights", CUDATRACE, "-q", "--probe=inject", "--jsonl", out, "--duration", "2", "--",
                          "sh", "-c", 'exec "$0" "$CUDATRACE_SOCKET" seqpacket 8 4', f"{os.environ['TMP']}/linger"], stdout=subprocess.PIPE, text=True)
    until(lambda: out.exists() and '"type":"end"' in out.read_text(), 15)
    assert any(int(line.split()[1]) for line in p.communicate(timeout=15)[0].splitlines()[1:])
