# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 400
# takes: 90
"""Signals, and the end of a command: which process receives which signal, how often, and what the tracer waits for."""
import collections
import ctypes
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
from helpers.daemon import NOBODY, Daemon
from helpers.jsonl import Trace
from helpers.live import compiled, state
from helpers.run import CUDATRACE, FAKE, O, TESTS, Ran, needs_tracing, until

LIB, TRACER = "libcuda.so.1", CUDATRACE
# Signals that are not sent here; all others are sent one after the other.
LEFT = {signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGSYS}
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}
SENT = [*sorted(set(range(1, 65)) - LEFT - FAULTS - {32, 33, signal.SIGTERM}), *sorted(FAULTS)]
PRODUCERS = ["uprobe", "inject", "user"]
UNSHARE = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"]
libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(autouse=True, scope="module")
def can_trace():
    needs_tracing()
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")


@pytest.fixture(scope="module")
def program():
    """The program, the tracer and a driver in a folder that every user may read."""
    global LIB, TRACER
    place = os.environ["TMP"] + "/place"
    os.chmod(os.environ["TMP"], 0o755)
    os.mkdir(place, 0o755)
    LIB, TRACER = [shutil.copy(path, place) for path in (FAKE + "/libcuda.so.1", CUDATRACE)]
    path = compiled(place + "/takes_signals", TESTS + "/takes_signals.c")
    for each in (LIB, TRACER, path):
        os.chmod(each, 0o755)
    return path


def children(pid):
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def tree(pid):
    return [pid, *(p for child in children(pid) for p in tree(child))]


