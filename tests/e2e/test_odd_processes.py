# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 40
"""Unusual but real processes, named with -p: without a main thread, by the id of a thread, in other forms of lists, and those
that cannot be traced, each with a one-line reason."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from helpers.daemon import Daemon, for_all  # noqa: F401, a fixture
from helpers.jsonl import Trace
from helpers.live import Caller, compiled, state
from helpers.run import CUDATRACE, FAKE, TESTS, Ran, cudatrace, needs_tracing, until

LIB = FAKE + "/libcuda.so.1"


@pytest.fixture(autouse=True, scope="module")
def can_trace():
    needs_tracing()


def headless(running, *before, name="caller"):
    """A caller whose main thread is a zombie."""
    c = running.caller(name)
    for what in before:
        c.tell(what)
    assert c.tell("leave") == 0
    until(lambda: state(c.pid) == "Z")
    return c


READY = [f"open {LIB}", "init"]


@pytest.mark.parametrize("before,after,option", [(READY, [], []), ([], READY, ["--stop-on-load"]), ([f"memfd {LIB}", "init"], [], [])], ids=["mapped", "later", "memfd"])
def test_main_thread_has_ended(running, before, after, option):
    """With -p, the library must be found in the process, and the trace must end when the process does."""
    c = headless(running, *before)
    t = running.tracer("t", "-e", "memory", *option, "-p", c.pid)
    for what in after:
        c.tell(what)
    assert c.tell("alloc 25") == 25 and c.tell("threads 2 5") == 10
    assert c.end() == 0 and t.ended() == 0 and t.err == "", t.err
    trace = t.trace
    assert trace.accounts() and trace.sym["cuMemAlloc_v2"] == 35 and trace.end["reason"] == "traced processes exited"
    assert {e["pid"] for e in trace.calls} == {c.pid}


@pytest.mark.parametrize("how,code", [("exit 7", 7), ("", 0)], ids=["exit", "last thread returns"])
def test_exit_line(running, how, code):
    """It has the process's name and exit code, also when another thread is the last to end."""
    c = headless(running, *READY)
    t = running.tracer("t", "-e", "memory", "-p", c.pid)
    if how:
        c.p.stdin.write(f"{how}\n")
        c.p.stdin.flush()
    assert c.end() == code and t.ended() == 0
    line, = (e for e in t.trace.ev if e.get("type") == "process" and e["op"] == "exit")
    assert (line["pid"], line["tid"], line["comm"], line["exit_code"]) == (c.pid, c.pid, "caller", code)


def test_debug_messages(running, tmp_path):
    """With -v, the reader of other processes' files must still work: its sandbox only reports what it refuses."""
    c = running.caller().ready(LIB)
    ran = cudatrace("-v", "-e", "memory", "--duration", 0.2, "--jsonl", tmp_path / "v.jsonl", "-p", c.pid, env={"CUDATRACE_SANDBOX": ""})
    assert ran.status == 0 and "attached" in ran.err, ran


def test_main_thread_ends_while_traced(running):
    """The process must not count as ended."""
    c = running.caller().ready(LIB)
    t = running.tracer("t", "-e", "memory", "-p", c.pid)
    c.tell("leave")
    until(lambda: state(c.pid) == "Z")
    for _ in range(15):  # longer than the interval between the tracer's checks for ended processes
        assert c.tell("alloc 2") == 2
        c.tell("sleep 100000")
        c.tell("join")
    assert c.end() == 0 and t.ended() == 0
    assert t.trace.accounts() and t.trace.sym["cuMemAlloc_v2"] == 30


def test_daemon_keeps_it(for_all):  # noqa: F811
    """Its row must stay for two checks for ended processes (each 10 s), and go when the last thread has ended."""
    lib = shutil.copy(LIB, for_all / "libcuda.so.1")
    d = Daemon(for_all, trace="inject: false", level="metrics", own=True, libcuda=str(lib))
    c = Caller(compiled(for_all / "caller", TESTS + "/caller.c"), str(for_all / "caller"))
    assert c.tell(f"open {lib}") == 1
    until(lambda: d.process(c.pid))
    assert c.tell("init") == 0 and c.tell("alloc 3") == 3 and c.tell("leave") == 0
    end = time.monotonic() + 21
    while time.monotonic() < end:
        assert c.tell("alloc 1") == 1 and d.process(c.pid)
        time.sleep(1)
    assert c.end() == 0
    until(lambda: not d.process(c.pid), 30)
    d.stop()


