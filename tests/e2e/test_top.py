# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 8
"""cudatrace top: tables with exact numbers; the screen, in tmux."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from helpers.live import Caller, compiled
from helpers.run import CUDATRACE, FAKE, INSIDE, TESTS, Ran, needs_tracing, until

ENV = {"LD_LIBRARY_PATH": FAKE}
LIB = FAKE + "/libcuda.so.1"
SAMPLE = [FAKE + "/sample", "--tokens", "2", "--quiet"]
EVIL = "\033]2;title\007\033[2Jevil\x9b5m\u202e\n"


def table(*args, env=None):
    """The only table of a command that ends before the interval does, and stderr."""
    ran = Ran([*args, "--interval", "600", "--", *SAMPLE], env={**ENV, **(env or {})})
    assert ran.status == 0, ran
    return ran.out, ran.err


@pytest.mark.parametrize("probe", ["uprobe", "inject"])
def test_exact(probe, tmp_path):
    before = [CUDATRACE, "top", "--probe=uprobe"] if probe == "uprobe" else [*INSIDE, CUDATRACE, "top", "--probe=inject"]
    if probe == "uprobe":
        needs_tracing()
    # The output of the command is not in its way.
    out, err = table(*before, "--json", env={"FAKE_CUDA_COUNTS": str(tmp_path / "counts")})
    t = json.loads(out)
    made = {s: int(n) for s, n in map(str.split, open(tmp_path / "counts", encoding="utf-8"))}
    (p,) = t["processes"]
    functions = {f["symbol"]: f["calls"] for f in p["functions"]}
    assert functions == {s: made[s] for s in functions} and {"cuLaunchKernel", "cuMemAlloc_v2", "cuCtxSynchronize"} <= set(functions)
    assert p["calls"] == t["calls"] == sum(functions.values())
    launches = re.search(r"^loaded .* (\d+) kernel launches, (\d+) graph launches$", err, re.M)
    assert p["launches"] == int(launches[1]) + int(launches[2])
    # The program requests more memory than there is, once.
    assert p["errors"] == t["errors"] == sum(f["errors"] for f in p["functions"]) == 1
    # The program frees all that it allocates, and copies the loaded data.
    assert p["device_bytes"] == 0 and p["copied_bytes"] > 90 << 20 and p["wait_ms"] > 0
    assert p["ended"] and not p["ran_before"] and p["command"] == " ".join(SAMPLE)
    assert (t["lost"], t["unlisted"], t["lost_what"]) == (0, 0, "") and t["cost_ms"] > 0 and t["not_traced"].startswith("query")


def test_text():
    needs_tracing()
    sums, lost, head, row, end, *rest = [line for line in table(CUDATRACE, "top", "--once")[0].split("\n") if not line.startswith("loaded")]
    assert re.fullmatch(r"[\d.]+ s: 1 process, [\d,]+ calls, [\d,]+ launches, [\d.]+ MiB copied, 0 B held, 1 error, tracing took [\d.]+ % of a processor", sums)
    assert lost.startswith("nothing was lost; not traced: query (")
    assert head.split() == "PID USER CALLS/S LAUNCH/S COPIED/S MEMORY WAIT ERR/S TRACING COMMAND".split()
    assert re.match(r" *\d+  \w+ +[\d,]+ ", row) and row.endswith(" ".join(SAMPLE) + " (ended)")
    assert end == "" and rest == [""]


@pytest.mark.parametrize("args,said", [
    (["--tables", "0", "--", "true"], "--tables 0: must be above 0"),
    (["--interval", "0.01"], "--interval 0.01: give 0.1 seconds to a day"),
    (["--interval", "0"], "--interval 0: give 0.1 seconds to a day"),
    (["--jsonl", "x"], "--jsonl has no meaning for cudatrace top"),
    (["--"], "COMMAND is missing"),
])
def test_usage(args, said):
    ran = Ran([CUDATRACE, "top", *args])
    assert ran.status == 2 and said in ran.err, ran


def test_status_is_the_commands():
    needs_tracing()
    ran = Ran([CUDATRACE, "top", "--once", "--interval", "0.1", "--", "sh", "-c", "sleep 0.5; exit 7"])
    assert ran.status == 7 and "0 processes, 0 calls" in ran.out, ran


@pytest.mark.parametrize("probe", ["uprobe", "inject"])
@pytest.mark.parametrize("options", [["--once"], ["--json", "--tables", "2"]])
def test_full_output(probe, options):
    """A table that cannot be written is an error; a reader that has gone is not."""
    if probe == "uprobe":
        needs_tracing()
    top = [CUDATRACE, "top", "--probe=" + probe, *options, "--interval", "0.2", "--", *SAMPLE]
    ran = Ran(["sh", "-c", '"$@" >/dev/full', "sh", *top], env=ENV)
    assert ran.status == 1 and ran.err.count("cannot write the table to standard output: No space left on device") == 1, ran
    ran = Ran(["sh", "-c", '{ "$@"; echo $? >&2; } | true', "sh", *top], env=ENV)
    assert "cannot write" not in ran.err, ran


@pytest.fixture(scope="module")
def program():
    needs_tracing()
    return compiled(os.environ["TMP"] + "/caller", TESTS + "/caller.c")


def test_no_calls(program):
    """A process that loads libcuda but makes no call must have no row."""
    ran = Ran([CUDATRACE, "top", "--json", "--interval", "600", "--", "sh", "-c", f"echo open {FAKE}/libcuda.so.1 | {program}"])
    said = "cudatrace: the table is written to stdout: the output of sh goes to stderr\n1\n"
    assert ran.err.startswith(said) and json.loads(ran.out)["processes"] == [], ran


@pytest.fixture
def caller(program):
    c = Caller(program).ready(LIB)
    yield c
    c.end()


def ended(p):
    p.send_signal(signal.SIGINT)
    return p.wait(60)


def test_running(caller):
    """Earlier calls must be in no interval, and each later call in exactly one."""
    caller.tell("fail 5")
    top = subprocess.Popen([CUDATRACE, "top", "--json", "--interval", "0.1", "--tables", "10000", "-p", str(caller.pid)], stdout=subprocess.PIPE, text=True)
    sums, told, p = {}, False, None
    while sums.get("cuMemFree_v2") != 107:
        (p,) = json.loads(top.stdout.readline())["processes"]
        for f in p["functions"]:
            sums[f["symbol"]] = sums.get(f["symbol"], 0) + f["calls"]
        if not told:
            assert caller.tell("alloc 100") == 100 and caller.tell("fail 7") == 7
            told = True
    assert sums == {"cuMemAlloc_v2": 100, "cuMemFree_v2": 107} and p["ran_before"] and not p["ended"]
    assert ended(top) == 0


def test_a_wait_that_lasts():
    """A long wait must count in the intervals in which it continues, not in the one in which it ends."""
    needs_tracing()
    top = subprocess.Popen([CUDATRACE, "top", "--json", "--interval", "0.2", "--tables", "10000", "--", *SAMPLE],
                           env={**os.environ, **ENV, "FAKE_KERNEL_US": "30000000"}, stdout=subprocess.PIPE, text=True)
    wait, calls = 0, 1
    while wait < 0.9 or calls:
        t = json.loads(top.stdout.readline())
        wait, calls = t["wait_ms"] / 1000 / t["seconds"], t["calls"]
        assert wait < 1.5
    (p,) = t["processes"]
    os.kill(p["pid"], signal.SIGKILL)
    assert top.wait(60) == 128 + signal.SIGKILL


class Screen:
    """A shell in tmux that runs a command, and then prints that it has ended."""

    def __init__(self, folder, width=120, height=24):
        if not shutil.which("tmux"):
            pytest.skip("needs tmux")
        self.tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self.run("new-session", "-d", "-x", str(width), "-y", str(height), "sh")
        self.run("set", "-g", "remain-on-exit", "on")
        self.folder = folder

    def run(self, *args):
        return subprocess.run([*self.tmux, *args], check=True, capture_output=True, text=True).stdout

    def text(self):
        return self.run("capture-pane", "-p")

    def keys(self, *keys):
        self.run("send-keys", *keys)

    def start(self, *args):
        """Starts cudatrace top; afterwards a message compares the terminal's modes."""
        script = self.folder / "script"
        script.write_text(f"cd {self.folder}; m=$(stty -g); {' '.join(map(str, args))}; echo status $?; until [ $(stty -g) = $m ]; do :; done; >after\n",
                          encoding="utf-8")
        self.keys(f". {script}", "Enter")
        until(lambda: "CALLS/S" in self.text())

    def until(self, what):
        """Returns the text when it matches."""
        until(lambda: re.search(what, self.text(), re.M))
        return self.text()

    def is_restored(self):
        until((self.folder / "after").exists)
        until(lambda: self.run("display", "-p", "#{alternate_on} #{cursor_flag} #{keypad_cursor_flag}").strip() == "0 1 0")
        return self.text()


