# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 110
"""Failures: the tracer killed, targets that end in odd ways, outputs that cannot be written. The target must continue with right results.
No process may stay stopped, nothing of ours may remain, and losses must be counted.

FAULTS_KILLS=N   how many tracers are killed (10; make check-all: 100; make faults: 200)"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled, is_gone, state
from helpers.probed import probed
from helpers.run import ALL, CASES, CUDATRACE, FAKE, TESTS, Ran, cudatrace, needs_mechanism, needs_tracing, passes, traced, until
from runner.contain import descendants

LIB = FAKE + "/libcuda.so.1"
FAST = {"LD_LIBRARY_PATH": FAKE, "FAKE_NO_SEM": "1"}
MANY = [CASES + "/many", "cuMemFree_v2"]
BOTH = {"cuMemAlloc_v2", "cuMemFree_v2"}


@pytest.fixture(autouse=True)
def driver(tmp_path):
    """A copy of the library with another name, which tracers of the whole machine ignore."""
    needs_tracing()
    return shutil.copy(LIB, tmp_path / "driver.bin")


def target(source):
    """A program of tests/faults, built when first needed."""
    out = f"{os.environ['TMP']}/{source.split('.')[0]}"
    return out if os.path.exists(out) else compiled(out, f"{TESTS}/faults/{source}", *["-lstdc++"] * source.endswith(".cc"))


def until_clean(pid, lib):
    until(lambda: probed(pid, lib) == "none")


def made_by(counts):
    """The calls that the mock driver counted of the only function."""
    return int(counts.read_text().split()[1])


@pytest.mark.parametrize("how", ["child", "grandchild"])
def test_tracer_killed_while_one_is_stopped(running, tmp_path, how):
    """A process of the command is stopped until its libcuda is attached. When the tracer is killed, it continues, and the guard ends."""
    shutil.copy(LIB, tmp_path)
    command = [CASES + "/dlopen_late", tmp_path / "libcuda.so.1", "-"]
    if how == "grandchild":
        command = ["sh", "-c", '"$@"; true', "sh", "sh", "-c", '"$@"; true', "sh", *command]
    t, out = running.tracer("left", "--", *command, stdin=subprocess.PIPE), tmp_path / "left.out"
    until(lambda: "ready" in out.read_text())
    below = descendants(t.pid)
    (kid,), (guard,) = ([p for p, name in below.items() if name == wanted] for wanted in ("dlopen_late", "cudatrace-guard"))
    t.p.send_signal(signal.SIGSTOP)
    t.p.stdin.write(b"\n")
    t.p.stdin.close()
    until(lambda: state(kid) == "T")
    t.stop(signal.SIGKILL)
    until(lambda: is_gone(kid))
    assert out.read_text().count("symbol") == 5
    until(lambda: is_gone(guard))


def test_tracer_stands_still_while_one_is_stopped(running, tmp_path):
    """A tracer that is stopped itself, or whose terminal is, does not keep a process of its command stopped. Its trace is incomplete."""
    shutil.copy(LIB, tmp_path)
    t, out = running.tracer("still", "--", CASES + "/dlopen_late", tmp_path / "libcuda.so.1", "-", stdin=subprocess.PIPE), tmp_path / "still.out"
    until(lambda: "ready" in out.read_text())
    (kid,) = (p for p, name in descendants(t.pid).items() if name == "dlopen_late")
    t.p.send_signal(signal.SIGSTOP)
    t.p.stdin.write(b"\n")
    t.p.stdin.close()
    until(lambda: out.read_text().count("symbol") == 5, seconds=20)
    t.p.send_signal(signal.SIGCONT)
    assert t.ended() == 0 and is_gone(kid)
    assert [e["op"] for e in t.trace.lib if "tracer did not run" in json.dumps(e)] == ["detached"]


def has_end(path):
    return path.exists() and b'"type":"end"' in path.read_bytes()[-4000:]


class SlowReader:
    """A process that reads one line of a FIFO, and the rest after go()."""

    def __init__(self, running, folder):
        self.fifo, self.read, self.may = folder / "fifo", folder / "slow.jsonl", folder / "go"
        os.mkfifo(self.fifo)
        self.p = running.start(sys.executable, TESTS + "/helpers/slow_reader.py", self.fifo, self.read, self.may)

    def until_begun(self):
        until(lambda: self.read.exists() and self.read.stat().st_size)

    def go(self):
        self.may.touch()

    def trace(self):
        self.p.wait(120)
        return Trace(self.read)


def test_a_reader_that_stops(running, tmp_path):
    """The command, the trace and the other output must end as if the reader read, with little memory; the reader gets the rest, as far
    as it was kept, and the end line counts what is missing."""
    reader, whole, counts = SlowReader(running, tmp_path), tmp_path / "whole.jsonl", tmp_path / "counts"
    begin = time.monotonic()
    tracer = running.start(CUDATRACE, "-q", "-e", "cuMemFree_v2", "--buffer-size", "64M", "--jsonl", whole, "--jsonl", reader.fifo, "--",
                           "sh", "-c", '"$@"; sleep 0.3; exit 5', "sh", *MANY, 75000, 2,
                           env={**FAST, "FAKE_CUDA_COUNTS": str(counts)})
    until(lambda: has_end(whole), 15)
    assert time.monotonic() - begin < 12
    with open(f"/proc/{tracer.pid}/status", encoding="utf-8") as f:
        assert int(re.search(r"^VmHWM:\s*(\d+) kB", f.read(), re.M)[1]) < 250000
    t = Trace(whole)
    assert len(t.calls) + t.end["drops"]["calls"] == made_by(counts) == 150000
    assert t.end["reason"] == "command exited" and "write_error" not in t.end
    reader.go()
    assert tracer.wait(120) == 5
    t = reader.trace()
    assert len(t.ev) > 10000 and t.end["lines_lost"] == sum(t.end["events"].values()) - (len(t.ev) - 2) > 0
    assert t.end["write_error"] == "the reader was too slow"
    passes("golden/schema_check.py", reader.read)


def test_a_reader_that_goes_on(running, tmp_path):
    """If the reader continues while the trace does, the trace has lines about when and how much was lost."""
    reader = SlowReader(running, tmp_path)
    ran = cudatrace("-q", "-e", "cuMemFree_v2", "--jsonl", reader.fifo, "--", "sh", "-c", '"$@"; sleep 1; touch "$0"; sleep 1.5; "$@"',
                    reader.may, *MANY, 200000, 1, env=FAST, timeout=180)
    assert ran.status == 1, ran
    t = reader.trace()
    lost = [e for e in t.ev if e["type"] == "tracer" and e["op"] == "lost" and e["name"] != "ring"]
    assert lost and sum(e["events"] for e in lost) == t.end["lines_lost"] and lost[-1]["ts"] < t.calls[-1]["ts"]


def seconds_to_end(running, folder, driver, options):
    """How long SIGTERM takes to end the trace of a process whose reader has stopped."""
    folder.mkdir()
    reader, stuck = SlowReader(running, folder), running.caller().ready(driver)
    tracer = running.start(CUDATRACE, "-q", "-e", ALL, "--libcuda", driver, *options, "--jsonl", reader.fifo, "--jsonl", folder / "whole",
                           "-p", stuck.pid, stderr=folder / "err")
    reader.until_begun()
    assert stuck.tell("alloc 3000") == 3000
    if options:
        until_clean(stuck.pid, driver)
        until(lambda: has_end(folder / "whole"))
        assert tracer.poll() is None
    begin = time.monotonic()
    tracer.terminate()
    status, took = tracer.wait(60), time.monotonic() - begin
    assert not options or status == 1 and "lines were not written: its reader does not read" in (folder / "err").read_text()
    return took


@pytest.mark.parametrize("options,limit", [(["--duration", "0.7"], 1.5), ([], 4.5)])
def test_a_stuck_output(running, tmp_path, driver, options, limit):
    """The end of a trace must not wait for the reader, but two seconds. After --duration the tracer waits for it until a signal. A busy
    machine may take longer once."""
    took = []
    while not took or took[-1] >= limit:
        took.append(seconds_to_end(running, tmp_path / str(len(took)), driver, options))
        assert len(took) < 4, took


def test_a_fifo_without_a_reader(running, tmp_path, driver):
    """A signal must end a tracer that waits for a reader, and no probe may stay."""
    os.mkfifo(tmp_path / "fifo")
    stuck = running.caller().ready(driver)
    tracer = running.start(CUDATRACE, "-q", "-e", "launch", "--libcuda", driver, "--jsonl", tmp_path / "fifo", "-p", stuck.pid,
                           stderr=tmp_path / "err")
    until(lambda: re.search(r"^SigBlk:.*[1-9a-f]", open(f"/proc/{tracer.pid}/status", encoding="utf-8").read(), re.M))
    time.sleep(0.5)
    tracer.terminate()
    assert tracer.wait(60) == 1 and (tmp_path / "err").read_text().count("no process opened it for reading") == 1
    until_clean(stuck.pid, driver)


def life(made, abandoned=0, unfinished=0):
    """The trace has every call, none nested in one that was left."""
    return lambda t: (t.sym["cuDriverGetVersion"] == made and [t.end["abandoned"], t.end["unfinished"]] == [abandoned, unfinished]
                      and not [c for c in t.calls if c["symbol"] == "cuDriverGetVersion" and "parent" in c] and t.accounts())


def stacks(made, returns):
    """The trace has every call, none nested in one on another stack, and so many returns."""
    return lambda t: (t.sym["cuDriverGetVersion"] == made and t.end["orphans"] == 0 and t.accounts()
                      and not [c for c in t.calls if c.get("entry_only") and "parent" in c]
                      and len([c for c in t.calls if "result" in c and c["symbol"] == "cuDriverGetVersion"]) == returns)


def deep(t):
    """Calls deeper than the limit are dropped, without orphans."""
    return (t.end["drops"]["depth"], t.end["calls"], t.end["orphans"], t.end["abandoned"]) == (260, 160, 0, 0)


def exceptions(t):
    return t.sym == {"cuFakeCallback": 20, "cuDriverGetVersion": 20} and t.accounts()


def names(t):
    """Each change of a name is a record."""
    last = t.calls[-1]["comm"] == "last" or t.end["drops"]["tasks"] > 0
    return len(t.calls) == 2 and last and t.accounts(missed=["tasks"]) and len(t.ev) < 100


# elsewhere.c changes stacks during calls. Kernels without sessions kill it in most cases, and only --entry-only avoids that; C++'s
# unwinder cannot see through a return address that the kernel replaced (docs/RELIABILITY.md).
WORDS = {
    "STACKS": [f"{way}-{how}" for way in ("up", "down") for how in ("mapped", "small", "local")] + ["above", "local"],
    "CALLBACKS": ["cu*Callback,cuDriverGetVersion"], "ALL": [ALL], "SPACES": ["unshare", "-UrpfmC", "--mount-proc"],
}
RUNS = [  # name, mechanism, options and command, its output, its status, what holds for the trace. jump: more than CT_MAX_DEPTH
    ("1,000 threads", "", "-e ALL -- life.c threads 1000", 10000, 0, life(10000)),
    ("dlclose and dlopen", "", "-e ALL -- life.c reload 50", 50, 0, life(50)),
    ("vfork", "", "-e ALL -- life.c vfork 20", 20, 0, life(20)),
    ("cancelled threads", "", "-e ALL -- life.c cancel 5", 5, 0, life(5, unfinished=5)),
    ("siglongjmp", "", "-e ALL -- life.c jump 30", 30, 0, life(30, abandoned=30)),
    ("crash in a call", "", "-e ALL -- life.c crash", 1, 139, life(1, unfinished=1)),
    ("exec in a call", "", "-e ALL -- life.c exec", 1, 0, life(1, unfinished=1)),
    ("PID, mount, user and cgroup namespace", "", "-e ALL -- SPACES life.c procs 20", 60, 0, life(60)),
    ("handlers below", "session", "-e CALLBACKS -- elsewhere.c below", 100, 0, stacks(100, 100)),
    ("handlers below", "multi", "-e CALLBACKS -- elsewhere.c below", 100, 0, stacks(100, 100)),
    ("deeper than the limit", "session", "-e CALLBACKS -- elsewhere.c deep", 20, 0, deep),
    ("deeper than the limit", "multi", "-e CALLBACKS -- elsewhere.c deep", 20, 0, deep),
    ("with --entry-only", "multi", "-e CALLBACKS --entry-only cu*Callback -- elsewhere.c STACKS", 272, 0, bool),
    ("with --entry-only", "perf", "-e CALLBACKS --entry-only cu*Callback -- elsewhere.c STACKS", 272, 0, bool),
    ("coroutines, handlers above", "session", "-e CALLBACKS -- elsewhere.c STACKS", 272, 0, stacks(272, 142)),
    ("far below, left from there", "session", "-e CALLBACKS -- elsewhere.c far left", 60, 0, stacks(60, 20)),
    ("a coroutine given up in a call", "session", "-e CALLBACKS -- elsewhere.c gone", 51, 0, stacks(51, 1)),
    ("counted", "session", "-e CALLBACKS --count CALLBACKS -- elsewhere.c STACKS", 272, 0,
     lambda t: t.end["counted"]["cuDriverGetVersion"]["calls"] == 272 and t.accounts()),
    ("C++ exceptions, --entry-only", "", "-e ALL --entry-only ALL -- throw.cc 20", 20, 0, exceptions),
    ("a thread with 100,000 names", "", "-e cuDriverGetVersion -- rename.c 100000", None, 0, names),
]


@pytest.mark.parametrize("row", RUNS, ids=lambda r: ", ".join(filter(None, r[:2])))
def test_run(tmp_path, driver, row):
    """The program must run as without a tracer, and the trace must agree with its own counts."""
    _, mech, line, output, status, holds = row
    if mech:
        needs_mechanism(mech)
    if "SPACES" in line and Ran([*WORDS["SPACES"], "true"]).status:
        pytest.skip("unshare is not allowed here")
    if ".cc" in line and not shutil.which("g++"):
        pytest.skip("needs g++")
    words = [w for word in line.split() for w in ([target(word), driver] if word.endswith((".c", ".cc")) else WORDS.get(word, [word]))]
    t = traced(tmp_path / "t", "--buffer-size", "64M", *[f"--mechanism={mech}"] * bool(mech), "--libcuda", driver, *words,
               status=status, out="" if output is None else f"{output}\n", timeout=120)
    assert holds(t) and (t.ran.silent() or not mech), (t.end, t.ran)


@pytest.mark.parametrize("mech", ["multi", "perf"])
def test_ended_by_sigill(tmp_path, driver, mech):
    """Without --entry-only the kernel ends this program: that must be reported, once."""
    needs_mechanism(mech)
    t = traced(tmp_path / "t", f"--mechanism={mech}", "-e", *WORDS["CALLBACKS"], "--libcuda", driver, "--",
               "sh", "-c", '"$@"; "$@"; true', "sh", target("elsewhere.c"), driver, "up-mapped")
    assert len(re.findall("ended by SIGILL, which .* use --entry-only", t.ran.err)) == 1, t.ran
    assert [p.get("signal") for p in t.proc if p["op"] == "exit"].count(4) == 2


@pytest.mark.parametrize("count", [500, pytest.param(10000, marks=pytest.mark.long)])
def test_short_lived_processes(running, driver, count):
    """A tracer of the whole system must have every call of many processes, or count it as dropped."""
    life = target("life.c")
    t = running.tracer("sys", "-e", "cuDriverGetVersion", "--buffer-size", "64M", "--libcuda", driver)
    begin = time.monotonic()
    assert Ran([life, driver, "procs", str(count)], timeout=300).out == f"{3 * count}\n"
    took = time.monotonic() - begin
    t.stop(signal.SIGTERM)
    trace = t.trace
    end, drops = trace.end, trace.end["drops"]
    print(f"{count} processes: {took:.1f} s, calls {end['calls']}, drops {drops}")
    assert took < 60 and any(c.get("comm", "life") == "life" for c in trace.calls) and trace.accounts(drops=True)
    assert 3 * count <= end["entries"] + drops["threads"] and (any(drops.values()) or len(trace.calls) >= 3 * count)


def test_pid_reuse(running, tmp_path, driver):
    """A process that reuses a traced process's id must count as another."""
    if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
        pytest.skip("needs a kernel with CHECKPOINT_RESTORE")
    lines, of, life = tmp_path / "lines", tmp_path / "pid", target("life.c")
    lines.write_text("\n\n")
    t = running.tracer("reuse", "-e", ALL, "--libcuda", driver, "--", "sh", "-c", '"$1" "$2" wait <"$3" & echo $! >"$0"; wait; sleep 5',
                       of, life, driver, lines)
    until(lambda: of.exists() and of.read_text())
    pid = int(of.read_text())
    until(lambda: is_gone(pid))
    for _ in range(300):
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="utf-8") as f:
            f.write(str(pid - 1))
        with open(lines, "rb") as f:
            new = running.start(life, driver, "wait", stdin=f)
        new.wait(60)
        if new.pid == pid:
            break
    t.p.terminate()
    subprocess.run(["pkill", "-P", str(t.pid)], check=False)
    t.ended()
    if new.pid != pid:
        pytest.skip(f"{pid} was never free")
    assert len([c for c in t.trace.calls if c["pid"] == pid]) == 2 and t.trace.accounts()