@pytest.mark.parametrize("extra", [[], ["--kernel"], ["--stack=memory"]], ids=["plain", "kernel", "stack"])
def test_id_of_a_thread(running, extra):
    """The whole process must be traced, with one line about it; if named twice, it is traced once."""
    c = running.caller().ready(LIB)
    c.tell("sleep 300000000")
    tid = next(int(t) for t in os.listdir(f"/proc/{c.pid}/task") if int(t) != c.pid)
    path = running.folder + "/t.jsonl"
    with open(running.folder + "/said", "w+", encoding="utf-8") as said:
        p = running.start(CUDATRACE, "--no-summary", "-e", "memory", *extra, "--jsonl", path, "-p", f"{tid},{c.pid}", stderr=said)
        until(lambda: p.poll() is not None or os.path.exists(path) and os.path.getsize(path))
        assert c.tell("alloc 7") == 7
        p.send_signal(signal.SIGINT)
        assert p.wait(60) == 0
        said.seek(0)
        text = said.read()
    assert text.count(f"{tid} is a thread of process {c.pid}: tracing the whole process\n") == 1, text
    with open(path, encoding="utf-8") as f:
        lines = f.read()
    assert lines.count('"cuMemAlloc_v2"') == 7 and f'"pids":[{c.pid}]' in lines


@pytest.mark.parametrize("text", ["{0} {1}", "{0}\n{1}\n", " {0},\t{1} ", "{1} {0},{0}"])
def test_lists(running, text):
    """Lists as pidof and pgrep write them must be accepted."""
    two = [running.caller().ready(LIB) for _ in range(2)]
    t = running.tracer("t", "-e", "memory", "-p", text.format(*(c.pid for c in two)))
    for c in two:
        assert c.tell("alloc 3") == 3 and c.end() == 0
    assert t.ended() == 0 and t.trace.sym["cuMemAlloc_v2"] == 6, t.err


def zombie(running):
    p = running.start("true")
    until(lambda: state(p.pid) == "Z")
    return p.pid


REFUSED = {
    "a kernel's": (lambda running: 2, "process {} is a kernel thread"),
    "a zombie": (zombie, r"process {} has ended and waits for its parent \(a zombie\)"),
    "none": (lambda running: 4194303, "there is no process {}: it has ended"),
    "another's number": (lambda running: "$$", "process {} is this cudatrace: name the process that calls CUDA"),
    "not numbers": (lambda running: "12 x", "--pid 'x': not a process id"),
    "an empty list": (lambda running: "", "--pid: a PID is missing"),
    "blanks": (lambda running: " \n", "--pid: a PID is missing"),
}


@pytest.mark.parametrize("who", REFUSED)
def test_refused(running, who):
    """The error must come in one line, at once."""
    which, said = REFUSED[who]
    pid = which(running)
    if pid == 2 and not os.path.exists("/proc/2/comm"):
        pytest.skip("no kernel threads in this PID namespace")
    ran = Ran(["sh", "-c", f'exec "$0" --jsonl /dev/null -p "{pid}"', CUDATRACE])
    assert ran.status in (1, 2) and ran.err.count("\n") == 1, ran
    assert re.match("cudatrace: " + said.format(r"\d+" if pid == "$$" else pid), ran.err), ran


def test_two_words():
    ran = cudatrace("-p", "41", "42")
    assert ran.status == 2 and "-p: several process ids need commas between them: -p 41,42" in ran.err, ran