@pytest.fixture
def screen(tmp_path):
    s = Screen(tmp_path)
    yield s
    s.run("kill-server")


def top(*args):
    return [f"LD_LIBRARY_PATH={FAKE}", CUDATRACE, "top", "--interval", "0.2", *args]


def test_screen(screen, program, caller):
    """The screen must show rows and rates of two processes; sort, dive, pause, resize and quit must work."""
    other = Caller(program, EVIL).ready(LIB)
    screen.start(*top("-p", f"{caller.pid},{other.pid}"))
    title = screen.run("display", "-p", "#{pane_title}")
    text = screen.until(rf"^ *{caller.pid} root ")
    assert "nothing was lost" in text
    # Only the printable letters of a name reach the terminal.
    assert re.search(rf"^ *{other.pid} root .*\?\]2;title\?\?\[2Jevil", text, re.M)
    assert screen.run("display", "-p", "#{pane_title}") == title
    # By process id, the highest first; then reversed.
    screen.keys("1")
    screen.until("sort: PID  ")
    first, second = (screen.text().index(f"{pid} root ") for pid in sorted((caller.pid, other.pid), reverse=True))
    assert first < second
    screen.keys("r")
    screen.until("sort: PID reversed")
    assert screen.text().index(f"{min(caller.pid, other.pid)} root ") < screen.text().index(f"{max(caller.pid, other.pid)} root ")
    # The functions of the process that makes calls.
    assert caller.tell("alloc 3") == 3 and caller.tell("fail 2") == 2
    screen.keys("Home", *["Down"] * (caller.pid > other.pid), "Enter")
    text = screen.until(rf"process {caller.pid}: caller")
    text = screen.until(r"^.* 5 cuMemFree_v2")
    assert re.search(r"^.* 3 cuMemAlloc_v2", text, re.M)
    screen.keys("Escape")
    screen.until("COMMAND")
    screen.keys("?")
    screen.until("back to all processes")
    screen.keys("?")
    screen.keys("Space")
    screen.until("PAUSED")
    screen.keys("Space")
    # A narrow screen has fewer columns, but still names.
    assert "TRACING" in screen.text()
    screen.run("resize-window", "-x", "70", "-y", "10")
    until(lambda: "TRACING" not in screen.text() and re.search(rf"^ *{caller.pid} .* caller$", screen.text(), re.M))
    screen.keys("q")
    text = screen.is_restored()
    assert "status 0" in text and "CALLS/S" not in text
    other.end()