OWN = ["unshare", "-pfm", "--mount-proc"]


def test_in_a_pid_namespace(running, tmp_path, driver):
    """Process ids must be those of the tracer's namespace, also for processes in a nested one; processes outside are not traced."""
    if Ran([*OWN, "true"]).status:
        pytest.skip("unshare is not allowed here")
    life = [target("life.c"), driver, "procs"]
    ran = Ran([*OWN, CUDATRACE, "-q", "-e", ALL, "--kernel", "--sched", "--libcuda", driver, "--jsonl", tmp_path / "t", "--",
               *OWN, *life, "20"])
    assert (ran.status, ran.out) == (0, "60\n"), ran
    t = Trace(tmp_path / "t")
    of, pids = {c["pid"] for c in t.calls}, {p["pid"] for p in t.proc}
    assert len(t.calls) == 60 and len(of) == 20 and of <= pids and max(pids) < 100 and t.accounts()

    all_of = running.tracer("all", "-e", ALL, "--libcuda", driver, before=OWN)
    (inside,) = [p for p, name in descendants(all_of.pid).items() if name == "cudatrace"]
    Ran([*life, "7"])
    assert Ran(["nsenter", "-t", str(inside), "-p", "-m", *life, "5"]).out == "15\n"
    os.kill(inside, signal.SIGTERM)
    all_of.ended()
    t = all_of.trace
    assert len(t.calls) == 15 and max(c["pid"] for c in t.calls) < 100 and t.accounts()


