# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 900
# takes: 110
"""trace.inject of the daemon: the library records processes that opt in, uprobes record all others. Each call is counted or recorded
once at every level by either producer. A process that sends false records damages only its own data."""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from helpers.daemon import NOBODY, POD, Daemon, for_all, library  # noqa: F401, a fixture
from helpers.run import CC, FAKE, TESTS, needs_tracing, until

INJECT = "inject: true"


@pytest.fixture(scope="module", autouse=True)
def programs():
    needs_tracing()
    for name, source, args in (("caller", "caller.c", ()), ("hostile", "inject/hostile.c", ("-D_GNU_SOURCE", f"-I{TESTS}/../include"))):
        subprocess.run([*CC, "-O1", "-w", *args, "-o", f"{os.environ['TMP']}/{name}", f"{TESTS}/{source}", "-ldl", "-lpthread"], check=True)


@pytest.fixture
def lib(for_all):  # noqa: F811
    """A libcuda that nothing else uses."""
    (for_all / "lib").mkdir()
    return shutil.copy(FAKE + "/libcuda.so.1", for_all / "lib")


class Caller:
    """tests/caller.c under this name, as another user in another network namespace; ready to call."""

    def __init__(self, d, lib, name, opts_in=True, ready=True):  # noqa: F811
        self.name, self.program = name, f"{d.folder.parent}/{name}"
        if not os.path.exists(self.program):
            shutil.copy(os.environ["TMP"] + "/caller", self.program)
        self.p = subprocess.Popen([*POD, self.program], env={**os.environ, **(library(d.folder) if opts_in else {})}, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.p.pid
        assert self.ask("open", lib) == 1
        if ready:
            # Its level is known, and its calls have probes if needed.
            until(lambda: d.process(self.pid))
            assert self.ask("init") == 0
            until(lambda: opts_in or all(x["probes"] == "all" for x in d.ctl("status")["libraries"]))

    def send(self, *words):
        self.p.stdin.write(" ".join(map(str, words)) + "\n")
        self.p.stdin.flush()

    def ask(self, *words):
        self.send(*words)
        return int(self.p.stdout.readline())

    def end(self):
        self.p.stdin.close()
        self.p.wait(20)


def own_counts(path):
    """The mock's counts of calls, without the library's own ones for the sizes of kernel parameters."""
    made = collections.Counter()
    for line in path.read_text().splitlines():
        if line.startswith("cu") and not re.match("cuFuncGetParamInfo|cuKernelGetParamInfo|cuThreadExchangeStreamCaptureMode", line):
            made[line.split()[0]] += int(line.split()[1])
    return made


def producers(lines, pid):
    return collections.Counter(e["id"] >> 48 for e in lines if e.get("pid") == pid and "symbol" in e)


@pytest.mark.parametrize("level", ["trace", "metrics", "sampled", "off"])
def test_pod(for_all, lib, level):  # noqa: F811
    """A process in its own mount, PID and network namespaces must be recorded, with the folder mounted elsewhere, read-only."""
    d = Daemon(for_all, "--set", "trace.detail=all", "--set", "sample.on.error=false", trace=INJECT, own=True, level=level, libcuda=lib)
    shutil.copy(FAKE + "/sample", for_all / "pod-sample")
    (for_all / "mnt").mkdir()
    made = f"""mount --bind -o ro {d.folder} {for_all}/mnt && exec setpriv --reuid=65534 --regid=65534 --clear-groups \
        {for_all}/pod-sample --quiet --tokens 20 --threads 3"""
    subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", made], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "LD_LIBRARY_PATH": str(lib)[:-len("/libcuda.so.1")], "FAKE_CUDA_COUNTS": str(for_all / "counts"), **library(for_all / "mnt")})
    made = own_counts(for_all / "counts")
    assert made["cuLaunchKernel"] > 1000
    if level == "off":
        assert not d.calls("pod-sample") and not d.lost()
        d.stop()
        return
    until(lambda: sum(d.calls("pod-sample").values()) >= sum(made.values()))
    assert d.calls("pod-sample") == made and not d.lost()
    d.stop()
    seen = collections.Counter(e["id"] >> 48 for e in d.lines() if "symbol" in e and e.get("comm") == "pod-sample")
    if level == "trace":
        assert sum(seen.values()) == sum(made.values()) and seen[2] > 0.95 * sum(made.values())
    else:
        assert not seen


def test_files_account(for_all, lib):  # noqa: F811
    """Calls dropped during a rotation must be counted in one of the two files."""
    d = Daemon(for_all, "--set", "trace.detail=all", "--set", "trace.buffer_size=512K", "--set", "files.rotate_size=256K", trace=INJECT, own=True,
               level="trace", libcuda=lib)
    shutil.copy(FAKE + "/sample", for_all / "w-sample")
    subprocess.run([for_all / "w-sample", "--quiet", "--tokens", "1500", "--threads", "2"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "LD_LIBRARY_PATH": str(lib)[:-len("/libcuda.so.1")], "FAKE_CUDA_COUNTS": str(for_all / "counts"), **library(d.folder)})
    d.stop()
    ends = [json.loads(f.read_bytes().splitlines()[-1]) for f in d.files.iterdir() if f.name.startswith("trace-")]
    made = sum(own_counts(for_all / "counts").values())
    assert {e["type"] for e in ends} == {"end"} and len(ends) > 5
    assert sum(e["drops"]["inproc"] for e in ends) > 1000
    by = collections.Counter((e["pid"], e["comm"]) for f in d.files.iterdir() for e in map(json.loads, f.read_bytes().splitlines()) if "symbol" in e)
    said = sum(e["calls"] + e["drops"]["calls"] + e["drops"]["inproc"] for e in ends)
    drops = {k: [e["drops"].get(k) for e in ends] for k in ends[0]["drops"] if any(e["drops"].get(k) for e in ends)}
    assert said == made, (said - made, by, [e["calls"] for e in ends], drops)


def test_arguments(for_all, lib):  # noqa: F811
    """A call's arguments on the stack must be intact, whether it is recorded or not."""
    d = Daemon(for_all, "--set", "trace.detail=all", trace=INJECT, own=True, level="trace", libcuda=lib)
    c = Caller(d, lib, "w-stacked")
    assert d.process(c.pid)["seen"] == "inproc"
    for level in ("off", "trace", "metrics") * 3:
        d.ctl("level", c.pid, level)
        for _ in range(10):
            assert c.ask("stacked", 100) == 100, level
            time.sleep(0.005)
    c.end()
    d.stop()


def test_both_kinds_at_once(for_all, lib):  # noqa: F811
    d = Daemon(for_all, trace=INJECT, own=True, level="metrics", libcuda=lib)
    callers = [Caller(d, lib, f"w-{'inside' if i % 2 else 'outside'}", opts_in=i % 2) for i in range(6)]
    for c in callers:
        c.send("threads", 3, 3000)
    assert [int(c.p.stdout.readline()) for c in callers] == [9000] * 6
    assert [d.process(c.pid)["seen"] for c in callers] == ["uprobes", "inproc"] * 3
    assert d.metric("cudatrace_processes_inproc") == 3
    once = {"cuInit": 1, "cuDevicePrimaryCtxRetain": 1, "cuCtxSetCurrent": 4}
    made = 6 * (2 * 9000 + sum(once.values()))
    # On a busy machine rings fill up before they are read: calls are lost and counted.
    until(lambda: sum(sum(d.calls(f"w-{kind}").values()) for kind in ("inside", "outside")) + sum(d.lost().values()) >= made)
    seen, lost = {kind: d.calls(f"w-{kind}") for kind in ("inside", "outside")}, d.lost()
    assert sum(sum(calls.values()) for calls in seen.values()) + sum(lost.values()) == made and lost.keys() <= {"calls", "inproc"}, (seen, lost)
    for calls in seen.values():
        assert all(calls[name] <= 3 * n for name, n in {**once, "cuMemAlloc_v2": 9000, "cuMemFree_v2": 9000}.items()), seen
    for c in callers:
        # Error codes of several threads are summed; children are separate processes.
        assert c.ask("fail", 10) == 10 and c.ask("child", 20) == 20
        c.end()
    for kind in "inside", "outside":
        until(lambda kind=kind: d.calls(f"w-{kind}")["cuMemAlloc_v2"] == seen[kind]["cuMemAlloc_v2"] + 3 * 20)
        assert d.metric("cudatrace_errors_total", command=f"w-{kind}", function="cuMemFree_v2") == 30
    until(lambda: not d.metric("cudatrace_processes_inproc"))
    assert d.lost() == lost
    d.stop()


def test_levels_change(for_all, lib):  # noqa: F811
    """Levels change by ctl, by new rules, and by bursts, while threads make calls: each call must be recorded once."""
    d = Daemon(for_all, "--set", "metrics.memory=false", trace=INJECT, own=True, level="metrics", libcuda=lib)
    c = Caller(d, lib, "w-levels")
    c.send("threads", 2, 100000)
    for _ in range(10):
        for level in "trace", "metrics", "off", "sampled":
            if level == "off":
                continue
            d.ctl("level", c.pid, level)
        d.ctl("burst", c.pid, "0.01s")
    assert int(c.p.stdout.readline()) == 200000
    calls = d.calls("w-levels")
    assert calls["cuMemAlloc_v2"] + calls["cuMemFree_v2"] + sum(d.lost().values()) == 400000 and sum(d.lost().values()) < 300000
    # Level off also applies to calls that began before the daemon read them.
    d.ctl("level", c.pid, "off")
    assert c.ask("alloc", 100) == 100 and d.calls("w-levels") == calls
    d.ctl("level", c.pid, "default")
    d.configure("trace")
    d.p.send_signal(signal.SIGHUP)
    until(lambda: d.process(c.pid)["level"] == "trace")
    before = producers(d.lines(), c.pid)
    assert c.ask("alloc", 50) == 50
    until(lambda: producers(d.lines(), c.pid)[2] >= before[2] + 100)
    c.end()
    d.stop()
    assert producers(d.lines(), c.pid) == before + collections.Counter({2: 100}), before


def test_child_of_one_that_is_off(for_all, lib):  # noqa: F811
    """Functions that are off in the parent must not be off in a child, which has its own level."""
    d = Daemon(for_all, trace=INJECT, own=True, level="metrics", libcuda=lib)
    c = Caller(d, lib, "w-off")
    d.ctl("level", c.pid, "off")
    assert c.ask("alloc", 10) == 10
    assert "cuMemAlloc_v2" not in d.calls("w-off")
    assert c.ask("child", 100) == 100
    until(lambda: d.calls("w-off").get("cuMemAlloc_v2") == 100)
    assert c.ask("alloc", 10) == 10 and d.calls("w-off").get("cuMemAlloc_v2") == 100
    c.end()
    d.stop()


def test_recorder(for_all, lib):  # noqa: F811
    """The recorder's dump must have the last seconds of these processes, with those of others."""
    d = Daemon(for_all, "--set", "recorder.seconds=30s", trace=INJECT, own=True, libcuda=lib)
    callers = [Caller(d, lib, "w-inside"), Caller(d, lib, "w-outside", opts_in=False)]
    for c in callers:
        assert c.ask("alloc", 30) == 30
    until(lambda: sum(d.calls(c.name)["cuMemAlloc_v2"] for c in callers) == 60)
    d.ctl("dump", "last")
    dump, = [f for f in d.files.iterdir() if f.name.startswith("dump-") and "-last.jsonl" in f.name]
    text = subprocess.run(["zstd", "-dc", dump], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert [text.count(f'"pid":{c.pid},') >= 62 for c in callers] == [True, True]
    d.stop()


def test_redacted(for_all, lib):  # noqa: F811
    d = Daemon(for_all, "--set", "trace.redact=arguments", trace=INJECT, own=True, libcuda=lib)
    c = Caller(d, lib, "w-redacted")
    assert c.ask("alloc", 30) == 30
    until(lambda: d.calls("w-redacted")["cuMemFree_v2"] == 30)
    c.end()
    d.stop()
    calls = [e for e in d.lines() if e.get("pid") == c.pid and e.get("symbol") == "cuMemAlloc_v2"]
    assert len(calls) == 30 and not [e for e in calls if e.get("args") or "size" in e or e["id"] >> 48 != 2]


def test_probes_come_off(for_all, lib):  # noqa: F811
    """Probes must be removed when all processes that map the file opted in, and return for one that did not."""
    d = Daemon(for_all, "--set", "trace.detail=all", trace=INJECT, own=True, level="metrics", libcuda=lib)

    def probes():
        return next(x["probes"] for x in d.ctl("status")["libraries"] if x["path"] == str(lib))
    first = Caller(d, lib, "w-first")
    until(lambda: probes() == "few", 30)
    # uprobes record its first calls: those functions kept their probes.
    second = Caller(d, lib, "w-second", ready=False)
    assert second.ask("version", 3) and second.ask("init") == 0 and second.ask("alloc", 10) == 10 and first.ask("alloc", 10) == 10
    assert d.calls("w-second") == {"cuDriverGetVersion": 3, "cuInit": 1, "cuDevicePrimaryCtxRetain": 1, "cuCtxSetCurrent": 1, "cuMemAlloc_v2": 10, "cuMemFree_v2": 10}
    other = Caller(d, lib, "w-other", opts_in=False)
    assert probes() == "all" and other.ask("alloc", 10) == 10 and first.ask("alloc", 10) == 10
    assert d.calls("w-other")["cuMemAlloc_v2"] == 10 and d.calls("w-first")["cuMemAlloc_v2"] == 20
    other.end()
    until(lambda: probes() == "few", 30)
    for c in first, second:
        c.end()
    assert not d.lost()
    d.stop()


def test_monitor_needs_no_probes(for_all, lib):  # noqa: F811
    """A process that only reads the driver's version (nvidia-smi) must not add probes for others, until it begins to use the driver."""
    d = Daemon(for_all, "--set", "trace.detail=all", trace=INJECT, own=True, level="metrics", libcuda=lib)

    def probes():
        return d.ctl("status")["libraries"][0]["probes"]
    inside = Caller(d, lib, "w-inside")
    until(lambda: probes() == "few", 30)
    monitor = Caller(d, lib, "w-monitor", opts_in=False, ready=False)
    until(lambda: d.process(monitor.pid))
    assert monitor.ask("version", 5)
    until(lambda: d.calls("w-monitor") == {"cuDriverGetVersion": 5})
    time.sleep(2)
    assert probes() == "few" and monitor.ask("init") == 0
    until(lambda: probes() == "all")
    assert monitor.ask("alloc", 10) == 10 and inside.ask("alloc", 10) == 10
    until(lambda: [d.calls(c.name).get("cuMemAlloc_v2") for c in (monitor, inside)] == [10, 10])
    for c in monitor, inside:
        c.end()
    assert not d.lost()
    d.stop()


def test_beginning_that_is_lost(for_all, lib):  # noqa: F811
    """If a full ring loses the event of a program's first use of the driver, the program must still be recorded soon."""
    d = Daemon(for_all, trace=INJECT, own=True, level="trace", libcuda=lib)
    (for_all / "other").mkdir()
    inside, other = Caller(d, lib, "w-inside"), shutil.copy(lib, for_all / "other")
    flood, *fill = [Caller(d, other, "w-flood", opts_in=False, ready=not i) for i in range(9)]
    until(lambda: next(x["probes"] for x in d.ctl("status")["libraries"] if x["path"] == str(lib)) == "few", 30)
    late = Caller(d, lib, "w-late", opts_in=False, ready=False)
    for c in flood, late, *fill:
        os.sched_setaffinity(c.pid, {0})
    d.p.send_signal(signal.SIGSTOP)
    # The ring has no space for a call, but still for the first events of others.
    assert flood.ask("alloc", 300000) == 300000 and not any(c.ask("init") for c in (*fill, late))
    d.p.send_signal(signal.SIGCONT)
    until(lambda: d.lost(("tasks",)) and all(x["probes"] == "all" for x in d.ctl("status")["libraries"]))
    # Lines may still be pending; probes record the calls made now.
    assert late.ask("alloc", 10) == 10
    until(lambda: d.calls("w-late").get("cuMemAlloc_v2") == 10)
    for c in inside, flood, late, *fill:
        c.end()
    d.stop()


def test_probes_stay_for_who_was_there(for_all, lib):  # noqa: F811
    """A process that was running before the daemon, and has not opted in, must be recorded, whatever other processes do."""
    d = Daemon(for_all, trace=INJECT, own=True, level="metrics", libcuda=lib)
    old = Caller(d, lib, "w-old", opts_in=False)
    d.stop()
    d.start()
    new = Caller(d, lib, "w-new")
    assert new.ask("alloc", 10) == 10 and d.process(new.pid)["seen"] == "inproc"
    # Longer than it takes to remove unneeded probes.
    time.sleep(13)
    assert old.ask("alloc", 100) == 100
    until(lambda: d.calls("w-old").get("cuMemAlloc_v2") == 100)
    for c in old, new:
        c.end()
    d.stop()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_daemon_ends_and_comes_back(for_all, lib, how):  # noqa: F811
    """The program must continue. The next daemon records its remaining calls by uprobes, and new programs in-process."""
    d = Daemon(for_all, trace=INJECT, own=True, level="metrics", libcuda=lib)
    c = Caller(d, lib, "w-old")
    assert d.process(c.pid)["seen"] == "inproc"
    getattr(d, how)()
    assert c.ask("alloc", 100) == 100
    d.start()
    for _ in range(3):
        assert c.ask("alloc", 100) == 100
    until(lambda: d.calls("w-old").get("cuMemAlloc_v2") == 300)
    new = Caller(d, lib, "w-new")
    assert new.ask("alloc", 100) == 100 and c.ask("alloc", 100) == 100
    assert d.calls("w-new")["cuMemAlloc_v2"] == 100 and d.calls("w-old")["cuMemAlloc_v2"] == 400
    assert [d.process(x.pid)["seen"] for x in (c, new)] == ["uprobes", "inproc"]
    # The library in the old program has detached, so uprobes can record it.
    c.end()
    new.end()
    d.stop()


def test_program_is_killed(for_all, lib):  # noqa: F811
    d = Daemon(for_all, trace=INJECT, own=True, libcuda=lib)
    c = Caller(d, lib, "w-killed")
    assert c.ask("alloc", 100) == 100
    c.p.kill()
    c.p.wait()
    until(lambda: not d.metric("cudatrace_processes_inproc"))
    assert d.calls("w-killed")["cuMemAlloc_v2"] == 100
    d.stop()
    assert sum(e.get("symbol") == "cuMemFree_v2" and e["pid"] == c.pid for e in d.lines()) == 100


def hostile(d, lib, what, *args):  # noqa: F811
    return subprocess.Popen(["nice", "-n", "19", *NOBODY, f"{d.folder.parent}/hostile", lib, what, *map(str, args)], text=True, stdout=subprocess.PIPE,
                            env={**os.environ, "CUDATRACE_SOCKET": f"{d.folder}/socket"})


def status_kb(pid, name):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(name + ":"))


def test_hostile(for_all, lib):  # noqa: F811
    """Floods, invalid memory and huge counts must not cause losses for another program, nor more memory for the daemon."""
    d = Daemon(for_all, trace=INJECT, own=True, libcuda=lib)
    shutil.copy(os.environ["TMP"] + "/hostile", for_all / "hostile")
    c = Caller(d, lib, "w-other")
    before = status_kb(d.p.pid, "RssAnon")
    liars = [hostile(d, lib, what, 60) for what in ("flood", "pages", "counts")]
    until(lambda: all(p.stdout.readline() == "joined\n" for p in liars))
    for _ in range(10):
        assert c.ask("threads", 2, 200) == 400
        assert d.calls("w-other")["cuInit"] == 1
    until(lambda: d.calls("w-other")["cuMemFree_v2"] == 10 * 400)
    # Rows of counts are at most 1 KB; reading unwritten pages does not allocate them.
    assert status_kb(d.p.pid, "RssAnon") - before < 40 << 10 and status_kb(d.p.pid, "RssShmem") < 20 << 10
    for p in liars:
        p.kill()
        p.wait()
    lines = [e for e in d.lines() if "symbol" in e and e.get("comm") == "w-other"]
    c.end()
    d.stop()
    assert {e["pid"] for e in lines} == {c.pid}
    assert sum(e.get("symbol") == "cuMemAlloc_v2" and e["pid"] == c.pid for e in d.lines()) == 10 * 400


def test_hostile_connections(for_all, lib):  # noqa: F811
    """A process that holds all connections of its user must not exclude others."""
    d = Daemon(for_all, trace=INJECT, own=True, libcuda=lib)
    shutil.copy(os.environ["TMP"] + "/hostile", for_all / "hostile")
    holders = [hostile(d, lib, "hold", 60) for _ in range(40)]
    until(lambda: all(p.stdout.readline() == "held\n" for p in holders))
    shutil.copy(FAKE + "/sample", for_all / "w-root")
    subprocess.run([for_all / "w-root", "--quiet", "--tokens", "2"], check=True, stdout=subprocess.DEVNULL, timeout=30,
                   env={**os.environ, "LD_LIBRARY_PATH": str(for_all / "lib"), **library(d.folder)})
    until(lambda: d.calls("w-root").get("cuInit") == 1)
    for p in holders:
        p.kill()
        p.wait()
    d.stop()
    assert {e["id"] >> 48 for e in d.lines() if "symbol" in e and e.get("comm") == "w-root" and e["symbol"] != "cuInit"} == {2}


JUNK = """import os, socket, sys
for i in range(200):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(5)
    try:
        s.connect(sys.argv[1])
        s.send(os.urandom(64) if i % 2 else b"")
    except OSError:
        pass
    s.close()
"""


def test_junk_is_not_lost(for_all, lib):  # noqa: F811
    """Connections without a hello are of no traced process: they must not count as dropped. A process that connects later is recorded."""
    d = Daemon(for_all, trace=INJECT, own=True, level="metrics", libcuda=lib)
    path = library(d.folder)["CUDA_INJECTION64_PATH"]
    subprocess.run([*NOBODY, "python3", "-c", JUNK, os.path.dirname(path) + "/socket"], check=True)
    c = Caller(d, lib, "after-junk")
    assert not d.lost(("processes", "inproc"))
    c.end()
    d.stop()