def test_screen_of_a_command(screen):
    """The screen must show the command's row and rates. The command's output comes when the screen is gone, and its end ends the trace."""
    screen.start("FAKE_KERNEL_US=2000", *top("--probe=uprobe", "--", "sh", "-c", "'echo from the command; read x; echo read $?; exec "
                                             f"{FAKE}/sample --tokens 100000 --quiet'"))
    text = screen.until(rf"^ *\d+ root +[1-9][\d,]* +[1-9][\d,]* .* {FAKE}/sample")
    assert "from the command" not in text and "B of output will be printed at exit" in text
    screen.run("set-buffer", "x")
    pid = re.search(r"^ *(\d+) root", text, re.M)[1]
    os.kill(int(pid), signal.SIGTERM)
    text = screen.is_restored()
    assert "from the command\nread 1\n" in text and f"status {128 + signal.SIGTERM}" in text


def named(comm, cmdline):
    """The process with this name and command line."""
    (pid,) = (int(p) for p in Ran(["pgrep", "-x", comm]).out.split() if Ran(["cat", f"/proc/{p}/cmdline"]).out.replace("\0", " ").endswith(cmdline))
    return pid


@pytest.mark.parametrize("who,sig", [("", signal.SIGTERM), ("", signal.SIGKILL), ("", signal.SIGSEGV), ("-tty", signal.SIGTERM), ("-tty", signal.SIGKILL)])
def test_screen_is_left(screen, caller, who, sig):
    """The screen must be restored however the tracer or the terminal's helper ends."""
    screen.start(*top("-p", str(caller.pid)))
    os.kill(named("cudatrace" + who, f"top --interval 0.2 -p {caller.pid} "), sig)
    text = screen.is_restored()
    assert "CALLS/S" not in text
    # At once, before other output.
    assert (f"status {0 if sig == signal.SIGTERM else 128 + sig}" in text) or who


def test_no_screen(tmp_path):
    """An unknown terminal must be refused."""
    needs_tracing()
    ran = Ran(["script", "-qec", f"TERM=no-such {CUDATRACE} top -p 1", "/dev/null"])
    assert ran.status == 1 and "cannot draw on the terminal 'no-such' (TERM), which is unknown here" in ran.out, ran
