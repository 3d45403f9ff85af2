# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
# timeout: 240
"""The files of libcuda: attached before a process has loaded them, and overwritten in place while they are probed."""
import collections
import contextlib
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
from helpers.daemon import Private
from helpers.jsonl import Trace
from helpers.live import is_gone, state
from helpers.probed import probed
from helpers.run import ALL, CASES, CUDATRACE, FAKE, FAKE535, MECHANISMS, Ran, needs_mechanism, needs_tracing, passes, traced, until
from runner.contain import descendants

LIB, LIB535, DLOPEN_LATE = FAKE + "/libcuda.so.1", FAKE535 + "/libcuda.so.1", CASES + "/dlopen_late"


@pytest.fixture(autouse=True)
def lib(tmp_path):
    """A copy with another name than libcuda.so.1: tracers of the whole machine do not inspect it."""
    needs_tracing()
    (tmp_path / "w").mkdir()
    return shutil.copy(LIB, tmp_path / "w/driver.bin")


def one_caller(running, path):
    """A program that loads the file, makes some calls and ends."""
    c = running.caller().ready(path)
    assert c.tell("alloc 2") == 2 and c.end() == 0


def until_said(path, pattern, count=1):
    until(lambda: len(re.findall(pattern, open(path, encoding="utf-8").read())) == count, 20)


def until_attached_anew(t, count=1):
    until_said(t.path, '"op":"attached".*its contents have changed', count)


class Late:
    """Programs that wait for go(), then load a libcuda and call it at once."""

    def __init__(self, running, folder, commands):
        wait, self.start = os.pipe()
        self.out = [folder / f"late.{i}" for i in range(len(commands))]
        self.all = [running.start(*command, stdin=wait, stdout=out) for command, out in zip(commands, self.out)]
        os.close(wait)
        until(lambda: all("ready" in out.read_text() for out in self.out))
        self.pids = ",".join(str(p.pid) for p in self.all)

    def go(self):
        os.write(self.start, b" " * len(self.all))
        os.close(self.start)
        assert [p.wait(60) for p in self.all] == [0] * len(self.all)

    def all_seen(self, t):
        """Every call that the programs printed must be in the trace."""
        own, seen = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
        for e in (json.loads(line) for out in self.out for line in out.read_text().split("ready\n", 1)[1].splitlines()):
            own[e["pid"]].update([e["symbol"]] if "symbol" in e else [])
        for c in t.calls:
            seen[c["pid"]][c["symbol"]] += 1
        assert len(own) == len(self.all) and {pid: seen[pid] for pid in own} == own and t.accounts()


def by_cache(folder):
    """Runs a program with a root of its own, as far as needed here: its ld.so.cache has this folder."""
    conf, cache = f"{folder}.conf", f"{folder}.cache"
    with open(conf, "w", encoding="utf-8") as f:
        f.write(f"{folder}\n")
    if not shutil.which("ldconfig") or Ran(["ldconfig", "-C", cache, "-f", conf]).status or Ran(["unshare", "-m", "true"]).status:
        pytest.skip("needs ldconfig and unshare")
    return ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/ld.so.cache && exec "$@"', cache, DLOPEN_LATE, "libcuda.so.1", "-"]


BEFOREHAND = {
    "LD_LIBRARY_PATH": ([], lambda folder: ["env", f"LD_LIBRARY_PATH={folder}", DLOPEN_LATE, "libcuda.so.1", "-"]),
    "ld.so.cache": ([], by_cache),
    "--stop-on-load": (["--stop-on-load"], lambda folder: [DLOPEN_LATE, folder / "libcuda.so.1", "-"]),
}


@pytest.mark.parametrize("how", BEFOREHAND)
def test_attached_beforehand(running, tmp_path, how):
    """Files in the dynamic linker's paths must be attached before a process has loaded them, others while it is stopped: the trace must
    have every call of twenty programs."""
    options, command = BEFOREHAND[how]
    folders = [tmp_path / f"n{i}" for i in range(20)]
    for folder in folders:
        folder.mkdir()
        shutil.copy(LIB, folder)
    late = Late(running, tmp_path, [command(folder) for folder in folders])
    t = running.tracer("t", "-e", ALL, *options, "-p", late.pids)
    late.go()
    t.ended()
    late.all_seen(t.trace)


def test_tracer_killed_while_one_is_stopped(running, tmp_path):
    """A process that --stop-on-load has stopped must continue when the tracer is killed."""
    shutil.copy(LIB, tmp_path)
    late = Late(running, tmp_path, [[DLOPEN_LATE, tmp_path / "libcuda.so.1", "-"]])
    t, pid = running.tracer("dead", "--stop-on-load", "-p", late.pids), late.all[0].pid
    t.p.send_signal(signal.SIGSTOP)
    os.write(late.start, b" ")
    until(lambda: state(pid) == "T")
    t.p.kill()
    until(lambda: is_gone(pid))


