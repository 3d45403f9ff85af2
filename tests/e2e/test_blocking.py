# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
# own processes
# A tracer of another suite could inspect all processes just when the lock is taken (docs/SECURITY.md, "What is left"),
# and then every fork() would wait.
# no tracers
"""A user's program maps files of its own FUSE server, which responds to no other process (tests/faults/hang.c). It must not block the
tracer or the daemon, which must still trace others, respond, and end on request."""
import json
import os
import pathlib
import re
import subprocess
import time

import pytest
from helpers.daemon import Private
from helpers.floods import SHARED
from helpers.jsonl import Trace
from helpers.live import is_gone, state
from helpers.probed import probed
from helpers.run import CUDATRACE, TESTS, Ran, cudatrace, needs_tracing, until

# Calls cuInit, and again when the file is there.
ONE = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char called[4096];
	int (*init)(unsigned) = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
	init(0);
	snprintf(called, sizeof(called), "%s.called", argv[1]);
	close(open(called, O_CREAT | O_WRONLY, 0600));
	while (access(argv[1], F_OK))
		usleep(10000);
	init(0);
	return 0;
}
"""


class Place(Private):
    """Programs, and a control file system, which aborts FUSE servers."""

    def __init__(self, folder):
        super().__init__(folder)
        self.folder.chmod(0o755)
        for name in "mnt", "hlib", "ctl":
            (self.folder / name).mkdir()
        self.hang = self.compiled("hang", "-include", "stdbool.h", f"{TESTS}/faults/hang.c")
        self.hlib = self.compiled("hlib/libcuda.so.1", *SHARED, "-fno-omit-frame-pointer", f"{TESTS}/faults/hang_lib.c")
        (self.folder / "one.c").write_text(ONE)
        self.one = self.compiled("one", self.folder / "one.c")
        subprocess.run(["mount", "-t", "fusectl", "none", self.folder / "ctl"], stderr=subprocess.DEVNULL, check=False)

    def everywhere(self, name, level, *settings):
        """A daemon that traces all programs."""
        (self.folder / f"{name}.yaml").write_text(f"level: {level}\n")
        return self.daemon(name, *settings, level=None)


@pytest.fixture(scope="module")
def place():
    needs_tracing()
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no /dev/fuse")
    p = Place(os.environ["TMP"])
    yield p
    p.close()
    subprocess.run(["umount", p.folder / "ctl"], stderr=subprocess.DEVNULL, check=False)


class Hang:
    """The program. target: its process that has the files."""

    def __init__(self, place, what):
        self.place, self.out = place, place.folder / "hang.out"
        with open(self.out, "wb") as out:
            self.p = place.start(place.hang, what, place.folder / "mnt", place.hlib, stdin=subprocess.PIPE, stdout=out)
        self.says("ready", 60)
        self.minor, self.target = re.search(r"^ready (\d+) (\d+)", self.out.read_text(), re.M).groups()
        self.target = int(self.target)

    def says(self, word, seconds=10):
        until(lambda: self.p.poll() is not None or re.search(f"^{word}", self.out.read_text(), re.M), seconds)
        assert self.p.poll() is None

    def go(self):
        self.p.stdin.write(b"\n")
        self.p.stdin.flush()

    def holds_lock(self, seconds=10):
        """Waits until it holds its memory lock: a thread waits in the kernel."""
        until(lambda: any(state(t) == "D" for t in (f"{self.target}/task/{t}" for t in os.listdir(f"/proc/{self.target}/task"))), seconds)

    def abort(self):
        """Processes that wait for the server continue."""
        path = self.place.folder / "ctl" / self.minor / "abort"
        if path.exists():
            path.write_text("1")

    def end(self):
        self.p.stdin.close()
        self.abort()
        self.p.wait()


@pytest.fixture
def hang(place):
    started = []

    def start(what):
        started.append(Hang(place, what))
        return started[-1]
    yield start
    for h in started:
        h.abort()
    # Tracers and daemons that a failed test left.
    for p in place.started:
        if p.poll() is None and p not in [h.p for h in started]:
            p.kill()
            p.wait()
    for h in started:
        h.end()


def never_waits(pid):
    """Attaching waits briefly for the kernel's own locks. The attaching process may not wait long either, because every fork() of the
    machine would wait behind it. Waiting in fifteen checks in a row is an error."""
    pids = [pid, *map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    waits = 0
    for left in range(30, 0, -1):
        if waits + left < 15:
            return
        waits = waits + 1 if any(state(p) == "D" for p in pids) else 0
        assert waits < 15, [pathlib.Path(f"/proc/{p}/stack").read_text() for p in pids if state(p) == "D"]
        time.sleep(0.05)


def ends(p):
    """Must end within 2 seconds of SIGTERM."""
    p.terminate()
    p.wait(6 * 2)


def another_is_seen(d):
    """The daemon does not wait, answers, and sees another process."""
    never_waits(d.pid)
    assert d.healthy(2 * 6)
    d.place.sample("victim", "--tokens", 2, "--layers", 1)
    d.until(lambda m: m.total("calls_total", command="victim") > 50)


# exec: a process in execve(), where most of its files in /proc wait.
@pytest.mark.parametrize("level,what", [
    ("metrics", "exec"), ("metrics", "handle"), ("trace", "handle"), ("metrics", "args"), ("metrics", "lib")])
def test_daemon(place, hang, level, what):
    h = hang(what)
    d = place.everywhere(f"{level}-{what}", level)
    h.go()
    if what != "lib":
        h.says("made")
    another_is_seen(d)
    if what == "handle":
        d.until(lambda m: m.total("calls_total", command="hang") == 6)
    ends(d.p)
    assert what != "lib" or "another user serves (FUSE)" in d.said()


@pytest.mark.parametrize("what,options", [("exec", ()), ("handle", ()), ("perf", ("--stack",)), ("lib", ())])
def test_pid(place, hang, what, options):
    h, path = hang(what), place.folder / f"pid-{what}.jsonl"
    p = place.start(CUDATRACE, "-q", "-p", h.target, "--jsonl", path, *options)
    until(lambda: path.exists() and path.stat().st_size, 60)
    h.go()
    if what != "lib":
        h.says("made")
    never_waits(p.pid)
    ends(p)
    t = Trace(path)
    if what == "handle":
        # Its calls are lines, without names.
        assert t.sym["cuLaunchKernel"] == t.sym["cuModuleGetFunction"] == 2 and not any(e.get("kernel_source") for e in t.calls)
    if what == "perf":
        assert t.sym["cuCtxSynchronize"] == 3


def test_check(hang):
    h = hang("exec")
    h.go()
    h.says("made")
    assert re.search("^Tracing is possible", Ran([CUDATRACE, "check"], timeout=15).out, re.M)


def lost(status):
    """The number of libraries without probes in a status or report; both must agree on whether it is complete."""
    n = sum(x["count"] for x in status["lost"] if x["id"] == "detached")
    assert status["complete"] == (n == 0)
    return n


# The process holds its memory lock, and its library is to be probed: this must wait until the lock is free.
# waits32: in the 32-bit munmap(), whose number is that of another 64-bit call.
@pytest.mark.parametrize("what", ["maps", "waits", "waits32"])
def test_daemon_held(place, hang, what):
    h = hang(what)
    if what != "maps":
        h.says("held")
    else:
        h.holds_lock()
    d = place.everywhere(f"held-{what}", "metrics", f"--libcuda={place.hlib}")
    assert re.search(f"hlib/libcuda.so.1: cannot attach .* probes .* of process {h.target}", d.said())
    another_is_seen(d)
    assert lost(d.ctl("status")) == 1
    d.until(lambda m: m.total("libraries_without_probes_total") == 1)
    h.abort()
    until(lambda: "hlib/libcuda.so.1 is traced now" in d.said(), 5)
    assert len(re.findall(r"cannot attach \d+ probes", d.said())) == 1
    ends(d.p)


def test_fork_behind_a_lock(place, hang):
    """A process that does not map the library waits for its memory lock in fork(). Attaching must wait, or every fork() would."""
    h = hang("forks")
    h.holds_lock()
    d = place.everywhere("forks", "metrics", f"--libcuda={place.hlib}")
    assert re.search(f"hlib/libcuda.so.1: cannot attach .* probes .* of process {h.target}", d.said())
    never_waits(d.pid)
    # No process uses the library: nothing is lost.
    assert d.healthy(2 * 6) and lost(d.ctl("status")) == 0
    h.abort()
    until(lambda: "hlib/libcuda.so.1 is traced now" in d.said(), 5)
    ends(d.p)


# Probes already attached: the daemon must not wait for them at its end.
def test_daemon_ending(place, hang):
    h = hang("later")
    d = place.everywhere("ending", "metrics", f"--libcuda={place.hlib}")
    links = int(subprocess.check_output(["pgrep", "-P", str(d.pid), "-x", "cudatrace-links"]))
    assert probed(h.target, place.hlib) != "none"
    h.go()
    h.holds_lock(2)
    time.sleep(1)
    ends(d.p)
    assert re.search("the probes stay attached, .* until a memory lock is released, perhaps of process "
                     f"{h.target}, .* cudatrace-links, process {links},", d.said())
    never_waits(links)
    subprocess.run(["true"], timeout=2 * 6, check=True)
    h.abort()
    until(lambda: is_gone(links), 2)
    assert probed(h.target, place.hlib) == "none"


# held: the calls before the probes come are missing, to the end. early: the probes come before any traced process maps the library.
@pytest.mark.parametrize("how,missing,calls", [("held", 1, 0), ("released", 1, 1), ("early", 0, 2)])
def test_command(place, hang, how, missing, calls):
    h, goes_on, path, log = hang("maps"), place.folder / "goes.on", place.folder / "cmd.jsonl", place.folder / "cmd.log"
    called = place.folder / "goes.on.called"
    for f in goes_on, called, path:
        f.unlink(missing_ok=True)
    h.holds_lock()
    command = [place.one, goes_on]
    if how == "early":
        command = ["bash", "-c", 'until [ -e "$0" ]; do sleep 0.05; done; exec "$1" "$0"', goes_on, place.one]
    with open(log, "wb") as err:
        p = place.start(CUDATRACE, "--probe=uprobe", "--no-summary", "--jsonl", path, "--", *command, stderr=err,
                        env={"LD_LIBRARY_PATH": os.path.dirname(place.hlib)})
    until((lambda: "cannot attach" in log.read_text()) if how == "early" else called.exists, 20)
    if how != "held":
        h.abort()
        until(lambda: "is traced now" in log.read_text(), 10)
    goes_on.touch()
    p.wait()
    r = json.loads(cudatrace("report", "--format=json", "-o", "-", path).out)
    assert lost(r) == missing and len(r["lost"]) == missing
    assert ("the trace is incomplete" in log.read_text()) == (missing > 0)
    assert Trace(path).sym["cuInit"] == calls