@pytest.fixture
def busy(running):
    return running.caller("busy").ready(LIB)


def test_two_tracers(running, busy):
    """Each must have the calls of its own time."""
    second = running.tracer("second", "-e", ALL, "--mechanism=multi", "-p", busy.pid)
    first = running.tracer("first", "-e", ALL, "-p", busy.pid)
    busy.tell("alloc 500")
    first.stop(signal.SIGTERM)
    busy.tell("alloc 100")
    second.stop(signal.SIGTERM)
    assert first.trace.sym == dict.fromkeys(BOTH, 500) and first.trace.accounts()
    assert second.trace.sym == dict.fromkeys(BOTH, 600) and second.trace.accounts()


# BEGIN's output comes before the other probes are attached: each probe reports its first call, and counting restarts at the last one.
# With only -p, bpftrace's programs run for each process in which another tracer has the probe.
BPFTRACE = """
uprobe:LIB:cuMemAlloc_v2 /pid == PID/ { @in[@all] = count(); if (!@all) { printf("in\\n") } }
uretprobe:LIB:cuMemAlloc_v2 /pid == PID/ { @out[@all] = count(); if (!@all) { printf("out\\n") } }
uprobe:LIB:cuDriverGetVersion /pid == PID/ { @all = 1; printf("all\\n") }"""