def test_not_let_in(running):
    """The error must name the missing capability, and not advise sudo to root."""
    target = running.start("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "300")
    until(lambda: os.stat(f"/proc/{target.pid}").st_uid == 65534)
    ran = Ran(["setpriv", "--bounding-set=-sys_ptrace", CUDATRACE, "-p", str(target.pid), "--jsonl", "/dev/null"])
    assert ran.status == 1 and "CAP_SYS_PTRACE" in ran.err and "--cap-add=SYS_PTRACE" in ran.err and "run it as root" not in ran.err, ran


@pytest.mark.parametrize("probe", ["uprobe", "inject"])
def test_hooked_bystander(tmp_path, probe):
    """A process that has changed the code of a function must not crash, also if it is not traced: the function gets no probe."""
    library = tmp_path / "libcuda.so.1"
    shutil.copy(LIB, library)
    program = compiled(tmp_path / "hooked", TESTS + "/hooked.c", f"-L{FAKE}", "-l:libcuda.so.1", "-Wl,-z,now")
    env = {"LD_LIBRARY_PATH": str(library.parent)}
    flag = tmp_path / "flag"
    with subprocess.Popen([program, flag], env={**os.environ, **env}) as hooked:
        until(flag.exists)
        ran = Ran([CUDATRACE, f"--probe={probe}", "--no-summary", "--jsonl", tmp_path / "t", "--", FAKE + "/sample"], env=env)
        time.sleep(0.1)
        flag.unlink()
        assert hooked.wait(20) == 0, ran
    assert ran.status == 0, ran
    t = Trace(tmp_path / "t")
    assert t.sym["cuCtxSynchronize"] == (0 if probe == "uprobe" else 1) and t.sym["cuLaunchKernel"] > 10, ran
    complete = json.loads(Ran([CUDATRACE, "report", "--format=json", tmp_path / "t"]).out)["complete"]
    assert complete is (probe == "inject"), ran
    if probe == "uprobe":
        assert f"process {hooked.pid} has changed the code of cuCtxSynchronize" in ran.err
        # Probes that never come must not be announced.
        notes = [x["note"] for x in t.lib if x["op"] == "detached"]
        assert notes == [f"process {hooked.pid} has changed code or runs under valgrind: some functions are not traced"], notes


VALGRIND = shutil.which("valgrind")


@pytest.mark.skipif(not VALGRIND, reason="no valgrind")
def test_valgrind_is_refused(tmp_path):
    """valgrind reads breakpoints as code: its program would end by SIGTRAP."""
    for probe in "uprobe", "inject", "auto":
        ran = Ran([CUDATRACE, f"--probe={probe}", "--jsonl", tmp_path / "t", "--", "valgrind", "true"])
        assert ran.status == 2 and ran.err.count("\n") == 1 and "valgrind reads probes as code" in ran.err, ran


@pytest.mark.skipif(not VALGRIND, reason="no valgrind")
def test_valgrind_bystander(tmp_path):
    """A program under valgrind must not end, also if it is not traced: no function of its library gets a probe."""
    library = tmp_path / "libcuda.so.1"
    shutil.copy(LIB, library)
    program = compiled(tmp_path / "caller", TESTS + "/caller.c")
    with subprocess.Popen([VALGRIND, "-q", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        print(f"open {library}\ninit\nalloc 2", file=p.stdin, flush=True)
        assert [p.stdout.readline().split() for _ in range(3)][-1] == ["2"]
        ran = Ran([CUDATRACE, "--probe=uprobe", "--no-summary", "--jsonl", tmp_path / "t", "--", FAKE + "/sample", "--tokens", "1"],
                  env={"LD_LIBRARY_PATH": str(tmp_path)}, timeout=120)
        print("alloc 3\nversion 1", file=p.stdin, flush=True)
        assert p.stdout.readline().split() == ["3"] and p.stdout.readline(), ran
        p.kill()  # its end takes a minute
    assert ran.status == 0 and f"process {p.pid}, which has changed the code of" in ran.err and "missing" in ran.err, ran


@pytest.fixture
def bash(tmp_path):
    """Programs in a folder of valgrind's name, which map the library: a static one, as valgrind's are, and bash; the function that starts one,
    and the library."""
    (tmp_path / "valgrind").mkdir()
    library, begun = tmp_path / "libcuda.so.1", []
    shutil.copy(LIB, library)
    shutil.copy(shutil.which("bash"), tmp_path / "valgrind/bash")
    compiled(tmp_path / "valgrind/tool", "-static", TESTS + "/keeper.c")

    def start(name, script):
        p = subprocess.Popen([shutil.which(name) or tmp_path / name, "-c", script], env={**os.environ, "LD_PRELOAD": str(library)}, stdin=subprocess.PIPE)
        begun.append(p)
        until(lambda: str(library) in open(f"/proc/{p.pid}/maps", encoding="utf-8").read())
        return p
    yield start, library
    for p in begun:
        p.kill()
        p.wait()


def test_valgrind_has_ended(tmp_path, bash):
    """What a process kept from being probed is traced when it has ended. A process that only maps or executes a file of such a name keeps
    nothing."""
    start, library = bash
    (tmp_path / "valgrind/file").write_bytes(bytes(4096))
    mapper = start("python3", f"import mmap; f = open('{tmp_path}/valgrind/file'); m = mmap.mmap(f.fileno(), 4096, prot=1); input()")
    until(lambda: "valgrind/file" in open(f"/proc/{mapper.pid}/maps", encoding="utf-8").read())
    start("valgrind/bash", "read x")
    for calls in 2, 1:
        keeper = start("valgrind/tool", "") if calls == 1 else None
        sample = f"{FAKE}/sample --tokens 1 --quiet"
        script = f"{sample}; kill -9 {keeper.pid}; sleep 2.5; {sample}" if keeper else f"{sample}; {sample}"
        ran = Ran([CUDATRACE, "--probe=uprobe", "--no-summary", "--jsonl", tmp_path / "t", "--", "sh", "-c", script], env={"LD_LIBRARY_PATH": str(tmp_path)})
        t = Trace(tmp_path / "t")
        assert t.sym["cuInit"] == calls, (ran, t.sym)
    assert f"process {keeper.pid}, which has changed the code of" in ran.err and "is traced completely now" in ran.err, ran
    assert [x["note"] for x in t.lib if x["op"] == "attached"][-1:] == ["late: a process had changed its code"], t.lib


def test_valgrind_reload(for_all, bash):  # noqa: F811
    """The daemon looks at what it has left out when it is reloaded."""
    start, library = bash
    keeper = start("valgrind/tool", "")
    d = Daemon(for_all, level="metrics", libcuda=library)
    run = [FAKE + "/sample", "--tokens", "1", "--quiet"]
    env = {"LD_LIBRARY_PATH": str(library.parent), "FAKE_DELAY_US": "cuInit:200000"}
    assert Ran(run, env=env).status == 0
    keeper.stdin.write(b"\n")
    keeper.stdin.flush()
    until(lambda: os.readlink(f"/proc/{keeper.pid}/exe").endswith("sleep"))
    d.ctl("reload")
    until(lambda: "is traced completely now" in d.log.read_text())
    assert Ran(run, env=env).status == 0
    until(lambda: d.calls("sample").get("cuInit") == 1)
    d.stop()