def write_mapped(new, to):
    with open(new, "rb") as f, open(to, "r+b") as out:
        data = f.read()
        out.truncate(len(data))
        with mmap.mmap(out.fileno(), len(data)) as m:
            m[:] = data


def write_part(new, to):
    """The rest of the old file stays: truncate(1) would be a second writer, which does not wait."""
    subprocess.run(["dd", f"if={new}", f"of={to}", "bs=1M", "conv=notrunc"], check=True, stderr=subprocess.DEVNULL)


WRITES = [(LIB535, shutil.copyfile), (LIB, write_part), (LIB535, write_mapped)]


@pytest.mark.parametrize("mech", MECHANISMS)
def test_overwritten(running, lib, mech):
    """Probes must be removed before the first byte is written, and attached to the new contents before they are called."""
    needs_mechanism(mech)
    idle = running.caller()
    # Removing perf events takes 0.1 s for each function.
    some = ALL if mech != "perf" else "cuMemAlloc_v2,cuMemFree_v2,cuInit"
    t = running.tracer("over", f"--mechanism={mech}", "-e", some, "--libcuda", lib, "-p", idle.pid)
    for n, (new, write) in enumerate(WRITES, 1):
        write(new, lib)
        one_caller(running, lib)
        with open(new, "rb") as a, open(lib, "rb") as b:
            data = a.read()
            assert b.read(len(data)) == data
        until_attached_anew(t, n)
        one_caller(running, lib)
    assert idle.ready(lib).tell("alloc 5") == 5 and idle.end() == 0
    t.ended()
    trace, of = t.trace, [e for e in t.trace.lib if not e["pid"]]
    assert trace.sym["cuMemAlloc_v2"] == 5 and trace.accounts() and [e["op"] for e in of] == ["detached", "attached"] * 3
    assert {c.get("lib", 1) for c in trace.calls} == {[e["lib"] for e in trace.lib if e["op"] == "attached"][-1]}
    passes("golden/schema_check.py", t.path)


def test_overwritten_by_the_command(tmp_path):
    """A command's process overwrites a file that it loads next: it waits for the tracer, and is stopped for it. Calls are in the trace,
    or missed ones are reported."""
    path = shutil.copy(LIB, tmp_path / "w/libcuda.so.1")
    t = traced(tmp_path / "t", "-e", ALL, "--libcuda", path, "--", "sh", "-c",
               'for i in 1 2 3; do cp "$0" "$1" && "$2" "$1" 0 || exit 1; cp "$3" "$1" && "$2" "$1" 0 || exit 1; done',
               LIB535, path, DLOPEN_LATE, LIB)
    of = {c["pid"] for c in t.calls}
    assert len(of | {e["pid"] for e in t.lib if e["op"] == "failed"}) == 6 and len(of) >= 1 and t.accounts()


def test_open_for_writing(running, lib):
    """A file that is open for writing when the trace begins is reported, and attached when it is closed."""
    with open(lib, "ab"):
        idle = running.caller()
        t = running.tracer("held", "-e", ALL, "--libcuda", lib, "-p", idle.pid)
        assert "w/driver.bin is open for writing: it is traced as soon as the writer closes it" in t.err
        assert idle.ready(lib).tell("alloc 5") == 5 and probed(idle.pid, lib) == "none"
    until_attached_anew(t)
    idle.tell("alloc 7")
    assert idle.end() == 0
    t.ended()
    assert t.trace.sym == {"cuMemAlloc_v2": 7, "cuMemFree_v2": 7} and t.trace.accounts()


# CAP_LEASE is needed for another user's file.
NO_LEASE = ["setpriv", "--bounding-set", "-lease", "--inh-caps", "-lease"]


@pytest.fixture
def theirs(lib):
    """Another user's file."""
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv")
    os.chown(lib, 65534, -1)
    os.chmod(lib, 0o755)
    return lib


def test_without_leases(running, theirs):
    """A write must be noticed, and the calls of the new contents be in the trace."""
    idle = running.caller()
    t = running.tracer("late", "-e", ALL, "--libcuda", theirs, "-p", idle.pid, before=NO_LEASE)
    shutil.copyfile(LIB535, theirs)
    until_attached_anew(t)
    one_caller(running, theirs)
    idle.tell(f"open {theirs}")
    idle.tell("alloc 3")
    idle.end()
    t.ended()
    assert t.trace.sym["cuMemAlloc_v2"] == 3 and t.trace.accounts()


def test_without_leases_a_file_of_a_group(tmp_path, theirs):
    """A file that its group may write to must be refused, unless --force is given; with leases it is traced."""
    os.chmod(theirs, 0o775)
    traces = ["-q", "--libcuda", theirs, "--jsonl", tmp_path / "t", "--", DLOPEN_LATE, theirs, "0"]
    ran = Ran([*NO_LEASE, CUDATRACE, *traces])
    assert ran.status == 1 and ran.err.count("chmod go-w, or add --force") == 1, ran
    for command in ([*NO_LEASE, CUDATRACE, "--force"], [CUDATRACE]):
        assert Ran([*command, *traces]).status == 0
        t = Trace(tmp_path / "t")
        assert len(t.calls) >= 5 and t.accounts()