def test_bpftrace_on_the_same_functions(running, tmp_path, busy):
    """Both must have all calls."""
    if not shutil.which("bpftrace"):
        pytest.skip("needs bpftrace")
    out, program = tmp_path / "out", BPFTRACE.replace("LIB", LIB).replace("PID", str(busy.pid))
    other = running.start("bpftrace", "-p", busy.pid, "-e", program, stdout=out, stderr=subprocess.STDOUT)

    def sees(word, command):
        return busy.tell(command + " 1") and re.search(f"^{word}$", out.read_text(), re.M)
    try:
        for word, command in (("in", "alloc"), ("out", "alloc"), ("all", "version")):
            until(lambda: sees(word, command), 20)  # pylint: disable=cell-var-from-loop
    except AssertionError:
        pytest.skip(out.read_text()[-200:])
    t = running.tracer("first", "-e", ALL, "-p", busy.pid)
    busy.tell("alloc 500")
    t.stop(signal.SIGTERM)
    other.terminate()
    other.wait(120)
    assert t.trace.sym == dict.fromkeys(BOTH, 500) and t.trace.accounts()
    assert sorted(re.findall(r"@(?:in|out)\[1\]: \d+", out.read_text())) == ["@in[1]: 500", "@out[1]: 500"]


def test_a_ptraced_target(running, tmp_path, busy):
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    other = running.start("strace", "-f", "-o", "/dev/null", "-p", busy.pid, stderr=tmp_path / "err")
    until(lambda: "attached" in (tmp_path / "err").read_text())
    t = running.tracer("first", "-e", ALL, "-p", busy.pid)
    assert (busy.tell("alloc 300"), busy.tell("threads 3 50")) == (300, 150)
    t.stop(signal.SIGTERM)
    other.terminate()
    other.wait(60)
    assert t.trace.sym["cuMemAlloc_v2"] == 450 and t.trace.accounts()


