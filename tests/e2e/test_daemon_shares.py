# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
# own processes
"""Tables that all programs share: when one user fills them, another user's program must still be counted exactly, with its errors.
Entries must be released."""
import grp
import os
import pathlib
import pwd
import subprocess
import sys
import time

import pytest
from helpers import ctl_requests
from helpers.daemon import NOBODY, as_user, private, rules  # noqa: F401, a fixture
from helpers.live import compiled
from helpers.run import FAKE, TESTS, Ran, until

SHARED = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]


class Crowds:
    """Programs of user nobody that fill tables, each with libraries whose functions return requested values."""

    def __init__(self, place):
        self.place, self.liar, self.hostile = place, place.folder / "liar", place.folder / "hostile"
        exports = Ran(["nm", "-D", "--defined-only", FAKE + "/libcuda.so.1"]).out.split("\n")
        names = {line.split()[2].split("@")[0] for line in exports if line}
        self.functions = sorted(n for n in names if n.startswith("cu") and n[2].isupper() and not n.startswith("cuFake"))
        for folder in self.liar, self.hostile:
            folder.mkdir()
            folder.chmod(0o755)
        for folder in place.folder, pathlib.Path(os.environ["TMP"]):
            folder.chmod(0o755)
        (place.folder / "liar.c").write_text("".join(f"int {name}(int code) {{ return code; }}\n" for name in self.functions))
        compiled(self.liar / "libcuda.so.1", *SHARED, place.folder / "liar.c")
        compiled(self.hostile / "libcuda.so.1", *SHARED, TESTS + "/liar.c")
        compiled(place.folder / "crowd", TESTS + "/faults/crowd.c")
        compiled(self.hostile / "alive", TESTS + "/flood.c")
        (self.hostile / "nvidiactl").touch()

    def start(self, *args):
        return self.place.start(*NOBODY, *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def crowd(self, processes, codes, functions=None):
        """So many processes, which have called each function once for each result, and stay."""
        (self.place.folder / "names").write_text("\n".join(functions or self.functions) + "\n")
        p = self.start(self.place.folder / "crowd", self.liar / "libcuda.so.1", self.place.folder / "names", processes, codes)
        assert "done" in p.stdout.readline()
        return p

    def alive(self, threads, what="alive"):
        """So many threads that have made a call each, and stay. what: driver for an ioctl instead."""
        p = self.start(self.hostile / "alive", what, threads, self.hostile / "libcuda.so.1",
                       *[self.hostile / "nvidiactl"][:what == "driver"])
        assert p.stdout.readline() == "ready\n"
        self.tell(p)
        assert p.stdout.readline() == "done\n"
        return p

    @staticmethod
    def tell(p):
        p.stdin.write("\n")
        p.stdin.flush()

    def end(self, *programs):
        for p in programs:
            if p.args[len(NOBODY)].endswith("crowd"):
                p.terminate()
            else:
                self.tell(p)
            p.wait(60)

    def warm_up(self, d, p):
        """Calls before the daemon has attached their library are not recorded, so one program of each kind runs first."""
        until(lambda: any(x["path"] in (f"{self.liar}/libcuda.so.1", f"{self.hostile}/libcuda.so.1") for x in d.ctl("status")["libraries"]))
        self.end(p)


@pytest.fixture
def crowds(private):  # noqa: F811
    return Crowds(private)


def exact(d, **workers):
    """The calls of these programs beside the crowd must be counted, all of them."""
    for name, c in workers.items():
        assert c.tell("alloc 10") == 10
        c.tell("threads 50 1")
        d.until(lambda m, name="w-" + name: m.calls(name) == 60 == m.calls(name, "cuMemFree_v2"))


def gone(m):
    return m.total("target_processes", command="crowd") == 0


def test_counts(private, crowds):  # noqa: F811
    """Counts and errors: what finds no room is counted, others' errors begin bursts, and all entries are available again."""
    conf = rules(private.folder, "metrics").replace("rules:\n", 'rules:\n  - match: {command: "*/w-*"}\n    level: sampled\n')
    (private.folder / "shares.yaml").write_text(conf)
    d = private.daemon("shares", "metrics.memory=false", "metrics.max_counts=16384", "sample.trace=100ms", "sample.cooldown=0",
                       "sample.every=0", level=None)
    early = d.worker("early")
    many, errors = crowds.crowd(40, 1), crowds.crowd(1, 130)
    d.until(lambda m: m.total("dropped_total", what="counts") > 1000 and m.total("dropped_total", what="errors") > 1000)
    late = d.worker("late")
    exact(d, early=early, late=late)
    for name, c in ("early", early), ("late", late):
        before = d.process(c.pid)["bursts"]
        c.tell("fail 3")
        until(lambda c=c, before=before: d.process(c.pid)["bursts"] > before)
        d.until(lambda m, name="w-" + name: m.total("errors_total", command=name) == 3)
    m = d.until(lambda m: "other" in m.by("errors_total", "error", command="crowd"))
    # Results that are no CUresult are counted together.
    assert not [e for e in m.by("errors_total", "error") if e.isdigit()]
    crowds.end(many, errors)
    before = d.until(gone, 10).total("dropped_total", what="counts")
    again = crowds.crowd(10, 1)
    d.until(lambda m: m.total("dropped_total", what="counts") == before and m.calls("crowd", "cuMemcpy") >= 10)
    crowds.end(again)
    d.stop()


def test_threads(private, crowds):  # noqa: F811
    """A process may have a quarter of the threads, a user half of the free entries: 4096 here."""
    d = private.daemon("threads", "metrics.memory=false", "metrics.max_tasks=4096")
    early = d.worker("early")
    crowds.warm_up(d, crowds.alive(1))

    def made(m):
        """Calls that were counted and lost."""
        return m.calls("alive", "cuCtxSynchronize"), m.total("dropped_total", what="threads_share")
    was, lost = made(d.metrics())
    floods = [crowds.alive(1500)]
    d.until(lambda m: 1000 < made(m)[0] - was <= 1024 and sum(made(m)) - was - lost == 1501)
    floods += [crowds.alive(1500) for _ in range(3)]
    d.until(lambda m: 1900 < made(m)[0] - was <= 2048 and sum(made(m)) - was - lost == 6004)
    exact(d, early=early, late=d.worker("late"))
    m = d.metrics()
    # No call is lost without its cause.
    assert m.total("dropped_total", what="threads") == 0
    crowds.end(*floods)
    was, lost = made(d.metrics())
    five = crowds.alive(1000)
    # What ended has given its rows back.
    d.until(lambda m: made(m) == (was + 1001, lost))
    crowds.end(five)
    d.stop()


def test_threads_in_the_driver(private, crowds, monkeypatch):  # noqa: F811
    """The same limits for threads in the driver."""
    if os.path.exists("/sys/module/nvidia"):
        pytest.skip("the NVIDIA driver is loaded")
    monkeypatch.setenv("CUDATRACE_TEST_NV_BY_NAME", "1")
    d = private.daemon("driver", "metrics.memory=false", "metrics.max_tasks=1024", "trace.kernel=true")
    crowds.warm_up(d, crowds.alive(1))

    def made(m):
        return m.total("ioctls_total", command="alive"), m.total("dropped_total", what="driver_share")
    lost = made(d.metrics())[1]
    six = crowds.alive(400, "driver")
    d.until(lambda m: 200 < made(m)[0] <= 256 and sum(made(m)) - lost == 400)
    seven = crowds.alive(200, "driver")
    d.until(lambda m: made(m)[0] >= 400)
    crowds.end(six, seven)
    lost = made(d.metrics())[1]
    eight = crowds.alive(200, "driver")
    d.until(lambda m: made(m)[0] >= 600 and made(m)[1] == lost)
    crowds.end(eight)
    d.stop()


def test_processes(private, crowds):  # noqa: F811
    """A user may have half of the processes."""
    one = ["cuCtxSynchronize"]
    d = private.daemon("processes", "metrics.memory=false", "metrics.max_tasks=1024")
    early = d.worker("early")
    crowds.warm_up(d, crowds.crowd(0, 1, one))

    def made(m):
        return m.calls("crowd", one[0]) + m.total("calls_total", command="(others)") + m.total("dropped_total", what="processes")
    before = made(d.metrics())
    many = crowds.crowd(700, 1, one)
    d.until(lambda m: 350 < m.total("target_processes", command="crowd") <= 512 and made(m) - before == 701)
    exact(d, early=early, late=d.worker("late"))
    crowds.end(many)
    lost = d.until(gone, 10).total("dropped_total", what="processes")
    again = crowds.crowd(300, 1, one)
    d.until(lambda m: m.total("target_processes", command="crowd") == 301 and m.total("dropped_total", what="processes") == lost)
    crowds.end(again)
    d.stop()


def accepted(d, requests, *before):
    """How many were accepted, and why the last one was not. Users other than root may not read the tests' folder."""
    program = pathlib.Path(ctl_requests.__file__).read_text()
    return Ran([*before, sys.executable, "-c", program, str(d.sock), *requests]).out.strip()


def test_patterns(private):  # noqa: F811
    """Patterns of ctl level: members of the group have half of them, root has the others, and reading the configuration forgets them."""
    nobody = pwd.getpwnam("nobody")
    d = private.daemon("patterns", "ctl.group=" + grp.getgrgid(nobody.pw_gid).gr_name)

    def patterns(who, count, *before):
        return accepted(d, [f"level {who}-{i} off" for i in range(count)], *before)
    assert patterns("member", 140, *as_user(nobody.pw_uid, nobody.pw_gid)) == "128 there are 128 patterns already"
    assert patterns("root", 140) == "128 there are 256 patterns already"
    # Likewise for bursts that wait for their time.
    bursts = [f"burst 1s at @{time.time() + 100000:.0f}"] * 20
    assert accepted(d, bursts, *as_user(nobody.pw_uid, nobody.pw_gid)) == "8 8 bursts wait already"
    assert accepted(d, bursts) == "8 16 bursts wait already"
    # The same again is none more.
    assert patterns("root", 20) == "20"
    late = d.worker("late")
    assert d.process(late.pid)["level"] == "metrics"
    d.ctl("reload")
    assert patterns("root", 20) == "20"
    d.stop()