def test_opened_all_the_time(running, lib):
    """A user who may write to the file must not keep the tracer busy, nor must the user's programs wait long."""
    idle = running.caller()
    t = running.tracer("often", "-e", ALL, "--libcuda", lib, "-p", idle.pid)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        with open(lib, "ab"):
            pass
    with open(f"/proc/{t.pid}/stat", encoding="utf-8") as f:
        user, system = f.read().rpartition(")")[2].split()[11:13]
    with open(t.path, encoding="utf-8") as f:
        attached = len(re.findall('"op":"attached"', f.read()))
    assert int(user) + int(system) < 150 and 3 <= attached <= 8
    idle.end()
    t.ended()


def test_overwritten_under_a_daemon(running, tmp_path):
    """The daemon must attach anew, record it, and have the calls of the new contents."""
    with contextlib.closing(Private(tmp_path)) as place:
        d, path = place.daemon("over", level="trace"), place.lib / "libcuda.so.1"
        d.worker("one").tell("alloc 3")
        place.callers[0].end()
        shutil.copyfile(LIB535, path)
        one_caller(running, path)
        two = d.worker("two")
        two.tell("alloc 4")
        two.end()
        d.stop()
    lines = d.lines()
    its = [e for e in lines if e.get("pid") == two.pid]
    ops = [e["op"] for e in lines if e["type"] == "library" and e["op"] in ("detached", "attached")]
    assert sum(e.get("symbol") == "cuMemAlloc_v2" for e in its) == 4
    # Attached again by us, or because a process mapped it meanwhile. If that process is not traced, the line of the program names the file.
    again = ops[ops.index("detached"):].count("attached")
    assert again == 1 or again == 0 and any(e["type"] == "library" and e["op"] == "mapped" for e in its), (ops, its)


def readers(t):
    """The process that starts the tracer's reader, and the reader."""
    def found():
        return [p for p, name in descendants(t.pid).items() if name == "cudatrace-read"]
    until(lambda: len(found()) == 2)
    return found()


def test_a_library_that_cannot_be_read(running, tmp_path):
    """If the tracer's reader does not respond, as with a dead mount of a process, the trace must name the file."""
    quiet = running.caller()
    t = running.tracer("silent", "-e", ALL, "-p", quiet.pid)
    both = readers(t)
    for pid in both:
        os.kill(pid, signal.SIGSTOP)
    quiet.tell("open " + shutil.copy(LIB, tmp_path))
    until_said(t.path, '"op":"failed".*did not respond')
    quiet.end()
    for pid in both:
        os.kill(pid, signal.SIGKILL)
    t.ended()


@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize("probe", ["uprobe", "inject"])
def test_a_killed_reader(running, tmp_path, probe, killed):
    """Libraries that are loaded after the tracer's reader was killed may be missing: every view must say so, and only then."""
    lib, go = tmp_path / "lib", tmp_path / "go"
    lib.mkdir()
    shutil.copy(LIB, lib)
    says = f"while [ ! -e {go} ]; do sleep 0.02; done; LD_LIBRARY_PATH={lib} {FAKE}/sample --tokens 1 --quiet"
    t = running.tracer("killed-reader", f"--probe={probe}", "-e", ALL, "--", "sh", "-c", says)
    def found_readers():
        return [p for p, name in descendants(t.pid).items() if name == "cudatrace-read"]
    until(found_readers)
    if killed:
        time.sleep(0.5)
        for pid in found_readers():
            os.kill(pid, signal.SIGKILL)
    go.touch()
    t.ended()
    found = json.loads(Ran([CUDATRACE, "report", "--format=json", t.path]).out)
    assert found["complete"] != killed and [x["id"] for x in found["lost"]] == ["unseen"] * killed, (found["lost"], t.err)


def test_a_reader_that_responds_late(running, tmp_path):
    """If the machine is busy, the library must be attached late, nothing be left out, and nothing be reported."""
    (tmp_path / "starved").mkdir()
    late = running.caller()
    t = running.tracer("starved", "-e", ALL, "-p", late.pid)
    reader = readers(t)[1]
    os.kill(reader, signal.SIGSTOP)
    threading.Timer(1, os.kill, (reader, signal.SIGCONT)).start()
    late.tell("open " + shutil.copy(LIB, tmp_path / "starved"))
    until_said(t.path, '"op":"attached".*/starved/')
    late.tell("init")
    late.tell("alloc 10")
    late.end()
    t.ended()
    assert t.trace.sym["cuMemAlloc_v2"] == 10 and not t.trace.end.get("unseen") and t.trace.accounts() and t.err == ""