def test_a_stopped_target(tmp_path, busy):
    """The trace must begin and end, and the target must be stopped all the time, and run on afterwards."""
    os.kill(busy.pid, signal.SIGSTOP)
    assert cudatrace("-q", "-e", ALL, "--duration", 0.3, "--jsonl", tmp_path / "t", "-p", busy.pid, timeout=20).status == 0
    assert state(busy.pid) == "T"
    os.kill(busy.pid, signal.SIGCONT)
    assert busy.tell("alloc 10") == 10


def test_cut_at_each_byte(tmp_path, driver):
    """A file cut anywhere may lose only what follows the cut, and the cut line."""
    traced(tmp_path / "t", "-e", ALL, "--libcuda", driver, "--chrome", tmp_path / "c", "--", target("life.c"), driver, "threads", 2)
    passes("helpers/cut_anywhere.py", tmp_path / "t", tmp_path / "c")


@pytest.mark.parametrize("size", ["64K", "1G"])
def test_rings(tmp_path, size):
    """Written and dropped calls must add up to those that the driver counted."""
    counts = tmp_path / "counts"
    ran = cudatrace("-q", "-e", "cuMemFree_v2", "--buffer-size", size, "--jsonl", tmp_path / "t", "--", *MANY, 50000, 2,
                    env={**FAST, "FAKE_CUDA_COUNTS": str(counts)})
    if ran.status and size == "1G":
        pytest.skip(ran.err.split("\n")[0])
    t = Trace(tmp_path / "t")
    assert t.end["calls"] + t.end["drops"]["calls"] == made_by(counts) == 100000 and t.accounts(drops=True)