def default_signals():
    """Restores signals that the tests' parent may ignore."""
    for sig in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(sig, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


@pytest.fixture(autouse=True)
def cleaned():
    """Kills processes that a failed test left"""
    Command.all.clear()
    yield
    for p in (p for c in Command.all if c.p.poll() is None for p in reversed(tree(c.p.pid))):
        os.kill(p, signal.SIGKILL)


class Command:
    """A trace of tests/takes_signals.c, or of another command. pid is the tracer's, or with INIT the one of process 1."""
    all = []

    def __init__(self, program, *options, producer="uprobe", init=False, seconds=0, command=None, ignore=(), more=(), quiet=True, run=(), **how):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ["TMP"]))
        self.log, self.path, self.err = self.folder / "log", self.folder / "a.jsonl", self.folder / "err"
        self.folder.chmod(0o777)
        self.init, self.program = init, program

        def before():
            default_signals()
            for sig in ignore:
                signal.signal(sig, signal.SIG_IGN)
        args = [*(UNSHARE if init else []), *(NOBODY if producer == "user" else []), TRACER, *run, *(["-q"] if quiet else []), "--jsonl", self.path,
                *(["--probe=inject"] if producer != "uprobe" else []), *options, "--", *(command or [program, LIB, self.log, seconds, *more])]
        with open(self.err, "wb") as err:
            self.p = subprocess.Popen([*map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **{"stderr": err, "preexec_fn": before, **how})
        self.all.append(self)
        if not command:
            until(lambda: self.has("ready") or self.p.poll() is not None)
            assert self.p.poll() is None, self.err.read_text()
        self.pid = self.p.pid
        if init:
            until(lambda: children(self.p.pid))
            self.pid = children(self.p.pid)[0]

    @property
    def lines(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def has(self, line):
        return line in self.lines

    def got(self):
        """The number of times that each signal was received."""
        return collections.Counter(int(line.split()[0]) for line in self.lines if line[0].isdigit())

    def command(self):
        """Its process id"""
        return next(p for p in tree(self.p.pid) if comm(p) == os.path.basename(self.program))

    def send(self, sig):
        """Sends a signal to the tracer alone, and waits until the command has it."""
        before = self.got()[sig]
        os.kill(self.pid, sig)
        until(lambda: self.got()[sig] > before)

    def status(self):
        rc = self.p.wait(100)
        return rc if rc >= 0 else 128 - rc

    def is_whole(self, reason):
        """Every call of the command must be in the trace, and the end line."""
        t = Trace(self.path)
        calls = int(self.lines[-1].split()[1])
        assert t.end["reason"] == reason and t.accounts() and t.sym["cuInit"] + t.sym["cuCtxSynchronize"] == calls
        return True

    def has_ended(self):
        """The trace has ended, and its file is closed."""
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        return bool(lines) and b'"type":"end"' in lines[-1]

    def end(self, status=5):
        os.kill(self.pid, signal.SIGTERM)
        assert self.status() == status, self.err.read_text()


@pytest.mark.parametrize("init", [False, True], ids=["", "init"])
@pytest.mark.parametrize("producer", PRODUCERS)
def test_each(program, producer, init):
    """Each signal must be received once. The last one makes the command write a checkpoint, which takes longer than the tracer ever
    waited."""
    c = Command(program, producer=producer, init=init, seconds=3)
    for sig in SENT:
        c.send(sig)
    c.send(signal.SIGTERM)
    assert not c.has_ended()
    assert c.status() == 5 and c.lines[-1].startswith("checkpoint")
    assert c.got() == {sig: 1 for sig in [*SENT, signal.SIGTERM]}
    c.is_whole("hangup")


@pytest.mark.parametrize("init", [False, True], ids=["", "init"])
def test_value(program, init):
    """sigqueue(): the value must be kept, and each of several signals must count."""
    c = Command(program, init=init)
    for value in (7, 8, 9):
        assert not libc.sigqueue(c.pid, signal.SIGRTMIN + 3, ctypes.c_void_p(value))
    until(lambda: sum(c.got().values()) == 3)
    assert [line.split() for line in c.lines if line[0].isdigit()] == [[str(signal.SIGRTMIN + 3), str(value)] for value in (7, 8, 9)]
    c.end()


@pytest.mark.parametrize("status,how", [(137, "KILL"), (143, "TERM"), (131, "QUIT"), (138, "USR1"), (142, "ALRM"), (7, "exit")])
@pytest.mark.parametrize("init", [False, True], ids=["", "init"])
def test_status(program, status, how, init):
    """A command without handlers must end by the signal sent to the tracer."""
    c = Command(program, init=init, command=["sh", "-c", 'ulimit -c 0; echo ready >"$0"; exec sleep 60', "log"] if how != "exit" else ["sh", "-c", "exit 7"],
                cwd=tempfile.mkdtemp(dir=os.environ["TMP"]))
    if how == "exit":
        assert c.status() == 7
        return
    # It is found by its name.
    until(lambda: any(comm(p) == "sleep" for p in tree(c.p.pid)))
    if how == "KILL":
        os.kill(next(p for p in tree(c.p.pid) if comm(p) == "sleep"), signal.SIGKILL)
    else:
        os.kill(c.pid, getattr(signal, "SIG" + how))
    assert c.status() == status and c.has_ended()


# Ways to send a signal; the command must get it once in each.
def to_group(c, sig):
    os.killpg(os.getpgid(c.pid), sig)


def to_each(c, sig):
    """Like Slurm, or systemd when it stops a service."""
    for pid in tree(c.pid):
        os.kill(pid, sig)


def to_name(c, sig):
    """pkill cudatrace, for this trace only"""
    for pid in tree(c.pid):
        if "cudatrace" in comm(pid):
            os.kill(pid, sig)


def command_line(pid):
    """Its words; an empty one if the process has ended meanwhile, as helpers of the tracer do."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return [""]


def to_lines_with(c, sig, word):
    for pid in tree(c.pid):
        if word in command_line(pid):
            os.kill(pid, sig)


def to_tracers_line(c, sig):
    """pkill -f, with a word from the tracer's command line"""
    to_lines_with(c, sig, "--jsonl")


def to_commands_line(c, sig):
    """pkill -f, with a word from both command lines"""
    to_lines_with(c, sig, c.program)


def as_timeout(c, sig):
    """timeout(1): to the process, then to its group"""
    os.kill(c.pid, sig)
    to_group(c, sig)


def send_in_each_way(c):
    """Returns the signals that were sent."""
    sent = {}
    for way in (to_group, to_each, to_name, to_tracers_line, to_commands_line, as_timeout):
        for sig in (signal.SIGUSR1, signal.SIGINT if way == to_group else signal.SIGPROF, signal.SIGIO, signal.SIGCHLD, signal.SIGRTMIN + 1):
            if way == as_timeout and sig > 32:
                continue
            sent[sig] = sent.get(sig, 0) + 1
            way(c, sig)
            until(lambda: c.got()[sig] >= sent[sig])
            # A duplicate would arrive at once.
            c.send(signal.SIGWINCH)
            assert c.got()[sig] == sent[sig], (way, sig)
    return sent


@pytest.mark.parametrize("producer", PRODUCERS)
def test_ways(program, producer):
    c = Command(program, producer=producer, seconds=0, start_new_session=True)
    # pidof finds only the command.
    assert [p for p in tree(c.p.pid) if command_line(p)[0] == program] == [c.command()]
    send_in_each_way(c)
    os.kill(c.command(), signal.SIGTERM)
    assert c.status() == 5
    c.is_whole("interrupted")


@pytest.fixture(name="run")
def arguments_of_run(tmp_path):
    """cudatrace run: one process more passes signals on."""
    budget = tmp_path / "budget.yaml"
    budget.write_text("limits: [{errors: 1000000}]", encoding="utf-8")
    return ["run", "--runs=2", "--budget", budget]


def test_run_each(program, run):
    """The runner alone receives each signal."""
    c = Command(program, run=run, producer="inject")
    for sig in SENT:
        c.send(sig)
    c.send(signal.SIGTERM)
    assert c.status() == 5 and c.got() == {sig: 1 for sig in [*SENT, signal.SIGTERM]}


def test_run_ways(program, run):
    c = Command(program, run=run, producer="inject", start_new_session=True)
    send_in_each_way(c)
    c.end()


def test_run_ignored(program, run, tmp_path):
    """A signal that the parent ignored ends no run. A command that handles it receives it."""
    c = Command(program, run=run, producer="inject", ignore=[signal.SIGINT, signal.SIGHUP], quiet=False,
                command=["sh", "-c", "echo >$0; sleep 1", tmp_path / "ready"])
    until((tmp_path / "ready").exists)
    for sig in (signal.SIGINT, signal.SIGHUP):
        os.kill(c.pid, sig)
    assert c.status() == 0 and "run 2 of 2" in c.err.read_text()
    c = Command(program, run=run, producer="inject", ignore=[signal.SIGINT], more=["all"])
    c.send(signal.SIGINT)
    c.end()


def test_run_stops(program, run):
    """SIGTSTP to the runner alone stops the runner, the tracer and the command."""
    c = Command(program, run=run, producer="inject", process_group=0)
    parts = [c.pid, c.command(), next(p for p in children(c.pid) if c.command() in tree(p))]
    os.kill(c.pid, signal.SIGTSTP)
    until(lambda: all(state(p) == "T" for p in parts))
    os.killpg(c.pid, signal.SIGCONT)
    until(lambda: all(state(p) != "T" for p in parts))
    c.end()


def test_command_in_another_group(program):
    """Signals to the tracer's group must be passed on to a command in another group."""
    c = Command(program, command=["setsid", program, LIB, "LOG", "0"], start_new_session=True, cwd=os.environ["TMP"])
    c.log = pathlib.Path(os.environ["TMP"]) / "LOG"
    until(lambda: c.has("ready"))
    os.killpg(c.pid, signal.SIGUSR2)
    until(lambda: c.got()[signal.SIGUSR2])
    os.killpg(c.pid, signal.SIGTERM)
    assert c.status() == 5 and c.got() == {signal.SIGUSR2: 1, signal.SIGTERM: 1}


def test_command_signals_its_parent(program):
    """The command's parent is the tracer: the signal must not come back."""
    c = Command(program, command=["sh", "-c", "kill -USR1 $PPID; kill -INT $PPID; kill -TERM $PPID; sleep 0.3; exit 6"])
    assert c.status() == 6 and Trace(c.path).end["reason"] == "command exited"


@pytest.mark.parametrize("producer", PRODUCERS)
def test_second_interrupt(program, producer):
    """The second Ctrl-C must end the trace. The command continues, still gets signals, and the tracer returns its status."""
    c = Command(program, producer=producer, quiet=False)
    c.send(signal.SIGINT)
    until(lambda: "Ctrl-C again ends the trace" in c.err.read_text())
    assert not c.has_ended()
    c.send(signal.SIGINT)
    until(c.has_ended)
    assert c.p.poll() is None and Trace(c.path).end["reason"] == "interrupted" and Trace(c.path).accounts()
    until(lambda: "the trace has ended; waiting for" in c.err.read_text())
    for sig in (signal.SIGUSR1, signal.SIGHUP, signal.SIGRTMAX):
        c.send(sig)
    c.end()
    assert c.got()[signal.SIGINT] == 2


def test_third_interrupt(program):
    """The third Ctrl-C must end the tracer alone."""
    c = Command(program)
    for n in range(3):
        os.kill(c.pid, signal.SIGINT)
        if n < 2:
            until(lambda: c.got()[signal.SIGINT] == n + 1)
            until(lambda: n < 1 or c.has_ended())
    command = c.command() if c.p.poll() is None else None
    assert c.status() == 130
    for pid in [command] if command else []:
        os.kill(pid, signal.SIGTERM)
    until(lambda: c.lines[-1].startswith("checkpoint") or command is None)


@pytest.mark.parametrize("init", [False, True], ids=["", "init"])
@pytest.mark.parametrize("producer", PRODUCERS)
def test_after_the_trace(program, producer, init):
    limit = ["--max-events", "3"] if init else ["--duration", "0.1"]
    c = Command(program, *limit, producer=producer, init=init)
    until(c.has_ended)
    for sig in (signal.SIGUSR1, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGRTMIN):
        c.send(sig)
    c.end()
    assert set(c.got().values()) == {1} and Trace(c.path).end["reason"] == limit[0][2:]


@pytest.mark.parametrize("takes", ["ignores", "takes"])
@pytest.mark.parametrize("ignored", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1])
def test_ignored(program, ignored, takes):
    """Under nohup or in a background job, the tracer must ignore the signal. A command that handles it must get it."""
    c = Command(program, ignore=[ignored], more=["all"] if takes == "takes" else [])
    for _ in range(3):
        os.kill(c.pid, ignored)
        if takes == "takes":
            until(lambda: c.got()[ignored])
    other = signal.SIGPROF
    c.send(other)
    assert not c.has_ended() and c.p.poll() is None
    os.kill(c.command(), signal.SIGTERM)
    assert c.status() == 5
    c.is_whole("command exited")
    assert c.got()[ignored] > 0 if takes == "takes" else set(c.got()) == {other, signal.SIGTERM}


def test_children_ignored(program):
    """If the tracer's parent ignores SIGCHLD, the command's status must still be known."""
    c = Command(program, ignore=[signal.SIGCHLD])
    c.end()


def test_without_a_command(program, running):
    """With -p, SIGTERM must end the trace at once, and other signals must have no effect."""
    target = running.start(program, LIB, "/dev/null", "0")
    for sig, status in ((signal.SIGTERM, 0), (signal.SIGQUIT, 0)):
        t = running.tracer("p", "-p", target.pid, preexec_fn=default_signals)
        for other in set(SENT) - FAULTS - {signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}:
            os.kill(t.pid, other)
        before = os.path.getsize(t.path)
        until(lambda: os.path.getsize(t.path) > before)
        assert t.stop(sig) == status and t.trace.accounts() and target.poll() is None


def test_helpers(program):
    """The helper processes must survive signals sent to all processes of a service."""
    c = Command(program, "--max-file", "1M", "--gpu-stats")
    helpers = {p for p in tree(c.pid) if comm(p).startswith("cudatrace-")}
    # cudatrace-links inspects some processes in a child, which ends.
    time.sleep(0.5)
    helpers &= set(tree(c.pid))
    assert len({comm(p) for p in helpers}) >= 4
    for sig in set(SENT) | {signal.SIGTERM}:
        for pid in helpers:
            # SIGALRM ends a reader that takes too long.
            if sig != signal.SIGALRM and sig not in FAULTS:
                os.kill(pid, sig)
    c.send(signal.SIGUSR2)
    assert [p for p in helpers if state(p) in "XZ"] == [] and c.got() == {signal.SIGUSR2: 1}
    c.end()
    c.is_whole("terminated")


def test_daemon(tmp_path):
    """SIGTERM, SIGINT and SIGQUIT must end the daemon, SIGHUP must reload the configuration; others have no effect."""
    for end in (signal.SIGTERM, signal.SIGQUIT):
        d = Daemon(tmp_path)
        for sig in set(SENT) - FAULTS - {signal.SIGINT, signal.SIGQUIT, signal.SIGABRT}:
            os.kill(d.p.pid, sig)
        assert d.ctl("status") and d.p.poll() is None
        d.p.send_signal(end)
        assert d.p.wait(60) == 0, d.log.read_text()


ORPHANS = 'for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 & ) ; done; for i in $(seq 50); do sleep 0.1; n=$(grep -sl "^State:.Z" /proc/[0-9]*/status | wc -l); ' \
          '[ $i -gt 4 ] && [ $n = 0 ] && break; done; echo $n >"$0"; exec "$@"'


@pytest.mark.parametrize("producer", PRODUCERS)
def test_orphans(program, producer):
    """As process 1, the tracer must reap orphans, and the trace must be whole."""
    log = tempfile.mkdtemp(dir=os.environ["TMP"]) + "/log"
    os.chmod(os.path.dirname(log), 0o777)
    c = Command(program, producer=producer, init=True, command=["sh", "-c", ORPHANS, log + ".zombies", program, LIB, log, "0"])
    c.log = pathlib.Path(log)
    until(lambda: c.has("ready"))
    assert pathlib.Path(log + ".zombies").read_text() == "0\n"
    c.end()
    c.is_whole("terminated")


def says_what_continued(c, cnt=1):
    """A process of the command with libcuda that outlives the trace must be missing in every view, and break a gate."""
    assert Trace(c.path).end.get("continued", 0) == cnt
    found = json.loads(Ran([TRACER, "report", "--format=json", c.path]).out)
    assert found["complete"] == (not cnt) and [(x["id"], x["count"]) for x in found["lost"]] == [("continued", cnt)] * (cnt > 0)
    budget = pathlib.Path(str(c.path) + ".yaml")
    budget.write_text("limits: [{launches: 1000000}]\n")
    assert Ran([TRACER, "report", "--budget", budget, c.path]).status == (3 if cnt else 0)


@pytest.mark.parametrize("producer", PRODUCERS)
def test_outlives_a_signal(program, producer):
    """The tracer gets SIGTERM, and the command ends; its child ignores the signal and is traced no longer."""
    log = tempfile.mkdtemp(dir=os.environ["TMP"]) + "/log"
    os.chmod(os.path.dirname(log), 0o777)
    c = Command(program, producer=producer, command=["sh", "-c", '(trap "" TERM; exec "$0" "$1" "$2" 0) & wait', program, LIB, log])
    c.log = pathlib.Path(log)
    until(lambda: c.has("ready"))
    os.kill(c.p.pid, signal.SIGTERM)
    c.status()
    says_what_continued(c)
    os.kill(int(c.lines[0].split()[1]), signal.SIGKILL)


def test_outlives_without_cuda(program):
    """A child without CUDA may outlive the trace."""
    pid = tempfile.mkdtemp(dir=os.environ["TMP"]) + "/pid"
    c = Command(program, "--wait=main", command=["sh", "-c", f"sleep 60 & echo $! >{pid}"])
    assert c.status() == 0
    says_what_continued(c, 0)
    os.kill(int(pathlib.Path(pid).read_text()), signal.SIGKILL)


# The child makes calls, so that every producer records it.
LEAVES = '"$0" "$1" "$2" 0 & until grep -q ready "$2"; do sleep 0.05; done; exit 3'


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("wait,more", [("all", []), ("main", []), ("0.3", []), ("100", ["--kernel"]), ("main", ["--kernel"])])
def test_wait(program, producer, wait, more):
    log = tempfile.mkdtemp(dir=os.environ["TMP"]) + "/log"
    os.chmod(os.path.dirname(log), 0o777)
    c = Command(program, f"--wait={wait}", *more, producer=producer, command=["sh", "-c", LEAVES, program, LIB, log], quiet=False)
    c.log = pathlib.Path(log)
    if wait in ("all", "100"):
        until(lambda: "1 process that it started still runs" in c.err.read_text())
        assert c.p.poll() is None and not c.has_ended()
        os.kill(int(c.lines[0].split()[1]), signal.SIGTERM)
        assert c.status() == 3
        c.is_whole("command exited")
        assert "untraced" not in c.err.read_text()
        return
    assert c.status() == 3
    said = c.err.read_text()
    assert re.search(r"sh has exited; 1 process that it started continues untraced: takes_signals \(\d+\)\n", said), said
    assert Trace(c.path).end["reason"] == "command exited" and Trace(c.path).accounts()
    says_what_continued(c)
    os.kill(int(c.lines[0].split()[1]), signal.SIGTERM)
    until(lambda: c.lines[-1].startswith("checkpoint"))


class Terminal:
    """A trace on a private terminal."""

    def __init__(self, *args):
        self.out = b""
        self.pid, self.fd = pty.fork()
        if not self.pid:
            default_signals()
            os.environ["TERM"] = "xterm"
            os.execv(TRACER, [TRACER, *map(str, args)])

    def read(self, seconds=0.02):
        """Returns all output so far"""
        while select.select([self.fd], [], [], seconds)[0]:
            try:
                new = os.read(self.fd, 65536)
            except OSError:
                new = b""
            if not new:
                break
            self.out += new
        return self.out.decode(errors="replace")

    def status(self):
        while True:
            self.read()
            pid, rc = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(rc)


def test_terminal(program, tmp_path):
    """Ctrl-C must reach the command once, from the terminal. The second one ends the trace, and the command's output is unchanged."""
    log, path = tmp_path / "log", tmp_path / "a.jsonl"
    t = Terminal("--no-summary", "--jsonl", path, "--", program, LIB, log, "0")

    def times(sig):
        t.read()
        return log.read_text().splitlines().count(f"{int(sig)} 0") if log.exists() else 0
    until(lambda: log.exists() and "ready" in log.read_text())
    os.write(t.fd, b"\x03")
    until(lambda: times(signal.SIGINT) == 1 and "Ctrl-C again" in t.read())
    os.write(t.fd, b"\x1c")
    until(lambda: times(signal.SIGQUIT) == 1)
    # A signal sent only to the tracer does not count as the terminal's second one.
    os.kill(t.pid, signal.SIGQUIT)
    until(lambda: times(signal.SIGQUIT) == 2)
    assert times(signal.SIGINT) == 1 and b'"type":"end"' not in path.read_bytes()
    os.write(t.fd, b"\x03")
    until(lambda: times(signal.SIGINT) == 2 and "the trace has ended" in t.read())
    assert Trace(path).end["reason"] == "interrupted"
    os.kill(t.pid, signal.SIGTERM)
    assert t.status() == 5 and log.read_text().count(f"\n{int(signal.SIGINT)} 0") == 2
    # No line is overwritten, and all lines are whole.
    assert "\033" not in t.out.decode() and "events" not in t.out.decode()
    assert all(line in ("^C", "^\\", "") or "cudatrace: " in line for line in t.out.decode().replace("\r", "").split("\n")), t.out


@pytest.mark.parametrize("screen", [True, False], ids=["screen", "tables"])
def test_top(program, tmp_path, screen):
    """Signals to the process that owns the terminal must reach the command, too."""
    log = tmp_path / "log"
    t = Terminal("top", *([] if screen else ["--tables", "1000"]), "--", program, LIB, log, "0")
    until(lambda: t.read() is not None and log.exists() and "ready" in log.read_text())
    for sig in (signal.SIGUSR1, signal.SIGALRM, signal.SIGHUP, signal.SIGTERM):
        os.kill(t.pid, sig)
        until(lambda: t.read() and f"\n{int(sig)} 0" in log.read_text())
    assert t.status() == 5 and log.read_text().count(" 0\n") == 4


@pytest.mark.parametrize("how", ["terminal", "tracer"])
def test_stop_and_go_on(program, tmp_path, how):
    """Ctrl-Z, and SIGTSTP to the tracer alone, must stop both, and both must continue. A shell starts the trace, so that the group is not
    orphaned."""
    log, path = tmp_path / "log", tmp_path / "a.jsonl"
    pid, fd = pty.fork()
    if not pid:
        default_signals()
        os.execvp("bash", ["bash", "--norc", "-ic", 'set -m; "$@"; fg >/dev/null; echo "status $?"', "bash", CUDATRACE, "-q", "--jsonl", str(path), "--",
                           program, LIB, str(log), "0"])
    out = b""

    def is_there(what):
        nonlocal out
        while select.select([fd], [], [], 0.02)[0]:
            try:
                new = os.read(fd, 65536)
            except OSError:
                break
            if not new:
                break
            out += new
        return what in out.decode(errors="replace")
    until(lambda: is_there("") or log.exists() and "ready" in log.read_text())
    until(lambda: log.exists() and "ready" in log.read_text())
    tracer = next(p for p in tree(pid) if comm(p) == "cudatrace")
    command = next(p for p in tree(pid) if comm(p) == "takes_signals")
    if how == "terminal":
        os.write(fd, b"\x1a")
    else:
        os.kill(tracer, signal.SIGTSTP)
    # bash continues it at once with fg.
    until(lambda: is_there("Stopped"))
    until(lambda: state(tracer) in "SR" and state(command) in "SR")
    os.kill(tracer, signal.SIGTERM)
    until(lambda: is_there("status 5"))
    os.close(fd)
    os.waitpid(pid, 0)
    assert Trace(path).accounts() and Trace(path).end["reason"] == "terminated"


def test_preloaded(program, tmp_path):
    """With LD_PRELOAD alone, the program's signals and status must be unchanged."""
    log, path = tmp_path / "log", tmp_path / "trace"
    p = subprocess.Popen([program, LIB, str(log), "0.5"], env={**os.environ, "LD_PRELOAD": O + "/libcudatrace-inject.so", "CUDATRACE_OUT": str(path)},
                         preexec_fn=default_signals)
    until(lambda: log.exists() and "ready" in log.read_text())
    for sig in [*SENT, signal.SIGTERM]:
        os.kill(p.pid, sig)
        until(lambda: f"\n{int(sig)} 0" in log.read_text())
    assert p.wait(60) == 5
    until(lambda: path.exists() and b'"type":"end"' in path.read_bytes().splitlines()[-1])
    t = Trace(path)
    assert t.accounts() and t.sym["cuInit"] + t.sym["cuCtxSynchronize"] == int(log.read_text().split()[-1])