def test_a_tracer_that_stands_still(tmp_path):
    """The trace must have when and how much it lost."""
    t = traced(tmp_path / "t", "-e", "cuMemFree_v2", "--buffer-size", "64K", "--",
               "sh", "-c", '"$@"; kill -STOP $PPID; "$@"; kill -CONT $PPID; sleep 1; "$@"', "sh", *MANY, 20000, 1, env=FAST)
    lost = [e for e in t.ev if e.get("op") == "lost"]
    assert lost and sum(e["events"] for e in lost) == sum(t.end["drops"].values()) > 10000 and lost[0]["ts"] < t.calls[-1]["ts"]
    assert t.end["calls"] + t.end["drops"]["calls"] == 60000
    passes("golden/schema_check.py", tmp_path / "t")


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.long)])
def test_tracers_killed(running, tmp_path, driver, count):
    """Their files must be valid, nothing may stay in the kernel or in the target's code, and every result of the target must be right."""
    load, said = running.start(target("load.c"), driver, 2, 50, stdout=tmp_path / "load.out"), tmp_path / "load.out"
    until(lambda: "ready" in said.read_text())
    ran = Ran([TESTS + "/faults/kills.py", os.environ.get("FAULTS_KILLS", str(count)), tmp_path, str(load.pid), CUDATRACE, "-q", "-e", ALL,
               "--libcuda", driver], timeout=600)
    print(ran.out)
    assert ran.status == 0, (ran.out, ran.err)
    until_clean(load.pid, driver)
    load.terminate()
    assert load.wait(60) == 0 and len(re.findall(" bad 0$", said.read_text(), re.M)) == 1
